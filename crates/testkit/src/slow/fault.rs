//! One rule for faults, in its command-line form: `write:*.dat:ENOSPC:after=1048576`. Parses and prints rules; `faults.rs` applies them.

use std::fmt;
use std::str::FromStr;

use rustix::io::Errno;

use super::operation::Operation;

/// The effect of a rule on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request fails with this error number and has no effect.
    Error(i32),
    /// The request is served, but answered with this error number: as if the first answer was lost and the request sent again.
    Done(i32),
    /// The request waits this many milliseconds, then continues with the next rule.
    Delay(u64),
    /// The request waits until this many requests wait, then continues with the next rule. It fails (ETIMEDOUT) if too few arrive.
    Together(u64),
    /// A read or a write transfers at most this many bytes.
    Short(u32),
    /// The reported size is this many bytes, regardless of the real one.
    Size(u64),
    /// A read returns all bytes requested: the file has no end.
    Endless,
    /// One bit of the data read or written is flipped, and no error is reported.
    Flip,
    /// A write succeeds, but its data is discarded.
    Lose,
    /// Before the request is served, a byte is appended to the file.
    Grow,
    /// Before it is served, the second half of the file is cut off.
    Cut,
    /// Before the request is served, the first byte of the file changes, and the modification time is restored.
    Rewrite,
    /// Before the request is served, the entry's name is removed.
    Vanish,
    /// Before it is served, the entry is replaced by a FIFO.
    Fifo,
    /// Before it is served, the entry is replaced by a directory.
    Directory,
    /// Before it is served, the entry is replaced by a symlink to `/etc/passwd`.
    Link,
    /// A directory lists each name twice.
    Twice,
    /// The process that sent the request is killed.
    Kill,
}

const EFFECTS: [(&str, Effect); 12] = [
    ("endless", Effect::Endless),
    ("flip", Effect::Flip),
    ("lose", Effect::Lose),
    ("grow", Effect::Grow),
    ("cut", Effect::Cut),
    ("rewrite", Effect::Rewrite),
    ("vanish", Effect::Vanish),
    ("fifo", Effect::Fifo),
    ("directory", Effect::Directory),
    ("link", Effect::Link),
    ("twice", Effect::Twice),
    ("kill", Effect::Kill),
];

/// The errors that a fault accepts by name; others are given by number.
const ERRORS: [(&str, Errno); 33] = [
    ("EACCES", Errno::ACCESS),
    ("EAGAIN", Errno::AGAIN),
    ("EBUSY", Errno::BUSY),
    ("EDQUOT", Errno::DQUOT),
    ("EEXIST", Errno::EXIST),
    ("EFBIG", Errno::FBIG),
    ("EHOSTDOWN", Errno::HOSTDOWN),
    ("EINTR", Errno::INTR),
    ("EINVAL", Errno::INVAL),
    ("EIO", Errno::IO),
    ("ELOOP", Errno::LOOP),
    ("EMFILE", Errno::MFILE),
    ("EMLINK", Errno::MLINK),
    ("ENAMETOOLONG", Errno::NAMETOOLONG),
    ("ENFILE", Errno::NFILE),
    ("ENODEV", Errno::NODEV),
    ("ENOENT", Errno::NOENT),
    ("ENOMEM", Errno::NOMEM),
    ("ENOSPC", Errno::NOSPC),
    ("ENOSYS", Errno::NOSYS),
    ("ENOTCONN", Errno::NOTCONN),
    ("ENOTDIR", Errno::NOTDIR),
    ("ENOTEMPTY", Errno::NOTEMPTY),
    ("ENXIO", Errno::NXIO),
    ("EOPNOTSUPP", Errno::OPNOTSUPP),
    ("EPERM", Errno::PERM),
    ("ERANGE", Errno::RANGE),
    ("EREMOTEIO", Errno::REMOTEIO),
    ("EROFS", Errno::ROFS),
    ("ESTALE", Errno::STALE),
    ("ETIMEDOUT", Errno::TIMEDOUT),
    ("ETXTBSY", Errno::TXTBSY),
    ("EXDEV", Errno::XDEV),
];

/// One rule: operations on matching names have this effect, under these conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The operations it applies to; empty: every operation.
    pub operations: Vec<Operation>,
    /// A name, in which `*` stands for any number of characters and `?` for one; or, if there is a slash in it, a path below the
    /// root. The root is called `.`.
    pub pattern: String,
    /// The effect.
    pub effect: Effect,
    /// Number of matching requests to skip first.
    pub skip: u64,
    /// Number of later requests that have the effect. None: all.
    pub times: Option<u64>,
    /// The rule applies only once this many bytes have been written to the file system. A write that would exceed this is cut there.
    pub after: u64,
    /// The rule applies only once the owner of the mount has armed it.
    pub is_armed: bool,
    /// The percentage of requests that have the effect, chosen by the seed.
    pub percent: u64,
}

impl Fault {
    fn new(operations: &str, pattern: &str, effect: Effect) -> Result<Self, String> {
        let operations = match operations {
            "any" => Vec::new(),
            names => names.split(',').map(str::parse).collect::<Result<_, _>>()?,
        };
        let pattern = pattern.to_owned();
        Ok(Self {
            operations,
            pattern,
            effect,
            skip: 0,
            times: None,
            after: 0,
            is_armed: false,
            percent: 100,
        })
    }

