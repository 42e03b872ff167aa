//! The answers of this host. Each call waits as long as the system does; there is no deadline here.

use std::ffi::{CString, OsStr};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;

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
/// Opens without waiting, and never a terminal to keep.
#[expect(clippy::cast_possible_wrap, reason = "flags are bits")]
const NO_WAIT: i32 = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY).bits() as i32;
/// The most names of a directory that count: disks of a host.
const NAMES_MAX: usize = 65_536;

impl SystemProbes {
    /// Asks which host this is.
    ///
    /// # Errors
    /// The boot id cannot be read: without it, local file systems of two hosts look alike.
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
        // A mount option names the path: a pipe would wait for a writer.
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(NO_WAIT);
        let file = options.open(OsStr::from_bytes(path)).ok().filter(is_regular)?;
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

fn is_regular(file: &std::fs::File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
}

fn target(path: &[u8]) -> Option<Vec<u8>> {
    rustix::fs::readlink(path, Vec::new()).ok().map(CString::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The path of a configuration is an option of the mount, which users may choose.
    #[test]
    fn pipes_and_devices_are_no_files() {
        let scratch = atta_testkit::scratch::Scratch::new("pipe").unwrap();
        let probes = SystemProbes::new().unwrap();
        let bytes = |name: &str| scratch.join(name).into_os_string().into_encoded_bytes();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &bytes("pipe")[..],
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert_eq!((probes.file(&bytes("pipe")), probes.file(b"/dev/zero")), (None, None));
        std::fs::write(scratch.join("file"), "x").unwrap();
        assert_eq!(probes.file(&bytes("file")).as_deref(), Some(&b"x"[..]));
        assert!(probes.file(b"/proc/self/mountinfo").is_some_and(|text| !text.is_empty()));
    }
}
