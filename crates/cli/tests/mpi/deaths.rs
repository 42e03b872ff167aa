//! Runs on ranks of which some are killed while the others go on (Open MPI 5 with `--with-ft ulfm`): they end with the result of an undisturbed run.
//! `ATTA_DEATHS`: how many such runs; `ATTA_SEED`: the first seed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::lock::Lock;
use atta_testkit::mpi::Mpi;
use atta_testkit::random::{Random, asked};
use atta_testkit::scratch::Scratch;
use atta_testkit::skip::skipped;
use rustix::process::Signal;
use serde_json::Value;

use crate::kills::{Job, Place, What};
use crate::resume::{changed_copy, is_alive, signal};
use crate::{descendants, expect_code, mpis, rank_of, text, three_hosts, tree};

/// Runs in a short test.
const RUNS: u64 = 20;
const ALL: [What; 4] = [What::Copy, What::Catalog, What::Sum, What::Walk];

/// What happens to ranks of a run.
#[derive(Clone, Debug)]
enum Blow {
    /// These die at once.
    Die(Vec<u32>),
    /// This one is stopped for a while.
    Stop(u32, Duration),
}

/// A blow, after so much time since the one before.
type Plan = Vec<(Duration, Blow)>;

/// Some ranks die, at most all but one: one by one, neighbours at once, or in any order. One may be stopped meanwhile.
fn plan(random: &mut Random, ranks: u32) -> Plan {
    let wait = |random: &mut Random, most| Duration::from_millis(10 + random.below(most));
    let mut left: Vec<u32> = (0..ranks).collect();
    let mut plan = vec![];
    if random.index(4) == 0 {
        let stopped = left[random.index(left.len())];
        plan.push((wait(random, 900), Blow::Stop(stopped, wait(random, 1_200))));
    }
    let deaths = 1 + random.index(left.len() - 1);
    let mut first = 300;
    while left.len() > (ranks as usize - deaths) {
        let most = left.len() - (ranks as usize - deaths);
        let together = 1 + random.index(most);
        let at = if random.index(3) == 0 { 0 } else { random.index(left.len() - together + 1) };
        let dead: Vec<u32> = left.drain(at..at + together).collect();
        plan.push((Duration::from_millis(first) + wait(random, 1_200), Blow::Die(dead)));
        first = 0;
    }
    plan
}

/// The processes of a run, by rank.
fn ranks_of(launcher: &Child) -> Vec<(u32, i32)> {
    let is_rank = |id: &i32| {
        let name = std::fs::read(format!("/proc/{id}/comm")).unwrap_or_default();
        name == b"atta\n"
    };
    let below: Vec<i32> = descendants(launcher.id()).into_iter().filter(is_rank).collect();
    below.into_iter().map(|id| (rank_of(id), id)).collect()
}

/// Waits until all ranks have started.
fn started(launcher: &mut Child, count: u32) -> Vec<(u32, i32)> {
    let began = Instant::now();
    loop {
        let ranks = ranks_of(launcher);
        if ranks.len() == count as usize || launcher.try_wait().unwrap().is_some() {
            return ranks;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "ranks do not start");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Carries out a plan. Returns the output of the run, and how many ranks it has killed.
fn struck(mut command: Command, count: u32, plan: &Plan) -> (Output, usize) {
    let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ranks = started(&mut child, count);
    let mut deaths = 0;
    let process = |rank: &u32| ranks.iter().find(|(of, _)| of == rank).map(|(_, id)| *id);
    for (after, blow) in plan {
        std::thread::sleep(*after);
        match blow {
            Blow::Die(dead) => {
                let living: Vec<i32> = dead.iter().filter_map(process).filter(|id| is_alive(*id)).collect();
                living.iter().for_each(|id| signal(*id, Signal::KILL));
                deaths += living.len();
            }
            Blow::Stop(rank, pause) => {
                let Some(id) = process(rank).filter(|id| is_alive(*id)) else { continue };
                signal(id, Signal::STOP);
                std::thread::sleep(*pause);
                signal(id, Signal::CONT);
            }
        }
    }
    (child.wait_with_output().unwrap(), deaths)
}

/// A launch of ranks that survive others, or none after saying why not.
fn surviving<'m>(test: &str, mpis: &'m [Mpi]) -> Option<&'m Mpi> {
    let found = mpis.iter().find(|mpi| mpi.launch_surviving(1, None).is_some());
    if found.is_none() && !mpis.is_empty() {
        skipped(test, "no MPI of which ranks survive others");
    }
    found
}

