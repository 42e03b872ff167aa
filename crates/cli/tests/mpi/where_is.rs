//! `atta where` on ranks of several hosts: who sees the same, who has something else, and who does not answer.

use std::path::Path;
use std::process::Command;

use atta_testkit::hosts::Hosts;
use atta_testkit::mpi::{self, Mpi};
use atta_testkit::skip::skipped;
use serde_json::Value;

use crate::support::make_directory;
use crate::{expect_code, mpis, program_on, text, three_hosts};

/// A command on a host, which must succeed.
fn on(hosts: &Hosts, host: usize, words: &[&str]) {
    let done = hosts.on(host).args(words).status().unwrap();
    assert!(done.success(), "{words:?} on host {host}");
}

/// What two ranks on each of three hosts answer; none where this MPI cannot launch there.
fn answered(test: &str, mpi: &Mpi, hosts: &Hosts, words: &[&str]) -> Option<(std::process::Output, Value)> {
    let Some(mut command): Option<Command> = program_on(mpi, hosts, "where", words) else {
        skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
        return None;
    };
    let output = mpi::alone(&mut command);
    let found = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Some((output, found))
}

fn path(directory: &Path) -> &str {
    directory.to_str().unwrap()
}

// A directory that all hosts share, a tmpfs on each, and one that only the first has.
#[test]
fn ranks_of_three_hosts_see_what_they_share() {
    let test = "ranks_of_three_hosts_see_what_they_share";
    let Some(hosts) = three_hosts(test) else { return };
    let scratch = crate::support::scratch("mpi-where");
    let [shared, own, some] = ["shared", "own", "some"].map(|name| make_directory(scratch.join(name)));
    std::fs::write(shared.join("file"), "x").unwrap();
    for host in 0..3 {
        on(&hosts, host, &["mount", "-t", "tmpfs", "tmpfs", path(&own)]);
        let file = own.join("file");
        let write = format!("echo {} > {}", if host == 1 { "other" } else { "equal" }, path(&file));
        on(&hosts, host, &["sh", "-c", &write]);
    }
    on(&hosts, 0, &["mount", "-t", "tmpfs", "tmpfs", path(&some)]);
    on(&hosts, 0, &["touch", path(&some.join("file"))]);
    let [shared, own, some] = [shared, own, some].map(|directory| directory.join("file"));
    for mpi in mpis(test) {
        let words = ["--json", path(&shared), path(&own), path(&some)];
        let Some((output, found)) = answered(test, mpi, &hosts, &words) else { continue };
        let about = format!("{}: {found:#}\n{}", mpi.version, text(&output.stderr));
        expect_code(&output, 1, &about);
        let labels = |at: usize| {
            ["is_unique", "is_fully_distributed", "is_consistent"]
                .map(|name| found["paths"][at][name].as_str())
        };
        assert_eq!(labels(0), [Some("yes"), Some("yes"), Some("yes")], "{about}");
        assert_eq!(labels(1), [Some("no"), Some("yes"), Some("no")], "{about}");
        assert_eq!(labels(2), [Some("no"), Some("yes"), Some("no")], "{about}");
        let differing = &found["paths"][1]["findings"][1];
        assert_eq!(differing["ranks"].to_string(), "[[2,3]]", "{about}");
        let Some((output, _)) = answered(test, mpi, &hosts, &words[1..]) else { continue };
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(out.contains("unique") && out.contains("fully distributed, 3 groups"), "{out}");
        assert!(err.contains("own/file: ranks 2-3: a file of 6 B, digest "), "{err}");
        assert!(err.contains("some/file: ranks 2-5: no such file or directory"), "{err}");
    }
    for mpi in mpis(test) {
        let map = scratch.join("map");
        let Some((output, _)) = answered(test, mpi, &hosts, &["--save", path(&map)]) else { continue };
        expect_code(&output, 0, &text(&output.stderr));
        let mut alone = hosts.on(1);
        alone.args([env!("CARGO_BIN_EXE_atta"), "where", "--json", "--map", path(&map), path(&own)]);
        let output = alone.output().unwrap();
        expect_code(&output, 0, &text(&output.stderr));
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let group = &found["paths"][0]["own_group"];
        assert_eq!(
            (&group["groups"], &group["size"], &group["host"]),
            (&3.into(), &2.into(), &"atta2".into()),
            "{found}"
        );
    }
}
