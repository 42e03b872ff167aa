//! Renames a file, also from one file system to another.
//!
//! Within one file system a rename is one call. Across file systems it is the state machine that the thesis on PXFS, the
//! ParalleX file system (Snyder, 2013), draws for `rename` (figures 3.5 and 3.6): look up the old directory, look up the new
//! one, rename; the error of each step selects the next state. Here the kernel's `renameat2` comes first, and the exchange
//! between the two directories is a copy.
//!
//! ```text
//!  Start ─▶ Renaming ── done ──────────────────────────────────────────────────────────────▶ end
//!              │ EXDEV
//!              ▼
//!          OpeningOld ─▶ OpeningNew ─▶ LookingOld ─▶ LookingNew ── the same file ───────────▶ end
//!                                                    file │  │ link
//!                        OpeningFile ◀────────────────────┘  └──────────▶ ReadingLink
//!                             ▼                                               ▼
//!                        LookingFile ─▶ Creating ─▶ Carrying ─▶ Closing    Linking ─▶ Owning ─▶ SettingTimes
//!                                                                  │                              │
//!                                   end ◀─ Removing ◀─ Syncing ◀─ Replacing ◀─ Checking ◀─────────┘
//! ```
//!
//! | state | step | if it fails |
//! | --- | --- | --- |
//! | Renaming | `renameat2` | `EXDEV`: continue with OpeningOld; else returned |
//! | OpeningOld, OpeningNew | `open` of both directories | returned |
//! | LookingOld | `statx` of the old name | returned; neither a file nor a link: `EXDEV` |
//! | LookingNew | `statx` of the new name | missing: continue; a directory: `EISDIR`; exists with `RENAME_NOREPLACE`: `EEXIST` |
//! | OpeningFile, LookingFile | `open` and `statx` of the file | returned; replaced meanwhile: `EBUSY` |
//! | Creating, Linking | create a temporary file or link in the new directory | name taken: try another; else returned |
//! | Carrying | copy data and attributes, see the list below | returned |
//! | Closing | `close` of the temporary file | returned |
//! | ReadingLink | `readlink` | returned |
//! | Owning, SettingTimes | set owner and times of the link | owner not permitted: continue; else returned |
//! | Checking | `statx` of the old name again | changed meanwhile: `EBUSY` |
//! | Replacing | `renameat2` of the temporary file | returned |
//! | Syncing | `fsync` of the new directory | `EINVAL`: continue; else returned; **both names exist** |
//! | Removing | `unlink` of the old name | returned; **both names exist** |
//!
//! Before Replacing no other process sees a change, even after a failure or a stop. After it a stop is too late. Replacing
//! destroys the file that had the new name before; that cannot be undone.
//!
//! Copied: data (holes are filled where the kernel does not keep them), owner if permitted, mode, times, extended attributes
//! `user.*` and access control lists. Not copied: other hard links, labels, capabilities, file flags. A write to the old file
//! between Checking and Removing is lost, as with `mv`. Links are followed only in the paths of the directories. The new
//! directory must be readable, so that it can be made durable before the old name is removed.

use std::ffi::CString;

use atta_entry::Errno;

use super::carry::{Carry, has_owner, times};
use super::directories::kind;
use super::names::{self, Temporary};
use super::{Held, Next, Opened, Steps, stat};
use crate::{Buffer, Op, Outcome, Place, Sync, Work};

/// The longest target of a link in any kernel (`PATH_MAX`).
const TARGET_BYTES: usize = 4096;

const BUSY: Errno = Errno(libc::EBUSY);

enum State {
    Start,
    Renaming,
    OpeningOld,
    OpeningNew,
    LookingOld,
    LookingNew,
    OpeningFile,
    LookingFile(Opened),
    Creating(Opened),
    Carrying(Box<Carry>, Opened),
    Closing,
    ReadingLink,
    Linking(CString),
    Owning,
    SettingTimes,
    Checking,
    Replacing,
    Syncing,
    Removing,
}

