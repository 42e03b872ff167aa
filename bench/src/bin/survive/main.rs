//! What the log of a job costs: `atta walk --job` beside one without, `atta walk --output`, `atta verify --output` and `atta copy` beside ones with `--no-job`, in turns, over the same tree. And what a resume costs:
//! a copy that was killed goes on, beside `atta copy --update` and `rsync -a`.

#![expect(clippy::disallowed_methods, reason = "a benchmark's own directory")]

mod deaths;
mod resume;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use atta_testkit::random::Random;
use clap::{Parser, ValueEnum};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// The cost of the log of a walk
    Walk,
    /// The cost of the log of a walk that writes a catalog
    Catalog,
    /// The cost of the log of a comparison of a tree with itself that writes a table
    Verify,
    /// The cost of the log of a copy
    Copy,
    /// The rest of a copy that was killed near its end
    Resume,
    /// A copy of which ranks are killed one by one (needs --mpirun of an Open MPI 5)
    Deaths,
    /// What it costs that ranks can survive others, while none dies: a walk and a copy (needs the same)
    Survival,
    /// What copies of logs cost (--survive 1, 2 and 3), while no rank dies, over a walk that does not survive (needs the same)
    Copies,
}

/// Runs commands with a log and without, in turns.
#[derive(Clone, Parser)]
struct Arguments {
    /// What is measured.
    #[arg(long, value_enum, default_value = "walk")]
    what: What,
    /// Where the tree and the jobs are made. A tree that is there is used.
    directory: PathBuf,
    /// The program.
    #[arg(long, default_value = "target/release/atta")]
    program: PathBuf,
    /// Directories of the tree.
    #[arg(long, default_value_t = 180_000)]
    directories: u64,
    /// Files of the tree.
    #[arg(long, default_value_t = 500_000)]
    files: u64,
    /// Pairs of runs.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Threads, of each rank.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// `mpirun` of an MPI: runs are on ranks
    #[arg(long)]
    mpirun: Option<PathBuf>,
    /// Operations a second of a copy that is killed near its end: it must last many seconds, since the log grows each second
    #[arg(long, default_value_t = 15_000)]
    killed_iops: u32,
    /// How many ranks.
    #[arg(long, default_value_t = 4)]
    ranks: usize,
}

/// Wall time and processor time of a run, in seconds.
#[derive(Clone, Copy)]
struct Spent {
    wall: f64,
    processor: f64,
}

/// Makes a tree: each directory is below one of those before it, up to 40 in each, and files are dealt out in turn.
fn make_tree(tree: &Path, arguments: &Arguments) -> std::io::Result<()> {
    let mut random = Random::new(1);
    let mut directories = vec![tree.to_path_buf()];
    std::fs::create_dir(tree)?;
    let mut children = vec![0_u32];
    while (directories.len() as u64) < arguments.directories {
        let from = directories.len().saturating_sub(20_000);
        let parent = from + random.below((directories.len() - from) as u64) as usize;
        if children[parent] < 40 {
            children[parent] += 1;
            let below = directories[parent].join(format!("directory-{:04}", children[parent]));
            std::fs::create_dir(&below)?;
            directories.push(below);
            children.push(0);
        }
    }
    for number in 0..arguments.files {
        let directory = &directories[(number % directories.len() as u64) as usize];
        std::fs::File::create(directory.join(format!("file-{number:07}")))?;
    }
    Ok(())
}

