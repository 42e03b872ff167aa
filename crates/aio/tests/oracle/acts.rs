//! Random acts, their operations, and the outcome of an operation in the model's terms. The model decides what is right.

use std::ffi::CString;
use std::os::fd::RawFd;

use atta_aio::{At, Buffer, Done, Fd, Op, Place, Sync, Vectors};
use atta_testkit::random::Random;

use crate::model::{Act, Seen, What};

/// The maximum number of open files.
pub const SLOTS: usize = 3;
const NAMES: [&str; 9] = ["a", "b", "c", "d", "e", "d/a", "d/b", "e/a", "e/d"];
const ATTRIBUTES: [&str; 2] = ["user.one", "user.two"];
const FLAGS: [i32; 6] =
    [0, libc::O_CREAT, libc::O_CREAT, libc::O_CREAT | libc::O_EXCL, libc::O_TRUNC, libc::O_APPEND];
/// A descriptor number that is never open.
const NONE: RawFd = 999_999;

fn name(random: &mut Random) -> String {
    (*random.pick(&NAMES)).to_owned()
}

fn what(random: &mut Random) -> What {
    match random.below(3) {
        0 => What::Slot(random.index(SLOTS)),
        other => What::Name(name(random), other == 1),
    }
}

/// A name whose symlink is followed.
fn followed(random: &mut Random) -> What {
    match what(random) {
        What::Name(name, _) => What::Name(name, true),
        slot => slot,
    }
}

fn bytes(random: &mut Random) -> Vec<u8> {
    let most = if random.chance(5) { 9000 } else { 40 };
    (0..=random.below(most)).map(|_| random.draw() as u8).collect()
}

fn at(random: &mut Random) -> Option<u64> {
    random.chance(60).then(|| random.below(60))
}

/// An act on open files.
fn data(random: &mut Random, slot: usize) -> Act {
    let parts = if random.chance(30) { 1 + random.index(3) } else { 1 };
    match random.below(16) {
        0..=3 => {
            let lengths = (0..parts).map(|_| 1 + random.index(50)).collect();
            Act::Read { slot, lengths, at: at(random) }
        }
        4..=8 => Act::Write { slot, parts: (0..parts).map(|_| bytes(random)).collect(), at: at(random) },
        9 => Act::Seek {
            slot,
            offset: random.below(60) as i64 - 20,
            whence: *random.pick(&[libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END]),
        },
        10 => Act::Truncate { slot, bytes: random.below(100) },
        11 => {
            let keeps = libc::FALLOC_FL_KEEP_SIZE;
            let mode = *random.pick(&[0, keeps, keeps | libc::FALLOC_FL_PUNCH_HOLE]);
            Act::Allocate { slot, mode, offset: random.below(50), bytes: 1 + random.below(50) }
        }
        12 | 13 => Act::Copy {
            from: slot,
            start: random.below(60),
            to: random.index(SLOTS),
            target: random.below(60),
            bytes: 1 + random.index(60),
        },
        14 => Act::Sync { slot, data_alone: random.chance(50) },
        _ => match random.below(3) {
            0 => Act::SyncRange { slot },
            1 => Act::Advise { slot },
            _ => Act::ReadDirectory { slot },
        },
    }
}

/// An act on names.
fn names(random: &mut Random) -> Act {
    let (one, other) = (name(random), name(random));
    match random.below(10) {
        0..=2 => Act::Rename {
            from: one,
            to: other,
            flags: *random.pick(&[0, 0, libc::RENAME_NOREPLACE, libc::RENAME_EXCHANGE]),
        },
        3 => Act::Unlink { name: one, is_directory: false },
        4 => Act::Unlink { name: one, is_directory: true },
        5 | 6 => Act::MakeDirectory { name: if random.chance(70) { "d".to_owned() } else { one } },
        7 => Act::Symlink { target: (*random.pick(&["a", "b", "d", "none"])).to_owned(), name: one },
        8 => Act::Link { from: one, to: other },
        _ => Act::ReadLink { name: one, room: 1 + random.index(5) },
    }
}

