//! Temporary names of entries that do not have their own yet: short, unique to this job, and verifiable. No I/O.
//!
//! ```text
//!   .atta.UID                          what the jobs of a user keep in one place: see jobs.rs
//!   .atta.UID.TAG                      the same of one job, where that name is taken
//!   .atta.UID.TAG.SERIALCHECK          something that a job makes
//! ```
//!
//! TAG derives from the job's number, which only its private record holds. CHECK derives from that number and SERIAL. So a reader of the
//! record can verify names of the job, and other users cannot forge one.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicU64, Ordering};

/// What all of them begin with.
pub(crate) const PREFIX: &[u8] = b".atta.";
/// Digits of the parts, of 5 bits each.
const TAG: usize = 8;
const SERIAL: usize = 12;
const CHECK: usize = 6;
/// Bits of the numbers in the SERIAL of a file. A run and a rank have more bits than any job needs; names of a process may come again after 2^30 files,
/// which are complete by then.
const RANK_BITS: u32 = 20;
const FILE_BITS: u32 = 30;
/// Digits of the number of a run.
const RUN_DIGITS: usize = SERIAL - (RANK_BITS + FILE_BITS) as usize / 5;
/// No letters that look alike, and none that differ only in case: a target may not distinguish those.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Makes them, and recognizes them.
#[derive(Debug)]
pub(crate) struct Namer {
    /// Of the job: the same on all ranks.
    job: u64,
    /// The run of the job.
    run: u32,
    /// `.atta.UID.TAG`
    own: Vec<u8>,
    next: AtomicU64,
}

/// A name of that form, from any source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parsed<'a> {
    pub(crate) uid: &'a [u8],
    /// Of the job; none: it is of all jobs of a user.
    pub(crate) tag: Option<&'a [u8]>,
    /// None: the job's own directory.
    pub(crate) serial: Option<&'a [u8]>,
}

impl Namer {
    /// Of a job of this user.
    pub(crate) fn new(job: u64) -> Self {
        Self::of(job, rustix::process::geteuid().as_raw().to_string().as_bytes())
    }

    /// Of a job of the user with that number, in decimal digits.
    pub(crate) fn of(job: u64, uid: &[u8]) -> Self {
        let mut own = [PREFIX, uid, b"."].concat();
        own.extend(spell::<TAG>(&hasher(job, b"job")));
        Self { job, run: 0, own, next: AtomicU64::new(0) }
    }

    /// For a run of a job that may have several.
    pub(crate) fn with_run(self, run: u32) -> Self {
        Self { run, ..self }
    }

    /// The number that all names follow from.
    pub(crate) fn job(&self) -> u64 {
        self.job
    }

    /// The name of the directory of all jobs of the user.
    pub(crate) fn home(&self) -> CString {
        c_string(self.own[..self.own.len() - TAG - 1].to_vec())
    }

    /// The name of the job's directory in it.
    pub(crate) fn tag(&self) -> CString {
        c_string(self.own[self.own.len() - TAG..].to_vec())
    }

    /// The name of the job's directory where there cannot be one of all jobs.
    pub(crate) fn alone(&self) -> CString {
        c_string(self.own.clone())
    }

    /// For a directory, which any rank is to find by its own name.
    pub(crate) fn of_directory(&self, name: &CStr) -> CString {
        let mut hasher = hasher(self.job, b"directory");
        self.spell(hasher.update(name.to_bytes()))
    }

    /// For a file that `who` makes; each time another one. SERIAL is a number: of the run, of the rank, and of the file.
    pub(crate) fn of_file(&self, who: u64) -> CString {
        let next = self.next.fetch_add(1, Ordering::Relaxed) & ((1 << FILE_BITS) - 1);
        let rank = (who >> 32) & ((1 << RANK_BITS) - 1);
        let number = u64::from(self.run) << (RANK_BITS + FILE_BITS) | rank << FILE_BITS | next;
        self.named(std::array::from_fn(|at| digit(number >> (5 * (SERIAL - 1 - at)))))
    }

    /// Whether this job has given that name, or could have.
    pub(crate) fn gave(&self, name: &[u8]) -> bool {
        let rest = name.strip_prefix(self.own.as_slice()).and_then(|rest| rest.strip_prefix(b"."));
        let parts = rest.filter(|rest| rest.len() == SERIAL + CHECK).map(|rest| rest.split_at(SERIAL));
        parts.is_some_and(|(serial, check)| self.check(serial) == check)
    }

    /// Whether an earlier run of this job has given that name to a file, or could have.
    pub(crate) fn gave_earlier(&self, name: &[u8]) -> bool {
        let is_of_this_run = || {
            let serial = &name[self.own.len() + 1..][..RUN_DIGITS];
            serial
                .iter()
                .enumerate()
                .all(|(at, of_run)| *of_run == digit(u64::from(self.run) >> (5 * (RUN_DIGITS - 1 - at))))
        };
        self.run > 1 && self.gave(name) && !is_of_this_run()
    }

    fn spell(&self, hasher: &blake3::Hasher) -> CString {
        self.named(spell::<SERIAL>(hasher))
    }

    fn named(&self, serial: [u8; SERIAL]) -> CString {
        let mut name = self.own.clone();
        name.push(b'.');
        name.extend(serial);
        name.extend(self.check(&serial));
        c_string(name)
    }

