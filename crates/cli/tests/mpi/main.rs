//! The program on real ranks, under every MPI that `ATTA_TEST_MPI` names: the same as alone, whatever the schedule and the
//! number of ranks; and errors are reported once.

#![expect(clippy::disallowed_methods, reason = "a test looks at trees that it made itself")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and clippy takes its helpers for no tests"
)]

mod bcast;
mod copy;
mod deaths;
mod kills;
mod launch;
mod per_node;
mod resume;
mod same;
mod sum;
#[path = "../support/mod.rs"]
mod support;
mod verify;
mod where_is;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use atta_testkit::hosts::Hosts;
use atta_testkit::lock::Lock;
use atta_testkit::mpi::{self, Mpi};
use atta_testkit::scratch::Scratch;
use atta_testkit::skip::{skipped, unless_available};
use atta_testkit::slow::SlowFs;
use atta_testkit::trees;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use support::{make_directory, scratch, walk};

static MPIS: LazyLock<Vec<Mpi>> = LazyLock::new(|| Mpi::installed(Path::new(env!("CARGO_TARGET_TMPDIR"))));

const SCHEDULES: [&str; 6] = ["centralized", "centralized-keep", "random", "proximity", "hybrid", "lifeline"];

/// Ranks that do not walk after so long never will. It only ends what hangs.
const RANKS_WALK_AFTER: Duration = Duration::from_secs(60);

/// The MPIs to test with, or none after saying so.
fn mpis(test: &str) -> &'static [Mpi] {
    if MPIS.is_empty() {
        skipped(test, "ATTA_TEST_MPI names no MPI");
    }
    &MPIS
}

