//! Real ranks under every MPI that `ATTA_TEST_MPI` names, and what a launched program says when it cannot join them. The
//! variable holds prefixes with a `bin/mpicc` and a `bin/mpirun`, with colons between. Without it the tests with ranks
//! are skipped; those of the error messages run, in an environment like a launcher's.
//!
//! The plug-ins are built here, each for its MPI, into a target directory of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use atta_testkit::hosts::Hosts;
use atta_testkit::mpi::{self, Mpi};
use atta_testkit::skip::{skipped, unless_available};

static BUILT: LazyLock<Built> = LazyLock::new(Built::new);

/// What the tests start.
struct Built {
    program: PathBuf,
    stub: PathBuf,
    mpis: Vec<Mpi>,
}

/// How a launch ended.
struct Ended {
    code: Option<i32>,
    said: String,
}

impl Built {
    fn new() -> Self {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        Self {
            program: mpi::build_example("atta-mpi-loader", "conformance"),
            stub: mpi::build_plugin(target, "stub", None),
            mpis: Mpi::installed(target),
        }
    }
}

/// Launches the program.
fn launch(mpi: &Mpi, ranks: u32, plugin: Option<&Path>) -> Ended {
    launch_with(mpi, ranks, plugin, &[], &[])
}

/// Launches the program with what comes before it (`env` and its like) and what comes after.
fn launch_with(mpi: &Mpi, ranks: u32, plugin: Option<&Path>, before: &[&str], after: &[&str]) -> Ended {
    let mut command = mpi.launch(ranks, plugin);
    command.args(before).arg(&BUILT.program).args(after);
    ended(command)
}

fn ended(mut command: Command) -> Ended {
    let output = mpi::alone(&mut command);
    let said = [output.stdout, output.stderr].concat();
    Ended { code: output.status.code(), said: String::from_utf8_lossy(&said).into_owned() }
}

impl Ended {
    /// The only line in which the program reported its error.
    fn error(&self) -> &str {
        let lines: Vec<_> = self.said.lines().filter(|line| line.starts_with("conformance: ")).collect();
        assert_eq!(lines.len(), 1, "reported once: {}", self.said);
        assert_eq!(self.code, Some(4), "{}", self.said);
        assert_eq!(self.said.lines().filter(|line| line.starts_with("hint: ")).count(), 1, "{}", self.said);
        lines[0]
    }
}

/// The MPIs to test with, or none after saying so.
fn mpis(test: &str) -> &'static [Mpi] {
    if BUILT.mpis.is_empty() {
        skipped(test, "ATTA_TEST_MPI names no MPI");
    }
    &BUILT.mpis
}

/// The program as rank 0 of a launcher that is not there.
fn as_if_launched(program: &Path, plugin: Option<&Path>) -> Ended {
    let mut command = mpi::patient(program, plugin);
    command.env("OMPI_COMM_WORLD_SIZE", "2").env("OMPI_COMM_WORLD_RANK", "0");
    ended(command)
}

/// Every rank says that it conforms, by the first of them.
fn expect_conforming(mpi: &Mpi, ranks: u32, arguments: &[&str]) {
    let ended = launch_with(mpi, ranks, Some(&mpi.plugin), &[], arguments);
    let expected = format!("conforms: {ranks} ranks, {ranks} on this host, ");
    let lines = ended.said.lines().filter(|line| line.starts_with(&expected));
    assert_eq!(lines.count(), 1, "{}: {}", mpi.version, ended.said);
    assert_eq!(ended.code, Some(0), "{}: {}", mpi.version, ended.said);
}

#[test]
fn ranks_conform_under_every_mpi() {
    for mpi in mpis("ranks_conform_under_every_mpi") {
        (1..=4).for_each(|ranks| expect_conforming(mpi, ranks, &[]));
    }
}

// The body that runs in crates/runtime/tests/conformance.rs over the other fabrics.
#[test]
fn jobs_conform_under_every_mpi() {
    for mpi in mpis("jobs_conform_under_every_mpi") {
        [1, 2, 3, 5, 8].into_iter().for_each(|ranks| expect_conforming(mpi, ranks, &["job"]));
    }
}

#[test]
fn queries_are_answered_under_every_mpi() {
    for mpi in mpis("queries_are_answered_under_every_mpi") {
        (1..=4).for_each(|ranks| expect_conforming(mpi, ranks, &["queries"]));
    }
}

// The first and the last rank kill themselves.
#[test]
fn ranks_die_and_the_others_go_on() {
    let test = "ranks_die_and_the_others_go_on";
    for mpi in mpis(test) {
        for ranks in [3, 4, 6] {
            let Some(mut command) = mpi.launch_surviving(ranks, Some(&mpi.plugin)) else {
                skipped(test, &format!("ranks of {} do not survive others", mpi.version));
                break;
            };
            command.arg(&BUILT.program).arg("deaths");
            let ended = ended(command);
            let begins = format!("conforms: {ranks} ranks, ");
            let lines = ended.said.lines().filter(|line| line.starts_with(&begins)).count();
            assert_eq!((lines, ended.code), (1, Some(0)), "{}: {}", mpi.version, ended.said);
        }
    }
}

