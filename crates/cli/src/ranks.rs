//! What every command does on several ranks under an MPI launcher before its job begins: it joins them, finds out which cores are
//! its own, and whether all ranks see the same files. What the command does then is its own.

use atta_fabric::Endpoint;
use atta_mpi_loader::{Launcher, Mpi};
use atta_ops::walk;
use atta_runtime::{Meeting, RankError, Stream};

use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::messages::once;

/// Failures, as `failures.rs` writes them.
pub(crate) const FAILURES: Stream = Stream(1);

/// Kinds of roots that are told apart in an error: enough to see what is wrong.
const VIEWS_MAX: usize = 4;

/// Runs this rank's part of a command; returns its exit code. Rank 0's is the command's.
pub(crate) fn run(launcher: &Launcher, part: impl FnOnce(&mut dyn Endpoint) -> Result<u8, RankError>) -> u8 {
    let joined = atta_mpi_loader::open().and_then(|plugin| plugin.begin(launcher));
    match joined {
        Ok(mpi) => on_mpi(mpi, part),
        Err(error) => {
            once(Some(launcher), || complain(&error.to_string(), Some(&error.hint())));
            exit::FATAL
        }
    }
}

fn on_mpi(mut mpi: Mpi, part: impl FnOnce(&mut dyn Endpoint) -> Result<u8, RankError>) -> u8 {
    let rank = mpi.rank();
    let ended = part(&mut mpi);
    let failed = |error: &dyn std::fmt::Display| {
        complain(&format!("rank {rank} cannot go on: {error}"), None);
        exit::FATAL
    };
    match ended {
        Ok(code) => Box::new(mpi).leave().map_or_else(|error| failed(&error), |()| code),
        Err(error) => {
            let code = failed(&error);
            mpi.abort(code.into());
            code
        }
    }
}

/// Meets the other ranks, which must run the same program. If they do not: the code to exit with.
pub(crate) fn meet(endpoint: &mut dyn Endpoint) -> Result<Result<Meeting<'_>, u8>, RankError> {
    let mut meeting = Meeting::new(endpoint);
    let program = format!("atta {} (messages {})", env!("CARGO_PKG_VERSION"), atta_entry::VERSION);
    match meeting.greet(&program)? {
        None => Ok(Ok(meeting)),
        Some(differs) => {
            if meeting.rank() == 0 {
                complain(&differs.to_string(), Some("start the same atta on all ranks"));
            }
            Ok(Err(exit::FATAL))
        }
    }
}

/// Cores that this rank may take: those of its own affinity mask, divided among the ranks that have the same ones.
pub(crate) fn cores_of_this_rank(meeting: &mut Meeting<'_>) -> Result<usize, RankError> {
    let cores = atta_runtime::cores();
    let masks = meeting.among_neighbours(&cores)?;
    let overlaps = |mask: &Vec<u32>| mask.iter().any(|core| cores.contains(core));
    let sharing = masks.iter().filter(|mask| overlaps(mask)).count().max(1);
    Ok((cores.len() / sharing).max(1))
}

/// What ranks see at the PATHs, as far as it must be the same on all hosts: inode and birth time, or the time of the last
/// change where the file system tells no birth time. Beside it the devices, which need not be the same.
pub(crate) fn facts(paths: Vec<Vec<u8>>) -> (Vec<String>, Vec<u64>) {
    let look = |path: Vec<u8>| {
        let name = atta_entry::escape(&path);
        match walk::look_at(&path) {
            Ok(metadata) => {
                let (how, time) = metadata.btime.map_or(("changed", metadata.mtime), |time| ("born", time));
                let (seconds, nanoseconds) = (time.seconds, time.nanoseconds);
                let what = format!("is inode {}, {how} at {seconds}.{nanoseconds:09}", metadata.inode);
                (format!("{name} {what}"), Some(metadata.device))
            }
            Err(errno) => (format!("{name} fails: {errno}"), None),
        }
    };
    let (facts, devices): (Vec<_>, Vec<_>) = paths.into_iter().map(look).unzip();
    (facts, devices.into_iter().flatten().collect())
}

/// What some ranks see at the PATHs.
#[derive(Debug)]
pub(crate) struct View {
    facts: Vec<String>,
    ranks: u32,
    first: u32,
}

atta_entry::record!(View { facts, ranks, first });

impl View {
    /// Brings what all ranks see together: the root gets the whole.
    pub(crate) fn gather(
        facts: Vec<String>,
        meeting: &mut Meeting<'_>,
    ) -> Result<Option<Vec<Self>>, RankError> {
        let own = Self { facts, ranks: 1, first: meeting.rank() };
        meeting.gather(vec![own], Self::merge)
    }

    /// Puts those that see the same together. More kinds than will be told are dropped: it is an error already.
    fn merge(views: &mut Vec<Self>, more: Vec<Self>) {
        for other in more {
            if let Some(view) = views.iter_mut().find(|view| view.facts == other.facts) {
                view.ranks = view.ranks.saturating_add(other.ranks);
                view.first = view.first.min(other.first);
            } else if views.len() < VIEWS_MAX {
                views.push(other);
            }
        }
        views.sort_by_key(|view| view.first);
    }

    /// What is wrong, if ranks do not all see the same.
    pub(crate) fn differ(views: &[Self]) -> Option<String> {
        let [first, other, ..] = views else { return None };
        let at = first.facts.iter().zip(&other.facts).position(|(one, other)| one != other)?;
        Some(format!(
            "ranks see different things at a PATH: on rank {} {}; on rank {} {}",
            first.first, first.facts[at], other.first, other.facts[at]
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(facts: &str, first: u32) -> Vec<View> {
        vec![View { facts: vec![facts.to_owned()], ranks: 1, first }]
    }

    #[test]
    fn ranks_that_see_the_same_are_one_view() {
        let mut views = view("/a: inode 1", 2);
        View::merge(&mut views, view("/a: inode 1", 0));
        View::merge(&mut views, view("/a: inode 1", 1));
        assert_eq!((views.len(), views[0].ranks, views[0].first), (1, 3, 0));
        assert_eq!(View::differ(&views), None);
        View::merge(&mut views, view("/a: inode 7", 5));
        let differs = View::differ(&views).unwrap();
        assert!(differs.ends_with("on rank 0 /a: inode 1; on rank 5 /a: inode 7"), "{differs}");
    }

    #[test]
    fn many_different_views_stay_few() {
        let mut views = view("x", 99);
        (0..50).for_each(|rank| View::merge(&mut views, view(&rank.to_string(), rank)));
        assert_eq!(views.len(), VIEWS_MAX);
    }
}
