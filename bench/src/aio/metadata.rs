//! Metadata (table 4.4 of the thesis): eight operations, one at a time beside plain calls, and many at a time beside threads.
//! What an operation costs that waits for a disk is not here: nothing is made durable.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use atta_aio::driver::ring::{Ring, RingOptions};
use atta_aio::{Call, Fd, Limits, Op, Outcome, Place as Where, Proactor, Service, Terms, Work, perform};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};

use super::block_on::block_on;
use super::place::Place;
use super::port::{service, tokio_runtime};
use super::posix::zeroed_statx;
use super::{BenchResult, Case, Scale};
use crate::sheet::{Goal, Sheet, mean_and_interval, number, quantile};
use crate::statistics::median_ratio;
use crate::turns::{Contender, Outcome as Run, hold};

/// Operations that run at a time in the second part.
const DEPTH: usize = 64;
/// Threads of plain calls that they are compared with.
const THREADS: usize = 16;
/// Longer than what clients of servers remember of a name (1 s): else it is luck whether an action asks the servers for it.
const FORGOTTEN: Duration = Duration::from_millis(1300);

/// What is done, in this order, to each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Create,
    Close,
    Open,
    Truncate,
    Stat,
    CloseAgain,
    Remove,
    MakeDirectory,
    RemoveDirectory,
}

use Action::{Close, CloseAgain, Create, MakeDirectory, Open, Remove, RemoveDirectory, Stat, Truncate};

const ACTIONS: [Action; 9] =
    [Create, Close, Open, Truncate, Stat, CloseAgain, Remove, MakeDirectory, RemoveDirectory];

impl Action {
    fn name(self) -> &'static str {
        match self {
            Create => "create",
            Close => "close",
            Open => "open",
            Truncate => "truncate",
            Stat => "stat",
            CloseAgain => "close again",
            Remove => "remove",
            MakeDirectory => "mkdir",
            RemoveDirectory => "rmdir",
        }
    }

    fn op(self, directory: RawFd, name: CString, fd: RawFd) -> Op {
        let place = Where::at(Fd::Raw(directory), name);
        match self {
            Create => Op::Open { place, flags: libc::O_CREAT | libc::O_EXCL | libc::O_RDWR, mode: 0o600 },
            Open => Op::Open { place, flags: libc::O_RDWR, mode: 0 },
            Close | CloseAgain => Op::Close { fd },
            Truncate => Op::Truncate { fd: Fd::Raw(fd), bytes: 4096 },
            Stat => Op::Stat { place, flags: 0, mask: libc::STATX_BASIC_STATS, out: zeroed_statx() },
            Remove => Op::Unlink { place, flags: 0 },
            MakeDirectory => Op::MakeDirectory { place, mode: 0o700 },
            RemoveDirectory => Op::Unlink { place, flags: libc::AT_REMOVEDIR },
        }
    }
}

/// The action by a plain call. What a new descriptor is, is the result.
#[expect(unsafe_code, reason = "a descriptor that this program has opened and nobody else closes")]
fn plain(action: Action, directory: &File, name: &CString, fd: RawFd) -> Outcome {
    let read_write = OFlags::RDWR;
    let opened = |fd: OwnedFd| u64::try_from(fd.into_raw_fd()).unwrap_or_default();
    let returned = match action {
        Create => {
            let flags = read_write | OFlags::CREATE | OFlags::EXCL;
            rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR).map(opened)
        }
        Open => rustix::fs::openat(directory, name, read_write, Mode::empty()).map(opened),
        Close | CloseAgain => {
            // SAFETY: the descriptor came from `Create` or `Open`, and is closed here alone.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            Ok(0)
        }
        Truncate => {
            // SAFETY: it is open until `CloseAgain`.
            let file = unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) };
            rustix::fs::ftruncate(file, 4096).map(|()| 0)
        }
        Stat => {
            let stat = rustix::fs::statx(directory, name, AtFlags::empty(), StatxFlags::BASIC_STATS);
            stat.map(|_| 0)
        }
        Remove => rustix::fs::unlinkat(directory, name, AtFlags::empty()).map(|()| 0),
        MakeDirectory => rustix::fs::mkdirat(directory, name, Mode::RWXU).map(|()| 0),
        RemoveDirectory => rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR).map(|()| 0),
    };
    returned.map_err(|error| atta_aio_errno(error.raw_os_error()))
}

