//! `atta-bench`: runs atta beside its peers and beside the raw limit of the system calls, and writes down the result.
//!
//! ```text
//!   walk ----> field   -> programs   who competes: builds our programs, finds or installs the peers
//!     |        trees      makes what is walked, once
//!     |        contest -> measure   runs all in turns, one launcher for each run
//!     +------> report  -> statistics, table, machine
//!   ranks ---> the same, without field: launches of MPI beside threads
//!   copy ----> its own modules, contest, census, and sheet for the tables
//!   aio -----> its own modules, turns: contenders within this process, and sheet
//! ```
//!
//! It does not test: whether the contenders' answers are right is for the test suite.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program reports on its terminal")]

mod aio;
mod census;
mod contest;
mod copy;
mod field;
mod machine;
mod measure;
mod programs;
mod ranks;
mod report;
mod sheet;
mod statistics;
mod table;
mod trees;
mod turns;
mod walk;

use std::process::ExitCode;

use clap::Parser;

/// Benchmarks of atta.
#[derive(Parser)]
enum Benchmark {
    Walk(walk::Options),
    Ranks(ranks::Options),
    Aio(aio::Options),
    Copy(copy::Options),
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // Not by way of the parser: the words after it belong to somebody else's command line.
    if arguments.get(1).is_some_and(|word| word == measure::SUB_COMMAND) {
        return measure::launch(&arguments[2..]);
    }
    let log = |line: &str| eprintln!("{line}");
    let ended = match Benchmark::parse_from(arguments) {
        Benchmark::Walk(options) => walk::run(&options, log).map(|(report, path)| (report.render(), path)),
        Benchmark::Ranks(options) => ranks::run(&options, log).map(|(report, path)| (report.render(), path)),
        Benchmark::Aio(options) => aio::run(&options, log),
        Benchmark::Copy(options) => copy::run(&options, &log),
    };
    match ended {
        Ok((report, path)) => {
            print!("{report}");
            eprintln!("written to {}", path.display());
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("atta-bench: {reason}");
            ExitCode::FAILURE
        }
    }
}
