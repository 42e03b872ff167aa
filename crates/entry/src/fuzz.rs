//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::{Change, Code, Detail, Difference, Errno, Kind, Side, Timestamp};

fn targets() -> Vec<Target> {
    let time = Timestamp { seconds: -1, nanoseconds: 999_999_999 };
    let details = || {
        vec![
            Detail::Type(Kind::File, Kind::Fifo),
            Detail::Owner((0, 1), (2, u32::MAX)),
            Detail::Mtime(time, time),
            Detail::Xattrs(vec![b"user.\xff".to_vec(), Vec::new()]),
            Detail::Links(Side::Source, b"x/y".to_vec()),
            Detail::Digest(None, Some([7; 32])),
        ]
    };
    let different = || Change::Different(details());
    let difference = |change| Difference { path: b"a/b".to_vec().into(), kind: Kind::File, change };
    vec![
        fuzz_code!("errno.rs: Errno", Errno, [Errno::IO, Errno(-1)]),
        fuzz_code!("metadata.rs: Timestamp", Timestamp, [time]),
        fuzz_code!("kind.rs: Kind", Kind, [Kind::Unknown]),
        fuzz_code!("difference.rs: Side", Side, [Side::Source, Side::Target]),
        fuzz_code!("difference.rs: Detail", Detail, [details().remove(3), details().remove(5)]),
        fuzz_code!("difference.rs: Change", Change, [Change::Missing, different()]),
        fuzz_code!(
            "difference.rs: Difference",
            Difference<'_>,
            [difference(Change::Extra), difference(different())]
        ),
    ]
}

atta_testkit::fuzz_tests!(targets);
