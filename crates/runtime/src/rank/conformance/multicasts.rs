//! Multicasts within groups of ranks over any fabric, several at the same time. Each rank checks what it received.

use atta_engine::{Config, Random};
use atta_fabric::Endpoint;

use super::join;
use crate::{RankError, Session, Stop};

/// How many multicasts follow each other without another meeting.
const TIMES: u32 = 3;

/// Divides the ranks into groups in several ways.
pub(super) fn conform(endpoint: &mut dyn Endpoint, seed: u64) -> Result<(), String> {
    let rank = endpoint.rank();
    let mut session = join(endpoint, Config::default(), &Stop::new()).map_err(|error| error.to_string())?;
    let mut random = Random::new(seed);
    // Up to five groups, one for all ranks, and one for each.
    for groups in [1, 2, 3, 5, u64::from(session.seat().ranks)] {
        let groups: Vec<u64> = (0..session.seat().ranks).map(|_| random.below(groups + 1)).collect();
        let received = received(&mut session, &groups).map_err(|error| error.to_string())?;
        let expected = expected(&groups, rank);
        if received != expected {
            return Err(format!("rank {rank} of groups {groups:?} received {received:?}, not {expected:?}"));
        }
    }
    session.close((), |(), ()| ()).map(|_| ()).map_err(|error| error.to_string())
}

/// The ranks of a rank's group. Ranks with the number 0 are in none.
fn members(groups: &[u64], rank: u32) -> Vec<u32> {
    let own = groups[rank as usize];
    let ranks = (0..).zip(groups);
    ranks.filter(|(_, group)| own != 0 && **group == own).map(|(rank, _)| rank).collect()
}

/// A value of the first rank of the group, each time another one.
fn expected(groups: &[u64], rank: u32) -> Vec<Option<String>> {
    let first = members(groups, rank).first().copied();
    (0..TIMES).map(|time| first.map(|first| value(first, time))).collect()
}

fn value(first: u32, time: u32) -> String {
    format!("{time} of rank {first}").repeat(1 + (first as usize % 3) * 1000)
}

fn received(session: &mut Session<'_>, groups: &[u64]) -> Result<Vec<Option<String>>, RankError> {
    let rank = session.seat().rank;
    let members = members(groups, rank);
    let multicast = |time| {
        let own = (members.first() == Some(&rank)).then(|| value(rank, time));
        session.multicast(&members, own)
    };
    (0..TIMES).map(multicast).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_those_of_one_group() {
        let groups = [2, 0, 1, 2];
        assert_eq!((members(&groups, 3), members(&groups, 1)), (vec![0, 3], vec![]));
        assert_eq!(expected(&groups, 1), [None, None, None]);
        assert_eq!(expected(&groups, 3)[1], Some("1 of rank 0".to_owned()));
    }
}
