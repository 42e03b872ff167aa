//! The words of COMMAND: the launcher's, and those of `atta` behind them, which get the option `--outcome`. Words are bytes and are passed on
//! unchanged. It starts nothing.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::options::Hosts;
use crate::run::file::printable;
use crate::run::line;
use crate::run::refused::Refused;

/// The commands of `atta` that `atta launch` runs.
const COMMANDS: [&str; 5] = ["walk", "copy", "sum", "verify", "resume"];
/// Launchers whose options are known; their names may have an ending, as in `mpirun.openmpi`.
const LAUNCHERS: [&str; 5] = ["mpirun", "mpiexec", "orterun", "prterun", "prun"];

/// A command with at least one `atta`.
pub(super) struct Words {
    words: Vec<OsString>,
    /// Indexes of the words that name `atta`: of an MPI command with several parts (`:`) at most one in each part.
    programs: Vec<usize>,
}

impl Words {
    pub(super) fn new(command: &[OsString]) -> Result<Self, Refused> {
        let (mut programs, mut begin) = (Vec::new(), 0);
        for part in command.split(|word| word == ":") {
            programs.extend(program_of(part).map(|index| begin + index));
            begin += part.len() + 1;
        }
        if programs.is_empty() {
            let what = format!("COMMAND has no word atta followed by one of {}", COMMANDS.join(", "));
            return Err(Refused::usage(
                what,
                "for example: atta launch -- mpirun -np 4 atta copy /data /backup",
            ));
        }
        Ok(Self { words: command.to_vec(), programs })
    }

    /// The launcher's name, for messages.
    pub(super) fn launcher(&self) -> String {
        let known = self.before().iter().find(|word| is_launcher(word));
        let path = known.or(self.words.first()).map_or(Path::new(""), Path::new);
        printable(path.file_name().map_or(path, Path::new))
    }

    /// The words before the first `atta`.
    pub(super) fn before(&self) -> &[OsString] {
        self.words.get(..self.first()).unwrap_or_default()
    }

    /// The hosts that the launcher's options name. None: there are no such options, or their meaning is not known for certain.
    pub(super) fn hosts(&self) -> Option<Hosts> {
        let before = self.before();
        let has_parts = self.words.iter().any(|word| word == ":");
        let launcher = before.iter().position(|word| is_launcher(word))?;
        if has_parts { None } else { Hosts::of(before, launcher) }
    }

    /// The command with other words before `atta`, and the file that the ranks write. `goes_on`: its job has begun before, so that it must
    /// not be forgotten.
    pub(super) fn with(&self, before: Vec<OsString>, file: &Path, goes_on: bool) -> Vec<OsString> {
        let (mut words, mut is_option) = (before, false);
        for (index, word) in self.words.iter().enumerate().skip(self.first()) {
            let is_program = self.programs.contains(&index);
            is_option = (is_option || is_program) && word != "--" && word != ":";
            if !(goes_on && is_option && word == "--restart") {
                words.push(word.clone());
            }
            if is_program {
                words.extend([OsString::from(line::OPTION), file.into()]);
            }
        }
        words
    }

    fn first(&self) -> usize {
        self.programs.first().copied().unwrap_or_default()
    }
}

/// The index of the word that names `atta`.
fn program_of(part: &[OsString]) -> Option<usize> {
    part.windows(2).position(|pair| {
        let is_atta = Path::new(&pair[0]).file_name() == Some(OsStr::new("atta"));
        is_atta && COMMANDS.iter().any(|command| pair[1] == *command)
    })
}

fn is_launcher(word: &OsStr) -> bool {
    let name = Path::new(word).file_name().unwrap_or_default().as_bytes();
    let begins = |launcher: &str| name.strip_prefix(launcher.as_bytes());
    LAUNCHERS
        .iter()
        .filter_map(|launcher| begins(launcher))
        .any(|end| matches!(end.first(), None | Some(b'.' | b'-')))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn words(command: &[&str]) -> Option<Words> {
        Words::new(&command.iter().map(OsString::from).collect::<Vec<_>>()).ok()
    }

    fn with(command: &[&str], goes_on: bool) -> Vec<String> {
        let words = words(command).unwrap();
        let all = words.with(words.before().to_vec(), Path::new("/f"), goes_on);
        all.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn option_follows_the_program() {
        let command = ["mpirun", "-np", "3", "/bin/atta", "copy", "atta", "copy"];
        let expected = ["mpirun", "-np", "3", "/bin/atta", "--outcome", "/f", "copy", "atta", "copy"];
        assert_eq!(with(&command, false), expected);
        assert_eq!(with(&["atta", "resume", "x"], false), ["atta", "--outcome", "/f", "resume", "x"]);
        // A directory, and a part of it that is none.
        let named = ["mpirun", "-wdir", "atta", "atta", "walk", "/a"];
        assert_eq!(with(&named, false)[3..6], ["atta", "--outcome", "/f"]);
    }

    #[test]
    fn each_part_gets_the_option() {
        let command = ["mpirun", "-n", "1", "atta", "walk", "/a", ":", "-n", "1", "atta", "walk", "/a"];
        let all = with(&command, false);
        assert_eq!(all.iter().filter(|word| *word == "--outcome").count(), 2, "{all:?}");
        assert_eq!(all[9..14], ["-n", "1", "atta", "--outcome", "/f"]);
    }

    #[test]
    fn job_that_goes_on_is_not_forgotten() {
        let command = ["mpirun", "--restart", "atta", "copy", "--restart", "a", "--", "--restart"];
        assert_eq!(with(&command, false).len(), command.len() + 2);
        let expected = ["mpirun", "--restart", "atta", "--outcome", "/f", "copy", "a", "--", "--restart"];
        assert_eq!(with(&command, true), expected);
    }

    #[test]
    fn command_without_atta_is_refused() {
        let refused: [&[&str]; 7] = [
            &["mpirun", "-np", "3", "hostname"],
            &["mpirun", "atta"],
            &["atta", "jobs"],
            &["atta", "launch", "--", "true"],
            &["atta", "-v", "copy"],
            &["sh", "-c", "atta copy a b"],
            &["atta2", "copy"],
        ];
        for command in refused {
            assert!(words(command).is_none(), "{command:?}");
        }
    }

    #[test]
    fn bytes_are_passed_unchanged() {
        let odd = OsString::from_vec(b"\xff\n\xfe".to_vec());
        let command = [odd.clone(), "atta".into(), "copy".into(), odd.clone()];
        let words = Words::new(&command).ok().unwrap();
        let all = words.with(words.before().to_vec(), Path::new(&odd), true);
        assert_eq!(all, [odd.clone(), "atta".into(), "--outcome".into(), odd.clone(), "copy".into(), odd]);
        assert_eq!(words.launcher(), "\\xff\\n\\xfe");
    }

    #[test]
    fn launchers_are_known_by_name() {
        let are = ["mpirun", "/opt/bin/mpiexec", "mpiexec.hydra", "mpirun-5.0", "prterun"];
        assert!(are.iter().all(|name| is_launcher(OsStr::new(name))));
        assert!(!["srun", "mpirunner", "env", "", "/"].iter().any(|name| is_launcher(OsStr::new(name))));
    }
}