/// A launch of `atta walk`.
fn ranks(mpi: &Mpi, count: u32, arguments: &[&str]) -> Command {
    let mut command = mpi.launch(count, Some(&mpi.plugin));
    command.arg(env!("CARGO_BIN_EXE_atta")).arg("walk").args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn expect_code(output: &Output, code: i32, what: &str) {
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{what}\n{out}\n{error}");
}

/// A tree with odd names, links, and directories of all sizes.
fn tree(name: &str) -> (Scratch, String) {
    let scratch = scratch(name);
    let tree = make_directory(scratch.join("tree"));
    trees::hostile_names(&make_directory(tree.join("names"))).unwrap();
    let outside = make_directory(scratch.join("outside"));
    trees::kinds(&make_directory(tree.join("kinds")), &outside).unwrap();
    trees::chain(&make_directory(tree.join("chain")), 60, b"level").unwrap();
    trees::flat(&make_directory(tree.join("flat")), 3000).unwrap();
    trees::random(&make_directory(tree.join("random")), 7, 400).unwrap();
    let file = tree.join("one");
    std::fs::write(&file, b"content").unwrap();
    for index in 0..5 {
        std::fs::hard_link(&file, tree.join("random").join(format!("again-{index}"))).unwrap();
        std::fs::hard_link(&file, tree.join("flat").join(format!("again-{index}"))).unwrap();
    }
    let path = tree.to_str().unwrap().to_owned();
    (scratch, path)
}

fn paths(output: &[u8]) -> BTreeSet<Vec<u8>> {
    let paths: Vec<_> =
        output.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect();
    let set: BTreeSet<_> = paths.iter().cloned().collect();
    assert_eq!(paths.len(), set.len(), "some path comes twice");
    set
}

/// A run listed these paths, each once.
#[track_caller]
fn assert_lists(listed: &Output, expected: &BTreeSet<Vec<u8>>, what: &str) {
    let found = paths(&listed.stdout);
    let shown = |paths: Vec<&Vec<u8>>| -> Vec<String> {
        paths.iter().take(5).map(|path| text(path).escape_debug().to_string()).collect()
    };
    let missing: Vec<_> = expected.difference(&found).collect();
    let more: Vec<_> = found.difference(expected).collect();
    let counts = (missing.len(), more.len(), found.len());
    assert!(
        missing.is_empty() && more.is_empty(),
        "{what}: {counts:?} missing, too many and found: {:?}, {:?}\n{}",
        shown(missing),
        shown(more),
        text(&listed.stderr)
    );
}

#[test]
fn ranks_list_what_one_process_lists() {
    let test = "ranks_list_what_one_process_lists";
    let (_scratch, tree) = tree("mpi-list");
    let alone = walk(["-0", "-q"]).arg(&tree).output().unwrap();
    let expected = paths(&alone.stdout);
    for mpi in mpis(test) {
        for (schedule, count) in SCHEDULES.into_iter().zip([2, 3, 5, 2, 8, 3]).chain([("lifeline", 1)]) {
            let what = format!("{}: {schedule}, {count} ranks", mpi.version);
            let listed = mpi::alone(&mut ranks(mpi, count, &["-0", "-q", "--schedule", schedule, &tree]));
            expect_code(&listed, 0, &what);
            assert_lists(&listed, &expected, &what);
        }
    }
}

// Open MPI gives the first rank a terminal as standard output.
#[test]
fn paths_on_ranks_are_printed_as_alone() {
    let (_scratch, tree) = tree("mpi-lines");
    let lines = |output: &Output| -> Vec<Vec<u8>> {
        let mut lines: Vec<_> = output.stdout.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    let alone = lines(&walk(["--print", "-q"]).arg(&tree).output().unwrap());
    for mpi in mpis("paths_on_ranks_are_printed_as_alone") {
        for count in [1, 3] {
            let listed = mpi::alone(&mut ranks(mpi, count, &["--print", "-q", &tree]));
            expect_code(&listed, 0, &mpi.version);
            assert!(lines(&listed) == alone, "{}: {count} ranks", mpi.version);
        }
    }
}

#[test]
fn totals_of_ranks_are_those_of_one_process() {
    let test = "totals_of_ranks_are_those_of_one_process";
    let (_scratch, tree) = tree("mpi-totals");
    let json = |output: &Output| serde_json::from_slice::<Value>(&output.stdout).unwrap();
    let alone = json(&walk(["--json", "--lite"]).arg(&tree).output().unwrap());
    let alone_full = json(&walk(["--json"]).arg(&tree).output().unwrap());
    for mpi in mpis(test) {
        for (how, expected) in [("--lite", &alone), ("--verbose", &alone_full)] {
            let output = mpi::alone(&mut ranks(mpi, 3, &["--json", how, "--termination", "token", &tree]));
            expect_code(&output, 0, &mpi.version);
            let summary = json(&output);
            assert_eq!(summary["totals"], expected["totals"], "{}: {how}", mpi.version);
            let ranks = summary["ranks"].as_array().unwrap();
            let entries: u64 = ranks.iter().map(|rank| rank["entries"].as_u64().unwrap()).sum();
            assert_eq!((ranks.len(), Some(entries)), (3, summary["totals"]["entries"].as_u64()));
        }
    }
}

#[test]
fn ranks_write_one_catalog_and_one_file_of_errors() {
    let test = "ranks_write_one_catalog_and_one_file_of_errors";
    let (scratch, tree) = tree("mpi-catalog");
    for (number, mpi) in mpis(test).iter().enumerate() {
        let catalog = scratch.join(format!("catalog-{number}"));
        let errors = scratch.join(format!("errors-{number}"));
        let stats = scratch.join(format!("stats-{number}"));
        let missing = format!("{tree}/missing");
        let mut command = ranks(mpi, 3, &["-q", &tree, &missing, "--output", catalog.to_str().unwrap()]);
        let plots = scratch.join(format!("plots-{number}"));
        command.arg("--errors").arg(&errors).arg("--stats").arg(&stats).arg("--plots").arg(&plots);
        let output = mpi::alone(&mut command);
        expect_code(&output, 3, &mpi.version);
        let message = text(&output.stderr);
        assert_eq!(message.matches("missing: no such file or directory (ENOENT)").count(), 1, "{message}");
        assert_eq!(std::fs::read(&errors).unwrap(), std::fs::read(catalog.join("_errors.ndjson")).unwrap());
        let manifest: Value =
            serde_json::from_slice(&std::fs::read(catalog.join("_manifest.json")).unwrap()).unwrap();
        let shards = manifest["shards"].as_array().unwrap();
        let rows: u64 = shards.iter().map(|shard| shard["rows"].as_u64().unwrap()).sum();
        assert_eq!(Some(rows), manifest["totals"]["entries"].as_u64());
        for shard in shards {
            let length = std::fs::File::open(catalog.join(shard["file"].as_str().unwrap()))
                .and_then(|file| file.metadata())
                .unwrap()
                .len();
            assert_eq!(Some(length), shard["bytes"].as_u64());
        }
        for name in ["work", "time", "bytes", "messages", "sent"] {
            let figure = std::fs::read(plots.join(format!("{name}.svg"))).unwrap();
            assert!(figure.starts_with(b"<svg"), "{name}: {}", text(&figure));
        }
        let stats: Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
        assert!(
            stats["ranks"][1]["traffic"].as_array().is_some_and(|traffic| !traffic.is_empty()),
            "{stats}"
        );
    }
}

#[test]
fn signal_to_one_rank_gives_a_partial_summary() {
    let test = "signal_to_one_rank_gives_a_partial_summary";
    let (_scratch, tree) = tree("mpi-signal");
    for mpi in mpis(test) {
        // The walk would take an hour with this limit. Its first event shows that it has begun.
        let mut command = ranks(mpi, 2, &["--iops", "2", "-j1", &tree]);
        let _lock = atta_testkit::lock::Lock::acquire("mpi").unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let walking = one_of_the_ranks(&mut child);
        kill_process(Pid::from_raw(walking).unwrap(), Signal::TERM).unwrap();
        let output = child.wait_with_output().unwrap();
        expect_code(&output, 143, &mpi.version);
        assert!(text(&output.stdout).starts_with("interrupted: "), "{}", text(&output.stdout));
    }
}

#[test]
fn hanging_rank_is_named_and_not_waited_for() {
    let (_scratch, tree) = tree("mpi-hangs");
    for mpi in mpis("hanging_rank_is_named_and_not_waited_for") {
        let mut command = ranks(mpi, 2, &["--iops", "2", "-j1", &tree]);
        let _lock = atta_testkit::lock::Lock::acquire("mpi").unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        one_of_the_ranks(&mut child);
        let walking: Vec<_> = descendants(child.id()).into_iter().filter(|id| walks(*id)).collect();
        let rank =
            |number| Pid::from_raw(*walking.iter().find(|id| rank_of(**id) == number).unwrap()).unwrap();
        kill_process(rank(1), Signal::STOP).unwrap();
        kill_process(rank(0), Signal::TERM).unwrap();
        let output = child.wait_with_output().unwrap();
        let message = text(&output.stderr);
        assert!(!output.status.success(), "{message}");
        let expected = "the run was asked to end, but there was no answer from rank 1";
        assert!(message.contains(expected) && message.contains("the walk is not complete"), "{message}");
    }
}

/// Which rank a process is, as its launcher says.
fn rank_of(id: i32) -> u32 {
    let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap();
    let value = |name: &str| {
        let variables = environment.split(|byte| *byte == 0);
        let text =
            variables.map(String::from_utf8_lossy).find_map(|it| it.strip_prefix(name).map(str::to_owned));
        text.and_then(|text| text.parse().ok())
    };
    value("OMPI_COMM_WORLD_RANK=").or_else(|| value("PMI_RANK=")).unwrap()
}

/// Three hosts, or none after saying why not.
fn three_hosts(test: &str) -> Option<Hosts> {
    if mpis(test).is_empty() { None } else { unless_available(test, Hosts::new(3)) }
}

/// A launch of `atta walk` on these hosts, two ranks on each.
fn ranks_on(mpi: &Mpi, hosts: &Hosts, arguments: &[&str]) -> Option<Command> {
    program_on(mpi, hosts, "walk", arguments)
}

/// A launch of a command on these hosts, two ranks on each.
fn program_on(mpi: &Mpi, hosts: &Hosts, command: &str, arguments: &[&str]) -> Option<Command> {
    let mut launch = mpi.launch_on(hosts, 2, Some(&mpi.plugin))?;
    launch.arg(env!("CARGO_BIN_EXE_atta")).arg(command).args(arguments).stdin(Stdio::null());
    Some(launch)
}

/// Whether ranks on more than one host, each with two ranks, did tasks. All tasks begin on one rank.
fn tasks_crossed_hosts(stats: &Value) -> bool {
    let ranks = stats["ranks"].as_array().unwrap();
    let number = |rank: &Value, name: &str| rank[name].as_u64().unwrap();
    let sum = |name: &str| ranks.iter().map(|rank| number(rank, name)).sum::<u64>();
    assert_eq!(sum("tasks_given"), sum("tasks_accepted"), "{stats:#}");
    for rank in &ranks[1..] {
        let (entries, accepted) = (number(rank, "entries"), number(rank, "tasks_accepted"));
        assert!(entries == 0 || accepted > 0, "rank {} did what it was not given\n{stats:#}", rank["rank"]);
    }
    // Of three ranks one is on another host than rank 0.
    ranks.iter().filter(|rank| number(rank, "entries") > 0).count() >= 3
}

#[test]
fn ranks_of_three_hosts_give_one_summary() {
    let test = "ranks_of_three_hosts_give_one_summary";
    let Some(hosts) = three_hosts(test) else { return };
    let (scratch, tree) = tree("mpi-hosts");
    for number in 0..200 {
        trees::flat(&make_directory(Path::new(&tree).join(format!("wide-{number}"))), 10).unwrap();
    }
    let alone: Value = serde_json::from_slice(&walk(["--json"]).arg(&tree).output().unwrap().stdout).unwrap();
    let expected = paths(&walk(["-0", "-q"]).arg(&tree).output().unwrap().stdout);
    for (number, mpi) in mpis(test).iter().enumerate() {
        for schedule in ["lifeline", "proximity"] {
            let what = format!("{}: {schedule}", mpi.version);
            let stats = scratch.join(format!("{schedule}-{number}"));
            let stats_option = stats.to_str().unwrap();
            // The cap is divided among the ranks: what one alone would need seconds for waits until others ask.
            let mut arguments = vec!["--json", "--schedule", schedule, "--iops", "6000", "-j1", &tree];
            arguments.extend(["--stats", stats_option]);
            if ranks_on(mpi, &hosts, &arguments).is_none() {
                skipped(test, &format!("no way to launch on several hosts with {}", mpi.version));
                continue;
            }
            // Nothing promises that a rank gets tasks in a single run.
            let mut tries = 5;
            let output = loop {
                let output = mpi::alone(&mut ranks_on(mpi, &hosts, &arguments).unwrap());
                expect_code(&output, 0, &what);
                let stats: Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
                if tasks_crossed_hosts(&stats) {
                    break output;
                }
                tries -= 1;
                assert!(tries > 0, "{what}: no task was sent to another host\n{stats:#}");
            };
            // More than one summary is no JSON.
            let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(summary["totals"], alone["totals"], "{what}");
            assert_eq!(summary["ranks"].as_array().map(Vec::len), Some(6), "{what}");
            // Open MPI loses rows that a slow reader has not taken when the job ends.
            let rows = scratch.join(format!("rows-{schedule}-{number}"));
            let arguments = ["-0", "-q", "--schedule", schedule, "--print-to", rows.to_str().unwrap(), &tree];
            let mut command = ranks_on(mpi, &hosts, &arguments).unwrap();
            let mut listed = mpi::alone(&mut command);
            expect_code(&listed, 0, &what);
            assert_eq!(text(&listed.stdout), "", "{what}");
            listed.stdout = std::fs::read(rows).unwrap();
            assert_lists(&listed, &expected, &what);
        }
    }
}

#[test]
fn root_that_differs_on_one_host_is_refused() {
    let test = "root_that_differs_on_one_host_is_refused";
    let Some(hosts) = three_hosts(test) else { return };
    let scratch = scratch("mpi-roots");
    let root = make_directory(scratch.join("root"));
    std::fs::write(root.join("file"), b"content").unwrap();
    let root = root.to_str().unwrap();
    let mounted = hosts.on(1).args(["mount", "-t", "tmpfs", "tmpfs", root]).status().unwrap();
    assert!(mounted.success());
    for mpi in mpis(test) {
        let Some(mut command) = ranks_on(mpi, &hosts, &[root]) else { continue };
        let output = mpi::alone(&mut command);
        expect_code(&output, 4, &mpi.version);
        let message = text(&output.stderr);
        assert_eq!(
            message.matches("PATH is not the same on all ranks").count(),
            1,
            "{}: {message}",
            mpi.version
        );
        assert!(output.stdout.is_empty(), "{}: {}", mpi.version, text(&output.stdout));
    }
}

/// Waits until the ranks below this launcher walk, and gives the id of the newest. Started `atta`s that have not met yet
/// would be ended by a signal without a word.
fn one_of_the_ranks(launcher: &mut Child) -> i32 {
    let begun = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let ended = launcher.try_wait().unwrap();
        assert!(ended.is_none(), "the launcher ended before its ranks walked: {ended:?}");
        let walking: Vec<_> = descendants(launcher.id()).into_iter().filter(|id| walks(*id)).collect();
        if let [_, .., last] = walking.as_slice() {
            return *last;
        }
        if begun.elapsed() > RANKS_WALK_AFTER {
            // Its ranks would be left over: it ends them with itself.
            kill_process(Pid::from_child(launcher), Signal::TERM).unwrap();
            panic!("after {RANKS_WALK_AFTER:?} these ranks walk: {walking:?}");
        }
    }
}

/// Whether this process is an `atta` with threads that walk.
fn walks(id: i32) -> bool {
    let said = |script: String| {
        let output = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).output().unwrap();
        text(&output.stdout)
    };
    said(format!("cat /proc/{id}/comm")).trim() == "atta"
        && said(format!("cat /proc/{id}/task/*/comm")).contains("worker-")
}

