//! Reading a log: which of its frames count. No I/O of its own.
//!
//! A log is written at its end, and storage may keep what was written in any order. So after a power cut a bad frame may stand before a
//! good one. What the process knew to be on storage is in its frames: a bad frame beyond that ends the log, a bad frame before it is
//! damage, and the log is refused.

use crate::frame::{ALIGN, Begins, Checks, FRAME_MAX, HEAD, Head};
use crate::id::Key;

/// What a search for later frames looks at before it reads more.
const SEARCH: usize = 16 << 10;

/// The log of a process: the run of the job, the rank in it, and the part. Logs are read in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogName {
    /// The run, from 1.
    pub run: u32,
    /// The rank.
    pub rank: u32,
    /// The part, from 0. A process goes on in the next part when a write or a sync of its log has failed. The first frame of that part says
    /// how much of the part before counts ([`Record::Cut`](crate::Record::Cut)); what is lost there is in the new part.
    pub part: u32,
}

atta_code::record!(LogName { run, rank, part });

/// The name of its file: `RUN.RANK`, and `RUN.RANK.PART` if it is not the first part.
impl std::fmt::Display for LogName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { run, rank, part } = self;
        if *part == 0 { write!(f, "{run}.{rank}") } else { write!(f, "{run}.{rank}.{part}") }
    }
}

/// The bytes of a log.
pub trait LogBytes {
    /// Why they cannot be read.
    type Error;

    /// Reads bytes at an offset. Returns how many there are: fewer than asked for only at the end.
    ///
    /// # Errors
    /// They cannot be read.
    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, Self::Error>;
}

impl LogBytes for &[u8] {
    type Error = std::convert::Infallible;

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, Self::Error> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(from..).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// What of a log counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its bytes that count, from the start.
    pub bytes: u64,
    /// Its frames that count.
    pub frames: u64,
    /// Something that does not count follows.
    pub is_torn: bool,
}

/// Why a log is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Broken<E> {
    /// It cannot be read.
    Unreadable(E),
    /// It has the format of another version.
    Version(u8),
    /// A frame that was on storage is not valid.
    Damaged {
        /// Its offset in the log.
        offset: u64,
    },
    /// A frame is as it was written, but its records are not valid.
    Invalid {
        /// Its offset in the log.
        offset: u64,
    },
}

/// Reads the frames of a log that count, and calls `each` with the offset and the sections of each frame (see [`sections`](crate::sections));
/// false: they are not valid. `until`: an older reading said that so many bytes count.
///
/// # Errors
/// The log is refused. `each` may have seen some of it.
pub fn read<L: LogBytes>(
    (key, name): (&Key, LogName),
    log: &mut L,
    until: Option<u64>,
    each: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> Result<Contents, Broken<L::Error>> {
    let mut reader = Reader { checks: Checks::of(key, name), log, body: Vec::new() };
    let mut contents = Contents::default();
    while until.is_none_or(|until| contents.bytes < until) {
        let offset = contents.bytes;
        let Some((head, sections)) = reader.frame(offset, contents.frames)? else { break };
        if head.frame.sequence != contents.frames || !each(offset, sections) {
            return Err(Broken::Invalid { offset });
        }
        contents.bytes = offset + head.bytes();
        contents.frames += 1;
    }
    let offset = contents.bytes;
    match until {
        Some(until) if offset == until => return Ok(contents),
        Some(_) => return Err(Broken::Damaged { offset }),
        None => {}
    }
    let later = reader.search(offset, contents.frames)?;
    // Frames before it cannot know what is behind them.
    if later.synced > offset {
        return Err(Broken::Damaged { offset });
    }
    contents.is_torn = later.is_something;
    Ok(contents)
}

/// The sections of the first frame of a log. None: there is none that is valid.
pub(crate) fn first_frame<L: LogBytes>(
    (key, name): (&Key, LogName),
    log: &mut L,
) -> Result<Option<Vec<u8>>, Broken<L::Error>> {
    let mut reader = Reader { checks: Checks::of(key, name), log, body: Vec::new() };
    let found = reader.frame(0, 0)?.filter(|(head, _)| head.frame.sequence == 0);
    Ok(found.map(|(_, sections)| sections.to_vec()))
}

/// What follows the last frame that counts.
#[derive(Default)]
struct Later {
    /// The most bytes that a later frame knew to be on storage.
    synced: u64,
    /// Bytes other than zeros.
    is_something: bool,
}

/// A frame and its sections, if there is one.
type Found<'a, E> = Result<Option<(Head, &'a [u8])>, Broken<E>>;

struct Reader<'l, L> {
    checks: Checks,
    log: &'l mut L,
    body: Vec<u8>,
}

