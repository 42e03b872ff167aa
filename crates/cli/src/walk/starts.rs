//! Where a walk starts: the paths of the command line, or a list. A long list is read as the walk goes on.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use atta_catalog::{ListReader, Listed};
use atta_ops::walk::Start;
use atta_runtime::Stop;

use super::arguments::WalkArguments;
use super::{Refused, root_paths};
use crate::fatal::Fatal;
use crate::input::Input;

/// The starts of a walk, one after the other.
pub(crate) struct Starts {
    source: Source,
    /// The paths of the command line: where relative names of a list start, and the only roots that its rows may name.
    roots: Vec<Vec<u8>>,
    error: Arc<Mutex<Option<Fatal>>>,
    stop: Stop,
    file: String,
}

enum Source {
    Paths(std::vec::IntoIter<Vec<u8>>),
    List(ListReader<Box<dyn BufRead + Send>>),
    End,
}

impl Starts {
    pub(crate) fn new(arguments: &WalkArguments, stop: Stop) -> Result<Self, Refused> {
        if arguments.paths.iter().any(|path| path.is_empty()) {
            return Err(Refused::usage("PATH is empty".to_owned(), "the working directory is '.'"));
        }
        let Some(list) = &arguments.from_list else {
            let error = Arc::new(Mutex::new(None));
            let source = Source::Paths(root_paths(arguments).into_iter());
            return Ok(Self { source, roots: Vec::new(), error, stop, file: String::new() });
        };
        if arguments.paths.len() > 1 {
            let what = "--from-list with several PATHs".to_owned();
            return Err(Refused::usage(
                what,
                "relative names of a list start at one PATH, or the working directory",
            ));
        }
        let roots = if arguments.paths.is_empty() { Vec::new() } else { root_paths(arguments) };
        Self::listed(list, roots, stop)
    }

    /// What a list names, below these roots.
    pub(crate) fn listed(list: &Path, roots: Vec<Vec<u8>>, stop: Stop) -> Result<Self, Refused> {
        let error = Arc::new(Mutex::new(None));
        let file = crate::file::printable(list);
        let cannot = |why: String| Refused::fatal(format!("cannot read list: {file}: {why}"));
        let reader = open(list, &stop).map_err(|error| cannot(crate::file::describe(&error)))?;
        let reader = ListReader::new(reader).map_err(|error| cannot(error.to_string()))?;
        Ok(Self { source: Source::List(reader), roots, error, stop, file })
    }

    /// Where an error of the list is left: it ends the walk.
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

    /// What a row of a list means: a root whose path is trusted, and a name below it whose path is not.
    fn start(&self, listed: Listed) -> Result<Start, String> {
        let Listed { root, path } = listed;
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
            (_, None) if is_bare(&path) => Ok(Start::new(path)),
            (true, None) => Ok(Start { root: b"/".to_vec(), below: Some(path) }),
            (false, None) => Ok(Start { root: Vec::new(), below: Some(path) }),
        }
    }
}

/// A path that begins with a root: the root itself, or a name below it.
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
        let listed = match &mut self.source {
            Source::Paths(paths) => return paths.next().map(Start::new),
            Source::List(list) => list.next()?,
            Source::End => return None,
        };
        if self.stop.is_set() {
            // Whatever was read may be a part.
            self.source = Source::End;
            return None;
        }
        match listed.map_err(|error| error.to_string()).and_then(|listed| self.start(listed)) {
            Ok(start) => Some(start),
            Err(why) => {
                self.fail(&why);
                None
            }
        }
    }
}

fn open(path: &Path, stop: &Stop) -> io::Result<Box<dyn BufRead + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(Input::new(stop.clone()))));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, File::open(path)?)))
}
