//! The mount table of this process, kept up to date: the kernel reports a change to whoever polls `/proc/self/mountinfo` (proc(5)). It has
//! no thread: whoever asks calls [`LiveTable::refresh`] from time to time.

use std::io::{Read as _, Seek as _};

use atta_entry::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::probes::Probes;
use crate::table::{MountTable, ReadError};

/// How often a table that changes while it is read is read again.
const ATTEMPTS_MAX: u32 = 16;

/// The table of the mount namespace that this process had when the value was made.
pub struct LiveTable {
    file: std::fs::File,
    probes: Box<dyn Probes + Send + Sync>,
    table: MountTable,
    /// A change was reported that the table may lack: the kernel reports each once.
    must_read: bool,
}

impl std::fmt::Debug for LiveTable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("LiveTable").field("table", &self.table).finish_non_exhaustive()
    }
}

impl LiveTable {
    /// Reads the table.
    ///
    /// # Errors
    /// `/proc/self/mountinfo` cannot be read, or has invalid lines.
    pub fn read(probes: Box<dyn Probes + Send + Sync>) -> Result<Self, ReadError> {
        let mut file = std::fs::File::open("/proc/self/mountinfo").map_err(unreadable)?;
        let (text, is_settled) = read_whole(&mut file, has_changed)?;
        let table = MountTable::from_bytes(&text, &*probes).map_err(ReadError::Invalid)?;
        Ok(Self { file, probes, table, must_read: !is_settled })
    }

    /// The table as it was last read.
    #[must_use]
    pub const fn table(&self) -> &MountTable {
        &self.table
    }

    /// Reads the table again if the kernel reports a change since. Returns whether it was read. Costs one `poll` if not.
    ///
    /// The kernel reports mounts and unmounts. It does not report that a directory was renamed that is bound somewhere, or that has a mount
    /// below it; then the table has the old path until [`reload`](Self::reload).
    ///
    /// # Errors
    /// As [`read`](Self::read); then the table stays as it was, and the next call reads it again.
    pub fn refresh(&mut self) -> Result<bool, ReadError> {
        self.must_read |= has_changed(&self.file)?;
        if self.must_read {
            self.reload()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads the table again in any case.
    ///
    /// Everything is asked again but addresses of servers: a new mount may have the number, device and source of one that is gone.
    ///
    /// # Errors
    /// As [`refresh`](Self::refresh).
    pub fn reload(&mut self) -> Result<(), ReadError> {
        self.must_read = true;
        let (text, is_settled) = read_whole(&mut self.file, has_changed)?;
        let addresses = self.table.take_addresses();
        self.table =
            MountTable::with_addresses(&text, &*self.probes, addresses).map_err(ReadError::Invalid)?;
        self.must_read = !is_settled;
        Ok(())
    }
}

impl MountTable {
    /// Reads the table of this process once.
    ///
    /// # Errors
    /// `/proc/self/mountinfo` cannot be read, or has invalid lines.
    pub fn read(probes: &dyn Probes) -> Result<Self, ReadError> {
        let mut file = std::fs::File::open("/proc/self/mountinfo").map_err(unreadable)?;
        Self::from_bytes(&read_whole(&mut file, has_changed)?.0, probes).map_err(ReadError::Invalid)
    }
}

/// The text, and whether it is of one moment. The kernel gives it in parts of a page. A change between two of them may hide a line, so it
/// is read again until none was reported meanwhile, or too often.
fn read_whole(
    file: &mut std::fs::File,
    mut has_changed: impl FnMut(&std::fs::File) -> Result<bool, ReadError>,
) -> Result<(Vec<u8>, bool), ReadError> {
    let mut text = Vec::new();
    for _ in 0..ATTEMPTS_MAX {
        text.clear();
        file.rewind().map_err(unreadable)?;
        file.read_to_end(&mut text).map_err(unreadable)?;
        if !has_changed(file)? {
            return Ok((text, true));
        }
    }
    Ok((text, false))
}

/// Whether the table has changed since this was last asked for this open file.
fn has_changed(file: &std::fs::File) -> Result<bool, ReadError> {
    let mut watched = [PollFd::new(file, PollFlags::PRI)];
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        match poll(&mut watched, Some(&no_wait)) {
            Ok(_) => return Ok(watched[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(ReadError::Unreadable(Errno(error.raw_os_error()))),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unreadable(error: std::io::Error) -> ReadError {
    ReadError::Unreadable(Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Silent};

    // The kernel reports a change once, so that whoever fails to read must remember it.
    #[test]
    fn a_change_is_not_lost_by_an_error() {
        let mut live = LiveTable::read(Box::new(Silent::on(Host::new(b"boot", b"node")))).unwrap();
        while live.refresh().unwrap() {}
        let good = std::mem::replace(&mut live.file, std::fs::File::open("/").unwrap());
        assert!(live.reload().is_err() && live.refresh().is_err());
        assert!(!live.table().is_empty());
        live.file = good;
        assert_eq!(live.refresh(), Ok(true));
    }

    #[test]
    fn a_table_that_changes_all_the_time_is_not_settled() {
        let mut file = std::fs::File::open("/proc/self/mountinfo").unwrap();
        let mut changes = 2;
        let settled = read_whole(&mut file, |_| {
            changes -= 1;
            Ok(changes > 0)
        });
        assert!(settled.unwrap().1);
        assert!(!read_whole(&mut file, |_| Ok(true)).unwrap().1);
    }
}
