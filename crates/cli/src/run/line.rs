//! The command line of this process, without the option that `atta launch` adds: `atta --outcome FILE COMMAND...`. Neither the help nor a
//! recorded command line has that option, and it changes no job. It does not interpret other arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The option. It is valid only as the first argument.
pub(crate) const OPTION: &str = "--outcome";

static LINE: LazyLock<Line> = LazyLock::new(|| Line::new(std::env::args_os().collect()));

/// A command line.
#[derive(Debug, PartialEq)]
struct Line {
    /// With the program's name.
    words: Vec<OsString>,
    outcome: Option<PathBuf>,
}

impl Line {
    fn new(mut words: Vec<OsString>) -> Self {
        let has_option = words.len() > 2 && words[1] == OPTION;
        let outcome = has_option.then(|| words.drain(1..3).next_back()).flatten().map(PathBuf::from);
        Self { words, outcome }
    }
}

/// All arguments, with the program's name.
pub(crate) fn words() -> &'static [OsString] {
    &LINE.words
}

/// All arguments, without the program's name.
pub(crate) fn arguments() -> &'static [OsString] {
    LINE.words.get(1..).unwrap_or_default()
}

/// The file that `atta launch` reads when the launcher has ended.
pub(crate) fn outcome() -> Option<&'static Path> {
    LINE.outcome.as_deref()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn line(words: &[&[u8]]) -> Line {
        Line::new(words.iter().map(|word| OsString::from_vec(word.to_vec())).collect())
    }

    #[test]
    fn option_is_taken_out() {
        let given = line(&[b"atta", b"--outcome", b"/a\xff", b"copy", b"\xfe", b"--outcome", b"x"]);
        assert_eq!(given.outcome, Some(PathBuf::from(OsString::from_vec(b"/a\xff".to_vec()))));
        assert_eq!(
            given,
            Line { outcome: given.outcome.clone(), ..line(&[b"atta", b"copy", b"\xfe", b"--outcome", b"x"]) }
        );
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        let lines: [&[&[u8]]; 4] =
            [&[], &[b"atta"], &[b"atta", b"--outcome"], &[b"atta", b"copy", b"--outcome", b"x"]];
        for words in lines {
            let expected = words.iter().map(|word| OsString::from_vec(word.to_vec())).collect();
            assert_eq!(line(words), Line { words: expected, outcome: None });
        }
    }
}
