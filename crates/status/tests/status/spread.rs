//! Multicast reads: who opens the file, and what each rank gets.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use atta_code::Code;
use atta_entry::Errno;
use atta_runtime::{RankError, Session, Stop};
use atta_status::{
    Alone, Collective, Facts, Files, Options, Ranks, ReadError, SourceFile, Sources, Status, SystemFiles,
};

use crate::ranks::{Knows, mounted, on_ranks};

/// The file of a rank.
#[derive(Clone, Copy)]
struct File {
    size: u64,
    /// What its bytes follow from.
    seed: u8,
    open: Option<Errno>,
    /// Reading at this offset fails.
    fails_at: Option<u64>,
    changes: bool,
}

const GOOD: File = File { size: 3_000_000, seed: 0, open: None, fails_at: None, changes: false };

fn byte(seed: u8, at: u64) -> u8 {
    (at % 251) as u8 ^ seed
}

/// Opens the file of a rank, and writes down who has.
struct Counting<'l> {
    rank: u32,
    file: File,
    opened: &'l Mutex<Vec<u32>>,
}

impl Files for Counting<'_> {
    fn open(&self, path: &[u8]) -> Result<Box<dyn SourceFile>, Errno> {
        assert_eq!(path, b"/m/f");
        self.opened.lock().unwrap().push(self.rank);
        self.file.open.map_or_else(|| Ok(Box::new(self.file) as Box<dyn SourceFile>), Err)
    }
}

impl SourceFile for File {
    fn facts(&self) -> Facts {
        Facts { size: self.size, mode: 0o640, ..Facts::default() }
    }

    fn read_at(&mut self, bytes: &mut [u8], at: u64) -> Result<usize, Errno> {
        if self.fails_at.is_some_and(|fails| at >= fails) {
            return Err(Errno::IO);
        }
        // Never as much as is asked for.
        let count = bytes.len().min(70_000).min((self.size - at) as usize);
        bytes[..count].iter_mut().zip(at..).for_each(|(byte_at, at)| *byte_at = byte(self.seed, at));
        Ok(count)
    }

    fn is_unchanged(&self) -> Result<bool, Errno> {
        Ok(!self.changes)
    }
}

/// What ranks choose.
enum Choice {
    Usual,
    Lending,
    Once,
    Stopped(Stop),
}

/// The bytes of a rank, as the seed of their file; or why it got none. None: it wanted none.
type Got = Option<Result<u8, ReadError>>;

const RANKS: u32 = 12;
/// Files on as many servers as there are ranks are poorly distributed.
const FEW: Options =
    Options { ranks_per_server: 1, classes_max: 64, servers_max: 1000, assume_servers_differ: false };

/// Reads on ranks that each have a mount at `/m`. Returns what they got, and who opened the file.
fn spread(
    mount: impl Fn(u32) -> String + Sync,
    file: impl Fn(u32) -> File + Sync,
    among: &Ranks,
    choice: &Choice,
) -> (Vec<Got>, Vec<u32>) {
    let opened = Mutex::new(Vec::new());
    let got = on_ranks(RANKS, |rank, session| {
        let table = mounted(rank, &mount(rank));
        let files = Counting { rank, file: file(rank), opened: &opened };
        let status = Status::join(session, &table, FEW).unwrap().with_files(&files);
        read(session, &status, among, choice)
    });
    let mut opened = opened.into_inner().unwrap();
    opened.sort_unstable();
    (got, opened)
}

fn read<C: Collective>(collective: &mut C, status: &Status<'_>, among: &Ranks, choice: &Choice) -> Got {
    let sources = Sources::find(collective, status, b"/m/f").unwrap();
    let mut sources = match choice {
        Choice::Usual => sources,
        Choice::Lending => sources.lending(),
        Choice::Once => sources.once(),
        Choice::Stopped(stop) => sources.with_stop(stop.clone()),
    };
    let mut bytes = Vec::new();
    let received = sources.read(collective, among, |part| bytes.extend_from_slice(part)).unwrap();
    received.map(|received| {
        received.map(|received| {
            assert_eq!(received.size, bytes.len() as u64);
            assert_eq!(received.digest, *blake3::hash(&bytes).as_bytes());
            let seed = bytes[0];
            assert!(bytes.iter().zip(0..).all(|(found, at)| *found == byte(seed, at)));
            seed
        })
    })
}

fn ranks(all: impl IntoIterator<Item = u32>) -> Ranks {
    all.into_iter().fold(Ranks::default(), |mut ranks, rank| {
        ranks.add(&Ranks::of(rank));
        ranks
    })
}

fn everyone() -> Ranks {
    ranks(0..RANKS)
}

fn export(_rank: u32) -> String {
    "nfs4 10.0.0.5:/e rw".to_owned()
}

/// One of three servers, which differ for certain.
fn servers(rank: u32) -> String {
    format!("fuse.goofys b{} rw", rank % 3)
}

fn local(_rank: u32) -> String {
    "tmpfs none rw".to_owned()
}

