//! Removes inherited ACLs. A default ACL of a directory gives each new entry an access ACL, each new directory also a default one, and
//! limits the owner's rights. The owner of the directory can set one at any time. So each new file and directory is checked, and its ACLs
//! are removed before data is put into it. Until then its mode grants nothing to other users (the mask of the ACL is the mode's group
//! class). Files in a directory that this process created, owns and stripped of its default ACL are not checked: no other user can set one
//! there. `give.rs` sets the final metadata later. ACLs of NFSv4 are not looked at.

use std::ffi::CStr;

use atta_entry::{Errno, Kind, Metadata};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};

use atta_sys::at;
use atta_sys::{self as sys, Features, retry};

const ACCESS_LIST: &CStr = c"system.posix_acl_access";
const DEFAULT_LIST: &CStr = c"system.posix_acl_default";

/// Creates a private file without an inherited ACL. Fails if the name exists. `is_sealed`: nothing is inherited in the directory.
pub(crate) fn create_file(
    directory: impl AsFd,
    name: &CStr,
    access: OFlags,
    is_sealed: bool,
) -> Result<OwnedFd, Errno> {
    let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let private = Mode::RUSR | Mode::WUSR;
    let file = retry(|| rustix::fs::openat(&directory, name, flags, private))?;
    if is_sealed {
        return Ok(file);
    }
    if let Err(errno) = disinherit_file(&file) {
        let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
        return Err(errno);
    }
    Ok(file)
}

/// Removes an inherited ACL from a file that this process just created.
fn disinherit_file(file: &OwnedFd) -> Result<(), Errno> {
    if !has_list(file, ACCESS_LIST) {
        return Ok(());
    }
    remove_list(file, ACCESS_LIST)?;
    retry(|| rustix::fs::fchmod(file, Mode::RUSR | Mode::WUSR))
}

/// Removes inherited ACLs from a directory that this process just created. Returns whether there were any.
pub(crate) fn disinherit(directory: impl AsFd) -> Result<bool, Errno> {
    // A directory that inherits an access ACL also inherits a default one.
    if !has_list(&directory, DEFAULT_LIST) {
        return Ok(false);
    }
    remove_list(&directory, DEFAULT_LIST)?;
    remove_list(&directory, ACCESS_LIST)?;
    retry(|| rustix::fs::fchmod(&directory, Mode::RWXU))?;
    Ok(true)
}

/// Opens a private directory that this process just created, and removes inherited ACLs. One that belongs to another user or that others
/// may enter is not that directory: ESTALE. `own`: the owner of what this process makes there, if known.
pub(crate) fn open_private(
    above: impl AsFd,
    name: &CStr,
    own: Option<u32>,
    features: Features,
) -> Result<OwnedFd, Errno> {
    let (opened, found) = open_own(above, name, own, features)?;
    if !is_private(&found, own) {
        return Err(Errno::STALE);
    }
    let has_inherited = disinherit(&opened)?;
    let has_all_rights = found.mode & 0o700 == 0o700;
    if has_inherited || has_all_rights { Ok(opened) } else { Err(Errno::STALE) }
}

/// Opens a directory that this process has just made, which may have inherited something, and looks at it. One that belongs to another user
/// is not that directory: ESTALE.
pub(crate) fn open_own(
    above: impl AsFd,
    name: &CStr,
    own: Option<u32>,
    features: Features,
) -> Result<(OwnedFd, Metadata), Errno> {
    let opened = match sys::open_directory_at(&above, name) {
        // A default ACL can bar the owner, too.
        Err(Errno::ACCES) => {
            admit_owner(&above, name, own, features)?;
            sys::open_directory_at(&above, name)?
        }
        opened => opened?,
    };
    let found = sys::stat_descriptor(&opened)?;
    if own.is_none_or(|own| own == found.uid) { Ok((opened, found)) } else { Err(Errno::STALE) }
}

/// Gives the owner of a private directory all rights there.
pub(crate) fn admit_owner(
    above: impl AsFd,
    name: &CStr,
    own: Option<u32>,
    features: Features,
) -> Result<(), Errno> {
    let named = sys::open_name_at(above, name)?;
    let found = sys::stat_descriptor(&named)?;
    if !is_private(&found, own) {
        return Err(Errno::ACCES);
    }
    at::set_mode(&named, Mode::RWXU, features)
}

fn is_private(found: &Metadata, own: Option<u32>) -> bool {
    found.kind() == Kind::Directory && found.mode & 0o077 == 0 && own.is_none_or(|own| own == found.uid)
}

/// Whether it may have an ACL. Only ENODATA and EOPNOTSUPP mean that it has none.
fn has_list(of: impl AsFd, name: &CStr) -> bool {
    let mut nothing = [0_u8; 0];
    let asked = retry(|| rustix::fs::fgetxattr(&of, name, &mut nothing[..]));
    !matches!(asked, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// Removes an ACL, if there is one.
pub(crate) fn remove_list(from: impl AsFd, name: &CStr) -> Result<(), Errno> {
    match retry(|| rustix::fs::fremovexattr(&from, name)) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno),
    }
}
