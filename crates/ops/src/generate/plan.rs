//! A whole tree as functions of an index: location, name, size, mode and time of each file or link. Pure: each answer takes the same short
//! time, in any order and on any thread. No list of files is kept.

use std::ops::Range;

use atta_entry::Timestamp;

use super::names::{Names, Node};
use super::random::{Permutation, Purpose, Stream};
use super::skeleton::Skeleton;
use super::spec::{Spec, SpecError, Spread, XATTRS_SHARE};

/// Modes of files. Repeated modes are proportionally more likely.
const FILE_MODES: [u32; 8] = [0o644, 0o644, 0o644, 0o600, 0o640, 0o664, 0o755, 0o444];
/// Modes of directories. The owner keeps all rights, so that a tree can be read and removed without root.
const DIRECTORY_MODES: [u32; 8] = [0o755, 0o755, 0o755, 0o755, 0o750, 0o700, 0o775, 0o711];
/// Times are between 2001-09-09 and 2025-06-15: never in the future, and with ten digits.
const TIME_FIRST: i64 = 1_000_000_000;
const TIME_SECONDS: u64 = 750_000_000;
/// The most bytes of an attribute's value.
const XATTR_BYTES_MAX: u64 = 64;

/// A tree to make, as functions of indices.
#[derive(Debug)]
pub struct Plan {
    spec: Spec,
    pub(crate) skeleton: Skeleton,
    pub(crate) names: Names,
    files: Allotment,
    symlinks: Allotment,
    hard_links: Allotment,
    ranks: Permutation,
}

impl Plan {
    /// Plans the tree. Takes some 25 bytes of memory for each directory, of which 8 stay, and nothing for files.
    ///
    /// # Errors
    /// No such tree can exist.
    pub fn new(spec: &Spec) -> Result<Self, SpecError> {
        spec.check()?;
        let skeleton = Skeleton::new(spec);
        let allot = |count, purpose| Allotment::new(spec, count, purpose, skeleton.len());
        Ok(Self {
            names: Names::new(spec),
            files: allot(spec.files, Purpose::FileCut),
            symlinks: allot(spec.symlinks, Purpose::SymlinkCut),
            hard_links: allot(spec.hard_links, Purpose::HardLinkCut),
            ranks: Permutation::new(Stream::new(spec.seed, Purpose::SizeRank), spec.files),
            skeleton,
            spec: spec.clone(),
        })
    }

    /// The spec of this plan.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The size of a file in bytes.
    ///
    /// A permutation gives each file a rank. The file of rank r has a quantile between r and r + 1, over the number of files. So the sizes
    /// follow their distribution as closely as this many numbers can, and their total hardly depends on the seed.
    #[must_use]
    pub fn size_bytes(&self, file: u64) -> u64 {
        // At least the number of files, so that rounding down never reaches the rank below.
        let offset = self.stream(Purpose::SizeOffset).at(file).max(self.spec.files);
        let place = (u128::from(self.ranks.at(file)) << 64) + u128::from(offset);
        self.spec.sizes.at((place / u128::from(self.spec.files)) as u64)
    }

    /// The files in a directory.
    pub(crate) fn files_in(&self, directory: u32) -> Range<u64> {
        self.files.of(directory)
    }

    /// The symbolic links in a directory.
    pub(crate) fn symlinks_in(&self, directory: u32) -> Range<u64> {
        self.symlinks.of(directory)
    }

    /// The directory of a node.
    pub(crate) fn directory_of(&self, node: Node) -> u32 {
        match node {
            Node::Directory(directory) => self.skeleton.parent(directory),
            Node::File(file) => self.files.holder(file),
            Node::Symlink(symlink) => self.symlinks.holder(symlink),
            Node::HardLink(link) => self.hard_links.holder(link),
        }
    }

    /// The file to which a hard link belongs.
    pub(crate) fn linked_file(&self, hard_link: u64) -> u64 {
        self.stream(Purpose::HardLinkFile).below(hard_link, self.spec.files)
    }

