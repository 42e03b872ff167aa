//! Targets of the symbolic links in a tree: files and directories in it, paths out of it, loops, and missing paths. Pure. Targets do not
//! depend on the tree's location, so two copies are the same.

use super::names::Node;
use super::plan::Plan;
use super::random::Purpose;

/// The longest link target on Linux, in bytes.
const TARGET_MAX: usize = 4095;
/// Absolute targets: one exists everywhere, one is a directory, one does not exist, and one depends on the calling process.
const ABSOLUTE: [&[u8]; 4] = [b"/dev/null", b"/", b"/nonexistent/atta", b"/proc/self/cwd"];

/// The target of a link, 1 to 4,095 bytes.
pub(crate) fn target(plan: &Plan, symlink: u64) -> Vec<u8> {
    let stream = plan.stream(Purpose::SymlinkTarget);
    let directory = plan.directory_of(Node::Symlink(symlink));
    let siblings = plan.files_in(directory);
    let files = plan.spec().files;
    let dangling = || format!("missing{symlink}").into_bytes();
    let target = match plan.stream(Purpose::SymlinkKind).below(symlink, 8) {
        0 | 1 if !siblings.is_empty() => {
            let sibling = siblings.start + stream.below(symlink, siblings.end - siblings.start);
            plan.names.of(Node::File(sibling))
        }
        2 if files > 0 => relative(plan, directory, Node::File(stream.below(symlink, files))),
        3 => {
            let other = stream.below(symlink, u64::from(plan.skeleton.len())) as u32;
            relative(plan, directory, Node::Directory(other))
        }
        4 => ABSOLUTE[stream.below(symlink, ABSOLUTE.len() as u64) as usize].to_vec(),
        // One level more than the depth of this directory.
        5 => [up(plan, directory), b"../outside".to_vec()].concat(),
        // Itself or its own directory: loops of one step.
        6 if stream.at(symlink).is_multiple_of(2) => plan.names.of(Node::Symlink(symlink)),
        6 => b".".to_vec(),
        _ => dangling(),
    };
    if target.len() > TARGET_MAX { dangling() } else { target }
}

/// Returns the path from a directory up to the target and down to a node.
fn relative(plan: &Plan, from: u32, to: Node) -> Vec<u8> {
    let path = [up(plan, from), plan.path(to)].concat();
    if path.is_empty() { b".".to_vec() } else { path }
}

/// Returns `../` for each level from a directory up to the target.
fn up(plan: &Plan, directory: u32) -> Vec<u8> {
    b"../".repeat(plan.skeleton.lineage(directory).len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::spec::Spec;

    #[test]
    fn targets_are_of_every_kind_and_never_too_long() {
        let spec = Spec { symlinks: 2000, hostile_names: 0.5, ..Spec::default() };
        let plan = Plan::new(&spec).unwrap();
        let targets: Vec<_> = (0..2000).map(|symlink| target(&plan, symlink)).collect();
        assert!(
            targets.iter().all(|target| (1..=TARGET_MAX).contains(&target.len()) && !target.contains(&0))
        );
        let has = |test: &dyn Fn(&Vec<u8>) -> bool| targets.iter().any(test);
        assert!(has(&|target| target == b"."));
        assert!(has(&|target| target[0] == b'/'));
        assert!(has(&|target| target.starts_with(b"missing")));
        assert!(has(&|target| target.starts_with(b"../../") && target.ends_with(b"outside")));
        assert!((0..2000).any(|at| targets[at as usize] == plan.names.of(Node::Symlink(at))));
    }

    #[test]
    fn a_target_that_would_be_too_long_dangles() {
        let spec =
            Spec { symlinks: 2000, directories: 3000, depth_max: 3000, fan_out_max: 1, ..Spec::default() };
        let plan = Plan::new(&spec).unwrap();
        assert!((0..2000).all(|symlink| target(&plan, symlink).len() <= TARGET_MAX));
    }
}
