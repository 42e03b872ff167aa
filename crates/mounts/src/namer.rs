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
/// contain the names of all that lies below, so that deeper stacks would have names without bound: they are unknown. Other ranks decode names
/// as deep as this.
pub(crate) const DEPTH_MAX: u32 = 4;

/// How many names one name may contain: the kernel takes 500 layers for an overlay. With more it is unknown.
const NAMES_MAX: usize = 1024;

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

/// What an image or layers are made of, before the names of the mounts below it are known.
struct Stack {
    /// Mounts with a path in each: one for an image, the topmost layer first for an overlay.
    parts: Vec<(usize, Vec<u8>)>,
    /// Of an image, the part of the device.
    volume: Vec<u8>,
    is_image: bool,
}

/// The state of one mount while names are made.
enum Name {
    Stack(Stack),
    /// With the number of names in it.
    Made(Uri, usize),
}

/// Makes the names of all roots.
pub(crate) struct Namer<'a> {
    mounts: &'a [Mount],
    index: &'a Index,
    asker: Asker<'a>,
}

impl<'a> Namer<'a> {
    pub(crate) const fn new(mounts: &'a [Mount], index: &'a Index, asker: Asker<'a>) -> Self {
        Self { mounts, index, asker }
    }

    /// The names, in the order of the mounts, and the addresses that were found. Each round names what lies on mounts that are named already, so
    /// that names do not depend on the order of mounts. What is left lies too deep, or in a circle.
    pub(crate) fn names(mut self) -> (Vec<Uri>, Addresses) {
        let mut names: Vec<_> = (0..self.mounts.len()).map(|mount| self.begun(mount)).collect();
        for _ in 0..DEPTH_MAX {
            let made: Vec<_> =
                (0..).zip(&names).filter_map(|(mount, name)| self.stacked(mount, name, &names)).collect();
            if made.is_empty() {
                break;
            }
            made.into_iter().for_each(|(mount, uri, count)| names[mount] = Name::Made(uri, count));
        }
        let name = |(mount, name)| match name {
            Name::Made(uri, _) => uri,
            Name::Stack(_) => self.plain(mount),
        };
        let names = (0..).zip(names).map(name).collect();
        // A resolver that does not answer now may answer later.
        self.asker.addresses.retain(|_, addresses| !addresses.is_empty());
        (names, self.asker.addresses)
    }

    /// The name of a mount that does not depend on others.
    fn begun(&mut self, mount: usize) -> Name {
        let of = &self.mounts[mount];
        self.asker.is_visible = self.index.shows(mount);
        let stack = match of.rule() {
            _ if of.is_removed() => None,
            UriRule::Device => self.image(of),
            UriRule::Layers => self.layers(of),
            _ => {
                let found = rules::found(of, &mut self.asker);
                let uri = found.map(|found| self.uri(of, found));
                return Name::Made(uri.unwrap_or_else(|| self.plain(mount)), 1);
            }
        };
        stack.map_or_else(|| Name::Made(self.plain(mount), 1), Name::Stack)
    }

    /// The name of an image or overlay, with the number of names in it. None: it has one already, or some part has none yet.
    fn stacked(&mut self, mount: usize, name: &Name, names: &[Name]) -> Option<(usize, Uri, usize)> {
        let Name::Stack(stack) = name else { return None };
        let mut count = 1;
        let part = |(below, path): &(usize, Vec<u8>)| match &names[*below] {
            Name::Made(uri, more) => {
                count += more;
                Some(uri.below(path))
            }
            Name::Stack(_) => None,
        };
        let mut parts = stack.parts.iter().map(part).collect::<Option<Vec<_>>>()?;
        if count > NAMES_MAX {
            return Some((mount, self.plain(mount), 1));
        }
        let holder =
            if stack.is_image { Holder::Image(Box::new(parts.pop()?)) } else { Holder::Layers(parts) };
        let found = Found { holder, volume: stack.volume.clone(), prefix: Vec::new() };
        Some((mount, self.uri(&self.mounts[mount], found), count))
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
    fn image(&self, mount: &Mount) -> Option<Stack> {
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
        Some(Stack { parts: vec![self.path(file, mount)?], volume, is_image: true })
    }

    /// The layers of an overlay that cannot be written to. One with an upper layer is local to its kernel: what is written to it, no
    /// other host sees.
    fn layers(&self, mount: &Mount) -> Option<Stack> {
        if mount.option("upperdir").is_some() {
            return None;
        }
        let layers = rules::lower_layers(mount);
        let parts = layers.iter().map(|layer| self.path(layer, mount)).collect::<Option<Vec<_>>>()?;
        (!parts.is_empty()).then_some(Stack { parts, volume: Vec::new(), is_image: false })
    }

    /// The mount of a path that lies below another mount, and the path in it. None: it is relative to a directory that is not known, or here
    /// it leads back to the mount, so that it was meant in another namespace.
    fn path(&self, path: &[u8], above: &Mount) -> Option<(usize, Vec<u8>)> {
        let path = normal(path)?;
        let mount = self.index.find(&path).filter(|mount| self.mounts[*mount].device != above.device)?;
        let rest = below(without_root_slash(&path), without_root_slash(&self.mounts[mount].point))?;
        Some((mount, rest.to_vec()))
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
