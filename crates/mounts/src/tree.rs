//! Which mount a path leads to. The kernel walks down name by name and enters what is mounted on the mount that it is in, again and
//! again, so that the top of a stack wins and a mount below a later one is hidden. It starts in the root directory of the process. Here
//! that walk is done once for each mount point; a query is then a search for the longest visible prefix. No file is read.
//!
//! ```text
//!   21 /                 ext4                  visible
//!   30 ├── /data         nfs, mounted on 21    hidden by 40
//!   31 │   └── /data/in  tmpfs, on 30          hidden: 40 has nothing mounted on it there
//!   40 └── /data         xfs, mounted on 30    visible
//! ```

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::mount::Mount;
use crate::path::{below, without_root_slash};

/// Visible mount points in the order of a walk, so that what is below a mount point follows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    entries: Vec<Entry>,
    /// For each mount, whether a path leads to it.
    is_visible: Vec<bool>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Without a slash at the end: the root is empty.
    point: Vec<u8>,
    /// Index of the mount.
    mount: usize,
    /// The entry of the nearest mount point above it.
    above: Option<usize>,
}

impl Index {
    pub(crate) fn new(mounts: &[Mount]) -> Self {
        let children = Children::of(mounts);
        let point = |mount: usize| without_root_slash(&mounts[mount].point);
        let is_visible: Vec<_> =
            (0..mounts.len()).map(|mount| children.walk(point(mount)) == Some(mount)).collect();
        let mut entries: Vec<_> = (0..mounts.len())
            .filter(|mount| is_visible[*mount])
            .map(|mount| Entry { point: point(mount).to_vec(), mount, above: None })
            .collect();
        entries.sort_by(|one, other| in_walk_order(&one.point, &other.point));
        let mut index = Self { entries, is_visible };
        for at in 1..index.entries.len() {
            let point = &index.entries[at].point;
            index.entries[at].above = index.enclosing(at - 1, point);
        }
        index
    }

    /// Whether the mount point of a mount, by its index, leads to it.
    pub(crate) fn shows(&self, mount: usize) -> bool {
        self.is_visible[mount]
    }

    /// The mount that a path in normal form leads to, by its index.
    pub(crate) fn find(&self, path: &[u8]) -> Option<usize> {
        let path = without_root_slash(path);
        let after =
            self.entries.partition_point(|entry| in_walk_order(&entry.point, path) != Ordering::Greater);
        let entry = self.enclosing(after.checked_sub(1)?, path)?;
        Some(self.entries[entry].mount)
    }

    /// The first entry, from this one upwards, whose mount point a path is in. The entry before a path in walk order lies below each
    /// mount point that the path is in.
    fn enclosing(&self, from: usize, path: &[u8]) -> Option<usize> {
        let mut at = Some(from);
        while let Some(entry) = at {
            if below(path, &self.entries[entry].point).is_some() {
                return Some(entry);
            }
            at = self.entries[entry].above;
        }
        None
    }
}

/// Compares paths name by name: a slash sorts before all other bytes.
fn in_walk_order(one: &[u8], other: &[u8]) -> Ordering {
    let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let rank =
        |path: &[u8]| path.get(common).map(|byte| if *byte == b'/' { 0 } else { u16::from(*byte) + 1 });
    rank(one).cmp(&rank(other))
}

/// Mounts by what they are mounted on.
struct Children<'a> {
    mounts: &'a [Mount],
    /// By the number of the parent and the mount point. Roots of trees have no parent.
    by_place: HashMap<(Option<u64>, &'a [u8]), usize>,
}

impl<'a> Children<'a> {
    fn of(mounts: &'a [Mount]) -> Self {
        let ids: HashMap<u64, usize> =
            mounts.iter().zip(0..).map(|(mount, index)| (mount.id, index)).collect();
        let mut by_place = HashMap::with_capacity(mounts.len());
        for (mount, index) in mounts.iter().zip(0..) {
            // The table has no mounts outside the root directory of the process. A second mount with one number is a mistake of the table.
            let is_root = mount.parent == mount.id || !ids.contains_key(&mount.parent);
            if ids[&mount.id] == index {
                let parent = (!is_root).then_some(mount.parent);
                by_place.insert((parent, without_root_slash(&mount.point)), index);
            }
        }
        Self { mounts, by_place }
    }

    /// The mount in which a walk to a path ends. It begins in the root directory of the process and does not enter what was mounted on that
    /// later: the kernel enters mounts only when it steps to a name. Each number is there once and each mount has one parent, so that no
    /// stack is endless.
    fn walk(&self, path: &[u8]) -> Option<usize> {
        let mut current = self.by_place.get(&(None, &b""[..])).copied();
        let ends = path.iter().zip(0..).skip(1).filter_map(|(byte, at)| (*byte == b'/').then_some(at));
        let ends = ends.chain((!path.is_empty()).then_some(path.len()));
        for end in ends {
            let parent = |current: Option<usize>| current.map(|index: usize| self.mounts[index].id);
            while let Some(next) = self.by_place.get(&(parent(current), &path[..end])) {
                current = Some(*next);
            }
        }
        current
    }
}

#[cfg(test)]
mod tests {
    use atta_sys::mount_line::MountLine;
    use proptest::prelude::*;

