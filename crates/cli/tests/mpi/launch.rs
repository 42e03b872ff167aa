//! `atta launch` with real launchers: ranks are killed, hosts are lost, and the copy is that of an undisturbed run.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::lock::Lock;
use rustix::process::Signal;

use crate::resume::{copied, signal};
use crate::support::{make_directory, make_file, names_in};
use crate::{expect_code, mpis, program_on, rank_of, text, three_hosts, tree};

/// A launch under `atta launch`.
fn launched(inner: &Command, shared: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atta"));
    command.arg("launch").arg("--shared").arg(shared).arg("--").arg(inner.get_program());
    command.args(inner.get_args()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Waits for a rank of a command that has this word, and for its log. Returns its process.
fn rank_with(word: &str, rank: u32, log: &Path) -> i32 {
    let began = Instant::now();
    let is_of = |process: &i32| {
        let file = |name: &str| std::fs::read(format!("/proc/{process}/{name}")).unwrap_or_default();
        let has_word = file("cmdline").split(|byte| *byte == 0).any(|each| each == word.as_bytes());
        let has_rank =
            |name: &[u8]| file("environ").split(|byte| *byte == 0).any(|each| each.starts_with(name));
        file("comm") == b"atta\n"
            && has_word
            && (has_rank(b"OMPI_COMM_WORLD_RANK=") || has_rank(b"PMI_RANK="))
    };
    loop {
        let entries = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        let processes = entries.filter_map(|name| name.to_str()?.parse::<i32>().ok());
        let found = processes.filter(is_of).find(|process| rank_of(*process) == rank);
        if let (Some(process), true) = (found, std::fs::metadata(log).is_ok_and(|log| log.len() > 1000)) {
            return process;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no rank {rank} with {}", log.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn plain_copy(tree: &str, target: PathBuf) -> Vec<serde_json::Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atta"));
    copied(&command.args(["copy", "--json", tree]).arg(target).output().unwrap().stdout)
}

fn assert_same(tree: &str, target: &str, what: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_atta"));
    let verified = command.args(["verify", "--content", "-q", tree, target]).output().unwrap();
    expect_code(&verified, 0, what);
}

#[test]
fn killed_ranks_are_launched_again() {
    let test = "killed_ranks_are_launched_again";
    let (scratch, tree) = tree("mpi-launch");
    let expected = plain_copy(&tree, scratch.join("plain"));
    let shared = make_directory(scratch.join("shared"));
    for (number, mpi) in mpis(test).iter().enumerate() {
        let (job, target) = (scratch.join(format!("job-{number}")), scratch.join(format!("copy-{number}")));
        let (name, copy) = (job.to_str().unwrap(), target.to_str().unwrap());
        let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
        let mut inner = mpi.launch(3, Some(&mpi.plugin));
        inner.arg(env!("CARGO_BIN_EXE_atta")).args(["copy", "--json", "--fsync", "none", "-j1"]);
        // MPICH's launcher prints on standard output that it has ended ranks.
        let summary = scratch.join(format!("summary-{number}"));
        inner.arg("--print-to").arg(&summary);
        inner.args(["--iops", "1500", "--job", name, &tree, copy]);
        let child = launched(&inner, &shared).spawn().unwrap();
        // The last rank of the first start, and the first rank of the second one.
        for (run, rank) in [(1, 2), (2, 0)] {
            signal(rank_with(copy, rank, &job.join(format!("{run}.{rank}"))), Signal::KILL);
        }
        let output = child.wait_with_output().unwrap();
        expect_code(&output, 0, &mpi.version);
        let said = text(&output.stderr);
        assert!(said.contains("starting it again (2 of 3)"), "{}: {said}", mpi.version);
        assert_eq!(copied(&std::fs::read(&summary).unwrap()), expected, "{}", mpi.version);
        assert_same(&tree, copy, &mpi.version);
        assert!(names_in(&shared).is_empty(), "{}", mpi.version);
    }
}

#[test]
fn lost_host_is_left_out() {
    let test = "lost_host_is_left_out";
    let Some(hosts) = three_hosts(test) else { return };
    let (scratch, tree) = tree("mpi-launch-hosts");
    let expected = plain_copy(&tree, scratch.join("plain"));
    let (shared, lost) = (make_directory(scratch.join("shared")), scratch.join("lost"));
    // The third host cannot be reached once the file is there.
    let agent = scratch.join("agent");
    let script = format!(
        "#!/bin/sh\n[ -e {} ] && case \" $* \" in *\" atta3 \"*) exit 255 ;; esac\nexec {} \"$@\"\n",
        lost.display(),
        hosts.agent().display()
    );
    let plain = make_file(scratch.join("agent.text"), script.as_bytes());
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Not by this process: a child that another test starts would have it open for writing.
    assert!(Command::new("cp").arg("-p").arg(&plain).arg(&agent).status().unwrap().success());
    for (number, mpi) in mpis(test).iter().enumerate() {
        let (job, target) = (scratch.join(format!("job-{number}")), scratch.join(format!("copy-{number}")));
        let (name, copy) = (job.to_str().unwrap(), target.to_str().unwrap());
        let summary = scratch.join(format!("summary-{number}"));
        let options = ["--json", "--fsync", "none", "-j1", "--iops", "1500", "--print-to"];
        let options = [&options[..], &[summary.to_str().unwrap(), "--job", name, &tree, copy]].concat();
        let Some(inner) = program_on(mpi, &hosts, "copy", &options) else { continue };
        let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
        let _ = std::fs::remove_file(&lost);
        let mut command = Command::new(inner.get_program());
        command
            .args(inner.get_args().map(|word| if word == hosts.agent() { agent.as_os_str() } else { word }));
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let child = launched(&command, &shared).spawn().unwrap();
        let process = rank_with(copy, 5, &job.join("1.5"));
        make_file(&lost, b"");
        signal(process, Signal::KILL);
        let output = child.wait_with_output().unwrap();
        expect_code(&output, 0, &mpi.version);
        let said = text(&output.stderr);
        assert!(
            said.contains("atta: host atta3 does not answer and is left out\n"),
            "{}: {said}",
            mpi.version
        );
        assert!(said.contains("atta: 4 ranks are started instead of 6\n"), "{}: {said}", mpi.version);
        assert_eq!(copied(&std::fs::read(&summary).unwrap()), expected, "{}", mpi.version);
        assert_same(&tree, copy, &mpi.version);
    }
}

/// The first rank dies, and the others go on within the same launch: the next first rank reports the end.
#[test]
fn ranks_that_go_on_are_not_launched_again() {
    let test = "ranks_that_go_on_are_not_launched_again";
    let (scratch, tree) = tree("mpi-launch-goes-on");
    let expected = plain_copy(&tree, scratch.join("plain"));
    let shared = make_directory(scratch.join("shared"));
    for (number, mpi) in mpis(test).iter().enumerate() {
        let Some(mut inner) = mpi.launch_surviving(3, Some(&mpi.plugin)) else { continue };
        let (job, target) = (scratch.join(format!("job-{number}")), scratch.join(format!("copy-{number}")));
        let (name, copy) = (job.to_str().unwrap(), target.to_str().unwrap());
        let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
        inner.arg(env!("CARGO_BIN_EXE_atta")).args(["copy", "--json", "--fsync", "none", "-j1"]);
        let summary = scratch.join(format!("summary-{number}"));
        inner.arg("--print-to").arg(&summary).args(["--iops", "1500", "--job", name, &tree, copy]);
        let child = launched(&inner, &shared).spawn().unwrap();
        signal(rank_with(copy, 0, &job.join("1.0")), Signal::KILL);
        let output = child.wait_with_output().unwrap();
        expect_code(&output, 0, &mpi.version);
        let said = text(&output.stderr);
        assert!(
            said.contains("2 ranks go on") && !said.contains("starting it again"),
            "{}: {said}",
            mpi.version
        );
        assert_eq!(copied(&std::fs::read(&summary).unwrap()), expected, "{}", mpi.version);
        assert_same(&tree, copy, &mpi.version);
    }
}