    /// The path of a node below the target, without leading or trailing slashes; empty for the target.
    #[must_use]
    pub fn path(&self, node: Node) -> Vec<u8> {
        let directory =
            if let Node::Directory(directory) = node { directory } else { self.directory_of(node) };
        let lineage = self.skeleton.lineage(directory);
        let mut names: Vec<_> =
            lineage.into_iter().map(|each| self.names.of(Node::Directory(each))).collect();
        if !matches!(node, Node::Directory(_)) {
            names.push(self.names.of(node));
        }
        names.join(&b'/')
    }

    /// The final permission bits of a file or directory.
    pub(crate) fn mode(&self, node: Node) -> u32 {
        match node {
            // The target's mode is fixed: callers name the target directly and expect an ordinary mode.
            Node::Directory(0) => 0o755,
            Node::Directory(directory) => {
                DIRECTORY_MODES[self.stream(Purpose::DirectoryMode).below(u64::from(directory), 8) as usize]
            }
            Node::File(file) | Node::HardLink(file) | Node::Symlink(file) => {
                FILE_MODES[self.stream(Purpose::FileMode).below(file, 8) as usize]
            }
        }
    }

    /// The final modification time, with nanoseconds.
    pub(crate) fn mtime(&self, node: Node) -> Timestamp {
        let (purpose, index) = match node {
            Node::Directory(directory) => (Purpose::DirectoryTime, u64::from(directory)),
            Node::File(file) | Node::HardLink(file) => (Purpose::FileTime, file),
            Node::Symlink(symlink) => (Purpose::SymlinkTime, symlink),
        };
        let stream = self.stream(purpose);
        Timestamp {
            seconds: TIME_FIRST + stream.below(2 * index, TIME_SECONDS) as i64,
            nanoseconds: stream.below(2 * index + 1, 1_000_000_000) as u32,
        }
    }

    /// Number of attributes of a file.
    pub(crate) fn xattrs(&self, file: u64) -> u32 {
        let has = self.spec.xattrs > 0 && self.stream(Purpose::HasXattrs).is_in(file, XATTRS_SHARE);
        if has { self.spec.xattrs } else { 0 }
    }

    /// Name and value of an attribute. The value has 1 to 64 arbitrary bytes.
    pub(crate) fn xattr(&self, file: u64, number: u32) -> (String, Vec<u8>) {
        let stream = self.stream(Purpose::XattrValue);
        let first = (file << 6 | u64::from(number)) << 4;
        let length = 1 + stream.below(first, XATTR_BYTES_MAX) as usize;
        let mut value: Vec<u8> = (1..9).flat_map(|at| stream.at(first + at).to_le_bytes()).collect();
        value.truncate(length);
        (format!("user.atta.{number}"), value)
    }

    pub(crate) fn stream(&self, purpose: Purpose) -> Stream {
        Stream::new(self.spec.seed, purpose)
    }
}

/// Distribution of items among directories: each directory gets consecutive numbers.
///
/// Cut i, before the items of the i-th directory, is in the i-th of equal parts: at its start if the spread is even, otherwise at random.
/// So cuts stay in order. A directory's items and an item's directory are found without a table.
#[derive(Clone, Copy, Debug)]
struct Allotment {
    count: u64,
    /// Directories that get items: all but the target, or the target if there is no other.
    holders: u32,
    first: u32,
    /// None where the spread is even.
    stream: Option<Stream>,
}

impl Allotment {
    fn new(spec: &Spec, count: u64, purpose: Purpose, directories: u32) -> Self {
        let first = u32::from(directories > 1);
        let stream = (spec.spread == Spread::Random).then(|| Stream::new(spec.seed, purpose));
        Self { count, holders: directories - first, first, stream }
    }

    fn of(&self, directory: u32) -> Range<u64> {
        match directory.checked_sub(self.first) {
            Some(holder) => self.cut(holder)..self.cut(holder + 1),
            None => 0..0,
        }
    }

    fn holder(&self, thing: u64) -> u32 {
        let guess = u128::from(thing) * u128::from(self.holders) / u128::from(self.count.max(1));
        let mut holder = guess as u32;
        while self.cut(holder) > thing {
            holder -= 1;
        }
        while self.cut(holder + 1) <= thing {
            holder += 1;
        }
        holder + self.first
    }

