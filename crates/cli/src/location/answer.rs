//! The process that answers one question about a file system, and ends: its parent leaves it behind if the file system does not answer. It is
//! this program again, started with a word that is no command. It joins no ranks.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use atta_entry::{Code as _, choice};
use atta_mounts::{MountTable, Probes as _, Silent, SystemProbes};
use atta_ops::resume::unhex;
use atta_status::{Detail, Looks as _, NoRoom, Rooms as _, SystemLooks, SystemRooms, measure};

use crate::run::messages::exit;

/// What this program is started with to answer.
pub(crate) const WORD: &str = "--answer-one-question";

/// The most symbolic links of a path, as in the kernel.
const LINKS_MAX: usize = 40;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// What is under a path without links.
    Look(Vec<u8>, Detail),
    /// A path without its symbolic links. Where an automounter has nothing mounted, it ends.
    Resolve(Vec<u8>),
    /// A small file.
    File(Vec<u8>),
    /// An attribute of the root of a mount.
    Attribute(Vec<u8>, Vec<u8>),
    /// The addresses of a server.
    Addresses(Vec<u8>),
    /// The space at a mount point, and whether a file can be made there if that is asked.
    Room(Vec<u8>, bool),
    /// The speed of a directory.
    Measure(Vec<u8>),
}

choice!(Question {
    0 => Look(path, detail),
    1 => Resolve(path),
    2 => File(path),
    3 => Attribute(point, name),
    4 => Addresses(server),
    5 => Room(point, is_write_wanted),
    6 => Measure(directory),
});

impl Question {
    /// Whether answering may take long although the file system answers.
    pub(super) fn takes_long(&self) -> bool {
        matches!(self, Self::Look(..) | Self::Measure(_))
    }
}

/// The answer, as bytes: of which type, the question says.
fn answered(question: Question) -> Vec<u8> {
    match question {
        Question::Look(path, detail) => SystemLooks.look(&path, detail).encoded(),
        Question::Resolve(path) => resolved(&path).encoded(),
        Question::File(path) => asked(|probes| probes.file(&path)).encoded(),
        Question::Attribute(point, name) => {
            let name = String::from_utf8_lossy(&name).into_owned();
            asked(|probes| probes.attribute(&point, &name)).encoded()
        }
        Question::Room(point, is_write_wanted) => {
            // Whoever asks has the time limit.
            let rooms = SystemRooms { wait_max: Duration::from_secs(3_600) };
            rooms.rooms(&[point], is_write_wanted).pop().unwrap_or(Err(NoRoom::NoAnswer)).encoded()
        }
        Question::Measure(directory) => measure(Path::new(OsStr::from_bytes(&directory))).encoded(),
        Question::Addresses(server) => {
            let found = asked(|probes| Some(probes.addresses(&server))).unwrap_or_default();
            found.iter().map(IpAddr::to_string).collect::<Vec<_>>().encoded()
        }
    }
}

fn asked<T>(ask: impl FnOnce(&SystemProbes) -> Option<T>) -> Option<T> {
    SystemProbes::new().ok().and_then(|probes| ask(&probes))
}

/// Resolves name by name, so that no automounter is triggered: only links that are on a mounted file system are read.
fn resolved(path: &[u8]) -> Option<Vec<u8>> {
    let probes = SystemProbes::new().ok()?;
    let table = MountTable::read(&Silent::on(probes.host())).ok()?;
    let is_automounter = |path: &[u8]| table.mount_of(path).is_some_and(|mount| mount.kind == b"autofs");
    let (mut whole, mut rest) = (Vec::new(), names(path));
    let mut links = 0;
    while let Some(name) = rest.pop() {
        match &name[..] {
            b"" | b"." => continue,
            b".." => {
                let end = whole.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                whole.truncate(end);
                continue;
            }
            _ => {}
        }
        let next = [&whole[..], b"/", &name].concat();
        let target = if is_automounter(&next) { None } else { probes.link(&next) };
        match target {
            Some(target) if links < LINKS_MAX => {
                links += 1;
                if target.first() == Some(&b'/') {
                    whole.clear();
                }
                rest.extend(names(&target));
            }
            _ => whole = next,
        }
    }
    Some(if whole.is_empty() { b"/".to_vec() } else { whole })
}

/// The names of a path, the last one first.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec).collect()
}

/// Answers, if this is the process for it; returns its exit code.
pub(crate) fn answer(words: &[OsString]) -> Option<u8> {
    let [_, word, question] = words else { return None };
    if word != WORD {
        return None;
    }
    let question = question.to_str().and_then(unhex).and_then(|bytes| Question::decode_all(&bytes));
    let Some(question) = question else { return Some(exit::USAGE) };
    let written = std::io::stdout().write_all(&answered(question));
    Some(if written.is_ok() { exit::DONE } else { exit::FATAL })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_name_by_name() {
        let scratch = atta_testkit::scratch::Scratch::new("resolve").unwrap();
        let top = scratch.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, top.join(name)).unwrap();
        link("a", "to-a");
        link("../to-a/b", "a/up");
        link(top.join("a/up").to_str().unwrap(), "absolute");
        link("loop", "loop");
        let of = |path: &str| {
            let found = resolved(top.join(path).as_os_str().as_bytes()).unwrap();
            String::from_utf8(found).unwrap().strip_prefix(top.to_str().unwrap()).unwrap().to_owned()
        };
        assert_eq!(of("to-a/b/../b/none"), "/a/b/none");
        assert_eq!(of("absolute/x"), "/a/b/x");
        assert_eq!(of("a/./up"), "/a/b");
        assert_eq!(of("loop"), "/loop");
        assert_eq!(resolved(b"/..").unwrap(), b"/");
    }

    #[test]
    fn other_words_are_no_question() {
        let words = |words: &[&str]| answer(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(words(&["atta", "walk", "x"]), None);
        assert_eq!(words(&["atta", WORD]), None);
        assert_eq!(words(&["atta", WORD, "zz"]), Some(exit::USAGE));
    }
}
