//! How long it takes to read the logs of a job that was killed, and how much memory. The logs are those of ranks that walk a random tree
//! depth first and take half of what another has when they run out. It measures no walk. Also what each step takes when as many ranks as there are logs
//! read them together; there are no messages.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use atta_entry::Code as _;
use atta_ledger::{
    At, Broken, Extent, Fact, Fold, Frame, FrameAt, Key, Left, LogBytes, LogName, Logs, Open, PartRead,
    Records, Selected, SomeLogs, frame, read,
};
use atta_testkit::random::Random;
use clap::Parser;

/// Writes logs of a job, then folds them.
#[derive(Parser)]
struct Arguments {
    /// An empty directory for the logs.
    directory: PathBuf,
    /// Directories of the tree that are done when the job is killed.
    #[arg(long, default_value_t = 10_000_000)]
    directories: u64,
    /// Logs.
    #[arg(long, default_value_t = 16)]
    logs: u32,
    /// Memory for the fold, in MiB.
    #[arg(long, default_value_t = 256)]
    memory: usize,
}

/// Records of a frame.
const FRAME: usize = 256 << 10;

struct Rank {
    name: LogName,
    log: BufWriter<File>,
    bytes: u64,
    frames: u64,
    records: Records,
    /// Paths of directories that were found.
    found: Vec<Vec<u8>>,
}

impl Rank {
    fn flush(&mut self, key: &Key) -> std::io::Result<()> {
        let head = Frame { offset: self.bytes, sequence: self.frames, synced: 0 };
        let bytes = frame(key, self.name, head, &[self.records.take()])
            .ok_or_else(|| std::io::Error::other("a frame is too large"))?;
        self.bytes += bytes.len() as u64;
        self.frames += 1;
        self.log.write_all(&bytes)
    }

    /// Reads a directory.
    fn walk(&mut self, random: &mut Random, path: &[u8]) {
        let depth = path.iter().filter(|byte| **byte == b'/').count();
        let count = match depth {
            0..3 => 60,
            3..14 => random.below(4),
            _ => 0,
        };
        let at = At { root: 0, path };
        for number in 0..count {
            let name = format!("directory{number:02}");
            self.records.add_fact(at, &Fact::Found { name: name.as_bytes(), mark: 0 });
            let slash: &[u8] = if path.is_empty() { b"" } else { b"/" };
            self.found.push([path, slash, name.as_bytes()].concat());
        }
        self.records.add_fact(at, &Fact::Done { slice: None, seen: None });
    }
}

fn write_logs(arguments: &Arguments, key: &Key) -> std::io::Result<(Vec<LogName>, u64)> {
    let mut random = Random::new(1);
    let mut ranks = Vec::new();
    for rank in 0..arguments.logs {
        let name = LogName { run: 1, rank, part: 0 };
        let log = BufWriter::new(File::create(arguments.directory.join(name.to_string()))?);
        ranks.push(Rank { name, log, bytes: 0, frames: 0, records: Records::default(), found: Vec::new() });
    }
    ranks[0].found.push(Vec::new());
    for turn in 0..arguments.directories {
        let at = (turn % u64::from(arguments.logs)) as usize;
        if ranks[at].found.is_empty() {
            let Some(rich) = ranks.iter_mut().max_by_key(|rank| rank.found.len()) else { break };
            let half = rich.found.len().div_ceil(2);
            // What leaves is in the log before.
            rich.flush(key)?;
            let taken: Vec<_> = rich.found.drain(..half).collect();
            ranks[at].found = taken;
        }
        let rank = &mut ranks[at];
        let Some(path) = rank.found.pop() else { continue };
        rank.walk(&mut random, &path);
        if rank.records.bytes() >= FRAME {
            rank.flush(key)?;
        }
    }
    for rank in &mut ranks {
        rank.flush(key)?;
        rank.log.flush()?;
    }
    Ok((ranks.iter().map(|rank| rank.name).collect(), ranks.iter().map(|rank| rank.bytes).sum()))
}

struct InFile(File);

impl LogBytes for InFile {
    type Error = std::io::Error;

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < into.len() {
            match self.0.read_at(&mut into[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }
}

struct Files<'a> {
    directory: &'a Path,
    key: &'a Key,
    names: Vec<LogName>,
}

impl Logs for Files<'_> {
    type Error = Broken<std::io::Error>;

    fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error> {
        for name in &self.names {
            let file = File::open(self.directory.join(name.to_string())).map_err(Broken::Unreadable)?;
            let each =
                &mut |offset, frame: &[u8]| each(FrameAt { log: *name, offset, voided_by: None }, frame);
            read((self.key, *name), &mut InFile(file), None, each)?;
        }
        Ok(())
    }
}

/// The most memory that this process has had so far, in KiB.
fn peak() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok());
    number.ok_or_else(|| std::io::Error::other("/proc/self/status has no VmHWM"))
}

#[expect(clippy::print_stdout, reason = "the result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let key = Key::of_job(&[5; 16]);
    let (names, bytes) = write_logs(&arguments, &key)?;
    let (before, began) = (peak()?, Instant::now());
    let fold = Fold { key, closes: false, memory: arguments.memory << 20 };
    let mut logs = Files { directory: &arguments.directory, key: &key, names: names.clone() };
    let (mut left, mut complete) = (0_u64, 0_u64);
    fold.run(&mut logs, &mut |found| match found {
        Left::Directory(..) => left += 1,
        Left::Complete(_) => complete += 1,
        _ => {}
    })
    .map_err(|error| format!("{error:?}"))?;
    println!(
        "{} directories done, {} logs, {:.1} bytes each: folded in {:.2} s, {left} directories left, {complete} to pass by, peak {} KiB ({before} before)",
        arguments.directories,
        arguments.logs,
        bytes as f64 / arguments.directories as f64,
        began.elapsed().as_secs_f64(),
        peak()?,
    );
    let together = read_together(&fold, (&arguments.directory, &names), (left, complete))?;
    println!("read together: {together}");
    Ok(())
}

/// Reads each log for itself, as its rank would. Returns what each step takes. `expected`: how many directories are left, and how many to be passed by.
fn read_together(
    fold: &Fold,
    (directory, names): (&Path, &[LogName]),
    expected: (u64, u64),
) -> Result<String, Box<dyn std::error::Error>> {
    let (mut reading, mut read, mut open_bytes) = (Vec::new(), Vec::new(), Vec::new());
    for name in names {
        let began = Instant::now();
        let file = InFile(File::open(directory.join(name.to_string()))?);
        let mut logs = SomeLogs::new(&fold.key, vec![(Extent { log: *name, until: None }, file)]);
        let part = PartRead::read(fold, &mut logs).map_err(|error| format!("{error:?}"))?;
        let mut part = part.ok_or("too much memory")?;
        reading.push(began.elapsed());
        open_bytes.push(part.take_open().encoded());
        read.push((logs, part));
    }
    let began = Instant::now();
    let mut open = Open::default();
    for bytes in &open_bytes {
        open.merge(Open::decode_all(bytes).ok_or("not valid")?);
    }
    open.settle();
    let merging = began.elapsed();
    let (mut selecting, mut selected) = (Vec::new(), Selected::default());
    for (mut logs, part) in read {
        let began = Instant::now();
        let more = part.select((&mut logs, &open), usize::MAX, &mut |_| {});
        let more = more.map_err(|error| format!("{error:?}"))?.ok_or("too much")?;
        selecting.push(began.elapsed());
        selected.merge(more);
    }
    let (began, bytes) = (Instant::now(), selected.bytes());
    let (mut left, mut complete) = (0, 0);
    fold.run(&mut selected, &mut |found| match found {
        Left::Directory(..) => left += 1,
        Left::Complete(_) => complete += 1,
        _ => {}
    })
    .map_err(|log| format!("{log} is not valid"))?;
    if (left, complete) != expected {
        return Err(format!("{left} left and {complete} complete, not {expected:?}").into());
    }
    let most = |times: &[Duration]| times.iter().max().copied().unwrap_or_default();
    Ok(format!(
        "once at most {:?}, {} KB of open directories merged in {merging:?}, {} left open, again at most {:?}, {} KB selected, folded in {:?}",
        most(&reading),
        open_bytes.iter().map(Vec::len).sum::<usize>() / 1000,
        open.count(),
        most(&selecting),
        bytes / 1000,
        began.elapsed()
    ))
}
