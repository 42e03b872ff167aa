//! Two entries of one name: looked at on both sides, compared, looked at again. A difference counts only if both stood still
//! meanwhile; else they are compared once more. It reports nothing and counts nothing.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use atta_entry::{Detail, Errno, Field, Kind, Metadata, Operation, Side};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;

use super::content::Two;
use super::handler::{Comparing, VerifyWorker};
use super::trouble::{Trouble, failed, on};
use super::{fields, handler};
use crate::copy::attributes::{Extended, Holder, NotKept, is_copied};
use crate::copy::file::{Source, is_fresh, is_same, look, open, settled};
use crate::copy::handler::below;
use crate::copy::special;
use crate::walk::directory::Directory;
use crate::walk::kernel;
use crate::walk::look::join;

/// How often entries that change are compared.
const TRIES: u32 = 2;
/// What a file that is gone, or is another kind of entry, says when it is opened.
const GONE: [Errno; 3] = [Errno::NOENT, Errno::LOOP, Errno(6)];

/// Where an entry is, for messages: its directories on both sides and its name, or that it is the roots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) directories: Option<(&'a Arc<Directory>, &'a Arc<Directory>)>,
    pub(crate) name: &'a CStr,
}

/// The same for system calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) target: Source<'a>,
}

/// What both sides said when they were asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Both {
    pub(crate) source: Metadata,
    pub(crate) target: Metadata,
}

/// What came of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The target does not have it.
    Missing,
    /// These fields differ.
    Compared(Vec<Detail>),
}

/// Two files, open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) source: OwnedFd,
    pub(crate) target: OwnedFd,
    pub(crate) before: Both,
}

impl At<'_> {
    /// The path below the roots.
    pub(crate) fn below(self) -> Vec<u8> {
        let Some((directory, _)) = self.directories else { return Vec::new() };
        let mut path = Vec::new();
        let root_bytes = directory.path_into(&mut path);
        join(&mut path, self.name.to_bytes());
        below(&path, root_bytes).to_vec()
    }

    /// The root and the whole path on one side.
    pub(crate) fn told(self, side: Side, target: &CStr) -> (Vec<u8>, Vec<u8>) {
        let directory = match (self.directories, side) {
            (None, Side::Source) => return [self.name; 2].map(|path| path.to_bytes().to_vec()).into(),
            (None, Side::Target) => return [target; 2].map(|path| path.to_bytes().to_vec()).into(),
            (Some((directory, _)), Side::Source) | (Some((_, directory)), Side::Target) => directory,
        };
        let mut path = Vec::new();
        let root_bytes = directory.path_into(&mut path);
        let root = path[..root_bytes].to_vec();
        join(&mut path, self.name.to_bytes());
        (root, path)
    }
}

impl Pair<'_> {
    /// Asks for the metadata of both. None: the target does not have it.
    pub(crate) fn look(self) -> Result<Option<Both>, Trouble> {
        let Source { directory, name } = self.source;
        let source = kernel::stat_at(directory, name, false);
        let source = source.map_err(failed(Side::Source, Operation::Stat))?;
        let Source { directory, name } = self.target;
        match kernel::stat_at(directory, name, false) {
            Ok(target) => Ok(Some(Both { source, target })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(Side::Target, Operation::Stat)(errno)),
        }
    }

    /// Opens both as files, once they have been still for a moment.
    pub(crate) fn open(self) -> Result<Opened, Trouble> {
        let opened = |side, from| match open(from) {
            Err(crate::copy::trouble::Trouble::Failed(_, errno)) if GONE.contains(&errno) => {
                Err(Trouble::Changed)
            }
            opened => opened.map_err(|trouble| on(side, trouble)),
        };
        let (source, target) = (opened(Side::Source, self.source)?, opened(Side::Target, self.target)?);
        let before = Both {
            source: settled(&source).map_err(|trouble| on(Side::Source, trouble))?,
            target: settled(&target).map_err(|trouble| on(Side::Target, trouble))?,
        };
        // Who changes all the time has changed since the clock's last tick, too: that would not show afterwards.
        if before.kinds() != (Kind::File, Kind::File) || is_fresh(&before.source) || is_fresh(&before.target)
        {
            return Err(Trouble::Changed);
        }
        Ok(Opened { source, target, before })
    }
}

