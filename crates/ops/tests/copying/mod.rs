//! What tests of the copy share: a copy with all that failed in it, everything that a copy must have of an entry, another user.

#![allow(dead_code, reason = "each test program uses a part of this")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

pub(crate) mod logged;
pub(crate) mod ranks;
pub(crate) mod rsync;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use atta_entry::{Class, Failure};
use atta_ops::copy::{self, Options, Outcome, Refused, Watch};
use atta_ops::walk;
use atta_runtime::Threads;
use atta_testkit::oracle::{self, Record};
use atta_testkit::scratch::Scratch;
use atta_testkit::{skip, trees};

/// Collects failures as they are printed.
#[derive(Default)]
pub(crate) struct Reported(pub(crate) Mutex<Vec<String>>);

impl Watch for Reported {
    fn failure(&self, failure: &Failure<'_>) {
        self.0.lock().unwrap().push(failure.to_string());
    }
}

#[derive(Default)]
pub(crate) struct Failures(pub(crate) Mutex<Vec<Failed>>);

impl Watch for Failures {
    fn failure(&self, failure: &Failure<'_>) {
        let path = OsStr::from_bytes(&failure.path).into();
        self.0.lock().unwrap().push((failure.class(), path, failure.to_string()));
    }
}

pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// An entry that was not copied: its class, its path, and the message.
pub(crate) type Failed = (Class, PathBuf, String);

/// The outcome of a copy, and its failures.
pub(crate) fn try_copy(
    sources: &[&Path],
    target: &Path,
    options: &Options<'_>,
) -> Result<(Outcome, Vec<Failed>), Refused> {
    let sources: Vec<_> = sources.iter().map(|path| bytes(path)).collect();
    let failures = Failures::default();
    let mut going = None;
    let outcome = copy::run(&sources, &bytes(target), options, &failures, |progress| {
        let found = &progress.walk.profile;
        going = Some([found.known, found.looked, progress.large_found, progress.large_done]);
    })?;
    let [known, looked, found, done] = going.unwrap();
    assert!(
        outcome.stopped || (known, found) == (looked, done),
        "nothing is left that is known of: {going:?}"
    );
    Ok((outcome, failures.0.into_inner().unwrap()))
}

/// A copy in which nothing fails.
pub(crate) fn copy(sources: &[&Path], target: &Path, options: &Options<'_>) -> Outcome {
    let (outcome, failures) = try_copy(sources, target, options).unwrap();
    assert_eq!(failures, []);
    assert!(!outcome.stopped);
    outcome
}

pub(crate) fn threads(count: usize) -> Options<'static> {
    let threads = Threads::Fixed(NonZeroUsize::new(count).unwrap());
    Options { walk: walk::Options { threads, ..walk::Options::default() }, ..Options::default() }
}

/// All that a copy must have of an entry: no inode, no device, and of links only which names belong together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: char,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) size: u64,
    pub(crate) rdev: u64,
    pub(crate) mtime: (i64, u32),
    pub(crate) target: Option<Vec<u8>>,
    /// The first name of the same file.
    pub(crate) first: Vec<u8>,
    pub(crate) extended: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) digest: Option<blake3::Hash>,
    pub(crate) has_holes: bool,
}

pub(crate) fn facts(root: &Path) -> BTreeMap<Vec<u8>, Facts> {
    let mut firsts: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    let start = bytes(root).len();
    for (path, record) in oracle::list(root).unwrap() {
        let below = path[start..].to_vec();
        let Record {
            kind, mode, uid, gid, size, blocks, dev, ino, rdev, mtime_sec, mtime_nsec, target, ..
        } = record;
        let first = firsts.entry((dev, ino)).or_insert_with(|| below.clone()).clone();
        let path = Path::new(OsStr::from_bytes(&path));
        let is_near = path.as_os_str().len() < 4000;
        let extended = if is_near { extended(path) } else { BTreeMap::new() };
        let digest =
            (kind == 'f' && size < 64 << 20 && is_near).then(|| blake3::hash(&fs::read(path).unwrap()));
        // The file system chooses the size of a directory.
        let size = if kind == 'd' { 0 } else { size };
        let has_holes = kind == 'f' && blocks * 512 < size;
        let (owner, mtime) = ((uid, gid), (mtime_sec, mtime_nsec));
        let facts =
            Facts { kind, mode, owner, size, rdev, mtime, target, first, extended, digest, has_holes };
        all.insert(below, facts);
    }
    all
}

