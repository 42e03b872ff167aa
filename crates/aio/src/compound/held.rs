//! Resources of a compound operation that must not be left behind. It carries nothing out; it returns the operations to run.

use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use crate::{Fd, Op, Place};

/// Descriptors to close and a temporary file to remove, however the operation ends.
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

/// Identifies a held descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened(usize);

impl Held {
    /// Takes over the descriptor that an [`Op::Open`] returned.
    pub fn opened(&mut self, outcome: u64) -> Opened {
        self.take(outcome, false)
    }

    /// As [`opened`](Self::opened), for a file that is written: an error of closing it makes the operation fail.
    pub fn opened_to_write(&mut self, outcome: u64) -> Opened {
        self.take(outcome, true)
    }

    fn take(&mut self, outcome: u64, is_written: bool) -> Opened {
        let file = i32::try_from(outcome).ok().map(|fd| {
            // SAFETY: it was opened just now for this operation, and nothing else owns it.
            let fd = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
            File { fd, is_written }
        });
        self.files.push(file);
        Opened(self.files.len() - 1)
    }

    /// The descriptor, for an operation. After the close it is one that does not exist.
    #[must_use]
    pub fn fd(&self, opened: Opened) -> Fd {
        let file = self.files.get(opened.0).and_then(Option::as_ref);
        file.map_or(Fd::Raw(-1), |file| Fd::from(&file.fd))
    }

    /// A temporary file exists now, or may exist.
    pub fn made(&mut self, place: Place) {
        self.temporary = Some(place);
    }

    /// The temporary file has got its final name.
    pub fn settled(&mut self) {
        self.temporary = None;
    }

    /// Releases a descriptor. Returns `None` if an operation or a state still shares it; it closes with the last of them.
    pub(super) fn close(&mut self, opened: Opened) -> Option<Op> {
        close(self.files.get_mut(opened.0)?.take()?)
    }

    /// The next step of the cleanup, and whether it closes a file that was written.
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
