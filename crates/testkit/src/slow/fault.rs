//! Which requests fail, and how: `open:d00*=ESTALE`. Chooses by operation and by name; counts nothing and forgets
//! nothing, so what fails once fails always.

use std::fmt;
use std::str::FromStr;

use rustix::io::Errno;

/// What a fault makes fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultedOperation {
    /// To find an entry by its name: nothing can be done with it, its attributes cannot be had either.
    Lookup,
    /// To read attributes. The entry can still be opened.
    Stat,
    /// To open a file or a directory.
    Open,
    /// To read a file, a symlink or a directory; of a directory a first part is read well.
    Read,
}

const OPERATIONS: [(&str, FaultedOperation); 4] = [
    ("lookup", FaultedOperation::Lookup),
    ("stat", FaultedOperation::Stat),
    ("open", FaultedOperation::Open),
    ("read", FaultedOperation::Read),
];

/// The errors that a fault can be told by name; others go by number.
const ERRORS: [(&str, Errno); 24] = [
    ("EACCES", Errno::ACCESS),
    ("EAGAIN", Errno::AGAIN),
    ("EBUSY", Errno::BUSY),
    ("EDQUOT", Errno::DQUOT),
    ("EHOSTDOWN", Errno::HOSTDOWN),
    ("EINTR", Errno::INTR),
    ("EINVAL", Errno::INVAL),
    ("EIO", Errno::IO),
    ("ELOOP", Errno::LOOP),
    ("EMFILE", Errno::MFILE),
    ("ENAMETOOLONG", Errno::NAMETOOLONG),
    ("ENFILE", Errno::NFILE),
    ("ENODEV", Errno::NODEV),
    ("ENOENT", Errno::NOENT),
    ("ENOMEM", Errno::NOMEM),
    ("ENOSPC", Errno::NOSPC),
    ("ENOTCONN", Errno::NOTCONN),
    ("ENOTDIR", Errno::NOTDIR),
    ("ENXIO", Errno::NXIO),
    ("EPERM", Errno::PERM),
    ("EREMOTEIO", Errno::REMOTEIO),
    ("EROFS", Errno::ROFS),
    ("ESTALE", Errno::STALE),
    ("ETIMEDOUT", Errno::TIMEDOUT),
];

/// One rule: an operation on every entry whose name matches fails with this error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What fails.
    pub operation: FaultedOperation,
    /// A name, in which `*` stands for any number of characters and `?` for one. The root is called `.`.
    pub pattern: String,
    /// The error number.
    pub errno: i32,
}

impl Fault {
    /// Whether this rule makes the operation fail on an entry of this name.
    #[must_use]
    pub fn hits(&self, operation: FaultedOperation, name: &str) -> bool {
        self.operation == operation && matches(self.pattern.as_bytes(), name.as_bytes())
    }
}

/// `OPERATION:PATTERN=ERRNO`, as in `stat:f0000007=EIO` or `read:d*=5`.
impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |part: &str| format!("fault '{text}': {part}");
        let (operation, rest) = text.split_once(':').ok_or_else(|| wrong("no operation"))?;
        let (pattern, error) = rest.rsplit_once('=').ok_or_else(|| wrong("no error"))?;
        let found = OPERATIONS.iter().find(|(name, _)| *name == operation);
        let &(_, operation) = found.ok_or_else(|| wrong("the operation is lookup, stat, open or read"))?;
        let named = ERRORS.iter().find(|(name, _)| *name == error);
        let errno = match named {
            Some((_, errno)) => errno.raw_os_error(),
            None => error.parse().map_err(|_| wrong("unknown error"))?,
        };
        if !(1..4096).contains(&errno) {
            return Err(wrong("no error has this number"));
        }
        Ok(Self { operation, pattern: pattern.to_owned(), errno })
    }
}

/// As [`Fault::from_str`] reads it.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = OPERATIONS.iter().find(|(_, each)| *each == self.operation);
        let operation = operation.map_or("?", |(name, _)| *name);
        write!(f, "{operation}:{}={}", self.pattern, self.errno)
    }
}

/// Goes back to the last `*` on a mismatch; that one is enough, because a later `*` can do all that an earlier can.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[seen] => {
                at += 1;
                seen += 1;
            }
            _ => match star {
                Some((star_at, star_seen)) => {
                    star = Some((star_at, star_seen + 1));
                    at = star_at + 1;
                    seen = star_seen + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("f0000001", "f0000001", true),
            ("f0000001", "f0000010", false),
            ("*", "", true),
            ("d*", "d0003", true),
            ("*3", "d0303", true),
            ("*03*3", "d0303", true),
            ("d??0?", "d0003", true),
            ("d??0?", "d000", false),
            ("*x", "d0003", false),
            ("", "d", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn rules_are_read_and_written() {
        let fault: Fault = "open:d00*=ESTALE".parse().unwrap();
        assert!(fault.hits(FaultedOperation::Open, "d0012"));
        assert!(!fault.hits(FaultedOperation::Read, "d0012"));
        assert_eq!((fault.errno, fault.to_string()), (116, "open:d00*=116".to_owned()));
        assert_eq!(fault.to_string().parse::<Fault>(), Ok(fault));
        for wrong in ["", "open", "open:x", "open:x=E", "close:x=EIO", "stat:x=0", "stat:x=-5", "stat:x="] {
            assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
        }
    }
}
