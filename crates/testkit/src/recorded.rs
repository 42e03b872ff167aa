//! What a power cut leaves: a file system on a disk that records its writes and flushes, and images of that disk as they may be after a
//! power cut at any time. It mounts and makes images; it does not know what must be in them. Needs root, FUSE and a loop device;
//! reports a lack of these as `mounts.rs` does.
//!
//! ```text
//!   mark     write 1  write 2   flush  write 3  write 4  write 5   flush
//!                                  └────────────┬────────────────────┘
//!                an image: 1 and 2, and any of 3, 4, 5, whole or in part (sectors are whole)
//! ```
//!
//! A flush keeps what was written before it began. So an image has all writes before a flush, and of the writes up to the next one a
//! random part. The order of those is kept where they overlap. A disk without a cache for writes, or one that reorders flushes, is not modelled.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Mode, SeekFrom, mkdirat};
use rustix::io::Errno;

use crate::mounts::{Mount, make_image, mount_image_with, require_root};
use crate::random::Random;
use crate::scratch::Scratch;
use crate::slow::SlowFs;
use crate::slow::record::{Event, Record, events};

/// A disk writes a sector or does not. With sectors of 512 bytes, ext4 loses its superblock, which has 1024, and XFS its directories: what a recovery
/// finds half written there, it refuses.
const SECTOR: u64 = 4096;
/// Room that images need, beside the disk itself.
const ROOM_BYTES: u64 = 2 << 30;

/// A file system on a disk that records. Dropping it unmounts all.
#[derive(Debug)]
pub struct RecordedDisk {
    // Dropped in this order.
    mount: Option<Mount>,
    disk: Option<SlowFs>,
    record: Record,
    kind: String,
    scratch: Scratch,
}

impl RecordedDisk {
    /// Makes a small file system of `kind` (`ext4`, `xfs` or `btrfs`) and mounts it. It discards nothing.
    ///
    /// # Errors
    /// Same as [`loop_image`](crate::mounts::loop_image) and [`Builder::mount`](crate::slow::Builder::mount).
    pub fn new(kind: &str) -> io::Result<Self> {
        require_root()?;
        let scratch = Scratch::below(&place()?, "recorded")?;
        for name in ["below", "mount"] {
            mkdirat(CWD, scratch.join(name), Mode::RWXU)?;
        }
        let disk = scratch.join("below/disk");
        make_image(kind, megabytes(kind), &disk)?;
        copy_sparse(&disk, &scratch.join("base"))?;
        let record = scratch.join("record");
        let builder = SlowFs::builder().latency(Duration::ZERO).threads(32).over(&scratch.join("below"));
        let disk = builder.record(&record).mount()?;
        let record = Record::open(&record)?;
        mount_image_with(&disk.path().join("disk"), &scratch.join("mount"), options(kind))?;
        let mount = Some(Mount::at(&scratch.join("mount")));
        Ok(Self { mount, disk: Some(disk), record, kind: kind.to_owned(), scratch })
    }

    /// The root of the file system.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.scratch.join("mount")
    }

    /// Notes that the test has come to a point: see [`Image::marks`].
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn mark(&self, name: &str) -> io::Result<()> {
        Ok(self.record.add(Event::Mark(name.to_owned()))?)
    }

    /// Unmounts, and ends the recording.
    ///
    /// # Errors
    /// The process that served the disk has failed, or the record cannot be read.
    pub fn finish(mut self) -> io::Result<Recording> {
        drop(self.mount.take());
        if let Some(disk) = self.disk.take() {
            disk.finish()?;
        }
        let events = events(&self.scratch.join("record"))?;
        let flushes = flushes(&events);
        Ok(Recording { events, flushes, kind: self.kind, scratch: self.scratch })
    }
}

/// What was done to a disk.
#[derive(Debug)]
pub struct Recording {
    events: Vec<Event>,
    /// Where the flushes are that have writes before them.
    flushes: Vec<usize>,
    kind: String,
    scratch: Scratch,
}