/// A name in an open directory.
struct Name {
    directory: Opened,
    name: CString,
}

impl Name {
    fn place(&self, held: &Held) -> Place {
        Place { dir: held.fd(self.directory), path: self.name.clone() }
    }
}

struct Rename {
    state: State,
    from: Place,
    to: Place,
    flags: u32,
    /// The old name, once its directory is open.
    old: Option<Name>,
    new: Option<Name>,
    temporary: Temporary,
    /// The metadata of the file that has the old name.
    found: Box<libc::statx>,
}

/// Renames: result 0. Across file systems only `RENAME_NOREPLACE` is supported of the flags of `renameat2`; other flags, and
/// anything but a regular file or a link, result in `EXDEV`.
#[must_use]
pub fn rename(from: Place, to: Place, flags: u32) -> Work {
    super::work(steps(from, to, flags))
}

pub(super) fn steps(from: Place, to: Place, flags: u32) -> impl Steps + 'static {
    let (temporary, found) = (Temporary::new(), stat::empty());
    Rename { state: State::Start, from, to, flags, old: None, new: None, temporary, found }
}

/// The identity and version of a file: device, inode, size, and time of the last change.
fn version(stat: &libc::statx) -> ([u32; 2], u64, u64, (i64, u32)) {
    let device = [stat.stx_dev_major, stat.stx_dev_minor];
    (device, stat.stx_ino, stat.stx_size, (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec))
}

fn is_same_file(one: &libc::statx, other: &libc::statx) -> bool {
    let (one, other) = (version(one), version(other));
    (one.0, one.1) == (other.0, other.1)
}

fn look(place: Place) -> Next {
    let (flags, mask) = (libc::AT_SYMLINK_NOFOLLOW, libc::STATX_BASIC_STATS);
    Next::Do(Op::Stat { place, flags, mask, out: stat::empty() })
}

/// The metadata that `look` returned.
fn seen(op: Op, outcome: Outcome) -> Result<Box<libc::statx>, Errno> {
    outcome?;
    match op {
        Op::Stat { out, .. } => Ok(out),
        _ => Err(Errno::IO),
    }
}

impl Rename {
    fn old_place(&self, held: &Held) -> Place {
        place(self.old.as_ref(), held)
    }

    fn new_place(&self, held: &Held) -> Place {
        place(self.new.as_ref(), held)
    }

    /// The temporary file, in the new directory.
    fn temporary(&self, held: &Held) -> Place {
        self.temporary.place(self.new_place(held).dir)
    }

    /// Enters a state with its step.
    fn go(&mut self, state: State, next: Next) -> Result<Next, Errno> {
        self.state = state;
        Ok(next)
    }

    fn start(&mut self) -> Result<Next, Errno> {
        let (from, to) = (self.from.clone(), self.to.clone());
        let op = Op::Rename { from, to, flags: self.flags };
        self.go(State::Renaming, Next::Commit(op))
    }

    /// After the kernel's `renameat2`.
    fn open_old(&mut self, outcome: Outcome) -> Result<Next, Errno> {
        match outcome {
            Err(Errno::XDEV) if self.flags & !libc::RENAME_NOREPLACE == 0 => {}
            outcome => return outcome.map(|_| Next::End(0)),
        }
        let (place, _) = names::split(&self.from).ok_or(Errno::XDEV)?;
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        self.go(State::OpeningOld, Next::Do(Op::Open { place, flags, mode: 0 }))
    }

    fn open_new(&mut self, value: u64, held: &mut Held) -> Result<Next, Errno> {
        let directory = held.opened(value);
        self.old = names::split(&self.from).map(|(_, name)| Name { directory, name });
        let (place, _) = names::split(&self.to).ok_or(Errno::XDEV)?;
        // An `O_PATH` descriptor cannot be synced, so this one is opened for reading.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        self.go(State::OpeningNew, Next::Do(Op::Open { place, flags, mode: 0 }))
    }

