//! A copy of a hostile tree is the same as its source; and if one thing is changed in it, exactly that is reported, on any number of
//! threads.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]
#![expect(clippy::disallowed_methods, reason = "trees of the test's own, looked at by their paths")]

mod harness;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atta_entry::{Change, Class, Detail, Difference, Failure, Field, Kind, Side};
use atta_ops::verify::{self, Fields, Options, Outcome, Watch};
use atta_ops::{copy, walk};
use atta_testkit::churn::Churn;
use atta_testkit::random::Random;
use atta_testkit::scratch::Scratch;
use atta_testkit::{skip, trees};
use harness::{bytes_of, fixed, scratch};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

/// Collects all reports.
#[derive(Default)]
struct Reported {
    differences: Mutex<Vec<Difference<'static>>>,
    failures: Mutex<Vec<(Class, PathBuf, String)>>,
}

impl Watch for Reported {
    fn difference(&self, difference: &Difference<'_>) {
        let Difference { path, kind, change } = difference.clone();
        let difference = Difference { path: path.into_owned().into(), kind, change };
        self.differences.lock().unwrap().push(difference);
    }

    fn failure(&self, failure: &Failure<'_>) {
        let path = OsStr::from_bytes(&failure.path).into();
        self.failures.lock().unwrap().push((failure.class(), path, failure.to_string()));
    }
}

/// A difference as a test writes it: `CHANGE PATH`, and what differs.
type Found = (String, Vec<Detail>);

/// The outcome of a comparison: sorted differences, and failures.
fn try_verify(
    source: &Path,
    target: &Path,
    options: &Options<'_>,
) -> (Outcome, Vec<Found>, Vec<(Class, PathBuf, String)>) {
    let reports = Reported::default();
    let outcome = verify::run_alone(&bytes_of(source), &bytes_of(target), options, &reports, |_| {}).unwrap();
    let differences = reports.differences.into_inner().unwrap();
    let mut found: Vec<_> = differences
        .into_iter()
        .map(|Difference { path, change, .. }| {
            let text = format!("{} {}", change.name(), atta_entry::escape(&path));
            (text, change.details().to_vec())
        })
        .collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    (outcome, found, reports.failures.into_inner().unwrap())
}

/// A comparison in which nothing fails.
#[track_caller]
fn verify(source: &Path, target: &Path, options: &Options<'_>) -> (Outcome, Vec<Found>) {
    let (outcome, found, failures) = try_verify(source, target, options);
    assert_eq!(failures, []);
    assert!(!outcome.stopped);
    assert_eq!(outcome.totals.is_same(), found.is_empty());
    assert_eq!(outcome.totals.differences(), found.len() as u64);
    (outcome, found)
}

/// All fields, large files in small chunks.
fn threads(count: usize) -> Options<'static> {
    Options {
        walk: walk::Options { threads: fixed(count), ..walk::Options::default() },
        fields: Fields::default().with(Field::Content),
        chunk: Some(1 << 20),
        ..Options::default()
    }
}

fn copy(source: &Path, target: &Path) {
    struct Panics;
    impl copy::Watch for Panics {
        fn failure(&self, failure: &Failure<'_>) {
            panic!("{failure}");
        }
    }
    let options = copy::Options { fsync: copy::Fsync::None, ..copy::Options::default() };
    copy::run(&[bytes_of(source)], &bytes_of(target), &options, &Panics, |_| {}).unwrap();
}

const LARGE: u64 = (5 << 20) + 12_345;

fn bytes(count: u64, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..count).map(|_| u8::try_from(random.below(256)).unwrap()).collect()
}

/// An access list that gives this user something beside mode 0770.
fn access_list(user: u32, rights: u16) -> Vec<u8> {
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1_u16, 7, u32::MAX), (2, rights, user), (4, 7, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend([tag.to_le_bytes(), rights.to_le_bytes()].concat());
        list.extend(id.to_le_bytes());
    }
    list
}

const ACCESS: &str = "system.posix_acl_access";

