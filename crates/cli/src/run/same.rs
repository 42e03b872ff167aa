//! Whether PATHs are the same on all ranks, before these share the work: the names of their file systems decide, and where these do not, what
//! each rank finds there. It prints nothing.
//!
//! ```text
//!   all ranks have as many PATHs ─▶ names of all mounts: MountMap ─▶ reduce: worst answer, facts ─▶ TARGET not known: a file in it
//! ```

use std::ffi::OsStr;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use atta_entry::{Metadata, escape, record};
use atta_mounts::{Host, MountTable, Probes, SystemProbes, absolute, resolved};
use atta_ops::copy::{Copy, TargetPlace};
use atta_ops::resume::hex;
use atta_ops::walk;
use atta_runtime::{RankError, Session};
use atta_status::{
    Answer, Detail, Evidence, Looks as _, MountMap, Options, Sameness, Status, StatusError, SystemLooks,
    sameness,
};

/// How long a file that another rank has made may stay unseen: clients cache directories.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// A PATH as a rank finds it.
pub(crate) struct Seen {
    pub(crate) path: Vec<u8>,
    /// Equal on all ranks for one file.
    pub(crate) fact: String,
    /// The device, which may differ; 0 if it cannot be looked at.
    pub(crate) device: u64,
}

impl Seen {
    /// Looks at PATHs, if there are other ranks.
    pub(crate) fn all(paths: Vec<Vec<u8>>, session: &Session<'_>) -> Vec<Self> {
        if session.seat().ranks == 1 { Vec::new() } else { paths.into_iter().map(Self::at).collect() }
    }

    /// Looks at a PATH: inode and birth time, or the modification time if the file system has no birth time.
    fn at(path: Vec<u8>) -> Self {
        let name = escape(&path);
        let (fact, device) = match walk::look_at(&path) {
            Ok(metadata) => {
                let (how, time) = metadata.btime.map_or(("changed", metadata.mtime), |time| ("born", time));
                let (seconds, nanoseconds) = (time.seconds, time.nanoseconds);
                let what = format!("is inode {}, {how} at {seconds}.{nanoseconds:09}", metadata.inode);
                (format!("{name} {what}{}", names_of_root(&path, &metadata)), metadata.device)
            }
            Err(errno) => (format!("{name} fails: {errno}"), 0),
        };
        Self { path, fact, device }
    }

    fn of(place: &TargetPlace) -> Self {
        let path = place.path.clone().unwrap_or_default();
        Self { path, fact: format!("TARGET goes to inode {}", place.inode), device: 0 }
    }
}

/// What distinguishes roots of which the rest says little: many FUSE file systems give theirs inode 1 and no times.
fn names_of_root(path: &[u8], found: &Metadata) -> String {
    if found.btime.is_some() || found.inode > 2 {
        return String::new();
    }
    match SystemLooks.look(path, Detail::Names).evidence {
        Evidence::Directory(Some(digest)) => {
            format!(", its names have the digest {}", hex(&digest[..8]))
        }
        _ => String::new(),
    }
}

/// Why ranks may not share the work.
pub(crate) struct NotSame {
    /// Two ranks that do not see the same.
    pub(crate) what: String,
    /// It may be the same for all that: `--assume-same` says so.
    pub(crate) may_be_same: bool,
}

impl NotSame {
    /// What to do. `must`: what must be the same.
    pub(crate) fn hint(&self, must: &str) -> String {
        let otherwise = if self.may_be_same { "; if it is, add --assume-same" } else { "" };
        format!("{must} on all ranks{otherwise}")
    }

    fn different(what: String) -> Self {
        Self { what, may_be_same: false }
    }

    fn undecided(what: String) -> Self {
        Self { what, may_be_same: true }
    }
}

/// What all ranks together say of a PATH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    /// 0: names say that it is not one; 1: they do not decide; 2: they say that it is one.
    names: u8,
    /// A hash of what some rank finds.
    fact: u64,
    /// Others find something else.
    differs: bool,
}

record!(Judged { names, fact, differs });

