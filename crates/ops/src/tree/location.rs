//! Where an entry is, for messages.

use std::ffi::CString;
use std::sync::Arc;

use atta_ledger::At;

use crate::tree::directory::{Directory, State};

/// The part of a path below its root.
pub(crate) fn below(path: &[u8], root_bytes: usize) -> &[u8] {
    let below = path.get(root_bytes..).unwrap_or_default();
    below.strip_prefix(b"/").unwrap_or(below)
}

/// A root, an entry of a directory, or a directory.
#[derive(Debug)]
pub(crate) enum Location<S = ()> {
    Root(Vec<u8>),
    In(Arc<Directory<S>>, CString),
    Itself(Arc<Directory<S>>),
    /// A directory of the other tree.
    Target(Arc<Directory>),
}

impl<S> Clone for Location<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Root(path) => Self::Root(path.clone()),
            Self::In(directory, name) => Self::In(Arc::clone(directory), name.clone()),
            Self::Itself(directory) => Self::Itself(Arc::clone(directory)),
            Self::Target(directory) => Self::Target(Arc::clone(directory)),
        }
    }
}

impl<S: State> Location<S> {
    /// Calls `act` with the directory of an entry, as the log of a job names it, and with the name there. None: it is no entry of a directory.
    pub(crate) fn with_place<T>(&self, act: impl FnOnce(At<'_>, &[u8]) -> T) -> Option<T> {
        let Self::In(directory, name) = self else { return None };
        let mut path = Vec::new();
        let root_bytes = directory.path_into(&mut path);
        let at = At { root: directory.root_index(), path: below(&path, root_bytes) };
        Some(act(at, name.to_bytes()))
    }

    /// Its root and its path.
    pub(crate) fn root_and_path(&self) -> (Vec<u8>, Vec<u8>) {
        let mut path = Vec::new();
        let root = match self {
            Self::Root(path) => return (path.clone(), path.clone()),
            Self::In(directory, name) => {
                let root = directory.path_into(&mut path);
                let root = path[..root].to_vec();
                crate::tree::listing::path::join(&mut path, name.as_bytes());
                return (root, path);
            }
            Self::Itself(directory) => directory.path_into(&mut path),
            Self::Target(directory) => directory.path_into(&mut path),
        };
        (path[..root].to_vec(), path)
    }
}
