//! What things cost, in nanoseconds: reading directories, looking at files, handling messages. The network is elsewhere
//! (`network.rs`).
//!
//! A file server is modelled by its time alone: it serves any number of ranks at once. The papers' file system spreads its
//! metadata over many servers for that purpose.

/// Costs of one kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Opening and closing a directory.
    pub directory_ns: u64,
    /// Each entry that is read of it.
    pub entry_ns: u64,
    /// `lstat` or `statx` of one file or directory.
    pub stat_ns: u64,
    /// Processor time of whoever sends a message.
    pub send_ns: u64,
    /// Processor time of whoever takes a message in.
    pub receive_ns: u64,
    /// What a master pays in addition for each message it sends or takes in.
    pub master_ns: u64,
}

impl Costs {
    /// A warm local disk: `openat`, `getdents64` and `close` of a directory take 8 us, `statx` of a cached inode 0.7 us.
    /// An MPI message costs its sender and its receiver half a microsecond.
    pub const LOCAL_DISK: Self =
        Self { directory_ns: 8_000, entry_ns: 60, stat_ns: 700, send_ns: 500, receive_ns: 500, master_ns: 0 };

    /// A file server of the papers' kind. The paper gives no cost of anything, so all of these are assumptions: an `lstat` is one
    /// round trip through a storage network, 100 us; a directory takes a lock and some round trips, 1 ms and 2 us an entry.
    ///
    /// A message costs 3 us of processor time on either side: a probe, the call and a copy. That too is assumed. It is more
    /// than the 0.7 to 1.4 us that Gemini's interfaces take for a transfer (EuroBen, Web report 2010, Cray XE6), since it
    /// is the time of a program, not of a network. A master pays no more than others. How much faster other schedules are than
    /// the centralized one depends on these numbers: docs/simulated.md shows how.
    pub const FILE_SERVER: Self = Self {
        directory_ns: 1_000_000,
        entry_ns: 2_000,
        stat_ns: 100_000,
        send_ns: 3_000,
        receive_ns: 3_000,
        master_ns: 0,
    };

    /// Costs by name: `local-disk` or `file-server`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "local-disk" => Some(Self::LOCAL_DISK),
            "file-server" => Some(Self::FILE_SERVER),
            _ => None,
        }
    }
}
