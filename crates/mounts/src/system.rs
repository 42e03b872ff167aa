//! The answers of this host. Each call waits as long as the system does; there is no deadline here.

use std::ffi::{CString, OsStr};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;

use atta_entry::Errno;
use atta_sys::{names_of, open_directory_path};
use rustix::io::Errno as SystemError;

use crate::probes::{Host, Probes};

/// Asks the kernel, its pseudo file systems and the resolver of the C library.
#[derive(Clone, Debug)]
pub struct SystemProbes {
    host: Host,
}

/// The most bytes of a file or attribute that count.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The most names of a directory that count: disks of a host.
const NAMES_MAX: usize = 65_536;

impl SystemProbes {
    /// Asks which host this is.
    ///
    /// # Errors
    /// The boot id cannot be read: without it nothing of this host can be told from the same on another one.
    pub fn new() -> Result<Self, Errno> {
        let boot_id = std::fs::read("/proc/sys/kernel/random/boot_id");
        let boot_id = boot_id.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::IO.0)))?;
        let name = rustix::system::uname().nodename().to_bytes().to_vec();
        let network = target(b"/proc/self/ns/net").unwrap_or_default();
        let number = network.iter().copied().filter(u8::is_ascii_digit).collect();
        Ok(Self {
            host: Host {
                boot_id: boot_id.trim_ascii().to_vec(),
                name,
                network: number,
                hides_boot_id: false,
            },
        })
    }
}

impl Probes for SystemProbes {
    fn host(&self) -> Host {
        self.host.clone()
    }

    fn file(&self, path: &[u8]) -> Option<Vec<u8>> {
        use std::io::Read as _;
        let mut contents = Vec::new();
        let file = std::fs::File::open(OsStr::from_bytes(path)).ok()?;
        file.take(FILE_BYTES_MAX as u64).read_to_end(&mut contents).ok()?;
        Some(contents)
    }

    fn link(&self, path: &[u8]) -> Option<Vec<u8>> {
        target(path)
    }

    fn names(&self, directory: &[u8]) -> Vec<Vec<u8>> {
        let names = open_directory_path(directory, true).and_then(|opened| names_of(opened, NAMES_MAX));
        names.unwrap_or_default().into_iter().map(CString::into_bytes).collect()
    }

    fn attribute(&self, mount_point: &[u8], name: &str) -> Option<Vec<u8>> {
        let mut value = vec![0; 256];
        loop {
            match rustix::fs::getxattr(mount_point, name, &mut value) {
                Ok(length) => {
                    value.truncate(length);
                    return Some(value);
                }
                Err(SystemError::RANGE) if value.len() < FILE_BYTES_MAX => value.resize(value.len() * 2, 0),
                Err(SystemError::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    fn addresses(&self, server: &[u8]) -> Vec<IpAddr> {
        let Ok(name) = std::str::from_utf8(server) else { return Vec::new() };
        (name, 0).to_socket_addrs().map(|found| found.map(|each| each.ip()).collect()).unwrap_or_default()
    }
}

fn target(path: &[u8]) -> Option<Vec<u8>> {
    rustix::fs::readlink(path, Vec::new()).ok().map(CString::into_bytes)
}
