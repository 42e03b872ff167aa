//! Decides which metadata a copy keeps and who owns it. It changes nothing.

use std::ffi::CStr;
use std::sync::OnceLock;

use atta_entry::{Kind, Metadata};
use rustix::fs::{Gid, Uid};

pub use super::owners::{OwnerRule, Owners};
use super::pattern;

/// Where the kernel keeps access control lists: POSIX lists, and those of NFS and of rich file systems.
const LISTS: [&[u8]; 5] = [
    b"system.posix_acl_access",
    b"system.posix_acl_default",
    b"system.nfs4_acl",
    b"system.nfs4acl",
    b"system.richacl",
];
const ACCESS_LIST: &[u8] = LISTS[0];

/// What is kept.
#[derive(Clone, Debug)]
pub struct Keep {
    /// Permission bits, and set-id bits if the owner is kept. Otherwise a new file gets the source's permissions minus the process's mask,
    /// and an existing file keeps its own.
    pub mode: bool,
    /// Owner and group.
    pub owner: bool,
    /// Times of access and change, of directories too.
    pub times: bool,
    /// Which names belong to one file.
    pub links: bool,
    /// Access control lists.
    pub lists: bool,
    /// Which extended attributes, lists aside.
    pub extended: ExtendedNames,
    /// Maps owners; takes precedence over `owner`.
    pub owners: Owners,
}

/// Which extended attributes are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExtendedNames {
    /// All but `lustre.*`, and `trusted.*` if this is not root.
    #[default]
    Usual,
    /// All.
    All,
    /// None.
    None,
    /// Those whose names match one of these: `*` stands for any number of bytes, `?` for one.
    Matching(Vec<Vec<u8>>),
}

/// Whether an attribute is an access control list.
pub(crate) fn is_list(name: &[u8]) -> bool {
    LISTS.contains(&name)
}

/// Whether an attribute applies to this kind. ACLs of links are ignored, although some servers list one and do not return it.
pub(crate) fn may_have(kind: Kind, name: &CStr) -> bool {
    kind != Kind::Symlink || !is_list(name.to_bytes())
}

/// Whether the system itself maintains an attribute: labels of security modules, hashes of contents.
pub(crate) fn is_of_system(name: &CStr) -> bool {
    let Some(name) = name.to_bytes().strip_prefix(b"security.") else { return false };
    matches!(name, b"selinux" | b"ima" | b"evm" | b"apparmor")
        || name.starts_with(b"SMACK64")
        || name.starts_with(b"bpf.")
}

/// Whether an attribute grants rights or decides whether a file is trusted.
pub(crate) fn gives_rights(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"security.") || name.to_bytes().starts_with(b"trusted.")
}

impl Default for Keep {
    fn default() -> Self {
        let (extended, owners) = (ExtendedNames::default(), Owners::default());
        Self { mode: true, owner: true, times: true, links: true, lists: true, extended, owners }
    }
}

impl ExtendedNames {
    fn contains(&self, name: &[u8]) -> bool {
        match self {
            Self::Usual if name.starts_with(b"trusted.") => rustix::process::geteuid().is_root(),
            Self::Usual => !name.starts_with(b"lustre."),
            Self::All => true,
            Self::None => false,
            Self::Matching(patterns) => patterns.iter().any(|pattern| pattern::matches(pattern, name)),
        }
    }
}

impl Keep {
    /// Nothing beside the bytes.
    #[must_use]
    pub fn nothing() -> Self {
        let (extended, owners) = (ExtendedNames::None, Owners::default());
        Self { mode: false, owner: false, times: false, links: false, lists: false, extended, owners }
    }

    /// Whether the copy is to have an attribute of its source.
    pub(crate) fn gives(&self, name: &CStr) -> bool {
        let name = name.to_bytes();
        if is_list(name) { self.lists } else { self.extended.contains(name) }
    }

    /// Whether an attribute of the source is read. The access list is read even if it is not kept: the mode depends on it.
    pub(crate) fn reads(&self, name: &CStr) -> bool {
        name.to_bytes() == ACCESS_LIST || self.gives(name)
    }

    /// Whether an attribute of a source of this kind is read.
    pub(crate) fn reads_of(&self, kind: Kind, name: &CStr) -> bool {
        self.reads(name) && may_have(kind, name)
    }

