//! Commands that messages of `atta copy` advise, quoted for a shell. Run literally, each does what its message says. No I/O.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use atta_entry::shell_quote;

use super::arguments::CopyArguments;
use super::summary::Whole;

/// How to resume a copy that ended early, and how to remove its leftovers.
pub(super) fn advice(arguments: &CopyArguments, outcome: &Whole, was_interrupted: bool) -> Vec<String> {
    let rest = rest(arguments, outcome, was_interrupted);
    let left = outcome.leftovers.as_ref();
    let left = left.map(|left| format!("remove what is left with: {}", left.command()));
    rest.into_iter().chain(left).collect()
}

fn rest(arguments: &CopyArguments, outcome: &Whole, was_interrupted: bool) -> Option<String> {
    if arguments.dry_run || !(was_interrupted || outcome.parked) {
        return None;
    }
    let mut text = match outcome.parked {
        true => "make room in TARGET, then copy the rest with: ".to_owned(),
        false => "copy the rest with: ".to_owned(),
    };
    let words: Vec<_> = std::env::args_os().collect();
    text.push_str(&continuation(&words, arguments, outcome.target_is_name));
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
    let leaves = arguments.update || arguments.ignore_existing;
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
        assert_eq!(continued(&["atta", "copy", "a b", "it's"], false), r"atta copy --update 'a b' 'it'\''s'");
        assert_eq!(
            continued(&["atta", "copy", "--update", "-T", "a", "b"], true),
            "atta copy --update -T a b"
        );
        let kept = continued(&["./atta", "copy", "--ignore-existing", "--", "-a", "b"], true);
        assert_eq!(kept, "./atta copy -T --ignore-existing -- -a b");
    }
}
