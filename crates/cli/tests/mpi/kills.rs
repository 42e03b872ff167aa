//! Jobs on ranks that are killed as a whole at random times, each time with another number of ranks, under another MPI or none, until a run comes
//! to its end: it has the result of an undisturbed run. `ATTA_KILLS`: how many such jobs; `ATTA_SEED`: the first seed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::mpi::{self, Mpi};
use atta_testkit::random::{Random, asked};
use atta_testkit::scratch::Scratch;
use rustix::process::Signal;
use serde_json::Value;

use crate::resume::{changed_copy, copied, is_alive, job_beside, signal, wait_until};
use crate::{descendants, expect_code, mpis, text, tree};

/// Jobs in a short test.
const KILLS: u64 = 5;
/// Runs of one job that are killed, at most.
const RUNS_MAX: usize = 5;

/// What a job does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Walk,
    Catalog,
    Sum,
    Comparison,
    Copy,
}

const ALL: [What; 5] = [What::Copy, What::Catalog, What::Sum, What::Comparison, What::Walk];

/// Where the log of a job is, and how a copy writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    None,
    Named {
        syncs: bool,
        verifies: bool,
    },
    /// In TARGET of a copy.
    InPlace {
        syncs: bool,
        verifies: bool,
    },
}

impl Job {
    pub(crate) fn random(random: &mut Random, what: What) -> Self {
        let (syncs, verifies) = (random.index(2) == 0, random.index(3) == 0);
        let has_place = matches!(what, What::Copy);
        if has_place && random.index(2) == 0 {
            Self::InPlace { syncs, verifies }
        } else {
            Self::Named { syncs, verifies }
        }
    }

    fn fsync(self) -> &'static str {
        match self {
            Self::Named { syncs: true, .. } | Self::InPlace { syncs: true, .. } => "batch",
            _ => "none",
        }
    }

    fn verifies(self) -> bool {
        matches!(self, Self::Named { verifies: true, .. } | Self::InPlace { verifies: true, .. })
    }
}

/// The paths of a job.
pub(crate) struct Place<'a> {
    pub(crate) tree: &'a str,
    /// A tree that differs from it.
    pub(crate) other: &'a str,
    pub(crate) here: &'a Path,
}

impl Place<'_> {
    fn path(&self, name: &str) -> String {
        self.here.join(name).to_str().unwrap().to_owned()
    }

    /// The words of a command. `name`: of what it writes.
    pub(crate) fn words(&self, what: What, name: &str, job: Job) -> Vec<String> {
        let (output, directory) = (self.path(name), self.path(&format!("job-{name}")));
        let named = match job {
            Job::None => vec!["--no-job"],
            Job::Named { .. } => vec!["--job", &directory],
            Job::InPlace { .. } => vec![],
        };
        let beside = if matches!(job, Job::None) { vec!["--no-job"] } else { vec![] };
        let words = match what {
            What::Walk => [vec!["walk", "--json"], named, vec![self.tree]].concat(),
            What::Catalog => {
                let options = vec!["walk", "--json", "--part-rows", "60", "--output", &output];
                [options, beside, vec![self.tree]].concat()
            }
            What::Sum => [vec!["sum", "--json", "--output", &output], beside, vec![self.tree]].concat(),
            What::Comparison => {
                let options = vec!["verify", "--content", "--format", "ndjson", "--print-to", &output];
                [options, named, vec![self.tree, self.other]].concat()
            }
            What::Copy => {
                let verifies = if job.verifies() { vec!["--verify"] } else { vec![] };
                let options = vec!["copy", "--json", "--fsync", job.fsync()];
                [options, verifies, named, vec![self.tree, &output]].concat()
            }
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// What a run that came to its end came to.
    pub(crate) fn result(&self, what: What, name: &str, printed: &[u8]) -> Vec<Value> {
        if let What::Comparison = what {
            let rows = std::fs::read_to_string(self.path(name)).unwrap();
            let mut rows: Vec<Value> = rows.lines().map(Value::from).collect();
            rows.sort_by_key(Value::to_string);
            return rows;
        }
        if let What::Copy = what {
            return copied(printed);
        }
        let summary: Value = serde_json::from_slice(printed).unwrap();
        let totals = &summary["totals"];
        match what {
            What::Sum => ["files", "directories", "bytes", "signature"].map(|of| totals[of].clone()).into(),
            _ => vec![totals.clone()],
        }
    }

    /// Looks at what a job has written.
    pub(crate) fn look_at(&self, what: What, name: &str, about: &str) {
        let mut atta = Command::new(env!("CARGO_BIN_EXE_atta"));
        match what {
            What::Copy => {
                let copy = self.path(name);
                let verified = atta.args(["verify", "--content", "-q", self.tree, &copy]).output();
                expect_code(&verified.unwrap(), 0, about);
                let left = std::fs::read_dir(self.here).unwrap().map(|entry| entry.unwrap().file_name());
                let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with(".atta.")).collect();
                assert!(left.is_empty(), "{about}: {left:?}");
            }
            What::Sum => {
                let checked = atta.args(["sum", "-q", "--check", &self.path(name), self.tree]).output();
                expect_code(&checked.unwrap(), 0, about);
                assert_eq!(job_beside(self.here), None, "{about}");
            }
            What::Catalog => assert_eq!(job_beside(self.here), None, "{about}"),
            What::Walk | What::Comparison => {}
        }
    }
}

