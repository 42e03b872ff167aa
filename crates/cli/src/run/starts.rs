//! Starts of a walk: the paths of the command line, or a list. A long list is read while the walk runs.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use atta_catalog::{ListReader, Listed, ListedChange, ROW_BYTES_MAX};
use atta_ops::walk::{Differs, Start};
use atta_runtime::Stop;

use super::fatal::Fatal;
use super::refused::Refused;
use crate::input::Input;

/// The starts of a walk, in order.
pub(crate) struct Starts {
    source: Source,
    form: ListForm,
    /// Rows of entries that only the target has: they are counted and otherwise ignored.
    extra: Arc<AtomicU64>,
    /// The paths of the command line: relative names of a list start there, and its rows may name no other roots.
    roots: Vec<Vec<u8>>,
    error: Arc<Mutex<Option<Fatal>>>,
    stop: Stop,
    file: String,
}

/// The paths that the user gave, or the working directory.
pub(crate) fn root_paths(paths: &[OsString]) -> Vec<Vec<u8>> {
    match paths {
        [] => vec![b".".to_vec()],
        paths => paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
    }
}

/// Format of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// Detected from its first bytes.
    #[default]
    Detected,
    /// One path on each line.
    Lines,
    /// Rows of `atta verify`, each with its differences.
    Differences,
}

enum Source {
    Paths(std::vec::IntoIter<Vec<u8>>),
    List(ListReader<Box<dyn BufRead + Send>>),
    End,
}

impl Starts {
    /// The starts that the user named: paths, or a list in the format `list_form`.
    pub(crate) fn new(
        paths: &[OsString],
        list: Option<&Path>,
        list_form: ListForm,
        stop: Stop,
    ) -> Result<Self, Refused> {
        if paths.iter().any(|path| path.is_empty()) {
            return Err(Refused::usage("PATH is empty".to_owned(), "the working directory is '.'"));
        }
        let Some(list) = list else {
            let error = Arc::new(Mutex::new(None));
            let source = Source::Paths(root_paths(paths).into_iter());
            let (form, extra) = (ListForm::Detected, Arc::default());
            return Ok(Self { source, form, extra, roots: Vec::new(), error, stop, file: String::new() });
        };
        if paths.len() > 1 {
            let what = "--from-list with several PATHs".to_owned();
            return Err(Refused::usage(
                what,
                "relative names of a list start at one PATH, or the working directory",
            ));
        }
        let roots = if paths.is_empty() { Vec::new() } else { root_paths(paths) };
        Self::listed((list, list_form), roots, stop)
    }

    /// The starts of a list, below these roots.
    fn listed((list, form): (&Path, ListForm), roots: Vec<Vec<u8>>, stop: Stop) -> Result<Self, Refused> {
        let reader = open(list, &stop).map_err(|error| cannot(list, &crate::run::file::describe(&error)))?;
        Self::read((list, form), reader, roots, stop)
    }

    /// The same for a copy: the first row shows whether it is a list of differences. Such a list is read to its end first if it comes from
    /// standard input: its writer may still be comparing files that the copy is about to change.
    pub(crate) fn listed_for_copy(
        (list, mut form): (&Path, ListForm),
        roots: Vec<Vec<u8>>,
        stop: Stop,
    ) -> Result<Self, Refused> {
        let failed = |error: io::Error| cannot(list, &crate::run::file::describe(&error));
        let mut input = open(list, &stop).map_err(failed)?;
        let first = input.fill_buf().map_err(failed)?.first().copied();
        if form == ListForm::Differences && first.is_some_and(|first| first != b'{') {
            let what = format!("not a list of differences: {}", crate::run::file::printable(list));
            let hint = "it is what 'atta verify --format ndjson SOURCE TARGET' prints".to_owned();
            return Err(Refused::fatal_with(what, Some(hint)));
        }
        let mut head = Vec::new();
        if first == Some(b'{') && form != ListForm::Lines {
            input.by_ref().take(ROW_BYTES_MAX as u64).read_until(b'\n', &mut head).map_err(failed)?;
        }
        if is_difference(&head) && form == ListForm::Detected {
            form = ListForm::Differences;
        }
        let mut reader: Box<dyn BufRead + Send> = Box::new(io::Cursor::new(head).chain(input));
        if form == ListForm::Differences && list.as_os_str() == "-" {
            reader = spooled(reader).map_err(failed)?;
        }
        Self::read((list, form), reader, roots, stop)
    }

    fn read(
        (list, form): (&Path, ListForm),
        reader: Box<dyn BufRead + Send>,
        roots: Vec<Vec<u8>>,
        stop: Stop,
    ) -> Result<Self, Refused> {
        let reader = match form {
            ListForm::Lines => ListReader::lines(reader),
            _ => ListReader::new(reader).map_err(|error| cannot(list, &error.to_string()))?,
        };
        let (source, file) = (Source::List(reader), crate::run::file::printable(list));
        Ok(Self { source, form, extra: Arc::default(), roots, error: Arc::default(), stop, file })
    }

    /// Whether it is a list of differences.
    pub(crate) fn are_differences(&self) -> bool {
        self.form == ListForm::Differences
    }

