//! Small private files of `atta launch`, with random names: for what the ranks report, and for host files. Each is removed when it is dropped.
//! One stays if `atta launch` itself is killed.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use atta_ops::resume::hex;
use rustix::fs::{FileType, OFlags};

use crate::run::file::{describe, printable};
use crate::run::history;
use crate::run::refused::Refused;

/// Most bytes of a file that is read.
const BYTES_MAX: u64 = 64 << 20;
/// Where files can be if not here.
const ADVICE: &str = "name a directory that all hosts share: atta launch --shared DIR";

/// The directory of the files.
pub(super) struct Place(PathBuf);

/// A file of this process.
pub(super) struct PrivateFile(PathBuf);

impl Place {
    /// The directory that the user names, or one in the user's state directory.
    pub(super) fn new(shared: Option<&Path>) -> Result<Self, Refused> {
        if let Some(shared) = shared {
            let here = std::env::current_dir().unwrap_or_default();
            return Ok(Self(here.join(shared)));
        }
        let Some(state) = history::state() else {
            return Err(Refused::usage("there is no state directory: HOME is not set".to_owned(), ADVICE));
        };
        let place = state.join("launch");
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&place);
        made.map_err(|error| cannot("make a directory", &place, &error))?;
        Ok(Self(place))
    }

    /// Makes a file with these bytes.
    pub(super) fn file(&self, bytes: &[u8]) -> Result<PrivateFile, Refused> {
        let mut number = [0; 16];
        let random = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut number));
        random.map_err(|error| Refused::fatal(format!("there are no random numbers: {error}")))?;
        let path = self.0.join(format!("atta.launch.{}", hex(&number)));
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = made.map(|file| (PrivateFile(path.clone()), file));
        let written = file.and_then(|(own, mut file)| file.write_all(bytes).map(|()| own));
        written.map_err(|error| cannot("make a file for the ranks", &path, &error))
    }
}

impl PrivateFile {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn read(&self) -> Result<Vec<u8>, Refused> {
        read_regular(&self.0).map_err(|error| {
            let what = format!(
                "cannot read the file that the ranks write: {}: {}",
                printable(&self.0),
                describe(&error)
            );
            Refused::fatal_with(what, Some("whether the job has come to its end is not known".to_owned()))
        })
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // What cannot be removed is small, and nothing reads it again.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The bytes of a regular file. A pipe is not waited for.
pub(super) fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let file =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode).is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Refused {
    Refused::usage(format!("cannot {what}: {}: {}", printable(path), describe(error)), ADVICE)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn file_is_private_and_goes_away() {
        let scratch = atta_testkit::scratch::Scratch::new("launch-private").unwrap();
        let place = Place::new(Some(scratch.path())).ok().unwrap();
        let (one, other) = (place.file(b"a\xff").ok().unwrap(), place.file(b"").ok().unwrap());
        assert_eq!(one.read().ok().unwrap(), b"a\xff");
        assert_ne!(one.path(), other.path());
        let mode = File::open(one.path()).unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists() && other.path().exists());
    }
}