    fn look_at_old(&mut self, value: u64, held: &mut Held) -> Result<Next, Errno> {
        let directory = held.opened(value);
        self.new = names::split(&self.to).map(|(_, name)| Name { directory, name });
        let next = look(self.old_place(held));
        self.go(State::LookingOld, next)
    }

    fn look_at_new(&mut self, found: Box<libc::statx>, held: &Held) -> Result<Next, Errno> {
        if !matches!(kind(&found), libc::S_IFREG | libc::S_IFLNK) {
            return Err(Errno::XDEV);
        }
        self.found = found;
        let next = look(self.new_place(held));
        self.go(State::LookingNew, next)
    }

    /// After the `statx` of the new name.
    fn take_up(&mut self, op: Op, outcome: Outcome, held: &Held) -> Result<Next, Errno> {
        match seen(op, outcome) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
            Ok(_) if self.flags & libc::RENAME_NOREPLACE != 0 => return Err(Errno(libc::EEXIST)),
            // By POSIX, two names of one file stay as they are. Through two mounts of one directory both names may even be the
            // same entry: removing the old name would remove the file.
            Ok(other) if is_same_file(&other, &self.found) => return Ok(Next::End(0)),
            Ok(other) if kind(&other) == libc::S_IFDIR => return Err(Errno(libc::EISDIR)),
            Ok(_) => {}
        }
        let place = self.old_place(held);
        if kind(&self.found) == libc::S_IFLNK {
            let buffer = Buffer::zeroed(TARGET_BYTES);
            return self.go(State::ReadingLink, Next::Do(Op::ReadLink { place, buffer }));
        }
        let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
        self.go(State::OpeningFile, Next::Do(Op::Open { place, flags, mode: 0 }))
    }

    fn look_at_file(&mut self, value: u64, held: &mut Held) -> Result<Next, Errno> {
        let file = held.opened(value);
        self.go(State::LookingFile(file), look(Place::file(held.fd(file))))
    }

    fn create(&mut self, file: Opened, held: &Held) -> Result<Next, Errno> {
        // No other user may open the file before it has its final mode.
        let op = names::create(self.temporary(held), 0o600);
        self.go(State::Creating(file), Next::Do(op))
    }

    fn link(&mut self, target: CString, held: &Held) -> Result<Next, Errno> {
        let op = Op::Symlink { target: target.clone(), place: self.temporary(held) };
        self.go(State::Linking(target), Next::Do(op))
    }

    /// The temporary file or link could not be created: decides whether to try another name.
    fn another(&mut self, errno: Errno, held: &mut Held) -> Result<(), Errno> {
        if errno.0 != libc::EEXIST {
            // A server may have created it despite the error. No other process uses this name.
            held.made(self.temporary(held));
        }
        self.temporary.after(errno)
    }

    fn carry(&mut self, file: Opened, value: u64, held: &mut Held) -> Result<Next, Errno> {
        held.made(self.temporary(held));
        let made = held.opened_to_write(value);
        let mut carry = Box::new(Carry::new(file, made, self.found.clone(), held));
        let next = carry.step(Op::Nop, Ok(0), held)?;
        self.go(State::Carrying(carry, made), next)
    }

    fn set_owner(&mut self, held: &mut Held) -> Result<Next, Errno> {
        held.made(self.temporary(held));
        let (owner, group, place) = (self.found.stx_uid, self.found.stx_gid, self.temporary(held));
        let op = Op::SetOwner { place, owner, group, flags: libc::AT_SYMLINK_NOFOLLOW };
        self.go(State::Owning, Next::Do(op))
    }

    fn set_times(&mut self, held: &Held) -> Result<Next, Errno> {
        let (place, times) = (self.temporary(held), times(&self.found));
        let op = Op::SetTimes { place, times, flags: libc::AT_SYMLINK_NOFOLLOW };
        self.go(State::SettingTimes, Next::Do(op))
    }

    fn check(&mut self, held: &Held) -> Result<Next, Errno> {
        let next = look(self.old_place(held));
        self.go(State::Checking, next)
    }

    fn replace(&mut self, now: &libc::statx, held: &Held) -> Result<Next, Errno> {
        if version(now) != version(&self.found) {
            return Err(BUSY);
        }
        let (from, to, flags) = (self.temporary(held), self.new_place(held), self.flags);
        self.go(State::Replacing, Next::Commit(Op::Rename { from, to, flags }))
    }

    fn sync(&mut self, held: &mut Held) -> Result<Next, Errno> {
        held.settled();
        let (fd, what) = (self.new_place(held).dir, Sync::All);
        self.go(State::Syncing, Next::Finish(Op::Sync { fd, what }))
    }

    fn remove(&mut self, held: &Held) -> Result<Next, Errno> {
        let place = self.old_place(held);
        self.go(State::Removing, Next::Finish(Op::Unlink { place, flags: 0 }))
    }
}

