//! Maps of mount points in files, for programs without ranks.

use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::SystemTime;

use atta_entry::Errno;
use atta_status::{MountMap, SavedMap, SealedError};

use crate::arguments::{Out, Text};
use crate::call::return_code;
use crate::status::join::{Joined, SAVED_MAP};
use crate::status::mounts::table;
use crate::status::objects::{find, give};

/// Why a file cannot be used. EBADMSG: it is something else, is damaged, or another version of the library wrote it.
pub(crate) fn errno_of(error: SealedError) -> Errno {
    match error {
        SealedError::Missing => Errno::NOENT,
        SealedError::Failed(errno) => errno,
        SealedError::TooLarge(_) => Errno(libc::EFBIG),
        _ => Errno(libc::EBADMSG),
    }
}

/// Gathers what a program without ranks needs, and saves it where a file is named.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_map_save(status: u64, map: u64, file: Text) -> c_int {
    return_code(|| {
        let (joined, map) = (find::<Joined>(status)?, find::<MountMap>(map)?);
        let gather = |status: &_, links: &mut _| SavedMap::gather(status, links, &map, SystemTime::now());
        let saved = joined.ask_all(SAVED_MAP, gather)?;
        match file.path() {
            // This rank saves nothing.
            Err(Errno(libc::EFAULT)) => Ok(()),
            Err(error) => Err(error),
            Ok(file) => saved.save(Path::new(OsStr::from_bytes(file.as_bytes()))).map_err(errno_of),
        }
    })
}

/// Loads a map, as this process sees it.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_map_load(file: Text, mounts: u64, age_s: Out<u64>, map: Out<u64>) -> c_int {
    return_code(|| {
        give(map, || {
            let (file, table) = (file.path()?, table(mounts)?);
            let saved = SavedMap::load(Path::new(OsStr::from_bytes(file.as_bytes()))).map_err(errno_of)?;
            age_s.put(saved.age(SystemTime::now()).as_secs());
            Ok(saved.map(&table))
        })
    })
}
