//! The search: all ranks ask together. Two reductions and two broadcasts, beside those of the map. It does not decide what suits;
//! `ranking.rs` does.

use super::candidates::{candidate_at, mount_name};
use super::needs::{Look, Needs, Plan, Source};
use super::place::Place;
use super::ranking::{Found, rank};
use super::requirements::Requirements;
use super::room::{Looked, NoRoom, Rooms, SystemRooms};
use crate::collective::{Collective, concluded};
use crate::distribution::Distribution;
use crate::error::StatusError;
use crate::mount_map::MountMap;
use crate::speeds::Speeds;
use crate::status::Status;

/// What a rank brings to a search.
#[derive(Clone, Copy)]
pub struct Search<'a> {
    /// What is required. Of the space each rank says its own; for all else the first rank's counts.
    pub requirements: Requirements,
    /// The speeds that this rank knows.
    pub speeds: &'a Speeds,
    /// Who answers for mount points.
    pub rooms: &'a dyn Rooms,
}

/// The mount points that all ranks have and on which files can be kept, suitable ones first, the best first. All ranks call this together,
/// with the map that they built together. One rank of each source looks at its space. What fails or does not answer is a place that is not
/// suitable.
///
/// # Errors
/// The ranks cannot communicate, or do not take the same steps.
pub fn places<C: Collective>(
    status: &Status<'_>,
    collective: &mut C,
    map: &MountMap,
    search: &Search<'_>,
) -> Result<Vec<Place>, StatusError<C::Error>> {
    let points: Vec<(&[u8], &Distribution)> = map.points().collect();
    let (own_rank, ranks) = (collective.rank(), collective.size());
    let own: Vec<_> = points.iter().map(|(point, _)| needs(status, search, point, own_rank)).collect();
    let mut all = Vec::new();
    let plan = concluded(collective, Some(own), merge_each(Needs::merge), |needs| {
        all = needs?;
        Some(plan(&all, &points, &search.requirements, ranks))
    })?;
    let plan = plan.ok_or(StatusError::Protocol)?;
    let looked = look(&plan, &points, search.rooms, own_rank);
    let places = concluded(collective, Some(looked), merge_each(Looked::merge), |looked| {
        let mut places = conclude(status, &points, (&all, &looked?), &search.requirements, ranks);
        rank(&mut places, ranks);
        Some(places)
    })?;
    places.ok_or(StatusError::Protocol)
}

/// The mount points at which this rank is the one that looks, where files can be written as far as the mount table says: each source has one
/// such rank, so that a measurement there does not meet others of this job. All ranks call this together, with the map that they built together.
///
/// # Errors
/// As [`places`].
pub fn own_sources<C: Collective>(
    status: &Status<'_>,
    collective: &mut C,
    map: &MountMap,
) -> Result<Vec<Vec<u8>>, StatusError<C::Error>> {
    let wanted = Requirements { writable: true, ..Requirements::default() };
    let search = Search { requirements: wanted, speeds: &Speeds::default(), rooms: &SystemRooms::default() };
    let points: Vec<(&[u8], &Distribution)> = map.points().collect();
    let (rank, ranks) = (collective.rank(), collective.size());
    let own: Vec<_> = points.iter().map(|(point, _)| needs(status, &search, point, rank)).collect();
    let plan = concluded(collective, Some(own), merge_each(Needs::merge), |needs| {
        Some(plan(&needs?, &points, &wanted, ranks))
    })?;
    let plan = plan.ok_or(StatusError::Protocol)?;
    let is_own = |looks: &Vec<Look>| looks.iter().any(|look| look.rank == rank);
    let own = plan.looks.iter().zip(points).filter(|(looks, _)| is_own(looks));
    Ok(own.map(|(_, (point, _))| point.to_vec()).collect())
}

/// Merges lists by place. Ranks with other maps have none.
fn merge_each<T>(merge: impl Fn(&mut T, T)) -> impl FnMut(&mut Option<Vec<T>>, Option<Vec<T>>) {
    move |all, more| {
        *all = match (all.take(), more) {
            (Some(mut all), Some(more)) if all.len() == more.len() => {
                all.iter_mut().zip(more).for_each(|(all, more)| merge(all, more));
                Some(all)
            }
            _ => None,
        };
    }
}

