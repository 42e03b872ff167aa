//! Steps of few ranks, beside what a loop over all ranks gives.

use super::*;
use crate::network::Topology;

const COSTS: StepCosts =
    StepCosts { own_ns: 10, send_ns: 100, receive_ns: 200, bytes_per_us: 1000, header_bytes: 5 };

fn network() -> Network {
    Network {
        topology: Topology::Flat,
        ranks_per_host: 1,
        base_ns: 3000,
        hop_ns: 0,
        bytes_per_us: 100,
        shared_ns: 1,
        shared_bytes_per_us: 1,
    }
}

fn steps(ranks: u32, tree: RankTree) -> Steps {
    Steps::new(ranks, tree, network(), COSTS)
}

const SHAPES: [RankTree; 4] = [RankTree::Binomial, RankTree::SESSION, RankTree::Wide(2), RankTree::Wide(1)];

#[test]
fn each_rank_is_a_child_of_its_parent() {
    for (tree, ranks) in SHAPES.into_iter().flat_map(|tree| [1, 2, 3, 16, 17, 100].map(|ranks| (tree, ranks)))
    {
        let mut seen = vec![0; ranks as usize];
        for rank in 0..ranks {
            for child in tree.children(rank, ranks) {
                assert!(child > rank, "{tree:?}");
                assert_eq!(tree.parent(child, ranks), Some(rank), "{tree:?}");
                seen[child as usize] += 1;
            }
        }
        assert_eq!(tree.parent(0, ranks), None);
        assert!(seen[0] == 0 && seen[1..].iter().all(|count| *count == 1), "{tree:?} {ranks}: {seen:?}");
    }
}

#[test]
fn all_ranks_get_what_the_first_concludes() {
    for (tree, ranks) in SHAPES.into_iter().flat_map(|tree| [1, 2, 5, 40, 300].map(|ranks| (tree, ranks))) {
        let mut steps = steps(ranks, tree);
        let program = |turn: &mut Turn<'_>| {
            let rank = u64::from(turn.rank());
            let sum = turn.reduce(rank, |all, more| *all += more)?;
            assert_eq!(sum.is_some(), rank == 0);
            let sum = turn.broadcast(sum)?;
            let most = turn.reduce(rank + sum, |all, more| *all = more.max(*all))?;
            Ok::<_, NotYet>((sum, turn.broadcast(most)?))
        };
        let sum = u64::from(ranks) * u64::from(ranks - 1) / 2;
        let expected = vec![(sum, sum + u64::from(ranks) - 1); ranks as usize];
        assert_eq!(steps.run(program), Ok(expected), "{tree:?}");
        assert_eq!((steps.count(), steps.traffic().messages), (4, 4 * u64::from(ranks - 1)));
    }
}

#[test]
fn groups_hear_their_first_ranks() {
    let mut steps = steps(60, RankTree::SESSION);
    let program = |turn: &mut Turn<'_>| {
        let rank = turn.rank();
        let group: Vec<u32> = (0..60).filter(|other| other % 3 == rank % 3 && rank % 3 < 2).collect();
        let value = (group.first() == Some(&rank)).then_some(rank + 10);
        let heard = turn.multicast(&group, value)?;
        let count = turn.reduce(u32::from(heard.is_some()), |all, more| *all += more)?;
        Ok::<_, NotYet>((heard, turn.broadcast(count)?))
    };
    let expected = |rank: u32| ((rank % 3 < 2).then_some(rank % 3 + 10), 40);
    assert_eq!(steps.run(program), Ok((0..60).map(expected).collect()));
    assert_eq!(steps.traffic().messages, 2 * 19 + 2 * 59);
}

#[test]
fn time_of_two_ranks_is_that_of_their_messages() {
    let mut steps = steps(2, RankTree::Binomial);
    let program = |turn: &mut Turn<'_>| {
        turn.work(if turn.rank() == 1 { 1000 } else { 0 });
        let all = turn.reduce(vec![turn.rank() as u8; 94], Vec::append_all)?;
        turn.broadcast(all.map(|all| all.len() as u64))
    };
    assert_eq!(steps.run(program), Ok(vec![188; 2]));
    // 94 bytes, their number in one byte and the header are 100: 1 us on the link, 0.1 us in the receiver.
    let up = 1000 + 10 + 100 + 3000 + 1000 + 200 + 100;
    // The number has 2 bytes, so a message has 7.
    let down = 100 + 70 + 3000 + 200 + 7;
    assert_eq!(steps.end_ns(), up + down);
    let traffic = StepTraffic { messages: 2, bytes: 107, longest: 100, rounds: 2 };
    assert_eq!(steps.traffic(), traffic);
}

/// For `reduce`.
trait AppendAll {
    fn append_all(&mut self, more: Self);
}

impl AppendAll for Vec<u8> {
    fn append_all(&mut self, more: Self) {
        self.extend(more);
    }
}

#[test]
fn rounds_are_those_of_the_height() {
    for (tree, ranks, height) in [
        (RankTree::Binomial, 1024, 10),
        (RankTree::SESSION, 17, 1),
        (RankTree::SESSION, 300, 3),
        (RankTree::Wide(1), 9, 8),
    ] {
        let mut steps = steps(ranks, tree);
        let program = |turn: &mut Turn<'_>| {
            let all = turn.reduce(1_u32, |all, more| *all += more)?;
            turn.broadcast(all)
        };
        assert_eq!(steps.run(program), Ok(vec![ranks; ranks as usize]));
        assert_eq!(steps.traffic().rounds, 2 * height, "{tree:?} {ranks}");
    }
}

#[test]
fn steps_before_the_measured_one_are_free() {
    let program = |turn: &mut Turn<'_>| {
        for _ in 0..3 {
            let all = turn.reduce(1_u32, |all, more| *all += more)?;
            turn.broadcast(all)?;
        }
        Ok::<_, NotYet>(())
    };
    let run = |measured_from| {
        let mut steps = steps(8, RankTree::Binomial).measured_from(measured_from);
        steps.run(program).unwrap();
        (steps.end_ns(), steps.traffic().messages)
    };
    let [all, last] = [0, 4].map(run);
    assert_eq!((all.1, last.1), (6 * 7, 2 * 7));
    assert!(last.0 > 0 && last.0 * 2 < all.0, "{all:?} {last:?}");
}

#[test]
fn error_of_a_rank_ends_the_run() {
    let mut steps = steps(8, RankTree::Binomial);
    let program = |turn: &mut Turn<'_>| match turn.rank() {
        3 => Err("no"),
        _ => turn.reduce(1_u32, |all, more| *all += more).map_err(|_| "not yet"),
    };
    assert_eq!(steps.run(program), Err("no"));
}

#[test]
#[should_panic(expected = "ranks do not take the same steps")]
fn ranks_without_a_common_step_are_noticed() {
    let mut steps = steps(4, RankTree::Binomial);
    let program = |turn: &mut Turn<'_>| match turn.rank() {
        0 => Ok(()),
        _ => turn.broadcast(None::<u32>).map(|_| ()),
    };
    let _ = steps.run(program);
}
