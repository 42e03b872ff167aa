//! The conformance tests as a program for MPI ranks: `mpirun -np 4 conformance`. The first rank prints one line; exit code
//! 4 if anything is wrong. It shows, too, how a program says once that ranks cannot be joined. One word chooses what runs
//! instead:
//!
//! - `job`: the engine's jobs over the fabric.
//! - `queries`: the queries of `atta-status` (`queries.rs`).
//! - `abort`: one rank aborts in the middle of a job.
//! - `slow`: one rank stops in the middle of a large message (`slow.rs`).
//! - `deaths`: the first and the last rank kill themselves. The second one prints the line.
//! - `crash`: every rank is killed by SIGSEGV.
//!
//! Each rank names the phase that it enters on standard error. A rank that crashes leaves the backtrace of its MPI there, if
//! that MPI writes one, and a core file, if the limits allow one.
#![expect(unsafe_code, reason = "the standard library has no call that sets how a signal is handled")]

#[path = "queries/queries.rs"]
mod queries;
#[path = "slow/slow.rs"]
mod slow;

use std::process::ExitCode;

use atta_fabric::{Counted, Endpoint, Fate, conformance, deaths};
use atta_mpi_loader::{Launcher, launcher, open};
use atta_runtime::conformance as job;

fn main() -> ExitCode {
    let Some(launcher) = launcher() else {
        say("launch this with mpirun");
        return ExitCode::from(2);
    };
    phase(&launcher, "begin");
    give_faults_back();
    match run(&launcher) {
        Ok(()) => {
            phase(&launcher, "exit");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            let turn = launcher.turn();
            std::thread::sleep(turn.wait);
            if turn.reports {
                say(&reason);
            }
            ExitCode::from(4)
        }
    }
}

fn run(launcher: &Launcher) -> Result<(), String> {
    let plugin = open().map_err(|error| format!("conformance: {error}\nhint: {}", error.hint()))?;
    let library = plugin.library().to_owned();
    let joined = plugin.begin(launcher);
    let mpi = joined.map_err(|error| format!("conformance: {error}\nhint: {}", error.hint()))?;
    let mut endpoint = Counted::new(mpi);
    let what = std::env::args().nth(1);
    phase(launcher, what.as_deref().unwrap_or("fabric"));
    let seed = 100 * u64::from(endpoint.size());
    let conforms = match what.as_deref() {
        Some("abort") => job::abort_reaches_all(&mut endpoint),
        Some("job") => job::conformance(&mut endpoint, seed),
        Some("queries") => queries::conformance(&mut endpoint),
        Some("slow") => slow::conformance(&mut endpoint),
        Some("deaths") => deaths(&mut endpoint).map(|fate| {
            if fate == Fate::Dies {
                die();
            }
        }),
        Some("crash") => slow::signal("SEGV", &std::process::id().to_string()),
        _ => conformance(&mut endpoint),
    };
    // A failure here occurs on one rank, which reports it at once.
    conforms.inspect_err(|reason| say(reason))?;
    let (rank, size, total) = (endpoint.rank(), endpoint.size(), endpoint.total());
    let near = endpoint.neighbours().len();
    phase(launcher, "leave");
    Box::new(endpoint).leave().map_err(|error| format!("conformance: rank {rank}: {error}"))?;
    let first = u32::from(what.as_deref() == Some("deaths"));
    if rank == first {
        let (messages, bytes) = (total.sent_messages, total.sent_bytes);
        say(&format!(
            "conforms: {size} ranks, {near} on this host, {messages} messages, {bytes} bytes: {library}"
        ));
    }
    Ok(())
}

/// Ends this process as nothing could prevent.
fn die() -> ! {
    let own = i32::try_from(std::process::id()).expect("a process has a positive number");
    // SAFETY: the signal is sent to this process alone.
    unsafe { libc::kill(own, libc::SIGKILL) };
    unreachable!("SIGKILL cannot be caught")
}

/// Gives the signals of a crash back to the system. The standard library handles them from the start, to name a thread whose
/// stack has overflowed, and Open MPI installs its own handler, which writes a backtrace, only where there is none.
fn give_faults_back() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: the default action needs nothing of this program, and no other thread runs yet.
        let before = unsafe { libc::signal(signal, libc::SIG_DFL) };
        assert_ne!(before, libc::SIG_ERR, "signal {signal} has a default action");
    }
}

/// Names the phase that this rank enters: the last one that a rank names is where it crashed.
#[expect(clippy::print_stderr, reason = "a program for a terminal")]
fn phase(launcher: &Launcher, name: &str) {
    // Not every launcher says the rank.
    let rank = launcher.rank.map_or_else(|| "?".to_owned(), |rank| rank.to_string());
    eprintln!("phase: rank {rank}: {name}");
}

#[expect(clippy::print_stdout, reason = "a program for a terminal")]
fn say(line: &str) {
    println!("{line}");
}
