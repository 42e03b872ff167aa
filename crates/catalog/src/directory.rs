//! The directory of a catalog, which appears complete or not at all.
//!
//! ```text
//!   begin    mkdir   PARENT/.NAME.PID.partial                 0700
//!            create  part-00000.parquet ... _errors.ndjson     0600
//!   commit   create  _manifest.json, fsync each file and the directory
//!            rename  .NAME.PID.partial -> NAME, fsync PARENT
//!   drop     unlink what was made, rmdir
//! ```
//!
//! The catalog of a job that can be resumed is written in the directory of that job: nothing of it is removed when it is dropped, and the next run keeps
//! the parts that the log of the job names ([`Catalog::of_job`]).
//!
//! It writes no rows: the walker gets the files and fills them. The modes stay as they are after the commit: a catalog contains names and
//! sizes of files that not every user may list, so sharing it is left to the user. A program that is killed leaves its `.partial`
//! directory behind; no later one writes into it or removes it.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::{Error, Manifest, Result, ShardRecord};

/// Name of the file with a row for each entry that failed.
pub const ERRORS_FILE: &str = "_errors.ndjson";

/// Name of the file that makes a catalog complete.
pub const MANIFEST_FILE: &str = "_manifest.json";

/// Longest name of a file in bytes (`NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;

/// Most stale directories of the same process id that are skipped before giving up.
const STALE_MAX: u32 = 1000;

/// Name of the shard with this number: `part-00000.parquet`.
#[must_use]
pub fn shard_name(index: usize) -> String {
    format!("part-{index:05}.parquet")
}

/// The number of the shard with this name.
fn shard_number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix("part-")?.strip_suffix(".parquet")?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Where a catalog is put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogPlace {
    /// Its path, without a slash at the end, which would make the system follow a link.
    pub place: PathBuf,
    /// The directory above.
    pub parent: PathBuf,
}

impl CatalogPlace {
    /// The place of a catalog that may have this path.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogNoName`] if the path does not end in a name.
    pub fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().ok_or_else(|| Error::CatalogNoName { path: path.to_owned() })?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Ok(Self { place: parent.join(name), parent: parent.to_owned() })
    }

    /// The same, if nothing or an empty directory is there.
    ///
    /// # Errors
    ///
    /// Also [`Error::CatalogNotEmpty`], [`Error::CatalogNotDirectory`] and [`Error::CatalogWrite`].
    pub fn vacant(path: &Path) -> Result<Self> {
        let place = Self::of(path)?;
        check_vacant(&place.place)?;
        Ok(place)
    }
}

/// A catalog that is being written. If dropped without [`commit`](Self::commit), it removes what it created.
#[derive(Debug)]
pub struct Catalog {
    partial: PathBuf,
    place: PathBuf,
    parent: PathBuf,
    /// The second handle of each file syncs it at the end: it shares the open file with the first, and so sees every write error of the
    /// first.
    made: Vec<(String, File)>,
    on_drop: OnDrop,
}

/// What is removed when a catalog is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnDrop {
    /// All of it.
    RemoveAll,
    /// What this process has made: another one began it and owns the directory.
    RemoveOwn,
    /// Nothing: it is complete, or a later run of the job goes on with it.
    Keep,
}

/// A finished shard that may not be on storage.
#[derive(Debug)]
pub struct UnsyncedShard {
    partial: PathBuf,
    name: String,
    file: File,
}

impl UnsyncedShard {
    /// Syncs these, and their names.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogWrite`] if that fails.
    pub fn sync_all(shards: &[Self]) -> Result<()> {
        for Self { partial, name, file } in shards {
            file.sync_all().map_err(write_error("sync", &partial.join(name)))?;
        }
        // All are in the same directory.
        shards.first().map_or(Ok(()), |shard| sync_directory(&shard.partial))
    }
}

