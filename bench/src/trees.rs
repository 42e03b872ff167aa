//! The trees that the benchmarks walk: made once, kept, and used by later runs.
//!
//! Two shapes, since they ask for different things: many small directories (the work is openat, getdents64, close)
//! and one directory with all the files (the work is fstatat, and only who splits a directory uses two threads).
//! A marker file beside the tree marks it as complete; a tree without one is completed, never deleted.
//!
//! This is not a generator of realistic trees: sizes are zero or tiny, there are no links and no odd names.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Every so many files one has content, so that sizes are not all alike.
const FILES_PER_CONTENT: usize = 10;
const CONTENT: [u8; 100] = [b'a'; 100];

/// Files that a thread makes before it asks for more work, in a flat tree.
const FLAT_CHUNK_FILES: usize = 1_000;

/// What a tree looks like: `groups` directories with `sets` directories each, and `files` files in each of all these
/// directories. Without groups, all files are in the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The name of the tree's directory.
    pub(crate) name: &'static str,
    groups: usize,
    sets: usize,
    files: usize,
}

impl Shape {
    /// 500,000 files in 50,000 directories; a tenth of that if `quick`.
    pub(crate) fn tree(quick: bool) -> Self {
        let (name, sets) = if quick { ("tree-quick", 99) } else { ("tree", 999) };
        Self { name, groups: 50, sets, files: 10 }
    }

    /// 300,000 files in one directory; a tenth of that if `quick`.
    pub(crate) fn flat(quick: bool) -> Self {
        let (name, files) = if quick { ("flat-quick", 30_000) } else { ("flat", 300_000) };
        Self { name, groups: 0, sets: 0, files }
    }

    /// Directories below the root.
    fn directories(&self) -> usize {
        self.groups * (1 + self.sets)
    }

    /// Files in all directories.
    fn files_total(&self) -> usize {
        self.files * self.directories().max(1)
    }

    /// The shape in words; also what the marker holds, so that a tree of an older shape is not taken for this one.
    pub(crate) fn describe(&self) -> String {
        match self.groups {
            0 => format!("{} files in one directory", self.files),
            groups => format!(
                "{} files in {} directories ({groups} with {} each, {} files in each of all)",
                self.files_total(),
                self.directories(),
                self.sets,
                self.files
            ),
        }
    }

    /// The path of this tree below `place`, made there unless it is complete already.
    ///
    /// # Errors
    ///
    /// What the file system says, and `AlreadyExists` for something of this name that was not made here.
    pub(crate) fn ensure(&self, place: &Path, threads: usize) -> io::Result<PathBuf> {
        let root = place.join(self.name);
        let complete = place.join(format!("{}.complete", self.name));
        let started = place.join(format!("{}.started", self.name));
        if holds(&complete, &self.describe()) {
            return Ok(root);
        }
        if root.exists() && !holds(&started, &self.describe()) {
            let reason = format!("{} is in the way: no marker of this shape lies beside it", root.display());
            return Err(io::Error::new(ErrorKind::AlreadyExists, reason));
        }
        std::fs::write(&started, self.describe())?;
        make_directory(&root)?;
        self.fill(&root, threads)?;
        // What is not written back now is written back while the first contenders run.
        rustix::fs::sync();
        std::fs::rename(&started, &complete)?;
        Ok(root)
    }

    /// Shares the pieces of the tree out to the threads: groups, or ranges of files.
    fn fill(&self, root: &Path, threads: usize) -> io::Result<()> {
        let pieces = if self.groups == 0 { self.files.div_ceil(FLAT_CHUNK_FILES) } else { self.groups };
        let taken = AtomicUsize::new(0);
        let work = || -> io::Result<()> {
            loop {
                let piece = taken.fetch_add(1, Ordering::Relaxed);
                if piece >= pieces {
                    return Ok(());
                }
                self.fill_piece(root, piece)?;
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
        })
    }

    fn fill_piece(&self, root: &Path, piece: usize) -> io::Result<()> {
        if self.groups == 0 {
            let first = piece * FLAT_CHUNK_FILES;
            return make_files(root, first..self.files.min(first + FLAT_CHUNK_FILES));
        }
        let group = root.join(format!("group-{piece:02}"));
        make_directory(&group)?;
        make_files(&group, 0..self.files)?;
        for set in 0..self.sets {
            let set = group.join(format!("set-{set:03}"));
            make_directory(&set)?;
            make_files(&set, 0..self.files)?;
        }
        Ok(())
    }
}

fn holds(marker: &Path, text: &str) -> bool {
    std::fs::read_to_string(marker).is_ok_and(|found| found == text)
}

/// Makes a directory, or leaves one that a run before this left behind.
fn make_directory(path: &Path) -> io::Result<()> {
    match DirBuilder::new().create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn make_files(directory: &Path, numbers: std::ops::Range<usize>) -> io::Result<()> {
    for number in numbers {
        let mut file = File::create(directory.join(format!("file-{number:06}.dat")))?;
        if number % FILES_PER_CONTENT == 0 {
            file.write_all(&CONTENT)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_have_the_size_they_promise() {
        let tree = Shape::tree(false);
        assert_eq!((tree.directories(), tree.files_total()), (50_000, 500_000));
        assert_eq!(Shape::flat(false).files_total(), 300_000);
        assert_eq!(Shape::flat(true).directories(), 0);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test looks at a tree that it made itself")]
    fn a_tree_is_made_once_and_nothing_foreign_is_filled() {
        let place = std::env::temp_dir().join(format!("atta-bench-trees-{}", std::process::id()));
        std::fs::create_dir_all(place.join("foreign")).unwrap();
        let shape = Shape { name: "small", groups: 2, sets: 3, files: 4 };
        let root = shape.ensure(&place, 3).unwrap();
        let count = |path: &Path| std::fs::read_dir(path).unwrap().count();
        assert_eq!((count(&root), count(&root.join("group-01"))), (2, 3 + 4));
        assert_eq!(count(&root.join("group-01/set-002")), 4);

        std::fs::remove_file(root.join("group-01/set-002/file-000001.dat")).unwrap();
        shape.ensure(&place, 1).unwrap();
        assert_eq!(count(&root.join("group-01/set-002")), 3, "a complete tree is left alone");

        let foreign = Shape { name: "foreign", ..shape };
        assert_eq!(foreign.ensure(&place, 1).unwrap_err().kind(), ErrorKind::AlreadyExists);
        std::fs::remove_dir_all(place).unwrap();
    }
}
