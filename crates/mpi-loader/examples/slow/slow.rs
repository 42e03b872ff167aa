//! One rank stops in the middle of a large message to another, which must go on receiving the messages of a third. All
//! three must be on one host. It does not test what else a fabric must do.
//!
//! ```text
//!   rank 1  -- its process number -->  rank 0
//!           -- a large message ----->  0          then it stops
//!   rank 2                             0          waits until rank 1 has stopped
//!           <--------------------- go  0
//!           -- small messages ------>  0          must have all of them before it lets rank 1 go on
//! ```

use std::fs;
use std::process::{Command, id};
use std::time::{Duration, Instant};

use atta_fabric::{Endpoint, Received};

/// Too much for what an MPI sends before its receiver takes it.
const LARGE_BYTES: usize = 32 << 20;
const SMALL_MESSAGES: usize = 100;
/// Nothing happened for so long that something is lost. It only ends a test that has failed already.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the part of this rank; every rank of three must call it.
///
/// # Errors
/// A message did not come.
pub(super) fn conformance(endpoint: &mut dyn Endpoint) -> Result<(), String> {
    if endpoint.size() != 3 || endpoint.neighbours().len() != 3 {
        return Err("three ranks on one host are needed".to_owned());
    }
    match endpoint.rank() {
        0 => receive_from_both(endpoint)?,
        1 => stop_while_sending(endpoint)?,
        _ => {
            next(endpoint)?;
            (0..SMALL_MESSAGES).try_for_each(|_| send(endpoint, 0, vec![2]))?;
            next(endpoint)?;
        }
    }
    let began = Instant::now();
    while endpoint.unsent().map_err(|error| error.to_string())? > 0 {
        pause(began, "what was sent to go")?;
    }
    Ok(())
}

fn receive_from_both(endpoint: &mut dyn Endpoint) -> Result<(), String> {
    // Both sides have sent: the connection is there, and what follows goes at once.
    send(endpoint, 1, Vec::new())?;
    let process = String::from_utf8(next(endpoint)?.message).map_err(|error| error.to_string())?;
    send(endpoint, 1, Vec::new())?;
    let began = Instant::now();
    while !is_stopped(&process)? {
        // Messages move on only inside calls.
        endpoint.unsent().map_err(|error| error.to_string())?;
        pause(began, "rank 1 to stop")?;
    }
    send(endpoint, 2, Vec::new())?;
    let mut large = None;
    let mut small = 0;
    while small < SMALL_MESSAGES {
        let received = next(endpoint).map_err(|error| format!("{small} small messages came: {error}"))?;
        match received.from {
            2 => small += 1,
            // Some MPIs read it from the memory of the process that has stopped.
            _ => large = Some(received.message.len()),
        }
    }
    signal("CONT", &process)?;
    let bytes = match large {
        Some(bytes) => bytes,
        None => next(endpoint)?.message.len(),
    };
    if bytes != LARGE_BYTES {
        return Err(format!("the large message has {bytes} bytes"));
    }
    (1..3).try_for_each(|to| send(endpoint, to, Vec::new()))
}

fn stop_while_sending(endpoint: &mut dyn Endpoint) -> Result<(), String> {
    next(endpoint)?;
    send(endpoint, 0, id().to_string().into_bytes())?;
    next(endpoint)?;
    send(endpoint, 0, vec![1; LARGE_BYTES])?;
    signal("STOP", &id().to_string())?;
    next(endpoint).map(|_| ())
}

fn send(endpoint: &mut dyn Endpoint, to: u32, message: Vec<u8>) -> Result<(), String> {
    endpoint.send(to, message).map_err(|error| error.to_string())
}

/// Waits for the next message.
fn next(endpoint: &mut dyn Endpoint) -> Result<Received, String> {
    let began = Instant::now();
    loop {
        if let Some(received) = endpoint.receive().map_err(|error| error.to_string())? {
            return Ok(received);
        }
        pause(began, "a message")?;
    }
}

fn pause(began: Instant, what: &str) -> Result<(), String> {
    if began.elapsed() > PATIENCE {
        return Err(format!("waited {} s for {what}", PATIENCE.as_secs()));
    }
    std::thread::sleep(Duration::from_micros(100));
    Ok(())
}

fn is_stopped(process: &str) -> Result<bool, String> {
    let state = fs::read_to_string(format!("/proc/{process}/stat")).map_err(|error| error.to_string())?;
    // The state is the first field after the name, which is in brackets.
    Ok(state.rsplit(") ").next().is_some_and(|fields| fields.starts_with('T')))
}

/// Sends a signal to a process.
///
/// # Errors
/// It cannot be sent.
pub(super) fn signal(name: &str, process: &str) -> Result<(), String> {
    let ended = Command::new("kill").args(["-s", name, process]).status();
    match ended.map(|status| status.success()) {
        Ok(true) => Ok(()),
        ended => Err(format!("cannot send SIG{name} to process {process}: {ended:?}")),
    }
}