fn set_extended(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// Hostile names, odd times, all kinds, some depth; and, by names of their own, things to change.
fn tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    trees::kinds(&tree.join("kinds"), &scratch.join("outside")).unwrap();
    trees::hostile_names(&tree.join("names")).unwrap();
    trees::times(&tree.join("times")).unwrap();
    trees::random(&tree.join("random"), 11, 300).unwrap();
    trees::chain(&tree.join("deep"), 200, b"0123456789").unwrap();
    trees::flat(&tree.join("flat"), 300).unwrap();
    let own = tree.join("own");
    fs::create_dir_all(own.join("directory/below")).unwrap();
    fs::write(own.join("directory/below/file"), "below").unwrap();
    fs::write(own.join("small"), bytes(70_000, 1)).unwrap();
    fs::write(own.join("large"), bytes(LARGE, 2)).unwrap();
    fs::write(own.join("empty"), "").unwrap();
    let sparse = fs::File::create(own.join("sparse")).unwrap();
    sparse.write_all_at(b"begin", 0).unwrap();
    sparse.write_all_at(b"end", 9 << 20).unwrap();
    sparse.set_len(12 << 20).unwrap();
    symlink("small", own.join("link")).unwrap();
    for names in [["one-a", "one-b"], ["two-a", "two-b"]] {
        fs::write(own.join(names[0]), "linked").unwrap();
        fs::hard_link(own.join(names[0]), own.join(names[1])).unwrap();
    }
    for twin in ["twin-a", "twin-b"] {
        fs::write(own.join(twin), "twins").unwrap();
        set_mtime(&own.join(twin), 1_000_000_000, 5);
    }
    for path in [own.join("small"), own.join("directory")] {
        set_extended(&path, "user.one", b"1");
        set_extended(&path, "user.two", &[7; 3000]);
    }
    fs::write(own.join("listed"), "").unwrap();
    fs::set_permissions(own.join("listed"), fs::Permissions::from_mode(0o770)).unwrap();
    set_extended(&own.join("listed"), ACCESS, &access_list(1234, 4));
    rustix::fs::mknodat(CWD, own.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    if skip::is_root() {
        // A write to a file removes its capabilities.
        fs::write(own.join("capable"), "").unwrap();
        set_extended(&own.join("capable"), "security.capability", &capability(1));
        let null = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(CWD, own.join("device"), FileType::CharacterDevice, Mode::RUSR, null).unwrap();
        trees::unreadable(&tree.join("unreadable")).unwrap();
    }
    tree
}

/// A file's capability of this number, of revision 2.
fn capability(number: u32) -> Vec<u8> {
    [0x0200_0001_u32, 1 << number, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn set_mtime(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Does something to an entry, and gives it, if it is still there, and its directory the times back that they had.
fn quietly(path: &Path, change: impl FnOnce(&Path)) {
    let parent = path.parent().unwrap();
    let time = |path: &Path| fs::symlink_metadata(path).ok().map(|found| (found.mtime(), found.mtime_nsec()));
    let (own, above) = (time(path), time(parent).unwrap());
    change(path);
    if let (Some((seconds, nanoseconds)), true) = (own, time(path).is_some()) {
        set_mtime(path, seconds, nanoseconds);
    }
    set_mtime(parent, above.0, above.1);
}

fn flip(path: &Path, offset: u64) {
    quietly(path, |path| {
        let file = fs::File::options().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset).unwrap();
        file.write_all_at(&[byte[0] ^ 1], offset).unwrap();
    });
}

/// A change to a copy, and the expected reports. Where the value depends on the tree, only the field is compared.
struct Case {
    name: &'static str,
    change: Box<dyn Fn(&Path)>,
    expected: Vec<(String, Vec<Field>)>,
}

fn case(name: &'static str, changed: &[(&str, &[Field])], change: impl Fn(&Path) + 'static) -> Case {
    let expected = changed.iter().map(|(text, fields)| ((*text).to_owned(), fields.to_vec())).collect();
    Case { name, change: Box::new(change), expected }
}

/// Runs each case on a copy of its own, on several numbers of threads.
fn check(scratch: &Scratch, tree: &Path, cases: Vec<Case>) {
    for (number, Case { name, change, expected }) in cases.into_iter().enumerate() {
        let target = scratch.join(format!("target-{number}"));
        copy(tree, &target);
        change(&target);
        for count in [1, 2, 8] {
            let (outcome, found) = verify(tree, &target, &threads(count));
            let fields = |details: &[Detail]| details.iter().map(Detail::field).collect::<Vec<_>>();
            let found: Vec<_> = found.iter().map(|(text, details)| (text.clone(), fields(details))).collect();
            assert_eq!(found, expected, "{name}, {count} threads");
            for field in Field::ALL {
                let fields = expected.iter().flat_map(|(_, fields)| fields).filter(|each| **each == field);
                assert_eq!(outcome.totals.fields[field as usize], fields.count() as u64, "{name}");
            }
        }
        fs::remove_dir_all(&target).unwrap();
    }
}

#[test]
fn a_copy_is_the_same_as_its_source() {
    let scratch = scratch("verify");
    let tree = tree(&scratch);
    let target = scratch.join("target");
    copy(&tree, &target);
    let entries = atta_testkit::oracle::list(&tree).unwrap().len() as u64;
    for count in [1, 2, 8] {
        let (outcome, found) = verify(&tree, &target, &threads(count));
        assert_eq!(found, []);
        assert_eq!(outcome.totals.compared, entries);
        assert!(outcome.totals.bytes > LARGE);
        let options = Options { fields: Fields::default(), ..threads(count) };
        let (outcome, found) = verify(&tree, &target, &options);
        assert_eq!((found, outcome.totals.bytes, outcome.totals.compared), (vec![], 0, entries));
    }
}

#[test]
fn only_changed_fields_are_reported() {
    let scratch = scratch("verify");
    let tree = tree(&scratch);
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let nanosecond = |path: &Path| {
        let found = fs::symlink_metadata(path).unwrap();
        let nanoseconds = if found.mtime_nsec() == 0 { 1 } else { found.mtime_nsec() - 1 };
        set_mtime(path, found.mtime(), nanoseconds);
    };
    let mut cases = vec![
        case("size", &[("different own/small", &[Field::Size])], |top| {
            quietly(&top.join("own/small"), |path| {
                fs::File::options().write(true).open(path).unwrap().set_len(69_999).unwrap();
            });
        }),
        case("size of a large file", &[("different own/large", &[Field::Size])], |top| {
            quietly(&top.join("own/large"), |path| {
                fs::File::options().write(true).open(path).unwrap().set_len(LARGE + 1).unwrap();
            });
        }),
        case("mode of a file", &[("different own/empty", &[Field::Mode])], move |top| {
            mode(&top.join("own/empty"), 0o4755);
        }),
        case("mode of a directory", &[("different own/directory", &[Field::Mode])], move |top| {
            mode(&top.join("own/directory"), 0o700);
        }),
        case("mode of a pipe", &[("different own/fifo", &[Field::Mode])], move |top| {
            mode(&top.join("own/fifo"), 0o666);
        }),
        case("target", &[("different own/link", &[Field::Target])], |top| {
            quietly(&top.join("own/link"), |path| {
                fs::remove_file(path).unwrap();
                symlink("smalL", path).unwrap();
            });
        }),
        case("target and mtime", &[("different own/link", &[Field::Mtime, Field::Target])], |top| {
            quietly(&top.join("own/link"), |path| {
                fs::remove_file(path).unwrap();
                symlink("elsewhere", path).unwrap();
            });
            set_mtime(&top.join("own/link"), 7, 7);
        }),
    ];
    for name in ["empty", "large", "directory", "link", "fifo", "twin-b"] {
        let text = format!("different own/{name}");
        cases.push(case("a nanosecond", &[(&text, &[Field::Mtime])], move |top| {
            nanosecond(&top.join("own").join(name));
        }));
    }
    cases.push(case("a nanosecond of the roots", &[("different ", &[Field::Mtime])], nanosecond));
    check(&scratch, &tree, cases);
}

#[test]
fn changes_that_need_root_are_reported() {
    if !skip::is_root() {
        return skip::skipped("owners, devices and capabilities", "it needs root");
    }
    let scratch = scratch("verify");
    let tree = tree(&scratch);
    let mut cases = vec![
        case("device", &[("different own/device", &[Field::Device])], |top| {
            quietly(&top.join("own/device"), |path| {
                fs::remove_file(path).unwrap();
                let zero = rustix::fs::makedev(1, 5);
                rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, Mode::RUSR, zero).unwrap();
            });
        }),
        case("capability", &[("different own/capable", &[Field::Xattrs])], |top| {
            set_extended(&top.join("own/capable"), "security.capability", &capability(2));
        }),
        case("attribute of a link", &[("different own/link", &[Field::Xattrs])], |top| {
            set_extended(&top.join("own/link"), "trusted.one", b"1");
        }),
        case("attribute of a device", &[("different own/device", &[Field::Xattrs])], |top| {
            set_extended(&top.join("own/device"), "trusted.one", b"");
        }),
    ];
    for name in ["empty", "large", "directory", "link", "fifo"] {
        let text = format!("different own/{name}");
        for (uid, gid) in [(Some(77), None), (None, Some(88))] {
            cases.push(case("owner", &[(&text, &[Field::Owner])], move |top| {
                lchown(top.join("own").join(name), uid, gid).unwrap();
            }));
        }
    }
    check(&scratch, &tree, cases);
}

#[test]
fn extended_attributes_and_access_lists_are_compared() {
    let scratch = scratch("verify");
    let tree = tree(&scratch);
    let mut cases = vec![
        case("list", &[("different own/listed", &[Field::Xattrs])], |top| {
            set_extended(&top.join("own/listed"), ACCESS, &access_list(1234, 6));
        }),
        case("user of a list", &[("different own/listed", &[Field::Xattrs])], |top| {
            set_extended(&top.join("own/listed"), ACCESS, &access_list(1235, 4));
        }),
        case("list of a pipe", &[("different own/fifo", &[Field::Mode, Field::Xattrs])], |top| {
            set_extended(&top.join("own/fifo"), ACCESS, &access_list(1234, 6));
        }),
        case("default list", &[("different own/directory", &[Field::Xattrs])], |top| {
            set_extended(&top.join("own/directory"), "system.posix_acl_default", &access_list(1234, 4));
        }),
    ];
    for name in ["small", "directory"] {
        let text = format!("different own/{name}");
        let expected: &[(&str, &[Field])] = &[(&text, &[Field::Xattrs])];
        cases.push(case("value", expected, move |top| {
            set_extended(&top.join("own").join(name), "user.two", &[[7; 2999].as_slice(), &[8]].concat());
        }));
        cases.push(case("one more", expected, move |top| {
            set_extended(&top.join("own").join(name), "user.three", b"");
        }));
        cases.push(case("one less", expected, move |top| {
            rustix::fs::lremovexattr(top.join("own").join(name), "user.one").unwrap();
        }));
    }
    check(&scratch, &tree, cases);
    // Of which names they are.
    let target = scratch.join("target");
    copy(&tree, &target);
    set_extended(&target.join("own/small"), "user.one", b"2");
    set_extended(&target.join("own/small"), "user.\u{1}", b"");
    let (_, found) = verify(&tree, &target, &Options { fields: Fields::default(), ..threads(2) });
    let names = vec![b"user.\x01".to_vec(), b"user.one".to_vec()];
    assert_eq!(found, [("different own/small".to_owned(), vec![Detail::Xattrs(names)])]);
}

#[test]
fn names_on_one_side_and_kinds_are_reported() {
    let scratch = scratch("verify");
    let tree = tree(&scratch);
    let cases = vec![
        case("a file less", &[("missing own/empty", &[])], |top| {
            quietly(&top.join("own/empty"), |path| fs::remove_file(path).unwrap());
        }),
        case("a large file less", &[("missing own/large", &[])], |top| {
            quietly(&top.join("own/large"), |path| fs::remove_file(path).unwrap());
        }),
        case("a link less, and one more", &[("extra own/linl", &[]), ("missing own/link", &[])], |top| {
            quietly(&top.join("own/link"), |path| fs::rename(path, top.join("own/linl")).unwrap());
        }),
        case("a directory less", &[("missing own/directory", &[])], |top| {
            quietly(&top.join("own/directory"), |path| fs::remove_dir_all(path).unwrap());
        }),
        case("a directory more", &[("extra own/directory/below/more", &[])], |top| {
            quietly(&top.join("own/directory/below/more"), |path| {
                fs::create_dir_all(path.join("in/it")).unwrap();
                fs::write(path.join("in/it/file"), "").unwrap();
            });
        }),
        case("odd names more", &[("extra \\xff\\n", &[]), ("extra flat/ ", &[])], |top| {
            quietly(&top.join("flat/ "), |path| fs::write(path, "").unwrap());
            quietly(&top.join(OsStr::from_bytes(b"\xff\n")), |path| symlink("x", path).unwrap());
        }),
        case("one of many less", &[("missing flat/f0000123", &[])], |top| {
            quietly(&top.join("flat/f0000123"), |path| fs::remove_file(path).unwrap());
        }),
        case("a directory for a file", &[("different own/large", &[Field::Type])], |top| {
            quietly(&top.join("own/large"), |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
                fs::write(path.join("in"), "").unwrap();
            });
        }),
        case("a link for a directory", &[("different own/directory", &[Field::Type])], |top| {
            quietly(&top.join("own/directory"), |path| {
                fs::rename(path, top.join("../elsewhere")).unwrap();
                symlink("../../elsewhere", path).unwrap();
            });
            fs::remove_dir_all(top.join("../elsewhere")).unwrap();
        }),
        case("a file for a pipe", &[("different own/fifo", &[Field::Type])], |top| {
            quietly(&top.join("own/fifo"), |path| {
                fs::remove_file(path).unwrap();
                fs::write(path, "").unwrap();
            });
        }),
    ];
    check(&scratch, &tree, cases);
}

#[test]
fn changed_byte_is_reported_with_its_offset() {
    let scratch = scratch("verify");
    let tree = tree(&scratch);
    let target = scratch.join("target");
    copy(&tree, &target);
    let mut random = Random::new(3);
    let mut places = vec![("small", 0), ("small", 69_999), ("large", 0), ("large", LARGE - 1)];
    places.extend([("large", 1 << 20), ("large", (1 << 20) - 1), ("sparse", 5), ("sparse", (12 << 20) - 1)]);
    places.push(("sparse", 9 << 20));
    for _ in 0..6 {
        places.push(("small", random.below(70_000)));
        places.push(("large", random.below(LARGE)));
        places.push(("large", LARGE - 1 - random.below(12_345)));
        places.push(("sparse", random.below(12 << 20)));
    }
    for (name, offset) in places {
        let path = target.join("own").join(name);
        flip(&path, offset);
        for count in [1, 2, 8] {
            let (_, found) = verify(&tree, &target, &threads(count));
            let expected = (format!("different own/{name}"), vec![Detail::Content(offset)]);
            assert_eq!(found, [expected], "{name} at {offset}, {count} threads");
            // Without the content nothing differs.
            let fields = Fields::default();
            assert_eq!(verify(&tree, &target, &Options { fields, ..threads(count) }).1, []);
        }
        flip(&path, offset);
    }
    // The first of two, whichever thread finds which.
    flip(&target.join("own/large"), LARGE - 5);
    flip(&target.join("own/large"), (2 << 20) + 77);
    for count in [1, 2, 8] {
        let (_, found) = verify(&tree, &target, &threads(count));
        let expected = ("different own/large".to_owned(), vec![Detail::Content((2 << 20) + 77)]);
        assert_eq!(found, [expected]);
    }
    // Zeros in the place of a hole are the same bytes.
    flip(&target.join("own/large"), LARGE - 5);
    flip(&target.join("own/large"), (2 << 20) + 77);
    quietly(&target.join("own/sparse"), |path| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(&[0; 100_000], 4 << 20).unwrap();
    });
    assert_eq!(verify(&tree, &target, &threads(2)).1, []);
}

