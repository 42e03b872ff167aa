//! Error numbers of Linux, their names and messages. No I/O.
//!
//! The numbers are those of `asm-generic/errno.h`, which x86, Arm, RISC-V, POWER (except for `EDEADLOCK`) and s390 share.

use std::fmt;

use crate::{Class, Code};

/// An error number as a system call returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const PERM: Self = Self(1);
    /// No such file or directory.
    pub const NOENT: Self = Self(2);
    /// Interrupted by a signal.
    pub const INTR: Self = Self(4);
    /// Input/output error.
    pub const IO: Self = Self(5);
    /// No such device or address; also: an offset after the last byte.
    pub const NXIO: Self = Self(6);
    /// Argument list too long (`E2BIG`); here: too large for the file system.
    pub const TOOBIG: Self = Self(7);
    /// Bad file descriptor.
    pub const BADF: Self = Self(9);
    /// Resource temporarily unavailable; here also: a file that changes while it is read.
    pub const AGAIN: Self = Self(11);
    /// Cannot allocate memory.
    pub const NOMEM: Self = Self(12);
    /// Permission denied.
    pub const ACCES: Self = Self(13);
    /// Device or resource busy.
    pub const BUSY: Self = Self(16);
    /// File exists.
    pub const EXIST: Self = Self(17);
    /// Invalid cross-device link; here: a link that leads out of the tree.
    pub const XDEV: Self = Self(18);
    /// No such device.
    pub const NODEV: Self = Self(19);
    /// Not a directory.
    pub const NOTDIR: Self = Self(20);
    /// Is a directory.
    pub const ISDIR: Self = Self(21);
    /// Invalid argument.
    pub const INVAL: Self = Self(22);
    /// Too many open files in the system.
    pub const NFILE: Self = Self(23);
    /// Too many open files in this process.
    pub const MFILE: Self = Self(24);
    /// Inappropriate control operation for a device.
    pub const NOTTY: Self = Self(25);
    /// File too large; here also: a file without a size that does not end.
    pub const FBIG: Self = Self(27);
    /// No space left on device.
    pub const NOSPC: Self = Self(28);
    /// Read-only file system.
    pub const ROFS: Self = Self(30);
    /// Too many links.
    pub const MLINK: Self = Self(31);
    /// Result too large.
    pub const RANGE: Self = Self(34);
    /// File name too long.
    pub const NAMETOOLONG: Self = Self(36);
    /// No locks available.
    pub const NOLCK: Self = Self(37);
    /// Function not implemented.
    pub const NOSYS: Self = Self(38);
    /// Directory not empty.
    pub const NOTEMPTY: Self = Self(39);
    /// Too many levels of symbolic links; here also: a link to a directory above it.
    pub const LOOP: Self = Self(40);
    /// No data available; here: no such extended attribute.
    pub const NODATA: Self = Self(61);
    /// Invalid or incomplete multibyte or wide character.
    pub const ILSEQ: Self = Self(84);
    /// Operation not supported.
    pub const OPNOTSUPP: Self = Self(95);
    /// Network is down.
    pub const NETDOWN: Self = Self(100);
    /// Network is unreachable.
    pub const NETUNREACH: Self = Self(101);
    /// Network dropped connection on reset.
    pub const NETRESET: Self = Self(102);
    /// Software caused connection abort.
    pub const CONNABORTED: Self = Self(103);
    /// Connection reset by peer.
    pub const CONNRESET: Self = Self(104);
    /// Transport endpoint is not connected.
    pub const NOTCONN: Self = Self(107);
    /// Cannot send after transport endpoint shutdown.
    pub const SHUTDOWN: Self = Self(108);
    /// Connection timed out.
    pub const TIMEDOUT: Self = Self(110);
    /// Connection refused.
    pub const CONNREFUSED: Self = Self(111);
    /// Host is down.
    pub const HOSTDOWN: Self = Self(112);
    /// No route to host.
    pub const HOSTUNREACH: Self = Self(113);
    /// Stale file handle: the server no longer knows the file.
    pub const STALE: Self = Self(116);
    /// Structure needs cleaning.
    pub const UCLEAN: Self = Self(117);
    /// Remote I/O error.
    pub const REMOTEIO: Self = Self(121);
    /// Disk quota exceeded.
    pub const DQUOT: Self = Self(122);
    /// Key has expired.
    pub const KEYEXPIRED: Self = Self(127);
    /// Key has been revoked.
    pub const KEYREVOKED: Self = Self(128);
    /// Key was rejected by service.
    pub const KEYREJECTED: Self = Self(129);
    /// Canceled.
    pub const CANCELED: Self = Self(125);

    /// The symbolic name, as in `EACCES`; `None` for a number that Linux does not define.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        row(self.0).map(|(_, name, _)| name)
    }

    /// The error number with this symbolic name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|(_, each, _)| *each == name).map(|&(number, _, _)| Self(number))
    }

    /// Its message in lower case: `permission denied`.
    #[must_use]
    pub fn message(self) -> &'static str {
        row(self.0).map_or("unknown error", |(_, _, message)| message)
    }

    /// Whether this process, or the whole system, has too many files open (`EMFILE`, `ENFILE`).
    #[must_use]
    pub const fn is_too_many_open(self) -> bool {
        matches!(self, Self::NFILE | Self::MFILE)
    }

    /// Whether an entry is not there any more, or is of another kind: `ENOENT`, `ENOTDIR`, `ELOOP`. Trying again does not help.
    #[must_use]
    pub const fn is_of_vanished(self) -> bool {
        matches!(self, Self::NOENT | Self::NOTDIR | Self::LOOP)
    }

    /// The class of the error for a reader of the report.
    #[must_use]
    pub const fn class(self) -> Class {
        match self {
            // The name was read from its directory shortly before.
            Self::NOENT | Self::NOTDIR | Self::STALE => Class::Vanished,
            Self::PERM
            | Self::ACCES
            | Self::ROFS
            | Self::KEYEXPIRED
            | Self::KEYREVOKED
            | Self::KEYREJECTED => Class::Permission,
            Self::LOOP | Self::XDEV => Class::Link,
            Self::NAMETOOLONG | Self::ILSEQ => Class::Name,
            Self::IO
            | Self::NXIO
            | Self::NODEV
            | Self::UCLEAN
            | Self::REMOTEIO
            | Self::TIMEDOUT
            | Self::HOSTDOWN
            | Self::HOSTUNREACH
            | Self::NETDOWN
            | Self::NETUNREACH
            | Self::NETRESET
            | Self::CONNABORTED
            | Self::CONNRESET
            | Self::CONNREFUSED
            | Self::NOTCONN
            | Self::SHUTDOWN => Class::Io,
            Self::NOMEM | Self::NFILE | Self::MFILE | Self::NOSPC | Self::DQUOT => Class::Resource,
            _ => Class::Other,
        }
    }
}

