//! A server that carries a request out, loses its answer, gets the request once more and answers that the name is there already, or is
//! not there any more, as NFS does.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use atta_ops::copy::Options;
use atta_testkit::slow::Operation;

use crate::copying::{assert_same, threads};
use crate::served::{assert_no_leftovers, copy_with, copy_within, names, serve, small, small_and_old};

/// What changes names, and what it is answered with the second time.
const REPLIES: [(Operation, &str); 8] = [
    (Operation::Rename, "ENOENT"),
    (Operation::Create, "EEXIST"),
    (Operation::Mkdir, "EEXIST"),
    (Operation::Link, "EEXIST"),
    (Operation::Symlink, "EEXIST"),
    (Operation::Mknod, "EEXIST"),
    (Operation::Unlink, "ENOENT"),
    (Operation::Rmdir, "ENOENT"),
];

/// Entries of all kinds; a large file that is copied in chunks; with two names of one file or without.
fn mixed(tree: &Path, has_links: bool) {
    small(tree);
    fs::write(tree.join("large"), vec![7; 300_000]).unwrap();
    std::os::unix::fs::symlink("a", tree.join("link")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, tree.join("fifo"), fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    if has_links {
        fs::write(tree.join("linked"), "linked").unwrap();
        fs::hard_link(tree.join("linked"), tree.join("sub/other")).unwrap();
        fs::hard_link(tree.join("fifo"), tree.join("sub/fifo")).unwrap();
    }
}

// Hazard 32.
#[test]
fn request_done_but_answered_with_an_error_counts() {
    let test = "request_done_but_answered_with_an_error_counts";
    for (operation, errno) in REPLIES {
        for target in ["new", "old"] {
            // A claim on a file with several names cannot be distinguished from another thread's: such a file loses its links, and that is counted.
            let has_links = operation != Operation::Create;
            for skip in 0.. {
                let rule = format!("{}:*:done={errno}:skip={skip}:times=1", operation.name());
                let fill = |directory: &Path| small_and_old(&directory.join("old"));
                let Some(served) = serve(test, fill, &[&rule]) else { return };
                let source = served.scratch.join("source");
                mixed(&source, has_links);
                let options = Options { chunk: Some(64 << 10), ..threads(1) };
                let (_, failures) = copy_with(&source, &served.at(target), &options);
                assert_eq!(failures, [], "{target}, {rule}");
                assert_same(&source, &served.beneath(target));
                assert_no_leftovers(&served.directory);
                if served.served().of(operation) <= skip {
                    break;
                }
            }
        }
    }
}

// GlusterFS does so where another client looks at a directory that is new.
#[test]
fn name_denied_once_is_renamed() {
    let test = "name_denied_once_is_renamed";
    for target in ["new", "old"] {
        for skip in 0.. {
            let rule = format!("rename:*:ENOENT:skip={skip}:times=1");
            let fill = |directory: &Path| small_and_old(&directory.join("old"));
            let Some(served) = serve(test, fill, &[&rule]) else { return };
            let source = served.scratch.join("source");
            mixed(&source, true);
            let (_, failures) = copy_within(&source, &served.at(target));
            assert_eq!(failures, [], "{target}, {rule}");
            assert_same(&source, &served.beneath(target));
            assert_no_leftovers(&served.directory);
            if served.served().of(Operation::Rename) <= skip {
                break;
            }
        }
    }
}

// GlusterFS does so where a new directory is missing on one of its bricks.
#[test]
fn denied_directory_gets_its_attributes() {
    let test = "denied_directory_gets_its_attributes";
    for (operation, target) in [
        (Operation::Chmod, "new"),
        (Operation::Utimes, "new"),
        (Operation::Chmod, "old"),
        (Operation::Utimes, "old"),
    ] {
        for skip in 0.. {
            let rule = format!("{}:*:ESTALE:skip={skip}:times=1", operation.name());
            let Some(served) = serve(test, |_| (), &[&rule]) else { return };
            let source = served.scratch.join("source");
            for (name, mode) in [("", 0o755), ("one", 0o750), ("one/two", 0o711)] {
                fs::create_dir(source.join(name)).unwrap();
                fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).unwrap();
            }
            if target == "old" {
                fs::create_dir(served.beneath(target)).unwrap();
            }
            let (_, failures) = copy_within(&source, &served.at(target));
            assert_eq!(failures, [], "{target}, {rule}");
            assert_same(&source, &served.beneath(target));
            assert_no_leftovers(&served.directory);
            if served.served().of(operation) <= skip {
                assert!(skip > 0, "{rule}: nothing was denied");
                break;
            }
        }
    }
}

// Hazard 32.
#[test]
fn failed_rename_is_not_mistaken_for_success() {
    let test = "failed_rename_is_not_mistaken_for_success";
    for errno in ["ENOENT", "EEXIST"] {
        let rule = format!("rename:victim:{errno}");
        let fill = |directory: &Path| small_and_old(&directory.join("old"));
        let Some(served) = serve(test, fill, &[&rule]) else { return };
        let source = served.scratch.join("source");
        small(&source);
        let (_, failures) = copy_within(&source, &served.at("old"));
        assert_eq!(names(&failures), ["victim"], "{failures:?}");
        assert_eq!(fs::read(served.beneath("old/victim")).unwrap(), b"old");
        assert_no_leftovers(&served.directory);
    }
}

// Hazard 32.
#[test]
fn server_that_reports_names_as_taken_causes_no_loop() {
    let test = "server_that_reports_names_as_taken_causes_no_loop";
    let fill = |directory: &Path| small_and_old(&directory.join("old"));
    let Some(served) = serve(test, fill, &["create:*:done=EEXIST"]) else { return };
    let source = served.scratch.join("source");
    small(&source);
    let (_, failures) = copy_within(&source, &served.at("old"));
    assert_eq!(names(&failures), ["a", "inner", "victim", "z"], "{failures:?}");
    assert_no_leftovers(&served.directory);
}
