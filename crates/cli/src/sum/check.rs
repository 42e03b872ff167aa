//! `atta sum --check`: reads a record, hashes the files that it lists or those below PATHs, and prints the differences.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use atta_catalog::{CatalogDigests, DigestLines, Digested, difference_row, difference_text};
use atta_entry::Kind;
use atta_ops::sorted::{is_below, key_of};
use atta_ops::sum::check::{Compared, Item, Items, compare};
use atta_ops::walk::{Rules, Start};
use atta_runtime::{RankError, Session, Stop};

use super::arguments::SumArguments;
use super::run::{self, Hashed, Prepared};
use super::sink::{Setting, Sink, cannot_sort};
use super::totals::Summed;
use super::{given, summary};
use crate::input::Input;
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::file::{describe, print_rows, printable};
use crate::run::messages::exit;
use crate::run::refused::Refused;
use crate::run::settings::ROWS_BYTES;
use crate::run::settings::compile;
use crate::run::settings::spill_directory;
use crate::run::signals::Signals;

/// The recorded items and the roots of their trees.
struct Record {
    items: Items,
    /// Roots of the recorded trees; `None` if the record is a list.
    roots: Option<Vec<Vec<u8>>>,
}

/// The items of a record to use.
struct Wanted<'a> {
    /// Keys of the given PATHs; if empty, all recorded items count.
    paths: &'a [Vec<u8>],
    rules: Option<&'a Rules>,
    /// Keys of the roots of the walk: rules apply to the path below a root.
    roots: Vec<Vec<u8>>,
    /// The request that ends reading early; then nothing is compared.
    stop: &'a Stop,
}

/// Compares, as one rank of a session; returns the exit code.
pub(super) fn run(
    arguments: &SumArguments,
    signals: &Signals,
    session: &mut Session<'_>,
) -> Result<u8, RankError> {
    let Some(place) = arguments.check.as_deref() else { return Ok(exit::USAGE) };
    let (mut asked, refused) = match session.is_first().then(|| Asked::read(place, arguments, signals)) {
        Some(Ok(asked)) => (Some(asked), None),
        Some(Err(refused)) => (None, Some(refused)),
        None => (None, None),
    };
    let unsorted = Mutex::default();
    let prepared = match (refused, &mut asked) {
        (Some(refused), _) => Some(Err(refused)),
        (None, asked) => asked.as_mut().map(|asked| asked.prepare(arguments, &unsorted, session)),
    };
    let hashed = run::hash(arguments, signals, session, prepared)?;
    Ok(match (hashed, asked) {
        (Ok(Hashed { mut sink, summed, .. }), Some(asked)) => {
            let unsorted = unsorted.into_inner().unwrap_or_else(PoisonError::into_inner);
            unsorted.into_iter().for_each(|error| sink.fail(cannot_sort(&error)));
            let found = sink.take_found();
            conclude(arguments, &sink, (asked.record, found), &summed, signals)
        }
        (Ok(_), None) => exit::FATAL,
        (Err(code), _) => code,
    })
}

/// What is to be compared: the record, and the PATHs.
struct Asked {
    record: Record,
    paths: Vec<Start>,
    /// Taken by the sink.
    failures: Option<Failures>,
    /// Whether only the listed paths are hashed.
    is_list: bool,
}

impl Asked {
    fn read(place: &Path, arguments: &SumArguments, signals: &Signals) -> Result<Self, Refused> {
        let paths = given(arguments)?;
        let rules = compile(&arguments.visit.rules)?;
        let errors = arguments.report.errors.as_deref();
        let failures = Some(Failures::new(arguments.report.verbose, errors, Some(place))?);
        let record = Record::read(place, arguments, &paths, rules.as_ref(), &signals.stop())?;
        let is_list = paths.is_empty() && record.roots.is_none();
        Ok(Self { record, paths, failures, is_list })
    }

    /// `unsorted`: gets the error if the listed paths cannot be sorted.
    fn prepare<'a>(
        &'a mut self,
        arguments: &SumArguments,
        unsorted: &'a Mutex<Option<io::Error>>,
        session: &Session<'_>,
    ) -> Result<Prepared<'a>, Refused> {
        let Self { record, paths, failures, is_list } = self;
        let failures = failures.take().map_or_else(|| Failures::new(false, None, None), Ok)?;
        let sink = Sink::new(arguments, failures, Setting { is_list: *is_list, job: None }, session)?;
        if *is_list {
            // Only ranks compare what they see there.
            let roots = if session.is_alone() { Vec::new() } else { record.listed_roots()? };
            let starts = record.listed(unsorted)?;
            return Ok(Prepared { sink, starts: Box::new(starts), roots, enters: false, job: None });
        }
        let recorded = record.roots.iter().flatten().filter(|_| paths.is_empty()).cloned().map(Start::new);
        let starts: Vec<Start> = recorded.chain(paths.iter().cloned()).collect();
        let roots = starts.iter().map(|start| start.root.clone()).collect();
        Ok(Prepared { sink, starts: Box::new(starts.into_iter()), roots, enters: true, job: None })
    }
}