/// An image of the disk after a power cut.
#[derive(Debug)]
pub struct Image {
    /// Its number among those of the recording, and the flush after which the power was cut.
    pub number: usize,
    /// See `number`.
    pub flush: usize,
    /// None of the writes after the flush are in it.
    pub is_at_flush: bool,
    /// The points that the test had come to when the power was cut, in order.
    pub marks: Vec<String>,
    path: PathBuf,
    point: PathBuf,
    kind: String,
}

impl Recording {
    /// How many flushes it has that have something to keep.
    #[must_use]
    pub const fn flushes(&self) -> usize {
        self.flushes.len()
    }

    /// Images from the first mark on, about so many: some at flushes, some between. The recording can be used once, as the images take its
    /// first state.
    #[must_use]
    pub fn images(self, seed: u64, about: usize) -> Images {
        let first_mark = self.events.iter().position(|event| matches!(event, Event::Mark(_))).unwrap_or(0);
        let (recording, random) = (self, Random::new(seed));
        let next = recording.flushes.partition_point(|&flush| flush < first_mark).saturating_sub(1);
        let left = recording.flushes.len() - next;
        Images {
            recording,
            random,
            done: 0,
            flush: next,
            left_here: None,
            number: 0,
            about,
            flushes_in_all: left,
        }
    }
}

/// Makes one image after the other.
#[derive(Debug)]
pub struct Images {
    recording: Recording,
    random: Random,
    /// So many events are in the base.
    done: usize,
    /// The flush after which the next image is.
    flush: usize,
    /// Images to make after this flush, and whether none was made yet; none: not yet decided.
    left_here: Option<(usize, bool)>,
    number: usize,
    about: usize,
    flushes_in_all: usize,
}

impl Images {
    /// Makes the next image; none: there are no more. Each one replaces the one before, which must not be mounted any more.
    ///
    /// # Errors
    /// What writing the image came to.
    pub fn make_next(&mut self) -> io::Result<Option<Image>> {
        loop {
            let Some(&flush) = self.recording.flushes.get(self.flush) else { return Ok(None) };
            let end = self.recording.flushes.get(self.flush + 1).copied();
            let end = end.unwrap_or(self.recording.events.len());
            match self.left_here {
                None => {
                    self.advance(flush)?;
                    self.left_here = Some((self.share(), true));
                }
                Some((0, _)) => (self.flush, self.left_here) = (self.flush + 1, None),
                Some((left, is_first)) => {
                    self.left_here = Some((left - 1, false));
                    return self.make(flush, end, is_first).map(Some);
                }
            }
        }
    }

    /// How many images the flush has.
    fn share(&mut self) -> usize {
        let (about, flushes) = (self.about as u64, self.flushes_in_all.max(1) as u64);
        let more = usize::from(self.random.below(flushes) < about % flushes);
        self.about / self.flushes_in_all.max(1) + more
    }

    fn base(&self) -> PathBuf {
        self.recording.scratch.join("base")
    }

    /// Brings the base to this event.
    fn advance(&mut self, to: usize) -> io::Result<()> {
        let base = OpenOptions::new().write(true).open(self.base())?;
        for event in &self.recording.events[self.done..to] {
            apply(&base, event)?;
        }
        self.done = to;
        Ok(())
    }

    /// Makes an image of the base and some of the events from the flush to `end`.
    fn make(&mut self, flush: usize, end: usize, may_be_exact: bool) -> io::Result<Image> {
        let path = self.recording.scratch.join(format!("candidate{}", self.number));
        // Not the same file: a process with a copy of this mount namespace may keep the image before mounted for some time, and write to it.
        remove_if_there(&path)?;
        self.number += 1;
        let path = path.with_file_name(format!("candidate{}", self.number));
        copy_sparse(&self.base(), &path)?;
        // Where each flush has one image, half of these are exact.
        let is_at_flush = may_be_exact && (self.about > 2 * self.flushes_in_all || self.random.chance(50));
        if !is_at_flush {
            let file = OpenOptions::new().write(true).open(&path)?;
            let events = &self.recording.events[flush..end];
            let until = self.random.index(events.len() + 1);
            let share = *self.random.pick(&[10, 50, 80, 95, 100]);
            for event in &events[..until] {
                if self.random.chance(share) {
                    apply(&file, &torn(event, &mut self.random))?;
                }
            }
        }
        let marks = self.recording.events[..end].iter().filter_map(|event| match event {
            Event::Mark(name) => Some(name.clone()),
            _ => None,
        });
        Ok(Image {
            number: self.number,
            flush: self.flush,
            is_at_flush,
            marks: marks.collect(),
            path,
            point: self.recording.scratch.join("mount"),
            kind: self.recording.kind.clone(),
        })
    }
}

