//! How long the mount table takes to read, and a path to name; and that no system call is made for a path. The measured tables are made up:
//! NFS exports, parallel file systems, local disks and bind mounts, as hosts of a cluster have them, with paths of five to ten names. No
//! time is asserted:
//!
//! ```text
//! cargo test --release -p atta-mounts --test speed -- --ignored --nocapture times
//! ```

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use atta_mounts::{Host, LiveTable, MountTable, Silent, SystemProbes};
use atta_testkit::random::Random;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;

/// How often 100 paths are named; each table is read a tenth as often.
const ROUNDS: usize = 2000;

/// A line of the table, and where it is mounted.
fn line(id: usize, random: &mut Random) -> (String, String) {
    let group = ["home", "work", "data", "software"][random.below(4) as usize];
    let point = match id % 3 {
        0 => format!("/{group}/project{id}"),
        1 => format!("/{group}/site/volume{id}"),
        _ => format!("/run/containers/pod{id}/volumes/{group}"),
    };
    let mounted = match id % 6 {
        0 => format!(
            "0:{id} / {point} rw,relatime shared:{id} - nfs4 filer{}:/export/{group}/{id} rw,vers=4.2,hard,proto=tcp,clientaddr=10.1.0.9,addr=10.1.0.{}",
            id % 7,
            id % 7
        ),
        1 => format!(
            "0:{id} / {point} rw,relatime shared:{id} - lustre 10.0.0.1@o2ib:10.0.0.2@o2ib:/scratch{id} rw,flock,lazystatfs"
        ),
        2 => format!("8:{id} / {point} rw,relatime shared:{id} - xfs /dev/sd{id} rw,attr2,inode64,noquota"),
        3 => format!("8:1 /var/lib/{group}/{id} {point} rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw"),
        4 => format!("0:{id} / {point} rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755"),
        _ => format!(
            "0:{id} / {point} rw,relatime - ceph admin@0a1b2c3d-0000-1111-2222-333344445555.fs{id}=/v rw,acl"
        ),
    };
    (format!("{id} 1 {mounted}\n"), point)
}

fn table(mounts: usize) -> (String, Vec<String>) {
    let mut random = Random::new(mounts as u64);
    let mut text = "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n".to_owned();
    let mut points = vec![String::new()];
    for id in 2..=mounts {
        let (line, point) = line(id, &mut random);
        text += &line;
        points.push(point);
    }
    (text, points)
}

/// Middle and 99th of 100 values.
fn quantiles(mut nanoseconds: Vec<u64>) -> (u64, u64) {
    nanoseconds.sort_unstable();
    (nanoseconds[nanoseconds.len() / 2], nanoseconds[nanoseconds.len() * 99 / 100])
}

/// Nanoseconds that a call took.
fn timed<T>(call: impl FnOnce() -> T) -> u64 {
    let start = Instant::now();
    black_box(call());
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// A row of the result.
fn measured(mounts: usize) -> String {
    let (text, points) = table(mounts);
    let probes = Silent::on(Host::new(b"3f0c7d9e-0000-4000-8000-000000000000", b"node1"));
    let reads = (0..ROUNDS / 10).map(|_| timed(|| MountTable::from_bytes(text.as_bytes(), &probes)));
    let (read, read_99) = quantiles(reads.collect());
    let table = MountTable::from_bytes(text.as_bytes(), &probes).expect("a table");
    let mut random = Random::new(7);
    let path = |number| {
        let point = &points[random.below(points.len() as u64) as usize];
        format!("{point}/user{number}/run-0017/output/part-{number}.h5")
    };
    let paths: Vec<String> = (0..100).map(path).collect();
    let names = (0..ROUNDS).flat_map(|_| paths.iter().map(|path| timed(|| table.uri_of(path.as_bytes()))));
    let (name, name_99) = quantiles(names.collect());
    let uris = paths.iter().filter_map(|path| table.uri_of(path.as_bytes()));
    let (hash, hash_99) = quantiles(uris.flat_map(|uri| [(); 20].map(|()| timed(|| uri.hash()))).collect());
    let bytes = text.len();
    format!("{mounts:>6} {bytes:>9} {read:>9} {read_99:>9} {name:>9} {name_99:>9} {hash:>9} {hash_99:>9}")
}

#[test]
#[ignore = "measures"]
fn times_of_tables_and_paths() {
    println!("nanoseconds, with two readings of the clock; p50 and p99");
    println!(
        "{:>6} {:>9} {:>19} {:>19} {:>19}",
        "mounts", "bytes", "read a table", "name a path", "hash a name"
    );
    for mounts in [10, 100, 1000] {
        println!("{}", measured(mounts));
    }
}

/// What stands around the queries in the trace.
const MARKS: [&str; 2] = ["mark: begin", "mark: end"];

#[test]
#[ignore = "runs below strace"]
fn names_between_marks() {
    let live = LiveTable::read(Box::new(SystemProbes::new().unwrap())).unwrap();
    eprintln!("{}", MARKS[0]);
    let uris = ["/etc/./passwd", "/no/such/file", "/proc/../usr//bin/"]
        .map(|path| live.table().uri_of(path.as_bytes()));
    eprintln!("{}", MARKS[1]);
    assert!(uris.iter().all(Option::is_some));
}

#[test]
fn no_system_call_is_made_for_a_path() {
    let test = "no_system_call_is_made_for_a_path";
    let scratch = Scratch::new("trace").unwrap();
    let mut traced = Command::new("strace");
    traced.arg("-f").arg("-o").arg(scratch.join("trace")).arg(std::env::current_exe().unwrap());
    traced.args(["--exact", "names_between_marks", "--ignored", "--nocapture"]);
    let Ok(output) = traced.output() else { return skip::skipped(test, "strace is not installed") };
    if String::from_utf8_lossy(&output.stderr).contains("ptrace") {
        return skip::skipped(test, "it may not trace");
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = std::fs::read_to_string(scratch.join("trace")).unwrap();
    let mut lines = trace.lines().skip_while(|line| !line.contains(MARKS[0]));
    let begin = lines.next().expect("a mark");
    let (thread, _) = begin.split_once(' ').unwrap();
    let between: Vec<_> =
        lines.take_while(|line| !line.contains(MARKS[1])).filter(|line| line.starts_with(thread)).collect();
    // The marks are written in parts, and the allocator may ask for memory.
    let is_call =
        |line: &&&str| !["write(", "brk(", "mmap(", "munmap("].iter().any(|call| line.contains(call));
    assert_eq!(between.iter().filter(is_call).collect::<Vec<_>>(), [&""; 0]);
}
