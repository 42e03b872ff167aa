//! A session of some ranks within the session of all: each rank works with the others of its group for a while, as if there were no more, and all
//! meet again afterwards. It forms no groups.
//!
//! ```text
//!   session of all:    agree ──▶ within ─────────────────────▶ reduce ──▶ close
//!   of ranks 0 1 2 :              join ▶ run ▶ close
//!   of ranks 3 4   :              join ▶ run ▶ close
//! ```
//!
//! Messages of the inner session have a byte of their own in front and take the same way, so that what concerns all still arrives: a request to end,
//! output for the first rank of all, a rank that cannot continue.

use std::time::Duration;

use atta_engine::{Rank, Way};
use atta_fabric::{Endpoint, FabricError, Received, Wake};

use super::error::RankError;
use super::link::{Link, WITHIN};
use super::session::{Seat, Session};
use super::wait::Limits;

/// What calls of an inner session fail with. The session of all has the reason.
const ABORTED: i32 = 4;

/// The endpoint of an inner session.
struct Within<'l, 'e> {
    link: &'l mut Link<'e>,
    /// Its ranks, by their numbers in it.
    members: Vec<u32>,
    rank: u32,
    /// Those on this host, as numbers in it.
    neighbours: Vec<u32>,
    /// The interval between two signs of life for the others.
    period: Duration,
    /// Why the session of all cannot continue.
    error: Option<RankError>,
}

impl<'l, 'e> Within<'l, 'e> {
    /// None: this rank is not one of the members.
    fn new(link: &'l mut Link<'e>, members: &[u32], period: Duration) -> Option<Self> {
        let at = |rank: &u32| members.binary_search(rank).ok().map(|at| at as u32);
        let rank = at(&link.rank())?;
        let neighbours = link.neighbours().iter().filter_map(at).collect();
        Some(Self { link, members: members.to_vec(), rank, neighbours, period, error: None })
    }

    /// Takes arrivals in, and does what the session of all does while its ranks are at work.
    fn attend(&mut self) -> Result<(), RankError> {
        while self.link.arrive()? {}
        self.link.serve()?;
        self.link.send_alive(true, self.period)?;
        self.link.failure().map_or(Ok(()), Err)
    }

    /// Keeps an error of the session of all that is none of the fabric.
    fn or_end<T>(&mut self, done: Result<T, RankError>) -> Result<T, FabricError> {
        done.map_err(|error| match error {
            RankError::Fabric(error) => error,
            error => {
                self.error.get_or_insert(error);
                FabricError::Aborted { exit_code: ABORTED }
            }
        })
    }
}

impl Endpoint for Within<'_, '_> {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.members.len() as u32
    }

    fn neighbours(&self) -> &[u32] {
        &self.neighbours
    }

    fn send(&mut self, to: u32, message: Vec<u8>) -> Result<(), FabricError> {
        let size = self.size();
        let Some(&rank) = self.members.get(to as usize) else {
            return Err(FabricError::NoSuchRank { rank: to, size });
        };
        let sent = self.link.send(rank, [&[WITHIN][..], &message].concat());
        self.or_end(sent)
    }

    fn receive(&mut self) -> Result<Option<Received>, FabricError> {
        let attended = self.attend();
        self.or_end(attended)?;
        while let Some(Received { from, message }) = self.link.inner.pop_front() {
            // A message of another group would have come to the wrong rank.
            if let Ok(at) = self.members.binary_search(&from) {
                return Ok(Some(Received { from: at as u32, message }));
            }
        }
        Ok(None)
    }

    fn on_arrival(&mut self, wake: Wake) -> bool {
        self.link.on_arrival(wake)
    }

    fn unsent(&mut self) -> Result<usize, FabricError> {
        let attended = self.attend();
        self.or_end(attended)?;
        let unsent = self.link.unsent_of_fabric();
        self.or_end(unsent)
    }

    fn survives(&self) -> bool {
        self.link.survives
    }

    /// Members alone: where others have died, the session of all finds out afterwards.
    fn lost(&mut self) -> Result<Vec<u32>, FabricError> {
        let lost = self.link.lost();
        let lost = self.or_end(lost)?;
        let at = |rank: u32| self.members.binary_search(&rank).ok().map(|at| at as u32);
        Ok(lost.into_iter().filter_map(at).collect())
    }

    /// Nothing: the ranks stay in the session of all.
    fn leave(self: Box<Self>) -> Result<(), FabricError> {
        Ok(())
    }

    fn abort(&mut self, exit_code: i32) {
        self.link.abort(exit_code);
    }
}

