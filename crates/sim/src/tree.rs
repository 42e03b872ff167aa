//! Trees that are not stored: a directory is a seed and the number of files below it, and its contents follow from these. The
//! numbers of the parts add up to the whole, so a tree has exactly the requested number of files.
//!
//! Files have no names, sizes or types: the model holds only what costs time, and the length of paths.

/// The default mean number of files per directory. The papers give the number of files only; production file systems of the
/// time had between 10 and 30 files per directory.
const FILES_PER_DIRECTORY: u64 = 20;

/// The maximum number of files: products with weights must fit 64 bits.
const FILES_MOST: u64 = 1 << 40;

/// Bytes of a path without its levels: the mount point and the file name.
const PATH_FIRST_BYTES: u64 = 23;
/// Bytes that each level adds to a path. At the mean depth of the papers' trees, 8, a path is 70 bytes long.
const PATH_LEVEL_BYTES: u64 = 6;
/// The maximum length of a path (`PATH_MAX`).
const PATH_MOST_BYTES: u64 = 4095;

/// The distribution of directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every directory has the same number of subdirectories, of equal size.
    Balanced {
        /// The number of subdirectories.
        fan_out: u32,
    },
    /// The number of subdirectories is drawn from a wide range; the i-th largest has a share of 1/i.
    Zipf {
        /// The maximum number of subdirectories.
        fan_out_most: u32,
    },
    /// One directory with all files.
    Flat,
    /// Each directory has one subdirectory.
    Chain,
}

impl Shape {
    /// A shape by name: `balanced`, `zipf`, `flat` or `chain`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "balanced" => Some(Self::Balanced { fan_out: 12 }),
            "zipf" => Some(Self::Zipf { fan_out_most: 64 }),
            "flat" => Some(Self::Flat),
            "chain" => Some(Self::Chain),
            _ => None,
        }
    }
}

/// A tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    shape: Shape,
    files: u64,
    files_per_directory: u64,
    seed: u64,
}

/// A directory with its whole subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// All its properties follow from this number.
    pub seed: u64,
    /// Files in the subtree.
    pub files: u64,
    /// Levels below the root.
    pub depth: u32,
}

/// The direct contents of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Files in it.
    pub files: u64,
    /// Directories in it.
    pub directories: u64,
}

impl Listing {
    /// The number of entries.
    #[must_use]
    pub fn entries(self) -> u64 {
        self.files + self.directories
    }
}

/// The contents of a subtree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Files.
    pub files: u64,
    /// Directories, including the top one.
    pub directories: u64,
}

impl Tree {
    /// A tree with exactly `files` files (at most 2^40).
    #[must_use]
    pub fn new(shape: Shape, files: u64, seed: u64) -> Self {
        Self { shape, files: files.min(FILES_MOST), files_per_directory: FILES_PER_DIRECTORY, seed }
    }

    /// The same tree with another mean number of files per directory, at least 1.
    #[must_use]
    pub fn with_files_per_directory(mut self, files: u64) -> Self {
        self.files_per_directory = files.max(1);
        self
    }

    /// A tree like those of the papers, of any size: skewed, with about 20 files per directory.
    #[must_use]
    pub fn scaled(files: u64) -> Self {
        Self::new(Shape::Zipf { fan_out_most: 64 }, files, 1)
    }

    /// The papers' file system of 6.5 million files.
    #[must_use]
    pub fn paper_small() -> Self {
        Self::scaled(6_500_000)
    }

    /// The papers' file system of 12 million files.
    #[must_use]
    pub fn paper_middle() -> Self {
        Self::scaled(12_000_000)
    }

    /// The papers' file system of 110 million files.
    #[must_use]
    pub fn paper_large() -> Self {
        Self::scaled(110_000_000)
    }

    /// The same tree with another number of files.
    pub(crate) fn with_files(self, files: u64) -> Self {
        Self { files, ..self }
    }

