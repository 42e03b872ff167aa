//! Answers that a test writes down, and tables of lines without their first fields. It asks no system.

use std::collections::BTreeMap;
use std::net::IpAddr;

use atta_mounts::{Host, MountTable, Probes, Uri};

/// Answers by question. What is not there has no answer.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    pub(crate) host: Host,
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) links: BTreeMap<String, String>,
    /// By mount point and name.
    pub(crate) attributes: BTreeMap<(String, String), String>,
    pub(crate) addresses: BTreeMap<String, Vec<IpAddr>>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

impl Answers {
    /// A host that knows nothing else.
    pub(crate) fn on(boot: &str, name: &str) -> Self {
        Self {
            host: Host::new(boot.as_bytes(), name.as_bytes()),
            files: BTreeMap::new(),
            links: BTreeMap::new(),
            attributes: BTreeMap::new(),
            addresses: BTreeMap::new(),
        }
    }

    pub(crate) fn files(mut self, files: &[(&str, &str)]) -> Self {
        self.files = map(files);
        self
    }

    pub(crate) fn links(mut self, links: &[(&str, &str)]) -> Self {
        self.links = map(links);
        self
    }

    pub(crate) fn attribute(mut self, point: &str, name: &str, value: &str) -> Self {
        self.attributes.insert((point.to_owned(), name.to_owned()), value.to_owned());
        self
    }

    pub(crate) fn address(mut self, name: &str, addresses: &[&str]) -> Self {
        self.addresses.insert(
            name.to_owned(),
            addresses.iter().map(|each| each.parse().expect("an address")).collect(),
        );
        self
    }

    /// A table of mounts on a root: each line without its first two fields.
    pub(crate) fn table(&self, lines: &[&str]) -> MountTable {
        let root = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n".to_owned();
        let numbered = (2..).zip(lines).map(|(id, line)| format!("{id} 1 {line}\n"));
        let text: String = std::iter::once(root).chain(numbered).collect();
        MountTable::from_bytes(text.as_bytes(), self).expect("a table")
    }

    /// The name of a path with one mount on the root.
    pub(crate) fn uri(&self, line: &str, path: &str) -> Uri {
        self.table(&[line]).uri_of(path.as_bytes()).expect("a mount")
    }
}

impl Probes for Answers {
    fn host(&self) -> Host {
        self.host.clone()
    }

    fn file(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.files.get(&text(path)).map(|contents| contents.clone().into_bytes())
    }

    fn link(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.links.get(&text(path)).map(|target| target.clone().into_bytes())
    }

    fn names(&self, directory: &[u8]) -> Vec<Vec<u8>> {
        let prefix = text(directory) + "/";
        let below = |path: &String| {
            path.strip_prefix(&prefix).map(|rest| rest.split('/').next().unwrap_or(rest).into())
        };
        let mut names: Vec<Vec<u8>> = self.files.keys().chain(self.links.keys()).filter_map(below).collect();
        names.dedup();
        names
    }

    fn attribute(&self, mount_point: &[u8], name: &str) -> Option<Vec<u8>> {
        self.attributes.get(&(text(mount_point), name.to_owned())).map(|value| value.clone().into_bytes())
    }

    fn addresses(&self, server: &[u8]) -> Vec<IpAddr> {
        self.addresses.get(&text(server)).cloned().unwrap_or_default()
    }
}
