//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_testkit::fuzz::Target;

use crate::mount_line::MountLine;

/// A line, read and written again.
fn again(line: &[u8]) -> Option<Vec<u8>> {
    let read = MountLine::from_bytes(line)?;
    let (major, minor) = read.device;
    let mut out = format!("{} {} {major}:{minor}", read.id, read.parent).into_bytes();
    for field in [read.root, read.point, read.options] {
        out.extend([b" ", field].concat());
    }
    out.extend([if read.tags.is_empty() { &b""[..] } else { b" " }, read.tags, b" -"].concat());
    for field in [read.kind, read.source, read.super_options] {
        out.extend([b" ", field].concat());
    }
    Some(out)
}

fn targets() -> Vec<Target> {
    let lines = [
        &b"36 35 98:0 /mnt1 /a\\040b rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue"[..],
        b"1 1 0:5 / / rw - tmpfs  rw",
    ];
    let samples = lines.map(<[u8]>::to_vec).to_vec();
    // Numbers may begin with zeros.
    vec![Target::new("mount_line.rs: from_bytes", samples, again).of_several_encodings()]
}

atta_testkit::fuzz_tests!(targets);
