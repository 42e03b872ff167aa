//! Removes the links' directory at the end of a copy, and counts the names of copied files that were outside the copy. It removes nothing
//! of the copy itself.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use atta_entry::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::AtFlags;

use crate::copy::links::claims::{Claim, forget_link, key_of, names_elsewhere, read_claim};
use crate::copy::links::private::PrivateDirectory;
use crate::copy::links::synced::{SYNCED, last_synced};
use atta_sys::{self as sys, retry};

/// Names read at once while the links' directory is removed.
const NAMES_AT_ONCE: usize = 4096;

/// Counts the names of copied files that are outside of the copy, on this many threads, whichever rank made the links' directory. It does not
/// change it.
pub(crate) fn count_elsewhere(private: &PrivateDirectory, threads: usize) -> Result<u64, Errno> {
    let found = private.links_of_another();
    let Some(known) = private.opened_links().or(found.as_ref()) else { return Ok(0) };
    let count = |keys: &[CString]| sum_of(keys, threads, |key| Ok(names_elsewhere(known, key)));
    let (mut keys, mut elsewhere) = (Vec::new(), 0);
    sys::each_name(known, |name| {
        if key_of(name).as_c_str() == name {
            keys.push(name.to_owned());
        }
        if keys.len() == NAMES_AT_ONCE {
            elsewhere += count(&keys)?;
            keys.clear();
        }
        Ok(())
    })?;
    Ok(elsewhere + count(&keys)?)
}

/// Removes the links' directory, whichever rank made it, on this many threads.
pub(crate) fn forget_links(private: &PrivateDirectory, threads: usize) -> Result<(), Errno> {
    let found = private.links_of_another();
    let Some(known) = private.opened_links().or(found.as_ref()) else { return Ok(()) };
    loop {
        let names = sys::names_of(known, NAMES_AT_ONCE)?;
        if names.is_empty() {
            break;
        }
        let keys: BTreeSet<_> = names.iter().map(|name| key_of(name)).collect();
        let keys: Vec<_> = keys.into_iter().collect();
        if sum_of(&keys, threads, |key| forget_link(known, key))? == 0 {
            // Names are listed but do not exist: removing the directory reports the error.
            break;
        }
    }
    private.remove_links()
}

/// Removes what an earlier run of the job has not completed: claims whose copies nobody makes, and copies that may be incomplete after a power cut.
/// On another host than before, those that no sync has written may be whole as well, but that is not known.
/// Returns the links' directory if copies are left that are whole on this host and not known to be on storage.
pub(crate) fn forget_incomplete(private: &PrivateDirectory) -> Result<Option<OwnedFd>, Errno> {
    let Some(known) = private.links_of_another() else { return Ok(None) };
    let (names, synced) = (sys::names_of(&known, usize::MAX)?, last_synced(&known));
    let names = names.iter().filter(|name| name.as_c_str() != SYNCED);
    let keys: BTreeSet<_> = names.map(|name| key_of(name)).collect();
    let mut has_unsynced = false;
    for key in keys {
        let found = match read_claim(&known, &key) {
            Ok(Claim::Complete(found)) if found.can_be_trusted(synced) => Some(found),
            _ => None,
        };
        match found.filter(|_| sys::stat_at(&known, &key, false).is_ok()) {
            Some(found) => has_unsynced |= !found.is_on_storage(synced),
            None => {
                forget_link(&known, &key)?;
            }
        }
    }
    if synced.is_none() {
        // Nothing is left that the failed sync has put in doubt.
        retry(|| rustix::fs::unlinkat(&known, SYNCED, AtFlags::empty()))?;
    }
    Ok(has_unsynced.then_some(known))
}

