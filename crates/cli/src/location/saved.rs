//! `atta where --save` and `--map`: what all ranks see at all mount points, in a file, and answers from it without ranks.

use std::path::Path;
use std::time::SystemTime;

use atta_entry::escape;
use atta_mounts::{MountTable, SystemProbes};
use atta_runtime::{RankError, Session};
use atta_status::{MountMap, Options, SavedMap, Status, StatusError};
use serde_json::{Value, json};

use super::apart::{Apart, ProbesApart};
use super::arguments::WhereArguments;
use super::gather::{joined, wanted};
use super::json::answer;
use super::row::label_of;
use super::text::aligned;
use crate::run::fatal::Fatal;
use crate::run::file::print;
use crate::run::messages::exit;
use crate::run::refused::Refused;
use crate::run::signals::Signals;
use crate::size::{counted, grouped};

/// Saves a map. All ranks call this together; the first one writes.
pub(super) fn save(
    (path, is_json): (&Path, bool),
    table: &MountTable,
    signals: &Signals,
    session: &mut Session<'_>,
) -> Result<Result<u8, Refused>, RankError> {
    let gathered = joined(gathered(table, session))?;
    Ok(gathered.and_then(|(map, points)| {
        if let Some(code) = signals.code() {
            return Ok(code);
        }
        if !session.is_first() {
            return Ok(exit::DONE);
        }
        map.save(path).map_err(|error| Refused::fatal(format!("cannot save {}: {error}", path.display())))?;
        let ranks = counted(map.ranks().into(), "rank", "ranks");
        let points = counted(points as u64, "mount point", "mount points");
        let text = match is_json {
            true => format!("{:#}\n", json!({"schema_version": 1, "ranks": map.ranks(), "saved": path})),
            false => format!("{}: {points} as {ranks} see them\n", path.display()),
        };
        Ok(print(&text).map_or_else(Fatal::report, |()| exit::DONE))
    }))
}

fn gathered(
    table: &MountTable,
    session: &mut Session<'_>,
) -> Result<(SavedMap, usize), StatusError<RankError>> {
    let status = Status::join(session, table, Options::default())?;
    let map = MountMap::build(&status, session)?;
    let points = map.points().count();
    Ok((SavedMap::gather(&status, session, &map, SystemTime::now())?, points))
}

/// Answers from a map; returns the exit code.
pub(super) fn ask(path: &Path, arguments: &WhereArguments, session: &Session<'_>) -> Result<u8, Refused> {
    if session.seat().ranks > 1 {
        let hint = "run it without mpirun or srun, or leave out --map to ask the ranks";
        return Err(Refused::usage("--map is for one process".to_owned(), hint));
    }
    let saved = SavedMap::load(path).map_err(|error| {
        let hint = "make one with: mpirun ... atta where --save MAP";
        Refused::fatal_with(format!("cannot read the map {}: {error}", path.display()), Some(hint.to_owned()))
    })?;
    let apart = Apart { deadline: arguments.deadline, stop: session.stop() };
    let system = SystemProbes::new();
    let system = system
        .map_err(|errno| Refused::fatal(format!("cannot read /proc/sys/kernel/random/boot_id: {errno}")))?;
    let table = MountTable::read(&ProbesApart { system, apart: apart.clone() });
    let table = table.map_err(|error| Refused::fatal(format!("cannot {error}")))?;
    let map = saved.map(&table);
    let paths = wanted(&arguments.paths)?;
    let rows: Vec<_> = paths.iter().map(|path| (path.clone(), apart.resolved(path))).collect();
    let text = match arguments.json {
        true => format!("{:#}\n", summary(&saved, &map, &rows)),
        false => table_of(&saved, &map, &rows),
    };
    Ok(print(&text).map_or_else(Fatal::report, |()| exit::DONE))
}

/// A path as it was given, and without symbolic links.
type Asked = (Vec<u8>, Vec<u8>);

fn table_of(saved: &SavedMap, map: &MountMap, rows: &[Asked]) -> String {
    let age = saved.age(SystemTime::now()).as_secs();
    let mut lines = vec![["PATH", "RANKS", "GROUP", "HOST"].map(str::to_owned).to_vec()];
    for (path, resolved) in rows {
        let seen = map
            .distribution(resolved)
            .map_or("unknown".to_owned(), |found| label_of(found, found.is_unique()));
        let own = map.descriptor(resolved);
        let group = own.map_or("-".to_owned(), |own| {
            format!("{} of {}, {}", own.group + 1, own.groups, counted(own.size.into(), "rank", "ranks"))
        });
        let host = own.and_then(|own| saved.host(own.representative)).map_or("-".to_owned(), escape);
        lines.push(vec![escape(path), seen, group, host]);
    }
    let ranks = counted(saved.ranks().into(), "rank", "ranks");
    format!("{}as {ranks} saw it {} s ago\n", aligned(&lines), grouped(age))
}

fn summary(saved: &SavedMap, map: &MountMap, rows: &[Asked]) -> Value {
    let row = |(path, resolved): &Asked| {
        let own = map.descriptor(resolved).map(|own| {
            json!({
                "groups": own.groups,
                "group": own.group,
                "size": own.size,
                "representative": own.representative,
                "host": saved.host(own.representative).map(String::from_utf8_lossy),
                "is_certain": own.is_certain,
            })
        });
        json!({
            "path": String::from_utf8_lossy(path),
            "resolved": String::from_utf8_lossy(resolved),
            "is_unique": answer(map.is_unique(resolved)),
            "is_fully_distributed": answer(map.is_fully_distributed(resolved)),
            "is_well_distributed": answer(map.is_well_distributed(resolved)),
            "is_poorly_distributed": answer(map.is_poorly_distributed(resolved)),
            "is_consistent": answer(map.is_consistent(resolved)),
            "own_group": own,
        })
    };
    json!({
        "schema_version": 1,
        "ranks": saved.ranks(),
        "age_seconds": saved.age(SystemTime::now()).as_secs(),
        "paths": rows.iter().map(row).collect::<Vec<_>>(),
    })
}
