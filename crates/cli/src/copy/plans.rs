//! Planned actions of a copy, a line for each name. Lines go to standard output in any order; names are escaped.

use std::io;
use std::sync::{Mutex, PoisonError};

use atta_ops::copy::Planned;

use crate::output;
use crate::run::fatal::{Fatal, output_error};

/// Bytes that are buffered before a write.
const ROOM: usize = 64 << 10;

/// The lines of all threads.
#[derive(Debug, Default)]
pub(crate) struct Plans {
    waiting: Mutex<(Vec<u8>, Option<io::Error>)>,
}

impl Plans {
    /// Adds a line.
    pub(crate) fn add(&self, planned: Planned, path: &[u8]) {
        let word = match planned {
            Planned::New => "new",
            Planned::Replaced => "replaced",
            Planned::Skipped => "skipped",
            Planned::Attributes => "changed",
        };
        let line = format!("{word:<9} {}\n", atta_entry::escape(path));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0.extend_from_slice(line.as_bytes());
        if waiting.0.len() >= ROOM {
            write_out(&mut waiting);
        }
    }

    /// Writes the rest.
    pub(crate) fn finish(&self) -> Result<(), Fatal> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        write_out(&mut waiting);
        waiting.1.take().map_or(Ok(()), |error| Err(output_error(&error)))
    }
}

fn write_out((lines, error): &mut (Vec<u8>, Option<io::Error>)) {
    if error.is_none() {
        *error = output::write(lines).err();
    }
    lines.clear();
}
