//! Distances to the ranks of other hosts, by the switches above their hosts, where the launcher names these. Only a schedule that
//! asks near ranks first needs them. The program reads the launcher's environment.

use std::collections::BTreeMap;

use atta_engine::{Place, Rank, WireError};

use super::error::RankError;
use super::meet::Meeting;

/// The ranks below each switch. A switch is named by those above it, as in `core.row3.rack7`.
type BySwitch = BTreeMap<String, Vec<u32>>;

/// Finds the ranks below each switch, and sorts those of other hosts, the nearest first. If no rank knows its switches, the
/// network stays unknown. All ranks keep a list of all: 4 bytes for each.
///
/// # Errors
/// As a meeting.
pub(crate) fn look_around(
    meeting: &mut Meeting<'_>,
    place: Place,
    switches: Option<&str>,
) -> Result<Place, RankError> {
    let own = BySwitch::from([(switches.unwrap_or_default().to_owned(), vec![place.here().0])]);
    let all = meeting.reduce(own, |all, more| {
        for (switch, ranks) in more {
            all.entry(switch).or_default().extend(ranks);
        }
    })?;
    let all: BySwitch = meeting.broadcast(all)?;
    if all.values().flatten().any(|rank| *rank >= place.size()) {
        return Err(RankError::Wire { from: Rank::ROOT, error: WireError::Value });
    }
    if all.keys().all(String::is_empty) {
        return Ok(place);
    }
    Ok(ordered(place, &all, switches.unwrap_or_default()))
}

fn ordered(place: Place, all: &BySwitch, here: &str) -> Place {
    let (here_rank, size) = (place.here().0, place.size());
    let after = |rank: u32| (u64::from(rank) + u64::from(size) - u64::from(here_rank)) % u64::from(size);
    let is_outside = |rank: &u32| !place.neighbours().contains(&Rank(*rank));
    let mut outward: Vec<(usize, u32)> = all
        .iter()
        .flat_map(|(switch, ranks)| ranks.iter().map(|rank| (distance(here, switch), *rank)))
        .filter(|(_, rank)| is_outside(rank))
        .collect();
    // Equally near ranks follow in the order of a ring, so that each rank begins with another one.
    outward.sort_by_key(|(distance, rank)| (*distance, after(*rank)));
    place.with_outward(outward.into_iter().map(|(_, rank)| Rank(rank)).collect())
}

/// The number of switches that a message climbs from one to the other.
fn distance(here: &str, there: &str) -> usize {
    let levels = |path: &str| path.split('.').count();
    let shared = here.split('.').zip(there.split('.')).take_while(|(one, other)| one == other).count();
    levels(here).max(levels(there)) - shared
}

#[cfg(test)]
mod tests {
    use atta_fabric::in_process_on_hosts;

    use super::*;
    use crate::rank::link::{End, Link};
    use crate::{Limits, Stop};

    /// The ranks that each rank asks outside its host, in order; hosts and their switches.
    fn asked(hosts: &[u32], switches: &[Option<&str>]) -> Vec<Vec<u32>> {
        std::thread::scope(|scope| {
            let ranks: Vec<_> = in_process_on_hosts(hosts)
                .into_iter()
                .zip(hosts)
                .map(|(mut endpoint, host)| {
                    scope.spawn(move || {
                        let link = Link::new(End::Lent(&mut endpoint), Stop::new());
                        let place = link.place();
                        let mut meeting = Meeting::new(link, Limits::default());
                        let place = look_around(&mut meeting, place, switches[*host as usize]).unwrap();
                        (0..place.outside()).map(|index| place.outward(index).unwrap().0).collect()
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn ranks_below_the_same_switch_are_asked_first() {
        let switches = [Some("core.a"), Some("core.b"), Some("core.a"), Some("core.b")];
        let asked = asked(&[0, 0, 1, 2, 3, 3], &switches);
        assert_eq!(asked[0], [3, 2, 4, 5], "host 0 with 0 and 1, below a with 3");
        assert_eq!(asked[2], [4, 5, 3, 0, 1], "below b with 4 and 5");
        assert_eq!(asked[4], [2, 0, 1, 3]);
    }

    #[test]
    fn ranks_form_a_ring_without_switch_names() {
        let asked = asked(&[0, 1, 2], &[None, None, None]);
        assert_eq!(asked, [[1, 2], [2, 0], [0, 1]]);
    }

    #[test]
    fn a_distance_is_that_to_the_switch_above_both() {
        assert_eq!(distance("core.a", "core.a"), 0);
        assert_eq!(distance("core.a", "core.b"), 1);
        assert_eq!(distance("core.a.x", "core.b.y"), 2);
        assert_eq!(distance("core.a", ""), 2);
    }
}