#[test]
fn unique_file_is_opened_once() {
    let (got, opened) = spread(export, |_| GOOD, &everyone(), &Choice::Usual);
    assert_eq!((got, opened), (vec![Some(Ok(0)); RANKS as usize], vec![0]));
}

#[test]
fn each_source_is_opened_once_for_its_ranks() {
    let seed = |rank| File { seed: (rank % 3) as u8, size: 100_000 * u64::from(rank % 3 + 1), ..GOOD };
    let (got, opened) = spread(servers, seed, &everyone(), &Choice::Usual);
    let expected: Vec<Got> = (0..RANKS).map(|rank| Some(Ok((rank % 3) as u8))).collect();
    assert_eq!((got, opened), (expected, vec![0, 1, 2]));
}

#[test]
fn well_distributed_file_is_read_by_each_rank() {
    let seed = |rank| File { seed: rank as u8, ..GOOD };
    let some = ranks([0, 1, 5]);
    let (got, opened) = spread(local, seed, &some, &Choice::Usual);
    let expected: Vec<Got> =
        (0..RANKS).map(|rank| [0, 1, 5].contains(&rank).then_some(Ok(rank as u8))).collect();
    assert_eq!(got, expected);
    // Each is the first of its group, which looks at the file.
    assert_eq!(opened, (0..RANKS).collect::<Vec<_>>());
}

#[test]
fn ranks_that_want_nothing_get_nothing() {
    for among in [ranks([4, 11]), ranks([0]), ranks([])] {
        let (got, opened) = spread(export, |_| GOOD, &among, &Choice::Usual);
        let expected: Vec<Got> = (0..RANKS).map(|rank| among.contains(rank).then_some(Ok(0))).collect();
        assert_eq!((got, opened), (expected, vec![0]), "{among:?}");
    }
}

#[test]
fn failure_of_a_reader_is_an_error_of_its_group() {
    let cases = [
        (File { open: Some(Errno::ACCES), ..GOOD }, Errno::ACCES),
        (File { fails_at: Some(1_000_000), ..GOOD }, Errno::IO),
        (File { changes: true, ..GOOD }, Errno::AGAIN),
    ];
    for (bad, errno) in cases {
        let file = |rank| if rank == 1 { bad } else { GOOD };
        let (got, opened) = spread(servers, file, &everyone(), &Choice::Usual);
        let error = ReadError::Unreadable { rank: 1, errno };
        let expected: Vec<Got> =
            (0..RANKS).map(|rank| Some(if rank % 3 == 1 { Err(error) } else { Ok(0) })).collect();
        assert_eq!((got, opened), (expected, vec![0, 1, 2]), "{errno}");
    }
    // Where each rank reads, it alone fails, and does not try again.
    let file = |rank| if rank == 1 { cases[0].0 } else { GOOD };
    let (got, opened) = spread(local, file, &everyone(), &Choice::Usual);
    let error = ReadError::Unreadable { rank: 1, errno: Errno::ACCES };
    let expected: Vec<Got> =
        (0..RANKS).map(|rank| Some(if rank == 1 { Err(error) } else { Ok(0) })).collect();
    assert_eq!((got, opened.len()), (expected, RANKS as usize));
}

/// Only the host of rank 5 has the file, which is local.
#[test]
fn ranks_without_the_file_get_that_of_another() {
    let file = |rank| File { open: (rank != 5).then_some(Errno::NOENT), seed: 9, ..GOOD };
    let (got, _) = spread(local, file, &everyone(), &Choice::Lending);
    assert_eq!(got, vec![Some(Ok(9)); RANKS as usize]);
    let (got, _) = spread(local, file, &ranks([0, 3]), &Choice::Lending);
    assert_eq!(got.iter().filter(|got| **got == Some(Ok(9))).count(), 2);
    // Not unless that is asked for.
    let (got, _) = spread(local, file, &everyone(), &Choice::Usual);
    let error = ReadError::Unreadable { rank: 3, errno: Errno::NOENT };
    assert_eq!((got[3], got[5]), (Some(Err(error)), Some(Ok(9))));
}

#[test]
fn ranks_of_one_host_read_its_file_once_on_request() {
    let opened = Mutex::new(Vec::new());
    for (is_once, opens) in [(false, RANKS as usize), (true, 1)] {
        opened.lock().unwrap().clear();
        let got = on_ranks(RANKS, |rank, session| {
            let table = mounted(0, "tmpfs none rw");
            let files = Counting { rank, file: GOOD, opened: &opened };
            let status = Status::join(session, &table, FEW).unwrap().with_files(&files);
            let choice = if is_once { Choice::Once } else { Choice::Usual };
            read(session, &status, &everyone(), &choice)
        });
        assert_eq!(got, vec![Some(Ok(0)); RANKS as usize]);
        assert_eq!(opened.lock().unwrap().len(), opens);
    }
}

