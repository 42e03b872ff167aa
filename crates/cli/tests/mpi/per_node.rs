//! `atta copy --per-node` on three hosts: each copies its own SOURCE into a directory of its own, and a host that cannot is named.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::hosts::Hosts;
use atta_testkit::lock::Lock;
use atta_testkit::mpi::{self, Mpi};
use atta_testkit::scratch::Scratch;
use atta_testkit::skip::skipped;
use rustix::process::Signal;
use serde_json::Value;

use crate::resume::signal;
use crate::support::{make_directory, scratch};
use crate::{descendants, expect_code, mpis, program_on, rank_of, text, three_hosts, walks};

const HOSTS: [&str; 3] = ["atta1", "atta2", "atta3"];

/// A directory that all hosts share, and one that is a file system of its own on each.
struct Places {
    _scratch: Scratch,
    shared: PathBuf,
    local: String,
}

fn places(hosts: &Hosts, name: &str) -> Places {
    let scratch = scratch(name);
    let [shared, local] = ["shared", "local"].map(|name| make_directory(scratch.join(name)));
    let local = local.to_str().unwrap().to_owned();
    for host in 0..3 {
        on_host(hosts, host, &["mount", "-t", "tmpfs", "tmpfs", &local]);
    }
    Places { _scratch: scratch, shared, local }
}

