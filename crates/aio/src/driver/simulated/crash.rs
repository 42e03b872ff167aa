//! What is durable, and what a loss of power leaves. Running operations are none of its business.

use std::collections::{BTreeMap, BTreeSet};

use atta_entry::Errno;

use super::files::{Files, Kept, Kind, Node, ROOT};
use super::random::Random;
use crate::{Outcome, Sync};

/// What a disk writes as a whole.
const BLOCK: usize = 4096;

impl Files {
    /// Makes a node durable: not its name, which is its directory's.
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

    /// What is left after a loss of power.
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
                    // A directory that was moved, of which both places were made durable one by one, is left in one.
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

/// The data of a file of which some blocks were written in time, and others not. Blocks that are the same now as they were
/// when they were synced are whole.
fn torn(durable: &[u8], now: &Node, random: &mut Random) -> Vec<u8> {
    let Kind::File(now) = &now.kind else { return durable.to_vec() };
    if now == durable || random.hits(500) {
        // Lost as a whole.
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
