//! Finds and opens the plug-in, and checks that its version fits this program and its MPI fits the launcher. Only
//! [`Plugin::begin`] initialises MPI.
//!
//! This module opens only the file named by the environment variable, or one of two fixed paths near the program. A user
//! who can write there can also replace the program itself.
#![expect(unsafe_code, reason = "what is loaded at run time cannot be checked by the compiler")]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::abi::{Header, SYMBOL, Table, TableOf, VERSION};
use crate::shim::{Begun, Shim};
use crate::{Kind, Launcher, Mpi, OpenError};

/// The environment variable with the path of the plug-in.
pub const PLUGIN_VARIABLE: &str = "ATTA_MPI_PLUGIN";

/// The name of the plug-in's file.
pub const PLUGIN_FILE: &str = "libatta_mpi.so";

/// An open plug-in that was built with an MPI. MPI is not initialised yet. The plug-in stays loaded until the process ends.
#[derive(Debug)]
pub struct Plugin {
    path: PathBuf,
    shim: Shim,
    library: String,
}

/// Opens the plug-in at one of the [`places`] for this process. It blocks only while the library loads.
///
/// # Errors
/// [`NotFound`](OpenError::NotFound), and those of [`open_at`].
pub fn open() -> Result<Plugin, OpenError> {
    let program = std::env::current_exe().ok();
    let places = places(std::env::var_os(PLUGIN_VARIABLE), program.as_deref());
    match places.iter().find(|place| place.exists()) {
        Some(place) => open_at(place),
        None => Err(OpenError::NotFound { places }),
    }
}

/// The paths to search for the plug-in.
///
/// The value of the environment variable, `named`, is the only path. If it is unset or empty: beside the program, then the
/// directory `lib` beside the program's directory.
#[must_use]
pub fn places(named: Option<OsString>, program: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        // Absolute, because the dynamic linker searches elsewhere for a name without a slash.
        return vec![std::path::absolute(&named).unwrap_or(named)];
    }
    let Some(directory) = program.and_then(Path::parent) else { return Vec::new() };
    let above = directory.parent().map(|above| above.join("lib").join(PLUGIN_FILE));
    [Some(directory.join(PLUGIN_FILE)), above].into_iter().flatten().collect()
}

/// Opens the plug-in at `path`.
///
/// # Errors
/// [`Unloadable`](OpenError::Unloadable), [`NoTable`](OpenError::NoTable), [`Version`](OpenError::Version),
/// [`Stub`](OpenError::Stub).
pub fn open_at(path: &Path) -> Result<Plugin, OpenError> {
    let table = table(path)?;
    let shim = Shim::new(table);
    let library = shim.library_version();
    Ok(Plugin { path: path.to_path_buf(), shim, library })
}

/// Loads the file permanently and returns its function table.
fn table(path: &Path) -> Result<&'static Table, OpenError> {
    let loaded = load(path.as_os_str());
    let library =
        loaded.map_err(|error| OpenError::Unloadable { path: path.to_path_buf(), reason: words(&error) })?;
    // An MPI leaves threads and exit handlers behind: it must never be unloaded.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: the function of this name, and of no other library, has this type (`atta_mpi.h`).
    let function = unsafe { library.get::<TableOf>(SYMBOL) };
    let function = function.map_err(|_| OpenError::NoTable { path: path.to_path_buf() })?;
    let address = function();
    if address.is_null() {
        return Err(OpenError::NoTable { path: path.to_path_buf() });
    }
    // SAFETY: every version's table begins with a header, and lives as long as the library, which is leaked.
    let header: Header = unsafe { *address };
    if header.version != VERSION || (header.bytes as usize) < size_of::<Table>() {
        return Err(OpenError::Version { path: path.to_path_buf(), found: header.version, wanted: VERSION });
    }
    if header.built == 0 {
        return Err(OpenError::Stub { path: path.to_path_buf() });
    }
    // SAFETY: a built table of this version and length has every function of `Table`, and lives for ever.
    Ok(unsafe { &*address.cast::<Table>() })
}

fn load(file: &OsStr) -> Result<Library, libloading::Error> {
    // SAFETY: runs the file's initializers. The operator chose the file, or it lies beside the program and is trusted like it.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }
}

/// The dynamic linker's own message, without the text that the library adds.
fn words(error: &libloading::Error) -> String {
    match error {
        libloading::Error::DlOpen { source } => source.to_string(),
        other => other.to_string(),
    }
}

impl Plugin {
    /// The path of the plug-in.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name and version that its MPI reports.
    #[must_use]
    pub fn library(&self) -> &str {
        &self.library
    }