/// What this rank needs at a mount point.
fn needs(status: &Status<'_>, search: &Search<'_>, point: &[u8], rank: u32) -> Needs {
    let found =
        candidate_at(status.table(), point).zip(status.table().uri_of(point)).zip(status.named(point));
    let Some(((mount, local), (uri, _))) = found else { return Needs::LEFT_OUT };
    let measured = search.speeds.get(&mount_name(&local)).map(|measured| measured.speed.write);
    let rating =
        mount.known().map_or((1, 1), |known| (known.mounts.speed.into(), known.mounts.scalability.into()));
    let source = Source::of(rank, &search.requirements, uri.identity().is_definite());
    Needs {
        is_left_out: false,
        read_only: mount.is_read_only().then_some(rank),
        rating,
        measured,
        sources: [(uri.file_system().hash(), source)].into(),
    }
}

/// Whether other names mean other file systems for certain.
fn is_certain(found: &Distribution) -> bool {
    !found.list().is_empty() && found.list().iter().all(|group| group.is_certain)
}

fn plan(needs: &[Needs], points: &[(&[u8], &Distribution)], wanted: &Requirements, ranks: u32) -> Plan {
    let looks = |(needs, (_, found)): (&Needs, &(&[u8], &Distribution))| {
        let is_wanted = !(needs.is_left_out || (wanted.writable && needs.read_only.is_some()));
        if is_wanted { needs.looks(is_certain(found), wanted, ranks).1 } else { Vec::new() }
    };
    Plan { looks: needs.iter().zip(points).map(looks).collect(), is_write_wanted: wanted.writable }
}

/// Looks at the mount points for which this rank does so.
fn look(plan: &Plan, points: &[(&[u8], &Distribution)], rooms: &dyn Rooms, rank: u32) -> Vec<Looked> {
    let own = |(at, looks): (usize, &Vec<_>)| {
        let look = looks.iter().find(|look: &&Look| look.rank == rank)?;
        Some((at, look.need))
    };
    let own: Vec<(usize, u64)> = plan.looks.iter().enumerate().filter_map(own).collect();
    let asked: Vec<Vec<u8>> = own.iter().map(|(at, _)| points[*at].0.to_vec()).collect();
    let mut looked = vec![Looked::default(); points.len()];
    let answers = if asked.is_empty() { Vec::new() } else { rooms.rooms(&asked, plan.is_write_wanted) };
    let answers = answers.into_iter().chain(std::iter::repeat(Err(NoRoom::NoAnswer)));
    for ((at, need), room) in own.into_iter().zip(answers) {
        looked[at] = Looked::of(room, rank, need);
    }
    looked
}

fn conclude(
    status: &Status<'_>,
    points: &[(&[u8], &Distribution)],
    (needs, looked): (&[Needs], &[Looked]),
    wanted: &Requirements,
    ranks: u32,
) -> Vec<Place> {
    let found = points.iter().zip(needs.iter().zip(looked)).filter(|(_, (needs, _))| !needs.is_left_out);
    let place = |((point, distribution), (needs, looked)): (&(&[u8], &Distribution), (&Needs, &Looked))| {
        let found = Found { needs, looked, distribution };
        let mount = status.table().mount_of(point);
        let uri = status.table().uri_of(point);
        Place {
            point: point.to_vec(),
            kind: mount.map(|mount| mount.kind.clone()).unwrap_or_default(),
            uri: uri.map(|uri| uri.to_string()).unwrap_or_default(),
            sources: needs.looks(is_certain(distribution), wanted, ranks).0,
            tightest: looked.tightest,
            is_quota_read: looked.tightest.is_some() && !looked.is_quota_unread,
            speed: needs.speed(),
            scalability: needs.rating.1.max(1),
            score: 0.0,
            unmet: found.unmet(wanted),
        }
    };
    found.map(place).collect()
}