fn atta_aio_errno(number: i32) -> atta_entry::Errno {
    atta_entry::Errno(number)
}

/// Somebody who carries out one action after another.
trait One {
    fn act(&mut self, action: Action, directory: &File, name: &CString, fd: RawFd) -> Outcome;
}

impl<F: FnMut(Action, &File, &CString, RawFd) -> Outcome> One for F {
    fn act(&mut self, action: Action, directory: &File, name: &CString, fd: RawFd) -> Outcome {
        self(action, directory, name, fd)
    }
}

/// Runs both parts in one place.
pub(crate) fn run(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let directory = File::open(place.root()).map_err(|error| error.to_string())?;
    (case.log)("metadata: one at a time");
    one_at_a_time(place, &directory, scale, case)?;
    (case.log)("metadata: many at a time");
    many_at_a_time(place, &directory, scale, case)
}

fn names(count: usize) -> Vec<CString> {
    let name = |number: usize| CString::new(format!("name-{number:05}")).unwrap_or_default();
    (0..count).map(name).collect()
}

fn one_at_a_time(place: &Place, directory: &File, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let names = names(if place.is_remote() { 40 } else { scale.pick_usize(400, 150) });
    let service = service(None, |_| {})?;
    let ring = Ring::new(&RingOptions::default()).map_err(|error| format!("io_uring: {error}"))?;
    let mut proactor: Proactor<Ring, ()> = Proactor::new(ring, Limits::default());
    let runtime = tokio_runtime()?;
    let shared = Arc::new(directory.try_clone().map_err(|error| error.to_string())?);
    let contenders = vec![
        Contender::new("plain calls", || times(directory, &names, &mut plain)),
        Contender::new("proactor", || {
            times(directory, &names, &mut |action: Action, directory: &File, name: &CString, fd| {
                by_proactor(&mut proactor, action.op(directory.as_raw_fd(), name.clone(), fd))
            })
        }),
        Contender::new("service, wait", || {
            times(directory, &names, &mut |action: Action, directory: &File, name: &CString, fd| {
                by_service(&service, action.op(directory.as_raw_fd(), name.clone(), fd), true)
            })
        }),
        Contender::new("service, future", || {
            times(directory, &names, &mut |action: Action, directory: &File, name: &CString, fd| {
                by_service(&service, action.op(directory.as_raw_fd(), name.clone(), fd), false)
            })
        }),
        Contender::new("tokio", || {
            times(directory, &names, &mut |action: Action, _: &File, name: &CString, fd| {
                let (shared, name) = (Arc::clone(&shared), name.clone());
                let task = runtime.spawn_blocking(move || plain(action, &shared, &name, fd));
                runtime.block_on(task).unwrap_or(Err(atta_aio_errno(libc::EIO)))
            })
        }),
    ];
    let outcomes = hold(scale.turns, contenders);
    let note = "Microseconds for one operation: the median of a round's operations, and of those the median over the \
                rounds; below, the same of the means of the rounds' operations, as the thesis has means. An operation through atta-aio includes making it (a copy of the name). Proactor and `service, \
                wait` let the waiter carry out what nobody has begun.";
    let mut sheet = Sheet::comparison(format!("Metadata one at a time, us, {}", place.kind), note);
    let mut what = ACTIONS.map(|action| action.name().to_owned()).to_vec();
    what.extend(ACTIONS.map(|action| format!("{}, mean", action.name())));
    sheet.compare(&what, &outcomes, "plain calls");
    case.sheets.push(sheet);
    if place.is_remote() {
        // A server's answers differ by more than what the library takes.
        return Ok(());
    }
    for (who, most) in [("proactor", 3.0), ("service, wait", 5.0)] {
        case.goals.extend(slower_goal(place, &outcomes, who, most));
    }
    Ok(())
}

