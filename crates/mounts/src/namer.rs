//! From mounts to the names of their roots: applies the rule of each type, and follows loop devices and overlays to what lies below them.
//! Asks the system only through `Probes`, and only while a table is built.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use atta_sys::file_systems::{Reach, UriRule};

use crate::identity::{DeviceOn, Holder, Identity};
use crate::mount::{Device, Mount};
use crate::path::{below, normal, without_root_slash};
use crate::probes::{Host, Probes};
use crate::rules::{self, Found};
use crate::tree::Index;
use crate::uri::{Uri, removed_root, root_suffix};

/// How many loop devices and overlays may lie in each other. The kernel stacks two overlays at most, and images can lie in images. Names
/// contain the names of all that lies below, so that deeper stacks would have names without bound.
pub(crate) const DEPTH_MAX: u32 = 4;

/// Answers that stay true while the mount table changes.
pub(crate) type Addresses = HashMap<Vec<u8>, Vec<IpAddr>>;

/// What rules ask with.
pub(crate) struct Asker<'a> {
    pub(crate) probes: &'a dyn Probes,
    pub(crate) host: Arc<Host>,
    addresses: Addresses,
    /// Names of disks with their UUIDs, once they were asked for.
    uuids: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The mount point of the mount that is named leads to that mount, so that it can be asked by its path.
    is_visible: bool,
}

impl<'a> Asker<'a> {
    pub(crate) fn new(probes: &'a dyn Probes, mounts: &[Mount], addresses: Addresses) -> Self {
        let mut host = probes.host();
        host.hides_boot_id |= mounts.iter().any(is_over_boot_id);
        Self { probes, host: Arc::new(host), addresses, uuids: None, is_visible: false }
    }

    /// Addresses of a server by its name, asked once.
    pub(crate) fn addresses(&mut self, name: &[u8]) -> &[IpAddr] {
        let probes = self.probes;
        self.addresses.entry(name.to_vec()).or_insert_with(|| probes.addresses(name))
    }

    /// An extended attribute of the root of a mount.
    pub(crate) fn attribute(&self, mount: &Mount, name: &str) -> Option<Vec<u8>> {
        if self.is_visible { self.probes.attribute(&mount.point, name) } else { None }
    }

    /// UUID of what is on the disk of a mount, as udev has found it; of btrfs, as the kernel has it. The kernel knows the name of the disk
    /// by its number; the source may have another one (`/dev/mapper/...`, `/dev/root`).
    pub(crate) fn uuid(&mut self, mount: &Mount) -> Option<Vec<u8>> {
        let probes = self.probes;
        let Device { major, minor } = mount.device;
        let link = probes.link(format!("/sys/dev/block/{major}:{minor}").as_bytes());
        let disk = rules::last_name(link.as_deref().unwrap_or(&mount.source));
        let uuids = self.uuids.get_or_insert_with(|| disks(probes));
        uuids.iter().find(|(name, _)| name == disk).map(|(_, uuid)| uuid.clone())
    }
}

/// Whether a mount has its point on the file with the boot id, or above it in `/proc/sys`. Containers often mount `/proc/sys` on itself.
fn is_over_boot_id(mount: &Mount) -> bool {
    let boot_id = b"/proc/sys/kernel/random/boot_id";
    mount.point == boot_id
        || (mount.point.starts_with(b"/proc/sys")
            && below(boot_id, &mount.point).is_some()
            && mount.kind != b"proc")
}

fn disks(probes: &dyn Probes) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut disks = Vec::new();
    for uuid in probes.names(b"/dev/disk/by-uuid") {
        let link = probes.link(&[b"/dev/disk/by-uuid/", &uuid[..]].concat());
        disks.extend(link.map(|link| (rules::last_name(&link).to_vec(), uuid)));
    }
    for uuid in probes.names(b"/sys/fs/btrfs") {
        let members = probes.names(&[b"/sys/fs/btrfs/", &uuid[..], b"/devices"].concat());
        disks.extend(members.into_iter().map(|disk| (disk, uuid.clone())));
    }
    disks
}

/// The state of one mount while names are made.
#[derive(Clone)]
enum Name {
    Open,
    /// Being made: who comes here again is in a circle.
    Begun,
    Made(Uri),
}

/// Makes the names of all roots.
pub(crate) struct Namer<'a> {
    mounts: &'a [Mount],
    index: &'a Index,
    asker: Asker<'a>,
    names: Vec<Name>,
}

impl<'a> Namer<'a> {
    pub(crate) fn new(mounts: &'a [Mount], index: &'a Index, asker: Asker<'a>) -> Self {
        Self { mounts, index, asker, names: vec![Name::Open; mounts.len()] }
    }

    /// The names, in the order of the mounts, and the addresses that were found.
    pub(crate) fn names(mut self) -> (Vec<Uri>, Addresses) {
        let names = (0..self.mounts.len()).map(|mount| self.name(mount, DEPTH_MAX)).collect();
        // A resolver that does not answer now may answer later.
        self.asker.addresses.retain(|_, addresses| !addresses.is_empty());
        (names, self.asker.addresses)
    }

    fn name(&mut self, mount: usize, depth: u32) -> Uri {
        match &self.names[mount] {
            Name::Made(uri) => return uri.clone(),
            Name::Begun => return self.plain(mount),
            Name::Open => {}
        }
        self.names[mount] = Name::Begun;
        let uri = self.made(mount, depth);
        self.names[mount] = Name::Made(uri.clone());
        uri
    }

