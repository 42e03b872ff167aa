//! The global name of a file: what holds its file system, and its path there. Equal names mean equal files. Made from memory; it follows no
//! links, and knows nothing of hard links.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::aliases::Aliases;
use crate::identity::{DeviceOn, Holder, Identity, Relation};
use crate::path::without_root_slash;
use crate::server::{Server, Servers};

/// The name of a file or directory. Two of them have three names each:
///
/// - [`canonical`](Self::canonical): bytes that are equal for equal files; for hashes and classes.
/// - [`Display`](fmt::Display): for people, with host names as the mount has them.
/// - [`relation`](Self::relation): where texts differ, whether files do, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    identity: Arc<Identity>,
    /// Path from the top of the volume; the top itself is empty.
    path: Vec<u8>,
}

impl Uri {
    pub(crate) const fn new(identity: Arc<Identity>, path: Vec<u8>) -> Self {
        Self { identity, path }
    }

    /// The name of something below this directory; `rest` is empty or begins with a slash.
    pub(crate) fn below(&self, rest: &[u8]) -> Self {
        let mut path = Vec::with_capacity(self.path.len() + rest.len());
        path.extend_from_slice(&self.path);
        path.extend_from_slice(rest);
        Self { identity: Arc::clone(&self.identity), path }
    }

    /// The file system.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Path from the top of the export, share or volume: wherever that is mounted, and whatever part of it. The top itself is empty.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The name of the top of its volume: the same for all files of one export, share or local file system.
    #[must_use]
    pub fn file_system(&self) -> Self {
        Self { identity: Arc::clone(&self.identity), path: Vec::new() }
    }

    /// Calls `each` with each file system of servers: that of this name, and those of the images and layers in it.
    pub fn each_servers(&self, each: &mut dyn FnMut(&Identity, &Servers)) {
        match &self.identity.holder {
            Holder::Servers(servers) => each(&self.identity, servers),
            Holder::Image(image) => image.each_servers(each),
            Holder::Layers(layers) => layers.iter().for_each(|layer| layer.each_servers(each)),
            Holder::Cluster(_) | Holder::Local(_) | Holder::Unknown(_) => {}
        }
    }

    /// The same name with what other hosts know of its servers: `more` gets a file system and its servers, and returns other names and
    /// addresses of these ([`Aliases::firsts`] does). Images and layers get theirs, too.
    #[must_use]
    pub fn with_servers(&self, more: &dyn Fn(&Identity, &Servers) -> Vec<Server>) -> Self {
        let holder = match &self.identity.holder {
            Holder::Servers(servers) => {
                let mut servers = servers.clone();
                let found = more(&self.identity, &servers);
                servers.add(found);
                Holder::Servers(servers)
            }
            Holder::Image(image) => Holder::Image(Box::new(image.with_servers(more))),
            Holder::Layers(layers) => {
                Holder::Layers(layers.iter().map(|layer| layer.with_servers(more)).collect())
            }
            Holder::Cluster(_) | Holder::Local(_) | Holder::Unknown(_) => return self.clone(),
        };
        let identity = Identity { holder, ..(*self.identity).clone() };
        Self { identity: Arc::new(identity), path: self.path.clone() }
    }

    /// Whether both are on one file system.
    #[must_use]
    pub fn file_system_relation(&self, other: &Self) -> Relation {
        if Arc::ptr_eq(&self.identity, &other.identity) {
            Relation::Same
        } else {
            self.identity.relation(&other.identity)
        }
    }

    /// Whether both are on one file system, as far as that is known.
    #[must_use]
    pub fn is_same_file_system(&self, other: &Self) -> bool {
        self.file_system_relation(other) == Relation::Same
    }

    /// Whether both are one file.
    #[must_use]
    pub fn relation(&self, other: &Self) -> Relation {
        let (one, two) = (&*self.identity, &*other.identity);
        if one.is_one_tree && two.is_one_tree {
            return self.relation_in_a_tree(other);
        }
        match one.relation(two) {
            Relation::Different => Relation::Different,
            Relation::Same => self.path_relation(other),
            // Paths from the top of one volume are other files, whoever holds them.
            Relation::Unknown if one.volume == two.volume && one.is_named() && two.is_named() => {
                let paths = self.path_relation(other);
                if paths == Relation::Different { paths } else { Relation::Unknown }
            }
            Relation::Unknown => Relation::Unknown,
        }
    }

    /// Two files of servers on which volumes lie in each other.
    fn relation_in_a_tree(&self, other: &Self) -> Relation {
        let (one, two) = (&*self.identity, &*other.identity);
        let is_same = self.full_path() == other.full_path();
        match one.holder_relation(two) {
            Relation::Same => Relation::of(is_same),
            Relation::Unknown if one.has_device_of(two) && is_same => Relation::Same,
            other => other,
        }
    }

    /// For files of one file system.
    fn path_relation(&self, other: &Self) -> Relation {
        if removed_part(&self.path) != removed_part(&other.path)
            || self.identity.volume != other.identity.volume
        {
            // Where the directory was, or to which of two names of a volume the path belongs, is not known.
            return Relation::Unknown;
        }
        Relation::of(self.path == other.path)
    }

