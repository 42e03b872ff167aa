//! What a caller may choose. The first rank's choice counts on all ranks.

use atta_code::record;

/// The options of queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// From how many ranks on, on average, a server has too many: fewer for each server is well distributed, as many or more is poorly.
    pub ranks_per_server: u32,
    /// How many classes are counted exactly in one reduction. Beyond that their number is estimated, unless so many already decide.
    pub classes_max: u32,
    /// How many servers may hold one file: the length of the filter that estimates their number, 2.9 bits for each. More servers than that
    /// are estimated too, with a larger error.
    pub servers_max: u32,
    /// Take NFS servers with different names and addresses for different servers, as FGFS does. Otherwise it is unknown whether they are, because
    /// a server has several interfaces, and no file system on several NFS servers is known to be well distributed. It is wrong where ranks
    /// mount one server by several addresses that no host knows to be one.
    pub assume_servers_differ: bool,
}

record!(Options { ranks_per_server, classes_max, servers_max, assume_servers_differ });

impl Default for Options {
    /// The values of Ahn et al. 2013: 64 ranks for each server, and 420,000 servers.
    fn default() -> Self {
        Self { ranks_per_server: 64, classes_max: 64, servers_max: 420_000, assume_servers_differ: false }
    }
}

impl Options {
    /// The most classes of a poorly distributed file. One class is always poorly distributed.
    pub(crate) fn poor_max(&self, ranks: u32) -> u32 {
        (ranks / self.ranks_per_server.max(1)).max(1)
    }
}
