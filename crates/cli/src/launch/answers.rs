//! Which hosts answer: each is asked by the launcher itself, which runs a short program there. A host is asked twice: if it does not answer in time
//! either time, or cannot be reached, it counts as dead. A launcher can fail or hang once for reasons of its own.

use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::child::command;
use super::options::Hosts;
use super::private::Place;
use super::signals::{LOOK, Signals};
use crate::run::refused::Refused;

/// How often a host is asked before it counts as dead.
const ASKS: u32 = 2;
/// Time for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time that a launcher then has to end.
const END: Duration = Duration::from_secs(2);
/// Most hosts that are asked at once.
const AT_ONCE: usize = 16;

/// Whether each host answers. After a signal, the rest is not asked.
pub(super) fn of(hosts: &Hosts, place: &Place, signals: &Signals) -> Result<Vec<bool>, Refused> {
    let names = hosts.names();
    let asking = Asking {
        hosts,
        place,
        next: AtomicUsize::new(0),
        stops: AtomicBool::new(false),
        failed: Mutex::new(None),
    };
    let answers: Vec<_> = names.iter().map(|_| AtomicBool::new(false)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..AT_ONCE.min(names.len())).map(|_| scope.spawn(|| asking.ask_all(&names, &answers))).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            if signals.code().is_some() {
                asking.stops.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK);
        }
    });
    match asking.failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        Some(refused) => Err(refused),
        None => Ok(answers.into_iter().map(AtomicBool::into_inner).collect()),
    }
}

struct Asking<'a> {
    hosts: &'a Hosts,
    place: &'a Place,
    /// The next host, by its index.
    next: AtomicUsize,
    stops: AtomicBool,
    /// Why hosts cannot be asked.
    failed: Mutex<Option<Refused>>,
}

impl Asking<'_> {
    fn ask_all(&self, names: &[Vec<u8>], answers: &[AtomicBool]) {
        while let Some((name, answer)) = self.take(names, answers) {
            match self.ask_until_answered(name) {
                Ok(answers) => answer.store(answers, Ordering::Relaxed),
                Err(refused) => {
                    self.stops.store(true, Ordering::Relaxed);
                    *self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(refused);
                }
            }
        }
    }

    fn take<'n>(
        &self,
        names: &'n [Vec<u8>],
        answers: &'n [AtomicBool],
    ) -> Option<(&'n [u8], &'n AtomicBool)> {
        if self.stops.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        Some((names.get(index)?, answers.get(index)?))
    }

    fn ask_until_answered(&self, name: &[u8]) -> Result<bool, Refused> {
        for _ in 0..ASKS {
            if self.ask(name)? {
                return Ok(true);
            }
            if self.stops.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(false)
    }

    fn ask(&self, name: &[u8]) -> Result<bool, Refused> {
        let asking = self.hosts.asking(name, self.place)?;
        let mut command = command(&asking.words);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| super::child::not_started(&asking.words, &error))?;
        if let Some(answers) = self.wait(&mut child, PATIENCE) {
            return Ok(answers);
        }
        // It ends what it has started.
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        self.wait(&mut child, END);
        let _ = child.kill();
        let _ = child.wait();
        Ok(false)
    }

    /// Whether a process has ended well. None: it has not ended.
    fn wait(&self, child: &mut Child, time: Duration) -> Option<bool> {
        let began = Instant::now();
        while began.elapsed() < time {
            match child.try_wait() {
                Ok(Some(status)) => return Some(status.success()),
                Ok(None) if !self.stops.load(Ordering::Relaxed) || time == END => std::thread::sleep(LOOK),
                _ => return None,
            }
        }
        None
    }
}
