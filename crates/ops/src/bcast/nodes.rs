//! What ranks find out before anything is written: who sees which FILE, whose TARGETs are in one directory, who writes. And why nothing is written
//! at all.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use atta_entry::{Errno, escape};
use atta_mounts::{MountTable, absolute, resolved};
use atta_runtime::{RankError, Session};
use atta_status::{Group, Sources, Status, StatusError};

use super::Refusable;
use super::place::Place;
use super::rows::{Failed, Ready};
use crate::refused::Refused;

/// The most nodes that a refusal names.
const NAMED_MAX: usize = 8;
/// The advice where FILE differs.
const ONE_FILE: &str = "FILE is one file, or equal on all hosts that have it";

/// What ranks know before anything is written.
pub(crate) struct Nodes<'t> {
    pub(crate) rank: u32,
    pub(crate) sources: Sources<'t>,
    /// Those of TARGET's directory.
    pub(crate) groups: Vec<Group>,
    /// The writing ranks of all groups.
    pub(crate) writers: BTreeSet<u32>,
    pub(crate) failed: Vec<Failed>,
}

impl<'t> Nodes<'t> {
    pub(crate) fn find(
        session: &mut Session<'_>,
        (file, target): (&[u8], &[u8]),
        place: &Result<Place, String>,
        table: &'t MountTable,
    ) -> Result<Refusable<Self>, RankError> {
        let rank = session.seat().rank;
        // All ranks get an answer for some path, so that all take the same steps.
        let named = |path: &[u8]| absolute(path).map_or_else(|_| b"/".to_vec(), Cow::into_owned);
        let source = resolved(file).unwrap_or_else(|_| named(file));
        let directory = place.as_ref().map_or_else(|_| named(target), |place| place.path.clone());
        let found = (|| {
            let status = Status::join(session, table, atta_status::Options::default())?;
            let sources = Sources::find(session, &status, &source)?;
            Ok((sources, status.groups(session, &directory)?))
        })();
        let (sources, groups) = match found {
            Ok((sources, found)) => (sources, found),
            Err(StatusError::Collective(error)) => return Err(error),
            Err(error) => return Ok(Err(cannot(format!("cannot compare the mounts of ranks: {error}")))),
        };
        if let Some(refused) = refused_source(file, &sources) {
            return Ok(Err(refused));
        }
        let first = groups.own_group().and_then(|group| group.members.first()).unwrap_or(rank);
        let own = Ready::of(rank, place.as_ref().map(|_| ()).map_err(Clone::clone));
        let ready = session.all_reduce(BTreeMap::from([(first, own)]), Ready::merge_all)?;
        let writers = ready.values().filter_map(|ready| ready.writer).collect();
        let failed =
            ready.into_values().filter(|ready| ready.writer.is_none()).filter_map(|ready| ready.failed);
        let sources = sources.lending().once().with_stop(session.stop());
        let groups = groups.list().to_vec();
        Ok(Ok(Self { rank, sources, groups, writers, failed: failed.collect() }))
    }
}

/// Why no rank can read FILE, or ranks see different ones.
fn refused_source(file: &[u8], sources: &Sources<'_>) -> Option<Refused> {
    let looks = sources.looks();
    let mut found = looks.iter().filter_map(|(rank, look)| Some((*rank, look.ok()?.size)));
    if let Some((one, size)) = found.next() {
        let (other, other_size) = found.find(|(_, other)| *other != size)?;
        let what = format!(
            "FILE differs: {} has {size} bytes on rank {one}, {other_size} on rank {other}",
            escape(file)
        );
        return Some(Refused { hint: ONE_FILE.into(), ..cannot(what) });
    }
    let errno = looks.values().find_map(|look| look.err()).unwrap_or(Errno::NOENT);
    Some(match errno {
        Errno::ISDIR => Refused {
            hint: "atta copy copies directories".into(),
            ..cannot(format!("FILE is a directory: {}", escape(file)))
        },
        Errno::INVAL => cannot(format!("FILE is no regular file: {}", escape(file))),
        errno => Refused::failed("read FILE", file, errno, "at least one rank must be able to read it"),
    })
}

pub(crate) fn cannot(what: String) -> Refused {
    Refused { what, hint: "".into(), is_usage: false }
}

/// Sources whose digests differ.
pub(crate) fn refused_difference(file: &[u8], one: u32, other: u32) -> Refused {
    let what =
        format!("FILE differs: {} has another digest on rank {other} than on rank {one}", escape(file));
    Refused { hint: ONE_FILE.into(), ..cannot(what) }
}

/// What has the name of a copy.
pub(crate) fn refused_existing(hosts: &[&String]) -> Refused {
    let mut names: Vec<&str> = hosts.iter().take(NAMED_MAX).map(|host| host.as_str()).collect();
    let more = hosts.len().saturating_sub(NAMED_MAX);
    let more_text = format!("{more} more");
    if more > 0 {
        names.push(&more_text);
    }
    let what = format!("TARGET exists: {}", names.join(", "));
    Refused { hint: "--force replaces it".into(), ..cannot(what) }
}
