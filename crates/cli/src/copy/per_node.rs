//! `atta copy --per-node`: the ranks of each node copy that node's SOURCEs into TARGET/NODE, as if there were no others; then all meet again, and the
//! first rank reports what all nodes have done.
//!
//! ```text
//!   all:        nodes have names of their own?  TARGET is one directory?
//!   each node:  make TARGET/NODE, copy            (failures go to the first rank of all)
//!   all:        what nodes have come to goes to the first rank
//! ```
//!
//! `run.rs` copies. No log is kept: a launch has one job at most, and these copies end by themselves.

pub(crate) mod node;
mod on_node;
mod target;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use atta_entry::escape;
use atta_ops::copy::is_there;
use atta_runtime::{RankError, Session, named};

use node::NodeEnd;
pub(super) use on_node::OnNode;

use super::arguments::CopyArguments;
use super::end::{Ended, conclude};
use super::part::Part;
use super::run::{self, FromOthers};
use super::setting::refuse;
use super::summary::Whole;
use crate::arguments::ProgressWhen;
use crate::run::failures::Failures;
use crate::run::file::{describe, printable};
use crate::run::going;
use crate::run::messages::{complain, exit, hint, on_node};
use crate::run::refused::Refused;
use crate::run::signals::Signals;

/// Copies as one rank of all nodes; returns the exit code. The command's exit code is that of the first rank.
pub(super) fn run(
    arguments: &CopyArguments,
    signals: &Signals,
    session: &mut Session<'_>,
) -> Result<u8, RankError> {
    going::keeps_no_log(session)?;
    let begun = session.is_first().then(|| begin(arguments).map_err(Refused::report));
    let code = begun.as_ref().map(|begun| begun.as_ref().err().copied().unwrap_or(exit::DONE));
    let decided = session.broadcast(code)?;
    if decided != exit::DONE {
        return Ok(code.unwrap_or(exit::DONE));
    }
    let members = session.neighbours().to_vec();
    let name = match name_of_node(&members, session)? {
        Ok(name) => name,
        Err(code) => return Ok(code),
    };
    if let Err(code) = target::check(arguments, session)? {
        return Ok(code);
    }
    let failures = begun.and_then(Result::ok).unwrap_or_else(|| Failures::Root(session.outbox()));
    let on = OnNode::new(name, members, &failures);
    let from = FromOthers::new(&failures, None);
    let own = arguments_of(arguments, &on, session);
    let receive = |_, stream, bytes: &[u8]| from.take_in(stream, bytes);
    let closed = session.receiving(receive, |session| {
        let copy = |inner: &mut Session<'_>| copy_here(&own, signals, &on, inner);
        let (code, error) = on_node(on.name(), || session.within(on.members(), copy));
        let is_first = on.members().first() == Some(&session.seat().rank);
        let own = code.map(|code| Vec::from_iter(is_first.then(|| on.come_to(code, error))))?;
        session.close(own, Vec::extend)
    });
    let closed = closed.inspect_err(|_| {
        if let Err(fatal) = failures.flush() {
            fatal.report();
        }
    });
    let Some(nodes) = closed? else { return Ok(exit::DONE) };
    Ok(report(arguments, (&failures, &from), nodes))
}

/// On the first rank: refuses what makes no sense, and opens the file of errors.
fn begin(arguments: &CopyArguments) -> Result<Failures, Refused> {
    const NO_JOB: &str = "each node's copy has an end of its own; --update skips what a killed copy has done";
    const ONE_TREE: &str = "it is of one SOURCE tree; leave --per-node out, or the other option";
    let refused = [
        (arguments.job.is_some(), "--job", NO_JOB),
        (arguments.restart, "--restart", NO_JOB),
        (arguments.from_list.is_some(), "--from-list", ONE_TREE),
        (arguments.repair.is_some(), "--repair", ONE_TREE),
        (arguments.dry_run, "--dry-run", ONE_TREE),
        (arguments.manifest.is_some(), "--manifest", "'atta sum TARGET' makes one afterwards"),
        (arguments.events.is_some(), "--events", "nodes have no common progress; leave it out"),
        (
            arguments.report.progress == ProgressWhen::Always,
            "--progress always",
            "nodes have no common progress",
        ),
        (
            arguments.no_target_directory,
            "-T",
            "TARGET has a directory for each node; SOURCE/. copies the contents of SOURCE",
        ),
    ];
    if let Some((_, option, hint)) = refused.into_iter().find(|(is_given, ..)| *is_given) {
        return Err(Refused::usage(format!("--per-node with {option}"), hint));
    }
    refuse(arguments)?;
    arguments.keep.keep()?;
    Failures::new(arguments.report.verbose, arguments.report.errors.as_deref(), None)
}