fn on_host(hosts: &Hosts, host: usize, words: &[&str]) -> String {
    let output = hosts.on(host).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Makes a SOURCE on a host, with so many files.
fn source_on(hosts: &Hosts, host: usize, places: &Places, files: usize) {
    let directory = format!("{}/run", places.local);
    on_host(hosts, host, &["mkdir", &directory]);
    for file in 0..files {
        let script = format!("printf 'host {host}, file {file}' > {directory}/f{file}");
        on_host(hosts, host, &["sh", "-c", &script]);
    }
}

/// None, after saying so, if this MPI cannot launch on several hosts.
fn copy(test: &str, mpi: &Mpi, hosts: &Hosts, arguments: &[&str]) -> Option<Output> {
    let words = [&["--per-node", "--json"], arguments].concat();
    let Some(mut command) = program_on(mpi, hosts, "copy", &words) else {
        skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
        return None;
    };
    Some(mpi::alone(&mut command))
}

/// The same with one rank on each host.
fn copy_alone(mpi: &Mpi, hosts: &Hosts, arguments: &[&str]) -> Output {
    let mut launch = mpi.launch_on(hosts, 1, Some(&mpi.plugin)).unwrap();
    launch.arg(env!("CARGO_BIN_EXE_atta")).args(["copy", "--per-node", "--json"]).args(arguments);
    mpi::alone(launch.stdin(Stdio::null()))
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// A host's copy has these files, and no others.
fn assert_copied(target: &Path, host: usize, files: usize) {
    let copy = target.join(HOSTS[host]).join("run");
    assert_eq!(names(&copy), (0..files).map(|file| format!("f{file}")).collect());
    for file in 0..files {
        let content = fs::read_to_string(copy.join(format!("f{file}"))).unwrap();
        assert_eq!(content, format!("host {host}, file {file}"));
    }
}

#[test]
fn per_node_copies_go_to_their_own_directories() {
    let test = "per_node_copies_go_to_their_own_directories";
    let Some(hosts) = three_hosts(test) else { return };
    let places = places(&hosts, "mpi-per-node");
    for host in 0..3 {
        source_on(&hosts, host, &places, 3 + host);
    }
    let source = format!("{}/run", places.local);
    for (number, mpi) in mpis(test).iter().enumerate() {
        let target = places.shared.join(format!("target-{number}"));
        let words = [source.as_str(), target.to_str().unwrap()];
        let Some(output) = copy(test, mpi, &hosts, &words) else { continue };
        expect_code(&output, 0, &mpi.version);
        assert_eq!(names(&target), HOSTS.map(str::to_owned).into());
        (0..3).for_each(|host| assert_copied(&target, host, 3 + host));
        let summary = json(&output);
        assert_eq!(
            (&summary["files"], &summary["directories"], &summary["ranks"]),
            (&12.into(), &3.into(), &6.into())
        );
        let nodes = summary["nodes"].as_array().unwrap();
        let rows: Vec<_> = nodes
            .iter()
            .map(|node| {
                (
                    node["node"].as_str().unwrap(),
                    node["exit_code"].as_u64(),
                    node["summary"]["files"].as_u64(),
                )
            })
            .collect();
        assert_eq!(rows, [0, 1, 2].map(|host| (HOSTS[host as usize], Some(0), Some(3 + host))));
        let ranks: Vec<_> = nodes.iter().flat_map(|node| node["ranks"].as_array().unwrap().clone()).collect();
        assert_eq!(ranks, (0..6).map(Value::from).collect::<Vec<_>>());
        let reported =
            summary["by_rank"].as_array().unwrap().iter().map(|rank| rank["rank"].as_u64().unwrap());
        assert_eq!(reported.collect::<Vec<_>>(), (0..6).collect::<Vec<_>>());
        // Again, into directories that are there.
        let again = copy(test, mpi, &hosts, &[&["--update"], &words[..]].concat()).unwrap();
        expect_code(&again, 0, "again");
        assert_eq!(json(&again)["skipped"], 12, "{:#}", json(&again));
        (0..3).for_each(|host| assert_copied(&target, host, 3 + host));
        let target = places.shared.join(format!("alone-{number}"));
        let output = copy_alone(mpi, &hosts, &[&source, target.to_str().unwrap()]);
        expect_code(&output, 0, &mpi.version);
        assert_eq!((&json(&output)["files"], &json(&output)["ranks"]), (&12.into(), &3.into()));
        (0..3).for_each(|host| assert_copied(&target, host, 3 + host));
    }
}

#[test]
fn per_node_copy_without_a_source_is_named() {
    let test = "per_node_copy_without_a_source_is_named";
    let Some(hosts) = three_hosts(test) else { return };
    let places = places(&hosts, "mpi-per-node-none");
    [0, 2].into_iter().for_each(|host| source_on(&hosts, host, &places, 2));
    let source = format!("{}/run", places.local);
    for (number, mpi) in mpis(test).iter().enumerate() {
        let target = places.shared.join(format!("target-{number}"));
        let words = [source.as_str(), target.to_str().unwrap()];
        let Some(output) = copy(test, mpi, &hosts, &words) else { continue };
        expect_code(&output, 4, &mpi.version);
        let what = format!("cannot stat SOURCE: {source}: no such file or directory (ENOENT)");
        let said = text(&output.stderr);
        assert_eq!(said.matches(&format!("atta: atta2: {what}")).count(), 1, "{said}");
        let summary = json(&output);
        assert_eq!(summary["files"], 4);
        let nodes = summary["nodes"].as_array().unwrap();
        let codes: Vec<_> = nodes.iter().map(|node| node["exit_code"].clone()).collect();
        assert_eq!((codes, &nodes[1]["error"]), ([0, 4, 0].map(Value::from).to_vec(), &what.into()));
        assert_eq!(names(&target), ["atta1", "atta3"].map(str::to_owned).into());
        [0, 2].into_iter().for_each(|host| assert_copied(&target, host, 2));
    }
}

#[test]
fn per_node_failures_have_the_name_of_their_node() {
    let test = "per_node_failures_have_the_name_of_their_node";
    let Some(hosts) = three_hosts(test) else { return };
    let places = places(&hosts, "mpi-per-node-failures");
    (0..3).for_each(|host| source_on(&hosts, host, &places, 2));
    let source = format!("{}/run", places.local);
    for (number, mpi) in mpis(test).iter().enumerate() {
        let target = make_directory(places.shared.join(format!("target-{number}")));
        // A directory is where the file goes.
        make_directory(make_directory(make_directory(target.join("atta3")).join("run")).join("f1"));
        let errors = places.shared.join(format!("errors-{number}"));
        let words = ["--errors", errors.to_str().unwrap(), &source, target.to_str().unwrap()];
        let Some(output) = copy(test, mpi, &hosts, &words) else { continue };
        expect_code(&output, 3, &mpi.version);
        let said = text(&output.stderr);
        assert_eq!(said.matches("/f1: ").count(), 1, "{said}");
        assert_eq!(said.matches("atta3: cannot ").count(), 1, "{said}");
        let row: Value = serde_json::from_slice(&fs::read(&errors).unwrap()).unwrap();
        assert_eq!(row["node"], "atta3", "{row:#}");
        let summary = json(&output);
        let failed = |summary: &Value| summary["failed"].as_u64();
        let nodes = summary["nodes"].as_array().unwrap().iter().map(|node| failed(&node["summary"]));
        assert_eq!((failed(&summary), nodes.collect::<Vec<_>>()), (Some(1), [0, 0, 1].map(Some).to_vec()));
        (0..2).for_each(|host| assert_copied(&target, host, 2));
    }
}

#[test]
fn per_node_copy_into_local_target_is_refused() {
    let test = "per_node_copy_into_local_target_is_refused";
    let Some(hosts) = three_hosts(test) else { return };
    let places = places(&hosts, "mpi-per-node-local");
    (0..3).for_each(|host| source_on(&hosts, host, &places, 1));
    let source = format!("{}/run", places.local);
    for mpi in mpis(test) {
        for target in [places.local.clone(), format!("{}/new", places.local)] {
            for options in [&[][..], &["--assume-same"]] {
                let words = [options, &[&source, &target]].concat();
                let Some(output) = copy(test, mpi, &hosts, &words) else { continue };
                expect_code(&output, 4, &mpi.version);
                let said = text(&output.stderr);
                assert_eq!(said.matches("TARGET is not the same on all ranks: ").count(), 1, "{said}");
                assert!(!said.contains("add --assume-same"), "{said}");
            }
        }
    }
    for host in 0..3 {
        assert_eq!(on_host(&hosts, host, &["ls", "-A", &places.local]), "run\n", "host {host}");
    }
}

#[test]
fn per_node_copy_needs_names_that_differ() {
    let test = "per_node_copy_needs_names_that_differ";
    let Some(hosts) = three_hosts(test) else { return };
    let places = places(&hosts, "mpi-per-node-names");
    (0..3).for_each(|host| source_on(&hosts, host, &places, 1));
    let source = format!("{}/run", places.local);
    for (number, mpi) in mpis(test).iter().enumerate() {
        let target = places.shared.join(format!("target-{number}"));
        let Some(mut launch) = mpi.launch_on(&hosts, 2, Some(&mpi.plugin)) else {
            skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
            continue;
        };
        // After the launcher has found the hosts by their names.
        let script = "[ \"$(hostname)\" = atta1 ] || hostname twin; exec \"$0\" \"$@\"";
        launch.args(["sh", "-c", script, env!("CARGO_BIN_EXE_atta"), "copy", "--per-node", &source]);
        let output = mpi::alone(launch.arg(&target).stdin(Stdio::null()));
        (0..3).for_each(|host| {
            on_host(&hosts, host, &["hostname", HOSTS[host]]);
        });
        expect_code(&output, 4, &mpi.version);
        let said = text(&output.stderr);
        assert_eq!(said.matches("ranks 2 and 4 are on nodes of one name: twin").count(), 1, "{said}");
        assert!(!target.exists(), "{}", mpi.version);
    }
}

#[test]
fn signal_to_one_rank_ends_all_nodes() {
    let test = "signal_to_one_rank_ends_all_nodes";
    let Some(hosts) = three_hosts(test) else { return };
    let places = places(&hosts, "mpi-per-node-signal");
    for host in 0..3 {
        source_on(&hosts, host, &places, 1);
        on_host(&hosts, host, &["truncate", "-s", "0", &format!("{}/run/f0", places.local)]);
        let large = format!("head -c 1000000 /dev/zero > {}/run/large", places.local);
        on_host(&hosts, host, &["sh", "-c", &large]);
    }
    let source = format!("{}/run", places.local);
    for (number, mpi) in mpis(test).iter().enumerate() {
        let target = places.shared.join(format!("target-{number}"));
        // It would take many minutes.
        let words = ["--per-node", "--json", "--bandwidth", "1000", &source, target.to_str().unwrap()];
        let Some(mut command) = program_on(mpi, &hosts, "copy", &words) else {
            skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
            continue;
        };
        let _lock = Lock::acquire("mpi").unwrap();
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let ranks = loop {
            let ranks: Vec<_> = descendants(child.id()).into_iter().filter(|id| walks(*id)).collect();
            if ranks.len() == 6 {
                break ranks;
            }
            if Instant::now() > until {
                signal(i32::try_from(child.id()).unwrap(), Signal::TERM);
                panic!("these ranks copy: {ranks:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let last = ranks.into_iter().find(|id| rank_of(*id) == 5).unwrap();
        signal(last, Signal::TERM);
        let output = child.wait_with_output().unwrap();
        expect_code(&output, 143, &mpi.version);
        let summary = json(&output);
        let codes = summary["nodes"].as_array().unwrap().iter().map(|node| node["exit_code"].as_u64());
        assert_eq!((&summary["interrupted"], codes.collect()), (&true.into(), vec![Some(143); 3]));
        assert!(text(&output.stderr).contains("copy the rest with: "), "{}", text(&output.stderr));
        // What has its name is complete; nothing is left under another one.
        for copy in HOSTS.map(|host| target.join(host).join("run")).iter().filter(|copy| copy.exists()) {
            let found = names(copy);
            assert!(found.iter().all(|name| name == "f0" || name == "large"), "{found:?}");
            let large = fs::metadata(copy.join("large"));
            assert!(large.is_err() || large.is_ok_and(|large| large.len() == 1_000_000));
        }
    }
}
