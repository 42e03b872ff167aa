//! Lets the kernel move bytes (`copy_file_range`) if this process need not see them. If servers support it, the bytes do not pass this
//! machine. Within a local file system this is faster than reading and writing on some machines and slower on others, so each thread tries
//! both on the first large files and keeps the faster one. Bytes that the kernel does not move are read and written, which also yields the
//! error.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::error::FileError;
use super::mover::{Files, Mover};
use atta_sys::data;
use atta_sys::file_systems::{CopyBy, is_copied_by};

/// Bytes per call, so that a long copy on a server can be interrupted.
const SERVER_BLOCK: u64 = 16 << 20;
/// Bytes per call within a local file system, where other threads may wait for the file.
const LOCAL_BLOCK: u64 = 1 << 20;
/// Bytes moved by one side before the other's turn.
const HEAT: u64 = 2 << 20;
/// Heats of each side in a race.
const HEATS: u32 = 6;

/// Who may move bytes that this process need not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Within {
    /// None: bytes are read and written.
    #[default]
    Nobody,
    /// The servers.
    Servers,
    /// The kernel, if it is faster.
    Kernel(Race),
}

/// A race between the kernel and reading and writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Race {
    /// For the kernel, and for reading and writing: the total time and the slowest heat, which is discarded because anything may delay one
    /// heat. Delays of most heats, such as by other threads on the same file, do count.
    took: [Duration; 2],
    slowest: [Duration; 2],
    heats: [u32; 2],
}

impl Race {
    /// Whether the kernel has the next heat; once the race is over, whether it won.
    fn is_kernels(&self) -> bool {
        let [kernel, plain] = [0, 1].map(|which| self.took[which].saturating_sub(self.slowest[which]));
        if self.is_over() { kernel < plain } else { self.heats[0] <= self.heats[1] }
    }

    fn is_over(&self) -> bool {
        self.heats.iter().all(|heats| *heats >= HEATS)
    }

    fn note(&mut self, is_kernel: bool, took: Duration) {
        let which = usize::from(!is_kernel);
        self.took[which] += took;
        self.slowest[which] = self.slowest[which].max(took);
        self.heats[which] += 1;
    }
}

impl Mover {
    /// Moves a range that this process need not see. Returns the offset reached, which is less than the end only if the source ends early.
    pub(crate) fn copy_unseen(
        &mut self,
        files: Files<'_>,
        range: &Range<u64>,
        size: u64,
    ) -> Result<u64, FileError> {
        // Smaller ranges were not measured. Any file system may be mounted below TARGET or a source.
        let may_race = || {
            !self.is_shared
                && range.end - range.start >= HEAT
                && is_copied_by(files.source, CopyBy::Pages)
                && is_copied_by(files.target, CopyBy::Pages)
        };
        let reached = match self.within {
            Within::Servers => self.copy_within(files, range, SERVER_BLOCK),
            Within::Kernel(race) if !race.is_over() && may_race() => {
                return self.copy_racing(files, range, size);
            }
            Within::Kernel(race) if race.is_over() && race.is_kernels() && may_race() => {
                self.copy_within(files, range, LOCAL_BLOCK)
            }
            Within::Kernel(_) | Within::Nobody => range.start,
        };
        self.copy_rest(files, &(reached..range.end), size)
    }

    /// Reads and writes the rest of a range. If the kernel moved everything, bytes past the end of the file are still to be checked.
    fn copy_rest(&mut self, files: Files<'_>, rest: &Range<u64>, size: u64) -> Result<u64, FileError> {
        if rest.is_empty() && rest.end == size {
            self.check_end(files.source, size)?;
        }
        self.copy_by_buffer(files, rest, size)
    }

    /// Moves a range in turns with the kernel, until the race is over.
    fn copy_racing(&mut self, files: Files<'_>, range: &Range<u64>, size: u64) -> Result<u64, FileError> {
        let Within::Kernel(mut race) = self.within else { return self.copy_rest(files, range, size) };
        let mut at = range.start;
        // Less than a heat measures nothing.
        while range.end - at >= HEAT && !race.is_over() {
            let heat = at..at + HEAT;
            let (is_kernel, began) = (race.is_kernels(), Instant::now());
            at = match is_kernel {
                true => self.copy_within(files, &heat, LOCAL_BLOCK),
                false => self.copy_by_buffer(files, &heat, size)?,
            };
            if at < heat.end {
                if is_kernel {
                    // It is not supported or failed: reading and writing yields the error.
                    self.within = Within::Nobody;
                }
                return self.copy_by_buffer(files, &(at..range.end), size);
            }
            race.note(is_kernel, began.elapsed());
        }
        self.within = Within::Kernel(race);
        self.copy_rest(files, &(at..range.end), size)
    }