impl Session<'_> {
    /// The ranks on the host of this one, ascending, including this one.
    #[must_use]
    pub fn neighbours(&self) -> &[u32] {
        self.meeting.link.neighbours()
    }

    /// Runs a part in a session of some ranks, as if there were no others. `members` are all ranks of this rank's group, ascending and including
    /// this one; no rank is in two groups. All ranks call this together, and meet again ([`all_reduce`](Self::all_reduce)) before they call it
    /// again. Meanwhile a request to end reaches all groups, and the first rank of all still takes output of this session's
    /// [`outbox`](Self::outbox). The inner session has this one's schedule and does not go on when one of its ranks dies.
    ///
    /// # Errors
    /// What the part returns, with ranks numbered as in this session; or why this session cannot continue.
    ///
    /// # Panics
    /// A panic of the part is passed on.
    pub fn within<T: Send>(
        &mut self,
        members: &[u32],
        part: impl FnOnce(&mut Session<'_>) -> Result<T, RankError> + Send,
    ) -> Result<T, RankError> {
        let (stop, schedule) = (self.stop(), self.schedule);
        if members == [self.seat.rank] {
            let cores = self.seat.cores;
            return self.beside(|| {
                let mut alone = Session::alone(stop);
                alone.seat = Seat { cores, ..alone.seat };
                part(&mut alone)
            })?;
        }
        // Ranks would be named by their numbers in the inner session.
        let limits = Limits { waiting: |_| {}, ..self.meeting.limits };
        let none = RankError::Stuck("a rank is not in its own group");
        let Some(mut endpoint) = Within::new(&mut self.meeting.link, members, limits.period()) else {
            return Err(none);
        };
        let done = Session::join(&mut endpoint, "within", stop, limits).and_then(|joined| {
            let joined = joined.map_err(|_| RankError::Stuck("ranks run different programs"))?;
            let mut inner = joined.with_schedule(schedule);
            inner.way = Way::Ends;
            part(&mut inner).inspect_err(|error| inner.report_end(error))
        });
        let error = endpoint.error.take();
        self.meeting.link.ring_on_arrival();
        match error {
            Some(error) => Err(error),
            None => done.map_err(|error| numbered(error, members)),
        }
    }

    /// Reports to the first rank of an inner session that this one cannot continue.
    fn report_end(&mut self, error: &RankError) {
        if !self.is_first() && !error.goes_on_elsewhere() {
            // The session of all reports it, too.
            let _ = self.meeting.link.fail(&error.to_string());
        }
    }
}

/// An error of an inner session with the numbers of the session of all.
fn numbered(error: RankError, members: &[u32]) -> RankError {
    let number = |rank: u32| members.get(rank as usize).copied().unwrap_or(rank);
    let all = |ranks: Vec<u32>| ranks.into_iter().map(number).collect();
    match error {
        RankError::Wire { from, error } => RankError::Wire { from: Rank(number(from.0)), error },
        RankError::Tasks { from, why } => RankError::Tasks { from: Rank(number(from.0)), why },
        RankError::Failed { rank, why } => RankError::Failed { rank: number(rank), why },
        RankError::Lost { ranks } => RankError::Lost { ranks: all(ranks) },
        RankError::Silent { ranks } => RankError::Silent { ranks: all(ranks) },
        error => error,
    }
}

#[cfg(test)]
mod tests;
