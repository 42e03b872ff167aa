//! The conformance tests as a program for MPI ranks: `mpirun -np 4 conformance`. The first rank prints one line; exit code
//! 4 if anything is wrong. `conformance job` runs the engine's jobs over the fabric instead, `conformance abort` lets one
//! rank abort in the middle of one. It shows, too, how a program tells once that ranks cannot be joined.

use std::process::ExitCode;

use atta_fabric::{Counted, Endpoint, conformance};
use atta_mpi_loader::{Launcher, launcher, open};
use atta_runtime::conformance as job;

fn main() -> ExitCode {
    let Some(launcher) = launcher() else {
        say("launch this with mpirun");
        return ExitCode::from(2);
    };
    match run(&launcher) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let turn = launcher.turn();
            std::thread::sleep(turn.wait);
            if turn.tells {
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
    let seed = 100 * u64::from(endpoint.size());
    let conforms = match what.as_deref() {
        Some("abort") => job::abort_reaches_all(&mut endpoint),
        Some("job") => job::conformance(&mut endpoint, seed),
        _ => conformance(&mut endpoint),
    };
    // What fails here fails on one rank, which tells it at once.
    conforms.inspect_err(|reason| say(reason))?;
    let (rank, size, total) = (endpoint.rank(), endpoint.size(), endpoint.total());
    let near = endpoint.neighbours().len();
    Box::new(endpoint).leave().map_err(|error| format!("conformance: rank {rank}: {error}"))?;
    if rank == 0 {
        let (messages, bytes) = (total.sent_messages, total.sent_bytes);
        say(&format!(
            "conforms: {size} ranks, {near} on this host, {messages} messages, {bytes} bytes: {library}"
        ));
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a program for a terminal")]
fn say(line: &str) {
    println!("{line}");
}
