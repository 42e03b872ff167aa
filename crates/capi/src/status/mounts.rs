//! Mount tables, mounts and URIs. All of it is local: no rank is asked, and no system call is made on a path.

use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};

use atta_entry::Errno;
use atta_mounts::{Host, LiveTable, Mount, MountTable, ReadError, Silent, SystemProbes, Uri};

use crate::arguments::{Given, Out, Text};
use crate::call::return_code;
use crate::status::objects::{c_text, find, give, text};
use crate::status::values;

/// The path is below no mount.
pub(crate) const NO_MOUNT: Errno = Errno(libc::ENODEV);

/// A mount table. A status keeps the table that there was when it was joined.
struct Mounts {
    state: Mutex<State>,
}

struct State {
    /// None: the table is that of a text.
    live: Option<LiveTable>,
    table: Arc<MountTable>,
}

impl Mounts {
    fn new(live: Option<LiveTable>, table: MountTable) -> Self {
        Self { state: Mutex::new(State { live, table: Arc::new(table) }) }
    }
}

/// A mount with its texts.
struct ShownMount {
    point: CString,
    kind: CString,
    source: CString,
}

/// A URI with both spellings.
struct ShownUri {
    uri: Uri,
    text: CString,
    canonical: CString,
}

/// The table of a number, as it is now.
pub(crate) fn table(mounts: u64) -> Result<Arc<MountTable>, Errno> {
    let mounts = find::<Mounts>(mounts)?;
    let state = mounts.state.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Arc::clone(&state.table))
}

/// A copy of an absolute path.
pub(crate) fn absolute(path: Text) -> Result<CString, Errno> {
    let path = path.path()?;
    if path.as_bytes().starts_with(b"/") { Ok(path) } else { Err(Errno::INVAL) }
}

fn errno_of(error: ReadError) -> Errno {
    match error {
        ReadError::Unreadable(errno) => errno,
        ReadError::Invalid(_) => Errno::INVAL,
    }
}

/// Reads the mount table of this process.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mounts_read(mounts: Out<u64>) -> c_int {
    return_code(|| {
        give(mounts, || {
            let live = LiveTable::read(Box::new(SystemProbes::new()?)).map_err(errno_of)?;
            let table = live.table().clone();
            Ok(Mounts::new(Some(live), table))
        })
    })
}

/// Takes the text of a mount table of any host.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mounts_from_text(
    lines: Given<u8>,
    bytes: usize,
    boot_id: Text,
    host: Text,
    mounts: Out<u64>,
) -> c_int {
    return_code(|| {
        give(mounts, || {
            if isize::try_from(bytes).is_err() {
                return Err(Errno::INVAL);
            }
            let lines = lines.values(bytes)?;
            let (boot_id, host) = (boot_id.copy()?, host.copy()?);
            // The kernel escapes no zero byte: names have none.
            let has_zero = lines.contains(&0) || lines.windows(4).any(|part| part == br"\000");
            if lines.is_empty() || has_zero || boot_id.is_empty() {
                return Err(Errno::INVAL);
            }
            let probes = Silent::on(Host::new(boot_id.as_bytes(), host.as_bytes()));
            let table = MountTable::from_bytes(lines, &probes).map_err(|_| Errno::INVAL)?;
            Ok(Mounts::new(None, table))
        })
    })
}

/// Reads the table again if the kernel reports a change.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mounts_refresh(mounts: u64, changed: Out<c_int>) -> c_int {
    return_code(|| {
        let mounts = find::<Mounts>(mounts)?;
        let mut state = mounts.state.lock().unwrap_or_else(PoisonError::into_inner);
        let live = state.live.as_mut().ok_or(Errno(libc::EOPNOTSUPP))?;
        let has_changed = live.refresh().map_err(errno_of)?;
        if has_changed {
            let table = live.table().clone();
            state.table = Arc::new(table);
        }
        changed.put(c_int::from(has_changed));
        Ok(())
    })
}

/// Finds the mount that a path leads to.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mounts_mount(mounts: u64, path: Text, mount: Out<u64>) -> c_int {
    return_code(|| {
        give(mount, || {
            let (table, path) = (table(mounts)?, absolute(path)?);
            let Mount { point, kind, source, .. } = table.mount_of(path.as_bytes()).ok_or(NO_MOUNT)?;
            Ok(ShownMount { point: c_text(point), kind: c_text(kind), source: c_text(source) })
        })
    })
}

/// Returns where a mount is.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mount_point(mount: u64) -> *const c_char {
    text(mount, |mount: &ShownMount| &mount.point)
}

/// Returns the type of a mount.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mount_type(mount: u64) -> *const c_char {
    text(mount, |mount: &ShownMount| &mount.kind)
}

/// Returns what a mount says that it was mounted from.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mount_source(mount: u64) -> *const c_char {
    text(mount, |mount: &ShownMount| &mount.source)
}

/// Finds the global name of a path.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_mounts_uri(mounts: u64, path: Text, uri: Out<u64>) -> c_int {
    return_code(|| {
        give(uri, || {
            let (table, path) = (table(mounts)?, absolute(path)?);
            let uri = table.uri_of(path.as_bytes()).ok_or(NO_MOUNT)?;
            let (text, canonical) = (c_text(uri.to_string().as_bytes()), c_text(&uri.canonical()));
            Ok(ShownUri { uri, text, canonical })
        })
    })
}

/// Returns the spelling for people.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_uri_text(uri: u64) -> *const c_char {
    text(uri, |uri: &ShownUri| &uri.text)
}

/// Returns the spelling for comparison.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_uri_canonical(uri: u64) -> *const c_char {
    text(uri, |uri: &ShownUri| &uri.canonical)
}

/// Compares two files.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_uri_relation(one: u64, other: u64, relation: Out<c_int>) -> c_int {
    compared(one, other, relation, Uri::relation)
}

/// Compares the file systems of two files.
// SAFETY: no other library of the program has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn atta_uri_file_system_relation(one: u64, other: u64, relation: Out<c_int>) -> c_int {
    compared(one, other, relation, Uri::file_system_relation)
}

fn compared(
    one: u64,
    other: u64,
    relation: Out<c_int>,
    by: impl FnOnce(&Uri, &Uri) -> atta_mounts::Relation,
) -> c_int {
    return_code(|| {
        let relation = relation.there()?;
        let (one, other) = (find::<ShownUri>(one)?, find::<ShownUri>(other)?);
        relation.put(values::relation(by(&one.uri, &other.uri)));
        Ok(())
    })
}