    /// Lets the kernel move a range in calls of `block` bytes. Returns the offset reached.
    fn copy_within(&self, files: Files<'_>, range: &Range<u64>, block: u64) -> u64 {
        let mut at = range.start;
        while at < range.end {
            let bytes = usize::try_from((range.end - at).min(block)).unwrap_or(usize::MAX);
            match data::copy_range(files.source, files.target, at, bytes) {
                Ok(0) | Err(_) => break,
                Ok(moved) => {
                    at += moved as u64;
                    self.wait_for(moved);
                }
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use atta_testkit::scratch::Scratch;

    use super::super::mover::Pass;
    use super::*;

    /// A race that is over.
    fn won_by(which: usize) -> Within {
        let took = [0, 1].map(|other| Duration::from_nanos(if other == which { 1 } else { 2 }));
        Within::Kernel(Race { took, slowest: [Duration::ZERO; 2], heats: [HEATS; 2] })
    }

    /// Copies a range of a file that is stated to have `size` bytes.
    fn copy(mover: &mut Mover, [from, to]: [&File; 2], end: u64, size: u64) -> Result<u64, FileError> {
        let (source, target) = (from.as_fd(), Some(to.as_fd()));
        mover.pass(Pass { source, target, has_holes: false, size, hasher: None }, 0..end)
    }

    #[test]
    fn server_side_copies_are_checked_by_reading() {
        let scratch = Scratch::new("within").unwrap();
        let bytes: Vec<u8> = (0..5_000_001_u32).map(|at| (at * 7) as u8).collect();
        std::fs::write(scratch.join("from"), &bytes).unwrap();
        let from = File::open(scratch.join("from")).unwrap();
        // Another file system may refuse it.
        for place in [
            scratch.join("to"),
            std::path::PathBuf::from("/dev/shm").join(format!("atta-within-{}", std::process::id())),
        ] {
            let to = File::create(&place).unwrap();
            let end = bytes.len() as u64;
            for within in
                [Within::Servers, Within::Kernel(Race::default()), won_by(0), won_by(1), Within::Nobody]
            {
                let mut mover = Mover::within(within);
                // Until a race is over, and after it.
                for _ in 0..=HEATS {
                    to.set_len(0).unwrap();
                    assert_eq!(copy(&mut mover, [&from, &to], end, end), Ok(end));
                    assert!(std::fs::read(&place).unwrap() == bytes, "{}", place.display());
                }
                let is_open = matches!(mover.within, Within::Kernel(race) if !race.is_over());
                // There is no race on a file system without copy_file_range.
                assert!(
                    !is_open || !is_copied_by(&from, CopyBy::Pages) || !is_copied_by(&to, CopyBy::Pages),
                    "{within:?}"
                );
                // A file with more bytes than its stated size is detected, whichever way is used.
                let short = copy(&mut mover, [&from, &to], end - 1, end - 1);
                assert_eq!(short, Err(FileError::Changed), "{within:?}");
                // A source that ends early yields the offset reached.
                assert_eq!(copy(&mut mover, [&from, &to], end + 9, end), Ok(end));
            }
            std::fs::remove_file(&place).unwrap();
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_says_so() {
        let scratch = Scratch::new("within").unwrap();
        let mut from = File::create_new(scratch.join("from")).unwrap();
        from.write_all(&vec![b'x'; 4 << 20]).unwrap();
        let from = File::open(scratch.join("from")).unwrap();
        for within in [Within::Servers, Within::Kernel(Race::default()), won_by(0)] {
            let mut mover = Mover::within(within);
            let copied = copy(&mut mover, [&from, &from], 4 << 20, 4 << 20);
            assert!(copied.is_err(), "it is open to be read alone");
            // The kernel had the first heat and failed, so it gets no more.
            let was_asked = within == Within::Kernel(Race::default()) && is_copied_by(&from, CopyBy::Pages);
            assert!(!was_asked || mover.within == Within::Nobody, "{:?}", mover.within);
        }
    }

    #[test]
    fn who_was_faster_goes_on() {
        for (kernel, plain, is_kernel) in [(3, 4, true), (4, 3, false), (4, 4, false)] {
            let mut race = Race::default();
            let mut heats = [0, 0];
            while !race.is_over() {
                let who = race.is_kernels();
                heats[usize::from(!who)] += 1;
                let took = Duration::from_micros(if who { kernel } else { plain });
                // One delayed heat does not count.
                let is_held_up = who == is_kernel && heats[usize::from(!who)] == 1;
                race.note(who, if is_held_up { Duration::from_secs(1) } else { took });
            }
            assert_eq!((heats, race.is_kernels()), ([HEATS, HEATS], is_kernel));
        }
    }
}
