//! What the log of a job has of large files whose chunks are only read: how each was cut, and the values of its chunks. A later run of the job does not
//! process these chunks again, if the file is the same. It notes no copies: their chunks wait for a sync, see `copy/resume/`.

use std::collections::BTreeMap;

use atta_entry::Code;
use atta_ledger::At;

use crate::tree::directory::{SliceResults, State};
use crate::tree::journal::earlier::BegunFile;
use crate::tree::journal::{Journal, When};
use crate::tree::location::Location;

/// The smallest chunk whose value can be a part of a digest.
const CHUNK_LEAST: u64 = 1 << 10;

/// How a file is cut, as the log has it: what identifies the file, and the bytes of a chunk.
type PlanNote<K> = (K, u64);

/// A chunk, as the log has it: a hash of the plan, and the value. Chunks of another plan do not count: the file was another one, or was cut otherwise.
type ChunkNote<V> = (u64, V);

/// What earlier runs have processed of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Begun<V> {
    /// Bytes of a chunk.
    pub(crate) chunk: u64,
    /// Chunks that are done, and their values.
    pub(crate) done: Vec<(u64, V)>,
}

/// The name of a root that is a file, in the log: there it is in a directory that is the root.
const ROOT_NAME: &[u8] = b"file";

/// The log of a job, for large files that are read.
pub(crate) struct LargeLog<'a, R> {
    pub(crate) journal: &'a Journal<R>,
    /// The roots of the job, in order.
    pub(crate) roots: Vec<Vec<u8>>,
}

impl<R: SliceResults> LargeLog<'_, R> {
    /// Calls `act` with the place of a file in the log.
    fn with_place<S: State, T>(&self, at: &Location<S>, act: impl FnOnce(At<'_>, &[u8]) -> T) -> Option<T> {
        let Location::Root(path) = at else { return at.with_place(act) };
        let root = self.roots.iter().position(|root| root == path)?;
        Some(act(At { root: u32::try_from(root).ok()?, path: b"" }, ROOT_NAME))
    }

    /// Takes what earlier runs have processed of this file. None: nothing, or the file was another one.
    pub(crate) fn take_begun<S: State, K: Code + PartialEq, V: Code>(
        &self,
        at: &Location<S>,
        key: &K,
    ) -> Option<Begun<V>> {
        let begun = self.with_place(at, |directory, name| self.journal.earlier().take_begun(directory, name));
        begun_of(&begun??, key)
    }

    /// Notes how a file is cut.
    pub(crate) fn note_plan<S: State, K: Code>(&self, at: &Location<S>, plan: &(K, u64)) {
        self.with_place(at, |directory, name| self.journal.note_planned(directory, name, &plan.encoded()));
    }

    /// Notes a chunk that is done, and its value.
    pub(crate) fn note_chunk<S: State, K: Code, V: Code>(
        &self,
        at: &Location<S>,
        plan: &(K, u64),
        (index, value): (u64, &V),
    ) {
        let mut note = Vec::new();
        hash_of(&plan.encoded()).encode(&mut note);
        value.encode(&mut note);
        self.with_place(at, |directory, name| {
            self.journal.note_chunk(directory, name, (index, &note), When::Now)
        });
    }
}

fn hash_of(plan: &[u8]) -> u64 {
    blake3::hash(plan).as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// What is known of a file with this key.
fn begun_of<K: Code + PartialEq, V: Code>(begun: &BegunFile, key: &K) -> Option<Begun<V>> {
    let (noted, chunk) = PlanNote::<K>::decode_all(&begun.plan)?;
    if noted != *key || !chunk.is_power_of_two() || chunk < CHUNK_LEAST {
        return None;
    }
    let own = hash_of(&begun.plan);
    let value_of = |note: &[u8]| {
        let (plan, value) = ChunkNote::<V>::decode_all(note)?;
        (plan == own).then_some(value)
    };
    let done: BTreeMap<u64, V> =
        begun.chunks.iter().filter_map(|(index, note)| Some((*index, value_of(note)?))).collect();
    Some(Begun { chunk, done: done.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_another_plan_do_not_count() {
        let plan = |key: u64, chunk: u64| (key, chunk).encoded();
        let note = |plan: &[u8], value: u64| (hash_of(plan), value).encoded();
        let (own, other_file, other_cut) = (plan(1, 2048), plan(2, 2048), plan(1, 1024));
        let chunks = vec![
            (3, note(&own, 33)),
            (0, note(&own, 30)),
            (0, note(&own, 30)),
            (1, note(&other_file, 31)),
            (2, note(&other_cut, 32)),
            (4, b"no note".to_vec()),
        ];
        let begun = |plan: Vec<u8>| BegunFile { plan, chunks: chunks.clone() };
        let found = begun_of::<u64, u64>(&begun(own.clone()), &1);
        assert_eq!(found, Some(Begun { chunk: 2048, done: vec![(0, 30), (3, 33)] }));
        for (plan, key) in [(own, 2), (other_file, 1), (plan(1, 3000), 1), (plan(1, 512), 1), (Vec::new(), 1)]
        {
            assert_eq!(begun_of::<u64, u64>(&begun(plan), &key), None);
        }
    }
}
