//! Why the ranks of a launched job could not be joined. Messages name the place; hints say what to do. It prints
//! nothing.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use crate::load::{PLUGIN_FILE, PLUGIN_VARIABLE};

/// Why the plug-in could not be opened, or the other ranks not be joined.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no plug-in.
    NotFound {
        /// Where it was looked for, in this order.
        places: Vec<PathBuf>,
    },
    /// The dynamic linker refused the plug-in: the library of its MPI is not there, for one.
    Unloadable {
        /// The plug-in.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
    /// The file is a library and no plug-in of this program.
    NoTable {
        /// The file.
        path: PathBuf,
    },
    /// The plug-in belongs to another version of this program.
    Version {
        /// The plug-in.
        path: PathBuf,
        /// Its version of the table between the two.
        found: u32,
        /// The version that this program understands.
        wanted: u32,
    },
    /// The plug-in was built without an MPI.
    Stub {
        /// The plug-in.
        path: PathBuf,
    },
    /// The plug-in was built for another MPI than the one that launched. Seen before any MPI was begun.
    Foreign {
        /// The plug-in.
        path: PathBuf,
        /// Who launched.
        launched_by: String,
        /// What the plug-in's MPI calls itself.
        library: String,
    },
    /// The processes were launched without anything that could bring them together.
    NoPmi {
        /// How many of them there are.
        tasks: u32,
    },
    /// MPI could not be begun.
    Begin {
        /// The call that failed.
        operation: String,
        /// MPI's number for the failure, or a negative one of the plug-in.
        code: i32,
        /// The words for it.
        text: String,
    },
    /// The environment promises another number of ranks than MPI found: launcher and plug-in do not know each other.
    Mismatch {
        /// What the environment says.
        launched: u32,
        /// What MPI says.
        found: u32,
        /// What the plug-in's MPI calls itself.
        library: String,
    },
}

impl OpenError {
    /// What the user can do about it, without a full stop.
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