fn processor() -> f64 {
    getrusage(UsageWho::RUSAGE_CHILDREN)
        .map(|usage| (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
        .unwrap_or_default()
}

fn run(command: &mut Command) -> std::io::Result<Spent> {
    let (before, began) = (processor(), Instant::now());
    let status = command.stdout(Stdio::null()).status()?;
    let wall = began.elapsed().as_secs_f64();
    if !status.success() {
        return Err(std::io::Error::other(format!("{command:?}: {status}")));
    }
    Ok(Spent { wall, processor: processor() - before })
}

/// The quartiles.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

#[expect(clippy::print_stdout, reason = "the result")]
fn show(what: &str, values: Vec<f64>, digits: usize) {
    let [low, median, high] = quartiles(values);
    println!("{what:<44} {median:.digits$} ({low:.digits$} to {high:.digits$})");
}

/// The bytes of the logs of a job.
fn logged(job: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for file in std::fs::read_dir(job)? {
        let file = file?;
        if file.file_name().to_string_lossy().contains('.') {
            bytes += file.metadata()?.len();
        }
    }
    Ok(bytes)
}

/// The bytes of the log of a whole run.
fn log_bytes(arguments: &Arguments, tree: &Path) -> std::io::Result<u64> {
    let job = arguments.directory.join("job-bytes");
    let target = target(arguments);
    let mut command = command(arguments, tree);
    command.arg("--job").arg(&job);
    // Something fails, so the job does not end, and its log stays.
    if arguments.what == What::Walk {
        command.arg(arguments.directory.join("x".repeat(300)));
    } else {
        std::fs::write(tree.join("blocked"), "")?;
        std::fs::create_dir_all(target.join("tree/blocked/below"))?;
    }
    command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let bytes = logged(&job)?;
    std::fs::remove_dir_all(&job)?;
    if arguments.what != What::Walk {
        std::fs::remove_file(tree.join("blocked"))?;
        std::fs::remove_dir_all(&target)?;
    }
    Ok(bytes)
}

/// The directory that trees are copied into.
fn target(arguments: &Arguments) -> PathBuf {
    arguments.directory.join("target")
}

/// The program, on ranks if that is asked for.
fn program(arguments: &Arguments) -> Command {
    let Some(mpirun) = &arguments.mpirun else { return Command::new(&arguments.program) };
    let mut command = Command::new(mpirun);
    command.arg("-n").arg(arguments.ranks.to_string());
    // MPICH does not know these.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    if mpirun.to_string_lossy().contains("openmpi") {
        command.args(["--oversubscribe", "--mca", "btl", "self,sm,tcp"]);
    }
    if arguments.what == What::Deaths {
        command.args(["--with-ft", "ulfm"]);
    }
    command.arg(&arguments.program);
    command
}

/// A walk of a tree, or a copy of it.
fn command(arguments: &Arguments, tree: &Path) -> Command {
    let mut command = program(arguments);
    let threads = arguments.threads.to_string();
    match arguments.what {
        What::Walk | What::Copies => command.args(["walk", "-q", "-j", &threads]).arg(tree),
        What::Catalog => {
            let catalog = target(arguments);
            command.args(["walk", "-q", "-j", &threads, "--output"]).arg(catalog).arg(tree)
        }
        What::Verify => {
            let table = target(arguments);
            command.args(["verify", "-q", "-j", &threads, "--output"]).arg(table).arg(tree).arg(tree)
        }
        What::Copy | What::Resume | What::Deaths | What::Survival => {
            let target = target(arguments);
            command.args(["copy", "-q", "-j", &threads]).arg(tree).arg(target)
        }
    };
    command
}

#[expect(clippy::print_stdout, reason = "the result")]
fn main() -> std::io::Result<()> {
    let arguments = Arguments::parse();
    let tree = arguments.directory.join("tree");
    if !tree.exists() {
        make_tree(&tree, &arguments)?;
    }
    match arguments.what {
        What::Resume => return resume::measure(&arguments, &tree),
        What::Deaths => return deaths::measure(&arguments, &tree),
        What::Survival => return deaths::overhead(&arguments, &tree),
        What::Copies => return deaths::copies(&arguments, &tree),
        _ => {}
    }
    let (empty, target) = (arguments.directory.join("empty"), target(&arguments));
    std::fs::create_dir_all(&empty)?;
    let mut random = Random::new(7);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut start_with, mut start_without) = (Vec::new(), Vec::new());
    let job = arguments.directory.join("job");
    for round in 0..=arguments.rounds {
        let mut order = [0, 1, 2, 3];
        (1..order.len()).for_each(|at| order.swap(at, random.index(at + 1)));
        for which in order {
            let over = if which < 2 { &tree } else { &empty };
            if arguments.what == What::Copy {
                std::fs::create_dir(&target)?;
            }
            let mut command = command(&arguments, over);
            match (which % 2, arguments.what) {
                (0, What::Walk) => drop(command.arg("--job").arg(&job)),
                // Its job is in the target.
                (0, _) | (_, What::Walk) => {}
                _ => drop(command.arg("--no-job")),
            }
            let spent = run(&mut command)?;
            if which % 2 == 0 && arguments.what == What::Walk {
                std::fs::remove_dir_all(&job)?;
            }
            match arguments.what {
                What::Walk => {}
                What::Verify => std::fs::remove_file(&target)?,
                _ => std::fs::remove_dir_all(&target)?,
            }
            // The first round warms caches.
            if round > 0 {
                [&mut with, &mut without, &mut start_with, &mut start_without][which].push(spent);
            }
        }
    }
    let pairs = |of: fn(&Spent) -> f64| with.iter().zip(&without).map(|(a, b)| of(a) / of(b)).collect();
    show("with a log over one without, wall", pairs(|spent| spent.wall), 4);
    show("the same, processor time", pairs(|spent| spent.processor), 4);
    let starts = start_with.iter().zip(&start_without);
    show("more for an empty tree, ms", starts.map(|(a, b)| 1e3 * (a.wall - b.wall)).collect(), 2);
    show("without a log, s", without.iter().map(|spent| spent.wall).collect(), 3);
    if matches!(arguments.what, What::Catalog | What::Verify) {
        // Its log goes with the run. It is that of a walk, and has the names of parts, or the differences.
        return Ok(());
    }
    let bytes = log_bytes(&arguments, &tree)?;
    println!("{:<44} {:.1}", "bytes of log for each directory", bytes as f64 / arguments.directories as f64);
    Ok(())
}
