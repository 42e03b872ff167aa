//! Durable state, and the state after a loss of power. Running operations are not affected.

use std::collections::{BTreeMap, BTreeSet};

use atta_entry::Errno;

use super::files::{Files, Kept, Kind, Node, ROOT};
use super::random::Random;
use crate::{Outcome, Sync};

/// The unit that a disk writes atomically.
const BLOCK: usize = 4096;

impl Files {
    /// Makes a node durable, but not its name, which belongs to its directory.
    pub(super) fn sync(&mut self, node: u64, what: Sync) -> Outcome {
        if self.is_directory(node) {
            self.sync_names(node)?;
        }
        let kept = self.kept_mut(node)?;
        match what {
            Sync::All => kept.durable = kept.now.clone(),
            Sync::Data => kept.durable.kind = kept.now.kind.clone(),
        }
        Ok(0)
    }

    /// Makes the names of a directory durable.
    pub(super) fn sync_names(&mut self, directory: u64) -> Result<(), Errno> {
        let kept = self.kept_mut(directory)?;
        let old = std::mem::replace(&mut kept.durable.kind, kept.now.kind.clone());
        let new: Vec<u64> = self.names(directory)?.values().map(|entry| entry.node).collect();
        for node in new {
            self.kept_mut(node)?.durable_links += 1;
        }
        let Kind::Directory { names: old, .. } = old else { return Ok(()) };
        for entry in old.values() {
            self.kept_mut(entry.node)?.durable_links -= 1;
            self.forget(entry.node);
        }
        Ok(())
    }

    /// The state after a loss of power.
    pub(super) fn crash(&self, random: &mut Random) -> Self {
        let mut nodes = BTreeMap::new();
        let mut left = vec![(ROOT, ROOT)];
        let mut seen = BTreeSet::from([ROOT]);
        while let Some((number, parent)) = left.pop() {
            let Some(kept) = self.nodes().get(&number) else { continue };
            let mut node = kept.durable.clone();
            match &mut node.kind {
                Kind::Directory { names, parent: above, .. } => {
                    *above = parent;
                    // A directory that was moved, with both places made durable one by one, stays in one of them.
                    names.retain(|_, entry| seen.insert(entry.node) || !self.is_directory(entry.node));
                    left.extend(names.values().map(|entry| (entry.node, number)));
                }
                Kind::File(data) => *data = torn(data, &kept.now, random),
                Kind::Link(_) => {}
            }
            nodes.insert(
                number,
                Kept { durable: node.clone(), now: node, links: 0, durable_links: 0, opens: 0 },
            );
        }
        count_links(&mut nodes);
        let used = nodes.values().map(|kept| kept.now.bytes()).sum();
        self.with_nodes(nodes, used)
    }
}

impl Node {
    fn bytes(&self) -> u64 {
        match &self.kind {
            Kind::File(data) => data.len() as u64,
            _ => 0,
        }
    }
}

/// Counts the names of nodes.
fn count_links(nodes: &mut BTreeMap<u64, Kept>) {
    let mut links = BTreeMap::from([(ROOT, 1)]);
    for kept in nodes.values() {
        if let Kind::Directory { names, .. } = &kept.now.kind {
            names.values().for_each(|entry| *links.entry(entry.node).or_default() += 1);
        }
    }
    for (number, kept) in nodes {
        kept.links = links.get(number).copied().unwrap_or_default();
        kept.durable_links = kept.links;
    }
}

/// The data of a file after some blocks were written in time, and others not. Blocks that have not changed since the sync stay
/// intact.
fn torn(durable: &[u8], now: &Node, random: &mut Random) -> Vec<u8> {
    let Kind::File(now) = &now.kind else { return durable.to_vec() };
    if now == durable || random.hits(500) {
        // All changes are lost.
        return durable.to_vec();
    }
    let length = if random.hits(500) { now.len() } else { durable.len() };
    let mut data = durable.to_vec();
    data.resize(length, 0);
    for start in (0..length.min(now.len())).step_by(BLOCK) {
        let end = (start + BLOCK).min(length).min(now.len());
        if random.hits(500) {
            data[start..end].copy_from_slice(&now[start..end]);
        }
    }
    data
}