    fn check(&self, serial: &[u8]) -> [u8; CHECK] {
        spell(hasher(self.job, b"check").update(serial))
    }
}

/// The parts of a name of that form; none: it is another name.
pub(crate) fn parse(name: &[u8]) -> Option<Parsed<'_>> {
    let mut parts = name.strip_prefix(PREFIX)?.split(|byte| *byte == b'.');
    let uid = parts.next().filter(|uid| is_number(uid))?;
    let is_spelled =
        |part: &&[u8], digits| part.len() == digits && part.iter().all(|byte| ALPHABET.contains(byte));
    let tag = parts.next();
    let serial = parts.next();
    let is_whole = parts.next().is_none()
        && tag.is_none_or(|tag| is_spelled(&tag, TAG))
        && serial.is_none_or(|serial| is_spelled(&serial, SERIAL + CHECK));
    is_whole.then_some(Parsed { uid, tag, serial })
}

/// As the kernel's numbers of users are written.
fn is_number(text: &[u8]) -> bool {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u32>().ok());
    number.is_some_and(|number| number.to_string().as_bytes() == text)
}

fn hasher(job: u64, what: &[u8]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&job.to_le_bytes()).update(what);
    hasher
}

/// The lowest five bits of a number.
fn digit(number: u64) -> u8 {
    ALPHABET[(number & 31) as usize]
}

fn spell<const DIGITS: usize>(hasher: &blake3::Hasher) -> [u8; DIGITS] {
    let hash = hasher.finalize();
    std::array::from_fn(|at| ALPHABET[usize::from(hash.as_bytes()[at] & 31)])
}

/// There is no NUL in it.
fn c_string(name: Vec<u8>) -> CString {
    CString::new(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_found_again_and_files_never_meet() {
        let (one, other) = (Namer::new(1), Namer::new(2));
        assert_eq!(one.of_directory(c"a"), Namer::new(1).of_directory(c"a"));
        assert_ne!(one.of_directory(c"a"), other.of_directory(c"a"));
        assert_ne!(one.of_directory(c"a"), one.of_directory(c"b"));
        let names: std::collections::HashSet<_> =
            (0..1000).flat_map(|who| [one.of_file(who % 3), other.of_file(who % 3)]).collect();
        assert_eq!(names.len(), 2000);
        assert!(names.iter().all(|name| name.as_bytes().len() < 48 && name.as_bytes().starts_with(PREFIX)));
    }

    #[test]
    fn job_recognizes_only_its_own_names() {
        let (one, other) = (Namer::of(1, b"1000"), Namer::of(2, b"1000"));
        for name in [one.of_directory(c"a"), one.of_file(7)] {
            assert!(one.gave(name.as_bytes()) && !other.gave(name.as_bytes()));
            assert!(!Namer::of(1, b"0").gave(name.as_bytes()), "another user's");
            let parsed = parse(name.as_bytes()).unwrap();
            assert_eq!((parsed.uid, parsed.tag), (&b"1000"[..], Some(one.tag().as_bytes())));
            let mut bytes = name.as_bytes().to_vec();
            for at in 0..bytes.len() {
                let was = std::mem::replace(&mut bytes[at], b'0');
                assert!(was == b'0' || !one.gave(&bytes), "{}", String::from_utf8_lossy(&bytes));
                bytes[at] = was;
            }
        }
        assert_eq!(one.home().as_bytes(), b".atta.1000");
        assert!(!one.gave(one.home().as_bytes()) && !one.gave(one.alone().as_bytes()));
    }

    #[test]
    fn names_of_earlier_runs_are_told_apart() {
        let run = |run| Namer::of(1, b"0").with_run(run);
        let (of_second, of_third) = (run(2).of_file(7 << 32 | 3), run(3).of_file(7 << 32 | 3));
        assert_ne!(of_second, of_third);
        let is_earlier = |of: u32, name: &CStr| run(of).gave_earlier(name.to_bytes());
        assert!(is_earlier(3, &of_second) && !is_earlier(3, &of_third) && !is_earlier(2, &of_second));
        assert!(is_earlier(2, &run(1).of_file(0)), "the first run");
        assert!(!is_earlier(3, c"name") && !is_earlier(3, &Namer::of(2, b"0").of_file(1)));
    }

    #[test]
    fn names_of_another_form_are_not_parsed() {
        let whole = Namer::of(1, b"0").of_file(1);
        assert!(parse(whole.as_bytes()).is_some_and(|parsed| parsed.serial.is_some()));
        assert!(parse(b".atta.0").is_some_and(|parsed| parsed.tag.is_none()));
        assert!(parse(Namer::of(1, b"0").alone().as_bytes()).is_some_and(|parsed| parsed.serial.is_none()));
        for name in [
            &b".atta."[..],
            b".atta",
            b".atta.mine",
            b".atta.0123456789ab",
            b".atta.00",
            b".atta.-1",
            b".atta.4294967296",
            b".atta.0.",
            b".atta.0.0123456",
            b".atta.0.0123456O",
            b".atta.0.01234567.",
            b".atta.0.01234567.0123",
        ] {
            assert_eq!(parse(name), None, "{}", String::from_utf8_lossy(name));
        }
        assert_eq!(parse(&[whole.as_bytes(), b".x"].concat()), None);
    }
}
