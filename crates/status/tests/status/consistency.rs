//! Whether files are equal, and which ranks read for that.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::Mutex;

use atta_entry::Errno;
use atta_status::{Answer, Contents, Digest, Options, Status, StatusError};

use crate::ranks::{mounted, on_ranks};
use Answer::{No, Yes};

/// Ranks and the parts that they digested.
type Read = BTreeSet<(u32, u64, Option<u64>)>;
type Log = Mutex<Read>;

/// The file of a rank: its size, and where it has another byte than others.
#[derive(Clone, Copy, Default)]
struct File {
    size: Option<u64>,
    other_at: Option<u64>,
    errno: Option<Errno>,
    /// It has a size, but cannot be read: a bad sector, or it changes.
    digest_errno: Option<Errno>,
}

struct Fake<'l> {
    rank: u32,
    file: File,
    log: &'l Log,
}

impl Contents for Fake<'_> {
    fn size(&self, _path: &[u8]) -> Result<Option<u64>, Errno> {
        self.file.errno.map_or(Ok(self.file.size), Err)
    }

    fn digest(&self, _path: &[u8], begin: u64, end: Option<u64>) -> Result<Digest, Errno> {
        self.log.lock().unwrap().insert((self.rank, begin, end));
        if let Some(errno) = self.file.digest_errno {
            return Err(errno);
        }
        let is_other = self.file.other_at.is_some_and(|at| at >= begin && end.is_none_or(|end| at < end));
        Ok([u8::from(is_other); 32])
    }
}

/// The answer on 16 ranks, of which each has its file on one of so many servers, and who read.
fn asked(
    servers: u32,
    options: Options,
    file: impl Fn(u32) -> File + Sync,
) -> (Result<Answer, (u32, Errno)>, Read) {
    let log = Log::default();
    let mut answers = on_ranks(16, |rank, session| {
        let table = mounted(rank, &format!("fuse.goofys b{} rw", rank % servers));
        let fake = Fake { rank, file: file(rank), log: &log };
        let status = Status::join(session, &table, options).unwrap().with_contents(&fake);
        match status.is_consistent(session, b"/m/f") {
            Ok(answer) => Ok(answer),
            Err(StatusError::Unreadable { rank, errno }) => Err((rank, errno)),
            Err(error) => panic!("{error}"),
        }
    });
    let first = answers.remove(0);
    assert!(answers.iter().all(|answer| *answer == first), "{answers:?}");
    (first, log.into_inner().unwrap())
}

fn of(size: u64) -> File {
    File { size: Some(size), ..File::default() }
}

#[test]
fn representatives_alone_read() {
    let (answer, read) = asked(2, Options::default(), |_| of(1000));
    assert_eq!((answer, read), (Ok(Yes), [(0, 0, None), (1, 0, None)].into()));
    // What other ranks have does not count: they see the same files as their representatives.
    let other = |rank| File { other_at: (rank == 1).then_some(5), ..of(1000) };
    let (answer, read) = asked(2, Options::default(), other);
    assert_eq!((answer, read.len()), (Ok(No), 2));
}

#[test]
fn sizes_that_differ_are_enough() {
    let (answer, read) = asked(4, Options::default(), |rank| of(if rank == 3 { 7 } else { 8 }));
    assert_eq!((answer, read.len()), (Ok(No), 0));
    let some = |rank| if rank == 2 { File::default() } else { of(8) };
    assert_eq!(asked(4, Options::default(), some), (Ok(No), BTreeSet::new()));
}

#[test]
fn empty_files_are_read_to_their_end() {
    // Sizes of what the kernel makes while it is read are 0.
    let other = |rank| File { other_at: (rank == 1).then_some(5), ..of(0) };
    assert_eq!(asked(2, Options::default(), other).0, Ok(No));
    assert_eq!(asked(2, Options::default(), |_| of(0)).0, Ok(Yes));
}

#[test]
fn rank_that_cannot_read_is_named_on_all() {
    let denied = Errno(13);
    let file = |rank| File { errno: [1, 3].contains(&rank).then_some(denied), ..of(8) };
    assert_eq!(asked(4, Options::default(), file).0, Err((1, denied)));
    assert_eq!(asked(4, Options::default(), |_| File::default()).0, Err((0, Errno::NOENT)));
}

