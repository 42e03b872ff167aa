//! Links that are followed: where they may lead, what shows under them, and how those fail that lead elsewhere. GNU
//! find's `-L` is the reference where it means the same.

mod harness;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use atta_entry::{Errno, Kind, Operation};
use atta_ops::walk::{Options, Start};
use atta_testkit::random::Random;
use atta_testkit::scratch::Scratch;
use atta_testkit::{skip, trees};
use harness::{Failed, Walked, bytes_of, fixed, scratch, walk, walk_starts};
use rustix::fs::{CWD, Mode, mkdirat, symlinkat};

fn following(threads: usize) -> Options<'static> {
    Options { follow: true, threads: fixed(threads), ..Options::default() }
}

fn make_directories(top: &Path, names: &[&str]) {
    names.iter().for_each(|name| mkdirat(CWD, top.join(name), Mode::RWXU).expect("make a directory"));
}

fn make_files(top: &Path, names: &[&str]) {
    names.iter().for_each(|name| std::fs::write(top.join(name), name).expect("write a file"));
}

fn make_links(top: &Path, links: &[(&str, &str)]) {
    links.iter().for_each(|(name, target)| symlinkat(*target, CWD, top.join(name)).expect("make a link"));
}

fn refused(top: &Path, links: &[(&str, &str)]) -> Vec<Failed> {
    let mut refused: Vec<_> = links
        .iter()
        .map(|(name, error)| (Operation::FollowLink, top.join(name), (*error).to_owned()))
        .collect();
    refused.sort();
    refused
}

/// What find prints: kind and inode by path.
fn find(root: &Path) -> Option<Printed> {
    let output = Command::new("find").arg("-L").arg(root).args(["-printf", r"%p\0%y %i\0"]).output();
    let Ok(output) = output else {
        skip::skipped("follow against find -L", "find is not installed");
        return None;
    };
    let mut fields = output.stdout.split(|&byte| byte == 0);
    let mut found = BTreeMap::new();
    while let (Some(path), Some(line)) = (fields.next(), fields.next()) {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split(' ');
        let kind = words.next().and_then(|word| word.chars().next()).expect("a kind");
        let inode = words.next().and_then(|word| word.parse().ok()).expect("an inode");
        found.insert(path.to_vec(), (kind, inode));
    }
    Some(found)
}

/// Where no link is refused, find and the walk agree on every path, kind and inode.
fn assert_as_find(root: &Path, walked: &Walked) {
    let Some(expected) = find(root) else { return };
    assert_no_difference(&as_find_prints(walked), &expected, "against find");
}

type Printed = BTreeMap<Vec<u8>, (char, u64)>;

fn assert_no_difference(walked: &Printed, expected: &Printed, what: &str) {
    let paths: BTreeSet<_> = walked.keys().chain(expected.keys()).collect();
    let different = paths.into_iter().filter(|path| walked.get(*path) != expected.get(*path));
    let different: Vec<_> =
        different.map(|path| (harness::escaped(path), walked.get(path), expected.get(path))).collect();
    assert!(different.is_empty(), "{what}: walked and expected: {different:#?}");
}

fn as_find_prints(walked: &Walked) -> Printed {
    let shown = |(path, found): (&Vec<u8>, &harness::Found)| {
        (path.clone(), (harness::letter(found.kind), found.inode))
    };
    walked.found.iter().map(shown).collect()
}

fn tree() -> (Scratch, PathBuf) {
    let scratch = scratch("follow");
    let root = scratch.join("root");
    make_directories(scratch.path(), &["root", "outside", "rooted"]);
    make_directories(&root, &["a", "a/inner", "b"]);
    make_files(scratch.path(), &["outside/secret", "rooted/secret"]);
    make_files(&root, &["file", "a/one", "a/inner/two", "b/three"]);
    (scratch, root)
}

