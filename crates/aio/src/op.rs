//! An operation: its code and its arguments, owned until it has ended. Nothing is carried out here.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use crate::buffer::{Buffer, Vectors};

/// An open file, or the directory that a path starts from.
#[derive(Clone, Debug)]
pub enum Fd {
    /// A number that the caller keeps open until the operation has ended. A wrong number results in `EBADF`.
    Raw(RawFd),
    /// Kept open by the operation.
    Shared(Arc<OwnedFd>),
}

impl Fd {
    /// The working directory, for paths.
    pub const CWD: Self = Self::Raw(libc::AT_FDCWD);

    /// The descriptor number.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        match self {
            Self::Raw(fd) => *fd,
            Self::Shared(fd) => fd.as_raw_fd(),
        }
    }
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Self {
        Self::Shared(Arc::new(fd))
    }
}

impl From<&Arc<OwnedFd>> for Fd {
    fn from(fd: &Arc<OwnedFd>) -> Self {
        Self::Shared(Arc::clone(fd))
    }
}

/// A file by directory and path, or an open file with an empty path.
#[derive(Clone, Debug)]
pub struct Place {
    /// Where a relative path starts, or the file.
    pub dir: Fd,
    /// The path; bytes without NUL.
    pub path: CString,
}

impl Place {
    /// A path from the working directory.
    #[must_use]
    pub fn path(path: impl Into<CString>) -> Self {
        Self { dir: Fd::CWD, path: path.into() }
    }

    /// A path from a directory.
    #[must_use]
    pub fn at(dir: impl Into<Fd>, path: impl Into<CString>) -> Self {
        Self { dir: dir.into(), path: path.into() }
    }

    /// An open file.
    #[must_use]
    pub fn file(file: impl Into<Fd>) -> Self {
        Self { dir: file.into(), path: CString::default() }
    }

    /// Whether this is an open file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.path.is_empty()
    }

    /// The path.
    #[must_use]
    pub fn as_c_str(&self) -> &CStr {
        &self.path
    }
}

/// A location in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At this offset, in bytes.
    Offset(u64),
    /// At the kernel's file position of the descriptor, for pipes and sockets. Two such operations at the same time may get the
    /// same bytes; to use a position in a file, use those of [`Service`](crate::Service).
    Position,
}

/// The scope of an [`Op::Sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Data and all metadata: `fsync`.
    All,
    /// Data, and the metadata needed to find it again: `fdatasync`.
    Data,
}

/// An operation with its arguments. It includes the memory that the kernel writes to, and is returned at the end.
#[derive(Debug)]
#[expect(missing_docs, reason = "fields are named as in the manual pages of the calls")]
pub enum Op {
    /// Does nothing: result 0.
    Nop,
    /// `openat`: the new descriptor. It is close-on-exec if `flags` contains `O_CLOEXEC`.
    Open { place: Place, flags: i32, mode: u32 },
    /// `close`.
    Close { fd: RawFd },
    /// `pread` or `read`: bytes read; 0 at the end of the file.
    Read { fd: Fd, buffer: Buffer, at: At },
    /// `pwrite` or `write`: bytes written.
    Write { fd: Fd, buffer: Buffer, at: At },
    /// `preadv` or `readv`: bytes read.
    ReadVectors { fd: Fd, vectors: Vectors, at: At },
    /// `pwritev` or `writev`: bytes written.
    WriteVectors { fd: Fd, vectors: Vectors, at: At },
    /// `lseek`: the new position of the descriptor.
    Seek { fd: Fd, offset: i64, whence: i32 },
    /// `statx`. An empty path names the open file, regardless of `flags`.
    Stat { place: Place, flags: i32, mask: u32, out: Box<libc::statx> },
    /// `fstatfs`, or `statfs` of a path.
    StatFs { place: Place, out: Box<libc::statfs> },
    /// `fsync`, `fdatasync`.
    Sync { fd: Fd, what: Sync },
    /// `sync_file_range`: starts or awaits writing. It makes nothing durable by itself.
    SyncRange { fd: Fd, offset: u64, bytes: u64, flags: u32 },
    /// `fallocate`. It never shortens a file: `FALLOC_FL_COLLAPSE_RANGE` is refused with `EOPNOTSUPP`.
    Allocate { fd: Fd, mode: i32, offset: u64, bytes: u64 },
    /// `ftruncate`.
    Truncate { fd: Fd, bytes: u64 },
    /// `posix_fadvise`.
    Advise { fd: Fd, offset: u64, bytes: u64, advice: i32 },
    /// `renameat2`.
    Rename { from: Place, to: Place, flags: u32 },
    /// `unlinkat`; `rmdir` with `AT_REMOVEDIR`.
    Unlink { place: Place, flags: i32 },
    /// `mkdirat`.
    MakeDirectory { place: Place, mode: u32 },
    /// `symlinkat`: creates `place`, which points to `target`.
    Symlink { target: CString, place: Place },
    /// `linkat`.
    Link { from: Place, to: Place, flags: i32 },
    /// `readlinkat`: bytes of the target, truncated to the length of the buffer.
    ReadLink { place: Place, buffer: Buffer },
    /// `fchmod`, `fchmodat`.
    SetMode { place: Place, mode: u32 },
    /// `fchownat`: -1 leaves that ID unchanged.
    SetOwner { place: Place, owner: u32, group: u32, flags: i32 },
    /// `utimensat`: access and modification.
    SetTimes { place: Place, times: Box<[libc::timespec; 2]>, flags: i32 },
    /// `fgetxattr`, `getxattr`, `lgetxattr` with `AT_SYMLINK_NOFOLLOW`: bytes of the value; an empty buffer asks for the size.
    /// (The places of `GetAttribute` and `SetAttribute` are boxed, so that other operations, of which millions may exist, take
    /// less memory.)
    GetAttribute { place: Box<Place>, name: CString, buffer: Buffer, flags: i32 },
    /// `fsetxattr`, `setxattr`, `lsetxattr`; `create` is `XATTR_CREATE` or `XATTR_REPLACE`.
    SetAttribute { place: Box<Place>, name: CString, value: Buffer, create: i32, flags: i32 },
    /// `flistxattr`, `listxattr`, `llistxattr`: bytes of the names, each ended by NUL; an empty buffer asks for the size.
    ListAttributes { place: Place, buffer: Buffer, flags: i32 },
    /// `fremovexattr`, `removexattr`, `lremovexattr`.
    RemoveAttribute { place: Place, name: CString, flags: i32 },
    /// `faccessat2`.
    Access { place: Place, mode: i32, flags: i32 },
    /// `copy_file_range` at given offsets: bytes copied; 0 at the end of `from`.
    CopyRange { from: Fd, from_offset: u64, to: Fd, to_offset: u64, bytes: usize },
    /// `getdents64`: bytes of entries; 0 at the end of the directory.
    ReadDirectory { fd: Fd, buffer: Buffer },
}