#[test]
fn ranks_that_cannot_survive_know_it() {
    for mpi in mpis("ranks_that_cannot_survive_know_it") {
        let ended = launch_with(mpi, 3, Some(&mpi.plugin), &[], &["deaths"]);
        assert!(ended.said.contains("ranks of this fabric cannot die"), "{}: {}", mpi.version, ended.said);
    }
}

// The body asks every rank for its neighbours, too: each must be one of two, and each the other's.
#[test]
fn ranks_of_three_hosts_conform_and_know_who_is_near() {
    let test = "ranks_of_three_hosts_conform_and_know_who_is_near";
    if mpis(test).is_empty() {
        return;
    }
    let Some(hosts) = unless_available(test, Hosts::new(3)) else { return };
    for mpi in &BUILT.mpis {
        for what in ["fabric", "job"] {
            let Some(mut command) = mpi.launch_on(&hosts, 2, Some(&mpi.plugin)) else {
                skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
                continue;
            };
            command.arg(&BUILT.program).arg(what);
            let ended = ended(command);
            let lines =
                ended.said.lines().filter(|line| line.starts_with("conforms: 6 ranks, 2 on this host, "));
            assert_eq!(lines.count(), 1, "{}, {what}: {}", mpi.version, ended.said);
            assert_eq!(ended.code, Some(0), "{}, {what}: {}", mpi.version, ended.said);
        }
    }
}

// Over TCP, where the receiver cannot take a message from the memory of a process that has stopped.
#[test]
fn rank_stopped_in_a_large_message_blocks_no_other() {
    for mpi in mpis("rank_stopped_in_a_large_message_blocks_no_other") {
        let ended = launch_with(mpi, 3, Some(&mpi.plugin), &["env", "OMPI_MCA_btl=self,tcp"], &["slow"]);
        let lines = ended.said.lines().filter(|line| line.starts_with("conforms: 3 ranks, 3 on this host, "));
        assert_eq!((lines.count(), ended.code), (1, Some(0)), "{}: {}", mpi.version, ended.said);
    }
}

/// Runs on three hosts under Open MPI 5, again and again, with each of these programs, and with and without
/// `async_mpi_finalize` in turns. Ranks leave core files, and backtraces of Open MPI.
fn expect_no_crash(test: &str, runs: usize, programs: &[&str]) {
    let Some(mpi) = mpis(test).iter().find(|mpi| mpi.is_open()) else { return };
    let Some(hosts) = unless_available(test, Hosts::new(3)) else { return };
    let cores = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.{}", std::process::id()));
    fs::create_dir_all(&cores).expect("a directory can be made");
    for run in 0..runs {
        let Some(mut command) = mpi.launch_on(&hosts, 2, Some(&mpi.plugin)) else {
            return skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
        };
        let ends_alone = run % 2 == 1;
        if ends_alone {
            command.args(["--mca", "async_mpi_finalize", "1"]);
        }
        command.args(["sh", "-c", "ulimit -c unlimited; cd \"$0\" && exec \"$@\""]).arg(&cores);
        command.arg(&BUILT.program).arg(programs[run / 2 % programs.len()]);
        let ended = ended(command);
        let lines = ended.said.lines().filter(|line| line.starts_with("conforms: 6 ranks, 2 on this host, "));
        let what = format!("run {run}, async_mpi_finalize {ends_alone}, cores in {}", cores.display());
        assert_eq!((lines.count(), ended.code), (1, Some(0)), "{what}: {}", ended.said);
    }
    fs::remove_dir(&cores).expect("no rank left a core file");
}

// What the runs below rely on to say more of a crash than that there was one.
#[test]
fn crash_names_its_phase_and_has_a_backtrace() {
    let all = mpis("crash_names_its_phase_and_has_a_backtrace");
    for mpi in all.iter().filter(|mpi| mpi.is_open()) {
        let ended = launch_with(
            mpi,
            1,
            Some(&mpi.plugin),
            &["sh", "-c", "ulimit -c 0; exec \"$0\" \"$@\""],
            &["crash"],
        );
        assert!(!matches!(ended.code, Some(0 | 124 | 137)), "{:?}: {}", ended.code, ended.said);
        for part in
            ["phase: rank 0: crash", "*** Process received signal ***", "Signal: Segmentation fault (11)"]
        {
            assert!(ended.said.contains(part), "{}: {}", mpi.version, ended.said);
        }
    }
}

// Once, in some 33 runs, a rank was killed by SIGSEGV: docs/mpi.md.
#[test]
fn thirty_runs_on_three_hosts_end_without_a_crash() {
    expect_no_crash("thirty_runs_on_three_hosts_end_without_a_crash", 30, &["fabric"]);
}

#[test]
#[ignore = "an hour"]
fn thousand_runs_on_three_hosts_end_without_a_crash() {
    expect_no_crash("thousand_runs_on_three_hosts_end_without_a_crash", 1000, &["fabric", "job"]);
}

