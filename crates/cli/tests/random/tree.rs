//! Random trees with attributes, and random changes of them: default ACLs that leave the owner little, long attributes beside ACLs,
//! stale attributes, times 1 ns apart, roots that differ. A tree depends on its seed and on who it is for, and on nothing else.
//!
//! It makes nothing that its owner cannot read, so that every copy of it can be complete.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};

use atta_testkit::random::Random;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lsetxattr, mknodat, utimensat,
};

use super::facts::{self, DIRECTORY};

/// Whose trees they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Root makes them, and gives entries to several users.
    Root,
    /// An ordinary user with this number has all of it.
    User(u32),
}

const NAMES: [&[u8]; 10] = [
    b"a",
    b"b",
    b"Case",
    b"case",
    b"new\nline",
    b"-rf",
    b".atta.data",
    b"invalid \xff\xfe",
    b" ",
    b"\x1b[31m",
];
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// Users that entries belong to, and that ACLs name.
const USERS: [u32; 3] = [0, 1000, 1001];

/// A tree below `root`, which is made, of some `entries` entries.
pub(crate) fn build(root: &Path, seed: u64, entries: u64, owner: Owner) {
    let mut maker = Maker { random: Random::new(seed), owner, linkable: Vec::new() };
    fs::create_dir(root).unwrap();
    let mut directories = vec![root.to_path_buf()];
    for number in 0..entries {
        let parent = maker.random.pick(&directories).clone();
        let name = [*maker.random.pick(&NAMES), number.to_string().as_bytes()].concat();
        let path = parent.join(std::ffi::OsStr::from_bytes(&name));
        maker.make(&path, &mut directories);
    }
    // Last, so that nothing that is made below changes them; the deepest first.
    for directory in directories.iter().rev() {
        maker.dress(directory);
        maker.date(directory);
    }
}

struct Maker {
    random: Random,
    owner: Owner,
    /// What may get another name.
    linkable: Vec<PathBuf>,
}

impl Maker {
    fn make(&mut self, path: &Path, directories: &mut Vec<PathBuf>) {
        match self.random.below(100) {
            0..20 => {
                fs::create_dir(path).unwrap();
                // What is made below inherits it.
                if self.random.chance(30) {
                    self.set_list(path, DEFAULT);
                }
                return directories.push(path.to_path_buf());
            }
            20..35 => symlink(self.random.pick(&["x", "..", "/etc/passwd", "a\nb", "./a0"]), path).unwrap(),
            35..42 => self.make_special(path),
            42..52 if !self.linkable.is_empty() => {
                let first = self.random.pick(&self.linkable).clone();
                return fs::hard_link(first, path).unwrap();
            }
            _ => self.make_file(path),
        }
        self.dress(path);
        self.date(path);
        self.linkable.push(path.to_path_buf());
    }