    /// The number of rows that only the target has, to be read at the end.
    pub(crate) fn extra(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.extra)
    }

    /// The rows of a list of differences, with the differences of each.
    pub(crate) fn rows(mut self) -> impl Iterator<Item = (Start, Differs)> + Send {
        std::iter::from_fn(move || self.next_start())
            .map(|(start, differs)| (start, differs.unwrap_or_default()))
    }

    /// Where an error of the list is stored; such an error ends the walk.
    pub(crate) fn error(&self) -> Arc<Mutex<Option<Fatal>>> {
        Arc::clone(&self.error)
    }

    fn fail(&mut self, why: &str) {
        let what = format!("cannot read list: {}: {why}", self.file);
        self.error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(Fatal::Failed { what, hint: None });
        self.source = Source::End;
        self.stop.set();
    }

    /// The next start, with its differences if it is from a list of differences.
    fn next_start(&mut self) -> Option<(Start, Option<Differs>)> {
        loop {
            let listed = match &mut self.source {
                Source::Paths(paths) => return paths.next().map(|path| (Start::new(path), None)),
                Source::List(list) => list.next()?,
                Source::End => return None,
            };
            if self.stop.is_set() {
                // The last item may be incomplete.
                self.source = Source::End;
                return None;
            }
            let taken = listed.map_err(|error| error.to_string()).and_then(|listed| self.item(listed));
            match taken {
                Ok(Some(taken)) => return Some(taken),
                Ok(None) => {
                    self.extra.fetch_add(1, Ordering::Relaxed);
                }
                Err(why) => {
                    self.fail(&why);
                    return None;
                }
            }
        }
    }

    /// Converts an item of a list. `None` if the list is one of differences, and only the target has the entry.
    fn item(&self, listed: Listed) -> Result<Option<(Start, Option<Differs>)>, String> {
        if !self.are_differences() {
            return self.start(listed).map(|start| Some((start, None)));
        }
        let none = Differs::default();
        let differs = match listed.change {
            Some(ListedChange::Extra) => return Ok(None),
            Some(ListedChange::Missing) => Differs { is_missing: true, ..none },
            Some(ListedChange::Different { content, links }) => Differs { content, links, ..none },
            None => return Err("a row that is no difference: it has no \"change\"".to_owned()),
        };
        self.start(listed).map(|start| Some((start, Some(differs))))
    }

    /// Converts a row of a list to a root, whose path is trusted, and a name below it, whose path is not.
    fn start(&self, listed: Listed) -> Result<Start, String> {
        let Listed { root, path, .. } = listed;
        if let Some(root) = root.filter(|root| self.roots.is_empty() || self.roots.contains(root)) {
            return below(root, &path).ok_or_else(|| "a path that does not begin with its root".to_owned());
        }
        match (path.starts_with(b"/"), self.roots.first()) {
            (true, Some(_)) => {
                let found = self.roots.iter().find_map(|root| below(root.clone(), &path));
                found.ok_or_else(|| "an absolute path that is not below PATH".to_owned())
            }
            (false, Some(_)) if self.roots.len() > 1 => {
                Err("a relative path, which may be below any of several".to_owned())
            }
            (false, Some(root)) if is_bare(&path) => Ok(Start::new(root.clone())),
            (false, Some(root)) => Ok(Start { root: root.clone(), below: Some(path) }),
            (_, None) if path.is_empty() => Ok(Start::new(*b".")),
            (_, None) if is_bare(&path) => Ok(Start::new(path)),
            (true, None) => Ok(Start { root: b"/".to_vec(), below: Some(path) }),
            (false, None) => Ok(Start { root: Vec::new(), below: Some(path) }),
        }
    }
}

/// The start for a path that begins with a root: the root itself, or a name below it.
fn below(root: Vec<u8>, path: &[u8]) -> Option<Start> {
    let rest = path.strip_prefix(root.as_slice())?;
    if rest.is_empty() || (is_bare(rest) && (rest.starts_with(b"/") || root.ends_with(b"/"))) {
        return Some(Start::new(root));
    }
    let parted = root.is_empty() || root.ends_with(b"/") || rest.starts_with(b"/");
    parted.then(|| Start { below: Some(rest.to_vec()), root })
}

/// Whether a path has no names in it but `.`: `.`, `./`, `/`.
fn is_bare(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').all(|name| name.is_empty() || name == b".")
}

impl Iterator for Starts {
    type Item = Start;

    fn next(&mut self) -> Option<Start> {
        self.next_start().map(|(start, _)| start)
    }
}

fn cannot(list: &Path, why: &str) -> Refused {
    Refused::fatal(format!("cannot read list: {}: {why}", crate::run::file::printable(list)))
}

/// Whether the first row of a list is a difference.
fn is_difference(row: &[u8]) -> bool {
    let first = ListReader::new(row).ok().and_then(|mut list| list.next());
    first.is_some_and(|row| row.is_ok_and(|row| row.change.is_some()))
}

/// Copies all input to an unnamed file; returns a reader of the file.
fn spooled(mut reader: Box<dyn BufRead + Send>) -> io::Result<Box<dyn BufRead + Send>> {
    let mut file = atta_runtime::unnamed_file(&super::settings::spill_directory())?;
    io::copy(&mut reader, &mut file)?;
    file.rewind()?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

fn open(path: &Path, stop: &Stop) -> io::Result<Box<dyn BufRead + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(Input::new(stop.clone()))));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, File::open(path)?)))
}
