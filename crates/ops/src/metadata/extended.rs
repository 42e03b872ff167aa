//! Extended attributes: names, values, and which of them matter. They are read and set through a descriptor or by name. It does not
//! handle other metadata.

use std::ffi::{CStr, CString};

use atta_entry::Errno;
use rustix::fd::BorrowedFd;
use rustix::fs::XattrFlags;

use super::keep::{self, Keep, is_of_system};
use super::not_kept::NotKept;
use crate::file::error::{FileError, Step};
use atta_sys::at::NameAt;
use atta_sys::retry;

/// Extended attributes: names and values, in the source's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extended(Vec<(CString, Vec<u8>)>);

/// An entry that may have extended attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Holder<'a> {
    /// An open file.
    Open(BorrowedFd<'a>),
    /// A name that is neither followed nor opened.
    Named(NameAt<'a>),
}

impl Holder<'_> {
    fn list(self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Open(fd) => rustix::fs::flistxattr(fd, buffer),
            Self::Named(at) => at.list(buffer),
        }
    }

    fn get(self, name: &CStr, value: &mut [u8]) -> rustix::io::Result<usize> {
        match self {
            Self::Open(fd) => rustix::fs::fgetxattr(fd, name, value),
            Self::Named(at) => at.get(name, value),
        }
    }

    fn set(self, name: &CStr, value: &[u8]) -> rustix::io::Result<()> {
        match self {
            Self::Open(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Self::Named(at) => at.set(name, value),
        }
    }
}

/// Whether a copy keeps an extended attribute.
pub(crate) fn is_copied(name: &CStr) -> bool {
    let name = name.to_bytes();
    let is_root = rustix::process::geteuid().is_root();
    !name.starts_with(b"lustre.") && (is_root || !name.starts_with(b"trusted."))
}

/// Initial buffer size for names of extended attributes, mostly enough.
const NAMES_BYTES: usize = 256;
/// At least the kernel's limit for a list and for a value.
const EXTENDED_MOST: usize = 64 << 10;
pub(super) const ACCESS_LIST: &CStr = c"system.posix_acl_access";

impl Extended {
    /// Reads the attributes of a file, open or not.
    pub(crate) fn read_from(
        holder: Holder<'_>,
        buffer: &mut Vec<u8>,
        wanted: impl Fn(&CStr) -> bool,
        not_kept: &mut NotKept,
    ) -> Result<Self, Errno> {
        let (names, are_all) = match list(holder, buffer)? {
            Listed::None => return Ok(Self::default()),
            Listed::Names(length) => (&buffer[..length], true),
            // Attributes for permissions are requested by name. Without them the mode would grant too much.
            Listed::TooLong => (RIGHTS, false),
        };
        not_kept.extended += u64::from(!are_all);
        let mut found = Vec::new();
        let mut value = Vec::new();
        for name in names.split_inclusive(|byte| *byte == 0) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            if !wanted(name) {
                continue;
            }
            value.resize(EXTENDED_MOST, 0);
            match retry(|| holder.get(name, &mut value)) {
                Ok(bytes) => found.push((name.to_owned(), value[..bytes].to_vec())),
                // It was removed meanwhile.
                Err(Errno::NODATA) => {}
                // It is listed but cannot be read.
                Err(Errno::PERM | Errno::ACCES | Errno::OPNOTSUPP) => not_kept.extended += u64::from(are_all),
                Err(errno) => return Err(errno),
            }
        }
        Ok(Self(found))
    }

    /// Returns the sorted names that a copy lacks or has with another value, and its extra ones. Extra names of the system do not count.
    pub(crate) fn differing(&self, copy: &Self) -> Vec<Vec<u8>> {
        let alone = |one: &Self, other: &Self| {
            let own = one.0.iter().filter(|pair| !other.0.contains(pair));
            own.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let mut names: Vec<_> = alone(self, copy).into_iter().map(CString::into_bytes).collect();
        let extra = alone(copy, self).into_iter().filter(|name| !is_of_system(name));
        names.extend(extra.map(CString::into_bytes));
        names.sort();
        names.dedup();
        names
    }

    pub(crate) fn access_list(&self) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| name.as_c_str() == ACCESS_LIST).map(|(_, value)| value.as_slice())
    }

    /// All names and values.
    pub(crate) fn pairs(&self) -> &[(CString, Vec<u8>)] {
        &self.0
    }

    /// Returns the selected attributes.
    pub(crate) fn select(&self, is_wanted: impl Fn(&(CString, Vec<u8>)) -> bool) -> Self {
        Self(self.0.iter().filter(|pair| is_wanted(pair)).cloned().collect())
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the attributes on a copy. Returns whether the access list, if there is one, was set.
    pub(crate) fn give(
        &self,
        copy: Holder<'_>,
        keep: &Keep,
        not_kept: &mut NotKept,
    ) -> Result<bool, FileError> {
        let mut has_list = false;
        let given = self.0.iter().filter(|(name, _)| keep.gives(name));
        // ACLs come last: they may deny writes even to the owner, which other attributes need.
        let (lists, others): (Vec<_>, Vec<_>) = given.partition(|(name, _)| keep::is_list(name.to_bytes()));
        for (name, value) in others.into_iter().chain(lists) {
            match retry(|| copy.set(name, value)) {
                Ok(()) => has_list |= name.as_c_str() == ACCESS_LIST,
                Err(errno) if CANNOT_HAVE.contains(&errno) => not_kept.extended += 1,
                // Before Linux 6.13 and without /proc, no call reaches the entry just created.
                Err(Errno::NOENT) if matches!(copy, Holder::Named(_)) => not_kept.extended += 1,
                Err(errno) => return Err(FileError::new(Step::SetExtended, errno)),
            }
        }
        Ok(has_list)
    }
}

/// Whether an attribute is the POSIX access ACL.
pub(crate) fn is_access_list(name: &CStr) -> bool {
    name == ACCESS_LIST
}

/// Errors if the file system does not support an attribute, has no space for it, or denies this user to set it.
const CANNOT_HAVE: [Errno; 7] =
    [Errno::OPNOTSUPP, Errno::PERM, Errno::ACCES, Errno::INVAL, Errno::TOOBIG, Errno::NOSPC, Errno::RANGE];
/// Attributes that control permissions, as a list of names.
const RIGHTS: &[u8] =
    b"system.posix_acl_access\0system.posix_acl_default\0system.nfs4_acl\0security.capability\0";

/// Result of listing names.
enum Listed {
    /// There are none, or the file system has no such thing.
    None,
    /// This many bytes of names.
    Names(usize),
    /// The list exceeds 64 KiB: the kernel returns none of it.
    TooLong,
}

/// Reads the list of names into `buffer`.
fn list(holder: Holder<'_>, buffer: &mut Vec<u8>) -> Result<Listed, Errno> {
    if buffer.is_empty() {
        buffer.resize(NAMES_BYTES, 0);
    }
    loop {
        match retry(|| holder.list(buffer)) {
            Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Listed::None),
            Ok(length) => return Ok(Listed::Names(length)),
            Err(Errno::TOOBIG) => return Ok(Listed::TooLong),
            Err(Errno::RANGE) if buffer.len() < EXTENDED_MOST => buffer.resize(EXTENDED_MOST, 0),
            Err(errno) => return Err(errno),
        }
    }
}