#[test]
fn without_sizes_what_both_files_have_is_compared() {
    let scratch = scratch("verify");
    let (one, other) = (scratch.join("one"), scratch.join("other"));
    for (left, right, expected) in [(3 << 20, (3 << 20) + 9, 3 << 20), (10, 0, 0), (70, 50, 50)] {
        fs::write(&one, bytes(left, 1)).unwrap();
        fs::write(&other, bytes(right, 1)).unwrap();
        let fields = Fields::NONE.with(Field::Content);
        for count in [1, 4] {
            let (_, found) = verify(&one, &other, &Options { fields, ..threads(count) });
            assert_eq!(found, [("different ".to_owned(), vec![Detail::Content(expected)])]);
        }
    }
}

#[test]
fn sets_of_names_must_be_one_file_on_both_sides() {
    let scratch = scratch("verify");
    let tree = tree(&scratch);
    let again = |path: &Path| {
        quietly(path, |path| {
            let content = fs::read(path).unwrap();
            fs::remove_file(path).unwrap();
            fs::write(path, content).unwrap();
        });
    };
    let links = |side, other: &str| vec![Detail::Links(side, other.as_bytes().to_vec())];
    type Links<'a> = (&'a str, Box<dyn Fn(&Path)>, Vec<(&'a str, Vec<Detail>)>);
    let cases: Vec<Links<'_>> = vec![
        (
            "broken",
            Box::new(move |own| again(&own.join("one-b"))),
            vec![("own/one-b", links(Side::Source, "own/one-a"))],
        ),
        (
            "newly made",
            Box::new(|own| {
                quietly(&own.join("twin-b"), |path| {
                    fs::remove_file(path).unwrap();
                    fs::hard_link(own.join("twin-a"), path).unwrap();
                });
            }),
            vec![("own/twin-b", links(Side::Target, "own/twin-a"))],
        ),
        (
            "of another set",
            Box::new(|own| {
                let time = fs::metadata(own.join("one-a")).unwrap();
                quietly(&own.join("one-b"), |path| {
                    fs::remove_file(path).unwrap();
                    fs::hard_link(own.join("two-a"), path).unwrap();
                });
                for name in ["one-a", "one-b"] {
                    set_mtime(&own.join(name), time.mtime(), time.mtime_nsec());
                }
            }),
            vec![(
                "own/one-b",
                [links(Side::Source, "own/one-a"), links(Side::Target, "own/two-a")].concat(),
            )],
        ),
    ];
    for (number, (name, change, expected)) in cases.into_iter().enumerate() {
        let target = scratch.join(format!("target-{number}"));
        copy(&tree, &target);
        change(&target.join("own"));
        let expected: Vec<_> =
            expected.iter().map(|(path, details)| (format!("different {path}"), details)).collect();
        for count in [1, 2, 8] {
            // The set that got one more has the time of the other now.
            let fields = Field::ALL.into_iter().filter(|field| *field != Field::Mtime).collect();
            let (_, found) = verify(&tree, &target, &Options { fields, ..threads(count) });
            let found: Vec<_> = found.iter().map(|(text, details)| (text.clone(), details)).collect();
            assert_eq!(found, expected, "{name}, {count} threads");
        }
    }
}

