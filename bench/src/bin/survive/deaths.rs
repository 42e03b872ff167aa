//! What deaths of ranks cost a copy that goes on: the time from SIGKILL until the ranks that are left are at work again, and the whole copy, of which
//! all ranks but one are killed one by one, beside undisturbed copies on each number of ranks. Open MPI 5 alone can do this.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::random::Random;

use super::{Arguments, Spent, What, command, quartiles, run, show, target};

/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(120);

/// A killed copy.
struct Struck {
    wall: f64,
    /// From each SIGKILL until all that are left have begun their logs, in seconds.
    pauses: Vec<f64>,
    /// The bytes of the log of each rank when it was killed.
    logs: Vec<u64>,
    /// When each rank was killed, in seconds since the start.
    killed_at: Vec<f64>,
}

/// A copy on so many ranks that survive each other.
fn copy(arguments: &Arguments, tree: &Path, ranks: usize, job: &Path) -> Command {
    let on = Arguments { ranks, what: arguments.what, ..arguments.clone() };
    let mut copy = command(&on, tree);
    copy.arg("--job").arg(job).stdout(Stdio::null()).stderr(Stdio::null());
    copy
}

/// The process of a rank.
fn process_of(rank: usize) -> Option<i32> {
    let wanted = format!("OMPI_COMM_WORLD_RANK={rank}");
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse() else { continue };
        let read = |name| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let has = |wanted: &str| read("environ").split(|byte| *byte == 0).any(|one| one == wanted.as_bytes());
        if read("comm") == b"atta\n" && has(&wanted) {
            return Some(id);
        }
    }
    None
}

/// How many logs a run of the job has.
fn logs_of(job: &Path, run: usize) -> usize {
    let begins = format!("{run}.");
    let names = std::fs::read_dir(job).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_string_lossy().starts_with(&begins)).count()
}

