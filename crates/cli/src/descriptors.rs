//! The limit of open file descriptors for a command: raises it as far as possible, and reports if it is too low to start, or too low for
//! the requested threads. `atta_ops::descriptors` divides descriptors among threads.

use std::num::NonZeroUsize;

use atta_ops::descriptors::{AVAILABLE_LEAST, Budget, LIMIT_LEAST, Needs, available, limit, raise_limit};
use atta_runtime::Threads;

use crate::arguments::EffortArguments;
use crate::run::messages::{complain, exit};

/// Descriptor needs of a command on trees, its effort options, and whether it is quiet.
pub(crate) type Wanted<'a> = (Needs, &'a EffortArguments, bool);

/// Raises the limit for this process, and reports if it is too low. Returns the exit code if the command cannot start.
pub(crate) fn provide(wanted: Option<Wanted<'_>>, once: impl Fn(&mut dyn FnMut())) -> Result<(), u8> {
    raise_limit();
    let Some((needs, effort, is_quiet)) = wanted else { return Ok(()) };
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
