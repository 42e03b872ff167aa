//! Lists in every form, complete and broken, and round trips of hostile names.

use atta_entry::{Errno, Failure, Operation};
use proptest::prelude::*;

use super::*;
use crate::failure_row;

fn read(list: &[u8]) -> Result<Vec<Listed>> {
    ListReader::new(list)?.collect()
}

fn paths(list: &[u8]) -> Vec<Vec<u8>> {
    read(list).unwrap().into_iter().map(|listed| listed.path).collect()
}

fn message(list: &[u8]) -> String {
    read(list).unwrap_err().to_string()
}

#[test]
fn nul_separated_lists() {
    assert!(paths(b"").is_empty());
    assert_eq!(paths(b"a\0b\nc\0"), [&b"a"[..], b"b\nc"]);
    assert_eq!(paths(b"a\0b\nc"), [&b"a"[..], b"b\nc"], "a last item without its NUL");
    assert_eq!(paths(b"alone"), [b"alone"]);
    assert_eq!(paths(b"{\0}\0"), [b"{", b"}"], "a name that begins as JSON does");
}

#[test]
fn a_line_separated_list_is_refused() {
    assert!(message(b"a\nb\n").contains("neither NUL-separated nor NDJSON"));
    assert!(message(b"a\n").contains("find -print0"));
    let long = b"some/path\n".repeat(PATH_BYTES_MAX / 5);
    assert!(matches!(read(&long), Err(Error::ListForm)));
}

#[test]
fn rows() {
    let list =
        b"{\"path\":\"r/a\",\"kind\":\"file\",\"depth\":1}\n\n \r\n{\"path\":\"?\",\"path_raw\":\"72FF\",\
                 \"root\":\"r\",\"root_raw\":null}";
    assert_eq!(
        read(list).unwrap(),
        [
            Listed { root: None, path: b"r/a".to_vec(), change: None },
            Listed { root: Some(b"r".to_vec()), path: b"r\xff".to_vec(), change: None },
        ]
    );
}

// Hazard 37.
#[test]
fn rows_of_differences_have_fields_and_roots() {
    let list = b"{\"path\":\"\",\"change\":\"different\",\"kind\":\"directory\",\"fields\":{\"mtime\":{}}}\n\
                 {\"path\":\"a\",\"change\":\"missing\",\"kind\":\"file\"}\n\
                 {\"path\":\"b\",\"change\":\"extra\",\"kind\":\"file\"}\n\
                 {\"path\":\"c\",\"change\":\"different\",\"fields\":{\"size\":{},\"content\":{\"offset\":1}}}\n\
                 {\"path\":\"d\",\"change\":\"different\",\"fields\":{\"links\":[{\"with\":\"a\"}]}}\n";
    let changes: Vec<_> = read(list).unwrap().into_iter().map(|listed| listed.change.unwrap()).collect();
    let different = |content, links| ListedChange::Different { content, links };
    assert_eq!(
        changes,
        [
            different(false, false),
            ListedChange::Missing,
            ListedChange::Extra,
            different(true, false),
            different(false, true),
        ]
    );
    assert_eq!(
        message(b"{\"path\":\"a\",\"change\":\"gone\"}\n"),
        "list line 1, column 0: an unknown change"
    );
    assert_eq!(
        message(b"{\"path\":\"../a\",\"change\":\"missing\"}\n"),
        "list item 1: path has a `..` component"
    );
}

#[test]
fn ambiguous_lines_are_refused() {
    let read = |list: &[u8]| ListReader::lines(list).collect::<Result<Vec<_>>>();
    let paths = |list: &[u8]| read(list).unwrap().into_iter().map(|listed| listed.path).collect::<Vec<_>>();
    assert_eq!(paths(b"a b\n{\"path\"\n\"x\n\xff"), [&b"a b"[..], b"{\"path\"", b"\"x", b"\xff"]);
    assert!(paths(b"").is_empty());
    for (line, reason) in [
        ("a\\nb", "a backslash"),
        ("", "an empty line"),
        ("a\r", "a carriage return"),
        ("\"a b\"", "quotation marks"),
        ("'a b'", "quotation marks"),
        ("a\0b", "a NUL"),
    ] {
        let said = read(format!("ok\n{line}\n").as_bytes()).unwrap_err().to_string();
        assert!(said.starts_with("list line 2 may stand for more than one name: "), "{said}");
        assert!(said.contains(reason), "{said}");
    }
    assert_eq!(read(b"a/../b\n").unwrap_err().to_string(), "list item 1: path has a `..` component");
}