/// The start for a listed path, which is relative to the working directory or to `/`: no link on the way to it is followed.
fn start(path: Vec<u8>) -> Start {
    if key_of(&path).iter().all(|byte| *byte == 0) {
        // The directory itself.
        return Start::new(path);
    }
    let root = if path.starts_with(b"/") { b"/".to_vec() } else { Vec::new() };
    Start { root, below: Some(path) }
}

/// The most directories at which ranks compare what they see.
const ROOTS_MAX: usize = 256;

/// The directory that a listed path is in, for the comparison of what ranks see: the working directory, or the parent of an absolute path. `/`
/// is not compared: hosts do not share it.
fn root_of(path: &[u8]) -> Vec<u8> {
    let Some(path) = path.strip_prefix(b"/") else { return b".".to_vec() };
    let mut names: Vec<_> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    names.pop();
    [b"/", names.join(&b'/').as_slice()].concat()
}

impl Record {
    /// The directories that listed paths are in, at most [`ROOTS_MAX`] of them.
    fn listed_roots(&mut self) -> Result<Vec<Vec<u8>>, Refused> {
        let cannot = |error: &io::Error| Refused::fatal(cannot_sort(error).what());
        let mut roots = BTreeSet::new();
        for path in self.items.paths().map_err(|error| cannot(&error))? {
            let root = root_of(&path.map_err(|error| cannot(&error))?);
            if roots.len() < ROOTS_MAX && root != b"/" {
                roots.insert(root);
            }
        }
        Ok(roots.into_iter().collect())
    }

    /// The starts of a list.
    fn listed<'a>(
        &'a mut self,
        unsorted: &'a Mutex<Option<io::Error>>,
    ) -> Result<impl Iterator<Item = Start> + Send + 'a, Refused> {
        let listed = self.items.paths().map_err(|error| Refused::fatal(cannot_sort(&error).what()))?;
        Ok(listed.map_while(move |path| match path {
            Ok(path) => Some(start(path)),
            Err(error) => {
                unsorted.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                None
            }
        }))
    }

    fn read(
        place: &Path,
        arguments: &SumArguments,
        paths: &[Start],
        rules: Option<&Rules>,
        stop: &Stop,
    ) -> Result<Self, Refused> {
        let items = Items::new(arguments.effort.memory / 4, &spill_directory());
        let mut record = Self { items, roots: None };
        let keys: Vec<_> = paths.iter().map(|start| key_of(&start.root)).collect();
        let mut wanted = Wanted { paths: &keys, rules, roots: keys.clone(), stop };
        let is_catalog = rustix::fs::stat(place)
            .is_ok_and(|found| rustix::fs::FileType::from_raw_mode(found.st_mode).is_dir());
        let counts = if is_catalog {
            let catalog = CatalogDigests::open(place).map_err(|error| Refused::fatal(error.to_string()))?;
            if paths.is_empty() {
                wanted.roots = catalog.roots().iter().map(|root| key_of(root)).collect();
            }
            record.roots = Some(catalog.roots().to_vec());
            record.take(catalog, &wanted)
        } else {
            let lines = open(place, stop).and_then(|input| {
                DigestLines::new(BufReader::with_capacity(1 << 16, input)).map_err(|error| error.to_string())
            });
            let lines = lines.map_err(|error| cannot_read(place, &error))?;
            if !lines.has_all_kinds() {
                record.items.set_of_files();
            }
            if paths.is_empty() {
                wanted.roots = vec![Vec::new(), vec![0]];
            }
            record.take(lines, &wanted)
        };
        if stop.is_set() {
            // Only a part was read; it is not used.
            return Ok(record);
        }
        let (all, taken) = counts.map_err(|error| cannot_read(place, &error))?;
        if all == 0 && !is_catalog {
            return Err(cannot_read(place, "there is no digest in it"));
        }
        if all > 0 && taken == 0 && !paths.is_empty() {
            let what = format!("nothing below PATH is recorded in {}", printable(place));
            return Err(Refused::usage(what, "PATHs are compared as they are written, as in the record"));
        }
        if is_list_with_parents(&mut record, paths).map_err(|error| cannot_read(place, &error))? {
            let what = format!("{} lists paths with '..'", printable(place));
            return Err(Refused::usage(what, "name the trees as PATHs, as they are written there"));
        }
        Ok(record)
    }

    /// Takes the wanted items; returns the number of all items, and of those taken.
    fn take(
        &mut self,
        digests: impl Iterator<Item = atta_catalog::Result<Digested>>,
        wanted: &Wanted<'_>,
    ) -> Result<(u64, u64), String> {
        let (mut all, mut taken) = (0, 0);
        for item in digests.take_while(|_| !wanted.stop.is_set()) {
            let Digested { path, kind, size, digest, target } = item.map_err(|error| error.to_string())?;
            all += 1;
            if wanted.has(&path, kind) {
                taken += 1;
                let pushed = self.items.push(&Item { path, kind, size, digest, target });
                pushed.map_err(|error| cannot_sort(&error).what())?;
            }
        }
        Ok((all, taken))
    }
}

