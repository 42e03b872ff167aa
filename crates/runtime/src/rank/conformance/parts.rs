//! Multicasts of many parts, for the conformance test: two groups with different parts at the same time, ranks without a group, chains and trees,
//! and ranks that take slowly. What each rank must get follows from the seed.

use std::time::Duration;

use atta_engine::Random;
use atta_fabric::Endpoint;

use super::{Config, Stop, join};
use crate::{RankError, Session, Shape};

/// One after the other: an empty multicast, parts of no bytes, few large parts, many small ones.
const KINDS: [(u64, u64); 4] = [(0, 0), (3, 1), (5, 300_000), (60, 700)];

/// Runs one multicast after another.
///
/// # Errors
/// What is wrong.
pub(super) fn conform(endpoint: &mut dyn Endpoint, seed: u64) -> Result<(), String> {
    run(endpoint, seed).map_err(|error| error.to_string())?
}

fn run(endpoint: &mut dyn Endpoint, seed: u64) -> Result<Result<(), String>, RankError> {
    let mut session = join(endpoint, Config::default(), &Stop::new())?;
    let mut found = Ok(());
    for (round, kind) in (0..).zip(KINDS) {
        for shape in [Shape::Tree, Shape::Chain] {
            for groups in 1..4 {
                let one = round_of(&mut session, (seed ^ (round << 32), kind), shape, groups)?;
                // The others go on, and must not wait for this rank.
                found = found.and(one.map_err(|why| format!("{shape:?}, {kind:?}, {groups} groups: {why}")));
            }
        }
    }
    session.close((), |(), ()| ())?;
    Ok(found)
}

/// Ranks are in the group of their number modulo `groups`; with three, those of the last group have none.
fn round_of(
    session: &mut Session<'_>,
    (seed, (parts, bytes_max)): (u64, (u64, u64)),
    shape: Shape,
    groups: u32,
) -> Result<Result<(), String>, RankError> {
    let (rank, ranks) = (session.seat().rank, session.seat().ranks);
    let group = rank % groups;
    let mut members: Vec<u32> = match group {
        2 => Vec::new(),
        group => (0..ranks).filter(|other| other % groups == group).collect(),
    };
    // Not always the lowest rank begins.
    let turns = seed as usize % members.len().max(1);
    members.rotate_left(turns);
    let seed = seed + u64::from(group) * 1000;
    // Groups have other numbers of parts.
    let parts = parts + u64::from(group);
    let part = |number: u64| {
        let mut random = Random::new(seed + number);
        let length = random.below(bytes_max.max(1));
        (0..length).map(|at| (at ^ number ^ seed) as u8).collect::<Vec<u8>>()
    };
    let (mut made, mut got, mut wrong) = (0, 0, None);
    let next = || {
        made += 1;
        (made <= parts).then(|| part(made - 1))
    };
    let take = |bytes: &[u8]| {
        if bytes != part(got) {
            wrong = wrong.or(Some(got));
        }
        got += 1;
        if (seed + u64::from(rank) + got).is_multiple_of(7) {
            std::thread::sleep(Duration::from_micros(200));
        }
    };
    session.multicast_parts(&members, shape, next, take)?;
    let expected = if members.is_empty() { 0 } else { parts };
    Ok(match wrong {
        Some(number) => Err(format!("part {number} differs")),
        None if got != expected => Err(format!("{got} of {expected} parts have come")),
        None if members.first() != Some(&rank) && made > 0 => Err("another rank made parts".to_owned()),
        None => Ok(()),
    })
}