    fn cut(&self, holder: u32) -> u64 {
        if holder == 0 || holder >= self.holders {
            return if holder == 0 { 0 } else { self.count };
        }
        let offset = self.stream.map_or(0, |stream| stream.below(u64::from(holder), self.count.max(1)));
        let place = u128::from(holder) * u128::from(self.count) + u128::from(offset);
        (place / u128::from(self.holders)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::sizes::{Shape, Sizes};

    fn plan(files: u64, directories: u64, spread: Spread) -> Plan {
        Plan::new(&Spec { files, directories, spread, ..Spec::default() }).unwrap()
    }

    #[test]
    fn every_file_lies_in_exactly_one_directory() {
        for spread in [Spread::Even, Spread::Random] {
            for (files, directories) in [(0, 0), (0, 5), (7, 0), (1, 9), (1000, 1), (1000, 77), (77, 1000)] {
                let plan = plan(files, directories, spread);
                let mut next = 0;
                for directory in 0..=directories as u32 {
                    let range = plan.files_in(directory);
                    assert_eq!(range.start, if directory == 0 && directories > 0 { 0 } else { next });
                    range.clone().for_each(|file| assert_eq!(plan.directory_of(Node::File(file)), directory));
                    next = next.max(range.end);
                }
                assert_eq!(next, files);
            }
        }
    }

    #[test]
    fn an_even_spread_is_even_and_a_random_one_is_not() {
        let even = plan(1000, 100, Spread::Even);
        assert!((1..=100).all(|directory| even.files_in(directory).count() == 10));
        let random = plan(1000, 100, Spread::Random);
        let counts: Vec<_> = (1..=100).map(|directory| random.files_in(directory).count()).collect();
        assert!(counts.iter().all(|&count| count <= 20), "{counts:?}");
        assert!(counts.iter().any(|&count| count < 5) && counts.iter().any(|&count| count > 15));
    }

    #[test]
    fn sizes_keep_to_the_limits_with_any_seed() {
        let sizes = Sizes::new(Shape::Lognormal, 1000, 1_000_000, 1).unwrap();
        let total = |seed| {
            let plan = Plan::new(&Spec { seed, sizes, files: 10_000, ..Spec::default() }).unwrap();
            let all = (0..10_000).map(|file| plan.size_bytes(file));
            assert!(all.clone().all(|size| (1000..=1_000_000).contains(&size)));
            all.sum::<u64>() as f64
        };
        assert!((total(1) / total(2) - 1.0).abs() < 0.001);
    }

    #[test]
    fn times_and_modes_are_valid() {
        let plan = plan(1000, 10, Spread::Random);
        for file in 0..1000 {
            let mtime = plan.mtime(Node::File(file));
            assert!((1_000_000_000..1_750_000_000).contains(&mtime.seconds));
            assert!(mtime.nanoseconds < 1_000_000_000);
            assert!(plan.mode(Node::File(file)) & !0o777 == 0);
        }
        assert!((0..1000).any(|file| !plan.mtime(Node::File(file)).nanoseconds.is_multiple_of(1000)));
    }

    #[test]
    fn paths_lead_from_the_target_down() {
        let spec = Spec { directories: 3, files: 3, depth_max: 3, fan_out_max: 1, ..Spec::default() };
        let plan = Plan::new(&Spec { spread: Spread::Even, ..spec }).unwrap();
        assert_eq!(plan.path(Node::Directory(0)), b"");
        assert_eq!(plan.path(Node::Directory(3)), b"d1/d2/d3");
        assert_eq!(plan.path(Node::File(1)), b"d1/d2/f1");
    }

    #[test]
    fn a_plan_of_a_hundred_million_files_keeps_no_list() {
        let started = std::time::Instant::now();
        let plan = plan(1 << 40, 1000, Spread::Random);
        for file in [0, 1, 1 << 20, (1 << 40) - 1] {
            assert!(plan.files_in(plan.directory_of(Node::File(file))).contains(&file));
            let _ = plan.size_bytes(file);
        }
        assert!(started.elapsed().as_secs() < 1);
    }
}
