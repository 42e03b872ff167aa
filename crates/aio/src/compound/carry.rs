//! Copies a file to a new one on another file system: its data, owner, extended attributes, mode and times, made durable. A
//! part of [`rename`](super::rename); it opens and closes nothing.
//!
//! | state | step | if it fails |
//! | --- | --- | --- |
//! | Copying | copy the data, as [`copy`](super::copy) | returned |
//! | Owning | `fchown` | `EPERM`, `EINVAL`: continue, without the set-id bits; else returned |
//! | Listing | `flistxattr` | `EOPNOTSUPP`, `ENOSYS`: no attributes; else returned |
//! | Getting | `fgetxattr` of the next attribute | `ENODATA`: continue with the next; else returned |
//! | Setting | `fsetxattr`, then Getting | returned: no attribute is lost silently |
//! | SettingMode | `fchmod`, after the change of the owner, which clears set-id bits | returned |
//! | SettingTimes | `futimens`, after the copy, which changes the times | returned |
//! | Syncing | `fsync` | returned |

use std::ffi::{CStr, CString};

use atta_entry::Errno;

use super::copy::Copy;
use super::{Held, Next, Opened, Steps};
use crate::{Buffer, Op, Outcome, Place, Sync};

/// The kernel's maximum for a value and for a list of names (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const ATTRIBUTE_BYTES: usize = 64 << 10;

enum State {
    Copying,
    Owning,
    Listing,
    Getting,
    Setting,
    SettingMode,
    SettingTimes,
    Syncing,
}

pub(super) struct Carry {
    state: State,
    copy: Copy,
    from: Opened,
    to: Opened,
    stat: Box<libc::statx>,
    has_owner: bool,
    /// Attributes that remain to be copied.
    names: Vec<CString>,
}

/// Access and modification times, as `utimensat` takes them.
pub(super) fn times(stat: &libc::statx) -> Box<[libc::timespec; 2]> {
    let time =
        |time: libc::statx_timestamp| libc::timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec.into() };
    Box::new([time(stat.stx_atime), time(stat.stx_mtime)])
}

/// Whether the owner was set. Returns `false` if the process may not set it.
///
/// # Errors
/// The change of the owner failed for another reason.
pub(super) fn has_owner(outcome: Outcome) -> Result<bool, Errno> {
    match outcome {
        Ok(_) => Ok(true),
        Err(Errno(libc::EPERM | libc::EINVAL)) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Copies user attributes and access control lists. Labels and capabilities are left to the policy of the other file system.
fn is_carried(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"user.") || name == c"system.posix_acl_access"
}

fn carried(list: &[u8]) -> Vec<CString> {
    let names =
        list.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok());
    names.filter(|name| is_carried(name)).map(CStr::to_owned).collect()
}

impl Carry {
    /// Copies from one open file to another; `stat` is that of the source.
    pub(super) fn new(from: Opened, to: Opened, stat: Box<libc::statx>, held: &Held) -> Self {
        let copy = Copy::new(held.fd(from), 0, held.fd(to), 0, u64::MAX);
        Self { state: State::Copying, copy, from, to, stat, has_owner: true, names: Vec::new() }
    }

    fn set_owner(&mut self, held: &Held) -> Next {
        self.state = State::Owning;
        let (owner, group) = (self.stat.stx_uid, self.stat.stx_gid);
        Next::Do(Op::SetOwner { place: Place::file(held.fd(self.to)), owner, group, flags: 0 })
    }

    fn list(&mut self, held: &Held) -> Next {
        self.state = State::Listing;
        let buffer = Buffer::zeroed(ATTRIBUTE_BYTES);
        Next::Do(Op::ListAttributes { place: Place::file(held.fd(self.from)), buffer, flags: 0 })
    }

    /// Gets the next attribute, or continues with the mode after the last one.
    fn get(&mut self, held: &Held) -> Next {
        let Some(name) = self.names.last().cloned() else { return self.set_mode(held) };
        self.state = State::Getting;
        let buffer = Buffer::zeroed(ATTRIBUTE_BYTES);
        Next::Do(Op::GetAttribute {
            place: Box::new(Place::file(held.fd(self.from))),
            name,
            buffer,
            flags: 0,
        })
    }

    fn set(&mut self, mut value: Buffer, bytes: u64, held: &Held) -> Next {
        let Some(name) = self.names.pop() else { return self.set_mode(held) };
        self.state = State::Setting;
        value.show(0..bytes as usize);
        Next::Do(Op::SetAttribute {
            place: Box::new(Place::file(held.fd(self.to))),
            name,
            value,
            create: 0,
            flags: 0,
        })
    }

    fn set_mode(&mut self, held: &Held) -> Next {
        self.state = State::SettingMode;
        // With another owner, the set-id bits would grant that user's rights.
        let kept = if self.has_owner { 0o7777 } else { 0o1777 };
        let mode = u32::from(self.stat.stx_mode) & kept;
        Next::Do(Op::SetMode { place: Place::file(held.fd(self.to)), mode })
    }

    fn set_times(&mut self, held: &Held) -> Next {
        self.state = State::SettingTimes;
        Next::Do(Op::SetTimes { place: Place::file(held.fd(self.to)), times: times(&self.stat), flags: 0 })
    }
}

impl Steps for Carry {
    fn step(&mut self, op: Op, outcome: Outcome, held: &mut Held) -> Result<Next, Errno> {
        match self.state {
            State::Copying => match self.copy.step(op, outcome, held)? {
                Next::End(_) => Ok(self.set_owner(held)),
                next => Ok(next),
            },
            State::Owning => {
                self.has_owner = has_owner(outcome)?;
                Ok(self.list(held))
            }
            State::Listing => {
                match (outcome, op.into_buffer()) {
                    (Ok(bytes), Some(list)) => self.names = carried(&list.as_slice()[..bytes as usize]),
                    (Err(Errno(libc::EOPNOTSUPP | libc::ENOSYS)), _) => {}
                    (outcome, _) => drop(outcome?),
                }
                Ok(self.get(held))
            }
            State::Getting => match (outcome, op.into_buffer()) {
                (Ok(bytes), Some(value)) => Ok(self.set(value, bytes, held)),
                (Err(errno), _) if errno.0 != libc::ENODATA => Err(errno),
                _ => {
                    self.names.pop();
                    Ok(self.get(held))
                }
            },
            State::Setting => outcome.map(|_| self.get(held)),
            State::SettingMode => outcome.map(|_| self.set_times(held)),
            State::SettingTimes => {
                outcome?;
                self.state = State::Syncing;
                Ok(Next::Do(Op::Sync { fd: held.fd(self.to), what: Sync::All }))
            }
            State::Syncing => outcome.map(|_| Next::End(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_carried_over() {
        let list = b"user.a\0security.selinux\0system.posix_acl_access\0user.\0trusted.x\0cut";
        assert_eq!(carried(list), [c"user.a", c"system.posix_acl_access", c"user."]);
        assert!(carried(b"").is_empty());
    }
}