fn attributes(random: &mut Random, extended: bool) -> Act {
    let name = *random.pick(&ATTRIBUTES);
    match random.below(if extended { 12 } else { 8 }) {
        0..=2 => Act::Stat { what: what(random) },
        3 => Act::StatFs { what: followed(random) },
        4 => Act::SetMode { what: followed(random), mode: *random.pick(&[0o700, 0o755, 0o644 | 0o100]) },
        5 => Act::SetOwner { what: what(random) },
        6 => Act::SetTimes { what: what(random), seconds: 1_000_000 + random.below(1000) as i64 },
        7 => {
            Act::Access { what: followed(random), mode: *random.pick(&[libc::F_OK, libc::R_OK, libc::X_OK]) }
        }
        8 => Act::GetAttribute { what: what(random), name, room: random.index(8) },
        9 => {
            let value = (0..=random.below(5)).map(|_| random.draw() as u8).collect();
            let create = *random.pick(&[0, 0, libc::XATTR_CREATE, libc::XATTR_REPLACE]);
            Act::SetAttribute { what: what(random), name, value, create }
        }
        10 => Act::ListAttributes { what: what(random) },
        _ => Act::RemoveAttribute { what: what(random), name },
    }
}

/// Any act.
pub fn draw(random: &mut Random, extended: bool) -> Act {
    let slot = random.index(SLOTS);
    match random.below(100) {
        0..=17 => {
            let mut flags = *random.pick(&FLAGS)
                | *random.pick(&[libc::O_RDWR, libc::O_RDWR, libc::O_RDONLY, libc::O_WRONLY]);
            if flags & libc::O_CREAT == 0 && random.chance(20) {
                flags = libc::O_DIRECTORY;
            }
            if random.chance(10) {
                flags |= libc::O_NOFOLLOW;
            }
            Act::Open { name: name(random), slot, flags, mode: *random.pick(&[0o600, 0o644, 0o755]) }
        }
        18..=24 => Act::Close { slot },
        25..=64 => data(random, slot),
        65..=82 => names(random),
        83..=98 => attributes(random, extended),
        _ => Act::Nop,
    }
}

/// The place of acts: a directory, and the open file of each slot.
#[derive(Debug)]
pub struct Site {
    pub base: String,
    pub open: [Option<RawFd>; SLOTS],
}

impl Site {
    fn fd(&self, slot: usize) -> Fd {
        Fd::Raw(self.open[slot].unwrap_or(NONE))
    }

    pub fn name(&self, name: &str) -> Place {
        Place::path(CString::new(format!("{}/{name}", self.base)).unwrap())
    }