#[test]
fn broken_items_are_named() {
    assert_eq!(message(b"a\0\0"), "list item 2: empty path");
    assert_eq!(message(b"a\0b/../c\0"), "list item 2: path has a `..` component");
    assert_eq!(message(b"a..b\0..c\0..\0"), "list item 3: path has a `..` component");
    assert_eq!(message(b"{\"path\":\"\"}\n"), "list item 1: empty path");
    assert_eq!(message(b"{\"path\":\"a\\u0000\"}\n"), "list item 1: path holds a NUL");
    assert_eq!(message(b"{\"path\":\"a\",\"path_raw\":\"6100\"}\n"), "list item 1: path holds a NUL");
    assert_eq!(
        message(b"{\"path\":\"a\"}\n{\"path\":\"a\",\"path_raw\":\"6\"}\n"),
        "list line 2: path_raw is not an even number of hexadecimal digits"
    );
    assert_eq!(
        message(b"{\"path\":\"a\"}\n\n{\"paht\":\"a\"}\n"),
        "list line 3, column 12: missing field `path`"
    );
    assert_eq!(message(b"{\"path\":\"a\"}\nb\n"), "list line 2, column 1: expected value");
    assert_eq!(message(b"{\"path\":\"\xff\"}\n"), "list line 1, column 10: invalid unicode code point");
}

#[test]
fn an_error_ends_a_list() {
    let mut list = ListReader::new(&b"\0a\0"[..]).unwrap();
    assert!(list.next().unwrap().is_err());
    assert!(list.next().is_none());
}

#[test]
fn a_root_may_lie_above_but_nothing_below_it() {
    let row = |path: &str| format!("{{\"path\":\"{path}\",\"root\":\"../r\"}}\n").into_bytes();
    assert_eq!(paths(&row("../r/a")), [b"../r/a"]);
    assert_eq!(paths(&row("../r")), [b"../r"]);
    assert!(matches!(read(&row("../r/../a")), Err(Error::ListParent { item: 1 })));
    assert!(matches!(read(&row("../rr")), Err(Error::ListParent { item: 1 })));
}

#[test]
fn long_items_are_refused_and_not_stored() {
    let most = vec![b'x'; PATH_BYTES_MAX];
    assert_eq!(paths(&[&most[..], b"\0"].concat()), [&most[..]]);
    let expected = format!("list item 2: longer than {PATH_BYTES_MAX} bytes");
    assert_eq!(message(&[b"a\0", &most[..], b"x\0"].concat()), expected);
    let row = [b"{\"path\":\"a\"}\n{\"path\":\"", &most[..], b"x\"}\n"].concat();
    assert_eq!(message(&row), expected);
    let blanks = [b"{\"path\":\"a\"}\n", vec![b' '; ROW_BYTES_MAX + 1].as_slice()].concat();
    assert!(matches!(read(&blanks), Err(Error::ListTooLong { item: 2, bytes_max: ROW_BYTES_MAX })));
}

/// Bytes that a path may contain: no NUL, no `..`, and often bytes that are hard for a reader.
fn hostile_path() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        proptest::collection::vec(1_u8..=255, 1..8),
        "[ -~]{1,8}".prop_map(String::into_bytes),
        Just(b"\n{\"path\":\"x\"}\n".to_vec()),
        Just(b"\xed\xa0\x80".to_vec()),
        Just("\u{fffd}\u{202e}".into()),
    ];
    proptest::collection::vec(piece, 1..6)
        .prop_map(|pieces| pieces.concat())
        .prop_filter("has a parent", |path| !path.split(|&byte| byte == b'/').any(|name| name == b".."))
}

proptest! {
    #[test]
    fn names_go_through_failure_rows_and_back(items in proptest::collection::vec((hostile_path(), hostile_path()), 1..9)) {
        let mut list = Vec::new();
        let mut expected = Vec::new();
        for (root, rest) in items {
            let path = [&root[..], b"/", &rest[..]].concat();
            let failure = Failure {
                operation: Operation::Stat,
                root: root.as_slice().into(),
                path: path.as_slice().into(),
                errno: Errno::ACCES,
                spelled: None,
                at: None,
            };
            failure_row(&failure, &mut list);
            expected.push(Listed { root: Some(root), path, change: None });
        }
        prop_assert_eq!(read(&list).unwrap(), expected);
    }

    #[test]
    fn names_go_through_nul_lists_and_back(paths in proptest::collection::vec(hostile_path(), 1..9), capacity in 1_usize..40) {
        let list: Vec<u8> = paths.iter().flat_map(|path| [path, &b"\0"[..]].concat()).collect();
        let reader = ListReader::new(std::io::BufReader::with_capacity(capacity, &list[..])).unwrap();
        let read: Vec<_> = reader.map(|item| item.unwrap().path).collect();
        prop_assert_eq!(read, paths);
    }

    #[test]
    fn no_list_is_too_odd(list in proptest::collection::vec(prop_oneof![Just(0), Just(b'{'), Just(b'\n'), any::<u8>()], 0..200)) {
        if let Ok(items) = read(&list) {
            for item in items {
                prop_assert!(!item.path.is_empty() && !item.path.contains(&0));
            }
        }
    }
}