/// A command on one process, or on ranks.
fn launched(mpi: Option<(&Mpi, u32)>, words: &[String]) -> Command {
    let mut command = match mpi {
        Some((mpi, count)) => {
            let mut command = mpi.launch(count, Some(&mpi.plugin));
            command.arg(env!("CARGO_BIN_EXE_atta"));
            command
        }
        None => Command::new(env!("CARGO_BIN_EXE_atta")),
    };
    command.args(words).stdin(Stdio::null());
    command
}

/// Kills all processes of a run after some time. Returns its output if it ended before.
fn killed(mut command: Command, after: Duration, launcher_first: bool) -> Option<Output> {
    let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let mut processes = descendants(child.id());
    if child.try_wait().unwrap().is_some() {
        return Some(child.wait_with_output().unwrap());
    }
    if !launcher_first {
        processes.reverse();
    }
    processes.iter().for_each(|process| signal(*process, Signal::KILL));
    child.wait().unwrap();
    wait_until(|| !processes.iter().any(|process| is_alive(*process)));
    None
}

#[test]
fn jobs_killed_at_random_times_go_on() {
    kill_and_go_on("jobs_killed_at_random_times_go_on", KILLS);
}

#[test]
#[ignore = "takes half an hour"]
fn jobs_killed_very_often_go_on() {
    kill_and_go_on("jobs_killed_very_often_go_on", 150);
}

fn kill_and_go_on(test: &str, jobs: u64) {
    let mpis = mpis(test);
    if mpis.is_empty() {
        return;
    }
    let (scratch, tree): (Scratch, String) = tree("mpi-kills");
    let other: PathBuf = scratch.join("other");
    changed_copy(&tree, &other);
    let place = Place { tree: &tree, other: other.to_str().unwrap(), here: scratch.path() };
    let expected = ALL.map(|what| {
        let name = format!("plain-{what:?}");
        let alone = launched(None, &place.words(what, &name, Job::None)).output().unwrap();
        place.result(what, &name, &alone.stdout)
    });
    let (first, mut kills) = (asked("ATTA_SEED").unwrap_or(1), 0);
    for seed in first..first + asked("ATTA_KILLS").unwrap_or(jobs) {
        let mut random = Random::new(seed);
        let at = usize::try_from(seed).unwrap() % ALL.len();
        let (what, name) = (ALL[at], format!("of-{seed}"));
        let job = Job::random(&mut random, what);
        let words = place.words(what, &name, job);
        let mut about = format!("seed {seed}, {what:?}, {job:?}:");
        let mut last = None;
        for _ in 0..1 + random.index(RUNS_MAX) {
            let on = mpis.get(random.index(mpis.len() + 1)).map(|mpi| (mpi, 1 + random.index(4) as u32));
            let (iops, after) = (300 + random.below(1_500), 300 + random.below(2_500));
            let options = ["-j", ["1", "2"][random.index(2)], "--iops", &iops.to_string()].map(str::to_owned);
            let words = [&words[..1], &options, &words[1..]].concat();
            about += &format!(" {:?} for {after} ms,", on.map(|(mpi, count)| (&mpi.version, count)));
            last = killed(launched(on, &words), Duration::from_millis(after), random.index(2) == 0);
            if last.is_some() {
                break;
            }
            kills += 1;
        }
        let last = last.unwrap_or_else(|| {
            let on = mpis.get(random.index(mpis.len() + 1)).map(|mpi| (mpi, 1 + random.index(4) as u32));
            about += &format!(" at last {:?}", on.map(|(mpi, count)| (&mpi.version, count)));
            mpi::alone(&mut launched(on, &words))
        });
        about += &format!("\n{}", text(&last.stderr));
        expect_code(&last, i32::from(matches!(what, What::Comparison)), &about);
        assert_eq!(place.result(what, &name, &last.stdout), expected[at], "{about}");
        place.look_at(what, &name, &about);
    }
    assert!(kills > 0, "no run was killed");
}