    fn make_special(&mut self, path: &Path) {
        let kind = *self.random.pick(&[FileType::Fifo, FileType::Socket]);
        mknodat(CWD, path, kind, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    fn make_file(&mut self, path: &Path) {
        let file = fs::File::create_new(path).unwrap();
        let bytes = *self.random.pick(&[0_u64, 1, 17, 4096, 70_000]);
        let byte = u8::try_from(self.random.below(256)).unwrap();
        if self.random.chance(15) {
            file.set_len(1 << 20).unwrap();
        }
        file.write_all_at(&vec![byte; usize::try_from(bytes).unwrap()], 0).unwrap();
    }

    /// Owner, attributes, lists and mode of an entry that was just made.
    fn dress(&mut self, path: &Path) {
        let kind = fs::symlink_metadata(path).unwrap().mode() & 0o170_000;
        match self.owner {
            Owner::Root => {
                let (user, group) = (*self.random.pick(&USERS), *self.random.pick(&USERS));
                lchown(path, Some(user), Some(group)).unwrap();
            }
            Owner::User(user) => lchown(path, Some(user), Some(user)).unwrap(),
        }
        if kind == 0o120_000 {
            return;
        }
        if matches!(kind, DIRECTORY | 0o100_000) {
            self.set_attributes(path);
        }
        let mode = self.mode(kind);
        set_mode(path, mode);
        // A list changes the mode, and the other way round: both orders occur.
        if self.random.chance(20) {
            self.set_list(path, ACCESS);
        }
        if kind == DIRECTORY && self.random.chance(15) {
            self.set_list(path, DEFAULT);
        }
    }

    fn mode(&mut self, kind: u32) -> u32 {
        match (kind, self.owner) {
            (DIRECTORY, _) => *self.random.pick(&[0o755, 0o700, 0o2775, 0o1777, 0o555]),
            (0o100_000, Owner::Root) => {
                *self.random.pick(&[0o644, 0o600, 0o755, 0o4755, 0o2755, 0o400, 0o000])
            }
            (0o100_000, Owner::User(_)) => *self.random.pick(&[0o644, 0o600, 0o755, 0o4755, 0o400]),
            _ => *self.random.pick(&[0o600, 0o644, 0o666]),
        }
    }

    fn set_attributes(&mut self, path: &Path) {
        for number in 0..*self.random.pick(&[0_u64, 0, 0, 1, 2, 5]) {
            // Long enough that they and a list do not both fit into an inode of ext4.
            let bytes = usize::try_from(*self.random.pick(&[0_u64, 3, 90, 200, 600])).unwrap();
            set_attribute(path, &format!("user.n{number}"), &vec![b'v'; bytes]);
        }
        if self.owner == Owner::Root && self.random.chance(10) {
            set_attribute(path, "trusted.t", b"trusted");
        }
        if self.owner == Owner::Root && self.random.chance(5) {
            set_attribute(path, "security.label", b"secure");
        }
    }

    fn set_list(&mut self, path: &Path, name: &str) {
        let list = self.list(name == DEFAULT);
        set_attribute(path, name, &list);
    }

    /// An ACL with a named user. The owner keeps what it takes to read what has it; a default one may leave less.
    fn list(&mut self, is_default: bool) -> Vec<u8> {
        let owner = match is_default {
            true => *self.random.pick(&[7_u16, 5, 4, 0]),
            false => 7,
        };
        let mut any = || *self.random.pick(&[0_u16, 4, 5, 6, 7]);
        let (user, group, mask, other) = (any(), any(), any(), any());
        let number = *self.random.pick(&USERS);
        let entries = [
            (1, owner, u32::MAX),
            (2, user, number),
            (4, group, u32::MAX),
            (0x10, mask, u32::MAX),
            (0x20, other, u32::MAX),
        ];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            list.extend(u16::to_le_bytes(tag));
            list.extend(permissions.to_le_bytes());
            list.extend(id.to_le_bytes());
        }
        list
    }

    fn date(&mut self, path: &Path) {
        let seconds = *self.random.pick(&[0_i64, 1_000_000_000, 1_700_000_000]);
        let nanoseconds = *self.random.pick(&[0_i64, 1, 100, 1000, 123_456_789, 999_999_999]);
        set_time(path, seconds, nanoseconds);
    }
}

/// Changes a tree at random, as somebody may have changed a target since it was copied. What it changes of bytes shows in the time: a
/// copy that goes by size and time can see it. No directory gets something else in its place, nor the other way round.
pub(crate) fn change(root: &Path, seed: u64, changes: u64, owner: Owner) {
    let mut maker = Maker { random: Random::new(seed), owner, linkable: Vec::new() };
    for number in 0..changes {
        let tree = facts::read(root);
        let paths: Vec<_> = tree.iter().collect();
        let (below, facts) = *maker.random.pick(&paths);
        let path = root.join(std::ffi::OsStr::from_bytes(below));
        change_one(&mut maker, &path, facts, number);
    }
}

fn change_one(maker: &mut Maker, path: &Path, facts: &facts::Facts, number: u64) {
    let (seconds, nanoseconds) = facts.modified;
    let is_file = facts.kind == 0o100_000;
    let is_directory = facts.kind == DIRECTORY;
    match maker.random.below(8) {
        0 if is_file && !facts.content.is_empty() => {
            // Other bytes, the same size, a time that is 2 ns away: changes of the time alone are of 1 ns, and cannot undo that.
            let mut content = facts.content.clone();
            content[0] ^= 1;
            fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&content, 0).unwrap();
            set_mode(path, facts.mode);
            set_time(path, seconds, nanoseconds ^ 2);
        }
        1 if !is_directory => fs::remove_file(path).unwrap(),
        2 if is_directory => {
            // The same directory may be drawn again.
            let mut names = (number..).map(|number| path.join(format!("extra{number}")));
            let name = names.find(|name| fs::symlink_metadata(name).is_err()).unwrap();
            maker.make_file(&name);
            lchown(name, Some(facts.owner.0), Some(facts.owner.1)).unwrap();
            set_time(path, seconds, nanoseconds);
        }
        3 if is_file || is_directory => set_attribute(path, "user.stale", b"stale"),
        4 if is_file || is_directory => maker.set_list(path, ACCESS),
        5 if is_directory => maker.set_list(path, DEFAULT),
        6 if facts.kind != 0o120_000 => set_mode(path, facts.mode ^ 0o044),
        7 => set_time(path, seconds, nanoseconds ^ 1),
        _ => {}
    }
}

/// Gives the owner of each directory all rights in it.
pub(crate) fn admit_owner(root: &Path) {
    for (below, facts) in facts::read(root).iter().filter(|(_, facts)| facts.kind == DIRECTORY) {
        let path = root.join(std::ffi::OsStr::from_bytes(below));
        set_mode(&path, facts.mode | 0o700);
    }
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, CString::new(name).unwrap(), value, XattrFlags::empty())
        .unwrap_or_else(|error| panic!("{name} of {}: {error}", path.display()));
}

fn set_mode(path: &Path, mode: u32) {
    rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty()).unwrap();
}

fn set_time(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}