/// Processes below this one.
fn descendants(of: u32) -> Vec<i32> {
    let listed = Command::new("ps").args(["-e", "-o", "pid=,ppid="]).output().unwrap();
    let pairs: Vec<(i32, i32)> = text(&listed.stdout)
        .lines()
        .filter_map(|line| {
            let mut numbers = line.split_whitespace().filter_map(|number| number.parse().ok());
            Some((numbers.next()?, numbers.next()?))
        })
        .collect();
    let mut found = vec![i32::try_from(of).unwrap()];
    let mut at = 0;
    while at < found.len() {
        let below = pairs.iter().filter(|(_, parent)| *parent == found[at]).map(|(id, _)| *id);
        found.extend(below.collect::<Vec<_>>());
        at += 1;
    }
    found
}

#[test]
fn errors_are_reported_once() {
    for mpi in mpis("errors_are_reported_once") {
        let cases: [(&[&str], i32, &str); 4] = [
            (&["--bogus"], 2, "unexpected argument '--bogus'"),
            (&["--exclude", "["], 2, "unclosed character class"),
            (&["/tmp", "--output", "/proc/nowhere"], 4, "atta: "),
            (&["/proc/self"], 4, "PATH is not the same on all ranks"),
        ];
        for (arguments, code, what) in cases {
            let output = mpi::alone(&mut ranks(mpi, 3, arguments));
            expect_code(&output, code, &format!("{}: {arguments:?}", mpi.version));
            let message = text(&output.stderr);
            assert_eq!(message.matches(what).count(), 1, "{}: {arguments:?}: {message}", mpi.version);
        }
    }
}

