//! The benchmark `ranks`: one walk by ranks under MPI beside the same walk by threads of one process.
//!
//! What a launcher takes to start and end ranks is not the walk's: each launch also walks an empty directory, and what
//! that took in the same round is taken off. It starts ranks on this machine alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::contest::{Contender, Outcome, Rules, hold};
use crate::machine::Machine;
use crate::programs::{self, PACKAGE_DIRECTORY};
use crate::report::{Report, Section};
use crate::trees::Shape;

/// Compare a walk by ranks with one by threads
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Directory with bin/mpicc and bin/mpirun of an MPI; may be given several times
    #[arg(long, required = true, value_name = "PREFIX")]
    mpi: Vec<PathBuf>,
    /// Rounds that count, after one to warm up
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(5..))]
    rounds: u16,
    /// Where the tree is made and kept, on a disk [default: bench-trees in the target directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Take a tree of a tenth of the size
    #[arg(long)]
    quick: bool,
    /// Where the results are written [default: bench/results]
    #[arg(long)]
    results: Option<PathBuf>,
}

/// Ranks of each launch, with one thread each. The last launch has more ranks than two cores can run at a time.
const LAUNCHES: [u32; 2] = [2, 4];

/// An MPI with the plug-in for it.
pub(crate) struct Mpi {
    mpirun: PathBuf,
    plugin: PathBuf,
    /// What its launcher says of itself.
    pub(crate) version: String,
}

impl Mpi {
    /// The MPI below `prefix`; builds the plug-in for it. `number` distinguishes it from others.
    ///
    /// # Errors
    ///
    /// If it is not there, or the plug-in does not build.
    pub(crate) fn new(prefix: &Path, number: usize, target: &Path) -> Result<Self, String> {
        let mpirun = prefix.join("bin/mpirun");
        if !mpirun.is_file() {
            return Err(format!("{} is not there", mpirun.display()));
        }
        let target = target.join(format!("bench-plug-in-{number}"));
        let built = programs::build_for(&prefix.join("bin/mpicc"), "atta-fabric-mpi", &target)?;
        let version = programs::version(&mpirun);
        let plugin = built.join("libatta_mpi.so");
        Ok(Self { mpirun, plugin, version })
    }

    fn is_open(&self) -> bool {
        self.version.contains("Open MPI")
    }

    /// The name in tables.
    pub(crate) fn name(&self) -> &'static str {
        if self.is_open() { "Open MPI" } else { "MPICH" }
    }

    /// The command line up to the program that is launched.
    pub(crate) fn launch(&self, ranks: u32) -> Vec<OsString> {
        let mut plugin = OsString::from("ATTA_MPI_PLUGIN=");
        plugin.push(&self.plugin);
        let mut words: Vec<OsString> = vec!["env".into(), plugin];
        if self.is_open() {
            words.extend(["OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"].map(Into::into));
        }
        if self.mpirun.as_os_str().as_encoded_bytes().contains(&b'=') {
            // `env` would take such a path for one more variable.
            words.extend(["nice", "-n", "0"].map(Into::into));
        }
        words.push(self.mpirun.clone().into());
        words.extend(["-np".into(), ranks.to_string().into()]);
        if self.is_open() {
            // Without the list of ways to send, Open MPI 5 takes a second to begin.
            words.extend(["--oversubscribe", "--mca", "btl", "self,sm,tcp"].map(Into::into));
        }
        words
    }
}

/// Runs the benchmark; reports its progress with `log`. Returns the report and the path of the written file.
///
/// # Errors
///
/// Why there is no result.
pub(crate) fn run(options: &Options, log: impl Fn(&str)) -> Result<(Report, PathBuf), String> {
    let launcher = std::env::current_exe().map_err(|error| format!("finding this program: {error}"))?;
    let target = programs::target_directory(&launcher)?;
    let atta = programs::build("atta-cli", &target)?.join("atta");
    let mpis = options.mpi.iter().enumerate().map(|(number, prefix)| Mpi::new(prefix, number, &target));
    let mpis: Vec<Mpi> = mpis.collect::<Result<_, _>>()?;
    let place = options.dir.clone().unwrap_or_else(|| target.join("bench-trees"));
    let empty = place.join("empty");
    std::fs::create_dir_all(&empty).map_err(|error| format!("making {}: {error}", empty.display()))?;
    let machine = Machine::describe(&place, Path::new(PACKAGE_DIRECTORY));
    let shape = Shape::tree(options.quick);
    let title = format!("{}: {}", shape.name, shape.describe());
    log(&format!("{title} (made if missing)"));
    let tree = shape.ensure(&place, 4).map_err(|error| format!("making a tree: {error}"))?;

    let rules = Rules { launcher, rounds: options.rounds.into(), cold: false };
    let contenders = contenders(&atta, &mpis, &tree, &empty);
    let outcomes = hold(contenders, &rules, &log).map_err(|error| format!("between two runs: {error}"))?;
    let mut hidden = vec![(tree.as_path(), "TREE"), (empty.as_path(), "EMPTY"), (atta.as_path(), "atta")];
    hidden.extend(
        mpis.iter()
            .flat_map(|mpi| [(mpi.plugin.as_path(), "libatta_mpi.so"), (mpi.mpirun.as_path(), "mpirun")]),
    );
    let title = format!("{title}, what walking EMPTY took in the same round taken off");
    let section = Section::new(title, rules.rounds, launches_taken_off(outcomes), &hidden);
    let versions = std::iter::once(programs::version(&atta));
    let versions =
        versions.chain(mpis.iter().map(|mpi| format!("{}: {}", mpi.name(), mpi.version))).collect();
    let report = Report {
        title: "One walk by threads and by ranks, warm cache".into(),
        machine,
        versions,
        sections: vec![section],
    };
    let results = options.results.clone().unwrap_or_else(|| Path::new(PACKAGE_DIRECTORY).join("results"));
    let path = report.write(&results, if options.quick { "ranks-quick" } else { "ranks" });
    Ok((report, path.map_err(|error| format!("writing the results: {error}"))?))
}

