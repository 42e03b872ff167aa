//! Whether a path is one file on all ranks of a job that shares its work: names decide where they can, what ranks find there where they cannot.
//! Nothing is written, and nobody is refused here.

use std::fmt;

use atta_code::record;
use atta_entry::escape;

use crate::collective::{Collective, concluded};
use crate::distribution::Answer;
use crate::error::StatusError;
use crate::saved_map::host_of;
use crate::status::Status;

/// Views that are kept: two that differ, and some more, so that the order of merges does not matter.
const VIEWS_MAX: usize = 4;

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sameness {
    /// It is one file.
    Same,
    /// Some ranks have another file: their file systems are local, or known to be others.
    Different(Differing),
    /// It may be one file: ranks find something else there, and names do not say that it is another file.
    Undecided(Differing),
}

/// Two ranks that do not see the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// The lowest rank, and what it sees.
    pub first: View,
    /// The lowest rank that sees something else.
    pub other: View,
}

record!(Differing { first, other });

/// What a rank sees.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    /// The rank.
    pub rank: u32,
    /// The name of its host.
    pub host: Vec<u8>,
    /// The URI for people.
    pub uri: String,
    /// What it finds there, as text for people: equal for one file, and hardly equal for two.
    pub fact: String,
    /// A hash of the name of the file.
    pub(crate) key: Option<[u8; 16]>,
}

record!(View { rank, host, uri, fact, key });

impl fmt::Display for Differing {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, other } = self;
        write!(out, "{first}; {other}")
    }
}

impl fmt::Display for View {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rank, host, uri, fact, .. } = self;
        write!(out, "on rank {rank} ({}) {fact}, {uri}", escape(host))
    }
}

/// Compares a path on all ranks, which call this together, each with its own path, without symbolic links, and with what it finds there. Facts have
/// to be those of inodes and times, which are equal on all clients of a file system that has them.
///
/// # Errors
/// The ranks cannot communicate, or the path is below no mount on one of them.
pub fn sameness<C: Collective>(
    status: &Status<'_>,
    collective: &mut C,
    path: &[u8],
    fact: String,
) -> Result<Sameness, StatusError<C::Error>> {
    let names = status.distribution(collective, path)?.is_unique();
    let view = View {
        rank: collective.rank(),
        host: host_of(status.table()),
        uri: status.table().uri_of(path).map(|uri| uri.to_string()).unwrap_or_default(),
        fact,
        key: status.named(path).map(|(uri, _)| uri.hash()),
    };
    let is_same = |one: &View, other: &View| match names {
        Answer::No => one.key == other.key,
        Answer::Yes | Answer::Unknown => one.fact == other.fact,
    };
    let merge = |views: &mut Vec<View>, more| merge(views, more, is_same);
    let views = concluded(collective, vec![view], merge, |views| views)?;
    let mut views = views.into_iter();
    Ok(match (names, views.next().zip(views.next())) {
        (_, None) => Sameness::Same,
        (Answer::No, Some((first, other))) => Sameness::Different(Differing { first, other }),
        (_, Some((first, other))) => Sameness::Undecided(Differing { first, other }),
    })
}

/// Keeps the lowest rank of each view. Surplus views are dropped: there are two that differ already.
fn merge(views: &mut Vec<View>, more: Vec<View>, is_same: impl Fn(&View, &View) -> bool) {
    for view in more {
        match views.iter_mut().find(|known| is_same(known, &view)) {
            Some(known) if known.rank > view.rank => *known = view,
            Some(_) => {}
            None => views.push(view),
        }
    }
    views.sort();
    views.truncate(VIEWS_MAX);
}