/// Whether no operation is slower than the plain call by more than so many microseconds.
fn slower_goal(place: &Place, outcomes: &[Run], who: &str, most: f64) -> Option<Goal> {
    let of = |name: &str| outcomes.iter().find(|run| run.name == name)?.values.as_ref().ok();
    let (base, values) = (of("plain calls")?, of(who)?);
    let slower = base.iter().zip(values).zip(ACTIONS).map(|((base, values), action)| {
        let differences: Vec<f64> = base.iter().zip(values).map(|(base, value)| value - base).collect();
        (quantile(&differences, 0.5), action)
    });
    let (slowest, action) = slower.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Goal {
        goal: format!("metadata one at a time, {}: {who} at most {most} us above the plain call", place.kind),
        measured: format!("{} us at most ({})", number(slowest), action.name()),
        is_met: slowest <= most,
    })
}

/// Does all actions to all names; the median time of each action in microseconds, then the mean of each.
fn times(directory: &File, names: &[CString], one: &mut impl One) -> BenchResult<Vec<f64>> {
    let mut fds = vec![-1; names.len()];
    let (mut medians, mut means) = (Vec::new(), Vec::new());
    for action in ACTIONS {
        let mut times = Vec::with_capacity(names.len());
        for (name, fd) in names.iter().zip(&mut fds) {
            let start = Instant::now();
            let outcome = one.act(action, directory, name, *fd);
            times.push(start.elapsed().as_secs_f64() * 1e6);
            keep(action, outcome, fd)?;
        }
        medians.push(quantile(&times, 0.5));
        means.push(mean_and_interval(&times).0);
    }
    medians.append(&mut means);
    Ok(medians)
}