/// The name of this rank's node, which no other node has. Otherwise the exit code.
fn name_of_node(members: &[u32], session: &mut Session<'_>) -> Result<Result<String, u8>, RankError> {
    let (name, first) = (atta_ops::resume::host(), members.first().copied().unwrap_or_default());
    let own = (first == session.seat().rank).then(|| (name.clone(), vec![first]));
    let names = session.all_reduce(BTreeMap::from_iter(own), |names, more| {
        more.into_iter().for_each(|(name, ranks)| names.entry(name).or_default().extend(ranks));
    })?;
    let unusable = |name: &str| matches!(name, "" | "." | "..") || name.contains('/');
    let wrong = names.iter().find_map(|(name, ranks)| match ranks.as_slice() {
        [_] if unusable(name) => {
            Some(format!("a directory cannot have the name of a node: {}", escape(name.as_bytes())))
        }
        [_] => None,
        ranks => Some(format!("{} are on nodes of one name: {}", named(ranks), escape(name.as_bytes()))),
    });
    let Some(wrong) = wrong else { return Ok(Ok(name)) };
    if !session.is_first() {
        return Ok(Err(exit::DONE));
    }
    complain(&wrong, Some("each node needs a host name of its own, which becomes a directory in TARGET"));
    Ok(Err(exit::FATAL))
}

/// The arguments of this node's copy. It gets its part of what is limited for all ranks.
fn arguments_of(arguments: &CopyArguments, on: &OnNode, session: &Session<'_>) -> CopyArguments {
    let (here, all) = (on.members().len() as u64, u64::from(session.seat().ranks));
    let part = |limit: u64| (limit.saturating_mul(here) / all).max(1);
    let mut own = arguments.clone();
    if let Some(target) = own.paths.last_mut() {
        *target = Path::new(&*target).join(on.name()).into_os_string();
    }
    own.bandwidth = own.bandwidth.map(part);
    own.effort.iops = own.effort.iops.map(|iops| u32::try_from(part(iops.into())).unwrap_or(iops));
    (own.no_job, own.report.verbose) = (true, false);
    own.report.progress = ProgressWhen::Never;
    own
}

/// Copies on one node, as one of its ranks.
fn copy_here(
    arguments: &CopyArguments,
    signals: &Signals,
    on: &OnNode,
    inner: &mut Session<'_>,
) -> Result<u8, RankError> {
    let (sources, target) = sides(&arguments.paths);
    let made = inner.is_first().then(|| target::make(&target));
    let code = made.map(|made| made.map_or_else(Refused::report, |()| exit::DONE));
    let decided = inner.broadcast(code)?;
    if decided != exit::DONE {
        return Ok(decided);
    }
    let code = run::run(arguments, &signals.with_others(), Some(on), inner)?;
    if inner.is_first() && !sources.iter().any(|source| is_there(source.as_bytes())) {
        // Nothing was copied. A directory that an earlier copy has filled stays.
        let _ = rustix::fs::rmdir(&target);
    }
    Ok(code)
}

fn sides(paths: &[OsString]) -> (&[OsString], PathBuf) {
    paths.split_last().map_or((&[], PathBuf::new()), |(target, sources)| (sources, PathBuf::from(target)))
}

/// On the first rank: reports what all nodes have come to; returns the exit code, which is the worst of them.
fn report(
    arguments: &CopyArguments,
    (failures, from): (&Failures, &FromOthers<'_>),
    mut ends: Vec<(NodeEnd, Option<Part>)>,
) -> u8 {
    ends.sort_by(|(one, _), (other, _)| one.ranks.cmp(&other.ranks));
    let (nodes, parts): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let worst = nodes.iter().map(|node| node.code).max().unwrap_or(exit::DONE);
    let part = parts.into_iter().flatten().reduce(|mut all, more| {
        all.merge(more);
        all
    });
    let interrupted = part.as_ref().map(|part| part.interrupted).filter(|code| *code > 0);
    let left: Vec<_> = nodes.iter().filter_map(|node| node.left.clone()).collect();
    // Trees of several nodes have no common signature.
    let whole = part.map(Part::whole).unwrap_or_default();
    let whole = Whole { signature: None, nodes, ..whole };
    let ended = Ended { outcome: &whole, interrupted, fatal: from.damaged(), job: None, is_over: false };
    let code = conclude(arguments, failures, ended);
    if !arguments.report.quiet {
        left.iter().for_each(|command| hint(&format!("remove what is left with: {command}")));
    }
    code.max(worst)
}

/// Why a directory cannot be made.
fn cannot_make(path: &Path, error: &std::io::Error) -> Refused {
    Refused::fatal(format!("cannot make directory: {}: {}", printable(path), describe(error)))
}