impl Op {
    /// The name of the operation as users know it, for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nop => "nop",
            Self::Open { .. } => "open",
            Self::Close { .. } => "close",
            Self::Read { .. } => "read",
            Self::Write { .. } => "write",
            Self::ReadVectors { .. } => "readv",
            Self::WriteVectors { .. } => "writev",
            Self::Seek { .. } => "lseek",
            Self::Stat { .. } => "stat",
            Self::StatFs { .. } => "statfs",
            Self::Sync { what: Sync::All, .. } => "fsync",
            Self::Sync { what: Sync::Data, .. } => "fdatasync",
            Self::SyncRange { .. } => "sync_file_range",
            Self::Allocate { .. } => "fallocate",
            Self::Truncate { .. } => "ftruncate",
            Self::Advise { .. } => "fadvise",
            Self::Rename { .. } => "rename",
            Self::Unlink { .. } => "unlink",
            Self::MakeDirectory { .. } => "mkdir",
            Self::Symlink { .. } => "symlink",
            Self::Link { .. } => "link",
            Self::ReadLink { .. } => "readlink",
            Self::SetMode { .. } => "chmod",
            Self::SetOwner { .. } => "chown",
            Self::SetTimes { .. } => "utimens",
            Self::GetAttribute { .. } => "getxattr",
            Self::SetAttribute { .. } => "setxattr",
            Self::ListAttributes { .. } => "listxattr",
            Self::RemoveAttribute { .. } => "removexattr",
            Self::Access { .. } => "access",
            Self::CopyRange { .. } => "copy_file_range",
            Self::ReadDirectory { .. } => "readdir",
        }
    }

    /// Whether the operation uses memory that a caller lent.
    #[must_use]
    pub fn borrows(&self) -> bool {
        match self {
            Self::Read { buffer, .. }
            | Self::Write { buffer, .. }
            | Self::ReadLink { buffer, .. }
            | Self::GetAttribute { buffer, .. }
            | Self::SetAttribute { value: buffer, .. }
            | Self::ListAttributes { buffer, .. }
            | Self::ReadDirectory { buffer, .. } => buffer.is_foreign(),
            Self::ReadVectors { vectors, .. } | Self::WriteVectors { vectors, .. } => {
                vectors.buffers().iter().any(Buffer::is_foreign)
            }
            _ => false,
        }
    }

    /// Returns the buffer of the operation, if it has one.
    #[must_use]
    pub fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::Read { buffer, .. }
            | Self::Write { buffer, .. }
            | Self::ReadLink { buffer, .. }
            | Self::GetAttribute { buffer, .. }
            | Self::SetAttribute { value: buffer, .. }
            | Self::ListAttributes { buffer, .. }
            | Self::ReadDirectory { buffer, .. } => Some(buffer),
            _ => None,
        }
    }
}
