//! Commands that messages of `atta copy` advise, quoted for a shell. Run literally, each does what its message says. No I/O.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use atta_entry::shell_quote;

use super::arguments::CopyArguments;
use super::summary::Whole;

/// How to resume a copy that ended early and has no job to go on with, and how to remove its leftovers. `words`: the command.
pub(super) fn advice(
    arguments: &CopyArguments,
    outcome: &Whole,
    (words, was_interrupted, has_job): (&[OsString], bool, bool),
) -> Vec<String> {
    let changed = outcome.earlier.as_ref().filter(|earlier| earlier.has_changed()).map(|_| {
        let command = continuation(&without_job(words), arguments, outcome.target_is_name);
        format!("copy what has changed since with: {command}")
    });
    // How to go on with a job is said elsewhere.
    let rest = if has_job { None } else { rest(arguments, outcome, (words, was_interrupted)) };
    let rest = changed.or(rest);
    let left = outcome.leftovers.as_ref();
    let left = left.map(|left| format!("remove what is left with: {}", left.command()));
    rest.into_iter().chain(left).collect()
}

/// The words of a command without the options for its job.
fn without_job(words: &[OsString]) -> Vec<OsString> {
    let (mut kept, mut is_value) = (Vec::new(), false);
    // What follows `--` is no option.
    let options = words.iter().position(|word| word == "--").unwrap_or(words.len());
    for word in &words[..options] {
        let is_option = word == "--job" || word == "--restart" || word.as_bytes().starts_with(b"--job=");
        if !is_option && !is_value {
            kept.push(word.clone());
        }
        is_value = word == "--job" && !is_value;
    }
    kept.extend_from_slice(&words[options..]);
    kept
}

fn rest(
    arguments: &CopyArguments,
    outcome: &Whole,
    (words, was_interrupted): (&[OsString], bool),
) -> Option<String> {
    if arguments.dry_run || arguments.job.is_some() || !(was_interrupted || outcome.parked) {
        return None;
    }
    let mut text = match outcome.parked {
        true => "make room in TARGET, then copy the rest with: ".to_owned(),
        false => "copy the rest with: ".to_owned(),
    };
    text.push_str(&continuation(words, arguments, outcome.target_is_name));
    if outcome.ranks.len() > 1 {
        text.push_str(" (with the same launcher)");
    }
    if arguments.from_list.as_deref() == Some(Path::new("-")) {
        text.push_str(" (with the same list)");
    }
    Some(text)
}

/// The command that resumes the one made of `words`: the same command, with options to skip what was copied and to keep the meaning of
/// TARGET, which exists now.
fn continuation(words: &[OsString], arguments: &CopyArguments, target_is_name: bool) -> String {
    // A repair finds out by itself what may stay.
    let leaves = arguments.update || arguments.ignore_existing || arguments.repair.is_some();
    let mut added = Vec::new();
    if !leaves {
        added.push("--update");
    }
    if target_is_name && !arguments.no_target_directory {
        added.push("-T");
    }
    // Options go after the program and the word `copy`.
    let (command, rest) = words.split_at(words.len().min(2));
    let quoted = |words: &[OsString]| words.iter().map(|word| shell_quote(word.as_bytes())).collect();
    let parts: [Vec<String>; 3] =
        [quoted(command), added.into_iter().map(str::to_owned).collect(), quoted(rest)];
    parts.concat().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};

    use super::*;

    fn continued(words: &[&str], target_is_name: bool) -> String {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let command = CopyArguments::augment_args(clap::Command::new("copy"));
        let matches = command.get_matches_from(&words[1..]);
        let arguments = CopyArguments::from_arg_matches(&matches).unwrap();
        continuation(&words, &arguments, target_is_name)
    }

    #[test]
    fn advised_command_continues_into_the_same_target() {
        assert_eq!(continued(&["atta", "copy", "big", "new"], true), "atta copy --update -T big new");
        let repair = ["atta", "copy", "--repair", "list", "a", "b"];
        assert_eq!(continued(&repair, false), "atta copy --repair list a b");
        assert_eq!(continued(&["atta", "copy", "a b", "it's"], false), r"atta copy --update 'a b' 'it'\''s'");
        assert_eq!(
            continued(&["atta", "copy", "--update", "-T", "a", "b"], true),
            "atta copy --update -T a b"
        );
        let words = ["atta", "copy", "--job", "--job", "--job=x", "--restart", "a", "--", "--job"];
        let kept: Vec<_> = without_job(&words.map(OsString::from));
        assert_eq!(kept, ["atta", "copy", "a", "--", "--job"]);
        let kept = continued(&["./atta", "copy", "--ignore-existing", "--", "-a", "b"], true);
        assert_eq!(kept, "./atta copy -T --ignore-existing -- -a b");
    }
}
