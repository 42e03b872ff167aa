//! The program `atta`: reads arguments, runs an operation and renders its result. The only place that prints and exits.

mod arguments;
mod bcast;
mod clean;
mod copy;
mod descriptors;
mod figures;
#[cfg(test)]
mod fuzz;
mod generate;
mod input;
mod jobs;
mod launch;
mod location;
mod output;
mod resume;
mod run;
mod schedule;
mod simulate;
mod size;
mod sum;
mod threads;
mod verify;
mod walk;

use crate::run::deaths::Deaths;
use crate::run::going::Resumes as _;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::messages::once;
use crate::run::refused::Refused;
use std::ffi::OsString;
use std::process::ExitCode;

use atta_mpi_loader::Launcher;
use atta_ops::descriptors::Needs;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

/// Parallel walk, copy, checksum and comparison of file trees with millions to billions of files.
#[derive(Debug, Parser)]
#[command(name = "atta", version, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 success; 1 differences found; 2 invalid usage; 3 completed, but some entries failed; \
                        4 fatal error; 130 or 143 interrupted (SIGINT, SIGTERM); 141 standard output closed."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

// Only the arguments of the command that runs are built.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Command {
    /// Scan file trees: totals, listings, catalogs
    Walk(Box<walk::WalkArguments>),
    /// Copy file trees
    Copy(Box<copy::CopyArguments>),
    /// Go on with a job that was killed or interrupted
    Resume(resume::ResumeArguments),
    /// Run a launcher command, and start it again until its job has come to its end
    Launch(launch::LaunchArguments),
    /// List jobs, or show one
    Jobs(jobs::JobsArguments),
    /// List or remove temporary files of interrupted copies
    Clean(Box<clean::CleanArguments>),
    /// Compute or check BLAKE3 digests of files and the signature of a tree
    Sum(Box<sum::SumArguments>),
    /// Compare two file trees
    Verify(Box<verify::VerifyArguments>),
    /// Show which file system a path is on, and which ranks see the same
    Where(location::WhereArguments),
    /// Send a file to the same path on every node
    Bcast(Box<bcast::BcastArguments>),
    /// Create a reproducible random file tree
    Generate(generate::GenerateArgs),
    /// Simulate how MPI ranks share a walk
    Simulate(Box<simulate::SimulateArguments>),
}

fn main() -> ExitCode {
    if let Some(code) = location::answer(run::line::words()) {
        return ExitCode::from(code);
    }
    let launcher = atta_mpi_loader::launcher();
    let (arguments, matches) = match parse(run::line::words().iter().cloned()) {
        Ok(parsed) => parsed,
        Err(error) => return report_usage(&error, launcher.as_ref()),
    };
    let (arguments, matches) = match arguments.command {
        Command::Resume(resume) => match recorded(&resume) {
            Ok(parsed) => parsed,
            Err(refused) => {
                let code = refused.code();
                once(launcher.as_ref(), || {
                    run::outcome::ended(refused.report());
                });
                return ExitCode::from(code);
            }
        },
        Command::Launch(_) if has_ranks(launcher.as_ref()) => {
            let hint = "run it without mpirun or srun, which are a part of COMMAND";
            once(launcher.as_ref(), || complain("atta launch runs on one rank", Some(hint)));
            return ExitCode::from(exit::USAGE);
        }
        // It catches signals in its own way.
        Command::Launch(launch) => return ExitCode::from(launch::run(&launch)),
        _ => (arguments, matches),
    };
    let signals = match run::signals::Signals::catch() {
        Ok(signals) => signals,
        Err(error) => {
            complain(&format!("cannot catch signals: {error}"), None);
            return ExitCode::from(exit::FATAL);
        }
    };
    if let Err(code) = descriptors::provide(needs(&arguments.command), |print| once(launcher.as_ref(), print))
    {
        return ExitCode::from(code);
    }
    let code = match arguments.command {
        Command::Walk(mut walk) => {
            if let Some(matches) = matches.subcommand_matches("walk") {
                walk.visit.take_rules(matches);
            }
            walk::run(&walk, &signals, launcher.as_ref())
        }
        Command::Copy(mut copy) => {
            if let Some(matches) = matches.subcommand_matches("copy") {
                copy.visit.take_rules(matches);
            }
            copy::run(&copy, &signals, launcher.as_ref())
        }
        // A job is begun by another command, and launched by this one.
        Command::Resume(_) | Command::Launch(_) => exit::USAGE,
        Command::Jobs(_) if has_ranks(launcher.as_ref()) => {
            let hint = "run it without mpirun or srun";
            once(launcher.as_ref(), || complain("atta jobs runs on one rank", Some(hint)));
            exit::USAGE
        }
        Command::Jobs(jobs) => jobs::run(&jobs),
        Command::Clean(_) if has_ranks(launcher.as_ref()) => {
            let hint = "run it without mpirun or srun";
            once(launcher.as_ref(), || complain("atta clean runs on one rank", Some(hint)));
            exit::USAGE
        }
        Command::Clean(_) if output::was_closed() => closed(),
        Command::Clean(clean) => clean::run(&clean, &signals),
        Command::Sum(mut sum) => {
            if let Some(matches) = matches.subcommand_matches("sum") {
                sum.visit.take_rules(matches);
            }
            sum::run(&sum, &signals, launcher.as_ref())
        }
        Command::Verify(mut verify) => {
            if let Some(matches) = matches.subcommand_matches("verify") {
                verify.visit.take_rules(matches);
            }
            verify::run(&verify, &signals, launcher.as_ref())
        }
        Command::Where(locate) => location::run(&locate, &signals, launcher.as_ref()),
        Command::Bcast(bcast) => bcast::run(&bcast, &signals, launcher.as_ref()),
        Command::Generate(_) if has_ranks(launcher.as_ref()) => {
            let hint = "run it without mpirun or srun; it takes all cores of one host";
            once(launcher.as_ref(), || complain("atta generate runs on one rank", Some(hint)));
            exit::USAGE
        }
        Command::Generate(generate) => generate::run(&generate, &signals),
        Command::Simulate(_) if has_ranks(launcher.as_ref()) => {
            let hint = "run it without mpirun or srun; its ranks are within one process";
            once(launcher.as_ref(), || complain("atta simulate runs on one rank", Some(hint)));
            exit::USAGE
        }
        Command::Simulate(simulate) => simulate::run(&simulate, &signals),
    };
    ExitCode::from(code)
}