impl Catalog {
    /// Creates a private directory beside `place`, which does not exist or is an empty directory.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogNotEmpty`], [`Error::CatalogNotDirectory`] and [`Error::CatalogNoName`] for a `place` that cannot be used,
    /// [`Error::CatalogWrite`] if the directory cannot be created.
    pub fn begin(place: &Path) -> Result<Self> {
        let CatalogPlace { place, parent } = CatalogPlace::vacant(place)?;
        let partial = make_partial(&parent, place.file_name().unwrap_or_default())?;
        Ok(Self { partial, place, parent, made: Vec::new(), on_drop: OnDrop::RemoveAll })
    }

    /// Begins the catalog of a job, or goes on with it. `partial` is a name in the directory of the job, which is private to the user `owner` and on the
    /// file system of `place`. Then call [`check_shards`](Self::check_shards), and before a shard is made [`remove_others`](Self::remove_others).
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin). [`Error::CatalogRead`] if `partial` is anything but a private directory.
    pub fn of_job(partial: &Path, place: &Path, owner: u32) -> Result<Self> {
        let CatalogPlace { place, parent } = CatalogPlace::vacant(place)?;
        match DirBuilder::new().mode(0o700).create(partial) {
            Err(source) if source.kind() == ErrorKind::AlreadyExists => check_private(partial, owner)?,
            made => made.map_err(write_error("create directory", partial))?,
        }
        // An earlier run may have left them.
        for name in [MANIFEST_FILE, ERRORS_FILE] {
            remove_if_there(&partial.join(name))?;
        }
        let partial = partial.to_owned();
        Ok(Self { partial, place, parent, made: Vec::new(), on_drop: OnDrop::Keep })
    }

    /// Checks that these shards of earlier runs are there whole. Returns the first number that no shard has.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogRead`] if one is missing or has another length.
    #[expect(clippy::disallowed_methods, reason = "it looks into the private directory of the job")]
    pub fn check_shards(&self, shards: &[ShardRecord]) -> Result<usize> {
        for shard in shards {
            let path = self.partial.join(&shard.file);
            let reason = match fs::symlink_metadata(&path) {
                Ok(found) if found.is_file() && found.len() == shard.bytes => continue,
                Ok(found) => format!("it has {} bytes, not {}", found.len(), shard.bytes),
                Err(error) => error.to_string(),
            };
            return Err(Error::CatalogRead { path, reason });
        }
        let numbers = shards.iter().filter_map(|shard| shard_number(&shard.file));
        Ok(numbers.max().map_or(0, |number| number + 1))
    }

    /// Removes all shards but these: earlier runs have not ended them, or go on with them although they should not.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogWrite`] if the directory cannot be read or changed.
    #[expect(clippy::disallowed_methods, reason = "it lists the private directory that this user made")]
    pub fn remove_others<'s>(&self, shards: impl Iterator<Item = &'s ShardRecord>) -> Result<()> {
        let kept: HashSet<&str> = shards.map(|shard| shard.file.as_str()).collect();
        let names: io::Result<Vec<_>> =
            fs::read_dir(&self.partial).map_err(write_error("read directory", &self.partial))?.collect();
        for entry in names.map_err(write_error("read directory", &self.partial))? {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| shard_number(name).is_some() && !kept.contains(name)) {
                remove_if_there(&self.partial.join(&name))?;
            }
        }
        Ok(())
    }

    /// Joins a catalog that another process began, to put shards into it: `partial` is its [`partial`](Self::partial). `is_of_job`: what this
    /// process makes stays if the catalog is not completed.
    #[must_use]
    pub fn join(partial: &Path, place: &Path, is_of_job: bool) -> Self {
        let parent = place.parent().unwrap_or(place).to_owned();
        let on_drop = if is_of_job { OnDrop::Keep } else { OnDrop::RemoveOwn };
        Self { partial: partial.to_owned(), place: place.to_owned(), parent, made: Vec::new(), on_drop }
    }

    /// Takes a finished shard that is to be synced now, not at the end. None: there is none with this number.
    pub fn unsynced(&mut self, index: usize) -> Option<UnsyncedShard> {
        let name = shard_name(index);
        let at = self.made.iter().rposition(|(made, _)| *made == name)?;
        let (name, file) = self.made.swap_remove(at);
        Some(UnsyncedShard { partial: self.partial.clone(), name, file })
    }

    /// The directory while the catalog is being written.
    #[must_use]
    pub fn partial(&self) -> &Path {
        &self.partial
    }

    /// Syncs the files of a process that joined; they stay, for the process that began to commit or remove.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogWrite`] if that fails; then they are removed.
    pub fn hand_over(mut self) -> Result<()> {
        self.sync_files()?;
        self.on_drop = OnDrop::Keep;
        Ok(())
    }

    /// Creates the file of the shard with this number. Call it once per number.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogWrite`] if it cannot be created, for example because it exists already.
    pub fn shard_file(&mut self, index: usize) -> Result<File> {
        self.create(shard_name(index))
    }

    /// Creates [`ERRORS_FILE`]. Call it once.
    ///
    /// # Errors
    ///
    /// As [`shard_file`](Self::shard_file).
    pub fn errors_file(&mut self) -> Result<File> {
        self.create(ERRORS_FILE.to_owned())
    }

    /// Writes the manifest, syncs everything and renames the catalog to its place.
    ///
    /// The writers of the files must have flushed their own buffers before.
    ///
    /// # Errors
    ///
    /// [`Error::CatalogNotEmpty`] if something has appeared in its place in the meantime, [`Error::CatalogWrite`] if a step fails. Nothing
    /// is left then, but what a later run of its job goes on with. [`Error::CatalogUnsynced`] if the last step fails, the sync of the directory
    /// above: the catalog is in its place, complete, and may not survive a power failure.
    pub fn commit(mut self, manifest: &Manifest) -> Result<()> {
        if self.on_drop == OnDrop::Keep {
            // A process of an earlier run may still add some, where the file system has no locks.
            self.remove_others(manifest.shards.iter())?;
        }
        self.write_manifest(manifest)?;
        self.sync_files()?;
        sync_directory(&self.partial)?;
        fs::rename(&self.partial, &self.place).map_err(|source| match source.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => {
                Error::CatalogNotEmpty { path: self.place.clone() }
            }
            ErrorKind::NotADirectory => Error::CatalogNotDirectory { path: self.place.clone() },
            _ => write_error("rename catalog to", &self.place)(source),
        })?;
        self.on_drop = OnDrop::Keep;
        sync_directory(&self.parent).map_err(|error| match error {
            Error::CatalogWrite { source, .. } => Error::CatalogUnsynced { path: self.place.clone(), source },
            error => error,
        })
    }

    fn sync_files(&self) -> Result<()> {
        self.made.iter().try_for_each(|(name, file)| {
            file.sync_all().map_err(write_error("sync", &self.partial.join(name)))
        })
    }

    fn write_manifest(&mut self, manifest: &Manifest) -> Result<()> {
        let path = self.partial.join(MANIFEST_FILE);
        let mut text = serde_json::to_vec_pretty(manifest)
            .map_err(io::Error::from)
            .map_err(write_error("write", &path))?;
        text.push(b'\n');
        let mut file = self.create(MANIFEST_FILE.to_owned())?;
        file.write_all(&text).map_err(write_error("write", &path))
    }

    /// Removes shards that joined processes made, whether they handed them over or were killed before. The directory is private and made
    /// by this process, so every file with such a name is a shard.
    #[expect(clippy::disallowed_methods, reason = "it lists the private directory that this process made")]
    fn remove_foreign(&self) {
        for entry in fs::read_dir(&self.partial).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().and_then(shard_number).is_some() {
                let _ignored = fs::remove_file(self.partial.join(&name));
            }
        }
    }

    fn create(&mut self, name: String) -> Result<File> {
        let path = self.partial.join(&name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(write_error("create", &path))?;
        match file.try_clone() {
            Ok(twin) => self.made.push((name, twin)),
            Err(source) => {
                // A name that is not in `made` would keep the directory from being removed.
                fs::remove_file(&path).map_err(write_error("remove", &path))?;
                return Err(write_error("create", &path)(source));
            }
        }
        Ok(file)
    }
}