#[test]
fn abort_of_one_rank_ends_all() {
    for mpi in mpis("abort_of_one_rank_ends_all") {
        for ranks in [1, 2, 3, 5] {
            let ended = launch_with(mpi, ranks, Some(&mpi.plugin), &[], &["abort"]);
            let context = format!("{}, {ranks} ranks: {:?}: {}", mpi.version, ended.code, ended.said);
            // The launcher chooses the exit code; 124 is that of `timeout`.
            assert!(!matches!(ended.code, Some(0 | 124 | 137)), "{context}");
            // Messages of a rank that continued, or ended by itself.
            assert!(
                !ended.said.contains("conforms: ") && !ended.said.contains("aborted, it ended"),
                "{context}"
            );
        }
    }
}

#[test]
fn missing_plug_in_is_reported_once() {
    for mpi in mpis("missing_plug_in_is_reported_once") {
        let ended = launch(mpi, 3, None);
        assert!(ended.error().contains("no plug-in for MPI: looked for "), "{}", ended.said);
    }
}

#[test]
fn stub_is_reported_once_and_ends_all_ranks() {
    for mpi in mpis("stub_is_reported_once_and_ends_all_ranks") {
        let ended = launch(mpi, 3, Some(&BUILT.stub));
        assert!(ended.error().ends_with(": it was built without an MPI"), "{}", ended.said);
    }
}

#[test]
fn plug_in_of_another_mpi_ends_all_ranks() {
    let test = "plug_in_of_another_mpi_ends_all_ranks";
    let all = mpis(test);
    let others = all.iter().flat_map(|launcher| all.iter().map(move |other| (launcher, other)));
    let pairs: Vec<_> = others.filter(|(launcher, other)| launcher.is_open() != other.is_open()).collect();
    if !all.is_empty() && pairs.is_empty() {
        skipped(test, "ATTA_TEST_MPI names no two families of MPI");
    }
    for (launcher, other) in pairs {
        let ended = launch(launcher, 3, Some(&other.plugin));
        assert!(ended.error().contains(": it was built for "), "{}", ended.said);
    }
}

// A launcher whose kind is not known, and an MPI that does not know it: each rank finds itself alone.
#[test]
fn unconnected_ranks_report_it_once() {
    let test = "unconnected_ranks_report_it_once";
    let all = mpis(test);
    let hydra = all.iter().find(|mpi| !mpi.is_open());
    let open: Vec<_> = all.iter().filter(|mpi| mpi.is_open()).collect();
    let Some(hydra) = hydra.filter(|_| !open.is_empty()) else {
        if !all.is_empty() {
            skipped(test, "ATTA_TEST_MPI names no Hydra and Open MPI");
        }
        return;
    };
    let unknown = ["env", "-u", "HYDI_CONTROL_FD", "SLURM_PROCID=0"];
    for mpi in open {
        let ended = launch_with(hydra, 3, Some(&mpi.plugin), &unknown, &[]);
        assert!(ended.error().contains(": 3 were launched, Open MPI v"), "{}", ended.said);
        assert!(ended.error().ends_with(" found 1"), "{}", ended.said);
    }
}

#[test]
fn missing_plug_in_error_lists_searched_places() {
    let ended = as_if_launched(&BUILT.program, None);
    let directory = BUILT.program.parent().unwrap().display();
    assert!(ended.error().contains(&format!("looked for {directory}/libatta_mpi.so, ")), "{}", ended.said);
    let ended = as_if_launched(&BUILT.program, Some(Path::new("/nonexistent/x.so")));
    assert!(ended.error().ends_with("looked for /nonexistent/x.so"), "{}", ended.said);
}

#[test]
fn plug_in_is_found_beside_the_program() {
    let beside = BUILT.stub.with_file_name("conformance");
    // A link and no copy: a file that was just written cannot be started while another test's child holds it open.
    let _none = fs::remove_file(&beside);
    fs::hard_link(&BUILT.program, &beside).unwrap();
    let ended = as_if_launched(&beside, None);
    assert!(ended.error().ends_with("stub/libatta_mpi.so: it was built without an MPI"), "{}", ended.said);
}

#[test]
fn invalid_plug_in_is_reported() {
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let ended = as_if_launched(&BUILT.program, Some(&text));
    assert!(ended.error().contains("cannot open the plug-in for MPI: "), "{}", ended.said);
    assert!(ended.error().contains("invalid ELF header"), "{}", ended.said);
}

#[test]
fn tasks_that_srun_started_without_pmi_are_no_ranks() {
    let Some(mpi) = mpis("tasks_that_srun_started_without_pmi_are_no_ranks").first() else { return };
    let mut command = mpi::patient(&BUILT.program, Some(&mpi.plugin));
    command.env("SLURM_PROCID", "0").env("SLURM_STEP_NUM_TASKS", "2");
    let ended = ended(command);
    assert!(ended.error().ends_with("srun started 2 tasks without MPI support"), "{}", ended.said);
}
