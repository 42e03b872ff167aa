//! Names that break programs which split on newlines, take names for text or for options, or print them raw. Holds no
//! names that Linux itself refuses (a slash, a NUL byte, 256 bytes).

use std::io;
use std::path::Path;

use rustix::fs::symlinkat;

use super::{make_directory, make_file, open_or_make};

/// The names, each at most 255 bytes long.
pub const HOSTILE_NAMES: &[&[u8]] = &[
    b"new\nline",
    b"\n",
    b"tab\tstop",
    b"escape \x1b[31mred\x1b[0m",
    b"\x1b]0;title\x07",
    b"-rf",
    b"--",
    b"*",
    b"?[a-z]",
    b" leading space",
    b"trailing space ",
    b" ",
    b"'single' \"double\" `back`",
    b"back\\slash",
    b"\\n",
    b"\\303\\251",
    b"$(reboot)",
    b"$HOME",
    b"~",
    b"...",
    b".hidden",
    b"#",
    b"a,b;c|d&e",
    b"carriage\rreturn",
    b"bell\x07 backspace\x08 delete\x7f",
    b"c1 \xc2\x9b31m",
    b"invalid \xff\xfe utf-8",
    b"cut \xe2\x82",
    b"overlong \xc0\xaf",
    b"surrogate \xed\xa0\x80",
    // U+00E9 and the same letter as e with U+0301: two names on Linux, one on file systems that normalise.
    b"normal \xc3\xa9",
    b"normal e\xcc\x81",
    b"Case",
    b"case",
    // U+202E turns what follows right to left: it shows as "exe.txt" without being one.
    b"rtl \xe2\x80\xaetxt.exe",
    b"zero\xe2\x80\x8bwidth",
    b"\xef\xbb\xbfmark",
    b"\xf0\x9f\x93\x81",
    b"CON",
    b"name:stream",
    &[b'x'; 255],
    &[0xff; 255],
    b"last.",
];

/// Files, directories (with a file of the same name in each) and symlinks (each to its own name, so in a loop) with
/// every one of [`HOSTILE_NAMES`], in `files`, `directories` and `links`.
///
/// # Errors
/// What making an entry said; file systems that want UTF-8 or fold case refuse some.
pub fn hostile_names(directory: &Path) -> io::Result<u64> {
    let top = open_or_make(directory)?;
    let files = make_directory(&top, b"files")?;
    let directories = make_directory(&top, b"directories")?;
    let links = make_directory(&top, b"links")?;
    let mut made = 3;
    for name in HOSTILE_NAMES {
        make_file(&files, name, name)?;
        let inner = make_directory(&directories, name)?;
        make_file(&inner, name, b"")?;
        // Targets are bytes from the disk too, and must come through as the names do.
        symlinkat(*name, &links, *name)?;
        made += 4;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{oracle, scratch::Scratch};

    #[test]
    fn names_are_distinct_and_fit() {
        let distinct: BTreeSet<_> = HOSTILE_NAMES.iter().collect();
        assert_eq!(distinct.len(), HOSTILE_NAMES.len());
        let fits =
            |name: &&[u8]| (1..=255).contains(&name.len()) && !name.contains(&b'/') && !name.contains(&0);
        assert!(HOSTILE_NAMES.iter().all(fits));
    }

    #[test]
    fn every_name_is_there_in_every_kind() {
        let scratch = Scratch::new("names").unwrap();
        let made = hostile_names(scratch.path()).unwrap();
        let found = oracle::list(scratch.path()).unwrap();
        assert_eq!(u64::try_from(found.len()).unwrap(), made + 1);
        for (kind, count) in [('f', 2), ('d', 1), ('l', 1)] {
            let expected = HOSTILE_NAMES.len() * count + if kind == 'd' { 4 } else { 0 };
            let of_kind = found.values().filter(|record| record.kind == kind).count();
            assert_eq!(of_kind, expected, "{kind}");
        }
        let targets: BTreeSet<_> = found.values().filter_map(|record| record.target.clone()).collect();
        assert!(HOSTILE_NAMES.iter().all(|name| targets.contains(*name)));
    }
}
