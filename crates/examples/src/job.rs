//! The ranks of an example: threads of this process, or the processes that an MPI launcher started. It also has the error with which an example ends.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use atta_code::Code;
use atta_fabric::{Endpoint, InProcess, in_process};
use atta_mpi_loader::{Mpi, launcher, open};
use atta_runtime::{Limits, Session, Stop};

/// Why an example ends with exit code 1. It is printed as it is.
pub struct Failure(String);

impl Failure {
    /// An error of the example itself.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Compares a result with what it must be.
///
/// # Errors
/// They differ.
pub fn expect<T: PartialEq + fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: {found:?}, expected {expected:?}")))
}

/// Where ranks come from.
#[derive(Debug)]
pub enum Fabric {
    /// Threads of this process.
    Threads,
    /// Processes under MPI, one rank each.
    Mpi(Box<Mpi>),
}

impl Fabric {
    /// The ranks of the launcher that started this process; threads if none did.
    ///
    /// # Errors
    /// There is a launcher, but its ranks cannot be joined.
    pub fn find() -> Result<Self, Failure> {
        let Some(launcher) = launcher() else { return Ok(Self::Threads) };
        Ok(Self::Mpi(Box::new(open()?.begin(&launcher)?)))
    }

    /// How many ranks to run with, one run after the other: these numbers of threads, or the number that the launcher has started.
    #[must_use]
    pub fn sizes(&self, of_threads: &[u32]) -> Vec<u32> {
        match self {
            Self::Threads => of_threads.to_vec(),
            Self::Mpi(mpi) => vec![mpi.size()],
        }
    }

    /// Runs something on all ranks. Returns the result of rank 0; under MPI, that of this rank.
    ///
    /// # Errors
    /// The first error of a rank. All ranks end then.
    pub fn run<T: Send>(
        &mut self,
        ranks: u32,
        work: impl Fn(&mut dyn Endpoint) -> Result<T, Failure> + Sync,
    ) -> Result<T, Failure> {
        match self {
            Self::Threads => on_threads(ranks, work),
            Self::Mpi(mpi) => work(&mut **mpi).inspect_err(|_| mpi.abort(1)),
        }
    }

    /// Runs something on exactly so many ranks, and prints the text of rank 0: the whole of an example whose hosts are made for that number.
    ///
    /// # Errors
    /// The launcher has started another number of ranks; else as [`run`](Self::run).
    #[expect(clippy::print_stdout, reason = "of a program for a terminal")]
    pub fn print_of(
        ranks: u32,
        work: impl Fn(&mut dyn Endpoint) -> Result<Option<String>, Failure> + Sync,
    ) -> Result<(), Failure> {
        let mut fabric = Self::find()?;
        expect(
            &format!("ranks (the mount tables are made for {ranks})"),
            &fabric.sizes(&[ranks]),
            &vec![ranks],
        )?;
        if let Some(text) = fabric.run(ranks, work)? {
            println!("{text}");
        }
        fabric.leave()
    }

    /// Leaves MPI, after the last run.
    ///
    /// # Errors
    /// MPI cannot be left.
    pub fn leave(self) -> Result<(), Failure> {
        match self {
            Self::Threads => Ok(()),
            Self::Mpi(mpi) => Ok(mpi.leave()?),
        }
    }
}

fn on_threads<T: Send>(
    ranks: u32,
    work: impl Fn(&mut dyn Endpoint) -> Result<T, Failure> + Sync,
) -> Result<T, Failure> {
    // The first in time: the errors of other ranks follow from it.
    let cause = Mutex::new(None);
    let run = |mut endpoint: InProcess| {
        let ended = catch_unwind(AssertUnwindSafe(|| work(&mut endpoint)));
        match ended {
            Ok(Ok(value)) => return Some(value),
            Ok(Err(failure)) => {
                cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                endpoint.abort(1);
            }
            Err(panic) => {
                // The others would wait for this rank.
                endpoint.abort(1);
                resume_unwind(panic)
            }
        }
        None
    };
    let run = &run;
    let ended: Vec<Option<T>> = std::thread::scope(|scope| {
        let one = |endpoint| scope.spawn(move || run(endpoint));
        let threads: Vec<_> = in_process(ranks).into_iter().map(one).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    if let Some(cause) = cause.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(cause);
    }
    ended.into_iter().next().flatten().ok_or_else(|| Failure::new("there are no ranks"))
}

/// Joins the ranks of an endpoint.
///
/// # Errors
/// The ranks cannot communicate, or run different programs.
pub fn join<'e>(endpoint: &'e mut dyn Endpoint, program: &str) -> Result<Session<'e>, Failure> {
    Session::join(endpoint, program, Stop::new(), Limits::default())?
        .map_err(|_| Failure::new("ranks run different programs"))
}

/// A value of each rank, in the order of ranks, on all ranks.
///
/// # Errors
/// The ranks cannot communicate.
pub fn shared<T: Code>(session: &mut Session<'_>, own: T) -> Result<Vec<T>, Failure> {
    let own: BTreeMap<u32, T> = [(session.seat().rank, own)].into();
    let all = session.all_reduce(own, BTreeMap::extend)?;
    Ok(all.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_rank_ends_all_and_is_reported() {
        let ended = Fabric::Threads.run(5, |endpoint| {
            let rank = endpoint.rank();
            let mut session = join(endpoint, "test")?;
            expect("rank", &(rank == 3), &false)?;
            shared(&mut session, rank)
        });
        assert_eq!(format!("{ended:?}"), "Err(rank: true, expected false)");
    }

    #[test]
    fn values_of_ranks_are_in_their_order() {
        let ended = Fabric::Threads.run(5, |endpoint| {
            let rank = endpoint.rank();
            let mut session = join(endpoint, "test")?;
            let all = shared(&mut session, rank * 2)?;
            session.close((), |(), ()| ())?;
            Ok(all)
        });
        assert_eq!(ended.ok(), Some(vec![0, 2, 4, 6, 8]));
    }
}