// All ranks get the same error, also those that read nothing, and although others find a difference.
#[test]
fn rank_that_cannot_digest_is_named_on_all() {
    let file = |rank| File {
        digest_errno: [1, 2].contains(&rank).then_some(Errno::IO),
        other_at: (rank == 3).then_some(5),
        ..of(8)
    };
    assert_eq!(asked(4, Options::default(), file).0, Err((1, Errno::IO)));
    // A rank that reads no part does not count, and one that reads a part of a large file does.
    let one = |at: u32, size: u64| {
        move |rank| File { digest_errno: (rank == at).then_some(Errno::AGAIN), ..of(size) }
    };
    assert_eq!(asked(4, Options::default(), one(15, 8)).0, Ok(Yes));
    assert_eq!(asked(4, Options::default(), one(11, 1 << 30)).0, Err((11, Errno::AGAIN)));
    // Each rank reads.
    let options = Options { classes_max: 3, ..Options::default() };
    assert_eq!(asked(8, options, one(15, 8)).0, Err((15, Errno::AGAIN)));
}

#[test]
fn large_files_are_read_in_shares() {
    const SIZE: u64 = (10 << 30) + 3;
    // Groups have 6, 5 and 5 ranks.
    let (answer, read) = asked(3, Options::default(), |_| of(SIZE));
    assert_eq!(answer, Ok(Yes));
    for group in 0..3 {
        let parts: Vec<_> = read.iter().filter(|(rank, ..)| rank % 3 == group).collect();
        assert_eq!(parts.len(), 5);
        let mut begin = 0;
        for (at, (rank, from, to)) in (0..).zip(parts) {
            assert_eq!((*rank, *from), (group + 3 * at, begin));
            begin = to.unwrap_or(SIZE);
        }
        assert_eq!(begin, SIZE, "the whole file, each part once");
    }
    // One byte in the fourth share, which rank 10 reads.
    let other = |rank| File { other_at: (rank == 10).then_some(7 << 30), ..of(SIZE) };
    assert_eq!(asked(3, Options::default(), other).0, Ok(No));
    // Less than two shares.
    assert_eq!(asked(3, Options::default(), |_| of(64 << 20)).1.len(), 3);
}

#[test]
fn every_rank_reads_where_groups_are_too_many() {
    let options = Options { classes_max: 3, ..Options::default() };
    let (answer, read) = asked(8, options, |_| of(SHARED));
    assert_eq!((answer, read), (Ok(Yes), (0..16).map(|rank| (rank, 0, None)).collect()));
    let other = |rank| File { other_at: (rank == 15).then_some(5), ..of(SHARED) };
    assert_eq!(asked(8, options, other).0, Ok(No));
}

/// Larger than a share, which makes no difference there.
const SHARED: u64 = 1 << 30;

#[test]
fn copies_on_hosts_are_compared_by_their_bytes() {
    let scratch = atta_testkit::scratch::Scratch::new("status").unwrap();
    for (name, bytes) in [("a", b"same"), ("b", b"same"), ("c", b"some")] {
        std::fs::write(scratch.join(name), bytes).unwrap();
    }
    let answer = |names: [&str; 3]| {
        on_ranks(3, |rank, session| {
            let table = mounted(rank, "tmpfs none rw");
            let status = Status::join(session, &table, Options::default()).unwrap();
            let path = scratch.join(names[rank as usize]).into_os_string().into_vec();
            status.is_consistent(session, &path).unwrap()
        })
    };
    assert_eq!(answer(["a", "b", "a"]), [Yes; 3]);
    assert_eq!(answer(["a", "b", "c"]), [No; 3]);
}

// The name of a path follows no links, so the file that a link leads to would be compared under the name of another one.
#[test]
fn links_are_refused_in_paths_that_are_read() {
    let scratch = atta_testkit::scratch::Scratch::new("status").unwrap();
    let top = atta_mounts::resolved(&scratch.join("").into_os_string().into_vec()).unwrap();
    std::fs::create_dir(scratch.join("directory")).unwrap();
    std::fs::write(scratch.join("directory/a"), "same").unwrap();
    std::os::unix::fs::symlink("directory", scratch.join("link")).unwrap();
    std::os::unix::fs::symlink("directory/a", scratch.join("b")).unwrap();
    let answer = |path: &[u8]| {
        let path = [&top[..], path].concat();
        let mut found = on_ranks(2, |rank, session| {
            let table = mounted(rank, "tmpfs none rw");
            let status = Status::join(session, &table, Options::default()).unwrap();
            status.is_consistent(session, &path)
        });
        assert_eq!(found[0].as_ref().ok(), found[1].as_ref().ok());
        found.remove(0).map_err(|error| error.to_string())
    };
    assert_eq!(answer(b"/directory/a"), Ok(Yes));
    // Parts that the name does not have.
    assert_eq!(answer(b"/directory/../directory//./a/"), Ok(Yes));
    assert_eq!(answer(b"/link/../directory/a"), Ok(Yes));
    for link in [&b"/link/a"[..], b"/b"] {
        let error = answer(link).unwrap_err();
        assert!(error.contains("symbolic link") && error.contains("resolve"), "{error}");
    }
}