    fn made(&mut self, mount: usize, depth: u32) -> Uri {
        let of = &self.mounts[mount];
        self.asker.is_visible = self.index.shows(mount);
        let stacked = match (depth.checked_sub(1), of.rule()) {
            _ if of.is_removed() => None,
            (None, _) => None,
            (Some(depth), UriRule::Device) => self.image(of, depth),
            (Some(depth), UriRule::Layers) => self.layers(of, depth),
            _ => rules::found(of, &mut self.asker),
        };
        match stacked {
            Some(found) => self.uri(of, found),
            None => self.plain(mount),
        }
    }

    /// What the kernel alone says of a mount: its device.
    fn plain(&mut self, mount: usize) -> Uri {
        let of = &self.mounts[mount];
        let on = DeviceOn { host: Arc::clone(&self.asker.host), device: of.device };
        // An image that is not found may be on a server, and so may layers. What is in an upper layer, no other host sees.
        let is_local = match of.rule() {
            _ if of.is_removed() => false,
            UriRule::Device => !of.source.starts_with(b"/dev/loop"),
            UriRule::Layers => of.option("upperdir").is_some(),
            _ => false,
        };
        let holder = if is_local { Holder::Local(on) } else { Holder::Unknown(on) };
        self.uri(of, Found { holder, volume: Vec::new(), prefix: Vec::new() })
    }

    fn uri(&mut self, mount: &Mount, found: Found) -> Uri {
        let has_disk = mount.rule() == UriRule::Device && mount.source.starts_with(b"/dev/");
        let identity = Identity {
            scheme: mount.scheme().to_vec(),
            reach: reach(mount, &found.holder),
            holder: found.holder,
            volume: found.volume,
            device: DeviceOn { host: Arc::clone(&self.asker.host), device: mount.device },
            uuid: if has_disk { self.asker.uuid(mount) } else { None },
            is_one_tree: !mount.is_removed()
                && matches!(mount.rule(), UriRule::Export | UriRule::Dvs | UriRule::NineP | UriRule::PanFs),
            known: mount.known(),
        };
        let root = if mount.is_removed() { removed_root(mount.id) } else { root_suffix(&mount.root) };
        let path = [found.prefix, root].concat();
        Uri::new(Arc::new(identity), path)
    }

    /// The image of a loop device, or of a partition of one.
    fn image(&mut self, mount: &Mount, depth: u32) -> Option<Found> {
        let device = mount.source.strip_prefix(b"/dev/")?;
        let digits = device.strip_prefix(b"loop")?;
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        let (disk, partition) = device.split_at(device.len() - digits.len() + end);
        let of_loop = |name: &[u8]| [b"/sys/block/", disk, b"/loop/", name].concat();
        let file = self.asker.probes.file(&of_loop(b"backing_file"))?;
        // The kernel marks an image that was removed. Its name may belong to another file by now.
        let file = file.strip_suffix(b"\n").unwrap_or(&file);
        if !file.starts_with(b"/") || file.ends_with(b" (deleted)") {
            return None;
        }
        let offset = self.asker.probes.file(&of_loop(b"offset")).unwrap_or_default();
        let offset = offset.trim_ascii_end();
        let offset = if offset.is_empty() { b"0" } else { offset };
        let volume =
            if partition.is_empty() && offset == b"0" { Vec::new() } else { [offset, partition].concat() };
        let image = self.path(file, mount, depth)?;
        Some(Found { holder: Holder::Image(Box::new(image)), volume, prefix: Vec::new() })
    }

    /// The layers of an overlay that cannot be written to. One with an upper layer is local to its kernel: what is written to it, no
    /// other host sees.
    fn layers(&mut self, mount: &Mount, depth: u32) -> Option<Found> {
        if mount.option("upperdir").is_some() {
            return None;
        }
        let layers = rules::lower_layers(mount);
        let layers = layers.iter().map(|layer| self.path(layer, mount, depth)).collect::<Option<Vec<_>>>()?;
        (!layers.is_empty()).then(|| Found {
            holder: Holder::Layers(layers),
            volume: Vec::new(),
            prefix: Vec::new(),
        })
    }

    /// The name of a path that lies below a mount. None: it is relative to a directory that is not known, or here it leads back
    /// to the mount, so that it was meant in another namespace.
    fn path(&mut self, path: &[u8], above: &Mount, depth: u32) -> Option<Uri> {
        let path = normal(path)?;
        let mount = self.index.find(&path)?;
        if self.mounts[mount].device == above.device || matches!(self.names[mount], Name::Begun) {
            return None;
        }
        let root = self.name(mount, depth);
        let rest = below(without_root_slash(&path), without_root_slash(&self.mounts[mount].point))?;
        Some(root.below(rest))
    }
}

/// Where the data of a mount is, with what lies below it.
fn reach(mount: &Mount, holder: &Holder) -> Reach {
    let all = |reaches: &mut dyn Iterator<Item = Reach>| {
        let worst = |one, two| match (one, two) {
            (Reach::Local, other) | (other, Reach::Local) => other,
            (Reach::Remote, _) | (_, Reach::Remote) => Reach::Remote,
            (other, _) => other,
        };
        reaches.fold(Reach::Local, worst)
    };
    match holder {
        Holder::Image(image) => image.identity().reach,
        Holder::Layers(layers) => all(&mut layers.iter().map(|layer| layer.identity().reach)),
        Holder::Unknown(_) if mount.reach() == Reach::Local => Reach::Unknown,
        _ => mount.reach(),
    }
}
