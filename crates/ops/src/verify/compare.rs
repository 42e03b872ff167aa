//! Compares two entries that exist on both sides: type, metadata and file contents. A difference counts only if both entries stayed
//! unchanged meanwhile. Otherwise they are compared once more. It reports nothing.

use std::ffi::CStr;

use atta_entry::{Detail, Errno, Field, Kind, Metadata, Operation, Side};
use rustix::fd::{AsFd, OwnedFd};

use super::fields;
use super::handler::{Comparing, VerifyWorker};
use super::pair::{Both, Opened, Pair, Verdict};
use crate::file::error::{PairError, failed, on};
use crate::file::source;
use crate::file::source::Source;
use crate::metadata::extended::{Extended, Holder, is_copied};
use crate::metadata::keep::may_have;
use crate::metadata::not_kept::NotKept;
use atta_sys as sys;
use atta_sys::at::NameAt;

/// How often to compare entries that change.
const TRIES: u32 = 2;

impl<const LOGGED: bool> Comparing<'_, LOGGED> {
    /// Compares two entries whose metadata was already read.
    pub(crate) fn compare(
        &self,
        worker: &mut VerifyWorker,
        pair: Pair<'_>,
        looked: Both,
    ) -> Result<Verdict, PairError> {
        let mut both = looked;
        for _ in 0..TRIES {
            match self.compare_once(worker, pair, &both) {
                Err(PairError::Changed) => {}
                other => return other,
            }
            let Some(again) = pair.look()? else { return Ok(Verdict::Missing) };
            both = again;
        }
        Err(PairError::Changed)
    }

    fn compare_once(
        &self,
        worker: &mut VerifyWorker,
        pair: Pair<'_>,
        both: &Both,
    ) -> Result<Verdict, PairError> {
        let found = match both.kinds() {
            (one, other) if one != other => vec![Detail::Type(one, other)],
            (Kind::File, _) if self.options.fields.has(Field::Content) => {
                let opened = self.open_files(worker, pair)?;
                return self.compare_files(worker, &opened).map(Verdict::Compared);
            }
            _ => {
                let both = self.with_sizes(worker, pair, both)?;
                self.attributes(worker, pair, &both)?
            }
        };
        if found.is_empty() {
            return Ok(Verdict::Compared(found));
        }
        match pair.look()? {
            Some(after) if both.is_unchanged(&after) => Ok(Verdict::Compared(found)),
            Some(_) => Err(PairError::Changed),
            None => Ok(Verdict::Missing),
        }
    }

    /// Opens two files. A file with an unreliable size is read to find its size.
    pub(crate) fn open_files(&self, worker: &mut VerifyWorker, pair: Pair<'_>) -> Result<Opened, PairError> {
        let mut opened = pair.open()?;
        let Opened { source, target, before, read } = &mut opened;
        let mut measure =
            |side, file: &OwnedFd, stated: &Metadata| match worker.mover.sizes.is_stated(file, stated) {
                true => Ok(stated.size),
                false => worker.mover.pass_to_end(file.as_fd(), None, None).map_err(|error| on(side, error)),
            };
        read.source.size = measure(Side::Source, source, &before.source)?;
        read.target.size = measure(Side::Target, target, &before.target)?;
        Ok(opened)
    }

    /// Replaces unreliable sizes by the number of bytes read. This happens only if the reported sizes differ and one file is empty or has
    /// no blocks, as files that the kernel generates on read. If a file cannot be read, its reported size is used.
    fn with_sizes(&self, worker: &mut VerifyWorker, pair: Pair<'_>, both: &Both) -> Result<Both, PairError> {
        let is_asked = both.kinds() == (Kind::File, Kind::File) && self.options.fields.has(Field::Size);
        let takes_none = |metadata: &Metadata| metadata.size == 0 || metadata.blocks == 0;
        let says_nothing = takes_none(&both.source) || takes_none(&both.target);
        if !is_asked || both.source.size == both.target.size || !says_nothing {
            return Ok(*both);
        }
        match self.open_files(worker, pair) {
            Ok(opened) => Ok(opened.read),
            Err(PairError::Failed(..)) => Ok(*both),
            Err(error) => Err(error),
        }
    }

    /// Compares everything but the bytes of two entries of one type.
    fn attributes(
        &self,
        worker: &mut VerifyWorker,
        pair: Pair<'_>,
        both: &Both,
    ) -> Result<Vec<Detail>, PairError> {
        let wanted = self.options.fields;
        let mut found = fields::differing(wanted, self.options.window, &both.source, &both.target);
        let Pair { source, target } = pair;
        self.drop_cut_time(&mut found, both, target);
        match both.source.kind() {
            Kind::Symlink if wanted.has(Field::Target) => {
                let read = |from: Source<'_>| sys::read_link_at(from.directory, from.name);
                let one = read(source).map_err(failed(Side::Source, Operation::ReadLink))?;
                let other = read(target).map_err(failed(Side::Target, Operation::ReadLink))?;
                if one != other {
                    found.push(Detail::Target(one, other));
                }
            }
            Kind::CharDevice | Kind::BlockDevice if wanted.has(Field::Device) => {
                let one = source::device(source).map_err(|error| on(Side::Source, error))?;
                let other = source::device(target).map_err(|error| on(Side::Target, error))?;
                if one != other {
                    found.push(Detail::Device(device(one), device(other)));
                }
            }
            _ => {}
        }
        if wanted.has(Field::Xattrs) {
            let features = self.features();
            let holders = [source, target]
                .map(|Source { directory, name }| Holder::Named(NameAt { directory, name, features }));
            found.extend(extended(worker, both.source.kind(), holders)?);
        }
        Ok(found)
    }

    /// Compares everything but the bytes of two open files.
    pub(crate) fn attributes_of_open(
        &self,
        worker: &mut VerifyWorker,
        opened: &Opened,
    ) -> Result<Vec<Detail>, PairError> {
        let (wanted, Both { source, target }) = (self.options.fields, &opened.read);
        let mut found = fields::differing(wanted, self.options.window, source, target);
        let at = Source { directory: opened.target.as_fd(), name: c"." };
        self.drop_cut_time(&mut found, &opened.before, at);
        if wanted.has(Field::Xattrs) {
            found.extend(extended(worker, Kind::File, opened.holders())?);
        }
        Ok(found)
    }

    /// Compares two open files completely.
    pub(crate) fn compare_files(
        &self,
        worker: &mut VerifyWorker,
        opened: &Opened,
    ) -> Result<Vec<Detail>, PairError> {
        let mut found = self.attributes_of_open(worker, opened)?;
        if self.needs_bytes(opened, &found) {
            let common = opened.read.common_bytes();
            let stop = &self.options.walk.stop;
            let first = worker.blocks.compare(opened.two(), 0..common, &mut |_| !stop.is_set())?;
            if first.is_none() && stop.is_set() {
                return Err(PairError::Stopped);
            }
            opened.check()?;
            self.count_bytes(worker, first.unwrap_or(common));
            worker.findings.totals.files += 1;
            found.extend(opened.read.content(first));
            if found.is_empty() {
                self.equal.add(&opened.before);
            }
        } else {
            opened.check()?;
        }
        Ok(found)
    }

    /// Whether to read the bytes of two files. Not if the sizes differ, nor if the files are known as equal under other names.
    pub(crate) fn needs_bytes(&self, opened: &Opened, found: &[Detail]) -> bool {
        let differs_in_size = found.iter().any(|detail| detail.field() == Field::Size);
        !differs_in_size && !self.equal.has(&opened.before)
    }

    /// Drops a time difference if the target's file system merely truncated the time. `at`: the target entry.
    fn drop_cut_time(&self, found: &mut Vec<Detail>, both: &Both, at: Source<'_>) {
        let Both { source, target } = both;
        found.retain(|detail| {
            detail.field() != Field::Mtime
                || !self.granularity.by(target, at).is_kept(source.mtime, target.mtime)
        });
    }
}

/// Compares the extended attributes that a copy keeps.
fn extended(
    worker: &mut VerifyWorker,
    kind: Kind,
    holders: [Holder<'_>; 2],
) -> Result<Option<Detail>, PairError> {
    let wanted = |name: &CStr| is_copied(name) && may_have(kind, name);
    let operation = Operation::Custom("read extended attributes");
    let mut read = |holder, side| {
        let mut unread = NotKept::default();
        let found = Extended::read_from(holder, &mut worker.attribute_names, wanted, &mut unread);
        let found = found.map_err(failed(side, operation))?;
        // An unreadable value may be any value.
        if unread.extended > 0 { Err(failed(side, operation)(Errno::ACCES)) } else { Ok(found) }
    };
    let [one, other] = holders;
    let (one, other) = (read(one, Side::Source)?, read(other, Side::Target)?);
    let names = one.differing(&other);
    Ok((!names.is_empty()).then_some(Detail::Xattrs(names)))
}

/// Converts a device number of the C library to the form used in records.
pub(crate) fn device(number: u64) -> u64 {
    u64::from(rustix::fs::major(number)) << 32 | u64::from(rustix::fs::minor(number))
}