/// Does something for each of these keys of the links' directory, and adds up the results.
fn sum_of(
    keys: &[CString],
    threads: usize,
    each: impl Fn(&CString) -> Result<u64, Errno> + Sync,
) -> Result<u64, Errno> {
    let (sum, failed) = (AtomicU64::new(0), OnceLock::new());
    let add = |key| each(key).map(|more| sum.fetch_add(more, Ordering::Relaxed)).map(|_| ());
    std::thread::scope(|scope| {
        for part in keys.chunks(keys.len().div_ceil(threads.max(1)).max(1)) {
            scope.spawn(|| {
                if let Err(errno) = part.iter().try_for_each(add) {
                    let _ = failed.set(errno);
                }
            });
        }
    });
    failed.into_inner().map_or_else(|| Ok(sum.into_inner()), Err)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;

    use atta_testkit::scratch::Scratch;

    use crate::copy::links::claims::{Claim, Known, Trust, claim, keep_known, key, read_claim};
    use crate::copy::links::synced::SyncedLinks;
    use crate::copy::nothing_fails::NothingFails;
    use crate::copy::options::Options;
    use crate::copy::{Copy, Seat};
    use atta_sys as sys;

    #[test]
    fn next_run_forgets_copies_that_are_not_whole() {
        assert_eq!(kept_by_the_next_run(false), ["whole", "synced-copy"]);
    }

    #[test]
    fn next_run_forgets_all_copies_after_a_failed_sync() {
        assert_eq!(kept_by_the_next_run(true), [""; 0]);
    }

    /// Which copies the next run keeps. A sync may fail at last.
    fn kept_by_the_next_run(fails: bool) -> Vec<&'static str> {
        let scratch = Scratch::new("links-forget").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        fs::create_dir(&source).unwrap();
        let sources = [source.as_os_str().as_bytes().to_vec()];
        let path = target.as_os_str().as_bytes();
        let seat = Seat { job: 7, ..Seat::alone() };
        let prepare =
            |run| Options { run_of_job: Some(run), no_target_directory: true, ..Options::default() };
        let first = prepare(1);
        let copy = Copy::prepare(&sources, path, &first, &NothingFails, seat).unwrap();
        let private = &copy.operation.target.private;
        private.stay();
        let known = private.links().unwrap();
        let mut keys = Vec::new();
        let synced = SyncedLinks::new(1);
        for name in ["claimed", "whole", "synced-copy", "of-another-start", "without-copy"] {
            fs::write(source.join(name), name).unwrap();
            let metadata = sys::stat_path(source.join(name).as_os_str().as_bytes(), false).unwrap();
            let claimed = claim(known, &metadata, 0).unwrap().unwrap();
            if name != "without-copy" {
                rustix::fs::linkat(
                    rustix::fs::CWD,
                    source.join(name),
                    known,
                    key(&metadata),
                    rustix::fs::AtFlags::empty(),
                )
                .unwrap();
            }
            let now = Known::new(&metadata, 0, None);
            match name {
                "claimed" => drop(claimed),
                "synced-copy" | "of-another-start" => {
                    let trust = Trust::of_another_start(synced.number(known));
                    keep_known(claimed, &Known { trust, ..now }).unwrap();
                    if name == "synced-copy" {
                        synced.end(synced.begin(), true);
                    }
                }
                _ => keep_known(claimed, &now).unwrap(),
            }
            keys.push((name, key(&metadata)));
        }
        if fails {
            synced.end(synced.begin(), false);
        }
        drop(copy);
        let second = prepare(2);
        let copy = Copy::prepare(&sources, path, &second, &NothingFails, seat).unwrap();
        let known = copy.operation.target.private.links().unwrap();
        let is_kept = |key: &CString| {
            let is_claimed = matches!(read_claim(known, key), Ok(Claim::Complete(_)));
            assert_eq!(is_claimed, sys::stat_at(known, key, false).is_ok());
            is_claimed
        };
        let kept: Vec<_> = keys.into_iter().filter(|(_, key)| is_kept(key)).map(|(name, _)| name).collect();
        if fails {
            assert_eq!(sys::names_of(known, 1), Ok(Vec::new()));
        }
        kept
    }
}
