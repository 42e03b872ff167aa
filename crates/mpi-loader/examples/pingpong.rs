//! Half the round trip of a message between the first two ranks, by length: `mpirun -np 2 pingpong`. A tool to look at
//! an MPI with; it is no benchmark and claims nothing.

use std::error::Error;
use std::time::Instant;

use atta_fabric::Endpoint;
use atta_mpi_loader::{launcher, open};

fn main() -> Result<(), Box<dyn Error>> {
    let launcher = launcher().ok_or("launch this with mpirun -np 2")?;
    let mut mpi = open()?.begin(&launcher)?;
    let rank = mpi.rank();
    if mpi.size() < 2 {
        return Err("two ranks are needed".into());
    }
    for bytes in [0, 8, 1024, 8192, 65_536, 1 << 20] {
        let rounds = if bytes > 8192 { 200 } else { 2000 };
        if rank < 2 {
            // The first rounds open connections and fill caches.
            exchange(&mut mpi, bytes, rounds / 10)?;
            let seconds = exchange(&mut mpi, bytes, rounds)?;
            if rank == 0 {
                say(bytes, seconds / f64::from(rounds) / 2.0);
            }
        }
    }
    while mpi.unsent()? > 0 {
        std::thread::yield_now();
    }
    Box::new(mpi).leave()?;
    Ok(())
}

/// Sends a message to and fro; says how many seconds it took.
fn exchange(mpi: &mut dyn Endpoint, bytes: usize, rounds: u32) -> Result<f64, Box<dyn Error>> {
    let (rank, start) = (mpi.rank(), Instant::now());
    let mut ball = vec![0; bytes];
    for _ in 0..rounds {
        if rank == 0 {
            mpi.send(1, ball)?;
        }
        ball = wait(mpi)?;
        if rank == 1 {
            mpi.send(0, std::mem::take(&mut ball))?;
        }
    }
    Ok(start.elapsed().as_secs_f64())
}

fn wait(mpi: &mut dyn Endpoint) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut polls = 0_u32;
    loop {
        if let Some(received) = mpi.receive()? {
            return Ok(received.message);
        }
        polls += 1;
        if polls.is_multiple_of(1000) {
            // With more ranks than cores the other one needs this core.
            std::thread::yield_now();
        }
    }
}

#[expect(clippy::print_stdout, reason = "a program for a terminal")]
fn say(bytes: usize, seconds: f64) {
    println!("{bytes:>8} bytes: {:>9.2} us", seconds * 1e6);
}
