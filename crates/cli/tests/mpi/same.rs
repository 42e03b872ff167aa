//! Ranks of several hosts that do not see the same are refused, also where inodes are equal: each host has its own file system there.

use atta_testkit::hosts::Hosts;
use atta_testkit::mpi;

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