#[test]
fn bytes_of_a_file_are_read_once_for_all_its_names() {
    let scratch = scratch("verify");
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("0"), bytes(100_000, 5)).unwrap();
    for name in 1..20 {
        fs::hard_link(tree.join("0"), tree.join(name.to_string())).unwrap();
    }
    let target = scratch.join("target");
    copy(&tree, &target);
    let (outcome, found) = verify(&tree, &target, &threads(1));
    assert_eq!((found, outcome.totals.files, outcome.totals.bytes), (vec![], 1, 100_000));
    flip(&target.join("7"), 9);
    let (outcome, found) = verify(&tree, &target, &threads(1));
    assert_eq!((found.len(), outcome.totals.bytes), (20, 20 * 9), "each name is reported");
}

#[test]
fn only_the_fields_that_are_wanted_are_compared() {
    let scratch = scratch("verify");
    let (one, other) = (scratch.join("one"), scratch.join("other"));
    for (path, text, mode) in [(&one, "12345", 0o644), (&other, "123456", 0o600)] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("file"), text).unwrap();
        fs::set_permissions(path.join("file"), fs::Permissions::from_mode(mode)).unwrap();
        set_mtime(&path.join("file"), 5, i64::from(mode));
    }
    let found = |fields: &[Field], window| {
        let fields = fields.iter().copied().collect();
        let (_, found) = verify(&one, &other, &Options { fields, window, ..threads(1) });
        found.into_iter().flat_map(|(_, details)| details).map(|detail| detail.field()).collect::<Vec<_>>()
    };
    assert_eq!(found(&[], Duration::ZERO), []);
    assert_eq!(found(&[Field::Size], Duration::ZERO), [Field::Size]);
    assert_eq!(found(&[Field::Mode, Field::Content], Duration::ZERO), [Field::Mode, Field::Content]);
    let file = |window| {
        let fields = Fields::NONE.with(Field::Mtime);
        let options = Options { fields, window, ..threads(1) };
        verify(&one.join("file"), &other.join("file"), &options).1.len()
    };
    assert_eq!((file(Duration::from_nanos(35)), file(Duration::from_nanos(36))), (1, 0));
}