fn launched(mpi: &Mpi, count: u32, words: &[String]) -> Command {
    let mut command = mpi.launch_surviving(count, Some(&mpi.plugin)).unwrap();
    command.arg(env!("CARGO_BIN_EXE_atta")).args(words).stdin(Stdio::null());
    command
}

#[test]
fn runs_go_on_when_ranks_die() {
    strike("runs_go_on_when_ranks_die", RUNS);
}

#[test]
#[ignore = "takes ten minutes"]
fn runs_go_on_when_ranks_die_very_often() {
    strike("runs_go_on_when_ranks_die_very_often", 150);
}

fn strike(test: &str, runs: u64) {
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let (scratch, tree): (Scratch, String) = tree("mpi-deaths");
    let other: PathBuf = scratch.join("other");
    changed_copy(&tree, &other);
    let place = Place { tree: &tree, other: other.to_str().unwrap(), here: scratch.path() };
    let expected = ALL.map(|what| {
        let name = format!("plain-{what:?}");
        let mut alone = Command::new(env!("CARGO_BIN_EXE_atta"));
        let alone = alone.args(place.words(what, &name, Job::None)).output().unwrap();
        place.result(what, &name, &alone.stdout)
    });
    let (first, mut killed, mut struck_runs) = (asked("ATTA_SEED").unwrap_or(1), 0, 0);
    let runs = asked("ATTA_DEATHS").unwrap_or(runs);
    for seed in first..first + runs {
        let mut random = Random::new(seed);
        let at = usize::try_from(seed).unwrap() % ALL.len();
        let (what, name, count) = (ALL[at], format!("of-{seed}"), 2 + random.index(4) as u32);
        let words = place.words(what, &name, Job::random(&mut random, what));
        let (plan, iops) = (plan(&mut random, count), 800 + random.below(2_000));
        let options = ["-j", ["1", "2"][random.index(2)], "--iops", &iops.to_string()].map(str::to_owned);
        let words = [&words[..1], &options, &words[1..]].concat();
        let (output, deaths) = struck(launched(mpi, count, &words), count, &plan);
        let about = format!("seed {seed}, {count} ranks, {plan:?}: {words:?}\n{}", text(&output.stderr));
        expect_code(&output, 0, &about);
        assert_eq!(place.result(what, &name, &output.stdout), expected[at], "{about}");
        place.look_at(what, &name, &about);
        // Ranks that die while they leave are not noticed.
        struck_runs += u64::from(text(&output.stderr).contains(" died: "));
        killed += deaths;
    }
    assert!(struck_runs * 2 >= runs, "{killed} ranks were killed, and noticed in {struck_runs} runs");
}

/// Runs a walk with a job on three ranks, and does this to the second one.
fn walk_with(mpi: &Mpi, options: &[&str], tree: &str, kind: Signal) -> Output {
    let words = [&["walk", "--json", "-j", "1", "--iops", "900"], options, &[tree]].concat();
    let words: Vec<_> = words.into_iter().map(str::to_owned).collect();
    let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
    let mut command = launched(mpi, 3, &words);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ranks = started(&mut child, 3);
    std::thread::sleep(Duration::from_millis(1_500));
    let second = ranks.iter().find(|(rank, _)| *rank == 1).map(|(_, id)| *id);
    signal(second.unwrap(), kind);
    child.wait_with_output().unwrap()
}

#[test]
fn rank_leaves_when_it_is_asked() {
    let test = "rank_leaves_when_it_is_asked";
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let (scratch, tree) = tree("mpi-leaves");
    let alone = Command::new(env!("CARGO_BIN_EXE_atta")).args(["walk", "--json", &tree]).output().unwrap();
    let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
    let job = scratch.join("job");
    let walked = walk_with(mpi, &["--job", job.to_str().unwrap()], &tree, Signal::USR2);
    expect_code(&walked, 0, "USR2");
    let summary: Value = serde_json::from_slice(&walked.stdout).unwrap();
    assert_eq!(summary["totals"], alone["totals"]);
    let said = text(&walked.stderr);
    assert!(said.contains("rank 1 leaves") && said.contains("rank 1 has died: 2 ranks go on"), "{said}");
    // Nobody would do its work.
    let walked = walk_with(mpi, &[], &tree, Signal::USR2);
    expect_code(&walked, 0, "USR2 without a job");
    assert!(!text(&walked.stderr).contains("leaves"), "{}", text(&walked.stderr));
}