impl<L: LogBytes> Reader<'_, L> {
    /// The frame at an offset and its sections, if a valid one with that number is there.
    fn frame(&mut self, offset: u64, sequence: u64) -> Found<'_, L::Error> {
        let mut bytes = [0; HEAD];
        let count = self.log.read_at(offset, &mut bytes).map_err(Broken::Unreadable)?;
        let head = match Head::read(&self.checks, offset, &bytes) {
            Begins::Head(head) if count == HEAD && head.frame.sequence >= sequence => head,
            Begins::Version(version) if offset == 0 && count == HEAD => return Err(Broken::Version(version)),
            _ => return Ok(None),
        };
        // The rest of a long frame may be lost: memory grows only with bytes that are there.
        self.body.clear();
        let wanted = head.bytes() as usize;
        while self.body.len() < wanted {
            let from = self.body.len();
            self.body.resize(wanted.min((2 * from).max(1 << 10)), 0);
            let at = offset + from as u64;
            let count = self.log.read_at(at, &mut self.body[from..]).map_err(Broken::Unreadable)?;
            if from + count < self.body.len() {
                return Ok(None);
            }
        }
        Ok(head.sections(&self.checks, &self.body).map(|sections| (head, sections)))
    }

    /// Looks for frames beyond one that is missing or bad. Their heads are enough: what a head says was known when it was written, whatever
    /// became of the rest. So each byte is read about once, whatever the bytes are.
    fn search(&mut self, from: u64, sequence: u64) -> Result<Later, Broken<L::Error>> {
        let (mut later, mut offset, mut block) = (Later::default(), from, [0; SEARCH + HEAD]);
        loop {
            let count = self.log.read_at(offset, &mut block).map_err(Broken::Unreadable)?;
            let found = &block[..count];
            later.is_something |= found.iter().any(|byte| *byte != 0);
            let places = (offset..).zip(found.windows(HEAD)).step_by(ALIGN as usize);
            for (at, bytes) in places {
                let Some(bytes) = bytes.first_chunk() else { continue };
                match Head::read(&self.checks, at, bytes) {
                    Begins::Head(head) if head.frame.sequence >= sequence => {
                        later.synced = later.synced.max(head.frame.synced);
                    }
                    _ => {}
                }
            }
            if count < block.len() {
                return Ok(later);
            }
            offset += SEARCH as u64;
        }
    }
}