pub(crate) fn extended(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut names, mut value) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let bytes = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            (name.to_vec(), value[..bytes].to_vec())
        })
        .collect()
}

/// Sets an extended attribute; not of what a link leads to.
pub(crate) fn set_extended(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
}

/// `u::rwx,u:UID:rwx,g::r-x,m::rwx,o::---` as the kernel takes it.
pub(crate) fn access_list(uid: u32) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1_u16, 7_u16, NOBODY), (2, 7, uid), (4, 5, NOBODY), (16, 7, NOBODY), (32, 0, NOBODY)]
    {
        bytes.extend(tag.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(id.to_le_bytes()));
    }
    bytes
}

/// Both trees are the same in everything.
pub(crate) fn assert_same(source: &Path, target: &Path) {
    let (one, other) = (facts(source), facts(target));
    let names = |all: &BTreeMap<Vec<u8>, Facts>| {
        all.keys().map(|name| String::from_utf8_lossy(name).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&one), names(&other));
    for (name, facts) in &one {
        assert_eq!(facts, &other[name], "{}", String::from_utf8_lossy(name));
    }
}

pub(crate) fn make(target: &Path) -> PathBuf {
    fs::create_dir_all(target).unwrap();
    target.to_path_buf()
}

/// Runs something with the rights of a user who has none. The threads that it starts have them, too.
pub(crate) fn as_nobody<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| {
            let nobody = rustix::process::Gid::from_raw(65534);
            rustix::thread::set_thread_groups(&[nobody]).unwrap();
            rustix::thread::set_thread_gid(nobody).unwrap();
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
            run()
        });
        ran.join().unwrap()
    })
}

/// Hostile names, odd times, all kinds, attributes, and some depth.
pub(crate) fn hostile(scratch: &Scratch) -> PathBuf {
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    trees::kinds(&tree.join("kinds"), &scratch.join("outside")).unwrap();
    trees::hostile_names(&tree.join("names")).unwrap();
    trees::times(&tree.join("times")).unwrap();
    trees::random(&tree.join("random"), 7, 400).unwrap();
    trees::chain(&tree.join("deep"), 300, b"0123456789").unwrap();
    trees::flat(&tree.join("flat"), 500).unwrap();
    fs::create_dir(tree.join("attributes")).unwrap();
    for (name, attribute, length) in
        [("one", "user.one", 1), ("large", "user.large", 3000), ("none", "user.none", 0)]
    {
        let path = tree.join("attributes").join(name);
        fs::write(&path, name).unwrap();
        set_extended(&path, attribute, &vec![7; length]);
        set_extended(path.parent().unwrap(), attribute, b"directory");
    }
    set_extended(&tree.join("kinds/fifo"), "system.posix_acl_access", &access_list(1234));
    if skip::is_root() {
        for name in ["fifo", "link-file", "link-dangling", "socket", "device-character"] {
            set_extended(&tree.join("kinds").join(name), "trusted.one", name.as_bytes());
        }
        std::os::unix::fs::chown(tree.join("attributes/one"), Some(12345), Some(54321)).unwrap();
        fs::set_permissions(tree.join("attributes/one"), fs::Permissions::from_mode(0o6751)).unwrap();
        trees::unreadable(&tree.join("unreadable")).unwrap();
    }
    tree
}