    /// The owner and group of a copy; none: those of this process.
    pub(crate) fn owners_of(&self, from: &Metadata) -> (Option<Uid>, Option<Gid>) {
        let user = self.owners.user(from.uid).or(self.owner.then_some(from.uid));
        let group = self.owners.group(from.gid).or(self.owner.then_some(from.gid));
        (user.map(Uid::from_raw), group.map(Gid::from_raw))
    }

    /// The mode of a copy that does not get the access list of its source, if there is one. None: the existing file keeps its own.
    pub(crate) fn mode_of(&self, from: &Metadata, list: Option<&[u8]>, is_old: bool) -> Option<u32> {
        let mode = list.map_or(from.mode, |list| without_list(from.mode, list));
        match (self.mode, is_old) {
            (true, _) => Some(mode & 0o7777),
            (false, true) => None,
            (false, false) => Some(mode & 0o777 & !mask()),
        }
    }
}

/// The mode of a file without its access list. With the list, the group bits are a mask for all users and groups that it names; without it,
/// they would be the rights of the group.
pub(crate) fn without_list(mode: u32, list: &[u8]) -> u32 {
    const GROUP: u16 = 0x04;
    // After 4 bytes of version: tag, permissions and id, of 2, 2 and 4 bytes.
    let (entries, _) = list.get(4..).unwrap_or_default().as_chunks::<8>();
    let group = entries.iter().find(|[low, high, ..]| u16::from_le_bytes([*low, *high]) == GROUP);
    let rights = group.map_or(0, |[_, _, rights, ..]| u32::from(*rights) & 0o7);
    mode & (!0o070 | rights << 3)
}

/// The umask of the process.
fn mask() -> u32 {
    static MASK: OnceLock<u32> = OnceLock::new();
    *MASK.get_or_init(|| {
        // umask(2) can only be read by setting it, which would affect other threads. Without /proc other users get no rights.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        line.and_then(|octal| u32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0o077)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_kept_by_their_names() {
        let all = Keep::default();
        assert!(all.gives(c"user.a") && all.gives(c"system.posix_acl_access") && !all.gives(c"lustre.lov"));
        let nothing = Keep::nothing();
        assert!(!nothing.gives(c"user.a") && !nothing.gives(c"system.posix_acl_access"));
        assert!(nothing.reads(c"system.posix_acl_access") && !nothing.reads(c"user.a"));
        let extended = ExtendedNames::Matching(vec![b"user.*".to_vec(), b"security.?ma".to_vec()]);
        let some = Keep { extended, lists: false, ..Keep::default() };
        let names = [c"user.a", c"security.ima", c"security.evm", c"system.posix_acl_access"];
        assert_eq!(names.map(|name| some.gives(name)), [true, true, false, false]);
        assert!(Keep { extended: ExtendedNames::All, ..Keep::default() }.gives(c"lustre.lov"));
        assert!(all.reads_of(Kind::Symlink, c"user.a") && !nothing.reads_of(Kind::Symlink, c"user.a"));
        for list in [c"system.posix_acl_access", c"system.nfs4_acl"] {
            assert!(all.reads_of(Kind::Fifo, list) && !all.reads_of(Kind::Symlink, list));
        }
    }

    #[test]
    fn mode_without_its_acl_gives_the_group_no_more() {
        // rwx for the owner, r-- for the group, rwx for somebody else, and at most rw- for both.
        let entry = |kind: u16, rights: u16| {
            [&kind.to_le_bytes()[..], &rights.to_le_bytes(), &u32::MAX.to_le_bytes()].concat()
        };
        let list = [vec![2, 0, 0, 0], entry(1, 7), entry(2, 7), entry(4, 4), entry(0x10, 6), entry(0x20, 0)];
        let from = Metadata { mode: 0o100_760, ..Metadata::default() };
        let keep = Keep::default();
        assert_eq!(keep.mode_of(&from, Some(&list.concat()), false), Some(0o740));
        assert_eq!(keep.mode_of(&from, None, true), Some(0o760));
        assert_eq!(keep.mode_of(&from, Some(b"?"), false), Some(0o700));
        assert_eq!(Keep::nothing().mode_of(&from, None, true), None);
    }
}