impl Both {
    pub(crate) fn kinds(&self) -> (Kind, Kind) {
        (self.source.kind(), self.target.kind())
    }

    /// Whether nothing has happened to either.
    fn stood_still(&self, after: &Self) -> bool {
        let same = |one: &Metadata, other: &Metadata| {
            is_same(one, other) && (one.device, one.inode) == (other.device, other.inode)
        };
        same(&self.source, &after.source) && same(&self.target, &after.target)
    }

    /// Which files they are.
    pub(crate) fn identities(&self) -> [(u64, u64); 2] {
        [&self.source, &self.target].map(|metadata| (metadata.device, metadata.inode))
    }

    /// Bytes that both have.
    pub(crate) fn common_bytes(&self) -> u64 {
        self.source.size.min(self.target.size)
    }
}

impl Opened {
    /// Fails if something has happened to either since they were opened.
    pub(crate) fn check(&self) -> Result<(), Trouble> {
        let after = Both {
            source: look(&self.source).map_err(|trouble| on(Side::Source, trouble))?,
            target: look(&self.target).map_err(|trouble| on(Side::Target, trouble))?,
        };
        if self.before.stood_still(&after) { Ok(()) } else { Err(Trouble::Changed) }
    }

    pub(crate) fn two(&self) -> Two<'_> {
        let has_holes = |metadata: &Metadata| metadata.allocated_bytes() < metadata.size;
        Two {
            source: self.source.as_fd(),
            target: self.target.as_fd(),
            have_holes: has_holes(&self.before.source) && has_holes(&self.before.target),
        }
    }

    fn holders(&self) -> [Holder<'_>; 2] {
        [Holder::Open(self.source.as_fd()), Holder::Open(self.target.as_fd())]
    }
}