#[test]
fn request_to_end_reaches_all_of_a_group() {
    let stop = Stop::new();
    stop.set();
    let (got, _) = spread(export, |_| GOOD, &everyone(), &Choice::Stopped(stop));
    let error = ReadError::Unreadable { rank: 0, errno: Errno::INTR };
    assert_eq!(got, vec![Some(Err(error)); RANKS as usize]);
}

#[test]
fn small_files_come_as_vectors() {
    let opened = Mutex::new(Vec::new());
    for (most, expected) in [(1000, Ok(1000)), (999, Err(Errno::FBIG))] {
        let got = on_ranks(RANKS, |rank, session| {
            let table = mounted(rank, &export(rank));
            let files = Counting { rank, file: File { size: 1000, ..GOOD }, opened: &opened };
            let status = Status::join(session, &table, FEW).unwrap().with_files(&files);
            let mut sources = Sources::find(session, &status, b"/m/f").unwrap();
            sources.read_small(session, &everyone(), most).unwrap().unwrap()
        });
        for got in got {
            let got = got.map(|bytes| bytes.len()).map_err(|error| match error {
                ReadError::Unreadable { rank: 0, errno } => errno,
                error => panic!("{error}"),
            });
            assert_eq!(got, expected);
        }
    }
}

/// Ranks whose fabric has nothing but the three calls that it must have.
struct Plain<'s, 'e>(&'s mut Session<'e>);

impl Collective for Plain<'_, '_> {
    type Error = RankError;

    fn rank(&self) -> u32 {
        self.0.rank()
    }

    fn size(&self) -> u32 {
        self.0.size()
    }

    fn reduce<T: Code>(&mut self, own: T, merge: impl FnMut(&mut T, T)) -> Result<Option<T>, RankError> {
        self.0.reduce(own, merge)
    }

    fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, RankError> {
        self.0.broadcast(value)
    }

    fn multicast<T: Code>(&mut self, group: &Ranks, value: Option<T>) -> Result<Option<T>, RankError> {
        Collective::multicast(self.0, group, value)
    }
}

#[test]
fn fabric_without_its_own_multicast_of_parts_serves() {
    let opened = Mutex::new(Vec::new());
    let got = on_ranks(RANKS, |rank, session| {
        let table = mounted(rank, &servers(rank));
        let files = Counting { rank, file: File { seed: (rank % 3) as u8, ..GOOD }, opened: &opened };
        let mut plain = Plain(session);
        let status = Status::join(&mut plain, &table, FEW).unwrap().with_files(&files);
        read(&mut plain, &status, &everyone(), &Choice::Usual)
    });
    let expected: Vec<Got> = (0..RANKS).map(|rank| Some(Ok((rank % 3) as u8))).collect();
    assert_eq!((got, opened.into_inner().unwrap().len()), (expected, 3));
}

#[test]
fn process_alone_reads_real_files() {
    let scratch = atta_testkit::scratch::Scratch::new("spread").unwrap();
    let path = |name: &str| scratch.join(name).into_os_string().into_encoded_bytes();
    std::fs::write(scratch.join("file"), vec![7; 2_500_000]).unwrap();
    std::fs::write(scratch.join("empty"), b"").unwrap();
    let table = Knows::on(0).table(&[]);
    let status = Status::join(&mut Alone, &table, FEW).unwrap().with_files(&SystemFiles);
    let get = |path: &[u8]| {
        let mut sources = Sources::find(&mut Alone, &status, path).unwrap().once();
        sources.read_small(&mut Alone, &Ranks::of(0), 1 << 30).unwrap().unwrap()
    };
    assert_eq!(get(&path("file")), Ok(vec![7; 2_500_000]));
    assert_eq!(get(&path("empty")), Ok(Vec::new()));
    // The kernel makes it while it is read.
    assert_eq!(get(b"/proc/version").unwrap(), std::fs::read("/proc/version").unwrap());
    for (path, errno) in
        [(path(""), Errno::ISDIR), (path("none"), Errno::NOENT), (b"/dev/null".to_vec(), Errno::INVAL)]
    {
        assert_eq!(get(&path), Err(ReadError::Unreadable { rank: 0, errno }));
    }
}

/// A thread appends while the file is read.
#[test]
fn file_that_grows_while_it_is_read_is_refused() {
    let scratch = atta_testkit::scratch::Scratch::new("spread").unwrap();
    let path = scratch.join("file");
    std::fs::write(&path, vec![1; 8 << 20]).unwrap();
    let table = Knows::on(0).table(&[]);
    let status = Status::join(&mut Alone, &table, FEW).unwrap();
    let name = path.as_os_str().as_encoded_bytes();
    let mut sources = Sources::find(&mut Alone, &status, name).unwrap();
    let grown = AtomicBool::new(false);
    let read = sources.read(&mut Alone, &Ranks::of(0), |_| {
        if !grown.swap(true, Ordering::Relaxed) {
            use std::io::Write as _;
            std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more").unwrap();
        }
    });
    assert_eq!(read.unwrap(), Some(Err(ReadError::Unreadable { rank: 0, errno: Errno::AGAIN })));
}
