//! Include and exclude rules in gitignore syntax, which select the entries of a walk. Pure; the `ignore` crate does the matching.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// One rule: a pattern in gitignore syntax, matched against the path below the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Leaves out entries that match. A directory that is left out is not entered.
    Exclude(String),
    /// Keeps entries that match, whatever an earlier rule says.
    Include(String),
}

/// Rules in the order given; the last one that matches decides. An entry that no rule matches stays, unless the first rule is an include.
/// Then files that no rule matches are left out (as in GNU grep), and directories stay, because included files may lie below.
#[derive(Clone, Debug)]
pub struct Rules {
    matcher: Gitignore,
    only_included: bool,
}

/// An invalid pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule {
    /// The pattern as it was given.
    pub pattern: String,
    /// What is wrong with it.
    pub reason: String,
}

impl std::fmt::Display for BadRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pattern {:?}: {}", self.pattern, self.reason)
    }
}

impl std::error::Error for BadRule {}

impl Rules {
    /// Compiles the rules.
    ///
    /// # Errors
    /// The first pattern that is not a valid glob.
    pub fn new(rules: &[Rule]) -> Result<Self, BadRule> {
        let mut builder = GitignoreBuilder::new("");
        // git takes an unclosed class as plain text; in an option it is far more likely a mistake.
        builder.allow_unclosed_class(false);
        for rule in rules {
            let (pattern, line) = match rule {
                Rule::Exclude(pattern) => (pattern, pattern.clone()),
                Rule::Include(pattern) => (pattern, format!("!{pattern}")),
            };
            let bad = |reason: String| BadRule { pattern: pattern.clone(), reason };
            if pattern.is_empty() || pattern.starts_with('!') || pattern.starts_with('#') {
                return Err(bad(
                    "is empty, a comment or a negation; use --include to keep what matches".into()
                ));
            }
            builder.add_line(None, &line).map_err(|error| bad(error.to_string()))?;
        }
        let matcher =
            builder.build().map_err(|error| BadRule { pattern: String::new(), reason: error.to_string() })?;
        Ok(Self { matcher, only_included: matches!(rules.first(), Some(Rule::Include(_))) })
    }

    /// Whether an entry is left out. `path` is below the root, without a leading slash.
    #[must_use]
    pub fn exclude(&self, path: &[u8], is_directory: bool) -> bool {
        match self.matcher.matched(Path::new(OsStr::from_bytes(path)), is_directory) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => self.only_included && !is_directory,
        }
    }

    /// Whether an entry or a directory above it is left out, so that a walk from the root never shows it. The path is below the root, in
    /// plain form. The root itself is never left out.
    #[must_use]
    pub fn hides(&self, path: &[u8], is_directory: bool) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let is_above = ends.map(|end| &path[..end]).any(|directory| self.exclude(directory, true));
        is_above || (!path.is_empty() && self.exclude(path, is_directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: &[Rule]) -> Rules {
        Rules::new(rules).unwrap()
    }

    #[test]
    fn what_is_in_a_directory_that_is_left_out_is_hidden() {
        let rules = rules(&[Rule::Exclude("cache/".into()), Rule::Include("keep".into())]);
        assert!(rules.hides(b"a/cache/keep", false) && rules.hides(b"cache", true));
        assert!(!rules.hides(b"cache", false) && !rules.hides(b"a/b", false) && !rules.hides(b"", true));
    }

    #[test]
    fn the_last_rule_that_matches_decides() {
        let rules = rules(&[Rule::Exclude("*.o".into()), Rule::Include("keep.o".into())]);
        assert!(rules.exclude(b"a/x.o", false));
        assert!(!rules.exclude(b"a/keep.o", false));
        assert!(!rules.exclude(b"a/x.c", false));
    }

    #[test]
    fn an_include_first_keeps_only_what_matches() {
        let rules = rules(&[Rule::Include("*.c".into())]);
        assert!(!rules.exclude(b"a/x.c", false));
        assert!(rules.exclude(b"a/x.h", false));
        assert!(!rules.exclude(b"a", true));
    }

    #[test]
    fn gitignore_syntax() {
        let rules = rules(&[
            Rule::Exclude("/top".into()),
            Rule::Exclude("cache/".into()),
            Rule::Exclude("a/**/z".into()),
        ]);
        assert!(rules.exclude(b"top", false) && !rules.exclude(b"sub/top", false));
        assert!(rules.exclude(b"x/cache", true) && !rules.exclude(b"x/cache", false));
        assert!(rules.exclude(b"a/b/c/z", false));
        assert!(!rules.exclude(b"caf\xe9", false));
    }

    #[test]
    fn a_bad_pattern_is_named() {
        let error = Rules::new(&[Rule::Exclude("a[".into())]).unwrap_err();
        assert_eq!(error.pattern, "a[");
        assert!(Rules::new(&[Rule::Exclude(String::new())]).is_err());
    }
}
