//! Row 19: targets that take two names of the source for one.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use atta_ops::copy::Options;
use atta_testkit::lock::Lock;
use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use atta_testkit::slow::SlowFs;

use crate::copying::threads;
use crate::served::{copy_with, names};

/// Pairs of names that differ in case: files, links, directories.
fn pairs(source: &Path) {
    fs::create_dir_all(source).unwrap();
    for name in ["File", "file", "plain"] {
        fs::write(source.join(name), name).unwrap();
    }
    symlink("one", source.join("LINK")).unwrap();
    symlink("two", source.join("link")).unwrap();
    for name in ["Dir", "dir"] {
        fs::create_dir(source.join(name)).unwrap();
        fs::write(source.join(name).join("in"), name).unwrap();
    }
}

/// Row 19 of docs/hazards.md.
#[test]
fn second_name_that_folds_is_refused() {
    let test = "second_name_that_folds_is_refused";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    for count in [1, 4] {
        let scratch = Scratch::new("case").unwrap();
        let (source, directory) = (scratch.join("source"), scratch.join("directory"));
        pairs(&source);
        fs::create_dir_all(directory.join("there")).unwrap();
        let builder = SlowFs::builder().latency(Duration::ZERO).over(&directory).fold_case();
        let Some(shown) = skip::unless_available(test, builder.mount()) else { return };
        for target in ["new", "there"] {
            let (_, failures) = copy_with(&source, &shown.path().join(target), &threads(count));
            // One of each pair is copied, and each other one is reported.
            let failed: Vec<_> = names(&failures).iter().map(|name| name.to_ascii_lowercase()).collect();
            for name in ["file", "link"] {
                assert_eq!(failed.iter().filter(|each| *each == name).count(), 1, "{target}: {failures:?}");
            }
            assert!(failed.iter().any(|name| name == "dir" || name == "in"), "{target}: {failures:?}");
            for (_, path, message) in failures.iter().filter(|(_, path, _)| !path.ends_with("in")) {
                let name = path.file_name().unwrap().to_str().unwrap();
                let other = ["File", "file", "LINK", "link", "Dir", "dir"]
                    .into_iter()
                    .find(|other| *other != name && other.eq_ignore_ascii_case(name));
                let spelled = format!(", in another spelling: {}", other.unwrap());
                assert!(message.ends_with(&spelled), "{target}: {message}");
            }
            assert!(!failed.contains(&"plain".to_owned()), "{target}: {failures:?}");
            // What is there is what the source has under just that name.
            for entry in fs::read_dir(directory.join(target)).unwrap() {
                let path = entry.unwrap().path();
                let from = source.join(path.file_name().unwrap());
                if path.is_file() {
                    assert_eq!(fs::read(&path).unwrap(), fs::read(&from).unwrap(), "{}", path.display());
                }
            }
        }
    }
}

/// Row 19 of docs/hazards.md.
#[test]
fn other_spelling_is_not_written_in_place() {
    let test = "other_spelling_is_not_written_in_place";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let scratch = Scratch::new("case").unwrap();
    let (source, directory) = (scratch.join("source"), scratch.join("directory"));
    fs::create_dir(&source).unwrap();
    fs::create_dir_all(directory.join("target")).unwrap();
    fs::write(source.join("File"), "of the source").unwrap();
    fs::write(source.join("same"), "of the source").unwrap();
    fs::write(directory.join("target/file"), "other").unwrap();
    fs::write(directory.join("target/same"), "other").unwrap();
    let builder = SlowFs::builder().latency(Duration::ZERO).over(&directory).fold_case();
    let Some(shown) = skip::unless_available(test, builder.mount()) else { return };
    let options = Options { in_place: true, ..threads(1) };
    let (_, failures) = copy_with(&source, &shown.path().join("target"), &options);
    assert_eq!(names(&failures), ["File"], "{failures:?}");
    assert_eq!(fs::read(directory.join("target/file")).unwrap(), b"other");
    assert_eq!(fs::read(directory.join("target/same")).unwrap(), b"of the source");
}
