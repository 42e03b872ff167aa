//! Directories that become mounts on first access (autofs), as home directories on clusters do. The daemon that mounts is a one-page Python
//! program: answers go to the kernel through ioctls, which need unsafe code. Mounts do not expire.

use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::mounts::{detach_below, require_root};

const DAEMON: &str = include_str!("automounter.py");
const ENODEV: i32 = 19;

/// An autofs whose directories are mounted on access. Dropping it unmounts all of them.
#[derive(Debug)]
pub struct Automounts {
    path: PathBuf,
    daemon: Child,
}

impl Automounts {
    /// Mounts the autofs on an existing directory. An access to one of `names` mounts a tmpfs with a file `file` that holds the name. An
    /// access to `refused` fails (ENOENT).
    ///
    /// # Errors
    /// `PermissionDenied` without root; `Unsupported` without Python or a kernel with autofs; otherwise the error from mounting.
    pub fn on(path: &Path, names: &[&str]) -> io::Result<Self> {
        require_root()?;
        let daemon =
            Command::new("python3").args(["-c", DAEMON]).arg(path).args(names).stdout(Stdio::piped()).spawn();
        let daemon = daemon.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(io::ErrorKind::Unsupported, "python3 is not installed"),
            _ => error,
        })?;
        let mut automounts = Self { path: path.to_path_buf(), daemon };
        let mut said = String::new();
        if let Some(output) = automounts.daemon.stdout.take() {
            BufReader::new(output).read_line(&mut said)?;
        }
        match said.trim().split_once(' ') {
            None if said == "ready\n" => Ok(automounts),
            Some(("errno", errno)) => Err(match errno.parse() {
                Ok(ENODEV) => io::Error::new(io::ErrorKind::Unsupported, "the kernel has no autofs"),
                Ok(errno) => io::Error::from_raw_os_error(errno),
                Err(_) => io::Error::other(said),
            }),
            _ => Err(io::Error::other(format!("the automounter said {said:?}"))),
        }
    }
}

impl Drop for Automounts {
    fn drop(&mut self) {
        if let Err(error) = detach_below(&self.path) {
            crate::skip::note(&format!("cannot unmount {}: {error}", self.path.display()));
        }
        // The daemon holds the root of its mount, which no other process can reach.
        let _gone = self.daemon.kill();
        let _status = self.daemon.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;
    use crate::mounts::mounted;
    use crate::scratch::Scratch;
    use crate::skip;

    #[test]
    fn what_is_entered_is_mounted_and_nothing_is_left() {
        let _lock = Lock::for_mounts().unwrap();
        let scratch = Scratch::new("automounts").unwrap();
        let test = "what_is_entered_is_mounted_and_nothing_is_left";
        let Some(automounts) =
            skip::unless_available(test, Automounts::on(scratch.path(), &["one", "two", "refused"]))
        else {
            return;
        };
        let one = scratch.join("one");
        assert!(!mounted().unwrap().contains(&one));
        assert_eq!(std::fs::read(one.join("file")).unwrap(), b"one");
        assert!(mounted().unwrap().contains(&one));
        assert!(!mounted().unwrap().contains(&scratch.join("two")));
        assert_eq!(std::fs::read(scratch.join("refused/file")).unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(automounts);
        assert!(!mounted().unwrap().iter().any(|each| each.starts_with(scratch.path())));
    }
}