    /// The number of files.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> Node {
        Node { seed: mix(self.seed), files: self.files, depth: 0 }
    }

    /// The direct contents of a directory.
    #[must_use]
    pub fn listing(&self, node: &Node) -> Listing {
        let mean = self.files_per_directory;
        let is_leaf = match self.shape {
            Shape::Flat => true,
            Shape::Chain => node.files <= mean,
            Shape::Balanced { .. } | Shape::Zipf { .. } => node.files <= 2 * mean,
        };
        if is_leaf {
            return Listing { files: node.files, directories: 0 };
        }
        let files = if self.shape == Shape::Chain { mean } else { below(mix(node.seed ^ 1), 2 * mean + 1) };
        let rest = node.files - files;
        let wanted = match self.shape {
            Shape::Flat | Shape::Chain => 1,
            Shape::Balanced { fan_out } => u64::from(fan_out),
            Shape::Zipf { fan_out_most } => {
                let drawn = mix(node.seed ^ 2);
                let bits = u64::from(u64::BITS - u64::from(fan_out_most.max(2) - 1).leading_zeros());
                2 + below(mix(drawn), 1 << (1 + drawn % bits))
            }
        };
        Listing { files, directories: wanted.min(rest.div_ceil(mean + mean / 2)).max(1) }
    }

    /// Calls `f` with each direct subdirectory.
    pub fn for_each_directory(&self, node: &Node, f: impl FnMut(Node)) {
        self.for_each_listed(node, self.listing(node), f);
    }

    fn for_each_listed(&self, node: &Node, listing: Listing, mut f: impl FnMut(Node)) {
        let count = listing.directories;
        if count == 0 {
            return;
        }
        let rest = node.files - listing.files;
        let weight = |index: u64| match self.shape {
            Shape::Zipf { .. } => (1 << 20) / (index + 1),
            _ => 1,
        };
        let total: u64 = (0..count).map(weight).sum();
        // Rotate, so that the largest is not always the first.
        let turn = below(mix(node.seed ^ 3), count);
        let (mut sum, mut before) = (0, 0);
        for index in 0..count {
            sum += weight((index + turn) % count);
            let upto = rest * sum / total;
            let seed = mix(node.seed.wrapping_add((index + 4).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            f(Node { seed, files: upto - before, depth: node.depth + 1 });
            before = upto;
        }
    }

    /// Counts a whole subtree. Takes time in proportion to the number of directories.
    #[must_use]
    pub fn size(&self, node: &Node) -> Size {
        let mut size = Size { files: node.files, directories: 0 };
        let mut todo = vec![*node];
        while let Some(node) = todo.pop() {
            size.directories += 1;
            let listing = self.listing(&node);
            if listing.directories > 0 {
                self.for_each_listed(&node, listing, |child| todo.push(child));
            }
        }
        size
    }
}

/// The length in bytes of a path this many levels below the root.
#[must_use]
pub fn path_bytes(depth: u32) -> u64 {
    (PATH_FIRST_BYTES + PATH_LEVEL_BYTES * u64::from(depth)).min(PATH_MOST_BYTES)
}

/// A pseudorandom number that depends on `seed` alone (the finaliser of SplitMix64).
pub(crate) fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Maps a pseudorandom number to one below `bound`.
pub(crate) fn below(random: u64, bound: u64) -> u64 {
    ((u128::from(random) * u128::from(bound)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_has_exactly_the_wanted_number_of_files() {
        for shape in ["balanced", "zipf", "flat", "chain"].map(|name| Shape::named(name).unwrap()) {
            for files in [0, 1, 19, 41, 1000, 123_457] {
                for seed in 0..3 {
                    let tree = Tree::new(shape, files, seed);
                    let (mut sum, mut todo) = (0, vec![tree.root()]);
                    while let Some(node) = todo.pop() {
                        sum += tree.listing(&node).files;
                        tree.for_each_directory(&node, |child| todo.push(child));
                    }
                    assert_eq!(sum, files, "{shape:?}");
                }
            }
        }
    }

    #[test]
    fn the_papers_trees_have_some_20_files_a_directory() {
        for shape in ["balanced", "zipf"].map(|name| Shape::named(name).unwrap()) {
            let tree = Tree::new(shape, 6_500_000, 1);
            let directories = tree.size(&tree.root()).directories;
            let mean = 6_500_000.0 / directories as f64;
            assert!((12.0..30.0).contains(&mean), "{shape:?}: {mean} files a directory");
        }
    }

    #[test]
    fn most_paths_of_the_paper_tree_have_70_bytes() {
        let tree = Tree::paper_small();
        let (mut bytes, mut todo) = (0, vec![tree.root()]);
        while let Some(node) = todo.pop() {
            bytes += tree.listing(&node).files * path_bytes(node.depth + 1);
            tree.for_each_directory(&node, |child| todo.push(child));
        }
        let mean = bytes / tree.files();
        assert!((60..90).contains(&mean), "{mean} bytes");
    }
}
