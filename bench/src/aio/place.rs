//! A directory that is measured in: what file system it is, and files in it. It removes what it has made.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::BenchResult;
use crate::machine::Machine;
use crate::programs::PACKAGE_DIRECTORY;

/// A directory of this run's own below one that was given.
pub(crate) struct Place {
    root: PathBuf,
    /// What the file system is called.
    pub(crate) kind: String,
}

const PIECE: usize = 1 << 20;

impl Place {
    /// Makes one.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn new(parent: &Path) -> BenchResult<Self> {
        let root = parent.join(format!("atta-bench-aio-{}", std::process::id()));
        let made = DirBuilder::new().recursive(true).create(&root);
        made.map_err(|error| format!("making {}: {error}", root.display()))?;
        let described = Machine::describe(&root, Path::new(PACKAGE_DIRECTORY)).file_system;
        let kind = described.split(' ').next().unwrap_or("unknown").to_owned();
        Ok(Self { root, kind })
    }

    /// Its path.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether files are in memory only.
    pub(crate) fn in_memory(&self) -> bool {
        self.kind == "tmpfs" || self.kind == "ramfs"
    }

    /// Whether a server is asked: less is done there.
    pub(crate) fn is_remote(&self) -> bool {
        self.kind.starts_with("fuse") || self.kind.starts_with("nfs")
    }

    /// A file of this length, written once. It goes away when the place does.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn file(&self, name: &str, bytes: u64) -> BenchResult<Arc<File>> {
        let path = self.root.join(name);
        let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = open.map_err(|error| format!("making {name}: {error}"))?;
        let piece = vec![b'a'; PIECE];
        let mut at = 0;
        while at < bytes {
            file.write_all_at(&piece, at).map_err(|error| format!("filling {name}: {error}"))?;
            at += PIECE as u64;
        }
        // What is not written back now is written back while the first contenders run.
        file.sync_all().map_err(|error| format!("syncing {name}: {error}"))?;
        Ok(Arc::new(file))
    }
}

impl Drop for Place {
    #[expect(clippy::disallowed_methods, reason = "a directory that this run has made for itself")]
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}
