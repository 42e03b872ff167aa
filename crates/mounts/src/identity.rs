//! What identifies a mounted file system, and when two of them are one. Pure: it compares what is known, and says where that is not enough.

use std::sync::Arc;

use atta_sys::file_systems::{FileSystem, Reach, UriRule};

use crate::mount::Device;
use crate::path::below;
use crate::probes::Host;
use crate::server::Servers;
use crate::uri::Uri;

/// Whether two names mean one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// They do.
    Same,
    /// They do not.
    Different,
    /// What is known does not decide: ranks must find out, for example by a file that one creates and another one searches.
    Unknown,
}

impl Relation {
    /// Both must hold for one thing.
    #[must_use]
    pub fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Different => self,
            Self::Same => other(),
            Self::Unknown if other() == Self::Different => Self::Different,
            Self::Unknown => self,
        }
    }

    pub(crate) fn of(is_same: bool) -> Self {
        if is_same { Self::Same } else { Self::Different }
    }
}

/// A device number of a running kernel. Containers of one machine share the kernel.
#[derive(Clone, Debug)]
pub struct DeviceOn {
    /// The kernel.
    pub host: Arc<Host>,
    /// The number that it gives to the file system while this is mounted.
    pub device: Device,
}

impl PartialEq for DeviceOn {
    /// The host's name does not count.
    fn eq(&self, other: &Self) -> bool {
        self.device == other.device && self.host.boot_id == other.host.boot_id
    }
}

impl Eq for DeviceOn {}

/// Who holds the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Servers, by names and addresses.
    Servers(Servers),
    /// Something with an id that all hosts know: a cluster, a pool, a bucket. Empty: the only one, as far as hosts of one job go.
    Cluster(Vec<u8>),
    /// This host alone.
    Local(DeviceOn),
    /// It is not known who. Only mounts under one kernel with one number are known to be one.
    Unknown(DeviceOn),
    /// A file, the image of a loop device.
    Image(Box<Uri>),
    /// Layers that cannot be written to, the topmost first.
    Layers(Vec<Uri>),
}

/// A file system, as all hosts can name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// How its URIs begin: `nfs` for both types of NFS, the type for local ones.
    pub scheme: Vec<u8>,
    /// Who holds it.
    pub holder: Holder,
    /// Which one of the holder's it is: export, share, volume, name. No slash at its ends. Empty: the only one, or it is not known.
    pub volume: Vec<u8>,
    /// The kernel and the number that it gives to this file system while it is mounted. All mounts of it under one kernel have the same.
    pub device: DeviceOn,
    /// UUID of the disk. It does not count: copied disk images have it, too.
    pub uuid: Option<Vec<u8>>,
    /// Where the data is.
    pub reach: Reach,
    /// Volumes are directories of one tree of the server, so that one may lie in another (NFS, DVS, 9p, PanFS).
    pub(crate) is_one_tree: bool,
    /// Its row in the table of types.
    pub(crate) known: Option<&'static FileSystem>,
}

