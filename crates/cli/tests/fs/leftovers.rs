//! What `atta clean` does not do to what is mounted on leftovers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use atta_testkit::lock::Lock;
use atta_testkit::mounts::Mount;
use atta_testkit::skip;

use crate::support::{atta, make_directory, scratch};

/// The directory that a copy makes under a temporary name, when it has begun to write the large file in it.
fn unfinished(here: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(here).unwrap();
    let mut found = entries.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(".atta.") && name.matches('.').count() == 4
    });
    found.find(|path| fs::read_dir(path).is_ok_and(|below| below.count() > 0))
}

// Hazard 36.
#[test]
fn what_is_mounted_on_a_leftover_stays() {
    let Some(_lock) = skip::unless_available("mounted on a leftover", Lock::for_mounts()) else { return };
    let scratch = scratch("left-mounted");
    let here = scratch.path();
    let tree = make_directory(here.join("tree"));
    make_directory(tree.join("below"));
    fs::write(tree.join("large"), vec![b'x'; 48 << 20]).unwrap();
    let mut command = atta();
    command.args(["copy", "--bandwidth", "1M", "-j", "1", "tree", "new"]).current_dir(here);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    let left = loop {
        if let Some(left) = unfinished(here) {
            break left;
        }
        assert!(since.elapsed() < Duration::from_secs(120), "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let place = make_directory(left.join("mounted"));
    let Some(mount) = skip::unless_available("mounted on a leftover", Mount::tmpfs(&place, 1 << 20)) else {
        return;
    };
    fs::write(place.join("kept"), "data").unwrap();
    let clean = || atta().args(["clean", "--yes", "."]).current_dir(here).output().unwrap();
    let ran = clean();
    let message = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(3), "{message}");
    assert!(message.contains("cannot remove: ") && message.contains("(EXDEV)"), "{message}");
    assert_eq!(fs::read(place.join("kept")).unwrap(), b"data");
    drop(mount);
    assert_eq!(clean().status.code(), Some(0));
    let left: Vec<_> = fs::read_dir(here).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tree"]);
}