#[test]
fn what_is_excluded_is_neither_compared_nor_extra() {
    let scratch = scratch("verify");
    let (one, other) = (scratch.join("one"), scratch.join("other"));
    for (path, text) in [(&one, "one"), (&other, "another")] {
        fs::create_dir_all(path.join("cache")).unwrap();
        fs::create_dir_all(path.join("kept")).unwrap();
        fs::write(path.join("kept/same"), "same").unwrap();
        fs::write(path.join("file.tmp"), text).unwrap();
        fs::write(path.join("cache").join(text), text).unwrap();
        fs::write(path.join("kept").join(format!("{text}.tmp")), text).unwrap();
    }
    fs::write(other.join("kept/more"), "").unwrap();
    fs::create_dir(other.join("kept/cache")).unwrap();
    let rules = [walk::Rule::Exclude("*.tmp".into()), walk::Rule::Exclude("cache/".into())];
    for count in [1, 4] {
        let mut options = threads(count);
        options.fields = Fields::NONE.with(Field::Size).with(Field::Content);
        options.walk.rules = Some(walk::Rules::new(&rules).unwrap());
        let (_, found) = verify(&one, &other, &options);
        assert_eq!(found, [("extra kept/more".to_owned(), vec![])]);
    }
}

#[test]
fn large_directories_and_spilled_tasks_are_compared() {
    let scratch = scratch("verify");
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..300 {
        let directory = tree.join(format!("{number}/below/it"));
        fs::create_dir_all(&directory).unwrap();
        for name in ["a", "b"] {
            fs::write(directory.join(name), number.to_string()).unwrap();
        }
    }
    fs::write(tree.join("large"), bytes(LARGE, 3)).unwrap();
    trees::flat(&tree.join("flat"), 30_000).unwrap();
    // All their names come in one go, and are dealt out.
    let many: Vec<_> = (0..4).map(|number| format!("many-{number}")).collect();
    many.iter().for_each(|name| assert_eq!(trees::flat(&tree.join(name), 3_000).unwrap(), 3_000));
    let target = scratch.join("target");
    copy(&tree, &target);
    let mut expected = Vec::new();
    for name in &many {
        quietly(&target.join(name).join("more"), |path| fs::write(path, "").unwrap());
        expected.push(format!("extra {name}/more"));
    }
    for number in [7, 99, 250] {
        quietly(&target.join(format!("{number}/below/it/c")), |path| fs::write(path, "").unwrap());
        expected.push(format!("extra {number}/below/it/c"));
        quietly(&target.join(format!("{number}/below/it/a")), |path| fs::remove_file(path).unwrap());
        expected.push(format!("missing {number}/below/it/a"));
        quietly(&target.join(format!("flat/{number}")), |path| fs::write(path, "").unwrap());
        expected.push(format!("extra flat/{number}"));
        quietly(&target.join(format!("flat/f00{number:05}")), |path| fs::remove_file(path).unwrap());
        expected.push(format!("missing flat/f00{number:05}"));
    }
    flip(&target.join("large"), LARGE - 1);
    expected.push("different large".to_owned());
    expected.sort();
    for (count, memory_bytes) in [(1, 4096), (4, 4096), (8, 4096), (4, 1 << 28)] {
        let mut options = threads(count);
        options.walk.memory_bytes = memory_bytes;
        let (outcome, found) = verify(&tree, &target, &options);
        let found: Vec<_> = found.into_iter().map(|(text, _)| text).collect();
        assert_eq!(found, expected, "{count} threads, {memory_bytes} bytes");
        assert_eq!(outcome.totals.compared, 30_000 + 4 * 3_001 + 300 * 5 + 3 - 6);
    }
}