/// `permission denied (EACCES)`.
impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match row(self.0) {
            Some((_, name, message)) => write!(f, "{message} ({name})"),
            None => write!(f, "unknown error (errno {})", self.0),
        }
    }
}

impl std::error::Error for Errno {}

impl Errno {
    /// The symbolic name, or `E` and the number if there is none: for tables and records.
    #[must_use]
    pub fn label(self) -> String {
        self.name().map_or_else(|| format!("E{}", self.0), str::to_owned)
    }
}

fn row(number: i32) -> Option<(i32, &'static str, &'static str)> {
    TABLE.binary_search_by_key(&number, |row| row.0).ok().map(|at| TABLE[at])
}

/// Number, name and message, in ascending order.
#[rustfmt::skip]
const TABLE: &[(i32, &str, &str)] = &[
    (1, "EPERM", "operation not permitted"),
    (2, "ENOENT", "no such file or directory"),
    (3, "ESRCH", "no such process"),
    (4, "EINTR", "interrupted system call"),
    (5, "EIO", "input/output error"),
    (6, "ENXIO", "no such device or address"),
    (7, "E2BIG", "argument list too long"),
    (8, "ENOEXEC", "exec format error"),
    (9, "EBADF", "bad file descriptor"),
    (10, "ECHILD", "no child processes"),
    (11, "EAGAIN", "resource temporarily unavailable"),
    (12, "ENOMEM", "cannot allocate memory"),
    (13, "EACCES", "permission denied"),
    (14, "EFAULT", "bad address"),
    (15, "ENOTBLK", "block device required"),
    (16, "EBUSY", "device or resource busy"),
    (17, "EEXIST", "file exists"),
    (18, "EXDEV", "invalid cross-device link"),
    (19, "ENODEV", "no such device"),
    (20, "ENOTDIR", "not a directory"),
    (21, "EISDIR", "is a directory"),
    (22, "EINVAL", "invalid argument"),
    (23, "ENFILE", "too many open files in system"),
    (24, "EMFILE", "too many open files"),
    (25, "ENOTTY", "inappropriate ioctl for device"),
    (26, "ETXTBSY", "text file busy"),
    (27, "EFBIG", "file too large"),
    (28, "ENOSPC", "no space left on device"),
    (29, "ESPIPE", "illegal seek"),
    (30, "EROFS", "read-only file system"),
    (31, "EMLINK", "too many links"),
    (32, "EPIPE", "broken pipe"),
    (33, "EDOM", "numerical argument out of domain"),
    (34, "ERANGE", "numerical result out of range"),
    (35, "EDEADLK", "resource deadlock avoided"),
    (36, "ENAMETOOLONG", "file name too long"),
    (37, "ENOLCK", "no locks available"),
    (38, "ENOSYS", "function not implemented"),
    (39, "ENOTEMPTY", "directory not empty"),
    (40, "ELOOP", "too many levels of symbolic links"),
    (42, "ENOMSG", "no message of desired type"),
    (43, "EIDRM", "identifier removed"),
    (44, "ECHRNG", "channel number out of range"),
    (45, "EL2NSYNC", "level 2 not synchronized"),
    (46, "EL3HLT", "level 3 halted"),
    (47, "EL3RST", "level 3 reset"),
    (48, "ELNRNG", "link number out of range"),
    (49, "EUNATCH", "protocol driver not attached"),
    (50, "ENOCSI", "no CSI structure available"),
    (51, "EL2HLT", "level 2 halted"),
    (52, "EBADE", "invalid exchange"),
    (53, "EBADR", "invalid request descriptor"),
    (54, "EXFULL", "exchange full"),
    (55, "ENOANO", "no anode"),
    (56, "EBADRQC", "invalid request code"),
    (57, "EBADSLT", "invalid slot"),
    (59, "EBFONT", "bad font file format"),
    (60, "ENOSTR", "device not a stream"),
    (61, "ENODATA", "no data available"),
    (62, "ETIME", "timer expired"),
    (63, "ENOSR", "out of streams resources"),
    (64, "ENONET", "machine is not on the network"),
    (65, "ENOPKG", "package not installed"),
    (66, "EREMOTE", "object is remote"),
    (67, "ENOLINK", "link has been severed"),
    (68, "EADV", "advertise error"),
    (69, "ESRMNT", "srmount error"),
    (70, "ECOMM", "communication error on send"),
    (71, "EPROTO", "protocol error"),
    (72, "EMULTIHOP", "multihop attempted"),
    (73, "EDOTDOT", "RFS specific error"),
    (74, "EBADMSG", "bad message"),
    (75, "EOVERFLOW", "value too large for defined data type"),
    (76, "ENOTUNIQ", "name not unique on network"),
    (77, "EBADFD", "file descriptor in bad state"),
    (78, "EREMCHG", "remote address changed"),
    (79, "ELIBACC", "can not access a needed shared library"),
    (80, "ELIBBAD", "accessing a corrupted shared library"),
    (81, "ELIBSCN", ".lib section in a.out corrupted"),
    (82, "ELIBMAX", "attempting to link in too many shared libraries"),
    (83, "ELIBEXEC", "cannot exec a shared library directly"),
    (84, "EILSEQ", "invalid or incomplete multibyte or wide character"),
    (85, "ERESTART", "interrupted system call should be restarted"),
    (86, "ESTRPIPE", "streams pipe error"),
    (87, "EUSERS", "too many users"),
    (88, "ENOTSOCK", "socket operation on non-socket"),
    (89, "EDESTADDRREQ", "destination address required"),
    (90, "EMSGSIZE", "message too long"),
    (91, "EPROTOTYPE", "protocol wrong type for socket"),
    (92, "ENOPROTOOPT", "protocol not available"),
    (93, "EPROTONOSUPPORT", "protocol not supported"),
    (94, "ESOCKTNOSUPPORT", "socket type not supported"),
    (95, "EOPNOTSUPP", "operation not supported"),
    (96, "EPFNOSUPPORT", "protocol family not supported"),
    (97, "EAFNOSUPPORT", "address family not supported by protocol"),
    (98, "EADDRINUSE", "address already in use"),
    (99, "EADDRNOTAVAIL", "cannot assign requested address"),
    (100, "ENETDOWN", "network is down"),
    (101, "ENETUNREACH", "network is unreachable"),
    (102, "ENETRESET", "network dropped connection on reset"),
    (103, "ECONNABORTED", "software caused connection abort"),
    (104, "ECONNRESET", "connection reset by peer"),
    (105, "ENOBUFS", "no buffer space available"),
    (106, "EISCONN", "transport endpoint is already connected"),
    (107, "ENOTCONN", "transport endpoint is not connected"),
    (108, "ESHUTDOWN", "cannot send after transport endpoint shutdown"),
    (109, "ETOOMANYREFS", "too many references: cannot splice"),
    (110, "ETIMEDOUT", "connection timed out"),
    (111, "ECONNREFUSED", "connection refused"),
    (112, "EHOSTDOWN", "host is down"),
    (113, "EHOSTUNREACH", "no route to host"),
    (114, "EALREADY", "operation already in progress"),
    (115, "EINPROGRESS", "operation now in progress"),
    (116, "ESTALE", "stale file handle"),
    (117, "EUCLEAN", "structure needs cleaning"),
    (118, "ENOTNAM", "not a XENIX named type file"),
    (119, "ENAVAIL", "no XENIX semaphores available"),
    (120, "EISNAM", "is a named type file"),
    (121, "EREMOTEIO", "remote I/O error"),
    (122, "EDQUOT", "disk quota exceeded"),
    (123, "ENOMEDIUM", "no medium found"),
    (124, "EMEDIUMTYPE", "wrong medium type"),
    (125, "ECANCELED", "operation canceled"),
    (126, "ENOKEY", "required key not available"),
    (127, "EKEYEXPIRED", "key has expired"),
    (128, "EKEYREVOKED", "key has been revoked"),
    (129, "EKEYREJECTED", "key was rejected by service"),
    (130, "EOWNERDEAD", "owner died"),
    (131, "ENOTRECOVERABLE", "state not recoverable"),
    (132, "ERFKILL", "operation not possible due to RF-kill"),
];

impl Code for Errno {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.cast_unsigned().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u32::decode(bytes).map(|number| Self(number.cast_signed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_ascends_and_goes_back_and_forth() {
        assert!(TABLE.is_sorted_by(|one, other| one.0 < other.0));
        for &(number, name, _) in TABLE {
            assert_eq!(Errno::from_name(name), Some(Errno(number)));
        }
    }

    #[test]
    fn what_a_user_reads() {
        assert_eq!(Errno(2).to_string(), "no such file or directory (ENOENT)");
        assert_eq!(Errno(9999).to_string(), "unknown error (errno 9999)");
        assert_eq!(Errno(9999).label(), "E9999");
        assert_eq!(Errno::STALE.class(), Class::Vanished);
    }
}
