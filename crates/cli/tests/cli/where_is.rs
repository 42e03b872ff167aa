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

#[test]
fn places_are_ranked_by_what_is_needed() {
    let scratch = scratch("where-need");
    let state = scratch.join("state");
    let find = |need: &[&str]| {
        run(atta().env("XDG_STATE_HOME", &state).args(["where", "--json", "--need"]).args(need))
    };
    let found = find(&["1K"]).expect_code(0).json();
    let places = found["places"].as_array().unwrap().clone();
    assert!(!places.is_empty() && places[0]["suitable"] == true, "{found}");
    let points: Vec<_> = places.iter().filter_map(|place| place["point"].as_str()).collect();
    assert!(points.contains(&"/") && !points.contains(&"/proc") && !points.contains(&"/dev"), "{points:?}");
    let scores: Vec<_> = places.iter().filter_map(|place| place["score"].as_f64()).collect();
    let suitable = places.iter().take_while(|place| place["suitable"] == true).count();
    assert!(scores[..suitable].is_sorted_by(|one, two| one >= two), "{scores:?}");
    let none = find(&["15E"]).expect_code(1);
    assert!(none.err().starts_with("atta: no mount point suits\n"), "{}", none.err());
    assert!(none.json()["places"].as_array().unwrap().iter().all(|place| place["unmet"][0].is_string()));
    // What is measured now is known later.
    let measured = |ran: &Ran| ran.json()["places"][0]["bytes_per_second"].as_u64();
    assert_eq!(measured(&find(&["1K"]).expect_code(0)), None);
    let now = measured(&find(&["1K,writable", "--probe=now"]).expect_code(0));
    assert!(now > Some(0), "{now:?}");
    assert_eq!(measured(&find(&["1K,writable"]).expect_code(0)), now);
}

#[test]
fn requirements_that_are_none_are_refused() {
    for (need, why) in [("1Q", "'1Q'"), ("speed=fast", "'speed=fast'"), ("1K,1K", "each is given twice")] {
        let ran = where_is(&["--need", need]).expect_code(2);
        assert!(ran.err().contains(why), "{}", ran.err());
    }
}

#[test]
fn saved_map_answers_later() {
    let scratch = scratch("where-map");
    let map = scratch.join("map");
    let map = map.to_str().unwrap();
    let saved = where_is(&["--save", map]).expect_code(0);
    assert!(saved.out().starts_with(&format!("{map}: ")) && saved.out().ends_with(" as 1 rank see them\n"));
    let found = where_is(&["--json", "--map", map, "/", "/proc"]).expect_code(0).json();
    assert_eq!((&found["ranks"], &found["paths"][0]["is_unique"]), (&1.into(), &"yes".into()));
    assert_eq!(found["paths"][1]["own_group"]["size"], 1);
    let text = where_is(&["--map", map, "/"]).expect_code(0).out();
    assert!(text.lines().nth(1).unwrap().starts_with("/     unique  1 of 1, 1 rank  "), "{text}");
    let damaged = fs::read(map).unwrap();
    fs::write(map, &damaged[..damaged.len() - 1]).unwrap();
    let refused = where_is(&["--map", map, "/"]).expect_code(4);
    assert!(refused.err().starts_with(&format!("atta: cannot read the map {map}: ")), "{}", refused.err());
    let unsaved = where_is(&["--save", scratch.join("none/map").to_str().unwrap()]).expect_code(4);
    assert!(unsaved.err().starts_with("atta: cannot save "), "{}", unsaved.err());
}