#[test]
fn extra_names_of_the_target_are_reported_one_by_one() {
    let scratch = scratch("verify");
    let (one, other) = (scratch.join("one"), scratch.join("other"));
    fs::create_dir(&one).unwrap();
    trees::flat(&other, 5_000).unwrap();
    for count in [1, 4] {
        let options = Options { fields: Fields::NONE, ..threads(count) };
        let (outcome, found) = verify(&one, &other, &options);
        assert_eq!((outcome.totals.extra, found.len()), (5_000, 5_000));
        let (outcome, _) = verify(&other, &one, &options);
        assert_eq!((outcome.totals.missing, outcome.totals.extra), (5_000, 0));
    }
}

#[test]
fn two_entries_are_compared_as_what_they_are() {
    let scratch = scratch("verify");
    let path = |name: &str| scratch.join(name);
    for name in ["file", "same", "other"] {
        fs::write(path(name), if name == "other" { "different" } else { "same" }).unwrap();
        set_mtime(&path(name), 9, 9);
    }
    fs::create_dir(path("directory")).unwrap();
    symlink("file", path("link")).unwrap();
    symlink("directory", path("to")).unwrap();
    let fields = Fields::NONE.with(Field::Size).with(Field::Content).with(Field::Target);
    let found = |one: &str, other: &str| {
        let options = Options { fields, ..threads(1) };
        verify(&path(one), &path(other), &options)
            .1
            .into_iter()
            .flat_map(|(_, details)| details)
            .collect::<Vec<_>>()
    };
    assert_eq!(found("file", "same"), []);
    assert_eq!(found("file", "other"), [Detail::Size(4, 9)]);
    assert_eq!(found("link", "to"), [Detail::Target(b"file".to_vec(), b"directory".to_vec())]);
    assert_eq!(found("file", "link"), [Detail::Type(Kind::File, Kind::Symlink)]);
    // A slash follows a link.
    assert_eq!(found("directory", "to/"), []);
    assert_eq!(found("to/", "directory"), []);
    let refused = |one: &str, other: &str| {
        let reports = Reported::default();
        let refused =
            verify::run_alone(&bytes_of(&path(one)), &bytes_of(&path(other)), &threads(1), &reports, |_| {});
        refused.unwrap_err().what
    };
    assert!(refused("directory", "file").starts_with("SOURCE is a directory and TARGET a file: "));
    assert!(refused("to", "directory").starts_with("SOURCE is a symlink and TARGET a directory: "));
    assert!(refused("nothing", "file").starts_with("cannot stat SOURCE: "));
    assert!(refused("file", "nothing").starts_with("cannot stat TARGET: "));
}

