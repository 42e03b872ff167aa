//! `atta where` on one process: labels, codes, links. What needs a mount is in `tests/fs`.

use std::fs;

use crate::support::{Ran, atta, make_link, run, scratch};

fn where_is(arguments: &[&str]) -> Ran {
    run(atta().arg("where").args(arguments))
}

#[test]
fn path_has_a_type_space_and_uri() {
    let scratch = scratch("where");
    let file = scratch.join("file");
    fs::write(&file, "x").unwrap();
    make_link("file", scratch.join("link"));
    let (file, link) = (file.to_str().unwrap(), scratch.join("link"));
    let found = where_is(&["--json", file, link.to_str().unwrap()]).expect_code(0).json();
    let of = |at: usize, name: &str| found["paths"][at][name].clone();
    assert_eq!((&of(0, "is_unique"), &of(0, "is_consistent")), (&"yes".into(), &"yes".into()));
    assert_eq!((of(0, "data"), of(0, "is_fully_distributed")), ("local".into(), "yes".into()));
    assert!(of(0, "space")["available"].as_u64() > Some(0), "{found}");
    // A link has the URI of what it leads to.
    assert_eq!((of(1, "uri"), of(1, "resolved")), (of(0, "uri"), of(0, "resolved")));
    let text = where_is(&[file]).expect_code(0).out();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("PATH ") && lines[0].ends_with(" DATA   URI"), "{text}");
    assert!(lines[1].starts_with(file) && lines[1].contains("  local  "), "{text}");
    assert!(lines[1].ends_with(of(0, "uri").as_str().unwrap()), "{text}");
}

#[test]
fn working_directory_is_the_default() {
    let scratch = scratch("where-here");
    let found = run(atta().args(["where", "--json"]).current_dir(scratch.path())).expect_code(0).json();
    assert_eq!(found["paths"][0]["path"], scratch.path().canonicalize().unwrap().to_str().unwrap());
    let found = run(atta().args(["where", ""]).current_dir(scratch.path())).expect_code(2);
    assert!(found.err().contains("PATH is empty"), "{}", found.err());
}

#[test]
fn path_that_does_not_exist_is_reported() {
    let scratch = scratch("where-absent");
    let path = scratch.join("none/below");
    let found = where_is(&[path.to_str().unwrap()]).expect_code(1);
    assert!(found.err().ends_with("none/below: no such file or directory\n"), "{}", found.err());
    // The space of the directory above is that which it would have.
    assert!(!found.out().contains(" - "), "{}", found.out());
}

#[test]
fn all_mounts_are_shown() {
    let all = where_is(&["--all", "--json"]).expect_code(0).json();
    let points: Vec<_> = all["paths"].as_array().unwrap().iter().map(|row| row["path"].as_str()).collect();
    assert!(points.contains(&Some("/")) && points.contains(&Some("/proc")), "{points:?}");
    let uris = |row: &serde_json::Value| row["uri"].is_string();
    assert!(all["paths"].as_array().unwrap().iter().all(uris), "{all}");
}
