//! A write to a file that is open for appending, at a position of the library. The kernel writes at the end, regardless of the
//! offset, and the position must be behind the written data, as after `write(2)`. So the end is queried after the write.

use atta_aio::{Fd, Machine, Op, Outcome, Step, Work};
use atta_entry::Errno;

/// See the head of this file.
pub(crate) struct Append {
    write: Option<Op>,
    fd: Fd,
    written: Option<(Op, Outcome)>,
}

impl Append {
    /// Wraps a write; other work stays as it is.
    pub(crate) fn wrap(work: Work) -> Work {
        let fd = match &work {
            Work::Op(op) => match &**op {
                Op::Write { fd, .. } | Op::WriteVectors { fd, .. } => fd.clone(),
                _ => return work,
            },
            Work::Machine(_) => return work,
        };
        match work {
            Work::Op(op) => Work::Machine(Box::new(Self { write: Some(*op), fd, written: None })),
            Work::Machine(_) => work,
        }
    }
}

/// Replaces the error of an operation that was cut short by that of the stop.
fn stopped(outcome: Outcome, stop: Option<Errno>) -> Outcome {
    match (outcome, stop) {
        (Err(Errno(libc::ECANCELED | libc::EINTR)), Some(stop)) => Err(stop),
        _ => outcome,
    }
}

impl Machine for Append {
    fn next(&mut self, last: Option<(Op, Outcome)>, stop: Option<Errno>) -> Step {
        match (self.write.take(), self.written.take(), last) {
            (Some(write), ..) => Step::Do(write),
            (None, None, Some((write, outcome))) if outcome.is_ok() => {
                self.written = Some((write, outcome));
                Step::Do(Op::Seek { fd: self.fd.clone(), offset: 0, whence: libc::SEEK_END })
            }
            (None, Some((write, outcome)), _) | (None, None, Some((write, outcome))) => {
                Step::End(stopped(outcome, stop), Some(write))
            }
            (None, None, None) => Step::End(Err(Errno::IO), None),
        }
    }

    fn borrows(&self) -> bool {
        self.write.as_ref().is_some_and(Op::borrows)
            || self.written.as_ref().is_some_and(|(write, _)| write.borrows())
    }
}