impl Wanted<'_> {
    fn has(&self, path: &[u8], kind: Kind) -> bool {
        let key = key_of(path);
        if !self.paths.is_empty() && !self.paths.iter().any(|above| is_below(&key, above)) {
            return false;
        }
        let Some(rules) = self.rules else { return true };
        let above = self.roots.iter().filter(|root| is_below(&key, root)).max_by_key(|root| root.len());
        let below = key.get(above.map_or(0, Vec::len)..).unwrap_or_default();
        let below: Vec<u8> = below.strip_prefix(&[0]).unwrap_or(below).to_vec();
        let below: Vec<u8> = below.into_iter().map(|byte| if byte == 0 { b'/' } else { byte }).collect();
        !rules.hides(&below, kind == Kind::Directory)
    }
}

/// Whether a list used without PATHs has paths with `..`, which may lead out of the directory where it is used.
fn is_list_with_parents(record: &mut Record, paths: &[Start]) -> Result<bool, String> {
    if !paths.is_empty() || record.roots.is_some() {
        return Ok(false);
    }
    let listed = record.items.paths().map_err(|error| cannot_sort(&error).what())?;
    for path in listed {
        let path = path.map_err(|error| cannot_sort(&error).what())?;
        if path.split(|byte| *byte == b'/').any(|name| name == b"..") {
            return Ok(true);
        }
    }
    Ok(false)
}

fn open(place: &Path, stop: &Stop) -> Result<Box<dyn Read + Send>, String> {
    if place.as_os_str() == "-" {
        return Ok(Box::new(Input::new(stop.clone())));
    }
    File::open(place).map(|file| Box::new(file) as _).map_err(|error| describe(&error))
}

fn cannot_read(place: &Path, why: &str) -> Refused {
    Refused::fatal(format!("cannot read record: {}: {why}", printable(place)))
}

/// Compares, prints the differences and returns the exit code.
fn conclude(
    arguments: &SumArguments,
    sink: &Sink,
    (mut record, found): (Record, Option<Items>),
    outcome: &Summed,
    signals: &Signals,
) -> u8 {
    let mut fatal = sink.take_fatal().or_else(|| sink.failures.flush().err());
    let mut compared = None;
    if let (None, None, Some(mut found)) = (&fatal, signals.code().or(outcome.interrupted()), found) {
        match print_differences(arguments, &mut record, &mut found, &signals.stop()) {
            Ok(done) => compared = Some(done),
            Err(error) => fatal = Some(error),
        }
    }
    let failed = outcome.failed;
    let summarized = || summary::report_compared(arguments, outcome, compared.as_ref(), failed).err();
    if let Some(fatal) = fatal.or_else(summarized) {
        return fatal.report();
    }
    signals.code().or(outcome.interrupted()).unwrap_or(match compared {
        Some(compared) if compared.differences() > 0 => exit::DIFFERENT,
        _ if failed > 0 => exit::PARTIAL,
        _ => exit::DONE,
    })
}

fn print_differences(
    arguments: &SumArguments,
    record: &mut Record,
    found: &mut Items,
    stop: &Stop,
) -> Result<Compared, Fatal> {
    let (mut rows, mut fatal) = (Vec::new(), None);
    let append = if arguments.report.json { difference_row } else { difference_text };
    let compared = compare(&mut record.items, found, stop, |difference| {
        append(difference, &mut rows);
        if rows.len() >= ROWS_BYTES {
            fatal = print_rows(&std::mem::take(&mut rows)).err();
        }
        if fatal.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let compared = compared.map_err(|error| cannot_sort(&error))?;
    fatal.map_or_else(|| print_rows(&rows), Err)?;
    Ok(compared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_paths_are_in_directories_that_ranks_share() {
        let roots =
            [&b"a/b/c"[..], b"a", b"/f", b"/scratch/f", b"/scratch/u/d/f", b"//scratch//u//d"].map(root_of);
        assert_eq!(roots, [&b"."[..], b".", b"/", b"/scratch", b"/scratch/u/d", b"/scratch/u"]);
    }
}
