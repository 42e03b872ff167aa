//! The common part of all `pxfs_` functions: their arguments become an [`Ask`], which is submitted, and the program gets 0 or
//! -1 with `errno`. No panic leaves this file.

use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use atta_aio::{Call, Work};
use atta_entry::Errno;

use crate::answer::Answer;
use crate::append::Append;
use crate::arguments::{Callback, Data};
use crate::face::{self, Face};
use crate::operation::{self, Operation, Sequel};
use crate::wait;

/// The request of a program.
pub(crate) struct Ask {
    work: Work,
    answer: Answer,
    /// It uses the position of this descriptor.
    positioned: Option<RawFd>,
    /// It closes this descriptor.
    closes: Option<RawFd>,
}

impl Ask {
    pub(crate) fn new(work: impl Into<Work>) -> Self {
        Self { work: work.into(), answer: Answer::Nothing, positioned: None, closes: None }
    }

    pub(crate) fn answer(self, answer: Answer) -> Self {
        Self { answer, ..self }
    }

    pub(crate) fn positioned(self, fd: RawFd) -> Self {
        Self { positioned: Some(fd), ..self }
    }

    pub(crate) fn closes(self, fd: RawFd) -> Self {
        Self { closes: Some(fd), ..self }
    }
}

thread_local! {
    static WITHIN: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Sets the time limit of operations that this thread submits from now on.
pub(crate) fn set_deadline(within: Option<Duration>) {
    WITHIN.set(within);
}

/// Runs a `pxfs_` function.
pub(crate) fn call(callback: Callback, data: Data, ask: impl FnOnce() -> Result<Ask, Errno>) -> c_int {
    let code = return_code(|| {
        let ask = ask()?;
        face::with(|face| submit(face, ask, callback, data))
    });
    if code != 0 {
        // The last operation of this thread must not be an older one.
        wait::set_last(None);
    }
    code
}

/// Returns 0, or -1 with `errno`.
pub(crate) fn return_code(f: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => fail(error),
        // The panic hook has reported the reason.
        Err(_) => fail(Errno::IO),
    }
}

fn fail(Errno(error): Errno) -> c_int {
    // SAFETY: takes nothing and returns the address of this thread's number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: it belongs to this thread, and lives as long as the thread.
    unsafe { *place = error };
    -1
}

fn submit(face: &Face, ask: Ask, callback: Callback, data: Data) -> Result<(), Errno> {
    let Ask { mut work, mut answer, positioned, closes } = ask;
    let known = positioned.and_then(|fd| face.positions.of(fd, &face.service));
    if known.is_some_and(|known| known.appends) {
        work = Append::wrap(work);
    }
    // Before the number can belong to another file.
    let closed = closes.and_then(|fd| Some((fd, face.positions.take(fd)?)));
    if let Some((fd, known)) = closed {
        answer = Answer::Closed(fd, known);
    }
    let call = Call { within: WITHIN.get(), position: known.and_then(|known| known.position) };
    let is_inline = face.is_inline || callback.is_none();
    let operation = Operation::new(Sequel { answer, callback, data });
    let ended = Arc::clone(&operation);
    operation::begin();
    match face.service.submit_tracked(work, call, is_inline, move |done| ended.finish(done)) {
        Ok(tracked) => {
            // Only this line sets it.
            let _ = operation.tracked.set(tracked);
            wait::set_last(Some(operation));
            Ok(())
        }
        Err(refused) => {
            operation::end();
            closed.into_iter().for_each(|(fd, known)| face.positions.put_back(fd, known, &face.service));
            Err(refused.errno())
        }
    }
}

/// Defines functions: description, names, arguments before the continuation, and request.
macro_rules! calls {
    (@one $what:literal $name:ident ($($argument:ident: $type:ty),* $(,)?) $ask:block) => {
        #[doc = $what]
        // SAFETY: no other library of the program has a symbol of this name.
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(
            $($argument: $type,)*
            cb: crate::arguments::Callback,
            cdat: crate::arguments::Data,
        ) -> std::ffi::c_int {
            crate::call::call(cb, cdat, move || Ok($ask))
        }
    };
    ($($what:literal fn [$($name:ident),+] $arguments:tt $ask:block)*) => {
        $($(crate::call::calls! { @one $what $name $arguments $ask })+)*
    };
}
pub(crate) use calls;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        std::panic::set_hook(Box::new(|_| {}));
        let code = return_code(|| panic!("inside a call"));
        let error = std::io::Error::last_os_error();
        let _ = std::panic::take_hook();
        assert_eq!((code, error.raw_os_error()), (-1, Some(libc::EIO)));
    }
}
