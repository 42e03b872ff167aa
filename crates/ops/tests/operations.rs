//! What a caller does with a walk: tasks of its own, an early end, a cap on operations, sums.

mod harness;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use atta_entry::{Entry, Failure, Kind};
use atta_ops::walk::{Options, Start, Summary, Tasks, Totals, Visit, each, run};
use atta_runtime::{Rate, Stop};
use atta_testkit::{oracle, skip, trees};
use harness::{bytes_of, fixed, scratch};
use rustix::fs::{AtFlags, CWD, linkat, symlinkat};

#[test]
fn returned_tasks_run_once_and_may_return_more() {
    let scratch = scratch("tasks");
    trees::flat(&scratch.join("flat"), 2000).unwrap();
    trees::random(&scratch.join("random"), 61, 200).unwrap();
    let entries = oracle::list(scratch.path()).unwrap();
    for (threads, memory_bytes) in [(1, 128 << 20), (3, 128 << 20), (0, 0), (1, 0)] {
        let ran = Mutex::new(BTreeMap::<Vec<u8>, u32>::new());
        let visit = each(|entry, tasks| tasks.push([b"2:", entry.path().as_slice()].concat())).with_tasks(
            |task, tasks| {
                *ran.lock().unwrap().entry(task.to_vec()).or_default() += 1;
                // Each makes two of the next lower number.
                if task[0] > b'0' {
                    tasks.push([&[task[0] - 1], &task[1..], b"/left"].concat());
                    tasks.push([&[task[0] - 1], &task[1..], b"/right"].concat());
                }
            },
        );
        let options = Options { threads: fixed(threads), memory_bytes, ..Options::default() };
        let outcome = run(&visit, [Start::new(bytes_of(scratch.path()))], &options, |_| {});
        let ran = ran.into_inner().unwrap();
        assert!(ran.values().all(|&times| times == 1));
        assert_eq!(ran.len(), entries.len() * 7);
        assert!(entries.keys().all(|path| ran.contains_key(&[b"2:", path.as_slice()].concat())));
        assert!(memory_bytes > 0 || outcome.spill.tasks > 0);
    }
}

#[test]
fn a_task_that_prunes_prunes_nothing() {
    let scratch = scratch("task-prunes");
    for number in 0..200 {
        trees::chain(&scratch.join(format!("d{number}")), 3, b"below").unwrap();
    }
    // Nothing was given to such a task that could be pruned; least of all what the thread meets next.
    let visit = each(|_, tasks| tasks.push("task")).with_tasks(|_, tasks| tasks.prune());
    let options = harness::threads(2);
    let outcome = run(&visit, [Start::new(bytes_of(scratch.path()))], &options, |_| {});
    assert_eq!(outcome.profile.entries, 1 + 200 * 4);
}

#[test]
fn a_pruned_root_is_shown_and_not_entered() {
    let scratch = scratch("prune-root");
    trees::flat(scratch.path(), 5).unwrap();
    let options = harness::threads(2);
    let outcome =
        run(&each(|_, tasks| tasks.prune()), [Start::new(bytes_of(scratch.path()))], &options, |_| {});
    assert_eq!(outcome.profile.entries, 1);
}

#[test]
fn a_walk_that_is_stopped_ends_soon_and_says_so() {
    let scratch = scratch("stop");
    for number in 0..20 {
        trees::flat(&scratch.join(format!("d{number}")), 500).unwrap();
    }
    for threads in [1, 3, 0] {
        let stop = Stop::new();
        let options = Options { threads: fixed(threads), stop: stop.clone(), ..Options::default() };
        let seen = AtomicU64::new(0);
        let visit = each(|_, _| {
            if seen.fetch_add(1, Ordering::Relaxed) == 600 {
                stop.set();
            }
        });
        let outcome = run(&visit, [Start::new(bytes_of(scratch.path()))], &options, |_| {});
        assert!(outcome.stopped);
        assert_eq!(outcome.profile.entries, seen.load(Ordering::Relaxed));
        // Each thread finishes its current task; no other task is started.
        assert!((601..5000).contains(&outcome.profile.entries), "{:?}", outcome.profile);
    }
}

#[test]
fn walk_stopped_before_it_began_does_nothing() {
    let scratch = scratch("stopped");
    let options = harness::threads(2);
    options.stop.set();
    let outcome = run(&each(|_, _| {}), [Start::new(bytes_of(scratch.path()))], &options, |_| {});
    assert!(outcome.stopped);
    assert_eq!(outcome.profile.entries, 0);
}

#[test]
fn observer_can_stop_a_walk_of_an_endless_list() {
    let scratch = scratch("endless");
    let root = bytes_of(scratch.path());
    let options = harness::threads(2);
    let mut stopping = false;
    let outcome =
        run(&each(|_, _| {}), std::iter::repeat_with(|| Start::new(root.clone())), &options, |progress| {
            if progress.profile.entries > 1000 {
                options.stop.set();
            }
            stopping |= progress.stopping.is_some();
        });
    assert!(outcome.stopped && outcome.profile.entries > 1000 && stopping);
}

#[test]
#[should_panic(expected = "the visitor's own")]
fn a_panic_of_the_visitor_is_passed_on() {
    let scratch = scratch("panic");
    trees::flat(scratch.path(), 100).unwrap();
    let visit = each(|entry, _| assert!(entry.depth == 0, "the visitor's own"));
    let options = harness::threads(3);
    run(&visit, [Start::new(bytes_of(scratch.path()))], &options, |_| {});
}

