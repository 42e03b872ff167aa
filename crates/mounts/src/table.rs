//! The mount table of one moment, with the global name of each mount. Built once, with questions to the system where a mount does not say
//! what it is; then it answers from memory. It does not notice changes; `live.rs` does.

use std::fmt;

use atta_entry::Errno;
use atta_sys::file_systems::Reach;
use atta_sys::mount_line::{MountLine, lines};

use crate::mount::Mount;
use crate::namer::{Addresses, Asker, Namer};
use crate::path::{below, normal, without_root_slash};
use crate::probes::Probes;
use crate::rules::lower_layers;
use crate::tree::Index;
use crate::uri::Uri;

/// The most bytes of a line: 500 layers of an overlay, each with a path of the longest kind.
const LINE_BYTES_MAX: usize = 1 << 22;

/// All mounts of a namespace.
#[derive(Clone, Debug)]
pub struct MountTable {
    mounts: Vec<Mount>,
    /// Names of their roots, in the same order.
    roots: Vec<Uri>,
    index: Index,
    /// Addresses that were asked for, for the next table.
    addresses: Addresses,
}

/// An invalid line of `mountinfo`, or one that is too long. Without it the table says nothing: others may be mounted on that mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidLine {
    /// Number of the line, from 1.
    pub number: usize,
}

impl fmt::Display for InvalidLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "invalid line of mountinfo: line {}", self.number)
    }
}

impl std::error::Error for InvalidLine {}

/// Why a table cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The kernel does not give it.
    Unreadable(Errno),
    /// It gives something else.
    Invalid(InvalidLine),
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(errno) => write!(out, "read the mount table: /proc/self/mountinfo: {errno}"),
            Self::Invalid(line) => write!(out, "read the mount table: /proc/self/mountinfo: {line}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl MountTable {
    /// Reads the text of `/proc/self/mountinfo` and asks for what it does not say.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn from_bytes(text: &[u8], probes: &dyn Probes) -> Result<Self, InvalidLine> {
        Self::with_addresses(text, probes, Addresses::new())
    }

    pub(crate) fn with_addresses(
        text: &[u8],
        probes: &dyn Probes,
        addresses: Addresses,
    ) -> Result<Self, InvalidLine> {
        let mount = |(line, number): (&[u8], usize)| {
            let is_long = line.len() > LINE_BYTES_MAX;
            let read = MountLine::from_bytes(line).filter(|_| !is_long).ok_or(InvalidLine { number })?;
            Ok(Mount::new(&read))
        };
        let mounts = lines(text).zip(1..).map(mount).collect::<Result<Vec<_>, _>>()?;
        let index = Index::new(&mounts);
        let (roots, addresses) = Namer::new(&mounts, &index, Asker::new(probes, &mounts, addresses)).names();
        Ok(Self { mounts, roots, index, addresses })
    }

    pub(crate) fn take_addresses(&mut self) -> Addresses {
        std::mem::take(&mut self.addresses)
    }

    /// All mounts, hidden ones too, with the names of their roots.
    pub fn iter(&self) -> impl Iterator<Item = (&Mount, &Uri)> {
        self.mounts.iter().zip(&self.roots)
    }

    /// Mounts whose mount points lead to them, with the names of their roots.
    pub fn visible(&self) -> impl Iterator<Item = (&Mount, &Uri)> {
        let all = self.iter().zip(0..);
        all.filter(|(_, mount)| self.index.shows(*mount)).map(|(named, _)| named)
    }

    /// Number of mounts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.mounts.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mounts.is_empty()
    }

    /// The mount that a path leads to, as the kernel finds it if no symbolic link is in the way. The path is made [normal](normal) first.
    /// None: the table has no mount above it, or the path is relative or empty.
    #[must_use]
    pub fn mount_of(&self, path: &[u8]) -> Option<&Mount> {
        self.index.find(&normal(path)?).map(|index| &self.mounts[index])
    }

    /// The global name of a path, from memory alone: no system call is made for it. The path need not exist. Symbolic links are taken for
    /// directories; [`resolved`](crate::resolved) follows them. None: as for [`mount_of`](Self::mount_of).
    #[must_use]
    pub fn uri_of(&self, path: &[u8]) -> Option<Uri> {
        let path = normal(path)?;
        let mount = self.index.find(&path)?;
        let point = without_root_slash(&self.mounts[mount].point);
        Some(self.roots[mount].below(below(without_root_slash(&path), point)?))
    }

    /// Where the data of a path is: that of an overlay where its layers are, that of an image where the image is.
    #[must_use]
    pub fn reach_of(&self, path: &[u8]) -> Option<Reach> {
        let mount = self.index.find(&normal(path)?)?;
        match self.roots[mount].identity().reach {
            Reach::Layers => Some(self.reach_of_layers(&self.mounts[mount])),
            reach => Some(reach),
        }
    }

    /// Names of the layers of an overlay, the topmost first, with the upper one if there is one. Empty: it is no overlay. A layer that is
    /// not visible in this namespace has no name.
    #[must_use]
    pub fn layers_of(&self, overlay: &Mount) -> Vec<Option<Uri>> {
        if overlay.reach() != Reach::Layers {
            return Vec::new();
        }
        let upper = overlay.option("upperdir").map(std::borrow::Cow::into_owned);
        let layers = upper.into_iter().chain(lower_layers(overlay));
        layers.map(|layer| self.layer(&layer, overlay)).collect()
    }

    /// A path that leads back to the overlay was meant in another namespace; where a relative one leads is not known.
    fn layer(&self, path: &[u8], overlay: &Mount) -> Option<Uri> {
        let path = Some(path).filter(|path| path.starts_with(b"/"))?;
        self.mount_of(path).filter(|mount| mount.device != overlay.device).and_then(|_| self.uri_of(path))
    }

    fn reach_of_layers(&self, overlay: &Mount) -> Reach {
        let reaches: Option<Vec<_>> =
            self.layers_of(overlay).into_iter().map(|layer| Some(layer?.identity().reach)).collect();
        match reaches {
            Some(all) if all.contains(&Reach::Remote) => Reach::Remote,
            Some(all) if !all.is_empty() && all.iter().all(|reach| *reach == Reach::Local) => Reach::Local,
            _ => Reach::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Silent};

    // A resolver that fails once must not make a server unknown for as long as the process runs.
    #[test]
    fn names_that_do_not_resolve_are_asked_again() {
        let text = b"1 0 0:4 / / rw - wekafs unresolved.invalid/fs rw\n";
        let mut table = MountTable::from_bytes(text, &Silent::on(Host::new(b"boot", b"node"))).unwrap();
        assert!(table.take_addresses().is_empty());
    }
}
