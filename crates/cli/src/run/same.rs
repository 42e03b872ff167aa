//! Whether PATHs are the same on all ranks, before these share the work: the names of their file systems, and what each rank finds there. It
//! prints nothing.

use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use atta_mounts::{Host, MountTable, Probes, SystemProbes, absolute, resolved};
use atta_ops::copy::Copy;
use atta_ops::walk;
use atta_runtime::{RankError, Session};
use atta_status::{Answer, Options, Sameness, Status, StatusError, sameness};

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
        let name = atta_entry::escape(&path);
        let (fact, device) = match walk::look_at(&path) {
            Ok(metadata) => {
                let (how, time) = metadata.btime.map_or(("changed", metadata.mtime), |time| ("born", time));
                let (seconds, nanoseconds) = (time.seconds, time.nanoseconds);
                let what = format!("is inode {}, {how} at {seconds}.{nanoseconds:09}", metadata.inode);
                (format!("{name} {what}"), metadata.device)
            }
            Err(errno) => (format!("{name} fails: {errno}"), 0),
        };
        Self { path, fact, device }
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
    fn of(found: Sameness, assumes: bool) -> Option<Self> {
        let (differing, may_be_same) = match found {
            Sameness::Different(differing) => (differing, false),
            Sameness::Undecided(differing) if !assumes => (differing, true),
            Sameness::Undecided(_) | Sameness::Same => return None,
        };
        Some(Self { what: differing.to_string(), may_be_same })
    }

    /// What to do. `must`: what must be the same.
    pub(crate) fn hint(&self, must: &str) -> String {
        let otherwise = if self.may_be_same { "; if it is, add --assume-same" } else { "" };
        format!("{must} on all ranks{otherwise}")
    }
}

/// Compares PATHs on all ranks, which call this together. `target`: what they copy into, too. Where names do not say that it is one for all, a
/// file in it shows that: equal inodes do not, since the root of a FUSE file system has inode 1. `assumes`: what is not known to differ is
/// taken for the same. A session of one rank need not look.
pub(crate) fn check(
    seen: Vec<Seen>,
    target: Option<(Seen, &Copy<'_>)>,
    assumes: bool,
    session: &mut Session<'_>,
) -> Result<Option<NotSame>, RankError> {
    if session.seat().ranks == 1 {
        return Ok(None);
    }
    let table = SystemProbes::new().map_err(|errno| format!("cannot read the boot ID: {errno}"));
    let table = table
        .and_then(|system| MountTable::read(&OfKernel(system)).map_err(|error| format!("cannot {error}")));
    let unread = session.agree(vec![table.as_ref().err().cloned().unwrap_or_default()])?;
    let table = match (table, unread) {
        (Ok(table), None) => table,
        // All of them say the same, or one of them.
        (table, differ) => {
            let what = differ.map(|differ| differ.to_string()).or(table.err()).unwrap_or_default();
            return Ok(Some(NotSame { what, may_be_same: false }));
        }
    };
    match judged(&table, (seen, target), assumes, session) {
        Ok(not_same) => Ok(not_same),
        Err(StatusError::Collective(error)) => Err(error),
        Err(error) => Ok(Some(NotSame { what: error.to_string(), may_be_same: false })),
    }
}

fn judged(
    table: &MountTable,
    (seen, target): (Vec<Seen>, Option<(Seen, &Copy<'_>)>),
    assumes: bool,
    session: &mut Session<'_>,
) -> Result<Option<NotSame>, StatusError<RankError>> {
    let status = Status::join(session, table, Options::default())?;
    for Seen { path, fact, .. } in seen {
        let found = sameness(&status, session, &without_links(&path), fact)?;
        if let Some(not_same) = NotSame::of(found, assumes) {
            return Ok(Some(not_same));
        }
    }
    let Some((Seen { path, fact, .. }, copy)) = target else { return Ok(None) };
    let path = without_links(&path);
    let is_known = status.is_unique(session, &path)? == Answer::Yes;
    match sameness(&status, session, &path, fact)? {
        Sameness::Same if is_known => Ok(None),
        found @ Sameness::Different(_) => Ok(NotSame::of(found, assumes)),
        found @ (Sameness::Same | Sameness::Undecided(_)) => Ok(marked(found, copy, assumes, session)?),
    }
}

/// Whether all ranks see a file that the first one makes.
fn marked(
    found: Sameness,
    copy: &Copy<'_>,
    assumes: bool,
    session: &mut Session<'_>,
) -> Result<Option<NotSame>, RankError> {
    let number = RandomState::new().build_hasher().finish();
    let marker = if session.is_first() { copy.mark_target(number).ok() } else { None };
    let number = session.is_first().then(|| marker.as_ref().map(|_| number));
    let Some(number) = session.broadcast(number)? else { return Ok(NotSame::of(found, assumes)) };
    let begun = Instant::now();
    while !copy.sees_marker(number) && begun.elapsed() < SEEN_WITHIN {
        std::thread::sleep(SEEN_WITHIN / 50);
    }
    let blind = (!copy.sees_marker(number)).then(|| session.seat().rank);
    let blind = session.all_reduce(blind, |all, more| *all = all.take().into_iter().chain(more).min())?;
    Ok(blind.map(|rank| {
        let what = format!("rank {rank} does not see a file that rank 0 has made in the target directory");
        NotSame { what, may_be_same: false }
    }))
}

/// A path without symbolic links, as far as it exists.
fn without_links(path: &[u8]) -> Vec<u8> {
    let given = Path::new(OsStr::from_bytes(path));
    let in_parent = || {
        let parent = given.parent().map(|parent| parent.as_os_str().as_bytes())?;
        let parent = resolved(if parent.is_empty() { b"." } else { parent }).ok()?;
        Some([&parent[..], b"/", given.file_name()?.as_bytes()].concat())
    };
    let found = resolved(path).ok().or_else(in_parent);
    found.unwrap_or_else(|| absolute(path).map_or_else(|_| path.to_vec(), std::borrow::Cow::into_owned))
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