#[test]
fn changing_file_is_reported_once_as_changed() {
    let scratch = scratch("verify");
    let tree = scratch.join("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("log"), bytes(3 << 20, 1)).unwrap();
    fs::write(tree.join("small"), bytes(200_000, 1)).unwrap();
    fs::write(tree.join("still"), "still").unwrap();
    let target = scratch.join("target");
    copy(&tree, &target);
    let options = Options { fields: Fields::NONE.with(Field::Content), ..threads(2) };
    for (changing, side) in [("log", &tree), ("small", &tree), ("log", &target), ("small", &target)] {
        let (path, ended) = (side.join(changing), AtomicBool::new(false));
        let mut byte = [0];
        fs::File::open(&path).unwrap().read_exact_at(&mut byte, 7).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
                while !ended.load(Ordering::Relaxed) {
                    file.write_all_at(&byte, 7).unwrap();
                }
            });
            let failures = until_something_fails(&tree, &target, &options);
            ended.store(true, Ordering::Relaxed);
            let [(class, path, text)] = failures.as_slice() else { panic!("{changing}: {failures:?}") };
            assert_eq!((*class, path), (Class::Changed, &tree.join(changing)));
            assert!(text.contains("it changed each time it was compared"), "{text}");
        });
    }
    assert_eq!(verify(&tree, &target, &options).1, []);
}