impl Drop for Catalog {
    /// Removes the names that it made and then the directory, unless another process has put something in.
    fn drop(&mut self) {
        if self.on_drop == OnDrop::Keep {
            return;
        }
        for (name, file) in self.made.drain(..) {
            // An NFS client keeps a name of a file that is removed while it is open.
            drop(file);
            // There is no caller to report to: the error that led here is the one that counts. Files that cannot be removed stay under a
            // name that no reader takes for a catalog.
            let _ignored = fs::remove_file(self.partial.join(&name));
        }
        if self.on_drop == OnDrop::RemoveAll {
            self.remove_foreign();
            let _ignored = fs::remove_dir(&self.partial);
        }
    }
}

/// Creates `.NAME.PID.partial`, or the first free one of `.NAME.PID.1.partial` and so on.
fn make_partial(parent: &Path, name: &OsStr) -> Result<PathBuf> {
    let process = std::process::id();
    for attempt in 0..=STALE_MAX {
        let ending = match attempt {
            0 => format!(".{process}.partial"),
            _ => format!(".{process}.{attempt}.partial"),
        };
        let path = parent.join(partial_name(name, &ending));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(source) if source.kind() == ErrorKind::AlreadyExists && attempt < STALE_MAX => {}
            Err(source) => return Err(write_error("create directory", &path)(source)),
        }
    }
    unreachable!("the last attempt returns")
}

