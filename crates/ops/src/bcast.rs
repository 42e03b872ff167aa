//! One file to the same path on every node. Ranks whose TARGET is in one directory are a node: the lowest of them writes. The file is read once
//! for each source that ranks see, and passed on from writer to writer (`atta_status::Sources`). It prints nothing.
//!
//! ```text
//!   look at FILE and TARGET ─▶ who writes ─▶ is TARGET there, is there room ─▶ partial files ─▶ read and pass on ─▶ one digest? ─▶ rename
//!                                 agree                agree                 agree                            agree          agree
//! ```
//!
//! At each *agree* all ranks learn what the others have found. A rank that fails goes on without a file, and its failure is a row of the result.
//!
//! ```text
//!   place.rs     where the file goes on this rank, and whether it can      rows.rs       what ranks tell each other
//!   nodes.rs     who reads and who writes                                  shared.rs     nodes that turn out to be one
//!   partial.rs   the file under its temporary name
//! ```

#[cfg(test)]
pub(crate) mod fuzz;
mod nodes;
mod partial;
mod place;
mod rows;
mod shared;

use std::collections::BTreeMap;

use atta_entry::{Errno, escape};
use atta_mounts::{MountTable, SystemProbes};
use atta_runtime::{RankError, Session};
use atta_status::{Digest, Facts, Ranks, ReadError, Received};
use atta_sys::Features;

use nodes::{Nodes, cannot, refused_difference, refused_existing};
use partial::{Partial, Setting, Sink};
use place::Place;
use rows::{Checked, Done, Ended, Here};

pub use rows::Failed;

pub use crate::refused::Refused;

/// How a file is sent.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Replaces what has the name of the copy.
    pub force: bool,
    /// Makes copies durable before they get their names, where the file system is on storage.
    pub syncs: bool,
}

/// What all ranks know at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes of the file.
    pub size: u64,
    /// Its BLAKE3 digest; none: no node has got it.
    pub digest: Option<Digest>,
    /// The ranks that have read it, each from another source, ascending.
    pub readers: Vec<u32>,
    /// Nodes that have a new copy.
    pub written: u64,
    /// Nodes whose TARGET is FILE itself.
    pub unchanged: u64,
    /// Nodes that turned out to have their TARGET in the directory of another one, which wrote it.
    pub shared: u64,
    /// Nodes without a copy, by rank.
    pub failed: Vec<Failed>,
    /// It was asked to end, and no node has a copy.
    pub stopped: bool,
}

/// A refusal is the same on all ranks.
pub type Refusable<T> = Result<T, Refused>;

/// Sends FILE to TARGET on every node, by the mount table of this process. See [`run_with`].
///
/// # Errors
/// As [`run_with`].
pub fn run(
    session: &mut Session<'_>,
    paths: (&[u8], &[u8]),
    options: Options,
) -> Result<Refusable<Outcome>, RankError> {
    let here = Here::new(session.seat().rank);
    let read = SystemProbes::new().map_err(|errno| errno.to_string());
    let read = read.and_then(|probes| MountTable::read(&probes).map_err(|error| error.to_string()));
    let failed: Vec<Failed> = read.as_ref().err().map(|why| here.failed(why.clone())).into_iter().collect();
    let mut failed = session.all_reduce(failed, |all: &mut Vec<Failed>, more| all.extend(more))?;
    failed.sort();
    match (read, failed.first()) {
        (Ok(table), None) => run_with(session, paths, options, &table),
        (_, first) => {
            let (host, why) =
                first.map_or_else(Default::default, |first| (first.host.clone(), first.reason.clone()));
            Ok(Err(cannot(format!("cannot read the mount table of {host}: {why}"))))
        }
    }
}