/// Compares again and again; a machine with too much to do may leave who changes things without a turn. Nothing ever differs.
fn until_something_fails(one: &Path, other: &Path, options: &Options<'_>) -> Vec<(Class, PathBuf, String)> {
    for _ in 0..1000 {
        let (_, found, failures) = try_verify(one, other, options);
        assert_eq!(found, []);
        if !failures.is_empty() {
            return failures;
        }
    }
    Vec::new()
}

#[test]
fn nothing_outside_is_read_during_swaps() {
    let scratch = scratch("verify");
    let tree = scratch.join("tree");
    fs::create_dir_all(tree.join("a/victim/deep")).unwrap();
    for number in 0..40 {
        fs::write(tree.join("a/victim/deep").join(number.to_string()), "inside").unwrap();
    }
    let outside = scratch.join("outside");
    fs::create_dir_all(outside.join("deep")).unwrap();
    fs::write(outside.join("deep/only-here"), "SECRET").unwrap();
    let target = scratch.join("target");
    copy(&tree, &target);
    let fields = Fields::NONE.with(Field::Content).with(Field::Xattrs);
    for side in [&tree, &target] {
        let swapped = Churn::swap_directory_with_symlink(&side.join("a/victim"), &outside);
        let Some(churn) = skip::unless_available("races of a comparison", swapped) else { return };
        for _ in 0..60 {
            let (_, found, _) = try_verify(&tree, &target, &Options { fields, ..threads(2) });
            for (text, details) in found {
                assert!(!text.ends_with("only-here"), "{text}");
                // The swapped name itself and its partner may be seen as either.
                let is_own = details.iter().all(|detail| matches!(detail, Detail::Type(..)));
                assert!(is_own, "{text}: {details:?}");
            }
        }
        churn.finish().unwrap();
    }
}

#[test]
fn unreadable_directories_are_reported_once() {
    if !skip::is_root() {
        return skip::skipped("directories that cannot be read", "it needs two users");
    }
    let scratch = Scratch::below(&std::env::temp_dir(), "verify").unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (one, other) = (scratch.join("one"), scratch.join("other"));
    for path in [&one, &other] {
        fs::create_dir_all(path.join("closed")).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(path.join("closed").join(name), "").unwrap();
        }
    }
    for side in [&one, &other] {
        fs::set_permissions(side.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
        let fields = Fields::NONE.with(Field::Content);
        let (found, failures) = std::thread::scope(|scope| {
            let ran = scope.spawn(|| {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
                let (_, found, failures) = try_verify(&one, &other, &Options { fields, ..threads(2) });
                (found, failures)
            });
            ran.join().unwrap()
        });
        fs::set_permissions(side.join("closed"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found, []);
        let [(class, path, text)] = failures.as_slice() else { panic!("{failures:?}") };
        assert_eq!((*class, path), (Class::Permission, &side.join("closed")), "{text}");
    }
}

#[test]
fn the_word_of_a_change_is_its_name() {
    assert_eq!([Change::Missing, Change::Extra].map(|change| change.name()), ["missing", "extra"]);
}

#[test]
fn extra_names_are_handed_out_by_several_tasks() {
    // More than one task may hand out.
    const NAMES: u64 = 70_000;
    let scratch = scratch("verify-many");
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    for root in [&source, &target] {
        std::fs::create_dir(root).unwrap();
    }
    for number in 0..NAMES {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            target.join(number.to_string()),
            rustix::fs::FileType::RegularFile,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
    }
    let (outcome, found) =
        verify(&source, &target, &Options { fields: [Field::Size].into_iter().collect(), ..threads(4) });
    let extra = found.iter().filter(|(text, _)| text.starts_with("extra ")).count() as u64;
    assert_eq!((outcome.totals.extra, extra), (NAMES, NAMES));
}