#[test]
fn links_below_the_root_match_find() {
    let (scratch, root) = tree();
    make_links(
        &root,
        &[
            ("to-file", "file"),
            ("to-directory", "a"),
            ("to-inner", "./a//inner/."),
            ("chain-1", "chain-2"),
            ("chain-2", "b/chain-3"),
            ("b/chain-3", "../a/inner"),
            ("b/up-and-down", "../b/../a/../to-directory/inner"),
            ("a/inner/to-file", "../../file"),
            ("b/to-fifo", "../fifo"),
        ],
    );
    rustix::fs::mknodat(CWD, root.join("fifo"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let (file, inner) = (root.join("file"), root.join("a/inner"));
    symlinkat(&file, CWD, root.join("absolute-file")).unwrap();
    symlinkat(&inner, CWD, root.join("b/absolute-inner")).unwrap();
    for threads in [1, 2, 8] {
        let walked = walk(&root, &following(threads));
        walked.assert_whole();
        assert_as_find(&root, &walked);
        // `..` behind a followed link goes up from where the link leads, and the metadata is the target's.
        assert!(walked.has(&root.join("b/chain-3/to-file")));
        let shown = walked.get(&root.join("b/absolute-inner"));
        assert_eq!((shown.kind, shown.inode), (Kind::Directory, walked.get(&inner).inode));
    }
    drop(scratch);
}

/// Directories in directories, with links between them that all stay below the root.
fn tangled(root: &Path, seed: u64) {
    let mut random = Random::new(seed);
    let mut directories = vec![String::new()];
    make_directories(root, &[""]);
    for number in 0..7 {
        let directory = format!("{}d{number}/", random.pick(&directories));
        make_directories(root, &[&directory]);
        make_files(root, &[&format!("{directory}file")]);
        directories.push(directory);
    }
    for number in 0..8 {
        let place = random.pick(&directories).clone();
        let up = "../".repeat(place.matches('/').count());
        let target = match random.below(4) {
            0 => format!("{up}link{}", random.below(8)),
            1 => format!("{up}{}file", random.pick(&directories[1..])),
            _ => format!("./{up}{}.", random.pick(&directories)),
        };
        make_links(root, &[(&format!("{place}link{number}"), &target)]);
    }
}

/// Whether a directory on the way, or this one, is one above it.
fn is_in_itself(path: &[u8], walked: &Walked) -> bool {
    let ends = (1..=path.len()).filter(|&end| end == path.len() || path[end] == b'/');
    let mut above = BTreeSet::new();
    let directories =
        ends.filter_map(|end| walked.found.get(&path[..end])).filter(|at| at.kind == Kind::Directory);
    directories.map(|directory| directory.inode).any(|inode| !above.insert(inode))
}

#[test]
fn random_links_below_the_root_lead_where_find_says() {
    let mut refused = 0;
    for seed in 0..100 {
        let scratch = scratch("follow-random");
        let root = scratch.join("root");
        tangled(&root, seed);
        let walked = walk(&root, &following(1 + seed as usize % 3));
        walked.assert_once();
        let Some(mut expected) = find(&root) else { return };
        // A directory that is met again in itself by its own name, not by a link, find does not list; the walk does,
        // and refuses the links in it that would go round once more.
        let again: BTreeSet<_> =
            walked.found.keys().filter(|path| is_in_itself(path, &walked)).cloned().collect();
        for failure in walked.failures.iter().filter(|failure| !again.contains(failure.path.as_ref())) {
            assert_eq!(failure.operation, Operation::FollowLink, "seed {seed}: {failure}");
            let shown = &walked.found[failure.path.as_ref()];
            // A link to nowhere is a link for find, too; one in a circle it only complains of.
            let as_find = expected.insert(failure.path.to_vec(), ('l', shown.inode));
            let is_dangling = failure.errno == Errno::NOENT;
            assert_eq!(as_find, is_dangling.then_some(('l', shown.inode)), "seed {seed}: {failure}");
            refused += 1;
        }
        let mut printed = as_find_prints(&walked);
        printed.retain(|path, _| !again.contains(path));
        assert_no_difference(&printed, &expected, &format!("seed {seed}"));
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn links_that_lead_elsewhere_are_failures() {
    let (scratch, root) = tree();
    let outside = scratch.join("outside");
    let refusals = [
        ("self", "ELOOP"),
        ("there", "ELOOP"),
        ("back", "ELOOP"),
        ("a/parent", "ELOOP"),
        ("a/inner/grandparent", "ELOOP"),
        ("a/here", "ELOOP"),
        ("dangling", "ENOENT"),
        ("through-file", "ENOTDIR"),
        ("above", "EXDEV"),
        ("a/outside", "EXDEV"),
        ("out-and-in", "EXDEV"),
        ("absolute", "EXDEV"),
        ("absolute-secret", "EXDEV"),
        ("to-absolute", "EXDEV"),
        ("slash", "EXDEV"),
        ("prefix", "EXDEV"),
    ];
    make_links(
        &root,
        &[
            ("self", "self"),
            ("there", "back"),
            ("back", "there"),
            ("a/parent", ".."),
            ("a/inner/grandparent", "../../a"),
            ("a/here", "."),
            ("dangling", "no such file"),
            ("through-file", "file/x"),
            ("above", ".."),
            ("a/outside", "../../outside"),
            ("out-and-in", "../root/a"),
            ("to-absolute", "absolute"),
            ("slash", "/"),
        ],
    );
    symlinkat(&outside, CWD, root.join("absolute")).unwrap();
    symlinkat(outside.join("secret"), CWD, root.join("absolute-secret")).unwrap();
    // A path that begins with the same bytes as the root's is not below it.
    symlinkat(scratch.join("rooted"), CWD, root.join("prefix")).unwrap();
    for threads in [1, 3] {
        let walked = walk(&root, &following(threads));
        assert_eq!(walked.failed(), refused(&root, &refusals));
        walked.assert_once();
        for (name, _) in refusals {
            assert_eq!(walked.get(&root.join(name)).kind, Kind::Symlink, "{name}");
        }
        assert!(
            !walked.found.keys().any(|path| path.ends_with(b"secret") && !path.ends_with(b"absolute-secret"))
        );
    }
}

#[test]
fn mutual_links_end_where_the_loop_closes() {
    let (_scratch, root) = tree();
    make_links(&root, &[("a/to-b", "../b"), ("b/to-a", "../a")]);
    let walked = walk(&root, &following(2));
    let circles = [("a/to-b/to-a", "ELOOP"), ("b/to-a/to-b", "ELOOP")];
    assert_eq!(walked.failed(), refused(&root, &circles));
    assert!(walked.has(&root.join("a/to-b/three")) && walked.has(&root.join("b/to-a/inner/two")));
}

#[test]
fn forty_links_in_a_row_are_followed_and_no_more() {
    let (_scratch, root) = tree();
    symlinkat("../file", CWD, root.join("b/l00")).unwrap();
    for number in 1..45 {
        symlinkat(format!("l{:02}", number - 1), CWD, root.join(format!("b/l{number:02}"))).unwrap();
    }
    let walked = walk(&root, &following(2));
    let too_long: Vec<_> = (40..45).map(|number| format!("b/l{number:02}")).collect();
    let too_long: Vec<_> = too_long.iter().map(|name| (name.as_str(), "ELOOP")).collect();
    assert_eq!(walked.failed(), refused(&root, &too_long));
    assert_eq!(walked.get(&root.join("b/l39")).kind, Kind::File);
}

#[test]
fn a_root_that_is_a_link_is_followed_only_if_asked() {
    let (scratch, root) = tree();
    make_links(scratch.path(), &[("link", "root/a")]);
    let link = scratch.join("link");
    // An absolute link to below the directory that the root leads to is below the root.
    symlinkat(root.join("a/inner"), CWD, root.join("a/absolute")).unwrap();
    let walked = walk(&link, &following(2));
    walked.assert_whole();
    assert!(walked.has(&link.join("inner/two")) && walked.has(&link.join("absolute/two")));
    let walked = walk(&link, &harness::threads(2));
    walked.assert_whole();
    assert_eq!(walked.paths(), [bytes_of(&link)]);
}

#[test]
fn followed_links_return_from_the_spill_file() {
    let scratch = scratch("follow-spill");
    let root = scratch.join("root");
    make_directories(scratch.path(), &["root"]);
    make_directories(&root, &["targets", "links"]);
    for number in 0..300 {
        trees::chain(&root.join(format!("targets/t{number:03}")), 2, b"below").unwrap();
        symlinkat(format!("../targets/t{number:03}"), CWD, root.join(format!("links/l{number:03}"))).unwrap();
    }
    for threads in [1, 3] {
        let walked = walk(&root, &Options { memory_bytes: 0, ..following(threads) });
        walked.assert_whole();
        assert!(walked.spill.tasks > 0);
        assert_as_find(&root, &walked);
    }
}

#[test]
fn lite_follows_links_too() {
    let (_scratch, root) = tree();
    make_links(&root, &[("to-directory", "a"), ("to-file", "file")]);
    let walked = walk(&root, &Options { lite: true, ..following(2) });
    walked.assert_whole();
    assert_as_find(&root, &walked);
}

#[test]
fn link_back_to_a_directory_above_is_a_loop() {
    let (_scratch, root) = tree();
    make_links(&root, &[("a/inner/to-a", "..")]);
    for threads in [1, 2] {
        let start = Start { root: bytes_of(&root), below: Some(b"a/inner".to_vec()) };
        let options = following(threads);
        let walked = walk_starts([start], &options);
        assert_eq!(walked.failed(), refused(&root, &[("a/inner/to-a", "ELOOP")]));
        assert_eq!(walked.found.len(), 3, "{:?}", walked.found.keys());
    }
}

#[test]
fn deep_links_need_few_descriptors() {
    harness::in_child("deep_links_in_a_process_with_64_descriptors", "".as_ref());
}

#[test]
#[ignore = "a child process of deep_links_need_few_descriptors"]
fn deep_links_in_a_process_with_64_descriptors() {
    let Some(_) = harness::child_argument() else { return };
    let scratch = scratch("follow-deep");
    let root = scratch.join("root");
    trees::chain(&root, 200, b"level").unwrap();
    let deep = root.join("level/".repeat(200));
    make_files(&deep, &["file"]);
    make_links(&deep, &[("beside", "file"), ("around", "../level/file")]);
    symlinkat(deep.join("file"), CWD, deep.join("absolute")).unwrap();
    make_links(&root, &[("from-above", deep.strip_prefix(&root).unwrap().to_str().unwrap())]);
    harness::limit_descriptors(64);
    let walked = walk(&root, &following(2));
    walked.assert_whole();
    assert_as_find(&root, &walked);
}
