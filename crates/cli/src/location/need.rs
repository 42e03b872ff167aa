//! `atta where --need`: which mount points suit what a job wants to write, best first. Speeds that were measured are kept in the state directory of the
//! first rank's user. It chooses nothing; the library does.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use atta_entry::{Errno, escape};
use atta_mounts::MountTable;
use atta_runtime::{RankError, Session};
use atta_status::{
    MountMap, Options, Place, Requirements, Search, Speed, Speeds, Status, StatusError, mount_name,
    own_sources, places,
};
use serde_json::{Value, json};

use super::answer::Question;
use super::apart::Apart;
use super::arguments::{Probe, WhereArguments};
use super::gather::joined;
use super::text::aligned;
use crate::run::file::print;
use crate::run::history;
use crate::run::messages::{complain, exit};
use crate::run::refused::Refused;
use crate::run::signals::Signals;
use crate::size::binary;

/// Older speeds do not count.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// A measurement that has not ended by then is left behind.
const MEASURED_WITHIN: Duration = Duration::from_secs(30);

/// Finds places and prints them. All ranks call this together.
pub(super) fn find(
    (arguments, need): (&WhereArguments, Requirements),
    (table, apart): (&MountTable, &Apart),
    signals: &Signals,
    session: &mut Session<'_>,
) -> Result<Result<u8, Refused>, RankError> {
    let found = joined(ranked((arguments, need), table, apart, session))?;
    // What was interrupted has no answers.
    Ok(found.map(|found| match signals.code() {
        Some(code) => code,
        None if session.is_first() => report(arguments, session, &found),
        None => exit::DONE,
    }))
}

fn ranked(
    (arguments, need): (&WhereArguments, Requirements),
    table: &MountTable,
    apart: &Apart,
    session: &mut Session<'_>,
) -> Result<Vec<Place>, StatusError<RankError>> {
    let status = Status::join(session, table, Options::default())?;
    let map = MountMap::build(&status, session)?;
    let mut speeds = known(session)?;
    if arguments.probe == Probe::Now {
        let own = own_sources(&status, session, &map)?;
        speeds = measured(&own, table, apart, session, speeds)?;
    }
    places(&status, session, &map, &Search { requirements: need, speeds: &speeds, rooms: apart })
}

/// The file with measured speeds. None: there is no home directory.
fn file() -> Option<PathBuf> {
    history::state().map(|state| state.join("speeds"))
}

/// The speeds that the first rank knows.
fn known(session: &mut Session<'_>) -> Result<Speeds, RankError> {
    let own = session.is_first().then(|| {
        let Some(path) = file() else { return Speeds::default() };
        let read = Speeds::load(&path).unwrap_or_else(|error| {
            complain(&format!("note: {}: {error}; it is not used", path.display()), None);
            Speeds::default()
        });
        read.younger(AGE_MAX, SystemTime::now())
    });
    session.broadcast(own)
}

/// Adds what is measured now. Each rank measures its own mount points; the first one keeps the results of all.
fn measured(
    own: &[Vec<u8>],
    table: &MountTable,
    apart: &Apart,
    session: &mut Session<'_>,
    mut speeds: Speeds,
) -> Result<Speeds, RankError> {
    let apart = Apart { deadline: apart.deadline.max(MEASURED_WITHIN), ..apart.clone() };
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for point in own {
        let Some(name) = table.uri_of(point).map(|uri| mount_name(&uri)) else { continue };
        match apart.ask::<Result<Speed, Errno>>(&Question::Measure(point.clone())) {
            Some(Ok(speed)) => found.push((name, speed)),
            Some(Err(errno)) => failed.push((session.seat().rank, point.clone(), errno.to_string())),
            None => failed.push((session.seat().rank, point.clone(), "no answer".to_owned())),
        }
    }
    let (found, failed) = session.all_reduce((found, failed), |all, more| {
        all.0.extend(more.0);
        all.1.extend(more.1);
    })?;
    found.into_iter().for_each(|(name, speed)| speeds.insert(name, speed, SystemTime::now()));
    if session.is_first() {
        for (rank, point, why) in failed {
            complain(
                &format!("note: {}: cannot measure its speed on rank {rank}: {why}", escape(&point)),
                None,
            );
        }
        keep(&speeds);
    }
    Ok(speeds)
}

/// Keeps speeds for later.
fn keep(speeds: &Speeds) {
    let Some(path) = file() else { return };
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let kept = made.map_err(|error| error.to_string());
    if let Err(why) = kept.and_then(|()| speeds.save(&path).map_err(|error| error.to_string())) {
        complain(&format!("note: {}: cannot keep measured speeds: {why}", path.display()), None);
    }
}

/// Prints places; returns the exit code.
fn report(arguments: &WhereArguments, session: &Session<'_>, found: &[Place]) -> u8 {
    let ranks = session.seat().ranks;
    let text = match arguments.json {
        true => format!("{:#}\n", summary(found, ranks)),
        false => table_of(found),
    };
    if let Err(fatal) = print(&text) {
        return fatal.report();
    }
    if found.iter().any(Place::is_suitable) {
        return exit::DONE;
    }
    complain("no mount point suits", Some("the last column says why; ask for less with --need"));
    exit::DIFFERENT
}

fn table_of(found: &[Place]) -> String {
    let titles = ["SCORE", "PLACE", "TYPE", "AVAILABLE", "SPEED", "SOURCES", "URI", "UNSUITABLE"];
    let mut lines = vec![titles.map(str::to_owned).to_vec()];
    lines.extend(found.iter().map(|place| {
        let available = place.tightest.map_or("-".to_owned(), |tightest| binary(tightest.available));
        let speed = match place.speed.measured {
            Some(bytes) => format!("{}/s", binary(bytes)),
            None => format!("class {}", place.speed.rating),
        };
        let unmet: Vec<_> = place.unmet.iter().map(ToString::to_string).collect();
        vec![
            format!("{:.3}", place.score),
            escape(&place.point),
            String::from_utf8_lossy(&place.kind).into_owned(),
            available,
            speed,
            place.sources.to_string(),
            place.uri.clone(),
            unmet.join(", "),
        ]
    }));
    aligned(&lines)
}

fn summary(found: &[Place], ranks: u32) -> Value {
    let place = |place: &Place| {
        let tightest = place.tightest.map(
            |tightest| json!({"rank": tightest.rank, "need": tightest.need, "available": tightest.available}),
        );
        json!({
            "point": String::from_utf8_lossy(&place.point),
            "type": String::from_utf8_lossy(&place.kind),
            "uri": place.uri,
            "score": place.score,
            "suitable": place.is_suitable(),
            "unmet": place.unmet.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "space": tightest,
            "quota_read": place.is_quota_read,
            "bytes_per_second": place.speed.measured,
            "speed_class": place.speed.rating,
            "scalability": place.scalability,
            "sources": place.sources,
        })
    };
    json!({"schema_version": 1, "ranks": ranks, "places": found.iter().map(place).collect::<Vec<_>>()})
}
