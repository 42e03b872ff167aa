//! What a compound operation has opened or made and must not leave behind. It carries nothing out: it says what is to be done.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use crate::{Fd, Op, Place};

/// Descriptors to close, and a temporary file to remove, whatever happens.
#[derive(Debug, Default)]
pub struct Held {
    files: Vec<Option<File>>,
    temporary: Option<Place>,
}

#[derive(Debug)]
struct File {
    fd: Arc<OwnedFd>,
    is_written: bool,
}

/// Names a descriptor that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened(usize);

impl Held {
    /// Takes the descriptor that an [`Op::Open`] led to.
    pub fn opened(&mut self, outcome: u64) -> Opened {
        self.take(outcome, false)
    }

    /// The same, of a file that is written: an error of closing it makes the operation fail.
    pub fn opened_to_write(&mut self, outcome: u64) -> Opened {
        self.take(outcome, true)
    }

    fn take(&mut self, outcome: u64, is_written: bool) -> Opened {
        let file = i32::try_from(outcome).ok().map(|fd| {
            // SAFETY: it was opened just now for this operation, and nobody else has it.
            let fd = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
            File { fd, is_written }
        });
        self.files.push(file);
        Opened(self.files.len() - 1)
    }

    /// The descriptor, for an operation. Once closed, it is one that does not exist.
    #[must_use]
    pub fn fd(&self, opened: Opened) -> Fd {
        let file = self.files.get(opened.0).and_then(Option::as_ref);
        file.map_or(Fd::Raw(-1), |file| Fd::from(&file.fd))
    }

    /// There is a temporary file now, or may be.
    pub fn made(&mut self, place: Place) {
        self.temporary = Some(place);
    }

    /// The temporary file has become what it was made for.
    pub fn settled(&mut self) {
        self.temporary = None;
    }

    /// Gives a descriptor up. None: an operation or a state still shares it, and it closes with the last of them.
    pub(super) fn close(&mut self, opened: Opened) -> Option<Op> {
        close(self.files.get_mut(opened.0)?.take()?)
    }

    /// The next step of cleaning up, and whether it closes a file that was written.
    pub(super) fn release(&mut self) -> Option<(Op, bool)> {
        if let Some(place) = self.temporary.take() {
            return Some((Op::Unlink { place, flags: 0 }, false));
        }
        while let Some(file) = self.files.pop() {
            let Some(file) = file else { continue };
            let is_written = file.is_written;
            if let Some(op) = close(file) {
                return Some((op, is_written));
            }
        }
        None
    }
}

fn close(file: File) -> Option<Op> {
    Arc::into_inner(file.fd).map(|fd| Op::Close { fd: fd.into_raw_fd() })
}
