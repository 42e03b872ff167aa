//! TARGET of a copy by several nodes: one directory that all of them share. It is made if it is missing, and so are the directories of nodes.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use atta_ops::copy::parent_of;
use atta_ops::walk;
use atta_runtime::{RankError, Session};
use rustix::fs::FileType;

use super::cannot_make;
use crate::copy::arguments::CopyArguments;
use crate::run::file::{describe, printable};
use crate::run::messages::{complain, exit};
use crate::run::refused::Refused;
use crate::run::same::{self, Seen};

/// Makes sure that TARGET is one directory for all ranks. Otherwise the exit code.
pub(super) fn check(
    arguments: &CopyArguments,
    session: &mut Session<'_>,
) -> Result<Result<(), u8>, RankError> {
    let target = arguments.paths.last().map(|target| target.as_bytes().to_vec()).unwrap_or_default();
    let path = Path::new(std::ffi::OsStr::from_bytes(&target));
    // Others do not look for what is missing: NFS would remember that.
    let found = session.is_first().then(|| find(path));
    let (code, is_there) = match found {
        None => (None, None),
        Some(Ok(is_there)) => (Some(exit::DONE), Some(is_there)),
        Some(Err(refused)) => (Some(refused.report()), Some(false)),
    };
    let (decided, is_there) = session.broadcast(code.zip(is_there))?;
    if decided != exit::DONE {
        return Ok(Err(code.unwrap_or(exit::DONE)));
    }
    if !is_there {
        let above = parent_of(&target);
        if let Err(code) = is_shared(if above.is_empty() { b"." } else { above }, arguments, session)? {
            return Ok(Err(code));
        }
        let made = session.is_first().then(|| make(path).map_or_else(Refused::report, |()| exit::DONE));
        if session.broadcast(made)? != exit::DONE {
            return Ok(Err(made.unwrap_or(exit::DONE)));
        }
    }
    is_shared(&target, arguments, session)
}

/// Whether there is such a directory, or nothing.
fn find(path: &Path) -> Result<bool, Refused> {
    match rustix::fs::stat(path) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => Ok(true),
        Ok(_) => Err(Refused::fatal(format!("TARGET is not a directory: {}", printable(path)))),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(error) => {
            let error = describe(&error.into());
            Err(Refused::fatal(format!("cannot look at TARGET: {}: {error}", printable(path))))
        }
    }
}

/// Whether all ranks see the same there. If not, the first rank reports the reason; the exit code.
fn is_shared(
    path: &[u8],
    arguments: &CopyArguments,
    session: &mut Session<'_>,
) -> Result<Result<(), u8>, RankError> {
    const MUST: &str = "TARGET must be the same file system, at the same place,";
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let path = walk::real_path(path).unwrap_or_else(|| path.to_owned());
    let seen = Seen::all(vec![path.as_os_str().as_bytes().to_vec()], session);
    let Some(not_same) = same::check(seen, None, arguments.ranks.assume_same, session)? else {
        return Ok(Ok(()));
    };
    if !session.is_first() {
        return Ok(Err(exit::DONE));
    }
    complain(&format!("TARGET is not the same on all ranks: {}", not_same.what), Some(&not_same.hint(MUST)));
    Ok(Err(exit::FATAL))
}

/// Makes a directory, unless it is there. A link is not followed: it may lead to another node's files.
pub(super) fn make(path: &Path) -> Result<(), Refused> {
    let made = std::fs::DirBuilder::new();
    match made.create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        made => return made.map_err(|error| cannot_make(path, &error)),
    }
    let is_directory = rustix::fs::lstat(path)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    if is_directory {
        return Ok(());
    }
    Err(Refused::fatal(format!("not a directory: {}", printable(path))))
}
