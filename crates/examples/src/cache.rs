//! What a server of the tree knows: files that came or failed to open, and who waits for which. It sends nothing and opens nothing; `server.rs` does
//! what it returns. Files are kept until the end.

use std::collections::{BTreeMap, BTreeSet};

use atta_entry::Errno;

use crate::routes::Route;

/// The contents of a file, or why it could not be opened: a name that does not exist is an answer like others.
pub type File = Result<Vec<u8>, Errno>;

/// What is to be done about a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'c> {
    /// Answer with this; nobody else is asked.
    Answer(&'c File),
    /// Open the file, then call [`Cache::store`].
    Open,
    /// Ask this rank, and call [`Cache::store`] when it answers.
    Ask(u32),
    /// It was asked for already: the answer goes to all who wait.
    Wait,
}

/// Files by path, and the ranks that wait for others.
#[derive(Debug, Default)]
pub struct Cache {
    files: BTreeMap<Vec<u8>, File>,
    waiting: BTreeMap<Vec<u8>, BTreeSet<u32>>,
}

impl Cache {
    /// What is known of a path.
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<&File> {
        self.files.get(path)
    }

    /// Takes a request of a rank: a child, or this rank itself.
    pub fn request(&mut self, path: &[u8], from: u32, route: Route) -> Step<'_> {
        if let Some(file) = self.files.get(path) {
            return Step::Answer(file);
        }
        if let Some(waiting) = self.waiting.get_mut(path) {
            waiting.insert(from);
            return Step::Wait;
        }
        self.waiting.insert(path.to_vec(), BTreeSet::from([from]));
        match route {
            Route::Ask(rank) => Step::Ask(rank),
            Route::Open | Route::Direct => Step::Open,
        }
    }

    /// Keeps a file that has come. Returns those who asked for it, and no other rank may get it.
    pub fn store(&mut self, path: Vec<u8>, file: File) -> BTreeSet<u32> {
        let waiting = self.waiting.remove(&path).unwrap_or_default();
        self.files.insert(path, file);
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_request_opens_and_asks_nothing() {
        for (route, first) in [(Route::Open, Step::Open), (Route::Ask(3), Step::Ask(3))] {
            let mut cache = Cache::default();
            assert_eq!(cache.request(b"/f", 7, route), first);
            assert_eq!(cache.request(b"/f", 8, route), Step::Wait);
            assert_eq!(cache.request(b"/f", 8, route), Step::Wait);
            assert_eq!(cache.request(b"/g", 8, route), first, "another file");
            assert_eq!(cache.store(b"/f".to_vec(), Ok(b"x".to_vec())), BTreeSet::from([7, 8]));
            assert_eq!(cache.request(b"/f", 9, route), Step::Answer(&Ok(b"x".to_vec())));
            assert_eq!(cache.store(b"/g".to_vec(), Ok(Vec::new())), BTreeSet::from([8]));
        }
    }

    #[test]
    fn failed_lookups_are_kept() {
        let mut cache = Cache::default();
        assert_eq!(cache.request(b"/none", 7, Route::Open), Step::Open);
        assert_eq!(cache.store(b"/none".to_vec(), Err(Errno::NOENT)), BTreeSet::from([7]));
        assert_eq!(cache.request(b"/none", 8, Route::Open), Step::Answer(&Err(Errno::NOENT)));
        assert_eq!(cache.get(b"/none"), Some(&Err(Errno::NOENT)));
    }
}
