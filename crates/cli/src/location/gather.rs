//! What all ranks of a session find out about the PATHs together. The first rank's PATHs count. It prints nothing.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use atta_mounts::{MountTable, SystemProbes};
use atta_runtime::{RankError, Session};
use atta_status::{Detail, Evidence, Inspection, Looks, Options, Sighting, Status, StatusError, inspect};

use super::apart::{Apart, ProbesApart};
use super::arguments::WhereArguments;
use super::row::{Mounted, Row};
use crate::run::refused::Refused;

/// What is printed.
pub(super) struct Gathered {
    pub(super) ranks: u32,
    pub(super) rows: Vec<Row>,
}

/// Asks for each PATH. All ranks call this together. Refused: on all ranks, with a reason on the first one.
pub(super) fn gather(
    arguments: &WhereArguments,
    (table, apart): (&MountTable, &Apart),
    session: &mut Session<'_>,
) -> Result<Result<Gathered, Refused>, RankError> {
    let asked = session.is_first().then(|| wanted(&arguments.paths));
    let paths = session.broadcast(asked.as_ref().map(|asked| asked.as_ref().ok().cloned()))?;
    let Some(paths) = paths else {
        let refused = asked.and_then(Result::err);
        return Ok(Err(refused.unwrap_or_else(|| Refused::fatal(String::new()))));
    };
    let status = match joined(Status::join(session, table, Options::default()))? {
        Ok(status) => status,
        Err(refused) => return Ok(Err(refused)),
    };
    let paths = if arguments.all { points(table, session)? } else { paths };
    let most = match (arguments.all, arguments.content) {
        (true, _) => Detail::Kind,
        (false, true) => Detail::Contents,
        (false, false) => Detail::Names,
    };
    let looks = Watched { table, apart };
    let mut rows = Vec::new();
    for path in paths {
        let resolved = if arguments.all { path.clone() } else { apart.resolved(&path) };
        let found = match inspect(&status, session, &resolved, (&looks, most)) {
            Ok(found) => Ok(found),
            Err(error @ StatusError::NoMount { .. }) => Err(error.to_string()),
            Err(error) => return Ok(Err(refused(error)?)),
        };
        rows.push(looks.row(path, resolved, found));
    }
    Ok(Ok(Gathered { ranks: session.seat().ranks, rows }))
}

/// What a query returns, or why all ranks refuse.
pub(super) fn joined<T>(result: Result<T, StatusError<RankError>>) -> Result<Result<T, Refused>, RankError> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => refused(error).map(Err),
    }
}

fn refused(error: StatusError<RankError>) -> Result<Refused, RankError> {
    match error {
        StatusError::Collective(error) => Err(error),
        other => Ok(Refused::fatal(other.to_string())),
    }
}

/// The PATHs of this process from the root on, with their links.
pub(super) fn wanted(paths: &[OsString]) -> Result<Vec<Vec<u8>>, Refused> {
    let here = || {
        let found = std::env::current_dir();
        found
            .map(|path| path.into_os_string().into_vec())
            .map_err(|error| Refused::fatal(format!("cannot find the working directory: {error}")))
    };
    let whole = |path: &OsString| match path.as_bytes() {
        [] => Err(Refused::usage("PATH is empty".to_owned(), "the working directory is '.'")),
        [b'/', ..] => Ok(path.as_bytes().to_vec()),
        relative => Ok([&here()?, &b"/"[..], relative].concat()),
    };
    if paths.is_empty() { Ok(vec![here()?]) } else { paths.iter().map(whole).collect() }
}

/// The mount table of this rank, if all ranks can read theirs.
pub(super) fn read_on_all(
    apart: &Apart,
    session: &mut Session<'_>,
) -> Result<Result<MountTable, Refused>, RankError> {
    let rank = session.seat().rank;
    let table = SystemProbes::new()
        .map_err(|errno| format!("cannot read /proc/sys/kernel/random/boot_id: {errno}"))
        .and_then(|system| {
            let probes = ProbesApart { system, apart: apart.clone() };
            MountTable::read(&probes).map_err(|error| format!("cannot {error}"))
        });
    let failed = table.as_ref().err().map(|what| (rank, what.clone()));
    let failed = session.all_reduce(failed, |first, other| {
        *first = first.take().into_iter().chain(other).min_by_key(|(rank, _)| *rank);
    })?;
    Ok(match failed {
        Some((rank, what)) => Err(Refused::fatal(format!("rank {rank}: {what}"))),
        None => table.map_err(Refused::fatal),
    })
}

/// The mount points of all ranks to which paths lead.
fn points(table: &MountTable, session: &mut Session<'_>) -> Result<Vec<Vec<u8>>, RankError> {
    let own: BTreeMap<Vec<u8>, ()> = table.visible().map(|(mount, _)| (mount.point.clone(), ())).collect();
    let all = session.all_reduce(own, Extend::extend)?;
    Ok(all.into_keys().collect())
}

/// Looks from another process, but not where an automounter would mount something.
struct Watched<'a> {
    table: &'a MountTable,
    apart: &'a Apart,
}

impl Looks for Watched<'_> {
    fn look(&self, path: &[u8], detail: Detail) -> Sighting {
        match self.table.mount_of(path) {
            Some(mount) if mount.kind == b"autofs" => Sighting::of(Evidence::NotMounted),
            _ => self.apart.look(path, detail),
        }
    }
}

impl Watched<'_> {
    fn row(&self, path: Vec<u8>, resolved: Vec<u8>, found: Result<Inspection, String>) -> Row {
        let mount = self.table.mount_of(&resolved).map(|mount| Mounted {
            point: mount.point.clone(),
            kind: String::from_utf8_lossy(&mount.kind).into_owned(),
            source: mount.source.clone(),
        });
        let uri = self.table.uri_of(&resolved).map(|uri| uri.to_string());
        let reach = self.table.reach_of(&resolved);
        Row { path, resolved, mount, uri, reach, found, deadline: self.apart.deadline }
    }
}