#[test]
fn a_cap_on_operations_holds() {
    let scratch = scratch("rate");
    trees::flat(&scratch.join("flat"), 2000).unwrap();
    for threads in [1, 4] {
        let rate = Rate::new(4000);
        let options = Options { rate: Some(&rate), threads: fixed(threads), ..Options::default() };
        let started = Instant::now();
        let outcome = run(&each(|_, _| {}), [Start::new(bytes_of(scratch.path()))], &options, |_| {});
        let elapsed = started.elapsed();
        assert_eq!((outcome.profile.entries, outcome.profile.failures), (2002, 0));
        // 2,000 are 500 ms; a tenth may be missing. How much longer it takes is the machine's.
        assert!(elapsed >= Duration::from_millis(450), "{elapsed:?}");
        assert!(rate.throttled() > Duration::ZERO);
    }
}

/// Sums up, as the program does.
struct SumUp {
    summary: Summary,
}

impl Visit for SumUp {
    type Worker = Totals;
    type Results = Totals;

    fn worker(&self, _index: usize) -> Totals {
        Totals::default()
    }

    fn results<'w>(&self, totals: &'w mut Totals) -> Option<&'w mut Totals> {
        Some(totals)
    }

    fn entry(&self, totals: &mut Totals, entry: &Entry<'_>, _tasks: &mut Tasks) {
        self.summary.add(totals, entry);
    }

    fn failure(&self, totals: &mut Totals, failure: &Failure<'_>) {
        totals.fail(failure);
    }
}

fn sum_up(root: &Path, threads: usize, memory_bytes: u64) -> Totals {
    let visit = SumUp { summary: Summary::new(memory_bytes, "/var/tmp".into(), false) };
    let options = harness::threads(threads);
    let outcome = run(&visit, [Start::new(bytes_of(root))], &options, |_| {});
    let (totals, settled) = visit.summary.finish(outcome.results, &Stop::new());
    settled.expect("the file of links");
    assert_eq!(totals.failed(), 0);
    totals
}

#[test]
fn sums_are_those_of_du_and_of_the_oracle() {
    let scratch = scratch("sums");
    trees::kinds(&scratch.join("kinds"), &scratch.join("outside")).unwrap();
    trees::random(&scratch.join("random"), 71, 300).unwrap();
    trees::flat(&scratch.join("flat"), 300).unwrap();
    for number in 0..300 {
        let name = scratch.join(format!("flat/f{number:07}"));
        std::fs::write(&name, vec![1; number * 10]).unwrap();
        for link in 0..number % 4 {
            linkat(CWD, &name, CWD, scratch.join(format!("flat/l{link}-{number}")), AtFlags::empty())
                .unwrap();
        }
    }
    symlinkat("x".repeat(3000), CWD, scratch.join("long-1")).unwrap();
    linkat(CWD, scratch.join("long-1"), CWD, scratch.join("long-2"), AtFlags::empty()).unwrap();
    let records = oracle::list(scratch.path()).unwrap();
    let inodes: BTreeMap<_, _> = records.values().map(|record| ((record.dev, record.ino), record)).collect();
    let files = inodes.values().filter(|record| record.kind == 'f');
    let apparent: u64 = files.map(|record| record.size).sum();
    let allocated: u64 = inodes.values().map(|record| record.blocks * 512).sum();
    for (threads, memory_bytes) in [(1, 1 << 20), (3, 1 << 20), (3, 4000), (3, 0)] {
        let totals = sum_up(scratch.path(), threads, memory_bytes);
        assert_eq!(
            (totals.apparent_bytes, totals.allocated_bytes),
            (apparent, allocated),
            "{memory_bytes} bytes"
        );
        assert_eq!(totals.extra_links, (records.len() - inodes.len()) as u64);
        assert_eq!(totals.entries(), records.len() as u64);
        for kind in Kind::ALL.into_iter().take(7) {
            let expected = records.values().filter(|record| record.kind == harness::letter(kind)).count();
            assert_eq!(totals.of(kind), expected as u64, "{kind:?}");
        }
    }
    let du = Command::new("du").args(["-s", "--block-size=1"]).arg(scratch.path()).output();
    let Ok(du) = du else { return skip::skipped("sums against du", "du is not installed") };
    let said = String::from_utf8(du.stdout).unwrap();
    assert_eq!(said.split('\t').next().unwrap().parse::<u64>().unwrap(), allocated);
}

#[test]
fn profiles_add_up() {
    let scratch = scratch("profile");
    trees::random(scratch.path(), 72, 300).unwrap();
    let walked = harness::walk(scratch.path(), &harness::threads(3));
    let records = oracle::list(scratch.path()).unwrap();
    let of_kind = |kind| records.values().filter(move |record| record.kind == kind);
    assert_eq!(walked.profile.directories, of_kind('d').count() as u64);
    assert_eq!(walked.profile.bytes, of_kind('f').map(|record| record.size).sum::<u64>());
    let threads: atta_ops::walk::Profile = walked.threads.iter().map(|thread| thread.profile).sum();
    assert_eq!(threads, walked.profile);
    assert_eq!(walked.threads.len(), 3);
}
