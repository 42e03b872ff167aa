//! Sums up a tree while it is walked: counts by kind, apparent and allocated bytes. Files with several names count once.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use atta_entry::{Code, Entry, Errno, Failure, Kind, decode_bytes, encode_bytes};
use atta_runtime::{Counter, Maximum, Results, Stop, counters};

use super::hard_links::{HardLinks, LinkedName, Seen};

counters! {
    /// The sums of a tree, or of a slice of it.
    pub struct Totals {
        /// Apparent bytes of regular files; a file with several names counts once.
        pub apparent_bytes: u64 = "apparent_bytes";
        /// Allocated bytes of all entries, directories included, as `du` counts; a file with several names counts once.
        pub allocated_bytes: u64 = "allocated_bytes";
        /// Names beyond the first of files with several.
        pub extra_links: u64 = "extra_links";
        /// Names that the rules exclude.
        pub excluded: u64 = "excluded";
        /// Names for which the table in memory could not decide whether they are the first.
        put_off: u64;
    }
    parts {
        /// Entries of each kind, in the order of [`Kind::ALL`]: names, so a file with two names is two.
        pub by_kind: [u64; Kind::ALL.len()];
        /// The largest depth.
        pub depth_max: Maximum;
        /// Entries that failed, by error number.
        pub failures: BTreeMap<Errno, u64>;
        /// Names of files with several names that have not been counted.
        linked: LinkedNames;
    }
}

/// Names of files with several names, as [`Summary::receive`] takes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkedNames(Vec<u8>);

#[cfg(test)]
impl LinkedNames {
    /// One name.
    pub(crate) fn sample() -> Self {
        Self(bytes_of(&LinkedName { inode: (3, 1 << 40), names: 2, ..LinkedName::default() }).to_vec())
    }
}

impl Results for LinkedNames {
    fn add(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

impl Code for LinkedNames {
    fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(&self.0, out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        decode_bytes(bytes)
            .filter(|names| names.len().is_multiple_of(LINK_BYTES))
            .map(|names| Self(names.to_vec()))
    }
}

impl Totals {
    /// Entries of one kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> u64 {
        self.by_kind[kind as usize]
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.by_kind.iter().sum()
    }

    /// All failures.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    fn add_bytes(&mut self, apparent: u64, allocated: u64) {
        self.apparent_bytes = self.apparent_bytes.saturating_add(apparent);
        self.allocated_bytes = self.allocated_bytes.saturating_add(allocated);
    }

    /// Counts one failure.
    pub fn fail(&mut self, failure: &Failure<'_>) {
        *self.failures.entry(failure.errno).or_default() += 1;
    }
}

/// Sums a tree up. One for all threads; each adds to [`Totals`] of the slice that it works on.
pub struct Summary {
    links: Links,
    /// Whether one name of a file may be seen more than once, through followed links.
    repeats: bool,
    /// Names of such files stay with the totals of their slice until [`count_links`](Self::count_links).
    puts_off: bool,
    /// Devices of the roots. Their numbers differ between hosts, so ranks send the root's number instead.
    devices: Vec<u64>,
}

/// Sends bytes to another rank.
type SendBytes = Box<dyn Fn(&[u8]) + Send + Sync>;

/// Where files with several names are remembered.
enum Links {
    Here(HardLinks),
    /// Another rank: each name of such a file is sent to it.
    Elsewhere(SendBytes),
}

impl std::fmt::Debug for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summary").field("repeats", &self.repeats).finish_non_exhaustive()
    }
}

/// Marks a device that is given as the number of a root.
const ROOT_DEVICE: u64 = 1 << 63;
/// Bytes of a name of a file with several, as ranks send it: device, inode, names, apparent and allocated bytes.
const LINK_BYTES: usize = 36;

impl Summary {
    /// Remembers files with several names in up to `memory_bytes`; the rest goes to a file in `spill_directory`. If `follow` is set, every
    /// file is remembered, because a followed link may show it again.
    #[must_use]
    pub fn new(memory_bytes: u64, spill_directory: PathBuf, follow: bool) -> Self {
        Self {
            links: Links::Here(HardLinks::new(memory_bytes, spill_directory)),
            repeats: follow,
            puts_off: false,
            devices: Vec::new(),
        }
    }

    /// Leaves files with several names out of totals until [`count_links`](Self::count_links). So the totals of a slice do not depend on
    /// other slices, and can be written to the log of a job.
    #[must_use]
    pub fn putting_links_off(self) -> Self {
        Self { puts_off: true, ..self }
    }