    /// Volume and path. A volume that may have a name has a place, also where the name is not known: otherwise the first name of the path
    /// would stand there.
    fn full_path(&self) -> Cow<'_, [u8]> {
        let Identity { volume, scheme, .. } = &*self.identity;
        let has_place = !volume.is_empty() || (scheme == b"ceph" && self.identity.is_held());
        if !has_place {
            return Cow::Borrowed(&self.path);
        }
        Cow::Owned([b"/", &volume[..], &self.path].concat())
    }

    /// The name in bytes that are the same on all hosts for one file, as far as its server is known by the same names there.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        self.canonical_with(&Aliases::default())
    }

    /// The same with what several hosts know of names and addresses of servers.
    #[must_use]
    pub fn canonical_with(&self, aliases: &Aliases) -> Vec<u8> {
        let text = Text {
            servers: &|identity, servers| aliases.text_of(identity, servers),
            device: &canonical_device,
            kernel: &canonical_kernel,
        };
        let mut out = Vec::with_capacity(64 + self.path.len());
        text.write(self, &mut out);
        out
    }

    /// A hash of the canonical name: equal on all ranks for equal names, of other names with a probability of 2^-128.
    #[must_use]
    pub fn hash(&self) -> [u8; 16] {
        self.hash_with(&Aliases::default())
    }

    /// The same with what several hosts know of names and addresses of servers.
    #[must_use]
    pub fn hash_with(&self, aliases: &Aliases) -> [u8; 16] {
        let mut hash = [0; 16];
        hash.copy_from_slice(&blake3::hash(&self.canonical_with(aliases)).as_bytes()[..16]);
        hash
    }
}

/// How the path of a removed directory that is still mounted begins: no other path has two slashes.
const REMOVED: &[u8] = b"//removed.";

/// The path of a removed directory that is still mounted. Only the number of the mount identifies it.
pub(crate) fn removed_root(mount: u64) -> Vec<u8> {
    [REMOVED, mount.to_string().as_bytes()].concat()
}

/// The removed directory that a path counts from. Empty: none.
fn removed_part(path: &[u8]) -> &[u8] {
    let Some(rest) = path.strip_prefix(REMOVED) else { return b"" };
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    &rest[..end]
}

impl fmt::Display for Uri {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Text {
            servers: &|_, servers| servers.shown().to_vec(),
            device: &shown_device,
            kernel: &|_| Vec::new(),
        };
        let mut bytes = Vec::new();
        text.write(self, &mut bytes);
        // All bytes beyond ASCII are escaped.
        out.write_str(&String::from_utf8_lossy(&bytes))
    }
}

fn canonical_device(on: &DeviceOn) -> Vec<u8> {
    [device(on).as_bytes(), b"@", &on.host.boot_id].concat()
}

/// Where the path of an image or layer was looked up.
fn canonical_kernel(on: &DeviceOn) -> Vec<u8> {
    [b"@", &on.host.boot_id[..]].concat()
}

fn shown_device(on: &DeviceOn) -> Vec<u8> {
    [device(on).as_bytes(), b"@", &on.host.name].concat()
}

fn device(on: &DeviceOn) -> String {
    format!("{}:{}", on.device.major, on.device.minor)
}

/// How holders are written.
struct Text<'a> {
    servers: &'a dyn Fn(&Identity, &Servers) -> Vec<u8>,
    device: &'a dyn Fn(&DeviceOn) -> Vec<u8>,
    kernel: &'a dyn Fn(&DeviceOn) -> Vec<u8>,
}

impl Text<'_> {
    /// `SCHEME://HOLDER/VOLUME/PATH`; holders that are files stand in brackets, which are escaped everywhere else but in addresses.
    fn write(&self, uri: &Uri, out: &mut Vec<u8>) {
        let identity = &uri.identity;
        escape(&identity.scheme, b"+.-_", out);
        out.extend_from_slice(b"://");
        match &identity.holder {
            Holder::Servers(servers) => escape(&(self.servers)(identity, servers), b"[]:@,.-_", out),
            Holder::Cluster(id) => escape(id, b":@.-_", out),
            Holder::Local(on) | Holder::Unknown(on) => escape(&(self.device)(on), b":@.-_", out),
            Holder::Image(image) => {
                self.write_inner(std::slice::from_ref(image), out);
                escape(&identity.volume, b"", out);
                escape(&(self.kernel)(&identity.device), b"@.-_", out);
            }
            Holder::Layers(layers) => {
                self.write_inner(layers, out);
                escape(&(self.kernel)(&identity.device), b"@.-_", out);
            }
        }
        let path = if matches!(identity.holder, Holder::Image(_)) {
            Cow::Borrowed(&uri.path[..])
        } else {
            uri.full_path()
        };
        escape(if path.is_empty() { b"/" } else { &path }, b"/.-_~:@=+,", out);
    }

    fn write_inner(&self, uris: &[impl std::borrow::Borrow<Uri>], out: &mut Vec<u8>) {
        for uri in uris {
            out.push(b'[');
            self.write(uri.borrow(), out);
            out.push(b']');
        }
    }
}

/// Appends text in which letters, digits and `plain` stand for themselves, and other bytes as `%` and two digits.
fn escape(text: &[u8], plain: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in text {
        if byte.is_ascii_alphanumeric() || plain.contains(byte) {
            out.push(*byte);
        } else {
            out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

/// A path as the end of another one: `/a/b`, or empty for the root.
pub(crate) fn as_suffix(path: &[u8]) -> Vec<u8> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.flat_map(|name| [b"/", name].concat()).collect()
}

/// The root of a mount as the end of a path.
pub(crate) fn root_suffix(root: &[u8]) -> Vec<u8> {
    let root = without_root_slash(root);
    if root.is_empty() || root.starts_with(b"/") { root.to_vec() } else { [b"/", root].concat() }
}