impl Comparing<'_> {
    /// Compares two entries that were looked at already.
    pub(crate) fn compare(
        &self,
        worker: &mut VerifyWorker,
        pair: Pair<'_>,
        looked: Both,
    ) -> Result<Verdict, Trouble> {
        let mut both = looked;
        for _ in 0..TRIES {
            match self.compare_once(worker, pair, &both) {
                Err(Trouble::Changed) => {}
                other => return other,
            }
            let Some(again) = pair.look()? else { return Ok(Verdict::Missing) };
            both = again;
        }
        Err(Trouble::Changed)
    }

    fn compare_once(
        &self,
        worker: &mut VerifyWorker,
        pair: Pair<'_>,
        both: &Both,
    ) -> Result<Verdict, Trouble> {
        let found = match both.kinds() {
            (one, other) if one != other => vec![Detail::Type(one, other)],
            (Kind::File, _) if self.options.fields.has(Field::Content) => {
                return self.compare_files(worker, &pair.open()?).map(Verdict::Compared);
            }
            _ => self.attributes(worker, pair, both)?,
        };
        if found.is_empty() {
            return Ok(Verdict::Compared(found));
        }
        match pair.look()? {
            Some(after) if both.stood_still(&after) => Ok(Verdict::Compared(found)),
            Some(_) => Err(Trouble::Changed),
            None => Ok(Verdict::Missing),
        }
    }

    /// Compares what two entries of one kind have beside their bytes.
    fn attributes(
        &self,
        worker: &mut VerifyWorker,
        pair: Pair<'_>,
        both: &Both,
    ) -> Result<Vec<Detail>, Trouble> {
        let wanted = self.options.fields;
        let mut found = fields::differing(wanted, self.options.window, &both.source, &both.target);
        let Pair { source, target } = pair;
        match both.source.kind() {
            Kind::Symlink if wanted.has(Field::Target) => {
                let read = |from: Source<'_>| kernel::read_link_at(from.directory, from.name);
                let one = read(source).map_err(failed(Side::Source, Operation::ReadLink))?;
                let other = read(target).map_err(failed(Side::Target, Operation::ReadLink))?;
                if one != other {
                    found.push(Detail::Target(one, other));
                }
            }
            Kind::CharDevice | Kind::BlockDevice if wanted.has(Field::Device) => {
                let one = special::device(source).map_err(|trouble| on(Side::Source, trouble))?;
                let other = special::device(target).map_err(|trouble| on(Side::Target, trouble))?;
                if one != other {
                    found.push(Detail::Device(handler::device(one), handler::device(other)));
                }
            }
            Kind::File | Kind::Directory if wanted.has(Field::Xattrs) => {
                let paths = [path_of(source), path_of(target)];
                let [one, other] = &paths;
                found.extend(extended(worker, [Holder::Named(one), Holder::Named(other)])?);
            }
            _ => {}
        }
        Ok(found)
    }

    /// What differs beside the bytes of two open files.
    pub(crate) fn attributes_of_open(
        &self,
        worker: &mut VerifyWorker,
        opened: &Opened,
    ) -> Result<Vec<Detail>, Trouble> {
        let (wanted, Both { source, target }) = (self.options.fields, &opened.before);
        let mut found = fields::differing(wanted, self.options.window, source, target);
        if wanted.has(Field::Xattrs) {
            found.extend(extended(worker, opened.holders())?);
        }
        Ok(found)
    }

    /// Compares two open files as a whole.
    pub(crate) fn compare_files(
        &self,
        worker: &mut VerifyWorker,
        opened: &Opened,
    ) -> Result<Vec<Detail>, Trouble> {
        let mut found = self.attributes_of_open(worker, opened)?;
        if self.needs_bytes(opened, &found) {
            let common = opened.before.common_bytes();
            let first = worker.blocks.compare(opened.two(), 0..common, &mut |_| true)?;
            opened.check()?;
            self.count_bytes(worker, first.unwrap_or(common));
            worker.totals.files += 1;
            found.extend(opened.before.content(first));
            if found.is_empty() {
                self.equal.add(&opened.before);
            }
        } else {
            opened.check()?;
        }
        Ok(found)
    }

    /// Whether the bytes of two files are to be read: not if sizes tell already that they differ, nor if they are known to be equal
    /// by other names.
    pub(crate) fn needs_bytes(&self, opened: &Opened, found: &[Detail]) -> bool {
        let is_told = found.iter().any(|detail| detail.field() == Field::Size);
        !is_told && !self.equal.has(&opened.before)
    }
}

impl Both {
    /// What to say of two files whose common bytes differ from some offset on, or nowhere.
    pub(crate) fn content(&self, first: Option<u64>) -> Option<Detail> {
        let is_longer = self.source.size != self.target.size;
        first.or_else(|| is_longer.then(|| self.common_bytes())).map(Detail::Content)
    }
}

/// Compares extended attributes, of those that a copy takes along.
fn extended(worker: &mut VerifyWorker, holders: [Holder<'_>; 2]) -> Result<Option<Detail>, Trouble> {
    let operation = Operation::Custom("read extended attributes");
    let mut read = |holder, side| {
        let mut unread = NotKept::default();
        let found = Extended::read_from(holder, &mut worker.room, is_copied, &mut unread);
        let found = found.map_err(failed(side, operation))?;
        // A value that may not be seen may be any.
        if unread.extended > 0 { Err(failed(side, operation)(Errno::ACCES)) } else { Ok(found) }
    };
    let [one, other] = holders;
    let (one, other) = (read(one, Side::Source)?, read(other, Side::Target)?);
    let names = one.differing(&other);
    Ok((!names.is_empty()).then_some(Detail::Xattrs(names)))
}

/// A path that leads to a name in a directory that is open, and through nothing else: the kernel follows the first part to just
/// that directory.
fn path_of(from: Source<'_>) -> CString {
    let number = from.directory.as_raw_fd();
    if number == CWD.as_raw_fd() {
        return from.name.to_owned();
    }
    let path = [format!("/proc/self/fd/{number}/").as_bytes(), from.name.to_bytes()].concat();
    CString::new(path).unwrap_or_default()
}