fn until(what: &str, child: &mut Child, mut is_so: impl FnMut() -> bool) -> std::io::Result<()> {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > PATIENCE || child.try_wait()?.is_some() {
            return Err(std::io::Error::other(format!("the copy ended before {what}")));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

/// Copies, and kills ranks after these times, each in seconds since the ranks were at work.
fn struck(arguments: &Arguments, tree: &Path, kill_at: &[f64]) -> std::io::Result<Struck> {
    let (job, target) = (arguments.directory.join("job"), target(arguments));
    std::fs::create_dir(&target)?;
    let began = Instant::now();
    let mut child = copy(arguments, tree, arguments.ranks, &job).spawn()?;
    let mut struck = Struck { wall: 0.0, pauses: vec![], logs: vec![], killed_at: vec![] };
    until("it began", &mut child, || logs_of(&job, 1) == arguments.ranks)?;
    let processes: Vec<_> = (0..arguments.ranks).filter_map(process_of).collect();
    let mut at_work = Instant::now();
    for (death, after) in kill_at.iter().enumerate() {
        std::thread::sleep(Duration::from_secs_f64(*after).saturating_sub(at_work.elapsed()));
        // The first rank has the job, and dies last.
        let rank = arguments.ranks - 1 - death;
        let log = job.join(format!("{}.{rank}", death + 1));
        struck.logs.push(log.metadata().map_or(0, |found| found.len()));
        struck.killed_at.push(began.elapsed().as_secs_f64());
        let killed = Instant::now();
        let process = rustix::process::Pid::from_raw(processes[rank]).ok_or(std::io::ErrorKind::NotFound)?;
        rustix::process::kill_process(process, rustix::process::Signal::KILL)?;
        until("it went on", &mut child, || logs_of(&job, death + 2) == rank)?;
        struck.pauses.push(killed.elapsed().as_secs_f64());
        at_work = Instant::now();
    }
    let status = child.wait()?;
    struck.wall = began.elapsed().as_secs_f64();
    if !status.success() {
        return Err(std::io::Error::other(format!("the copy: {status}")));
    }
    remove(&[job, target])?;
    Ok(struck)
}

fn remove(paths: &[PathBuf]) -> std::io::Result<()> {
    paths.iter().try_for_each(|path| if path.exists() { std::fs::remove_dir_all(path) } else { Ok(()) })
}

/// Undisturbed copies on each number of ranks, then one of which all ranks but one are killed.
#[expect(clippy::print_stdout, reason = "the result")]
pub(super) fn measure(arguments: &Arguments, tree: &Path) -> std::io::Result<()> {
    let (job, target) = (arguments.directory.join("job"), target(arguments));
    let (mut ratios, mut pauses) = (Vec::new(), Vec::new());
    for round in 0..arguments.rounds {
        let mut whole = vec![0.0];
        for ranks in 1..=arguments.ranks {
            std::fs::create_dir(&target)?;
            whole.push(run(&mut copy(arguments, tree, ranks, &job))?.wall);
            remove(&[job.clone(), target.clone()])?;
        }
        // Each view does the same share of what an undisturbed copy of so many ranks does in that time.
        let deaths = arguments.ranks - 1;
        let share = 1.0 / arguments.ranks as f64;
        let kill_at: Vec<f64> = (0..deaths).map(|death| share * whole[arguments.ranks - death]).collect();
        let struck = struck(arguments, tree, &kill_at)?;
        // The work between two deaths, at the rate of an undisturbed copy.
        let ideal: f64 = (1..=arguments.ranks).map(|ranks| share * whole[ranks]).sum();
        let ratio = (struck.wall - 0.2 * deaths as f64) / ideal;
        println!(
            "round {round}: undisturbed {:?} s on 1 to {} ranks; killed at {:?} s, logs of {:?} bytes, at work again after {:?} s; {:.2} s, ideal {ideal:.2} s",
            &whole[1..],
            arguments.ranks,
            struck.killed_at,
            struck.logs,
            struck.pauses,
            struck.wall
        );
        ratios.push(ratio);
        pauses.extend(struck.pauses);
    }
    for (what, values) in
        [("at work again after, in seconds", pauses), ("time less 0.2 s a death, over ideal", ratios)]
    {
        let [low, median, high] = quartiles(values);
        println!("{what:<40} {median:.3} ({low:.3} to {high:.3})");
    }
    Ok(())
}

/// Walks and copies with a job, launched so that ranks survive others, beside ones that do not, in turns.
pub(super) fn overhead(arguments: &Arguments, tree: &Path) -> std::io::Result<()> {
    let (job, target) = (arguments.directory.join("job"), target(arguments));
    let mut random = Random::new(7);
    for (what, name) in [(What::Walk, "walk"), (What::Copy, "copy")] {
        let of = Arguments { what, ..arguments.clone() };
        let launch = |survives: bool| -> std::io::Result<Spent> {
            std::fs::create_dir(&target)?;
            let mut command = command(&of, tree);
            if what == What::Walk {
                command.arg("--job").arg(&job);
            }
            if survives {
                command.env("OMPI_MCA_mpi_ft_enable", "1");
            }
            let spent = run(command.stderr(Stdio::null()))?;
            remove(&[job.clone(), target.clone()])?;
            Ok(spent)
        };
        // The first one warms caches.
        launch(true)?;
        let (mut wall, mut processor) = (Vec::new(), Vec::new());
        for _ in 0..arguments.rounds {
            let first = random.index(2) == 0;
            let (one, other) = (launch(first)?, launch(!first)?);
            let (with, without) = if first { (one, other) } else { (other, one) };
            wall.push(with.wall / without.wall);
            processor.push(with.processor / without.processor);
        }
        show(&format!("{name}: ranks that survive over others, wall"), wall, 4);
        show("the same, processor time", processor, 4);
    }
    Ok(())
}

/// Walks with 1, 2 and 3 copies of each log beside walks that do not survive, in turns.
pub(super) fn copies(arguments: &Arguments, tree: &Path) -> std::io::Result<()> {
    let of = Arguments { what: What::Walk, ..arguments.clone() };
    let launch = |copies: usize| -> std::io::Result<Spent> {
        let mut command = command(&of, tree);
        command.env("OMPI_MCA_mpi_ft_enable", "1");
        if copies > 0 {
            command.arg("--survive").arg(copies.to_string());
        }
        run(command.stderr(Stdio::null()))
    };
    let mut random = Random::new(7);
    let mut ratios = [const { (Vec::new(), Vec::new()) }; 3];
    for round in 0..=arguments.rounds {
        let mut order = [0, 1, 2, 3];
        (1..order.len()).for_each(|at| order.swap(at, random.index(at + 1)));
        let mut spent = [Spent { wall: 0.0, processor: 0.0 }; 4];
        for copies in order {
            spent[copies] = launch(copies)?;
        }
        // The first round warms caches.
        for copies in (1..4).filter(|_| round > 0) {
            let (wall, processor) = &mut ratios[copies - 1];
            wall.push(spent[copies].wall / spent[0].wall);
            processor.push(spent[copies].processor / spent[0].processor);
        }
    }
    for (copies, (wall, processor)) in (1..).zip(ratios) {
        show(&format!("--survive {copies} over none, wall"), wall, 4);
        show("the same, processor time", processor, 4);
    }
    Ok(())
}