/// `.NAMEENDING`, with NAME truncated if the whole would be too long for a name, but not inside a UTF-8 character: some file systems
/// accept only UTF-8.
fn partial_name(name: &OsStr, ending: &str) -> OsString {
    let name = name.as_bytes();
    let mut kept = name.len().min(NAME_BYTES_MAX - 1 - ending.len());
    while kept > 0 && name.get(kept).is_some_and(|byte| byte & 0xc0 == 0x80) {
        kept -= 1;
    }
    let mut partial = vec![b'.'];
    partial.extend_from_slice(&name[..kept]);
    partial.extend_from_slice(ending.as_bytes());
    OsString::from_vec(partial)
}

/// Accepts a missing or an empty directory. A link to one is refused: a rename does not replace a link.
#[expect(
    clippy::disallowed_methods,
    reason = "the operator named this one path; the rename decides, this only fails early"
)]
fn check_vacant(place: &Path) -> Result<()> {
    match fs::symlink_metadata(place) {
        Ok(found) if !found.is_dir() => {
            return Err(Error::CatalogNotDirectory { path: place.to_owned() });
        }
        Ok(_) => {}
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(write_error("look at", place)(source)),
    }
    let mut entries = fs::read_dir(place).map_err(write_error("read directory", place))?;
    if entries.next().is_some() {
        return Err(Error::CatalogNotEmpty { path: place.to_owned() });
    }
    Ok(())
}

/// Accepts a directory that only its owner can enter.
#[expect(clippy::disallowed_methods, reason = "it looks into the private directory of the job")]
fn check_private(path: &Path, owner: u32) -> Result<()> {
    let found = fs::symlink_metadata(path).map_err(write_error("look at", path))?;
    if found.is_dir() && found.uid() == owner && found.mode() & 0o777 == 0o700 {
        return Ok(());
    }
    let reason = "it is not the private directory that a run has made".to_owned();
    Err(Error::CatalogRead { path: path.to_owned(), reason })
}

fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(write_error("remove", path)(source)),
        _ => Ok(()),
    }
}

fn sync_directory(path: &Path) -> Result<()> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(write_error("sync directory", path))
}

fn write_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::CatalogWrite { operation, path, source }
}

#[cfg(test)]
mod tests;
