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

    /// Calls `each` with the scheme and the servers of this name, and of the images and layers in it.
    pub fn each_servers(&self, each: &mut dyn FnMut(&[u8], &Servers)) {
        match &self.identity.holder {
            Holder::Servers(servers) => each(&self.identity.scheme, servers),
            Holder::Image(image) => image.each_servers(each),
            Holder::Layers(layers) => layers.iter().for_each(|layer| layer.each_servers(each)),
            Holder::Cluster(_) | Holder::Local(_) | Holder::Unknown(_) => {}
        }
    }

    /// The same name with what other hosts know of its servers: `more` gets a scheme and servers, and returns other names and addresses of
    /// these. Images and layers get theirs, too.
    #[must_use]
    pub fn with_servers(&self, more: &dyn Fn(&[u8], &Servers) -> Vec<Server>) -> Self {
        let holder = match &self.identity.holder {
            Holder::Servers(servers) => {
                let mut servers = servers.clone();
                servers.add(more(&self.identity.scheme, &servers));
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
        let is_one_tree = one.is_one_tree && two.is_one_tree;
        let holders = if is_one_tree { one.holder_relation(two) } else { one.relation(two) };
        if holders == Relation::Unknown && !is_named(one, two) {
            return Relation::Unknown;
        }
        holders.and(|| self.path_relation(other))
    }

    fn path_relation(&self, other: &Self) -> Relation {
        let is_same = self.full_path() == other.full_path();
        // A directory of CephFS that is known by its inode has a path that nobody here knows.
        let is_numbered = |uri: &Self| uri.identity.scheme == b"ceph" && uri.path.starts_with(b"/#");
        if !is_same && (is_numbered(self) || is_numbered(other)) {
            return Relation::Unknown;
        }
        Relation::of(is_same)
    }

    /// Volume and path.
    fn full_path(&self) -> Cow<'_, [u8]> {
        let volume = &self.identity.volume;
        if volume.is_empty() {
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
        let text = Text { servers: &|servers| aliases.text_of(servers), device: &canonical_device };
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

/// Whether the volume and the path within it are known, so that other paths are other files whoever holds them.
fn is_named(one: &Identity, two: &Identity) -> bool {
    let is_named = |identity: &Identity| matches!(identity.holder, Holder::Servers(_) | Holder::Cluster(_));
    is_named(one) && is_named(two) && one.volume.is_empty() == two.volume.is_empty()
}

impl fmt::Display for Uri {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Text { servers: &|servers| servers.shown().to_vec(), device: &shown_device };
        let mut bytes = Vec::new();
        text.write(self, &mut bytes);
        // All bytes beyond ASCII are escaped.
        out.write_str(&String::from_utf8_lossy(&bytes))
    }
}

fn canonical_device(on: &DeviceOn) -> Vec<u8> {
    [device(on).as_bytes(), b"@", &on.host.boot_id].concat()
}

fn shown_device(on: &DeviceOn) -> Vec<u8> {
    [device(on).as_bytes(), b"@", &on.host.name].concat()
}

fn device(on: &DeviceOn) -> String {
    format!("{}:{}", on.device.major, on.device.minor)
}

/// How holders are written.
struct Text<'a> {
    servers: &'a dyn Fn(&Servers) -> Vec<u8>,
    device: &'a dyn Fn(&DeviceOn) -> Vec<u8>,
}

impl Text<'_> {
    /// `SCHEME://HOLDER/VOLUME/PATH`; holders that are files stand in brackets, which are escaped everywhere else but in addresses.
    fn write(&self, uri: &Uri, out: &mut Vec<u8>) {
        let identity = &uri.identity;
        escape(&identity.scheme, b"+.-_", out);
        out.extend_from_slice(b"://");
        match &identity.holder {
            Holder::Servers(servers) => escape(&(self.servers)(servers), b"[]:@,.-_", out),
            Holder::Cluster(id) => escape(id, b":@.-_", out),
            Holder::Local(on) | Holder::Unknown(on) => escape(&(self.device)(on), b":@.-_", out),
            Holder::Image(image) => self.write_inner(std::slice::from_ref(image), out),
            Holder::Layers(layers) => self.write_inner(layers, out),
        }
        let path = uri.full_path();
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

/// The root of a mount as the end of a path. It is kept as it is: `//deleted` at its end is no name.
pub(crate) fn root_suffix(root: &[u8]) -> Vec<u8> {
    let root = without_root_slash(root);
    if root.is_empty() || root.starts_with(b"/") { root.to_vec() } else { [b"/", root].concat() }
}
