//! What the walk knows about a name after `statx`. No I/O.

use atta_entry::{Kind, Metadata};

/// Facts about one name of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fact {
    /// None: `statx` of the name failed, and the failure has been reported.
    pub(super) kind: Option<Kind>,
    pub(super) metadata: Option<Metadata>,
    /// Target of a link, if the options ask for it.
    pub(super) link: Option<Vec<u8>>,
    /// Where a followed link to a directory really leads.
    pub(super) target: Option<Vec<u8>>,
}

impl Fact {
    /// Bytes of a regular file, holes included.
    pub(super) fn bytes(&self) -> u64 {
        let is_file = self.kind == Some(Kind::File);
        self.metadata.as_ref().filter(|_| is_file).map_or(0, |metadata| metadata.size)
    }

    pub(super) fn set(&mut self, kind: Kind, metadata: Option<Metadata>) {
        self.kind = Some(kind);
        self.metadata = metadata;
        (self.link, self.target) = (None, None);
    }
}