#[test]
fn ranks_with_different_schedules_are_refused() {
    for mpi in mpis("ranks_with_different_schedules_are_refused") {
        let mut command = ranks(mpi, 1, &["/tmp"]);
        command.args([":", "-np", "1", env!("CARGO_BIN_EXE_atta"), "walk", "--schedule", "random", "/tmp"]);
        let output = mpi::alone(&mut command);
        expect_code(&output, 2, &mpi.version);
        let message = text(&output.stderr);
        let first = "on rank 0 --schedule lifeline --split equal --termination counters --tree-width 16; on rank 1 --schedule random";
        assert_eq!(message.matches(first).count(), 1, "{message}");
    }
}

#[test]
fn no_copies_of_a_job_are_run_without_a_plug_in() {
    for mpi in mpis("no_copies_of_a_job_are_run_without_a_plug_in") {
        let nowhere = Path::new("/nonexistent/libatta_mpi.so");
        let mut command = mpi.launch(2, Some(nowhere));
        let output = mpi::alone(command.arg(env!("CARGO_BIN_EXE_atta")).args(["walk", "/tmp"]));
        expect_code(&output, 4, &mpi.version);
        assert_eq!(text(&output.stderr).matches("cannot join the other ranks").count(), 1, "{}", mpi.version);
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
}

#[test]
fn a_program_of_ones_own_runs_on_every_schedule() {
    let test = "a_program_of_ones_own_runs_on_every_schedule";
    let mpis = mpis(test);
    if mpis.is_empty() {
        return;
    }
    let scratch = scratch("mpi-words");
    let tree = make_directory(scratch.join("tree"));
    for number in 0..40 {
        let directory = tree.join(format!("d{}", number % 7)).join(format!("d{number}"));
        std::fs::create_dir_all(&directory).unwrap();
        for file in 0..5 {
            std::fs::write(directory.join(format!("f{file}")), format!("all file-{file}\nall\n")).unwrap();
        }
    }
    let expected: String = std::iter::once("400 all\n".to_owned())
        .chain((0..5).map(|file| format!("40 file-{file}\n")))
        .collect();
    let words = mpi::build_example("atta-ops", "words");
    let alone = Command::new(&words).arg(&tree).output().unwrap();
    assert_eq!(text(&alone.stdout), expected);
    for mpi in mpis {
        for schedule in SCHEDULES {
            let mut command = mpi.launch(3, Some(&mpi.plugin));
            let output = mpi::alone(command.arg(&words).arg(&tree).arg(schedule));
            expect_code(&output, 0, &format!("{}: {schedule}", mpi.version));
            assert_eq!(text(&output.stdout), expected, "{}: {schedule}", mpi.version);
        }
    }
}

#[test]
fn loops_of_followed_links_are_seen_on_whatever_rank() {
    let test = "loops_of_followed_links_are_seen_on_whatever_rank";
    let scratch = scratch("mpi-loops");
    let tree = make_directory(scratch.join("tree"));
    let (shown, hidden) = (make_directory(tree.join("d")), make_directory(tree.join("hidden")));
    for number in 0..40 {
        let place = make_directory(hidden.join(format!("x{number}")));
        std::os::unix::fs::symlink("../../d", place.join("back")).unwrap();
        std::os::unix::fs::symlink(format!("../hidden/x{number}"), shown.join(format!("l{number}"))).unwrap();
    }
    let tree = tree.to_str().unwrap();
    let arguments = ["-0", "-q", "--follow", "--exclude", "/hidden", "-j1", tree];
    let alone = walk(arguments).output().unwrap();
    let expected = paths(&alone.stdout);
    for mpi in mpis(test) {
        for schedule in ["random", "lifeline"] {
            let output = mpi::alone(ranks(mpi, 3, &arguments).args(["--schedule", schedule]));
            expect_code(&output, 3, &format!("{}: {schedule}", mpi.version));
            assert_lists(&output, &expected, &format!("{}: {schedule}", mpi.version));
        }
    }
}

#[test]
#[ignore = "a rank is idle for more than 10 seconds under each MPI"]
fn an_idle_rank_hardly_uses_a_core() {
    let test = "an_idle_rank_hardly_uses_a_core";
    let scratch = scratch("idle-rank");
    for mpi in mpis(test) {
        let lock = Lock::for_mounts().expect("take the lock of mounts");
        // One directory with one file: each request follows from the last, so there is work for one rank alone.
        let builder = SlowFs::builder().directories(1, 1).files(1).latency(Duration::from_secs(2));
        let Some(slow) = unless_available(test, builder.mount()) else { return };
        let stats = scratch.join("stats.json");
        let (path, file) = (slow.path().to_str().unwrap(), stats.to_str().unwrap());
        let output = mpi::alone(&mut ranks(mpi, 2, &[path, "--threads", "1", "--stats", file, "--json"]));
        expect_code(&output, 0, &mpi.version);
        let stats: Value = serde_json::from_slice(&std::fs::read(&stats).unwrap()).unwrap();
        let seconds = stats["elapsed_seconds"].as_f64().unwrap();
        assert!(seconds > 10.0, "{seconds} s: too short to compare\n{stats:#}");
        for rank in stats["ranks"].as_array().unwrap() {
            let share = rank["cpu_seconds"].as_f64().unwrap() / seconds;
            println!("{}: rank {} used {:.2} % of a core", mpi.version, rank["rank"], share * 100.0);
            assert!(share < 0.02, "{}: rank {} used {share} of a core", mpi.version, rank["rank"]);
        }
        drop((slow, lock));
    }
}
