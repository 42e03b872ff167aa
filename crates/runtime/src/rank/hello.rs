//! The first thing that ranks say to each other: which program they run. Ranks of different programs would read each other's values
//! wrongly. What follows from a difference is the caller's business.

use super::error::RankError;
use super::meet::Meeting;

/// Programs that are sent on to the first rank: two are enough to see a difference.
const PROGRAMS_MAX: usize = 2;

/// Two ranks that do not run the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differs {
    /// The first rank, and its program.
    pub first: (u32, String),
    /// The first one that runs another one.
    pub other: (u32, String),
}

impl std::fmt::Display for Differs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, other } = self;
        write!(f, "ranks run different programs: rank {} {}, rank {} {}", first.0, first.1, other.0, other.1)
    }
}

/// Compares the programs of all ranks, named with their versions. All ranks get the same answer; none: there is one program.
///
/// # Errors
/// As a meeting.
pub(crate) fn greet(meeting: &mut Meeting<'_>, program: &str) -> Result<Option<Differs>, RankError> {
    let own = vec![(meeting.link.rank(), program.to_owned())];
    let programs = meeting.gather(own, |programs, more| {
        programs.extend(more);
        // The lowest rank of each program, the lowest first.
        programs.sort();
        let mut kept: Vec<(u32, String)> = Vec::new();
        for (rank, program) in programs.drain(..) {
            if kept.len() < PROGRAMS_MAX && kept.iter().all(|(_, known)| *known != program) {
                kept.push((rank, program));
            }
        }
        *programs = kept;
    })?;
    let mut programs = meeting.tell(programs)?.into_iter();
    let differs = programs.next().zip(programs.next());
    Ok(differs.map(|(first, other)| Differs { first, other }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::link::{End, Link};
    use crate::{Limits, Stop};

    /// What the ranks of a job hear whose programs are these.
    fn greeted(programs: &[&str]) -> Vec<Option<Differs>> {
        std::thread::scope(|scope| {
            let endpoints = atta_fabric::in_process(programs.len() as u32).into_iter();
            let ranks: Vec<_> = endpoints
                .zip(programs)
                .map(|(mut endpoint, program)| {
                    scope.spawn(move || {
                        let link = Link::new(End::Lent(&mut endpoint), Stop::new());
                        greet(&mut Meeting::new(link, Limits::default()), program).unwrap()
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_of_one_program_go_on() {
        assert!(greeted(&["a 1"; 40]).iter().all(Option::is_none));
        assert_eq!(greeted(&["a 1"]), [None]);
    }

    #[test]
    fn all_ranks_hear_of_the_first_that_differ() {
        let mut programs = ["a 1"; 40];
        (programs[23], programs[7], programs[39]) = ("a 3", "a 2", "a 2");
        let expected = Differs { first: (0, "a 1".to_owned()), other: (7, "a 2".to_owned()) };
        assert_eq!(expected.to_string(), "ranks run different programs: rank 0 a 1, rank 7 a 2");
        assert!(greeted(&programs).iter().all(|heard| heard.as_ref() == Some(&expected)));
    }
}
