//! Errors on joining the ranks of a launched job. Messages name the file or call; hints propose a remedy. Prints nothing.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use crate::load::{PLUGIN_FILE, PLUGIN_VARIABLE};

/// Why the plug-in could not be opened, or the job could not be joined.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum OpenError {
    /// No plug-in was found.
    NotFound {
        /// The paths searched, in order.
        places: Vec<PathBuf>,
    },
    /// The dynamic linker refused the plug-in, for example because the library of its MPI is missing.
    Unloadable {
        /// The plug-in.
        path: PathBuf,
        /// The linker's message.
        reason: String,
    },
    /// The file is a library, but not a plug-in of this program.
    NoTable {
        /// The file.
        path: PathBuf,
    },
    /// The plug-in belongs to another version of this program.
    Version {
        /// The plug-in.
        path: PathBuf,
        /// The version of its function table.
        found: u32,
        /// The version that this program requires.
        wanted: u32,
    },
    /// The plug-in was built without an MPI.
    Stub {
        /// The plug-in.
        path: PathBuf,
    },
    /// The plug-in was built for another MPI than the launcher's. Detected before MPI is initialised.
    Foreign {
        /// The plug-in.
        path: PathBuf,
        /// The launcher.
        launched_by: String,
        /// The name that the plug-in's MPI reports.
        library: String,
    },
    /// The processes were launched without a PMI that could connect them.
    NoPmi {
        /// The number of processes.
        tasks: u32,
    },
    /// MPI could not be initialised.
    Begin {
        /// The call that failed.
        operation: String,
        /// MPI's error code, or a negative one of the plug-in.
        code: i32,
        /// The error text.
        text: String,
    },
    /// The environment and MPI disagree on the number of ranks: launcher and plug-in do not belong together.
    Mismatch {
        /// The number in the environment.
        launched: u32,
        /// The number that MPI reports.
        found: u32,
        /// The name that the plug-in's MPI reports.
        library: String,
    },
}

impl OpenError {
    /// A remedy for the user, without a full stop.
    #[must_use]
    pub fn hint(&self) -> String {
        let build =
            "build it for the MPI that launches: MPICC=mpicc cargo build --release -p atta-fabric-mpi";
        let choose =
            format!("launch with that MPI's own mpirun, or name another plug-in by {PLUGIN_VARIABLE}");
        match self {
            Self::NotFound { .. } => {
                format!("{build}, and put {PLUGIN_FILE} beside the program or name it by {PLUGIN_VARIABLE}")
            }
            Self::NoTable { .. } | Self::Version { .. } | Self::Stub { .. } => build.to_owned(),
            Self::Unloadable { .. } => {
                "is the MPI that the plug-in was built for installed on this host? ldd shows what it needs"
                    .to_owned()
            }
            Self::Foreign { .. } => choose,
            Self::Mismatch { .. } => format!("{choose}; under srun try another --mpi"),
            Self::NoPmi { .. } => {
                "launch with srun --mpi=pmix or --mpi=pmi2; srun --mpi=list shows which".to_owned()
            }
            Self::Begin { .. } => "does another program of this MPI run under this launcher?".to_owned(),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { places } => {
                write!(f, "cannot join the other ranks: no plug-in for MPI: looked for ")?;
                let mut between = "";
                for place in places {
                    write!(f, "{between}{}", place.display())?;
                    between = ", ";
                }
                Ok(())
            }
            Self::Unloadable { path, reason } => {
                write!(f, "cannot open the plug-in for MPI: {}: {reason}", path.display())
            }
            Self::NoTable { path } => {
                write!(f, "cannot open the plug-in for MPI: {}: it is none", path.display())
            }
            Self::Version { path, found, wanted } => {
                let path = path.display();
                write!(f, "cannot use the plug-in for MPI: {path}: it has version {found}, not {wanted}")
            }
            Self::Stub { path } => {
                write!(f, "cannot use the plug-in for MPI: {}: it was built without an MPI", path.display())
            }
            Self::Foreign { path, launched_by, library } => {
                let path = path.display();
                write!(
                    f,
                    "cannot use the plug-in for MPI: {path}: it was built for {library}, and {launched_by} launched"
                )
            }
            Self::NoPmi { tasks } => {
                write!(f, "cannot join the other ranks: srun started {tasks} tasks without MPI support")
            }
            Self::Begin { operation, code, text } => {
                write!(f, "cannot begin MPI: {operation}: {text} ({code})")
            }
            Self::Mismatch { launched, found, library } => {
                write!(f, "cannot join the other ranks: {launched} were launched, {library} found {found}")
            }
        }
    }
}

impl Error for OpenError {}