impl Identity {
    /// Its row in the table of types. None: the type is not known.
    #[must_use]
    pub const fn known(&self) -> Option<&'static FileSystem> {
        self.known
    }

    /// Whether its name alone shows that it is one file system on all hosts. Otherwise they must find out.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.is_held() || matches!(self.holder, Holder::Local(_))
    }

    /// Whether it has a holder that all hosts can name.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.holder, Holder::Servers(_) | Holder::Cluster(_))
    }

    /// Whether both are one file system. Two exports of one server are two, unless one kernel has one device for both.
    #[must_use]
    pub fn relation(&self, other: &Self) -> Relation {
        if self.has_device_of(other) {
            return Relation::Same;
        }
        match (self.holder_relation(other), self.volume_relation(other)) {
            (Relation::Same, volumes) => volumes,
            (Relation::Unknown, Relation::Different) if self.is_named() && other.is_named() => {
                Relation::Different
            }
            (holders, _) => holders,
        }
    }

    /// Whether its relation to every other definite one is known: it is the same, or different. What is not definite may be unknown beside
    /// any other. Servers never are: a server may have more addresses than are known of it.
    #[must_use]
    pub fn is_definite(&self) -> bool {
        match &self.holder {
            Holder::Local(on) => !on.host.hides_boot_id,
            // The default file system of a Ceph cluster has a name, which is not always known.
            Holder::Cluster(id) => !id.is_empty() && self.scheme != b"ceph" && !self.is_exported(),
            Holder::Servers(_) | Holder::Unknown(_) | Holder::Image(_) | Holder::Layers(_) => false,
        }
    }

    /// Whether one kernel has both as one device. The type must be the same, too: a number is used again after an unmount.
    pub(crate) fn has_device_of(&self, other: &Self) -> bool {
        self.device == other.device && self.scheme == other.scheme
    }

    /// Whether its volume and the paths in it are known, so that other ones are other files whoever holds them. Not those that are
    /// exported: servers may give other names to what they take from each other.
    pub(crate) fn is_named(&self) -> bool {
        self.is_held() && !self.is_exported()
    }

    /// Whether its servers may have taken it from somewhere else, under another name: a local disk, a parallel file system, another server.
    pub(crate) fn is_exported(&self) -> bool {
        use UriRule::{Dvs, Export, NineP, Share, Ssh};
        self.known.is_some_and(|known| matches!(known.mounts.rule, Export | Share | Ssh | Dvs | NineP))
    }

    fn volume_relation(&self, other: &Self) -> Relation {
        let is_unknown = |identity: &Self| matches!(identity.holder, Holder::Unknown(_));
        if is_unknown(self) || is_unknown(other) {
            // Its volume is not known either, so this proves nothing.
            return Relation::Same;
        }
        let is_unnamed = |identity: &Self| identity.volume.is_empty() && identity.scheme == b"ceph";
        if is_unnamed(self) != is_unnamed(other) {
            // The default file system of a cluster has a name.
            return Relation::Unknown;
        }
        let is_in = |inner: &Self, outer: &Self| {
            outer.volume.is_empty() || below(&inner.volume, &outer.volume).is_some()
        };
        if self.volume == other.volume {
            Relation::Same
        } else if self.is_one_tree && other.is_one_tree && (is_in(self, other) || is_in(other, self)) {
            // A directory of an export is on its file system, or another one is mounted there on the server.
            Relation::Unknown
        } else {
            Relation::Different
        }
    }

    /// Whether the holders are one.
    pub(crate) fn holder_relation(&self, other: &Self) -> Relation {
        let is_one_kernel = self.device.host.boot_id == other.device.host.boot_id;
        match (&self.holder, &other.holder) {
            (Holder::Unknown(_), Holder::Unknown(_)) if self.has_device_of(other) => Relation::Same,
            (Holder::Unknown(_), _) | (_, Holder::Unknown(_)) => Relation::Unknown,
            // What one server exports is mounted on its own host as something else, and on a third one by another protocol.
            _ if self.scheme != other.scheme && (self.is_exported() || other.is_exported()) => {
                Relation::Unknown
            }
            _ if self.scheme != other.scheme => Relation::Different,
            (Holder::Servers(one), Holder::Servers(two)) => one.relation(two),
            (Holder::Cluster(one), Holder::Cluster(two)) if one.is_empty() != two.is_empty() => {
                Relation::Unknown
            }
            (Holder::Cluster(one), Holder::Cluster(two)) => Relation::of(one == two),
            // One host knows the id of the cluster, the other one only servers of it.
            (Holder::Cluster(_), Holder::Servers(_)) | (Holder::Servers(_), Holder::Cluster(_)) => {
                Relation::Unknown
            }
            (Holder::Local(one), Holder::Local(two)) if one == two => Relation::Same,
            (Holder::Local(one), Holder::Local(two)) => {
                let is_hidden = one.host.hides_boot_id || two.host.hides_boot_id;
                if is_hidden && !is_one_kernel { Relation::Unknown } else { Relation::Different }
            }
            // The image may be a disk of a virtual machine.
            (Holder::Local(_), Holder::Image(_)) | (Holder::Image(_), Holder::Local(_)) => Relation::Unknown,
            // A later mount may cover the path of an image or layer. On one kernel that is not expected.
            (Holder::Image(_), Holder::Image(_)) | (Holder::Layers(_), Holder::Layers(_))
                if !is_one_kernel =>
            {
                Relation::Unknown
            }
            (Holder::Image(one), Holder::Image(two)) => one.relation(two),
            (Holder::Layers(one), Holder::Layers(two)) if one.len() == two.len() => {
                let relations = one.iter().zip(two);
                relations.fold(Relation::Same, |all, (one, two)| all.and(|| one.relation(two)))
            }
            _ => Relation::Different,
        }
    }
}