    /// Counts the files with several names that were left out.
    pub fn count_links(&self, totals: &mut Totals) {
        let names = std::mem::take(&mut totals.linked).0;
        // They are what `add` wrote, or were checked when they were decoded.
        let _ = self.receive(totals, &names);
    }

    /// The summary of a rank that lets another one decide whether a file was seen before. `send` gets bytes for that rank's
    /// [`receive`](Self::receive), in whole messages, which may arrive in any order.
    #[must_use]
    pub fn of_rank(send: impl Fn(&[u8]) + Send + Sync + 'static, follow: bool) -> Self {
        Self {
            links: Links::Elsewhere(Box::new(send)),
            repeats: follow,
            puts_off: false,
            devices: Vec::new(),
        }
    }

    /// Sets the devices of the roots, in the same order on all ranks.
    #[must_use]
    pub fn with_root_devices(mut self, devices: Vec<u64>) -> Self {
        self.devices = devices;
        self
    }

    /// Adds names of files with several names that another rank saw. Returns false for malformed bytes.
    #[must_use]
    pub fn receive(&self, totals: &mut Totals, bytes: &[u8]) -> bool {
        let (names, rest) = bytes.as_chunks::<LINK_BYTES>();
        for name in names {
            let field = |at: usize| name[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            let names = name[16..20].try_into().map_or(0, u32::from_le_bytes);
            let (inode, apparent_bytes, allocated_bytes) = ((field(0), field(8)), field(20), field(28));
            self.add_name(totals, &LinkedName { inode, names, apparent_bytes, allocated_bytes });
        }
        rest.is_empty()
    }

    /// Adds an entry.
    pub fn add(&self, totals: &mut Totals, entry: &Entry<'_>) {
        totals.by_kind[entry.kind as usize] += 1;
        totals.depth_max.add(&Maximum(entry.depth.into()));
        let Some(metadata) = entry.metadata else { return };
        let apparent_bytes = if entry.kind == Kind::File { metadata.size } else { 0 };
        let allocated_bytes = metadata.allocated_bytes();
        if self.repeats || (metadata.nlink > 1 && entry.kind != Kind::Directory) {
            let inode = (self.device(metadata.device), metadata.inode);
            // If links are followed, the number of its names is unknown, so it is never forgotten.
            let names = if self.repeats { u32::MAX } else { metadata.nlink };
            let name = LinkedName { inode, names, apparent_bytes, allocated_bytes };
            return match self.puts_off {
                true => totals.linked.0.extend_from_slice(&bytes_of(&name)),
                false => self.add_name(totals, &name),
            };
        }
        totals.add_bytes(apparent_bytes, allocated_bytes);
    }

    /// Adds one name of a file with several names.
    fn add_name(&self, totals: &mut Totals, name: &LinkedName) {
        match &self.links {
            Links::Here(links) => match links.note(name) {
                Seen::First => totals.add_bytes(name.apparent_bytes, name.allocated_bytes),
                Seen::Again => totals.extra_links += 1,
                Seen::Later => totals.put_off += 1,
            },
            Links::Elsewhere(send) => send(&bytes_of(name)),
        }
    }

    fn device(&self, device: u64) -> u64 {
        let root = self.devices.iter().position(|known| *known == device);
        root.map_or(device, |root| ROOT_DEVICE | root as u64)
    }

    /// The sums of the tree, from those of all slices.
    ///
    /// # Errors
    /// The file for names that did not fit in memory could not be used; the totals then lack them.
    pub fn finish(self, mut sum: Totals, stop: &Stop) -> (Totals, io::Result<()>) {
        let Links::Here(links) = self.links else { return (sum, Ok(())) };
        let settled = links.settle(stop).map(|settled| {
            sum.apparent_bytes = sum.apparent_bytes.saturating_add(settled.apparent_bytes);
            sum.allocated_bytes = sum.allocated_bytes.saturating_add(settled.allocated_bytes);
            sum.extra_links += sum.put_off - settled.inodes;
            sum.put_off = 0;
        });
        (sum, settled)
    }
}
/// A name of a file with several, as [`Summary::receive`] takes it.
fn bytes_of(name: &LinkedName) -> [u8; LINK_BYTES] {
    let mut bytes = [0; LINK_BYTES];
    bytes[..8].copy_from_slice(&name.inode.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&name.inode.1.to_le_bytes());
    bytes[16..20].copy_from_slice(&name.names.to_le_bytes());
    bytes[20..28].copy_from_slice(&name.apparent_bytes.to_le_bytes());
    bytes[28..].copy_from_slice(&name.allocated_bytes.to_le_bytes());
    bytes
}
