//! Names in a generated tree: a letter and a number, or a hostile name. Hostile names break programs that split on newlines, take names for
//! text or options, or print them raw. Pure.

use super::random::{Purpose, Stream};
use super::spec::Spec;

/// Length limit of names on Linux, in bytes.
const NAME_MAX: usize = 255;

/// A node of the tree, by its number among nodes of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory; 0 is the target.
    Directory(u32),
    /// A file.
    File(u64),
    /// A symbolic link.
    Symlink(u64),
    /// An additional name of a file.
    HardLink(u64),
}

/// Text around the letter and number of a hostile name. No text contains a digit after one of the letters `d`, `f`, `h`, `s`, or starts
/// with a digit after the tag. So the tag can be parsed, and all names are different.
const SURROUNDINGS: &[(&[u8], &[u8])] = &[
    (b"", b"\n"),
    (b"\n", b"\nline"),
    (b"tab\t", b""),
    (b"\x1b[31m", b"\x1b[0m"),
    (b"\x1b]0;title\x07", b""),
    (b"-", b""),
    (b"--", b"="),
    (b"*", b""),
    (b"?[a-z]", b""),
    (b" ", b""),
    (b"", b" "),
    (b"'", b"\"`"),
    (b"\\", b"\\n"),
    (b"$(", b")"),
    (b"~", b"#"),
    (b"...", b"."),
    (b".", b".hidden"),
    (b"a,b;c|", b"&"),
    (b"", b"\r"),
    (b"\x08\x07", b"\x7f"),
    (b"c1 \xc2\x9b", b""),
    (b"\xff\xfe", b""),
    (b"", b"\xe2\x82"),
    (b"\xc0\xaf", b"\xed\xa0\x80"),
    (b"\xc3\xa9", b"e\xcc\x81"),
    (b"\xe2\x80\xae", b"txt.exe"),
    (b"\xe2\x80\x8b", b"\xef\xbb\xbf"),
    (b"\xf0\x9f\x93\x81", b":stream"),
];

/// The names of one tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    seed: u64,
    hostile: f64,
}

impl Names {
    pub(crate) fn new(spec: &Spec) -> Self {
        Self { seed: spec.seed, hostile: spec.hostile_names }
    }

    /// Returns the name of a node, 1 to 255 bytes, unique in the whole tree. The target has none.
    pub(crate) fn of(self, node: Node) -> Vec<u8> {
        let (letter, index, purpose) = match node {
            Node::Directory(index) => ('d', u64::from(index), Purpose::DirectoryName),
            Node::File(index) => ('f', index, Purpose::FileName),
            Node::Symlink(index) => ('s', index, Purpose::SymlinkName),
            Node::HardLink(index) => ('h', index, Purpose::HardLinkName),
        };
        let tag = format!("{letter}{index}").into_bytes();
        let stream = Stream::new(self.seed, purpose);
        if self.hostile > 0.0 && stream.is_in(index, self.hostile) {
            hostile(&tag, stream.at(!index))
        } else {
            tag
        }
    }
}

fn hostile(tag: &[u8], random: u64) -> Vec<u8> {
    let choice = (random % (SURROUNDINGS.len() as u64 + 2)) as usize;
    let filler = if choice == SURROUNDINGS.len() { b'x' } else { 0xff };
    match SURROUNDINGS.get(choice) {
        Some((before, after)) => [before, tag, after].concat(),
        None => {
            let mut name = vec![filler; NAME_MAX - tag.len()];
            name.extend_from_slice(tag);
            name
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn plain_names_are_a_letter_and_a_number() {
        let names = Names { seed: 1, hostile: 0.0 };
        assert_eq!(names.of(Node::File(12)), b"f12");
        assert_eq!(names.of(Node::Directory(3)), b"d3");
    }

    #[test]
    fn hostile_names_are_valid_and_unique() {
        for hostile in [0.25, 1.0] {
            let names = Names { seed: 5, hostile };
            let mut seen = HashSet::new();
            for index in 0..20_000 {
                for node in [
                    Node::Directory(index as u32),
                    Node::File(index),
                    Node::Symlink(index),
                    Node::HardLink(index),
                ] {
                    let name = names.of(node);
                    assert!((1..=NAME_MAX).contains(&name.len()));
                    assert!(!name.contains(&b'/') && !name.contains(&0) && name != b"." && name != b"..");
                    assert!(seen.insert(name));
                }
            }
        }
    }

    #[test]
    fn every_kind_of_trouble_is_met() {
        let names = Names { seed: 5, hostile: 1.0 };
        let all: Vec<_> = (0..1000).map(|index| names.of(Node::File(index))).collect();
        assert!(all.iter().any(|name| name.contains(&b'\n')));
        assert!(all.iter().any(|name| name.first() == Some(&b'-')));
        assert!(all.iter().any(|name| name.len() == NAME_MAX && name[0] == 0xff));
        assert!(all.iter().any(|name| name.len() == NAME_MAX && name[0] == b'x'));
        assert!(all.iter().any(|name| std::str::from_utf8(name).is_err()));
        assert!(all.iter().any(|name| name.contains(&0x1b)));
        assert!(all.iter().any(|name| name.starts_with("\u{202e}".as_bytes())));
    }

    #[test]
    fn a_share_of_the_names_is_hostile() {
        let names = Names { seed: 9, hostile: 0.25 };
        let count = (0..10_000)
            .filter(|&index| names.of(Node::File(index)) != format!("f{index}").as_bytes())
            .count();
        assert!((2_300..2_700).contains(&count), "{count}");
    }
}