impl Image {
    /// Mounts it where the disk was, as a host does that is started again. Dropping the mount unmounts; the image stays changed.
    ///
    /// # Errors
    /// The file system does not take it.
    pub fn mount(&self) -> io::Result<Mount> {
        mount_image_with(&self.path, &self.point, options(&self.kind))?;
        Ok(Mount::at(&self.point))
    }

    /// Keeps a copy of it, for somebody to look at.
    ///
    /// # Errors
    /// What writing it came to.
    pub fn keep(&self, path: &Path) -> io::Result<()> {
        copy_sparse(&self.path, path)
    }
}

/// Where disks and images are: in memory if there is room, as each image is a copy.
fn place() -> io::Result<PathBuf> {
    let memory = Path::new("/dev/shm");
    let has_room =
        rustix::fs::statvfs(memory).is_ok_and(|found| found.f_bavail * found.f_frsize >= ROOM_BYTES);
    if has_room {
        return Ok(memory.to_path_buf());
    }
    std::path::absolute(std::env::var_os("TMPDIR").map_or_else(crate::target::directory, PathBuf::from))
}

fn megabytes(kind: &str) -> u64 {
    match kind {
        "xfs" => 320,
        "btrfs" => 512,
        _ => 64,
    }
}

/// Without the threads that fill a new file system with zeros and discard, which say nothing about a power cut. Two images of one
/// file system have one number.
fn options(kind: &str) -> &str {
    match kind {
        "xfs" => "loop,nouuid",
        "btrfs" => "loop,nodiscard",
        _ => "loop,noinit_itable",
    }
}

/// The flushes with writes since the one before.
fn flushes(events: &[Event]) -> Vec<usize> {
    let (mut found, mut is_new) = (Vec::new(), false);
    for (index, event) in events.iter().enumerate() {
        match event {
            Event::Sync if is_new => {
                found.push(index);
                is_new = false;
            }
            Event::Write(..) | Event::Clear(..) => is_new = true,
            Event::Sync | Event::Mark(_) => {}
        }
    }
    found
}

fn apply(file: &File, event: &Event) -> io::Result<()> {
    match event {
        Event::Write(offset, bytes) => file.write_all_at(bytes, *offset),
        Event::Clear(offset, length) => {
            let zeros = vec![0; usize::try_from(*length).map_err(io::Error::other)?];
            file.write_all_at(&zeros, *offset)
        }
        Event::Sync | Event::Mark(_) => Ok(()),
    }
}

/// One write in five has some of its sectors only: those before a random one, or those after it.
fn torn(event: &Event, random: &mut Random) -> Event {
    match event {
        Event::Write(offset, bytes) if random.chance(20) => {
            // Where sectors begin in it, but for its beginning.
            let first = SECTOR - offset % SECTOR;
            let sectors = (bytes.len() as u64).saturating_sub(first).div_ceil(SECTOR);
            if sectors == 0 {
                return event.clone();
            }
            let at = first + SECTOR * random.below(sectors);
            let (first, rest) = bytes.split_at(usize::try_from(at).unwrap_or(bytes.len()));
            if random.chance(70) {
                Event::Write(*offset, first.to_vec())
            } else {
                Event::Write(offset + at, rest.to_vec())
            }
        }
        other => other.clone(),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Copies a file, and leaves holes where it has holes.
fn copy_sparse(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (File::open(from)?, File::create(to)?);
    let size = from.metadata()?.len();
    to.set_len(size)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(&from, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = rustix::fs::seek(&from, SeekFrom::Hole(data))?;
        at = data;
        while at < hole {
            let length = usize::try_from(hole - at).map_or(buffer.len(), |left| left.min(buffer.len()));
            from.read_exact_at(&mut buffer[..length], at)?;
            to.write_all_at(&buffer[..length], at)?;
            at += length as u64;
        }
    }
    Ok(())
}
