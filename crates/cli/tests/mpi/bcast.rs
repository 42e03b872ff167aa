//! `atta bcast` on real ranks: one copy for each node, one read, and each failure once, with the name of its node.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::hosts::Hosts;
use atta_testkit::mpi::{self, Mpi};
use atta_testkit::scratch::Scratch;
use atta_testkit::skip::skipped;
use rustix::process::Signal;
use serde_json::Value;

use crate::resume::{is_alive, signal, wait_until};
use crate::support::{make_directory, scratch};
use crate::{descendants, expect_code, mpis, program_on, text, three_hosts};

fn on_ranks(mpi: &Mpi, count: u32, arguments: &[&str]) -> Command {
    let mut command = mpi.launch(count, Some(&mpi.plugin));
    command.arg(env!("CARGO_BIN_EXE_atta")).arg("bcast").args(arguments).stdin(Stdio::null());
    command
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn bytes() -> Vec<u8> {
    (0..3_000_001_u32).map(|at| (at % 253) as u8).collect()
}

/// A launch on hosts of which each has a file system of its own at `local`: of 16 MiB, and the last one of 1 MiB.
fn mounted(hosts: &Hosts, local: &Path) {
    for host in 0..hosts.count() {
        let size = if host + 1 == hosts.count() { "size=1m" } else { "size=16m" };
        let mut mount = hosts.on(host);
        let status = mount.args(["mount", "-t", "tmpfs", "-o", size, "tmpfs"]).arg(local).status().unwrap();
        assert!(status.success());
    }
}

/// What a command on a host prints.
fn on_host(hosts: &Hosts, host: usize, words: &[&str]) -> String {
    let output = hosts.on(host).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn ranks_of_one_host_make_one_copy() {
    let test = "ranks_of_one_host_make_one_copy";
    let scratch = scratch("mpi-bcast");
    fs::write(scratch.join("f"), bytes()).unwrap();
    let path = |name: &str| scratch.join(name).to_str().unwrap().to_owned();
    for (number, mpi) in mpis(test).iter().enumerate() {
        let (file, target) = (path("f"), path(&format!("copy-{number}")));
        let output = mpi::alone(&mut on_ranks(mpi, 5, &["--json", &file, &target]));
        expect_code(&output, 0, &mpi.version);
        let summary = json(&output);
        assert_eq!((&summary["written"], &summary["readers"]), (&Value::from(1), &Value::from(vec![0])));
        assert!(fs::read(&target).unwrap() == bytes());
        let cases = [
            (&file, &target, 4, "TARGET exists: "),
            (&path("none"), &target, 4, "cannot read FILE: "),
            (&file, &path("none/copy"), 3, "the directory of TARGET does not exist: "),
        ];
        for (file, target, code, what) in cases {
            let output = mpi::alone(&mut on_ranks(mpi, 3, &[file, target]));
            expect_code(&output, code, what);
            assert_eq!(text(&output.stderr).matches(what).count(), 1, "{}", text(&output.stderr));
        }
    }
}

#[test]
fn node_without_space_is_named_and_others_finish() {
    let test = "node_without_space_is_named_and_others_finish";
    let Some(hosts) = three_hosts(test) else { return };
    let scratch = scratch("mpi-bcast-hosts");
    // The temporary directory may be on a loop device, whose image hosts see under other paths.
    let shared = Scratch::below(Path::new(env!("CARGO_TARGET_TMPDIR")), "mpi-bcast-file").unwrap();
    let file = shared.join("f");
    fs::write(&file, bytes()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let local = make_directory(scratch.join("local"));
    mounted(&hosts, &local);
    let (file, target) = (file.to_str().unwrap(), local.join("copy"));
    let target = target.to_str().unwrap();
    for mpi in mpis(test) {
        let run = |options: &[&str]| {
            let command = program_on(mpi, &hosts, "bcast", &[options, &["--json", file, target]].concat());
            command.map(|mut command| mpi::alone(&mut command))
        };
        let Some(output) = run(&[]) else {
            skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
            continue;
        };
        expect_code(&output, 3, &mpi.version);
        let summary = json(&output);
        assert_eq!((&summary["written"], &summary["readers"]), (&Value::from(2), &Value::from(vec![0])));
        let failed = summary["failed"].as_array().unwrap();
        assert_eq!((failed.len(), &failed[0]["host"]), (1, &Value::from("atta3")), "{summary:#}");
        let what = format!("atta: atta3 (rank 4): no space for {target}: it takes 3");
        assert_eq!(text(&output.stderr).matches(&what).count(), 1, "{}", text(&output.stderr));
        for host in [0, 1] {
            on_host(&hosts, host, &["cmp", file, target]);
            let directory = local.to_str().unwrap();
            assert_eq!(
                on_host(&hosts, host, &["find", directory, "-mindepth", "1", "-printf", "%P %m\n"]),
                "copy 640\n"
            );
        }
        assert_eq!(on_host(&hosts, 2, &["ls", "-A", local.to_str().unwrap()]), "");
        // Both copies are in the way.
        expect_code(&run(&[]).unwrap(), 4, "it exists");
        let again = run(&["--force"]).unwrap();
        expect_code(&again, 3, "replaced");
        assert_eq!(json(&again)["written"], 2);
        for host in [0, 1] {
            on_host(&hosts, host, &["rm", target]);
        }
    }
    assert!(!Path::new(target).exists(), "it was written on hosts only");
}

#[test]
fn partial_file_of_a_killed_rank_is_cleaned() {
    let test = "partial_file_of_a_killed_rank_is_cleaned";
    for mpi in mpis(test) {
        let scratch = scratch("mpi-bcast-killed");
        let directory = make_directory(scratch.join("d"));
        let file = scratch.join("f");
        fs::write(&file, vec![1; 4096]).unwrap();
        // It takes minutes, and no room.
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(1 << 40).unwrap();
        let arguments = [file.to_str().unwrap(), directory.to_str().unwrap()];
        let mut command = on_ranks(mpi, 3, &arguments);
        let names = || fs::read_dir(&directory).unwrap().count();
        let launched = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        while names() < 2 {
            assert!(Instant::now() < until, "there is no partial file");
            std::thread::sleep(Duration::from_millis(5));
        }
        let is_rank = |id: &i32| {
            let words = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            words.starts_with(env!("CARGO_BIN_EXE_atta").as_bytes())
        };
        let ranks: Vec<i32> = descendants(launched.id()).into_iter().filter(is_rank).collect();
        assert_eq!(ranks.len(), 3);
        ranks.iter().for_each(|rank| signal(*rank, Signal::KILL));
        launched.wait_with_output().unwrap();
        wait_until(|| !ranks.iter().any(|rank| is_alive(*rank)));
        assert_eq!(names(), 2, "a partial file and its record");
        let clean = Command::new(env!("CARGO_BIN_EXE_atta"))
            .args(["clean", "--yes"])
            .arg(&directory)
            .output()
            .unwrap();
        expect_code(&clean, 0, "clean");
        assert_eq!(names(), 0);
    }
}
