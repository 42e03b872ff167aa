//! The path of the directory that a thread works on.

use std::sync::Arc;

use atta_entry::Kind;

use crate::tree::directory::{Directory, State};
use crate::tree::listing::rules::Rules;

/// The path of the current directory. The next one is mostly a child or a sibling of the last one. Then only the end of the path changes,
/// and a chain of 10^5 levels costs no more than its names.
#[derive(Debug)]
pub(crate) struct CurrentPath<S = ()> {
    bytes: Vec<u8>,
    root_bytes: usize,
    of: Option<Arc<Directory<S>>>,
    /// How many bytes have been the same since [`mark`](Self::mark).
    unchanged: usize,
}

impl<S: State> Default for CurrentPath<S> {
    fn default() -> Self {
        Self { bytes: Vec::new(), root_bytes: 0, of: None, unchanged: 0 }
    }
}

impl<S: State> CurrentPath<S> {
    /// Makes it the path of `directory`.
    pub(crate) fn set(&mut self, directory: &Arc<Directory<S>>) {
        if self.of.as_ref().is_some_and(|last| Arc::ptr_eq(last, directory)) {
            return;
        }
        let Some(last) = self.of.replace(Arc::clone(directory)) else { return self.set_whole(directory) };
        let is =
            |other: &Arc<Directory<S>>| directory.parent().is_some_and(|parent| Arc::ptr_eq(parent, other));
        let shared = if is(&last) {
            last.path_bytes()
        } else if let Some(parent) = last.parent().filter(|parent| is(parent)) {
            parent.path_bytes()
        } else {
            return self.set_whole(directory);
        };
        self.unchanged = self.unchanged.min(shared);
        self.bytes.truncate(shared);
        self.bytes.resize(directory.path_bytes() - directory.name().to_bytes().len(), b'/');
        self.bytes.extend_from_slice(directory.name().to_bytes());
    }

    fn set_whole(&mut self, directory: &Directory<S>) {
        self.unchanged = 0;
        self.root_bytes = directory.path_into(&mut self.bytes);
    }

    /// How many bytes of the [path below the root](Self::below_root) are surely those that it had when this was called last.
    pub(crate) fn mark(&mut self) -> usize {
        let before = self.bytes.len() - self.below_root().len();
        std::mem::replace(&mut self.unchanged, self.bytes.len()).saturating_sub(before)
    }

    /// The path, which begins with the root as given.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The path below the root; empty: it is the root.
    pub(crate) fn below_root(&self) -> &[u8] {
        let below = self.bytes.get(self.root_bytes..).unwrap_or_default();
        below.strip_prefix(b"/").unwrap_or(below)
    }

    /// Whether the rules leave out a name in this directory.
    pub(crate) fn is_excluded(&mut self, rules: &Rules, name: &[u8], kind: Kind) -> bool {
        let directory_bytes = self.bytes.len();
        join(&mut self.bytes, name);
        let excluded = rules.exclude(self.below_root(), kind == Kind::Directory);
        self.bytes.truncate(directory_bytes);
        excluded
    }

    /// Length of the root in it.
    pub(crate) fn root_bytes(&self) -> usize {
        self.root_bytes
    }
}

/// Appends a name to the path of its directory.
pub(crate) fn join(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use atta_sys::Place;
    use rustix::fd::OwnedFd;

    use super::*;

    #[test]
    fn the_current_path_is_the_path_of_the_directory() {
        let descriptor: OwnedFd = std::fs::File::open("/").unwrap().into();
        let place = Place { device: 1, inode: 1, mount: 1 };
        let mut made = vec![Directory::root(c"/r/".into(), 0, Arc::new(descriptor), place)];
        let below = |parent: &Arc<Directory>, name: &CStr| Arc::new(Directory::below(parent, name, None));
        for (parent, name) in [(0, c"a"), (1, c"bb"), (1, c"c"), (0, c"ddd"), (2, c"e"), (5, c"f")] {
            let directory = below(&made[parent], name);
            made.push(directory);
        }
        let mut current = CurrentPath::default();
        let (mut expected, mut marked, mut most) = (Vec::new(), Vec::new(), 0);
        for step in 0..400_usize {
            // Every directory comes after every other one, as children, siblings, strangers and itself.
            let directory = &made[(step * step + step / 7) % made.len()];
            current.set(directory);
            assert_eq!(current.root_bytes(), directory.path_into(&mut expected));
            assert_eq!(current.bytes(), expected);
            if step % 3 == 0 {
                let now = current.below_root().to_vec();
                let same = current.mark();
                most = most.max(same);
                assert_eq!(marked.get(..same), Some(&now[..same]));
                marked = now;
            }
        }
        assert!(most > 0);
    }
}
