//! Emulated hosts: each rank gets a mount table from text, whose mount points are real directories of one scratch directory. So questions are
//! answered as on a cluster, and files can be opened. What is emulated as a local disk of each host is one real directory.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use atta_mounts::{Host, MountTable, Silent, resolved};
use atta_runtime::Session;
use atta_testkit::scratch::Scratch;

use crate::job::Failure;

/// The scratch directory of a run: one for all ranks, made by rank 0 and removed with its value there.
#[derive(Debug)]
pub struct Site {
    path: Vec<u8>,
    _scratch: Option<Scratch>,
}

impl Site {
    /// Makes the directory, and lets rank 0 fill it. All ranks call this. It must live on rank 0 until all ranks are done with it.
    ///
    /// # Errors
    /// It cannot be made, or the ranks cannot communicate.
    pub fn share(
        session: &mut Session<'_>,
        name: &str,
        fill: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Self, Failure> {
        let made = session.is_first().then(|| Scratch::new(name)).transpose()?;
        let own = made.as_ref().map(|scratch| {
            fill(scratch.path())?;
            // Names do not follow links, so the path must have none.
            let path = scratch.path().to_path_buf().into_os_string().into_vec();
            resolved(&path)
                .map_err(|errno| Failure::new(format!("cannot resolve the scratch directory: {errno}")))
        });
        let path = session.broadcast(own.transpose()?)?;
        Ok(Self { path, _scratch: made })
    }

    /// The path of something in it.
    #[must_use]
    pub fn path(&self, name: &str) -> Vec<u8> {
        [&self.path[..], b"/", name.as_bytes()].concat()
    }

    /// The same for calls of the standard library.
    #[must_use]
    pub fn real(&self, name: &str) -> std::path::PathBuf {
        Path::new(OsStr::from_bytes(&self.path)).join(name)
    }

    /// A path without the scratch directory.
    #[must_use]
    pub fn short<'p>(&self, path: &'p [u8]) -> std::borrow::Cow<'p, str> {
        String::from_utf8_lossy(path.strip_prefix(&self.path[..]).unwrap_or(path))
    }
}

/// The mount table of an emulated host: a read-only root, and directories of the site as mount points, each with its type, source and options.
///
/// # Errors
/// What is mounted is no part of a line of mountinfo.
pub fn host_table(site: &Site, host: u32, mounts: &[(&str, String)]) -> Result<MountTable, Failure> {
    let mut text = b"1 0 8:1 / / ro - ext4 /dev/sda1 ro\n".to_vec();
    for (number, (directory, what)) in (2..).zip(mounts) {
        text.extend_from_slice(format!("{number} 1 0:{} / ", 40 + number).as_bytes());
        text.extend(escaped(&site.path(directory)));
        text.extend_from_slice(format!(" rw - {what}\n").as_bytes());
    }
    let own = Host::new(format!("boot-{host}").as_bytes(), format!("node{host}").as_bytes());
    Ok(MountTable::from_bytes(&text, &Silent::on(own))?)
}

/// A path as in mountinfo: in octal what separates fields and lines.
fn escaped(path: &[u8]) -> Vec<u8> {
    let escape = |byte: &u8| match byte {
        b' ' | b'\t' | b'\n' | b'\\' => format!("\\{byte:03o}").into_bytes(),
        byte => vec![*byte],
    };
    path.iter().flat_map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Fabric, join};

    #[test]
    fn mount_points_are_real_directories() {
        let ended = Fabric::Threads.run(3, |endpoint| {
            let rank = endpoint.rank();
            let mut session = join(endpoint, "test")?;
            let fill = |top: &Path| {
                std::fs::create_dir(top.join("a b")).and_then(|()| std::fs::write(top.join("a b/f"), b"x"))
            };
            let site = Site::share(&mut session, "site", fill)?;
            let table = host_table(&site, rank, &[("a b", "nfs4 10.0.0.5:/e rw".to_owned())])?;
            let uri = table.uri_of(&site.path("a b/f")).map(|uri| uri.to_string());
            let found = (uri, std::fs::read(site.real("a b/f"))?, site.short(&site.path("a b")).into_owned());
            session.close((), |(), ()| ())?;
            assert_eq!(found, (Some("nfs://10.0.0.5/e/f".to_owned()), b"x".to_vec(), "/a b".to_owned()));
            Ok(site.path)
        });
        let path = ended.expect("no rank fails");
        assert!(!Path::new(OsStr::from_bytes(&path)).exists(), "it is removed");
    }
}