    fn place(&self, what: &What) -> (Place, i32) {
        match what {
            What::Name(name, follow) => {
                (self.name(name), if *follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW })
            }
            What::Slot(slot) => (Place::file(self.fd(*slot)), 0),
        }
    }

    /// The operation of an act.
    pub fn op(&self, act: &Act) -> Op {
        match act {
            Act::Nop => Op::Nop,
            Act::Open { name, flags, mode, .. } => {
                Op::Open { place: self.name(name), flags: flags | libc::O_CLOEXEC, mode: *mode }
            }
            Act::Close { slot } => Op::Close { fd: self.fd(*slot).raw() },
            Act::Stat { .. }
            | Act::StatFs { .. }
            | Act::SetMode { .. }
            | Act::SetOwner { .. }
            | Act::SetTimes { .. }
            | Act::GetAttribute { .. }
            | Act::SetAttribute { .. }
            | Act::ListAttributes { .. }
            | Act::RemoveAttribute { .. }
            | Act::Access { .. } => self.attribute_op(act),
            Act::Rename { from, to, flags } => {
                Op::Rename { from: self.name(from), to: self.name(to), flags: *flags }
            }
            Act::Unlink { name, is_directory } => Op::Unlink {
                place: self.name(name),
                flags: if *is_directory { libc::AT_REMOVEDIR } else { 0 },
            },
            Act::MakeDirectory { name } => Op::MakeDirectory { place: self.name(name), mode: 0o755 },
            Act::Symlink { target, name } => {
                Op::Symlink { target: CString::new(target.as_str()).unwrap(), place: self.name(name) }
            }
            Act::Link { from, to } => Op::Link { from: self.name(from), to: self.name(to), flags: 0 },
            Act::ReadLink { name, room } => {
                Op::ReadLink { place: self.name(name), buffer: Buffer::zeroed(*room) }
            }
            _ => self.data_op(act),
        }
    }

    fn data_op(&self, act: &Act) -> Op {
        let place = |at: &Option<u64>| at.map_or(At::Position, At::Offset);
        match act {
            Act::Read { slot, lengths, at } if lengths.len() == 1 => {
                Op::Read { fd: self.fd(*slot), buffer: Buffer::zeroed(lengths[0]), at: place(at) }
            }
            Act::Read { slot, lengths, at } => {
                let vectors = Vectors::new(lengths.iter().map(|bytes| Buffer::zeroed(*bytes)).collect());
                Op::ReadVectors { fd: self.fd(*slot), vectors, at: place(at) }
            }
            Act::Write { slot, parts, at } if parts.len() == 1 => {
                Op::Write { fd: self.fd(*slot), buffer: parts[0].clone().into(), at: place(at) }
            }
            Act::Write { slot, parts, at } => {
                let vectors = Vectors::new(parts.iter().cloned().map(Buffer::from).collect());
                Op::WriteVectors { fd: self.fd(*slot), vectors, at: place(at) }
            }
            Act::Seek { slot, offset, whence } => {
                Op::Seek { fd: self.fd(*slot), offset: *offset, whence: *whence }
            }
            Act::Truncate { slot, bytes } => Op::Truncate { fd: self.fd(*slot), bytes: *bytes },
            Act::Allocate { slot, mode, offset, bytes } => {
                Op::Allocate { fd: self.fd(*slot), mode: *mode, offset: *offset, bytes: *bytes }
            }
            Act::Copy { from, start, to, target, bytes } => Op::CopyRange {
                from: self.fd(*from),
                from_offset: *start,
                to: self.fd(*to),
                to_offset: *target,
                bytes: *bytes,
            },
            Act::Sync { slot, data_alone } => {
                Op::Sync { fd: self.fd(*slot), what: if *data_alone { Sync::Data } else { Sync::All } }
            }
            Act::SyncRange { slot } => {
                Op::SyncRange { fd: self.fd(*slot), offset: 0, bytes: 0, flags: libc::SYNC_FILE_RANGE_WRITE }
            }
            Act::Advise { slot } => Op::Advise { fd: self.fd(*slot), offset: 0, bytes: 0, advice: 0 },
            Act::ReadDirectory { slot } => {
                Op::ReadDirectory { fd: self.fd(*slot), buffer: Buffer::zeroed(4096) }
            }
            _ => unreachable!("{act:?}"),
        }
    }

    fn attribute_op(&self, act: &Act) -> Op {
        let c = |name: &str| CString::new(name).unwrap();
        match act {
            Act::Stat { what } => {
                let (place, flags) = self.place(what);
                // SAFETY: a structure of numbers, for which zero is a value.
                let out = Box::new(unsafe { std::mem::zeroed() });
                Op::Stat { place, flags, mask: libc::STATX_BASIC_STATS, out }
            }
            Act::StatFs { what } => {
                // SAFETY: as above.
                Op::StatFs { place: self.place(what).0, out: Box::new(unsafe { std::mem::zeroed() }) }
            }
            Act::SetMode { what, mode } => Op::SetMode { place: self.place(what).0, mode: *mode },
            Act::SetOwner { what } => {
                let (place, flags) = self.place(what);
                Op::SetOwner { place, owner: u32::MAX, group: u32::MAX, flags }
            }
            Act::SetTimes { what, seconds } => {
                let (place, flags) = self.place(what);
                let time = libc::timespec { tv_sec: *seconds, tv_nsec: 5 };
                Op::SetTimes { place, times: Box::new([time; 2]), flags }
            }
            Act::Access { what, mode } => Op::Access { place: self.place(what).0, mode: *mode, flags: 0 },
            Act::GetAttribute { what, name, room } => {
                let (place, flags) = self.place(what);
                Op::GetAttribute {
                    place: Box::new(place),
                    name: c(name),
                    buffer: Buffer::zeroed(*room),
                    flags,
                }
            }
            Act::SetAttribute { what, name, value, create } => {
                let (place, flags) = self.place(what);
                let value = value.clone().into();
                Op::SetAttribute { place: Box::new(place), name: c(name), value, create: *create, flags }
            }
            Act::ListAttributes { what } => {
                let (place, flags) = self.place(what);
                Op::ListAttributes { place, buffer: Buffer::zeroed(1000), flags }
            }
            Act::RemoveAttribute { what, name } => {
                let (place, flags) = self.place(what);
                Op::RemoveAttribute { place, name: c(name), flags }
            }
            _ => unreachable!("{act:?}"),
        }
    }
}