    use super::*;

    fn mounts(lines: &[(u64, u64, &str)]) -> Vec<Mount> {
        let line = |(id, parent, point): &(u64, u64, &str)| {
            format!("{id} {parent} 0:{id} / {point} rw - tmpfs t rw")
        };
        let read = |line: String| Mount::new(&MountLine::from_bytes(line.as_bytes()).unwrap());
        lines.iter().map(line).map(read).collect()
    }

    fn found(lines: &[(u64, u64, &str)], path: &str) -> Option<u64> {
        let mounts = mounts(lines);
        Index::new(&mounts).find(path.as_bytes()).map(|index| mounts[index].id)
    }

    #[test]
    fn longest_prefix_of_whole_names_wins() {
        let lines = [(1, 0, "/"), (2, 1, "/a"), (3, 2, "/a/b"), (4, 1, "/a.b"), (5, 1, "/ab")];
        for (path, expected) in [
            ("/", 1),
            ("/a", 2),
            ("/a/c", 2),
            ("/a/b/c", 3),
            ("/a.b/x", 4),
            ("/ab", 5),
            ("/abc", 1),
            ("/a/bc", 2),
        ] {
            assert_eq!(found(&lines, path), Some(expected), "{path}");
        }
    }

    #[test]
    fn top_of_a_stack_wins() {
        // Defect 4 of the original: the first one won.
        let lines = [(1, 0, "/"), (2, 1, "/m"), (3, 2, "/m"), (4, 3, "/m")];
        assert_eq!(found(&lines, "/m/x"), Some(4));
    }

    // The kernel starts in the root of the process, whatever was mounted on it since.
    #[test]
    fn what_is_mounted_over_the_root_is_not_entered() {
        let lines = [(1, 0, "/"), (2, 1, "/a"), (9, 1, "/"), (10, 9, "/a"), (11, 9, "/")];
        for (path, expected) in [("/", 1), ("/x", 1), ("/a/x", 2)] {
            assert_eq!(found(&lines, path), Some(expected), "{path}");
        }
    }

    #[test]
    fn mounts_below_a_later_one_are_hidden() {
        let lines = [(21, 1, "/"), (30, 21, "/data"), (31, 30, "/data/in"), (40, 30, "/data")];
        assert_eq!((found(&lines, "/data/in/x"), found(&lines, "/data")), (Some(40), Some(40)));
        // Moved or propagated ones may stand before what they are mounted on.
        let lines = [(5, 4, "/a/b"), (4, 1, "/a"), (1, 0, "/")];
        assert_eq!(found(&lines, "/a/b/c"), Some(5));
    }

    #[test]
    fn tables_without_a_root_have_answers_below() {
        // A chroot into a directory: the mount that has it is not in the table.
        let lines = [(7, 3, "/proc"), (8, 3, "/data")];
        assert_eq!((found(&lines, "/etc"), found(&lines, "/data/x")), (None, Some(8)));
        assert_eq!(found(&[], "/"), None);
    }

    #[test]
    fn circles_and_double_numbers_end() {
        assert_eq!(found(&[(1, 2, "/"), (2, 1, "/")], "/x"), None);
        assert_eq!(found(&[(5, 1, "/"), (5, 5, "/"), (5, 5, "/a")], "/x"), None);
        assert_eq!(found(&[(5, 5, "/")], "/x"), Some(5));
    }

    /// What the kernel does, name by name.
    fn slow(mounts: &[Mount], path: &[u8]) -> Option<u64> {
        let ids: Vec<u64> = mounts.iter().map(|mount| mount.id).collect();
        let child = |current: Option<u64>, point: &[u8]| {
            mounts.iter().rfind(|mount| {
                let parent = ids.contains(&mount.parent).then_some(mount.parent);
                parent == current && without_root_slash(&mount.point) == point
            })
        };
        let mut current = child(None, b"").map(|root| root.id);
        for end in 1..=path.len() {
            if end == path.len() || path[end] == b'/' {
                while let Some(next) = child(current, &path[..end]) {
                    current = Some(next.id);
                }
            }
        }
        current
    }

    proptest! {
        #[test]
        fn paths_end_where_a_slow_walk_ends(
            picks in prop::collection::vec((0_u64..12, prop::collection::vec(0_usize..3, 0..4)), 1..12),
            names in prop::collection::vec(0_usize..3, 0..5),
        ) {
            let text = |names: &[usize]| names.iter().map(|name| ["/a", "/a.", "/b"][*name]).collect::<String>();
            let points: Vec<String> = picks.iter().map(|(_, names)| text(names)).collect();
            let lines: Vec<(u64, u64, &str)> = (1..)
                .zip(picks.iter().zip(&points))
                // A parent is older, or none.
                .map(|(id, ((parent, _), point))| {
                    (id, parent % id, if point.is_empty() { "/" } else { point.as_str() })
                })
                .collect();
            let mounts = mounts(&lines);
            let path = text(&names);
            let found = Index::new(&mounts).find(if path.is_empty() { b"/" } else { path.as_bytes() });
            prop_assert_eq!(found.map(|index| mounts[index].id), slow(&mounts, path.as_bytes()));
        }
    }
}
