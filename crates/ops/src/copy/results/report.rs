//! Statistics of the copied files: counts by size class, and the slowest files. No I/O.

use std::time::Duration;

/// Files of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeClass {
    /// Exclusive upper limit in bytes; none: no limit.
    pub below: Option<u64>,
    /// Number of copied files.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
}

atta_entry::record!(SizeClass { below, files, bytes });

/// A slow file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowFile {
    /// Time from the first look at the file until it was complete except for its name. For a file in chunks: until the last chunk was
    /// done.
    pub elapsed: Duration,
    /// Size in bytes.
    pub bytes: u64,
    /// Path in the source.
    pub path: Vec<u8>,
}

atta_entry::record!(SlowFile { elapsed, bytes, path });

/// Copied files by size and by time, of a slice, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Size classes, the smallest first.
    pub sizes: [SizeClass; CLASSES],
    /// The slowest files, the slowest first.
    pub slowest: Vec<SlowFile>,
}

atta_entry::record!(Report { sizes, slowest });

/// Number of classes.
const CLASSES: usize = 8;
/// Upper limits of the classes: empty files, then up to 4 KiB, 64 KiB, 1 MiB, 16 MiB, 256 MiB, 4 GiB, and the rest.
const ENDS: [u64; CLASSES - 1] = [1, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 4 << 30];
/// Number of slow files to keep.
const SLOWEST: usize = 10;

impl Default for Report {
    fn default() -> Self {
        let class = |index: usize| SizeClass { below: ENDS.get(index).copied(), ..SizeClass::default() };
        Self { sizes: std::array::from_fn(class), slowest: Vec::new() }
    }
}

impl Report {
    /// Records a file. Calls `path` only if the file is among the slowest.
    pub(crate) fn note(&mut self, bytes: u64, elapsed: Duration, path: impl FnOnce() -> Vec<u8>) {
        let class = &mut self.sizes[ENDS.partition_point(|end| *end <= bytes)];
        class.files += 1;
        class.bytes = class.bytes.saturating_add(bytes);
        if self.slowest.len() < SLOWEST || self.slowest.last().is_some_and(|last| last.elapsed < elapsed) {
            self.add(SlowFile { elapsed, bytes, path: path() });
        }
    }

    /// Whether no file was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.slowest.is_empty() && self.sizes.iter().all(|class| class.files == 0 && class.bytes == 0)
    }

    fn add(&mut self, file: SlowFile) {
        let at = self.slowest.partition_point(|other| other.elapsed >= file.elapsed);
        self.slowest.insert(at, file);
        self.slowest.truncate(SLOWEST);
    }
}

impl std::ops::AddAssign<&Self> for Report {
    fn add_assign(&mut self, other: &Self) {
        for (class, more) in self.sizes.iter_mut().zip(&other.sizes) {
            class.files = class.files.saturating_add(more.files);
            class.bytes = class.bytes.saturating_add(more.bytes);
        }
        other.slowest.iter().for_each(|file| self.add(file.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slowest_files_do_not_depend_on_threads() {
        let mut all = Report::default();
        for thread in 0..3_u64 {
            let mut report = Report::default();
            for file in 0..20 {
                let number = file * 3 + thread;
                report.note(number * 1000, Duration::from_millis(number), || number.to_string().into());
            }
            all += &report;
        }
        let counted = all.sizes.map(|class| (class.below, class.files, class.bytes));
        assert_eq!(counted[..3], [(Some(1), 1, 0), (Some(4096), 4, 10_000), (Some(65_536), 55, 1_760_000)]);
        assert_eq!((counted[3], counted[7]), ((Some(1 << 20), 0, 0), (None, 0, 0)));
        let slowest: Vec<_> = all.slowest.iter().map(|file| file.bytes / 1000).collect();
        assert_eq!(slowest, (50..60).rev().collect::<Vec<_>>());
        assert_eq!(all.slowest[0].path, b"59");
        let mut other = Report::default();
        [4095, 4096, u64::MAX].into_iter().for_each(|size| other.note(size, Duration::ZERO, Vec::new));
        assert_eq!(other.sizes.map(|class| class.files), [0, 1, 1, 0, 0, 0, 0, 1]);
    }
}
