//! Ranks of several hosts that do not see the same are refused, also where inodes are equal: each host has its own file system there.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use atta_testkit::hosts::Hosts;
use atta_testkit::mpi;
use atta_testkit::skip::unless_available;
use atta_testkit::slow::SlowFs;

use crate::support::make_directory;
use crate::{expect_code, mpis, program_on, text, three_hosts};

fn mount_on_each(hosts: &Hosts, path: &str) {
    for host in 0..3 {
        let mounted = hosts.on(host).args(["mount", "-t", "tmpfs", "tmpfs", path]).status().unwrap();
        assert!(mounted.success());
    }
}

// The root of each tmpfs has inode 1: data would be scattered over the hosts.
#[test]
fn target_on_each_host_is_refused() {
    let test = "target_on_each_host_is_refused";
    let Some(hosts) = three_hosts(test) else { return };
    let scratch = crate::support::scratch("mpi-own-target");
    let [source, target] = ["source", "target"].map(|name| make_directory(scratch.join(name)));
    std::fs::write(source.join("file"), "content").unwrap();
    let [source, target] = [&source, &target].map(|path| path.to_str().unwrap());
    mount_on_each(&hosts, target);
    for mpi in mpis(test) {
        for options in [&[][..], &["--assume-same"]] {
            let words = [options, &["--no-job", source, target]].concat();
            let Some(mut command) = program_on(mpi, &hosts, "copy", &words) else { continue };
            let output = mpi::alone(&mut command);
            expect_code(&output, 4, &mpi.version);
            let said = text(&output.stderr);
            let what = "PATH is not the same on all ranks: on rank 0 (atta1) TARGET goes to inode ";
            assert_eq!(said.matches(what).count(), 1, "{}: {said}", mpi.version);
            assert!(said.contains("; on rank 2 (atta2) TARGET goes to inode "), "{said}");
            assert!(!said.contains("add --assume-same"), "{said}");
        }
    }
    for host in 0..3 {
        let listed = hosts.on(host).args(["ls", "-A", target]).output().unwrap();
        assert_eq!(text(&listed.stdout), "", "host {host}");
    }
}

// Names of FUSE mounts say nothing, and each root has inode 1. A file in TARGET decides.
#[test]
fn target_that_names_do_not_identify_is_tried() {
    let test = "target_that_names_do_not_identify_is_tried";
    let scratch = crate::support::scratch("mpi-marked-target");
    let [source, one, other] = ["source", "one", "other"].map(|name| make_directory(scratch.join(name)));
    std::fs::write(source.join("file"), "content").unwrap();
    let mount = |over: &Path| SlowFs::builder().over(over).latency(Duration::ZERO).mount();
    let Some(mounted) = unless_available(test, mount(&one)) else { return };
    for (over, code) in [(&one, 0), (&other, 4)] {
        let Some(second) = unless_available(test, mount(over)) else { return };
        // They see what is mounted now.
        let Some(hosts) = three_hosts(test) else { return };
        let [target, second] = [mounted.path(), second.path()].map(|path| path.to_str().unwrap());
        let bound = hosts.on(1).args(["mount", "--bind", second, target]).status().unwrap();
        assert!(bound.success());
        for mpi in mpis(test) {
            let words = ["--no-job", source.to_str().unwrap(), target];
            let Some(mut command) = program_on(mpi, &hosts, "copy", &words) else { continue };
            let output = mpi::alone(&mut command);
            let said = text(&output.stderr);
            expect_code(&output, code, &format!("{}: {said}", mpi.version));
            let what = "rank 2 (atta2) does not see a file that rank 0 has made in the target directory";
            assert_eq!(said.contains(what), code == 4, "{}: {said}", mpi.version);
            assert_eq!(
                said.contains("; if it is, add --assume-same\n"),
                code == 4,
                "{}: {said}",
                mpi.version
            );
        }
        let left = std::fs::read_dir(&one).unwrap().chain(std::fs::read_dir(&other).unwrap());
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["source"], "no marker is left");
    }
}

// As with a glob that each host expands.
#[test]
fn ranks_with_other_paths_are_refused() {
    let test = "ranks_with_other_paths_are_refused";
    let scratch = crate::support::scratch("mpi-other-paths");
    let [one, two] = ["one", "two"].map(|name| make_directory(scratch.join(name)));
    for mpi in mpis(test) {
        let mut command = mpi.launch(3, Some(&mpi.plugin));
        let script =
            "[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] && set -- \"$1\"; exec \"$ATTA\" walk \"$@\"";
        command.args(["sh", "-c", script, "sh"]).args([&one, &two]);
        command.env("ATTA", env!("CARGO_BIN_EXE_atta")).stdin(Stdio::null());
        let output = mpi::alone(&mut command);
        expect_code(&output, 4, &mpi.version);
        let said = text(&output.stderr);
        let what = "PATH is not the same on all ranks: on rank 0 a PATH is ";
        assert_eq!(said.matches(what).count(), 1, "{}: {said}", mpi.version);
        assert!(said.contains("/two; on rank 1 nothing more"), "{}: {said}", mpi.version);
    }
}
