//! One data set in one place, and contests over it: who competes, in words, becomes a command with paths.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::Place;
use super::set::Set;
use crate::census::Census;
use crate::contest::{Contender, Outcome, Product, Rules, hold};
use crate::report::hide;
use crate::turns::BenchResult;

/// Somebody who competes, with words where paths will be: SOURCE, SOURCE/, EMPTY, TARGET, TARGET/, LIST, SCRATCH.
#[derive(Clone, Debug)]
pub(crate) struct Entrant {
    /// The name in tables.
    pub(crate) name: String,
    /// The program's path and its arguments.
    pub(crate) words: Vec<OsString>,
    /// What a reader must know to compare it.
    pub(crate) note: &'static str,
    /// Ratios compare with it; with the fastest, where there are several.
    pub(crate) is_base: bool,
}

impl Entrant {
    /// A program with arguments.
    pub(crate) fn new(name: impl Into<String>, program: &Path, words: &[&str], note: &'static str) -> Self {
        Self { name: name.into(), words: vec![program.into()], note, is_base: false }.with(words)
    }

    /// With more arguments.
    pub(crate) fn with(mut self, words: &[&str]) -> Self {
        self.words.extend(words.iter().map(OsString::from));
        self
    }

    /// The command as it is published: no path of this machine.
    pub(crate) fn shown(&self) -> String {
        self.words.iter().map(|word| shown(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }
}

/// A word of a command: the last name of a path, also behind `NAME=`, as launchers are given some.
fn shown(word: &str) -> String {
    if ["SOURCE/", "TARGET/"].contains(&word) {
        return word.to_owned();
    }
    if word.contains("\"$1\"") {
        // A script, which has no paths of its own.
        return format!("'{}'", word.split_whitespace().collect::<Vec<_>>().join(" "));
    }
    let (name, path) = word.split_once("=/").map_or(("", word), |(_, path)| {
        let name = &word[..word.len() - path.len() - 1];
        (name, path)
    });
    let text = format!("{name}{}", path.rsplit('/').next().unwrap_or(path));
    if text.is_empty() || text.contains([' ', '"', '$']) { format!("'{text}'") } else { text }
}

/// A data set in a place.
pub(crate) struct Trial<'run> {
    /// Where.
    pub(crate) place: &'run Place,
    /// What.
    pub(crate) set: &'run Set,
    /// How it is run.
    pub(crate) rules: &'run Rules,
    /// The command of each contender there was, by what it was called.
    pub(crate) commands: &'run RefCell<BTreeMap<String, String>>,
    census: Census,
}

impl<'run> Trial<'run> {
    /// Makes the data set.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn new(
        place: &'run Place,
        set: &'run Set,
        rules: &'run Rules,
        commands: &'run RefCell<BTreeMap<String, String>>,
    ) -> BenchResult<Self> {
        let census = Census::default();
        let mut trial = Self { place, set, rules, commands, census };
        let made = |name| std::fs::create_dir(trial.path(name)).map_err(|error| format!("{name}: {error}"));
        ["EMPTY", "SCRATCH"].into_iter().try_for_each(made)?;
        let source = trial.path("SOURCE");
        set.make(&source)?;
        trial.census = Census::of(&source).map_err(|error| format!("counting the source: {error}"))?;
        Ok(trial)
    }

    /// Makes the list for the raw limit, of which `copy_limit` is the program: of a deep tree it is longer than the memory.
    ///
    /// # Errors
    ///
    /// What the program says, or how it ended.
    pub(crate) fn with_list(self, copy_limit: &Path) -> BenchResult<Self> {
        let listed = Command::new(copy_limit).arg("--list").arg(self.path("SOURCE")).output();
        let listed = listed.map_err(|error| format!("starting copy-limit: {error}"))?;
        if !listed.status.success() {
            let said = String::from_utf8_lossy(&listed.stderr);
            return Err(format!("copy-limit --list: {}: {}", listed.status, said.trim()));
        }
        std::fs::write(self.path("LIST"), listed.stdout).map_err(|error| format!("LIST: {error}"))?;
        Ok(self)
    }

    /// What a word stands for.
    fn path(&self, word: &str) -> PathBuf {
        self.place.root.join(word.to_lowercase())
    }

    /// Runs all in turns, and keeps their commands.
    ///
    /// # Errors
    ///
    /// If what a contender left cannot be removed.
    pub(crate) fn hold(&self, entrants: Vec<Entrant>, log: &dyn Fn(&str)) -> BenchResult<Vec<Outcome>> {
        let mut commands = self.commands.borrow_mut();
        commands.extend(entrants.iter().map(|entrant| (entrant.name.clone(), entrant.shown())));
        drop(commands);
        let contenders = entrants.into_iter().map(|entrant| self.contender(entrant)).collect();
        let outcomes = hold(contenders, self.rules, log);
        let mut outcomes = outcomes.map_err(|error| format!("between two runs: {error}"))?;
        let root = self.place.root.clone();
        for outcome in &mut outcomes {
            outcome.runs = std::mem::replace(&mut outcome.runs, Ok(vec![]))
                .map_err(|reason| hide(&reason, &[(&root, "PLACE")]));
        }
        Ok(outcomes)
    }

    fn contender(&self, entrant: Entrant) -> Contender {
        let Entrant { name, words, note, is_base } = entrant;
        // What is not copied leaves no more than an empty directory.
        let is_empty = words.iter().any(|word| word == "EMPTY");
        let command = words.into_iter().map(|word| match word.to_str() {
            Some("SOURCE" | "EMPTY" | "TARGET" | "LIST" | "SCRATCH") => {
                self.path(&word.to_string_lossy()).into()
            }
            Some("SOURCE/" | "TARGET/") => {
                self.path(&word.to_string_lossy().replace('/', "")).join("").into()
            }
            _ => word,
        });
        let product = Product {
            path: self.path("TARGET"),
            expected: Some(if is_empty { Census::default() } else { self.census }),
            synced: self.place.is_disk.then(|| self.place.root.clone()),
            warmed: self.place.is_disk.then(|| self.path("SOURCE")),
        };
        Contender { name, command: command.collect(), note, is_limit: is_base, product: Some(product) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_without_directories() {
        let mut entrant = Entrant::new("x", Path::new("/opt/bin/tool"), &["-t", "SCRATCH", "SOURCE/"], "");
        assert_eq!(entrant.shown(), "tool -t SCRATCH SOURCE/");
        entrant.words.insert(0, "PLUGIN=/home/me/x.so".into());
        entrant.words.push("".into());
        entrant.words.push("cp \"$1\"".into());
        assert_eq!(entrant.shown(), "PLUGIN=x.so tool -t SCRATCH SOURCE/ '' 'cp \"$1\"'");
        let script = Entrant::new("x", Path::new("/bin/sh"), &["-c", "\na \"$1/b\" |\n \"$1\""], "");
        assert_eq!(script.shown(), "sh -c 'a \"$1/b\" | \"$1\"'");
    }
}
