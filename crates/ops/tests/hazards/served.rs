//! Directories on a file system on which chosen operations go wrong, and what must be true of a copy from or to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use atta_ops::copy::{Options, Outcome};
use atta_testkit::lock::Lock;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use atta_testkit::slow::{Builder, SlowFs};

use crate::copying::{Failed, threads, try_copy};

/// A directory (`directory`), shown once more (`shown`) with faults.
pub(crate) struct Served {
    pub(crate) shown: SlowFs,
    pub(crate) directory: PathBuf,
    pub(crate) scratch: Scratch,
    _lock: Lock,
}

impl Served {
    /// A path on the side of the faults.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.shown.path().join(name)
    }

    /// Unmounts. What was asked.
    pub(crate) fn served(self) -> atta_testkit::slow::Served {
        self.shown.finish().unwrap()
    }

    /// Unmounts. The directory that was shown, and what keeps it.
    pub(crate) fn end(self) -> (PathBuf, (Scratch, Lock)) {
        let Self { shown, directory, scratch, _lock } = self;
        shown.finish().unwrap();
        (directory, (scratch, _lock))
    }

    /// The same without them.
    pub(crate) fn beneath(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Serves a directory, which `fill` fills before, with failure rules. None, with a reported reason, if it cannot be served.
pub(crate) fn serve(test: &str, fill: impl FnOnce(&Path), rules: &[&str]) -> Option<Served> {
    serve_by(test, SlowFs::builder(), fill, rules)
}

/// The same, but what was not synced is lost when it ends.
pub(crate) fn serve_forgetful(test: &str, fill: impl FnOnce(&Path), rules: &[&str]) -> Option<Served> {
    serve_by(test, SlowFs::builder().lose_unsynced(), fill, rules)
}

fn serve_by(test: &str, builder: Builder, fill: impl FnOnce(&Path), rules: &[&str]) -> Option<Served> {
    let lock = Lock::for_own_mount().expect("take the lock of mounts");
    let scratch = Scratch::new("hazards").unwrap();
    let directory = scratch.join("directory");
    fs::create_dir(&directory).unwrap();
    fill(&directory);
    let builder = builder.latency(Duration::ZERO).over(&directory);
    let builder = rules.iter().fold(builder, |builder, rule| builder.fail(rule));
    let shown = skip::unless_available(test, builder.mount())?;
    Some(Served { shown, directory, scratch, _lock: lock })
}

/// Three files and a directory with one more.
pub(crate) fn small(tree: &Path) {
    fs::create_dir_all(tree.join("sub")).unwrap();
    for name in ["a", "victim", "z", "sub/inner"] {
        fs::write(tree.join(name), format!("{name}, as it is in the source").repeat(1000)).unwrap();
    }
}

/// The same names with an old content.
pub(crate) fn small_and_old(tree: &Path) {
    fs::create_dir_all(tree.join("sub")).unwrap();
    for name in ["a", "victim", "z", "sub/inner"] {
        fs::write(tree.join(name), "old").unwrap();
    }
}

/// A copy of what is in a directory, on one thread, so that it is the same each time.
pub(crate) fn copy_within(source: &Path, target: &Path) -> (Outcome, Vec<Failed>) {
    copy_with(source, target, &threads(1))
}

pub(crate) fn copy_with(source: &Path, target: &Path, options: &Options<'_>) -> (Outcome, Vec<Failed>) {
    try_copy(&[&source.join(".")], target, options).unwrap()
}

/// Whose last names failed.
pub(crate) fn names(failures: &[Failed]) -> Vec<String> {
    let mut names: Vec<_> = failures
        .iter()
        .map(|(_, path, _)| path.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Nothing is there that has not got its own name.
pub(crate) fn assert_no_leftovers(directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with(".atta."), "left over: {}", entry.path().display());
        if entry.file_type().unwrap().is_dir() {
            assert_no_leftovers(&entry.path());
        }
    }
}

/// Each file of a tree is what it is in the source, or what it was before, or not there; returns how many are as in the source.
pub(crate) fn assert_whole_or_old(source: &Path, target: &Path, old: &[u8]) -> usize {
    let mut copied = 0;
    for entry in fs::read_dir(target).unwrap() {
        let path = entry.unwrap().path();
        let from = source.join(path.file_name().unwrap());
        if path.is_dir() {
            copied += assert_whole_or_old(&from, &path, old);
            continue;
        }
        let content = fs::read(&path).unwrap();
        let is_copied = fs::read(&from).is_ok_and(|expected| expected == content);
        assert!(is_copied || content == old, "{}: {} bytes of neither", path.display(), content.len());
        copied += usize::from(is_copied);
    }
    copied
}

/// How many files have names of their own; each is whole or old.
pub(crate) fn whole_or_hidden(source: &Path, target: &Path) -> usize {
    let mut found = 0;
    for entry in fs::read_dir(target).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if name.to_string_lossy().starts_with(".atta.") {
            continue;
        }
        if path.is_symlink() {
            assert_eq!(fs::read_link(&path).unwrap(), fs::read_link(source.join(name)).unwrap());
            found += 1;
            continue;
        }
        if path.is_dir() {
            found += whole_or_hidden(&source.join(name), &path);
            continue;
        }
        let content = fs::read(&path).unwrap();
        assert!(content == b"old" || content == fs::read(source.join(name)).unwrap(), "{}", path.display());
        found += 1;
    }
    found
}