/// The outcome of an operation in the model's terms, and a new descriptor. It asserts that the submitted buffers are returned.
pub fn seen(act: &Act, done: Done, may_be_given_up: bool) -> (Seen, Option<RawFd>) {
    let (outcome, op) = done.into_parts();
    let outcome = outcome.map_err(|errno| errno.0);
    let Some(op) = op else {
        assert!(may_be_given_up && outcome.is_err(), "{act:?} has not come back: {outcome:?}");
        return (Seen { outcome, bytes: Vec::new(), modified: None }, None);
    };
    let moved = outcome.unwrap_or_default() as usize;
    let mut seen = Seen { outcome, bytes: Vec::new(), modified: None };
    match (act, *op) {
        (Act::Open { .. }, Op::Open { .. }) => {
            seen.outcome = outcome.map(|_| 0);
            return (seen, outcome.ok().map(|fd| fd as RawFd));
        }
        (Act::Read { lengths, .. }, Op::Read { buffer, .. }) => {
            assert_eq!(buffer.len(), lengths[0]);
            seen.bytes = buffer.as_slice()[..moved].to_vec();
        }
        (Act::Read { lengths, .. }, Op::ReadVectors { vectors, .. }) => {
            let buffers = vectors.into_buffers();
            assert!(buffers.iter().map(Buffer::len).eq(lengths.iter().copied()));
            seen.bytes = buffers.iter().flat_map(Buffer::as_slice).take(moved).copied().collect();
        }
        (Act::Write { parts, .. }, Op::Write { buffer, .. }) => assert_eq!(buffer.into_vec(), parts[0]),
        (Act::Write { parts, .. }, Op::WriteVectors { vectors, .. }) => {
            assert!(vectors.buffers().iter().map(Buffer::as_slice).eq(parts.iter().map(Vec::as_slice)));
        }
        (Act::ReadLink { room, .. }, Op::ReadLink { buffer, .. }) => {
            assert_eq!(buffer.len(), *room);
            seen.bytes = buffer.as_slice()[..moved].to_vec();
        }
        (Act::GetAttribute { room, .. }, Op::GetAttribute { buffer, .. }) => {
            assert_eq!(buffer.len(), *room);
            seen.bytes = buffer.as_slice()[..moved.min(*room)].to_vec();
        }
        (Act::SetAttribute { value, .. }, Op::SetAttribute { value: came, .. }) => {
            assert_eq!(came.into_vec(), *value);
        }
        (Act::ListAttributes { .. }, Op::ListAttributes { buffer, .. }) => {
            // The system may have its own attributes.
            let listed = buffer.as_slice()[..moved].split_inclusive(|byte| *byte == 0);
            let mut names: Vec<_> = listed.filter(|name| name.starts_with(b"user.")).collect();
            names.sort();
            seen.bytes = names.concat();
            seen.outcome = outcome.map(|_| seen.bytes.len() as u64);
        }
        (Act::Stat { .. }, Op::Stat { out, .. }) if outcome.is_ok() => {
            (seen.bytes, seen.modified) = (stat(&out).into_bytes(), Some(out.stx_mtime.tv_sec));
        }
        (Act::ReadDirectory { .. }, Op::ReadDirectory { buffer, .. }) => assert_eq!(buffer.len(), 4096),
        _ => {}
    }
    (seen, None)
}

/// The result of the model's `stat`.
fn stat(stat: &libc::statx) -> String {
    let (size, links, mode) = (stat.stx_size, stat.stx_nlink, u32::from(stat.stx_mode) & 0o7777);
    match u32::from(stat.stx_mode) & libc::S_IFMT {
        libc::S_IFREG => format!("f {size} {links} {mode:o}"),
        libc::S_IFDIR => format!("d {mode:o}"),
        _ => format!("l {size} {links}"),
    }
}

/// The names in the result of `getdents64`, except the dots.
pub fn listed(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(length) = bytes.get(16..18) {
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let name = bytes[19..length].split(|byte| *byte == 0).next().unwrap();
        names.push(String::from_utf8(name.to_vec()).unwrap());
        bytes = &bytes[length..];
    }
    names.retain(|name| name != "." && name != "..");
    names
}