    /// Joins the other ranks (`MPI_Init_thread`). Once per process.
    ///
    /// Only the calling thread may use the returned endpoint. The call waits for the other ranks, as MPI does. A rank that cannot
    /// get this far must exit with a code other than zero, so that the launcher ends the ranks that wait.
    ///
    /// # Errors
    /// [`NoPmi`](OpenError::NoPmi), [`Foreign`](OpenError::Foreign), both before MPI is initialised;
    /// [`Begin`](OpenError::Begin); [`Mismatch`](OpenError::Mismatch), after MPI was finalised.
    pub fn begin(self, launcher: &Launcher) -> Result<Mpi, OpenError> {
        if launcher.kind == Kind::Slurm {
            return Err(OpenError::NoPmi { tasks: launcher.size.unwrap_or(0) });
        }
        if let Some(launched_by) = foreign(launcher, &self.library) {
            return Err(OpenError::Foreign { path: self.path, launched_by, library: self.library });
        }
        let Begun { mut shim, world } = self.shim.begin()?;
        // If the environment gives no number of ranks, a rank beyond those found proves that there are more.
        let at_least = launcher.rank.map(|rank| world.size.max(rank.saturating_add(1)));
        match launcher.size.or(at_least) {
            Some(launched) if launched != world.size => {
                // A world of its own that no other rank waits for: an error on leaving it adds nothing.
                let _left = shim.leave();
                Err(OpenError::Mismatch { launched, found: world.size, library: self.library })
            }
            _ => Ok(Mpi::new(shim, world)),
        }
    }
}

/// The launcher, if this library is known not to belong to it. Such a pair fails in many ways, from many worlds of one rank to
/// an abort with pages of text. Uncertain cases are left to the check of the number of ranks that MPI finds.
fn foreign(launcher: &Launcher, library: &str) -> Option<String> {
    let open = library.contains("Open MPI");
    let mpich = ["MPICH", "MVAPICH", "Intel(R) MPI"].iter().any(|each| library.contains(each));
    match launcher.kind {
        Kind::OpenMpi if mpich => Some("Open MPI".to_owned()),
        Kind::Hydra if open => Some("MPICH's Hydra".to_owned()),
        // Open MPI 5 passes its own paths on to the ranks, where Open MPI 4 would look for its components.
        Kind::OpenMpi if open => {
            let version = launcher.version.as_deref()?;
            let major = version.split('.').next()?;
            let same = library.contains(&format!("Open MPI v{major}."));
            (!same).then(|| format!("Open MPI {version}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launcher(kind: Kind, version: Option<&str>) -> Launcher {
        let (one, version) = (Some(0), version.map(str::to_owned));
        Launcher { kind, size: Some(2), rank: one, local: one, version, switches: None }
    }

    #[test]
    fn named_plug_in_is_the_only_place() {
        let program = Path::new("/opt/atta/bin/atta");
        assert_eq!(places(Some("/x/y.so".into()), Some(program)), [PathBuf::from("/x/y.so")]);
        let beside = ["/opt/atta/bin/libatta_mpi.so", "/opt/atta/lib/libatta_mpi.so"].map(PathBuf::from);
        assert_eq!(places(None, Some(program)), beside);
        assert_eq!(places(Some("".into()), Some(program)), beside);
        assert!(places(Some("y.so".into()), None)[0].is_absolute());
        assert!(places(None, None).is_empty());
    }

    #[test]
    fn launcher_and_library_of_two_mpis_are_reported() {
        let (open_4, open_5) = ("Open MPI v4.1.4, package: Debian", "Open MPI v5.0.11, package");
        let mpich = "MPICH Version:      5.0.2";
        let of = |kind, version, library| foreign(&launcher(kind, version), library);
        assert_eq!(of(Kind::OpenMpi, None, open_4), None);
        assert_eq!(of(Kind::OpenMpi, Some("5.0.11"), open_5), None);
        assert_eq!(of(Kind::OpenMpi, Some("5.0.11"), open_4).as_deref(), Some("Open MPI 5.0.11"));
        assert_eq!(of(Kind::OpenMpi, Some("5.0.11"), mpich).as_deref(), Some("Open MPI"));
        assert_eq!(of(Kind::Hydra, None, open_5).as_deref(), Some("MPICH's Hydra"));
        assert_eq!(of(Kind::Hydra, None, mpich), None);
        for kind in [Kind::Pmix, Kind::Pmi] {
            assert_eq!(of(kind, None, open_4), None);
            assert_eq!(of(kind, None, mpich), None);
        }
        assert_eq!(of(Kind::OpenMpi, None, "Somebody's MPI"), None);
    }

    #[test]
    fn what_is_no_plug_in_is_refused() {
        let missing = open_at(Path::new("/nonexistent/libatta_mpi.so")).unwrap_err();
        let OpenError::Unloadable { reason, .. } = &missing else { panic!("{missing}") };
        assert!(reason.contains("cannot open shared object file"), "{reason}");
        let other = PathBuf::from("libc.so.6");
        assert_eq!(open_at(&other).unwrap_err(), OpenError::NoTable { path: other });
    }
}