#[test]
fn run_without_a_job_ends_with_its_ranks() {
    let test = "run_without_a_job_ends_with_its_ranks";
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let (scratch, tree) = tree("mpi-no-survive");
    let job = scratch.join("job");
    let named = ["--no-survive", "--job", job.to_str().unwrap()];
    for options in [&[][..], &named] {
        let walked = walk_with(mpi, options, &tree, Signal::KILL);
        expect_code(&walked, 4, &format!("{options:?}"));
        let said = text(&walked.stderr);
        assert_eq!(said.matches("rank 1 has died, and ").count(), 1, "{said}");
    }
    let resumed = Command::new(env!("CARGO_BIN_EXE_atta")).args(["resume"]).arg(&job).output().unwrap();
    expect_code(&resumed, 0, "resume");
    assert!(text(&resumed.stderr).contains("entries are not looked at again"), "{}", text(&resumed.stderr));
}

// The kill points of the thesis, each alone and then all, on all ranks but one.
#[test]
fn ranks_die_at_each_point_of_a_run() {
    let test = "ranks_die_at_each_point_of_a_run";
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let (scratch, tree) = tree("mpi-inject");
    let place = Place { tree: &tree, other: &tree, here: scratch.path() };
    let mut alone = Command::new(env!("CARGO_BIN_EXE_atta"));
    let alone = alone.args(place.words(What::Copy, "plain", Job::None)).output().unwrap();
    let expected = place.result(What::Copy, "plain", &alone.stdout);
    let points = ["traversal", "production", "consumption"];
    let each = points.map(|point| format!("1 {point} 7\n0 {point} 20\n"));
    let all = "1 traversal 9\n2 production 9\n0 consumption 60\n".to_owned();
    for (number, file) in each.into_iter().chain([all]).enumerate() {
        let (inject, name) = (scratch.join("inject"), format!("copy-{number}"));
        std::fs::write(&inject, &file).unwrap();
        let words = place.words(What::Copy, &name, Job::InPlace { syncs: true, verifies: false });
        let options = ["-j", "1", "--inject", inject.to_str().unwrap()].map(str::to_owned);
        let words = [&words[..1], &options, &words[1..]].concat();
        let output = atta_testkit::mpi::alone(&mut launched(mpi, 4, &words));
        let about = format!("{file}\n{}", text(&output.stderr));
        expect_code(&output, 0, &about);
        assert_eq!(place.result(What::Copy, &name, &output.stdout), expected, "{about}");
        place.look_at(What::Copy, &name, &about);
        assert!(text(&output.stderr).contains(" died: "), "{about}");
    }
}