/// Sends FILE to TARGET on every node. All ranks call this together, with the same paths and options, each with its own mount table. If TARGET is
/// a directory, the copy has the name of FILE in it.
///
/// The inner error is why nothing was written on any node. A node that cannot get its copy is no error: the others finish.
///
/// # Errors
/// The ranks cannot communicate. What this rank has written without its final name is removed.
pub fn run_with(
    session: &mut Session<'_>,
    (file, target): (&[u8], &[u8]),
    options: Options,
    table: &MountTable,
) -> Result<Refusable<Outcome>, RankError> {
    let place = Place::find(file, target);
    let nodes = match Nodes::find(session, (file, target), &place, table)? {
        Ok(nodes) => nodes,
        Err(refused) => return Ok(Err(refused)),
    };
    let (here, place, outcome) = (Here::new(nodes.rank), place.ok(), Outcome::default());
    let mut bcast = Bcast { session, options, here, file, place, nodes, outcome };
    match bcast.check()? {
        Ok(()) => bcast.send(),
        Err(refused) => Ok(Err(refused)),
    }
}

/// The command on one rank.
struct Bcast<'s, 'e, 't> {
    session: &'s mut Session<'e>,
    options: Options,
    here: Here,
    file: &'s [u8],
    /// Of a rank that can write.
    place: Option<Place>,
    nodes: Nodes<'t>,
    outcome: Outcome,
}

