//! A name changed, also from one file system to another.
//!
//! Within one file system it is one call. From one to another it is the walk of states that the thesis on PXFS, the ParalleX file
//! system (Snyder, 2013), draws for `rename` (figures 3.5 and 3.6): look up the old directory, look up the new one, rename, and the
//! error of each step decides where it goes. Here the kernel's `renameat2` stands first, and what the two directories then have to
//! agree on is a copy.
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
//! | Renaming | `renameat2` | `EXDEV`: on with OpeningOld; else told |
//! | OpeningOld, OpeningNew | `open` of both directories | told |
//! | LookingOld | `statx` of the name | told; neither file nor link: `EXDEV` |
//! | LookingNew | `statx` of the other name | missing is fine; a directory: `EISDIR`; must not be there: `EEXIST` |
//! | OpeningFile, LookingFile | `open` and `statx` of the file | told; swapped meanwhile: `EBUSY` |
//! | Creating, Linking | a temporary file or link in the new directory | another name if it is taken; else told |
//! | Carrying | bytes and attributes, see the list below | told |
//! | Closing | `close` of the temporary file | told |
//! | ReadingLink | `readlink` | told |
//! | Owning, SettingTimes | owner and times of the link | who may not give it away goes on; else told |
//! | Checking | `statx` of the old name again | changed meanwhile: `EBUSY` |
//! | Replacing | `renameat2` of the temporary file | told |
//! | Syncing | `fsync` of the new directory | told; **both names are there** |
//! | Removing | `unlink` of the old name | told; **both names are there** |
//!
//! Up to Replacing nothing has changed for anybody, whatever fails or stops it. After it a stop is too late. What the new name stood
//! for before is gone then: that cannot be undone.
//!
//! Carried over: bytes (holes are filled where the kernel does not keep them), owner if allowed, mode, times, extended attributes
//! `user.*` and access control lists. Not carried over: other hard links, labels, capabilities, file flags. Between Checking and
//! Removing somebody may still write to the old file: that is lost, as by `mv`. No link is followed but in the paths of the directories.
//! The new directory must be readable, so that it can be made durable before the old name goes.

use std::ffi::CString;

use atta_entry::Errno;

use super::carry::{Carry, has_owner, times};
use super::directories::kind;
use super::names::{self, Temporary};
use super::{Held, Next, Opened, Steps, stat};
use crate::{Buffer, Op, Outcome, Place, Sync, Work};

/// Longer targets no kernel makes (`PATH_MAX`).
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
    /// What the old name stands for.
    found: Box<libc::statx>,
}

/// Renames: result 0. Of the flags of `renameat2`, `RENAME_NOREPLACE` also works from one file system to another; with others,
/// and for what is neither a regular file nor a link, that is `EXDEV`.
#[must_use]
pub fn rename(from: Place, to: Place, flags: u32) -> Work {
    super::work(steps(from, to, flags))
}

pub(super) fn steps(from: Place, to: Place, flags: u32) -> impl Steps + 'static {
    let (temporary, found) = (Temporary::new(), stat::empty());
    Rename { state: State::Start, from, to, flags, old: None, new: None, temporary, found }
}

/// A file as it was: which one, and when it was last changed.
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

/// What a look has found.
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

    /// On to a state by a step.
    fn go(&mut self, state: State, next: Next) -> Result<Next, Errno> {
        self.state = state;
        Ok(next)
    }

    fn start(&mut self) -> Result<Next, Errno> {
        let (from, to) = (self.from.clone(), self.to.clone());
        let op = Op::Rename { from, to, flags: self.flags };
        self.go(State::Renaming, Next::Commit(op))
    }

    /// After the kernel's word.
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
        // To be made durable, it must be open in earnest.
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

    /// After the look at the new name.
    fn take_up(&mut self, op: Op, outcome: Outcome, held: &Held) -> Result<Next, Errno> {
        match seen(op, outcome) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
            Ok(_) if self.flags & libc::RENAME_NOREPLACE != 0 => return Err(Errno(libc::EEXIST)),
            // One file under two names stays as it is, by POSIX. Through two mounts of one directory the names may even be one:
            // whoever removed the old one would remove the file.
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
        // Nobody else may open it before it has its mode.
        let op = names::create(self.temporary(held), 0o600);
        self.go(State::Creating(file), Next::Do(op))
    }

    fn link(&mut self, target: CString, held: &Held) -> Result<Next, Errno> {
        let op = Op::Symlink { target: target.clone(), place: self.temporary(held) };
        self.go(State::Linking(target), Next::Do(op))
    }

    /// The temporary file or link could not be made: whether to try another name.
    fn another(&mut self, errno: Errno, held: &mut Held) -> Result<(), Errno> {
        if errno.0 != libc::EEXIST {
            // A server may have made it all the same. Nobody else has this name.
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

/// A name as a place; before it is known, one that does not exist.
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
                // The parts that it copies between share the descriptors.
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
            // There are file systems that do not know how to.
            State::Syncing => match outcome {
                Ok(_) | Err(Errno::INVAL) => self.remove(held),
                Err(errno) => Err(errno),
            },
            State::Removing => outcome.map(|_| Next::End(0)),
        }
    }
}
