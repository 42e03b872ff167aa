//! One mount, as the mount table shows it: owned, without escapes. It does not know where it stands in the tree of mounts.

use std::borrow::Cow;

use atta_sys::file_systems::{FileSystem, Reach, UriRule, mounted_type};
use atta_sys::mount_line::{MountLine, unescaped};

/// Major and minor number of a device. For file systems without a disk the kernel makes one up, and may use it again after an unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// Major number; 0 for a file system without a disk.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// How mounts below this one are passed on to others (mount_namespaces(7)). Numbers are those of peer groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Propagation {
    /// It shares mounts with this group.
    pub shared: Option<u64>,
    /// It receives mounts from this group.
    pub master: Option<u64>,
    /// The nearest group above that this process can see, where the master is not visible.
    pub propagate_from: Option<u64>,
    /// It cannot be bound.
    pub is_unbindable: bool,
}

/// A mounted file system, or a directory of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Number of the mount; used again after it is gone.
    pub id: u64,
    /// Number of the mount on which it is mounted.
    pub parent: u64,
    /// Device of the file system.
    pub device: Device,
    /// The directory (or file) of the file system that is mounted: `/`, or what was bound. `//deleted` at its end: it was removed.
    pub root: Vec<u8>,
    /// Where it is mounted, as an absolute path of this process.
    pub point: Vec<u8>,
    /// Type, such as `ext4` or `fuse.sshfs`.
    pub kind: Vec<u8>,
    /// What it says that it was mounted from.
    pub source: Vec<u8>,
    /// Shared subtrees.
    pub propagation: Propagation,
    /// Options of the mount and of the file system, as the line has them.
    options: [Vec<u8>; 2],
    /// Looked up once.
    known: Option<&'static FileSystem>,
}

impl Mount {
    pub(crate) fn new(line: &MountLine<'_>) -> Self {
        let text = |field| unescaped(field).into_owned();
        let (major, minor) = line.device;
        let (kind, source) = (text(line.kind), text(line.source));
        Self {
            id: line.id,
            parent: line.parent,
            device: Device { major, minor },
            root: text(line.root),
            point: text(line.point),
            known: mounted_type(&kind, &source),
            kind,
            source,
            propagation: propagation(line.tags),
            options: [line.options.to_vec(), line.super_options.to_vec()],
        }
    }

    /// Its row in the table of file-system types. None: a type that is not known, of which nothing is assumed.
    #[must_use]
    pub const fn known(&self) -> Option<&'static FileSystem> {
        self.known
    }

    /// Where its data is, from its type alone. For overlays and loop devices [`MountTable::reach_of`](crate::MountTable::reach_of) knows more.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.known.map_or(Reach::Unknown, |known| known.mounts.reach)
    }

    /// Whether the directory that is mounted was removed. Another one with the same name may have been removed before.
    pub(crate) fn is_removed(&self) -> bool {
        self.root.ends_with(b"//deleted")
    }

    pub(crate) fn rule(&self) -> UriRule {
        self.known.map_or(UriRule::Unknown, |known| known.mounts.rule)
    }

    /// How its URIs begin.
    pub(crate) fn scheme(&self) -> &[u8] {
        let scheme = self.known.map_or("", |known| known.mounts.scheme);
        if scheme.is_empty() { &self.kind } else { scheme.as_bytes() }
    }

    /// Whether it cannot be written to, by the mount or by the file system.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.options.iter().any(|options| options.split(|byte| *byte == b',').any(|option| option == b"ro"))
    }

    /// Options of this mount (`rw,noatime`), as the line has them.
    #[must_use]
    pub fn options(&self) -> &[u8] {
        &self.options[0]
    }

    /// Options of the file system, as the line has them.
    #[must_use]
    pub fn super_options(&self) -> &[u8] {
        &self.options[1]
    }

    /// The value of an option `NAME=VALUE` of the file system, without escapes; of several the last one.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.values_of(name).last()
    }

    /// The values of all options of this name, in order.
    pub(crate) fn values_of(&self, name: &str) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let value = move |option| <[u8]>::strip_prefix(option, name.as_bytes())?.strip_prefix(b"=");
        self.options[1].split(|byte| *byte == b',').filter_map(value).map(unescaped)
    }
}

fn propagation(tags: &[u8]) -> Propagation {
    let mut found = Propagation::default();
    for tag in tags.split(|byte| *byte == b' ') {
        let number = |prefix: &[u8]| std::str::from_utf8(tag.strip_prefix(prefix)?).ok()?.parse().ok();
        found.shared = found.shared.or_else(|| number(b"shared:"));
        found.master = found.master.or_else(|| number(b"master:"));
        found.propagate_from = found.propagate_from.or_else(|| number(b"propagate_from:"));
        found.is_unbindable |= tag == b"unbindable";
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(line: &[u8]) -> Mount {
        Mount::new(&MountLine::from_bytes(line).unwrap())
    }

    #[test]
    fn shared_subtrees_are_read() {
        let read = mount(b"36 35 98:0 / /m rw shared:3 master:1 propagate_from:2 future:x - ext3 /dev/a rw");
        let expected =
            Propagation { shared: Some(3), master: Some(1), propagate_from: Some(2), is_unbindable: false };
        assert_eq!(read.propagation, expected);
        assert!(mount(b"36 35 98:0 / /m rw unbindable - ext3 /dev/a rw").propagation.is_unbindable);
        assert_eq!(mount(b"36 35 98:0 / /m rw - ext3 /dev/a rw").propagation, Propagation::default());
    }

    #[test]
    fn options_are_found_by_name() {
        let read = mount(br"36 35 0:9 / /m rw,ro2 - nfs a:/b rw,addr=1.2.3.4,path=a\054b,addr=5.6.7.8,hard");
        assert_eq!(read.option("addr").as_deref(), Some(&b"5.6.7.8"[..]));
        assert_eq!(read.values_of("addr").count(), 2);
        assert_eq!(read.option("path").as_deref(), Some(&b"a,b"[..]));
        assert_eq!((read.option("hard"), read.option("add")), (None, None));
        assert!(!read.is_read_only());
        assert!(mount(b"36 35 0:9 / /m ro,noatime - nfs a:/b rw").is_read_only());
    }
}
