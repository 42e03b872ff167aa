//! What cannot be read from the mount table and is asked of the system when a table is built: never about a path that is looked up. A
//! trait, so that tests answer by themselves and a deadline can be put around the real answers. An answer that does not come is none.

use std::net::IpAddr;

/// This running kernel, and who it is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Random number of this start of the kernel (`/proc/sys/kernel/random/boot_id`): the same in all containers of a machine.
    pub boot_id: Vec<u8>,
    /// Host name. Only shown: containers of a machine have several, and two machines may have the same.
    pub name: Vec<u8>,
    /// Number of the network namespace, in which loopback addresses have their meaning.
    pub network: Vec<u8>,
    /// Something is mounted over the file with the boot id, as systemd-nspawn and LXC do: then it is not that of the kernel, and two boot
    /// ids may be one kernel. The mount table shows it.
    pub hides_boot_id: bool,
}

impl Host {
    /// A host with the first network namespace.
    #[must_use]
    pub fn new(boot_id: &[u8], name: &[u8]) -> Self {
        Self { boot_id: boot_id.to_vec(), name: name.to_vec(), network: Vec::new(), hides_boot_id: false }
    }
}

/// What is asked. Each question may take as long as a server or resolver takes. A question that is not implemented has no answer.
pub trait Probes {
    /// This host. Asked once.
    fn host(&self) -> Host;

    /// Contents of a small file: configurations, `/sys`, `/proc`.
    fn file(&self, _path: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Target of a symbolic link.
    fn link(&self, _path: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Names in a small directory, in any order.
    fn names(&self, _directory: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// An extended attribute of the root of a mount.
    fn attribute(&self, _mount_point: &[u8], _name: &str) -> Option<Vec<u8>> {
        None
    }

    /// Addresses of a server, in any order.
    fn addresses(&self, _server: &[u8]) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// Answers nothing but the host: what the mount table alone says.
#[derive(Clone, Debug)]
pub struct Silent {
    host: Host,
}

impl Silent {
    /// Probes that know only this.
    #[must_use]
    pub const fn on(host: Host) -> Self {
        Self { host }
    }
}

impl Probes for Silent {
    fn host(&self) -> Host {
        self.host.clone()
    }
}
