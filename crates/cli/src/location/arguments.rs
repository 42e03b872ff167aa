//! The arguments of `atta where`. No I/O.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use atta_status::Requirements;
use clap::{Args, ValueEnum};

use crate::size::parse_size;

/// Where speeds come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Probe {
    /// Those that were measured in the last 30 days; else those of the table of types
    Cached,
    /// Measure now: write and read up to 32 MiB in each mount point that can be written
    Now,
}

/// Show which file system a path is on, and which ranks see the same
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "For each PATH: the type and URI of its file system, the space, and whether its data is on this host. The URI means the same on all \
    hosts: equal URIs are one file. Under mpirun or srun, it also shows which ranks see the same file:\n\n  \
    unique                all ranks see one file\n  \
    fully distributed     each rank has it on its own host\n  \
    well distributed      it is on so many servers that each has fewer than 64 ranks\n  \
    poorly distributed    it is on few servers: few ranks should read it, and pass it on\n  \
    unknown               mount tables do not show it\n\n\
    and whether the contents are equal: of files, their sizes and contents; of a directory, the names in it, and with --content the contents of the files in \
    it, but not of directories below ('atta verify' compares trees). A unique file is consistent, and is not read. Symbolic links are resolved. \
    A file system that does not answer within --deadline is reported, and the others are shown; automounters are not triggered.\n\n\
    With --need, suitable mount points come first, the best one on top. The score is the share of the speed of the fastest mount that each rank gets: \
    scalability / max(scalability, ranks for each file system) * speed / highest speed.\n\n\
    Exit codes: 0 success; 1 the ranks see different contents, a path does not exist, or no mount point suits; 2 invalid usage; 3 something could not be looked at; 4 fatal \
    error; 130 or 143 interrupted (SIGINT, SIGTERM).\n\n\
    Examples:\n  \
    atta where .                              the file system of the working directory\n  \
    atta where --all                          all mounts\n  \
    mpirun atta where /scratch /tmp           what ranks see there\n  \
    mpirun atta where --content /opt/app/lib  whether all hosts have the same libraries\n  \
    mpirun atta where --need 10GiB,writable   the best place for 10 GiB of each rank\n  \
    mpirun atta where --save map; atta where --map map /scratch   ask later, without ranks"
)]
pub(crate) struct WhereArguments {
    /// Files and directories [default: the working directory]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Show all mounts of all ranks
    #[arg(short, long, conflicts_with = "paths")]
    pub(crate) all: bool,

    /// Rank the mount points that all ranks have by how well they suit: SIZE or each=SIZE for each rank, total=SIZE, free=SIZE (that will be removed
    /// before), speed=low|high, distribution=unique|low|high|full, scalability=single|multi, writable; separated by commas
    #[arg(long, value_name = "REQUIREMENTS", conflicts_with_all = ["paths", "all", "content"], value_parser = parse_need)]
    pub(crate) need: Option<Requirements>,

    /// Speeds for --need
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Probe::Cached, requires = "need")]
    pub(crate) probe: Probe,

    /// Save what all ranks see at all mount points, for --map and for programs without ranks
    #[arg(long, value_name = "MAP", conflicts_with_all = ["paths", "all", "need", "content", "map"])]
    pub(crate) save: Option<PathBuf>,

    /// Answer from a saved map, without ranks: what the ranks of that job saw
    #[arg(long, value_name = "MAP", conflicts_with_all = ["all", "need", "content"])]
    pub(crate) map: Option<PathBuf>,

    /// Compare the contents of the files in a directory too
    #[arg(long)]
    pub(crate) content: bool,

    /// Time for a file system to answer, in seconds. Reading may take longer, as long as it goes on
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_deadline)]
    pub(crate) deadline: Duration,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_need(text: &str) -> Result<Requirements, String> {
    Requirements::parse(text, parse_size).map_err(|invalid| invalid.to_string())
}

/// Seconds, from a tenth to an hour.
fn parse_deadline(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.1..=3_600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("not between 0.1 and 3600".to_owned())
    }
}