/// Remembers the descriptor that an action gave.
fn keep(action: Action, outcome: Outcome, fd: &mut RawFd) -> BenchResult<()> {
    let value = outcome.map_err(|errno| format!("{}: {errno:?}", action.name()))?;
    if matches!(action, Create | Open) {
        *fd = RawFd::try_from(value).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn by_proactor(proactor: &mut Proactor<Ring, ()>, op: Op) -> Outcome {
    let failed = Err(atta_aio_errno(libc::EIO));
    let Ok(handle) = proactor.submit(Work::from(op), Terms::default(), ()) else { return failed };
    let Some(((), done)) = proactor.wait_for(handle, |(), _| {}) else { return failed };
    // The parts are taken, so that a descriptor stays open.
    done.into_parts().0
}

fn by_service(service: &Service, op: Op, is_helping: bool) -> Outcome {
    let pending = service.submit(op, Call::default()).map_err(|refused| refused.errno())?;
    let done = if is_helping { pending.wait() } else { block_on(pending) };
    done.into_parts().0
}

fn many_at_a_time(place: &Place, directory: &File, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let names = names(scale.many_names(place));
    let pause = if place.is_remote() { FORGOTTEN } else { Duration::ZERO };
    let limits = Limits { running: Some(DEPTH), ..Limits::default() };
    let on_ring = service(None, |options| options.limits = limits)?;
    let on_threads = service(Some(THREADS), |options| options.limits = limits)?;
    let ring = Ring::new(&RingOptions::default()).map_err(|error| format!("io_uring: {error}"))?;
    let mut proactor: Proactor<Ring, usize> = Proactor::new(ring, limits);
    let contenders = vec![
        Contender::new("16 threads", || all(directory, &names, pause, |ops| by_threads(ops, THREADS))),
        Contender::new("1 thread", || all(directory, &names, pause, |ops| by_threads(ops, 1))),
        Contender::new("proactor, depth 64", || {
            all(directory, &names, pause, |ops| many_by_proactor(&mut proactor, ops))
        }),
        Contender::new("service, depth 64", || {
            all(directory, &names, pause, |ops| many_by_service(&on_ring, ops))
        }),
        Contender::new("service on 16 threads", || {
            all(directory, &names, pause, |ops| many_by_service(&on_threads, ops))
        }),
    ];
    let outcomes = hold(scale.turns, contenders);
    let note = format!("Thousands of operations a second; {} names in one directory.", names.len());
    let mut sheet = Sheet::comparison(format!("Metadata many at a time, {}", place.kind), &note);
    sheet.compare(&ACTIONS.map(|action| action.name().to_owned()), &outcomes, "16 threads");
    if place.is_remote() {
        case.goals.extend(depth_goal(place, &outcomes));
    }
    case.sheets.push(sheet);
    Ok(())
}

/// Whether everything is as quick at depth as by threads; within a tenth, which is noise.
fn depth_goal(place: &Place, outcomes: &[Run]) -> Option<Goal> {
    let of = |name: &str| outcomes.iter().find(|run| run.name == name)?.values.as_ref().ok();
    let (base, values) = (of("16 threads")?, of("service, depth 64")?);
    let ratios = base.iter().zip(values).zip(ACTIONS);
    let ratios = ratios.map(|((base, values), action)| (median_ratio(values, base), action));
    let (least, action) = ratios.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Goal {
        goal: format!("metadata at depth 64, {}: service at least as fast as 16 threads", place.kind),
        measured: format!("{} times at least ({})", number(least), action.name()),
        is_met: least >= 0.9,
    })
}

/// Does all actions to all names; thousands a second for each action. Names are forgotten for `pause` before those that look
/// them up.
fn all(
    directory: &File,
    names: &[CString],
    pause: Duration,
    mut batch: impl FnMut(Vec<Op>) -> BenchResult<(f64, Vec<Outcome>)>,
) -> BenchResult<Vec<f64>> {
    let mut fds = vec![-1; names.len()];
    let mut rates = Vec::new();
    for action in ACTIONS {
        if matches!(action, Open | Stat | Remove) {
            std::thread::sleep(pause);
        }
        let op = |(name, fd): (&CString, &RawFd)| action.op(directory.as_raw_fd(), name.clone(), *fd);
        let ops: Vec<Op> = names.iter().zip(&fds).map(op).collect();
        let (seconds, outcomes) = batch(ops)?;
        for (outcome, fd) in outcomes.into_iter().zip(&mut fds) {
            keep(action, outcome, fd)?;
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of names")]
        rates.push(names.len() as f64 / seconds / 1e3);
    }
    Ok(rates)
}

/// From when all threads are there until the last has ended.
fn by_threads(mut ops: Vec<Op>, threads: usize) -> BenchResult<(f64, Vec<Outcome>)> {
    let share = ops.len().div_ceil(threads);
    let barrier = Barrier::new(ops.chunks(share).len() + 1);
    std::thread::scope(|scope| {
        let started: Vec<_> = ops
            .chunks_mut(share)
            .map(|ops| {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    ops.iter_mut().map(perform).collect::<Vec<_>>()
                })
            })
            .collect();
        // Before the barrier, since a thread may be done before this one runs again.
        let start = Instant::now();
        barrier.wait();
        let mut outcomes = Vec::new();
        for thread in started {
            outcomes.extend(thread.join().map_err(|_| "a thread panicked".to_owned())?);
        }
        Ok((start.elapsed().as_secs_f64(), outcomes))
    })
}

fn many_by_service(service: &Service, ops: Vec<Op>) -> BenchResult<(f64, Vec<Outcome>)> {
    let start = Instant::now();
    let mut pending = Vec::with_capacity(ops.len());
    for op in ops {
        pending.push(service.submit(op, Call::default()).map_err(|refused| format!("{refused:?}"))?);
    }
    let outcomes = pending.into_iter().map(|pending| block_on(pending).into_parts().0).collect();
    Ok((start.elapsed().as_secs_f64(), outcomes))
}

fn many_by_proactor(proactor: &mut Proactor<Ring, usize>, ops: Vec<Op>) -> BenchResult<(f64, Vec<Outcome>)> {
    let mut outcomes = vec![Ok(0); ops.len()];
    let start = Instant::now();
    for (index, op) in ops.into_iter().enumerate() {
        proactor.submit(Work::from(op), Terms::default(), index).map_err(|_| "refused".to_owned())?;
    }
    while proactor.pending() > 0 {
        proactor.advance(None, |index, done| outcomes[index] = done.into_parts().0);
    }
    Ok((start.elapsed().as_secs_f64(), outcomes))
}