const _: () = assert!(FRAME_MAX < u32::MAX as u64 && SEARCH.is_multiple_of(ALIGN as usize));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, frame};

    const NAME: LogName = LogName { run: 3, rank: 1, part: 0 };

    fn key() -> Key {
        Key::of_job(&[7; 16])
    }

    /// A log with a section in each frame, and where its frames begin and the log ends. Each frame knows that all before it is on storage.
    fn log(sections: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
        let (mut log, mut begins) = (Vec::new(), Vec::new());
        for (sequence, section) in sections.iter().enumerate() {
            begins.push(log.len());
            let offset = log.len() as u64;
            let head = Frame { offset, sequence: sequence as u64, synced: offset };
            log.extend(frame(&key(), NAME, head, &[section.to_vec()]).unwrap());
        }
        begins.push(log.len());
        (log, begins)
    }

    fn contents(mut log: &[u8], until: Option<usize>) -> Result<Contents, Broken<std::convert::Infallible>> {
        read((&key(), NAME), &mut log, until.map(|until| until as u64), &mut |_, _| true)
    }

    #[test]
    fn damage_differs_from_a_lost_tail() {
        let (log, begins) = log(&[b"one", b"two, longer", b"three"]);
        assert_eq!(contents(&log, None).unwrap().bytes, log.len() as u64);
        for at in 0..log.len() {
            for bit in 0..8 {
                let mut broken = log.clone();
                broken[at] ^= 1 << bit;
                let begin = begins.iter().rposition(|begin| *begin <= at).unwrap();
                let offset = begins[begin] as u64;
                match contents(&broken, None) {
                    // No later frame knows that the last one was on storage.
                    Ok(found) => {
                        assert!(begin == 2 && found.bytes == offset && found.is_torn, "{at}: {found:?}");
                    }
                    Err(Broken::Damaged { offset: found }) => assert!(begin < 2 && found == offset, "{at}"),
                    Err(error) => assert!(matches!(error, Broken::Version(_)) && at == 3, "{at}: {error:?}"),
                }
            }
        }
    }

    #[test]
    fn tail_ends_where_storage_lost_it() {
        let (log, begins) = log(&[b"one", b"two", b"three"]);
        for length in 0..=log.len() {
            // Space may have been reserved.
            for reserved in [0, 100] {
                let mut cut = log[..length].to_vec();
                cut.resize(length + reserved, 0);
                let found = contents(&cut, None).unwrap();
                let whole = begins.iter().rposition(|begin| *begin <= length).unwrap();
                assert_eq!((found.bytes, found.frames), (begins[whole] as u64, whole as u64), "{length}");
            }
        }
    }

    #[test]
    fn what_counted_once_has_to_be_there() {
        let (mut log, begins) = log(&[b"one", b"two", b"three"]);
        for begin in &begins {
            assert_eq!(contents(&log, Some(*begin)).unwrap().bytes, *begin as u64);
        }
        for until in [begins[1] + 8, begins[3] + 8] {
            assert!(matches!(contents(&log, Some(until)), Err(Broken::Damaged { .. })), "{until}");
        }
        // Beyond it anything may be.
        log.truncate(begins[2]);
        log.extend([0xff; 40]);
        assert_eq!(contents(&log, Some(begins[2])).unwrap().bytes, begins[2] as u64);
    }

    #[test]
    fn frames_of_other_logs_do_not_count() {
        let (log, _) = log(&[b"one"]);
        let others = [LogName { run: 2, ..NAME }, LogName { rank: 2, ..NAME }, LogName { part: 1, ..NAME }];
        let of_other_job = (Key::of_job(&[8; 16]), NAME);
        for (key, name) in others.map(|other| (key(), other)).into_iter().chain([of_other_job]) {
            let found = read((&key, name), &mut log.as_slice(), None, &mut |_, _| true).unwrap();
            assert_eq!(found, Contents { bytes: 0, frames: 0, is_torn: true });
        }
        // Nor does a copy at another offset.
        let twice = [log.as_slice(), &log].concat();
        assert_eq!(contents(&twice, None).unwrap().bytes, log.len() as u64);
    }

    /// Counts the bytes that are read.
    struct Counting<'a>(&'a [u8], u64);

    impl LogBytes for Counting<'_> {
        type Error = std::convert::Infallible;

        fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, Self::Error> {
            let count = self.0.read_at(offset, into)?;
            self.1 += count as u64;
            Ok(count)
        }
    }

    /// A tail full of what looks like heads of long frames. Whoever made it has no key.
    fn hostile(bytes: usize) -> Vec<u8> {
        let head = Frame { offset: 0, sequence: 1 << 40, synced: 0 };
        let made = frame(&Key::of_job(&[9; 16]), NAME, head, &[]).unwrap();
        let mut tail = made[..24].repeat(bytes.div_ceil(24));
        tail.chunks_exact_mut(24).for_each(|head| head[4..8].copy_from_slice(&[0, 0, 1, 0]));
        tail.truncate(bytes);
        tail
    }

    #[test]
    fn search_reads_each_byte_about_once() {
        for bytes in [100 << 10, 1 << 20, 10 << 20] {
            let (mut log, _) = log(&[b"one"]);
            log.extend(hostile(bytes));
            let mut counting = Counting(&log, 0);
            let found = read((&key(), NAME), &mut counting, None, &mut |_, _| true).unwrap();
            assert!(found.is_torn && found.frames == 1, "{found:?}");
            assert!(counting.1 < log.len() as u64 * 101 / 100 + 1000, "{} of {bytes}", counting.1);
        }
    }

    #[test]
    fn search_finds_heads_wherever_they_are() {
        // Before, across and behind what is read at once.
        for between in (0..3 * SEARCH).step_by(ALIGN as usize) {
            let (log, _) = log(&[b"one"]);
            let offset = (log.len() + between) as u64;
            for (synced, is_damaged) in [(log.len(), false), (log.len() + ALIGN as usize, true)] {
                let head = Frame { offset, sequence: 2, synced: offset.min(synced as u64) };
                let later = frame(&key(), NAME, head, &[b"later".to_vec()]).unwrap();
                // What a head says holds without the rest of its frame.
                let torn = [&log, &hostile(between)[..], &later[..HEAD]].concat();
                let is_refused = matches!(contents(&torn, None), Err(Broken::Damaged { .. }));
                assert_eq!(is_refused, is_damaged && between > 0, "{between}");
            }
        }
    }

    #[test]
    fn file_of_a_log_has_its_numbers() {
        assert_eq!(NAME.to_string(), "3.1");
        assert_eq!(LogName { part: 1, ..NAME }.to_string(), "3.1.1");
    }

    #[test]
    fn other_version_is_named() {
        let (mut log, _) = log(&[b"one"]);
        log[3] = 9;
        assert_eq!(contents(&log, None), Err(Broken::Version(9)));
    }
}
