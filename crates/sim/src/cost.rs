//! Costs of operations in nanoseconds: reading directories, statting files, handling messages. `network.rs` holds the network.
//!
//! The model of a file server is its response time alone: it serves any number of ranks at once. The papers' file system
//! spreads its metadata over many servers for that purpose.

/// Costs of one kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Opening and closing a directory.
    pub directory_ns: u64,
    /// Reading one entry of it.
    pub entry_ns: u64,
    /// `lstat` or `statx` of one file or directory.
    pub stat_ns: u64,
    /// Processor time of the sender of a message.
    pub send_ns: u64,
    /// Processor time of the receiver of a message.
    pub receive_ns: u64,
    /// Additional cost to a master for each message that it sends or receives.
    pub master_ns: u64,
}

impl Costs {
    /// A warm local disk.
    ///
    /// `openat`, `getdents64` and `close` of a directory take 8 us, `statx` of a cached inode 0.7 us. An MPI message costs its
    /// sender and its receiver half a microsecond each.
    pub const LOCAL_DISK: Self =
        Self { directory_ns: 8_000, entry_ns: 60, stat_ns: 700, send_ns: 500, receive_ns: 500, master_ns: 0 };

    /// A file server like that of the papers.
    ///
    /// The paper gives no costs, so all of these are assumptions: an `lstat` is one round trip through a storage network, 100 us;
    /// a directory takes a lock and some round trips, 1 ms and 2 us per entry.
    ///
    /// A message costs 3 us of processor time on either side: a probe, the call and a copy. This is assumed, too. It is more than
    /// the 0.7 to 1.4 us that Gemini's interfaces take for a transfer (EuroBen, Web report 2010, Cray XE6), since it is the time
    /// of a program, not of a network. A master pays no more than others. The advantage of other schedules over the centralized one
    /// depends on these numbers; docs/simulated.md shows how.
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
