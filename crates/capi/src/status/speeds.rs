//! Measured speeds of file systems, for the search of places. They are in a file that `atta-status` writes.

use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use atta_entry::Errno;
use atta_status::{Speeds, measure, measure_in_time, mount_name};

use crate::arguments::{Out, Text};
use crate::call::return_code;
use crate::control::within;
use crate::status::mounts::{NO_MOUNT, absolute, table};
use crate::status::objects::{find, give};
use crate::status::saved::errno_of;

/// Speeds of a program.
struct Known(Mutex<Speeds>);

impl Known {
    fn with<T>(&self, f: impl FnOnce(&mut Speeds) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The speeds of a number; 0: none.
pub(crate) fn of(speeds: u64) -> Result<Speeds, Errno> {
    if speeds == 0 { Ok(Speeds::default()) } else { Ok(find::<Known>(speeds)?.with(|speeds| speeds.clone())) }
}

/// Reads speeds of a file.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_speeds_load(file: Text, speeds: Out<u64>) -> c_int {
    return_code(|| {
        give(speeds, || {
            let file = file.path()?;
            let found = Speeds::load(Path::new(OsStr::from_bytes(file.as_bytes()))).map_err(errno_of)?;
            Ok(Known(Mutex::new(found)))
        })
    })
}

/// Writes speeds to a file.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_speeds_save(speeds: u64, file: Text) -> c_int {
    return_code(|| {
        let (known, file) = (find::<Known>(speeds)?, file.path()?);
        let speeds = known.with(|speeds| speeds.clone());
        speeds.save(Path::new(OsStr::from_bytes(file.as_bytes()))).map_err(errno_of)
    })
}

/// Measures the speed of a directory now.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_speeds_measure(speeds: u64, mounts: u64, directory: Text, timeout_ms: c_int) -> c_int {
    return_code(|| {
        let (known, table, path) = (find::<Known>(speeds)?, table(mounts)?, absolute(directory)?);
        let mount = table.mount_of(path.as_bytes()).ok_or(NO_MOUNT)?;
        let root = table.uri_of(&mount.point).ok_or(NO_MOUNT)?;
        // Nothing waits for the lock while it is measured.
        let directory = Path::new(OsStr::from_bytes(path.as_bytes()));
        let speed = match within(timeout_ms) {
            None => measure(directory)?,
            Some(wait_max) => measure_in_time(directory, wait_max).ok_or(Errno(libc::ETIMEDOUT))??,
        };
        known.with(|known| known.insert(mount_name(&root), speed, SystemTime::now()));
        Ok(())
    })
}