/// Each command twice: over nothing, then over the tree.
fn contenders(atta: &Path, mpis: &[Mpi], tree: &Path, empty: &Path) -> Vec<Contender> {
    let mut commands = vec![("2 threads".to_owned(), vec![], "2")];
    for mpi in mpis {
        let named = LAUNCHES.map(|ranks| (format!("{}, {ranks} ranks", mpi.name()), mpi.launch(ranks), "1"));
        commands.extend(named);
    }
    let mut contenders = vec![];
    for (index, (name, launch, threads)) in commands.into_iter().enumerate() {
        for (name, path) in [(format!("{name}, EMPTY"), empty), (name, tree)] {
            let mut command = launch.clone();
            command.extend([atta.into(), "walk".into(), path.into()]);
            command.extend(["--threads", threads, "-q", "--progress", "never"].map(Into::into));
            let is_limit = index == 0 && path == tree;
            contenders.push(Contender { name, command, note: "", is_limit, product: None });
        }
    }
    contenders
}

/// Takes off each walk's time what the same launch took for the empty directory in that round.
pub(crate) fn launches_taken_off(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let mut pairs = vec![];
    let mut rest = outcomes.into_iter();
    while let (Some(empty), Some(mut walk)) = (rest.next(), rest.next()) {
        match (&empty.runs, &mut walk.runs) {
            (Ok(launches), Ok(walks)) => {
                walks.iter_mut().zip(launches).for_each(|(walk, launch)| walk.seconds -= launch.seconds);
            }
            (Err(reason), runs) => *runs = Err(reason.clone()),
            (Ok(_), Err(_)) => {}
        }
        pairs.extend([empty, walk]);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Run;

    fn outcome(name: &str, runs: Result<&[f64], &str>) -> Outcome {
        let run = |&seconds: &f64| Run { seconds, cpu_seconds: 1.0, peak_rss_kib: 1 };
        let contender =
            Contender { name: name.into(), command: vec![], note: "", is_limit: false, product: None };
        Outcome { contender, runs: runs.map(|runs| runs.iter().map(run).collect()).map_err(str::to_owned) }
    }

    #[test]
    fn a_launch_is_taken_off_in_its_own_round() {
        let outcomes = vec![
            outcome("a, EMPTY", Ok(&[0.5, 1.0])),
            outcome("a", Ok(&[1.5, 1.25])),
            outcome("b, EMPTY", Err("no")),
            outcome("b", Ok(&[2.0])),
        ];
        let seconds = |outcome: &Outcome| {
            outcome.runs.as_ref().map(|runs| runs.iter().map(|run| run.seconds).collect::<Vec<_>>()).ok()
        };
        let net: Vec<_> = launches_taken_off(outcomes).iter().map(seconds).collect();
        assert_eq!(net, [Some(vec![0.5, 1.0]), Some(vec![1.0, 0.25]), None, None]);
    }

    #[test]
    fn every_command_walks_nothing_and_then_the_tree() {
        let mpi = Mpi { mpirun: "/m/mpirun".into(), plugin: "/p.so".into(), version: "HYDRA".into() };
        let all = contenders(Path::new("/atta"), &[mpi], Path::new("/tree"), Path::new("/empty"));
        let names: Vec<_> = all.iter().map(|contender| contender.name.as_str()).collect();
        assert_eq!(names[..4], ["2 threads, EMPTY", "2 threads", "MPICH, 2 ranks, EMPTY", "MPICH, 2 ranks"]);
        assert!(all[3].command.iter().any(|word| word == "/tree"), "{:?}", all[3].command);
        assert_eq!(all.iter().filter(|contender| contender.is_limit).count(), 1);
    }
}
