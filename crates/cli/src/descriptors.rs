//! The limit of open file descriptors, as a command meets it: raised as far as it goes, too low to begin, or too low for as many threads
//! as were asked for. How descriptors are shared out is in `atta_ops::descriptors`.

use std::num::NonZeroUsize;

use atta_ops::descriptors::{AVAILABLE_LEAST, Budget, LIMIT_LEAST, Needs, available, limit, raise_limit};
use atta_runtime::Threads;

use crate::arguments::EffortArguments;
use crate::{Command, complain, exit};

/// Raises the limit for this process; says what it does not suffice for. Else: the exit code.
pub(crate) fn provide(command: &Command, once: impl Fn(&mut dyn FnMut())) -> Result<(), u8> {
    raise_limit();
    let Some((needs, effort, is_quiet)) = needs(command) else { return Ok(()) };
    if limit() < LIMIT_LEAST || available() < AVAILABLE_LEAST {
        once(&mut refuse);
        return Err(exit::FATAL);
    }
    if let Threads::Fixed(wanted) = effort.threads
        && !is_quiet
    {
        let budget = Budget::of_process(needs, wanted.get());
        if budget.threads < wanted.get() {
            once(&mut || note_threads(budget.threads, wanted));
        }
    }
    Ok(())
}

/// What a command on trees opens, and what it was asked for.
fn needs(command: &Command) -> Option<(Needs, &EffortArguments, bool)> {
    match command {
        Command::Walk(walk) => Some((Needs::WALK, &walk.effort, walk.tell.quiet)),
        Command::Copy(copy) => Some((Needs::COPY, &copy.effort, copy.tell.quiet)),
        Command::Sum(sum) => Some((Needs::SUM, &sum.effort, sum.tell.quiet)),
        Command::Verify(verify) => Some((Needs::VERIFY, &verify.effort, verify.tell.quiet)),
        Command::Clean(_) | Command::Generate(_) | Command::Simulate(_) => None,
    }
}

fn refuse() {
    let (limit, available) = (limit(), available());
    let what = format!(
        "cannot start: the limit of open files is {limit}, and {available} of them are free; a limit of {LIMIT_LEAST} is needed"
    );
    complain(&what, Some("raise the limit of open files, as with: ulimit -n 1024"));
}

fn note_threads(threads: usize, wanted: NonZeroUsize) {
    let limit = limit();
    let what = format!("note: {threads} of {wanted} threads: the limit of open files is {limit} (ulimit -n)");
    complain(&what, None);
}
