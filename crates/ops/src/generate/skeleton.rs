//! The directories of a tree and their parents. Pure, from a seed and limits; eight bytes per directory when done.
//!
//! Directories are numbered level by level from 0, the target, so that the children of each have consecutive numbers:
//!
//! ```text
//!           0                parents:      0 0 0 1 1 2 2
//!         1   2              first_child:  1 3 5 7 7 7 7 7
//!        3 4 5 6
//! ```

use super::random::{Purpose, Stream};
use super::spec::Spec;

/// The parents and children of all directories.
#[derive(Debug)]
pub(crate) struct Skeleton {
    parents: Vec<u32>,
    /// The first child of each directory. One more element than directories marks the end.
    first_child: Vec<u32>,
}

impl Skeleton {
    /// Creates the skeleton of a checked spec, whose directories fit its limits.
    pub(crate) fn new(spec: &Spec) -> Self {
        number(&attach(spec))
    }

    /// Number of directories, the target included.
    pub(crate) fn len(&self) -> u32 {
        self.parents.len() as u32
    }

    pub(crate) fn parent(&self, directory: u32) -> u32 {
        self.parents[directory as usize]
    }

    pub(crate) fn children(&self, directory: u32) -> std::ops::Range<u32> {
        self.first_child[directory as usize]..self.first_child[directory as usize + 1]
    }

    /// Returns the directories from just below the target down to this one.
    pub(crate) fn lineage(&self, directory: u32) -> Vec<u32> {
        let mut lineage = Vec::new();
        let mut at = directory;
        while at != 0 {
            lineage.push(at);
            at = self.parent(at);
        }
        lineage.reverse();
        lineage
    }
}

/// Gives every directory a parent among the earlier ones with room left. The parent is picked at random from a list. Full ones are removed
/// from it, so each pick takes the same time. While fewer directories exist than fit, the list is not empty: if every directory above the
/// last level were full, all that fit would exist.
fn attach(spec: &Spec) -> Vec<u32> {
    let stream = Stream::new(spec.seed, Purpose::Parent);
    let count = spec.directories as usize + 1;
    let mut parents = Vec::with_capacity(count);
    let mut depths = Vec::with_capacity(count);
    let mut children = vec![0_u32; count];
    let mut open = Vec::new();
    parents.push(0);
    depths.push(0_u32);
    if spec.depth_max > 0 && spec.fan_out_max > 0 {
        open.push(0);
    }
    for directory in 1..count as u32 {
        let slot = stream.below(u64::from(directory), open.len() as u64) as usize;
        let parent: u32 = open[slot];
        children[parent as usize] += 1;
        if children[parent as usize] == spec.fan_out_max {
            open.swap_remove(slot);
        }
        let depth = depths[parent as usize] + 1;
        parents.push(parent);
        depths.push(depth);
        if depth < spec.depth_max {
            open.push(directory);
        }
    }
    parents
}

/// Numbers directories level by level.
fn number(attached: &[u32]) -> Skeleton {
    let count = attached.len();
    // Start of the children of each directory in `grouped`, by their first numbers.
    let mut begins = vec![0_u32; count + 1];
    attached[1..].iter().for_each(|&parent| begins[parent as usize + 1] += 1);
    (0..count).for_each(|at| begins[at + 1] += begins[at]);
    let mut grouped = vec![0_u32; count - 1];
    let mut next = begins.clone();
    for (directory, &parent) in (0_u32..).zip(attached).skip(1) {
        grouped[next[parent as usize] as usize] = directory;
        next[parent as usize] += 1;
    }
    drop(next);
    let mut order = Vec::with_capacity(count);
    let mut parents = Vec::with_capacity(count);
    let mut first_child = Vec::with_capacity(count + 1);
    order.push(0_usize);
    parents.push(0);
    for position in 0..count {
        first_child.push(order.len() as u32);
        let old = order[position];
        for &child in &grouped[begins[old] as usize..begins[old + 1] as usize] {
            order.push(child as usize);
            parents.push(position as u32);
        }
    }
    first_child.push(order.len() as u32);
    Skeleton { parents, first_child }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skeleton(directories: u64, depth_max: u32, fan_out_max: u32) -> Skeleton {
        let spec = Spec { directories, depth_max, fan_out_max, ..Spec::default() };
        spec.check().unwrap();
        Skeleton::new(&spec)
    }

    #[test]
    fn limits_are_kept_and_children_know_their_parents() {
        for (directories, depth, fan_out) in
            [(0, 0, 0), (1, 1, 1), (500, 500, 1), (14, 3, 2), (5000, 6, 9), (300, 1, 300)]
        {
            let skeleton = skeleton(directories, depth, fan_out);
            assert_eq!(u64::from(skeleton.len()), directories + 1);
            let mut seen = 0;
            for directory in 0..skeleton.len() {
                let children = skeleton.children(directory);
                assert!(children.len() <= fan_out as usize);
                assert!(
                    children.clone().all(|child| skeleton.parent(child) == directory && child > directory)
                );
                assert!(skeleton.lineage(directory).len() <= depth as usize);
                seen += children.len() as u64;
            }
            assert_eq!(seen, directories);
        }
    }

    #[test]
    fn a_full_tree_is_full() {
        let skeleton = skeleton(14, 3, 2);
        assert!((0..7).all(|directory| skeleton.children(directory).len() == 2));
        assert_eq!(skeleton.lineage(14), [2, 6, 14]);
    }

    #[test]
    fn a_fan_out_of_one_is_a_chain() {
        let skeleton = skeleton(20_000, u32::MAX, 1);
        assert_eq!(skeleton.lineage(20_000).len(), 20_000);
    }

    #[test]
    fn a_million_directories_are_soon_planned() {
        let started = std::time::Instant::now();
        let skeleton = skeleton(1_000_000, 16, 100);
        assert_eq!(skeleton.len(), 1_000_001);
        assert!(started.elapsed().as_secs() < 10);
    }
}