    fn set(&mut self, condition: &str) -> Result<(), String> {
        if condition == "armed" {
            self.is_armed = true;
            return Ok(());
        }
        let wrong =
            || format!("condition '{condition}': skip, times, after or percent, and a number; or armed");
        let (name, value) = condition.split_once('=').ok_or_else(wrong)?;
        let value: u64 = value.parse().map_err(|_| wrong())?;
        match name {
            "skip" => self.skip = value,
            "times" => self.times = Some(value),
            "after" => self.after = value,
            "percent" if value <= 100 => self.percent = value,
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

fn effect(text: &str) -> Result<Effect, String> {
    if let Some((_, effect)) = EFFECTS.iter().find(|(name, _)| *name == text) {
        return Ok(*effect);
    }
    if let Some(errno) = error(text) {
        return Ok(Effect::Error(errno));
    }
    let wrong = || format!("unknown error or effect '{text}'");
    match text.split_once('=') {
        Some(("delay", milliseconds)) => milliseconds.parse().map(Effect::Delay).map_err(|_| wrong()),
        Some(("together", requests)) => requests.parse().map(Effect::Together).map_err(|_| wrong()),
        Some(("done", name)) => error(name).map(Effect::Done).ok_or_else(wrong),
        Some(("size", bytes)) => bytes.parse().map(Effect::Size).map_err(|_| wrong()),
        Some(("short", bytes)) => match bytes.parse() {
            Ok(0) | Err(_) => Err(wrong()),
            Ok(bytes) => Ok(Effect::Short(bytes)),
        },
        _ => Err(wrong()),
    }
}

/// An error by its name or its number.
fn error(text: &str) -> Option<i32> {
    let named = ERRORS.iter().find(|(name, _)| *name == text).map(|(_, errno)| errno.raw_os_error());
    named.or_else(|| text.parse().ok().filter(|errno| (1..4096).contains(errno)))
}

/// `OPERATION,..:PATTERN:EFFECT:CONDITION..`, as in `opendir:d0001:ESTALE`, `write:*:short=1`, `fsync:a/*:5:skip=2:times=1`.
impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let mut parts = text.split(':');
            let mut part = |what: &str| parts.next().ok_or_else(|| format!("no {what}"));
            let (operations, pattern) = (part("operation")?, part("pattern")?);
            let mut fault = Self::new(operations, pattern, effect(part("error or effect")?)?)?;
            parts.try_for_each(|condition| fault.set(condition))?;
            Ok(fault)
        };
        parse().map_err(|wrong: String| format!("fault '{text}': {wrong}"))
    }
}

/// The form that [`Fault::from_str`] parses.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operations: Vec<_> = self.operations.iter().map(|operation| operation.name()).collect();
        let operations = if operations.is_empty() { "any".to_owned() } else { operations.join(",") };
        write!(f, "{operations}:{}:", self.pattern)?;
        match self.effect {
            Effect::Error(errno) => write!(f, "{errno}")?,
            Effect::Done(errno) => write!(f, "done={errno}")?,
            Effect::Together(requests) => write!(f, "together={requests}")?,
            Effect::Delay(milliseconds) => write!(f, "delay={milliseconds}")?,
            Effect::Short(bytes) => write!(f, "short={bytes}")?,
            Effect::Size(bytes) => write!(f, "size={bytes}")?,
            other => {
                let found = EFFECTS.iter().find(|(_, effect)| *effect == other);
                write!(f, "{}", found.map_or("?", |(name, _)| *name))?;
            }
        }
        write!(f, ":skip={}", self.skip)?;
        if let Some(times) = self.times {
            write!(f, ":times={times}")?;
        }
        write!(
            f,
            ":after={}:percent={}{}",
            self.after,
            self.percent,
            if self.is_armed { ":armed" } else { "" }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_written() {
        for rule in [
            "opendir:d00*:ESTALE",
            "any:*:flip:percent=3",
            "read,write:a/*:short=1:skip=2:times=1",
            "write:*:ENOSPC:after=1048576",
            "fsync:x:delay=5:armed",
            "read:x:kill",
            "lookup,stat:x:size=0",
            "read:x:endless",
            "read:x:133",
            "rename:*:done=ENOENT:times=1",
            "fsync:*:together=8",
        ] {
            let fault: Fault = rule.parse().unwrap();
            assert_eq!(fault.to_string().parse(), Ok(fault), "{rule}");
        }
        let fault: Fault = "opendir,open:d00*:ESTALE:times=2".parse().unwrap();
        assert_eq!((fault.effect, fault.times, fault.skip), (Effect::Error(116), Some(2), 0));
        assert_eq!(fault.operations, [Operation::Opendir, Operation::Open]);
    }

    #[test]
    fn rules_that_say_nothing_are_refused() {
        for wrong in [
            "",
            "open",
            "open:x",
            "open:x:E",
            "close:x:EIO",
            "stat:x:0",
            "stat:x:-5",
            "stat:x:",
            "read:x:short=0",
            "read:x:flip:often=1",
            "read:x:flip:times",
            "read:x:EIO:percent=101",
            "open:x=EIO",
            "open:x:done=E",
            "open:x:together",
        ] {
            assert!(wrong.parse::<Fault>().is_err(), "{wrong}");
        }
    }
}