impl Bcast<'_, '_, '_> {
    fn is_writer(&self) -> bool {
        self.nodes.writers.contains(&self.nodes.rank)
    }

    /// Looks whether TARGET exists and has room, on all nodes, before anything is written.
    fn check(&mut self) -> Result<Refusable<()>, RankError> {
        let own = self.place.as_ref().filter(|_| self.is_writer()).map(|place| {
            let facts = self.nodes.sources.own().and_then(|(_, look)| look.ok()).unwrap_or_default();
            (self.nodes.rank, place.check(self.file, &facts, self.options.force, &self.here))
        });
        let own: BTreeMap<u32, Checked> = own.into_iter().collect();
        let all = self.session.all_reduce(own, BTreeMap::extend)?;
        let existing: Vec<&String> = all
            .values()
            .filter_map(|checked| match checked {
                Checked::Exists(host) => Some(host),
                _ => None,
            })
            .collect();
        if !existing.is_empty() {
            return Ok(Err(refused_existing(&existing)));
        }
        self.outcome.failed.append(&mut self.nodes.failed);
        for (rank, checked) in all {
            match checked {
                Checked::Writes => continue,
                Checked::Itself => self.outcome.unchanged += 1,
                Checked::Exists(_) => {}
                Checked::Failed(failed) => self.outcome.failed.push(failed),
            }
            self.nodes.writers.remove(&rank);
        }
        Ok(Ok(()))
    }

    fn send(mut self) -> Result<Refusable<Outcome>, RankError> {
        let mut partial = self.begin()?;
        self.find_shared(&mut partial)?;
        let mut writers = Ranks::default();
        self.nodes.writers.iter().for_each(|rank| writers.add(&Ranks::of(*rank)));
        let facts = self.nodes.sources.own().and_then(|(_, look)| look.ok()).unwrap_or_default();
        let mut sink = partial.as_mut().map(Partial::sink);
        let read = self.nodes.sources.read(self.session, &writers, |bytes| {
            if let Some(sink) = &mut sink {
                sink.write(bytes);
            }
        })?;
        let failed = sink.and_then(Sink::error);
        let done = self.complete(read, partial.as_mut(), &facts, failed)?;
        let all = self.session.all_reduce(done.0, Done::merge)?;
        self.outcome.failed.extend(all.failed);
        self.outcome.stopped = all.stopped;
        if let [one, other, ..] = &all.digests[..] {
            return Ok(Err(refused_difference(self.file, one.1, other.1)));
        }
        let partial = partial.filter(|_| done.1.is_some() && !all.stopped);
        self.publish(partial, done.1)
    }

    /// Makes a partial file on each writer. All ranks learn which could.
    fn begin(&mut self) -> Result<Option<Partial>, RankError> {
        let setting =
            Setting { job: self.session.seat().job, rank: self.nodes.rank, features: Features::default() };
        let made =
            self.place.as_ref().filter(|_| self.is_writer()).map(|place| Partial::begin(place, &setting));
        let failed =
            made.as_ref().and_then(|made| made.as_ref().err()).map(|reason| self.here.failed(reason.clone()));
        let failed: Vec<Failed> = self
            .session
            .all_reduce(failed.into_iter().collect(), |all: &mut Vec<Failed>, more| all.extend(more))?;
        self.nodes.writers.retain(|rank| failed.iter().all(|failed| failed.rank != *rank));
        self.outcome.failed.extend(failed);
        Ok(made.and_then(Result::ok))
    }

    /// Finds writers whose directory is that of another one, and takes their partial files back.
    fn find_shared(&mut self, partial: &mut Option<Partial>) -> Result<(), RankError> {
        let doubtful = shared::doubtful(&self.nodes.groups, &self.nodes.writers);
        if doubtful.len() < 2 {
            return Ok(());
        }
        let own = partial.as_ref().filter(|partial| doubtful.contains(&partial.rank()));
        let lower = own.and_then(|own| shared::lowest_seen(own, &doubtful));
        let own: Vec<u32> = lower.map(|_| self.nodes.rank).into_iter().collect();
        // Until all have looked, each keeps its partial file.
        let joined = self.session.all_reduce(own, |all: &mut Vec<u32>, more| all.extend(more))?;
        self.outcome.shared += joined.len() as u64;
        self.nodes.writers.retain(|rank| !joined.contains(rank));
        if joined.contains(&self.nodes.rank) {
            *partial = None;
        }
        Ok(())
    }

    /// Gives a file that has come its attributes, and makes it durable.
    fn complete(
        &mut self,
        read: Option<Result<Received, ReadError>>,
        partial: Option<&mut Partial>,
        facts: &Facts,
        failed: Option<String>,
    ) -> Result<(Done, Option<Received>), RankError> {
        let mut done = Done { stopped: self.session.stop().is_set(), ..Done::default() };
        let (Some(read), Some(partial)) = (read, partial) else { return Ok((done, None)) };
        let whole = match (read, failed) {
            (Err(ReadError::Unreadable { errno: Errno::INTR, .. }), _) => {
                done.stopped = true;
                return Ok((done, None));
            }
            (Err(error), _) => Err(format!("{}: {error}", escape(self.file))),
            (Ok(_), Some(failed)) => Err(failed),
            (Ok(received), None) => {
                let syncs = self.options.syncs;
                let (partial, facts) = (&mut *partial, facts);
                self.session
                    .beside(move || partial.complete(received.size, facts, syncs).map(|()| received))?
            }
        };
        Ok(match whole {
            Ok(received) => {
                done.digests.push((received.digest, received.reader));
                (done, Some(received))
            }
            Err(reason) => {
                done.failed.push(self.here.failed(reason));
                (done, None)
            }
        })
    }

    /// Gives the copy its name.
    fn publish(
        self,
        partial: Option<Partial>,
        received: Option<Received>,
    ) -> Result<Refusable<Outcome>, RankError> {
        let mut own = Ended::default();
        if let Some((partial, received)) = partial.zip(received) {
            match partial.publish(self.options.force, self.options.syncs) {
                Ok(()) => own = Ended::of(&received),
                Err(reason) => own.failed.push(self.here.failed(reason)),
            }
        }
        let Ended { written, readers, file, failed } = self.session.all_reduce(own, Ended::merge)?;
        let mut outcome = self.outcome;
        outcome.written = written;
        outcome.readers = readers;
        (outcome.size, outcome.digest) = file.map_or((0, None), |(size, digest)| (size, Some(digest)));
        outcome.failed.extend(failed);
        outcome.failed.sort();
        Ok(Ok(outcome))
    }
}