/// Parses a command line.
fn parse(line: impl IntoIterator<Item = OsString>) -> Result<(Arguments, ArgMatches), clap::Error> {
    let matches = Arguments::command().try_get_matches_from(line)?;
    Ok((Arguments::from_arg_matches(&matches)?, matches))
}

/// The command that has begun a job, to be run again.
fn recorded(arguments: &resume::ResumeArguments) -> Result<(Arguments, ArgMatches), Refused> {
    let (line, directory) = resume::recorded(arguments)?;
    let refused = |why: &str| Refused::fatal(format!("the command of the job cannot be run again: {why}"));
    let (mut arguments, matches) = parse(line).map_err(|error| refused(&error.to_string()))?;
    match &mut arguments.command {
        Command::Walk(walk) => walk.resume(directory, Deaths::default()),
        Command::Copy(copy) => copy.resume(directory, Deaths::default()),
        Command::Verify(verify) => verify.resume(directory, Deaths::default()),
        Command::Sum(sum) => sum.resume(directory, Deaths::default()),
        _ => return Err(refused("it makes no job")),
    }
    Ok((arguments, matches))
}

/// Whether a launcher started, or may have started, more than this process.
fn has_ranks(launcher: Option<&Launcher>) -> bool {
    launcher.is_some_and(|launcher| launcher.size != Some(1))
}

/// Prints a usage error, or the text of `--help` or `--version`.
fn report_usage(error: &clap::Error, launcher: Option<&Launcher>) -> ExitCode {
    if output::was_closed() && !error.use_stderr() {
        once(launcher, || {
            closed();
        });
        return ExitCode::from(exit::FATAL);
    }
    let code = u8::try_from(error.exit_code()).unwrap_or(exit::USAGE);
    once(launcher, || {
        // An error of standard output or standard error cannot be reported.
        let _ = error.print();
        run::outcome::ended(code);
    });
    ExitCode::from(code)
}

/// Reports that standard output was closed when the program started; returns the exit code.
fn closed() -> u8 {
    run::fatal::output_error(&rustix::io::Errno::BADF.into()).report()
}

/// Descriptor needs of a command on trees, its effort options, and whether it is quiet.
fn needs(command: &Command) -> Option<descriptors::Wanted<'_>> {
    match command {
        Command::Walk(walk) => Some((Needs::WALK, &walk.effort, walk.report.quiet)),
        Command::Copy(copy) => Some((Needs::COPY, &copy.effort, copy.report.quiet)),
        Command::Sum(sum) => Some((Needs::SUM, &sum.effort, sum.report.quiet)),
        Command::Verify(verify) => Some((Needs::VERIFY, &verify.effort, verify.report.quiet)),
        Command::Resume(_)
        | Command::Launch(_)
        | Command::Jobs(_)
        | Command::Clean(_)
        | Command::Where(_)
        | Command::Bcast(_)
        | Command::Generate(_)
        | Command::Simulate(_) => None,
    }
}