/// The place of a name; before it is known, a place that does not exist.
fn place(name: Option<&Name>, held: &Held) -> Place {
    name.map_or_else(|| Place::at(crate::Fd::Raw(-1), CString::default()), |name| name.place(held))
}

/// The target of a link.
fn target(op: Op, outcome: Outcome) -> Result<CString, Errno> {
    let bytes = outcome? as usize;
    let buffer = op.into_buffer().unwrap_or_default();
    if bytes == TARGET_BYTES {
        return Err(Errno(libc::ENAMETOOLONG));
    }
    let target = buffer.as_slice().get(..bytes).unwrap_or_default();
    CString::new(target).map_err(|_| Errno::INVAL)
}

impl Steps for Rename {
    fn step(&mut self, op: Op, outcome: Outcome, held: &mut Held) -> Result<Next, Errno> {
        match &mut self.state {
            State::Start => self.start(),
            State::Renaming => self.open_old(outcome),
            State::OpeningOld => self.open_new(outcome?, held),
            State::OpeningNew => self.look_at_old(outcome?, held),
            State::LookingOld => self.look_at_new(seen(op, outcome)?, held),
            State::LookingNew => self.take_up(op, outcome, held),
            State::OpeningFile => self.look_at_file(outcome?, held),
            State::LookingFile(file) => {
                let (file, now) = (*file, seen(op, outcome)?);
                if version(&now) != version(&self.found) {
                    return Err(BUSY);
                }
                self.create(file, held)
            }
            State::Creating(file) => match (*file, outcome) {
                (file, Ok(value)) => self.carry(file, value, held),
                (file, Err(errno)) => {
                    self.another(errno, held)?;
                    self.create(file, held)
                }
            },
            State::Carrying(carry, made) => match (carry.step(op, outcome, held)?, *made) {
                // The old state shares the descriptors. `go` drops it before the close.
                (Next::End(_), made) => self.go(State::Closing, Next::Close(made)),
                (next, _) => Ok(next),
            },
            State::Closing | State::SettingTimes => outcome.and_then(|_| self.check(held)),
            State::ReadingLink => self.link(target(op, outcome)?, held),
            State::Linking(target) => match (std::mem::take(target), outcome) {
                (_, Ok(_)) => self.set_owner(held),
                (target, Err(errno)) => {
                    self.another(errno, held)?;
                    self.link(target, held)
                }
            },
            State::Owning => has_owner(outcome).and_then(|_| self.set_times(held)),
            State::Checking => self.replace(&*seen(op, outcome)?, held),
            State::Replacing => outcome.and_then(|_| self.sync(held)),
            // Some file systems cannot sync directories.
            State::Syncing => match outcome {
                Ok(_) | Err(Errno::INVAL) => self.remove(held),
                Err(errno) => Err(errno),
            },
            State::Removing => outcome.map(|_| Next::End(0)),
        }
    }
}
