//! Checks that all ranks run the same program and see the same files. Each rank brings facts as text. A difference is reported
//! with two ranks that disagree. The caller defines the facts and the consequences.

use super::error::RankError;
use super::meet::Meeting;

/// The maximum of different lists of facts sent to the first rank: enough to find the cause.
const VIEWS_MAX: usize = 4;

/// A fact that is not the same on two ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The first rank, and its fact.
    pub first: (u32, String),
    /// The first rank with another fact, and that fact.
    pub other: (u32, String),
}

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, other } = self;
        write!(f, "on rank {} {}; on rank {} {}", first.0, first.1, other.0, other.1)
    }
}

atta_entry::record!(Disagreement { first, other });

/// A list of facts, and the first rank that sees it.
type View = (u32, Vec<String>);

/// Compares facts, in the same order on all ranks. All ranks get the same answer. None: all agree.
///
/// # Errors
/// As a meeting.
pub(crate) fn agree(
    meeting: &mut Meeting<'_>,
    facts: Vec<String>,
) -> Result<Option<Disagreement>, RankError> {
    let own = vec![(meeting.link.rank(), facts)];
    let views = meeting.reduce(own, merge)?;
    meeting.broadcast(views.map(|views| difference(&views)))
}

/// Merges equal views. Surplus views are dropped: there is a disagreement already.
fn merge(views: &mut Vec<View>, more: Vec<View>) {
    for (rank, facts) in more {
        match views.iter_mut().find(|(_, known)| *known == facts) {
            Some((first, _)) => *first = rank.min(*first),
            None => views.push((rank, facts)),
        }
    }
    views.sort();
    views.truncate(VIEWS_MAX);
}

/// The first fact that two views do not share.
fn difference(views: &[View]) -> Option<Disagreement> {
    let [first, other, ..] = views else { return None };
    let fact = |view: &View, at: usize| view.1.get(at).cloned().unwrap_or_else(|| "nothing more".to_owned());
    let count = first.1.len().max(other.1.len());
    let at = (0..count).find(|at| first.1.get(*at) != other.1.get(*at))?;
    let seen = |view: &View| (view.0, fact(view, at));
    Some(Disagreement { first: seen(first), other: seen(other) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::link::{End, Link};
    use crate::{Limits, Stop};

    fn view(fact: &str, rank: u32) -> Vec<View> {
        vec![(rank, vec!["/: inode 2".to_owned(), fact.to_owned()])]
    }

    #[test]
    fn ranks_that_see_the_same_agree() {
        let mut views = view("/a: inode 1", 2);
        merge(&mut views, view("/a: inode 1", 0));
        merge(&mut views, view("/a: inode 1", 1));
        assert_eq!((views.len(), views[0].0), (1, 0));
        assert_eq!(difference(&views), None);
        merge(&mut views, view("/a: inode 7", 5));
        let differs = difference(&views).unwrap().to_string();
        assert_eq!(differs, "on rank 0 /a: inode 1; on rank 5 /a: inode 7");
        let fewer = vec![(0, vec!["a".to_owned(), "b".to_owned()]), (3, vec!["a".to_owned()])];
        assert_eq!(difference(&fewer).unwrap().to_string(), "on rank 0 b; on rank 3 nothing more");
    }

    #[test]
    fn many_different_views_stay_few() {
        let mut views = view("x", 99);
        (0..50).for_each(|rank| merge(&mut views, view(&rank.to_string(), rank)));
        assert_eq!(views.len(), VIEWS_MAX);
        assert_eq!(difference(&views).unwrap().first.0, 0);
    }

    #[test]
    fn all_ranks_get_the_first_two_that_differ() {
        let mut programs = ["a 1"; 40];
        (programs[23], programs[7], programs[39]) = ("a 3", "a 2", "a 2");
        let answers: Vec<_> = std::thread::scope(|scope| {
            let endpoints = atta_fabric::in_process(40).into_iter();
            let ranks: Vec<_> = endpoints
                .zip(programs)
                .map(|(mut endpoint, program)| {
                    scope.spawn(move || {
                        let link = Link::new(End::Lent(&mut endpoint), Stop::new());
                        agree(&mut Meeting::new(link, Limits::default()), vec![program.to_owned()]).unwrap()
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        let (first, other) = ((0, "a 1".to_owned()), (7, "a 2".to_owned()));
        assert!(
            answers
                .into_iter()
                .all(|answer| answer == Some(Disagreement { first: first.clone(), other: other.clone() }))
        );
    }
}
