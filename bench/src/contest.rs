//! Contenders, run in turns: A B C, then B C A, so that what disturbs the machine disturbs all of them alike.
//!
//! One round to warm up is dropped. A contender that fails is left out from then on, with the reason; the others go
//! on. Who makes something else than what was expected has failed. Nothing here knows what the contenders do.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::syncfs;

use crate::census::Census;
use crate::measure::{Run, measure};

/// A program with its arguments, and how to speak of it.
#[derive(Debug)]
pub(crate) struct Contender {
    /// The name in tables.
    pub(crate) name: String,
    /// The program's path and its arguments.
    pub(crate) command: Vec<OsString>,
    /// What a reader must know to compare it, such as work that it does not do.
    pub(crate) note: &'static str,
    /// Whether this is the raw limit that the others are compared with.
    pub(crate) is_limit: bool,
    /// What the command makes; removed after each run, outside of the timing.
    pub(crate) product: Option<Product>,
}

/// What a contender makes.
#[derive(Debug)]
pub(crate) struct Product {
    /// Where; nothing is there before a run.
    pub(crate) path: PathBuf,
    /// What must be there after a run, if that is known.
    pub(crate) expected: Option<Census>,
    /// A directory whose file system is synced before each run, and again at the end of it, within its time.
    pub(crate) synced: Option<PathBuf>,
    /// A directory whose files are read before each run, where caches are not dropped: an earlier program may have emptied them.
    pub(crate) warmed: Option<PathBuf>,
}

impl Product {
    /// Something of which nothing is known.
    pub(crate) fn unchecked(path: &Path) -> Self {
        Self { path: path.to_owned(), expected: None, synced: None, warmed: None }
    }

    /// Whether it is complete.
    fn check(&self) -> Result<(), String> {
        let Some(expected) = &self.expected else { return Ok(()) };
        let found = Census::of(&self.path).map_err(|error| format!("looking at what was made: {error}"))?;
        if found == *expected { Ok(()) } else { Err(format!("made {found} instead of {expected}")) }
    }
}

/// How a contest is run.
pub(crate) struct Rules {
    /// The program whose sub-command measures one run.
    pub(crate) launcher: PathBuf,
    /// Rounds that count.
    pub(crate) rounds: usize,
    /// Whether every run starts without caches.
    pub(crate) cold: bool,
}

/// A contender after the contest.
pub(crate) struct Outcome {
    /// Who.
    pub(crate) contender: Contender,
    /// One run for each round that counts, in order; or why it was left out.
    pub(crate) runs: Result<Vec<Run>, String>,
}

/// Runs all contenders in turns.
///
/// # Errors
///
/// If the caches cannot be dropped, or a product not removed: the numbers would not mean what they say.
pub(crate) fn hold(
    contenders: Vec<Contender>,
    rules: &Rules,
    log: impl Fn(&str),
) -> io::Result<Vec<Outcome>> {
    let started = contenders.into_iter().map(|contender| Outcome { contender, runs: Ok(Vec::new()) });
    let mut outcomes: Vec<Outcome> = started.collect();
    for round in 0..=rules.rounds {
        let mut line =
            if round == 0 { "warm-up:".into() } else { format!("round {round} of {}:", rules.rounds) };
        for index in order(round, outcomes.len()) {
            let outcome = &mut outcomes[index];
            let Ok(runs) = &mut outcome.runs else { continue };
            match run_once(&outcome.contender, rules)? {
                Ok(run) => {
                    line.push_str(&format!(" {} {:.3};", outcome.contender.name, run.seconds));
                    if round > 0 {
                        runs.push(run);
                    }
                }
                Err(reason) => {
                    line.push_str(&format!(" {} left out;", outcome.contender.name));
                    outcome.runs = Err(reason);
                }
            }
        }
        log(&line);
    }
    Ok(outcomes)
}

/// Who runs when: each round starts with the next contender, and every other round goes backwards, so that nobody
/// always runs after the same one.
pub(crate) fn order(round: usize, contenders: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..contenders).map(|place| (place + round) % contenders).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

fn run_once(contender: &Contender, rules: &Rules) -> io::Result<Result<Run, String>> {
    let product = contender.product.as_ref();
    let synced = product.and_then(|product| product.synced.as_deref());
    if let Some(directory) = synced {
        // What others left is not written back within this one's time.
        syncfs(File::open(directory)?)?;
    }
    if rules.cold {
        drop_caches()?;
        // Reading the program itself is not what the cold run is about. A failure shows when it is started.
        drop(contender.command.first().map(std::fs::read));
    } else if let Some(directory) = product.and_then(|product| product.warmed.as_deref()) {
        read_all(directory)?;
    }
    let mut run = measure(&rules.launcher, &contender.command, synced);
    if let Some(product) = product {
        // Only a run that did what was asked counts.
        run = run.and_then(|run| product.check().map(|()| run));
        if product.path.exists() {
            remove(&product.path)?;
        }
    }
    Ok(run)
}

#[expect(clippy::disallowed_methods, reason = "a path below the benchmark's own directory, named by itself")]
pub(crate) fn remove(product: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(product)
}

/// Reads all files, so that they are in the cache if there is room.
fn read_all(directory: &Path) -> io::Result<()> {
    let mut find = std::process::Command::new("find");
    find.arg(directory).args(["-type", "f", "-exec", "cat", "{}", "+"]).stdout(std::process::Stdio::null());
    find.status().map(drop)
}

/// Writes back what is dirty and empties the page cache, the directory cache and the inode cache.
///
/// # Errors
///
/// Mostly that only root may.
pub(crate) fn drop_caches() -> io::Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_runs_once_in_each_round() {
        assert_eq!([order(0, 3), order(1, 3), order(2, 3)], [[0, 1, 2], [0, 2, 1], [2, 0, 1]]);
        for round in 0..20 {
            let mut sorted = order(round, 7);
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
        }
    }
}