impl Judged {
    fn of(names: Answer, seen: &Seen) -> Self {
        let names = match names {
            Answer::No => 0,
            Answer::Unknown => 1,
            Answer::Yes => 2,
        };
        // All ranks have the same hasher.
        let fact = BuildHasherDefault::<DefaultHasher>::default().hash_one(&seen.fact);
        Self { names, fact, differs: false }
    }

    fn merge(&mut self, other: Self) {
        self.names = self.names.min(other.names);
        self.differs |= other.differs || self.fact != other.fact;
    }
}

/// Compares PATHs on all ranks, which call this together. `target`: what they copy into, too. Where names do not say that it is one for all, a
/// file in it shows that: equal inodes do not, since the root of a FUSE file system has inode 1. `assumes`: what is not known to differ is
/// taken for the same. A session of one rank need not look.
pub(crate) fn check(
    seen: Vec<Seen>,
    target: Option<&Copy<'_>>,
    assumes: bool,
    session: &mut Session<'_>,
) -> Result<Option<NotSame>, RankError> {
    if session.seat().ranks == 1 {
        return Ok(None);
    }
    let places = target.map_or(Ok(Vec::new()), Copy::target_places);
    if let Some(differ) = session.agree(steps(&seen, &places, assumes))? {
        return Ok(Some(NotSame::different(differ.to_string())));
    }
    let places = match places {
        Ok(places) => places,
        Err(errno) => return Ok(Some(NotSame::different(format!("TARGET cannot be looked at: {errno}")))),
    };
    let sources = seen.len();
    let seen: Vec<Seen> = seen.into_iter().chain(places.iter().map(Seen::of)).collect();
    // Where one rank has no table, what they find decides alone.
    let table = SystemProbes::new().ok().and_then(|system| MountTable::read(&OfKernel(system)).ok());
    let is_read = session.all_reduce(table.is_some(), |all, more| *all &= more)?;
    let result = compare((&seen, sources), table.as_ref().filter(|_| is_read), assumes, session);
    let doubtful = match result {
        Ok(Ok(doubtful)) => doubtful,
        Ok(Err(not_same)) => return Ok(Some(not_same)),
        Err(StatusError::Collective(error)) => return Err(error),
        Err(error) => return Ok(Some(NotSame::undecided(error.to_string()))),
    };
    for at in doubtful {
        let Some((copy, place)) = target.zip(places.get(at)) else { continue };
        if let Some(not_same) = marked(copy, place, assumes, session)? {
            return Ok(Some(not_same));
        }
    }
    Ok(None)
}

/// What has to be equal so that ranks take the same steps.
fn steps(seen: &[Seen], places: &Result<Vec<TargetPlace>, atta_entry::Errno>, assumes: bool) -> Vec<String> {
    let given = if assumes { "has --assume-same" } else { "has no --assume-same" };
    let places = match places {
        Ok(places) => {
            places.iter().map(|place| format!("TARGET has a mount '{}'", escape(&place.name))).collect()
        }
        Err(errno) => vec![format!("TARGET cannot be looked at: {errno}")],
    };
    let paths = seen.iter().map(|seen| format!("a PATH is {}", escape(&seen.path)));
    [given.to_owned()].into_iter().chain(paths).chain(places).collect()
}

/// Compares names and facts. Returns the places of TARGET that these do not decide.
fn compare(
    (seen, sources): (&[Seen], usize),
    table: Option<&MountTable>,
    assumes: bool,
    session: &mut Session<'_>,
) -> Result<Result<Vec<usize>, NotSame>, StatusError<RankError>> {
    let status = match table {
        Some(table) => Some(Status::join(session, table, Options::default())?),
        None => None,
    };
    let map = match &status {
        Some(status) => Some(MountMap::build(status, session)?),
        None => None,
    };
    let paths: Vec<Vec<u8>> = seen.iter().map(|seen| name_of(&seen.path)).collect();
    let names = |path: &Vec<u8>| map.as_ref().map_or(Answer::Unknown, |map| map.is_unique(path));
    let own: Vec<_> = paths.iter().zip(seen).map(|(path, seen)| Judged::of(names(path), seen)).collect();
    let judged = session.all_reduce(own, |all, more| {
        all.iter_mut().zip(more).for_each(|(all, more)| all.merge(more));
    })?;
    let mut doubtful = Vec::new();
    for (at, Judged { names, differs, .. }) in judged.into_iter().enumerate() {
        let is_target = at >= sources;
        match names {
            0 => {
                let what = witnesses(status.as_ref(), session, &paths[at], &seen[at])?;
                return Ok(Err(NotSame::different(what)));
            }
            2 if !differs => {}
            _ if is_target => doubtful.push(at - sources),
            _ if differs && !assumes => {
                let what = witnesses(status.as_ref(), session, &paths[at], &seen[at])?;
                return Ok(Err(NotSame::undecided(what)));
            }
            _ => {}
        }
    }
    Ok(Ok(doubtful))
}