/// Runs a command on five ranks that die whenever they come to this. Returns its output, and its rows of errors.
fn poisoned(mpi: &Mpi, scratch: &Scratch, inject: &str, words: &[&str]) -> (Output, Vec<Value>) {
    let (file, errors) = (scratch.join("inject"), scratch.join("errors"));
    std::fs::write(&file, inject).unwrap();
    // Four die: nothing is noted of the first death.
    let mut command = mpi.launch_surviving(5, Some(&mpi.plugin)).unwrap();
    command.arg(env!("CARGO_BIN_EXE_atta")).arg(words[0]).arg("--inject").arg(&file);
    command.arg("--errors").arg(&errors).args(&words[1..]).current_dir(scratch.path());
    let output = atta_testkit::mpi::alone(command.stdin(Stdio::null()));
    let rows = std::fs::read_to_string(&errors).unwrap_or_default();
    (output, rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The only row of errors says that this path was left out.
fn assert_left_out(rows: &[Value], path: &str, about: &str) {
    let [row] = rows else { panic!("{rows:?}: {about}") };
    assert!(
        row["path"].as_str().unwrap().ends_with(path) && row["operation"] == "try again",
        "{row}: {about}"
    );
}

/// Directories of small files, one of them called `bad`, and a large file.
fn tree_with_poison(scratch: &Scratch) -> PathBuf {
    let tree = crate::support::make_directory(scratch.join("tree"));
    for directory in 0..4 {
        atta_testkit::trees::flat(&tree.join(format!("d{directory}")), 60).unwrap();
    }
    let large: Vec<u8> = b"large ".iter().copied().cycle().take(17 << 20).collect();
    std::fs::write(tree.join("d2/large"), large).unwrap();
    std::fs::write(tree.join("d3/bad"), b"bad").unwrap();
    tree
}

// Ranks die at the same thing again and again: it is left out, and reported. All else is done, and a later launch tries it again.
#[test]
fn what_each_rank_dies_at_is_left_out() {
    let test = "what_each_rank_dies_at_is_left_out";
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let scratch = crate::support::scratch("mpi-poison");
    let tree = tree_with_poison(&scratch);
    let all = atta_testkit::oracle::list(&tree).unwrap().len();
    let cases = [
        ("entry", "d3/bad", 1),
        ("opening", "d1", 60),
        ("directory", "d1", 60),
        ("plan", "d2/large", 1),
        ("chunk", "d2/large", 1),
    ];
    for (poison, path, lost) in cases {
        let name = path.rsplit('/').next().unwrap();
        let target = format!("copy-{poison}");
        let words = ["copy", "--json", "-j", "1", "--chunk", "1M", "tree", &target];
        let (output, rows) = poisoned(mpi, &scratch, &format!("any {poison} {name}\n"), &words);
        let about = format!("{poison}: {}", text(&output.stderr));
        expect_code(&output, 3, &about);
        assert_left_out(&rows, path, &about);
        let copied = atta_testkit::oracle::list(&scratch.join(&target)).unwrap();
        let files = copied.values().filter(|record| record.kind == 'f').count();
        assert_eq!(files, 4 * 60 + 2 - lost, "{about}");
        let mut again = Command::new(env!("CARGO_BIN_EXE_atta"));
        again.args(["copy", "--json", "tree/.", &target]).current_dir(scratch.path());
        let output = again.output().unwrap();
        expect_code(&output, 0, &text(&output.stderr));
        assert_eq!(atta_testkit::oracle::list(&scratch.join(&target)).unwrap().len(), all, "{about}");
    }
}

// Nor is it looked at in another way.
#[test]
fn comparisons_and_sums_leave_it_out() {
    let test = "comparisons_and_sums_leave_it_out";
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let scratch = crate::support::scratch("mpi-poison-others");
    let tree = tree_with_poison(&scratch);
    let mut copy = Command::new("cp");
    expect_code(&copy.arg("-a").arg(&tree).arg(scratch.join("copy")).output().unwrap(), 0, "cp");
    std::fs::write(scratch.join("copy/d3/more"), b"more").unwrap();
    std::fs::remove_file(scratch.join("copy/d0/f0000000")).unwrap();
    let compare = ["verify", "--json", "--output", "found", "-j", "2", "tree", "copy"];
    let (output, rows) = poisoned(mpi, &scratch, "any entry bad\n", &compare);
    let about = text(&output.stderr);
    assert_left_out(&rows, "d3/bad", &about);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counts = ["compared", "extra", "missing", "failed"].map(|name| summary[name].as_u64().unwrap());
    assert_eq!(counts, [245, 1, 1, 1], "{summary}: {about}");
    let sum = ["sum", "--json", "--output", "sum.catalog", "-j", "2", "tree"];
    let (output, rows) = poisoned(mpi, &scratch, "any plan large\n", &sum);
    let about = text(&output.stderr);
    expect_code(&output, 3, &about);
    assert_left_out(&rows, "d2/large", &about);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["totals"]["files"], 4 * 60 + 1, "{summary}: {about}");
}

// Without a directory that all ranks see: their logs are in the memory of others.
#[test]
fn walks_survive_with_copies_of_logs() {
    let test = "walks_survive_with_copies_of_logs";
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let (scratch, tree) = tree("mpi-copies");
    let memory = crate::support::make_directory(scratch.join("memory"));
    let mut alone = Command::new(env!("CARGO_BIN_EXE_atta"));
    let alone = alone.args(["walk", "--json", &tree]).output().unwrap();
    let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
    // More than K at once lose a log: its part is walked again.
    let cases: [(&str, &[&[u32]]); 6] = [
        ("1", &[&[1]]),
        ("1", &[&[0], &[1], &[3]]),
        ("2", &[&[1, 2]]),
        ("1", &[&[0, 1, 2]]),
        ("3", &[&[2, 3], &[0]]),
        // The second run loses what says which of the older logs count.
        ("1", &[&[3], &[0, 1]]),
    ];
    for (copies, dead) in cases {
        let words = ["walk", "--json", "-j", "1", "--iops", "1500", "--survive", copies, &tree];
        let mut command = launched(mpi, 4, &words.map(str::to_owned));
        command.env("TMPDIR", &memory);
        let blow = |dead: &&[u32]| (Duration::from_millis(1_300), Blow::Die(dead.to_vec()));
        let (output, deaths) = struck(command, 4, &dead.iter().map(blow).collect());
        let about = format!("--survive {copies}, {dead:?}, {deaths} deaths: {}", text(&output.stderr));
        expect_code(&output, 0, &about);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(summary["totals"], alone["totals"], "{about}");
        assert!(about.contains(" died: "), "{about}");
        // What dead ranks have left goes with the next walk.
        let left = std::fs::read_dir(&memory).unwrap().count();
        assert_eq!(left, deaths, "{about}");
        let words = ["walk", "-q", "--survive", "1", &tree].map(str::to_owned);
        let output = atta_testkit::mpi::alone(launched(mpi, 2, &words).env("TMPDIR", &memory));
        expect_code(&output, 0, &text(&output.stderr));
        assert_eq!(std::fs::read_dir(&memory).unwrap().count(), 0);
    }
}

/// How many of the directories of ranks below this one have something of a log.
fn holders(memory: &Path, log: &str) -> usize {
    let ranks = std::fs::read_dir(memory).unwrap().map(|rank| rank.unwrap().path().join("job").join(log));
    ranks.filter(|log| log.metadata().is_ok_and(|found| found.len() > 0)).count()
}

// What a dead rank has done comes from the copies: after its death all that are left have its log. Nothing promises that its last frame has
// gone when it dies, so it is tried again.
#[test]
fn log_of_a_dead_rank_comes_from_a_copy() {
    let test = "log_of_a_dead_rank_comes_from_a_copy";
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let (scratch, tree) = tree("mpi-copy-of-log");
    let words = ["walk", "-q", "-j", "1", "--iops", "600", "--survive", "1", &tree].map(str::to_owned);
    let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
    let is_copied = |try_number: u32| {
        let memory = crate::support::make_directory(scratch.join(format!("memory-{try_number}")));
        let mut command = launched(mpi, 3, &words);
        let mut child = command.env("TMPDIR", &memory).stderr(Stdio::piped()).spawn().unwrap();
        let ranks = started(&mut child, 3);
        let until = |child: &mut Child, count| {
            while holders(&memory, "1.1") < count && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
            holders(&memory, "1.1") >= count
        };
        assert!(until(&mut child, 1), "it has no log");
        // Its frame is on the way to the next rank.
        std::thread::sleep(Duration::from_millis(300));
        signal(ranks.iter().find(|(rank, _)| *rank == 1).unwrap().1, Signal::KILL);
        let is_copied = until(&mut child, 3);
        let output = child.wait_with_output().unwrap();
        expect_code(&output, 0, &text(&output.stderr));
        is_copied
    };
    assert!((0..5).any(is_copied), "no rank that is left has had the log of the dead one");
}

// The daemon of the launcher on that host lives: Open MPI ends all ranks when it dies.
#[test]
fn all_ranks_of_a_host_die() {
    let test = "all_ranks_of_a_host_die";
    let Some(mpi) = surviving(test, mpis(test)) else { return };
    let Some(hosts) = three_hosts(test) else { return };
    let (scratch, tree) = tree("mpi-host-dies");
    let place = Place { tree: &tree, other: &tree, here: scratch.path() };
    let mut alone = Command::new(env!("CARGO_BIN_EXE_atta"));
    let alone = alone.args(place.words(What::Copy, "plain", Job::None)).output().unwrap();
    let words = place.words(What::Copy, "copy", Job::InPlace { syncs: true, verifies: false });
    let mut command = mpi.launch_on(&hosts, 2, Some(&mpi.plugin)).unwrap();
    command.args(["--with-ft", "ulfm"]).arg(env!("CARGO_BIN_EXE_atta"));
    command.args([&words[..1], &["-j", "1", "--iops", "1500"].map(str::to_owned), &words[1..]].concat());
    command.stdin(Stdio::null());
    // Ranks are dealt out to hosts in turn: the second one has 2 and 3.
    let plan = vec![(Duration::from_millis(1_200), Blow::Die(vec![2, 3]))];
    let (output, deaths) = struck(command, 6, &plan);
    let about = text(&output.stderr);
    expect_code(&output, 0, &about);
    assert!(deaths == 2 && about.contains("ranks 2 and 3 have died: 4 ranks go on"), "{about}");
    let expected = place.result(What::Copy, "plain", &alone.stdout);
    assert_eq!(place.result(What::Copy, "copy", &output.stdout), expected, "{about}");
    place.look_at(What::Copy, "copy", &about);
}