/// Two ranks that do not see the same, and what they see.
fn witnesses(
    status: Option<&Status<'_>>,
    session: &mut Session<'_>,
    path: &[u8],
    seen: &Seen,
) -> Result<String, StatusError<RankError>> {
    let Some(status) = status else {
        let differ = session.agree(vec![seen.fact.clone()])?;
        return Ok(differ.map(|differ| differ.to_string()).unwrap_or_default());
    };
    Ok(match sameness(status, session, path, seen.fact.clone())? {
        Sameness::Different(differing) | Sameness::Undecided(differing) => differing.to_string(),
        Sameness::Same => format!("{}: ranks reach it by other paths", seen.fact),
    })
}

/// Whether all ranks see a file that the first one makes.
fn marked(
    copy: &Copy<'_>,
    place: &TargetPlace,
    assumes: bool,
    session: &mut Session<'_>,
) -> Result<Option<NotSame>, RankError> {
    let marker = session.is_first().then(|| copy.mark(place));
    let name = marker.as_ref().map(|marker| match marker {
        Ok(marker) => Ok(marker.name().to_vec()),
        Err(errno) => Err(*errno),
    });
    let name = match session.broadcast(name)? {
        Ok(name) => name,
        Err(_) if assumes => return Ok(None),
        Err(errno) => {
            let what = format!("rank 0 cannot make a file in the target directory to try it: {errno}");
            return Ok(Some(NotSame::undecided(what)));
        }
    };
    let begun = Instant::now();
    while !place.sees(&name) && begun.elapsed() < SEEN_WITHIN {
        std::thread::sleep(SEEN_WITHIN / 50);
    }
    let host = String::from_utf8_lossy(rustix::system::uname().nodename().to_bytes()).into_owned();
    let blind = (!place.sees(&name)).then(|| (session.seat().rank, host));
    let blind = session.all_reduce(blind, |all, more| *all = all.take().into_iter().chain(more).min())?;
    Ok(blind.filter(|_| !assumes).map(|(rank, host)| {
        let host = escape(host.as_bytes());
        let what =
            format!("rank {rank} ({host}) does not see a file that rank 0 has made in the target directory");
        NotSame::undecided(what)
    }))
}

/// The path to be named: the last name is followed if commands follow it, which is with a slash at the end.
fn name_of(path: &[u8]) -> Vec<u8> {
    let given = Path::new(OsStr::from_bytes(path));
    let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
    let found = match (given.file_name(), given.parent()) {
        (Some(name), Some(parent)) if !path.ends_with(b"/") && !path.ends_with(b"/.") => {
            let parent = if parent.as_os_str().is_empty() { b".".to_vec() } else { bytes(parent) };
            resolved(&parent).map(|parent| [&parent[..], b"/", name.as_bytes()].concat())
        }
        _ => resolved(path),
    };
    found.unwrap_or_else(|_| absolute(path).map_or_else(|_| path.to_vec(), std::borrow::Cow::into_owned))
}

/// Answers of the kernel alone. Servers and resolvers are not asked: names that only they know stay unknown, and what ranks find decides.
struct OfKernel(SystemProbes);

impl Probes for OfKernel {
    fn host(&self) -> Host {
        self.0.host()
    }

    fn file(&self, path: &[u8]) -> Option<Vec<u8>> {
        let is_of_kernel = [&b"/proc/"[..], b"/sys/"].iter().any(|top| path.starts_with(top));
        is_of_kernel.then(|| self.0.file(path))?
    }

    fn link(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.0.link(path)
    }

    fn names(&self, directory: &[u8]) -> Vec<Vec<u8>> {
        self.0.names(directory)
    }
}
