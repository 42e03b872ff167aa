//! The arguments of `atta walk`, and what they mean to the library. No I/O.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use atta_catalog::{Columns, Format};
use clap::{Args, ValueEnum};

use crate::arguments::{EffortArguments, ReportArguments, VisitArguments};
use crate::run::deaths::Deaths;
use crate::run::going::Resumes;
use crate::run::own::OwnJob;
use crate::run::starts::ListForm;
use crate::schedule::RankArguments;

/// What is written for each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// A table: permissions, links, owner, group, size, allocated size, mtime, path; unusual characters in names are escaped
    Text,
    /// One JSON object per line
    Ndjson,
    /// Comma-separated values with a header
    Csv,
}

/// What a walk does beside counting, for measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Callback {
    /// Sums up what the summary shows
    Summary,
    /// Uses every attribute and the path of every entry
    Full,
}

/// Scan file trees: totals, listings, catalogs
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Visits each PATH and every entry below it once. By default only a summary is printed. Symbolic links are not \
    followed; a PATH that is a symbolic link is followed only if it ends in a slash.\n\n\
    Exit codes: 0 success; 2 invalid usage; 3 completed, but some entries failed, or directories \
    that an earlier run had finished have changed; 4 fatal error; 130 or 143 interrupted \
    (SIGINT, SIGTERM); 141 standard output closed.\n\n\
    Examples:\n  \
    atta walk /data                               totals of a tree\n  \
    atta walk --print --exclude .snapshot /data   list a tree without its snapshots\n  \
    atta walk --output scan.catalog /data         write a catalog (Parquet)\n  \
    atta walk --from-list errors.ndjson           visit failed entries again\n  \
    atta walk --job walk.job /data                totals; after a kill the same command goes on, as with --output"
)]
pub(crate) struct WalkArguments {
    /// Trees to walk [default: the current directory]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Print the path of each entry, one per line
    #[arg(long, help_heading = "Output", conflicts_with = "format")]
    pub(crate) print: bool,

    /// Print the path of each entry, each terminated by a NUL byte
    #[arg(short = '0', long, help_heading = "Output", conflicts_with = "format")]
    pub(crate) print0: bool,

    /// Print a row for each entry
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) format: Option<RowFormat>,

    /// Write a catalog (Parquet files) to a new directory
    #[arg(long, value_name = "DIR", group = "logged", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// Record the targets of symbolic links
    #[arg(long, help_heading = "Output")]
    pub(crate) targets: bool,

    /// Write progress events to a file (NDJSON)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) events: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) report: ReportArguments,

    #[command(flatten, next_help_heading = "Selection")]
    pub(crate) visit: VisitArguments,

    /// Visit at most N levels below each PATH [default: unlimited]
    #[arg(short = 'd', long, value_name = "N", help_heading = "Selection")]
    pub(crate) max_depth: Option<u32>,

    /// Follow symbolic links whose target is below PATH; report other ones as errors
    #[arg(short = 'L', long, help_heading = "Selection")]
    pub(crate) follow: bool,

    /// Walk the paths that a file lists, separated by NUL bytes or as NDJSON rows with a "path"; - reads standard input.
    /// Relative paths start at PATH, or at the current directory
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub(crate) from_list: Option<PathBuf>,

    /// The list has one path per line. Lines whose meaning is ambiguous, such as escaped names, are errors
    #[arg(long, requires = "from_list", help_heading = "Selection")]
    pub(crate) lines: bool,

    /// Do not read metadata of entries whose type is in the directory listing. Rows then have only path, type, depth and inode
    #[arg(long, help_heading = "Performance")]
    pub(crate) lite: bool,

    /// Keep a log of a walk without --output in DIR, so that the same command, or atta resume DIR, goes on after a kill, on any number of
    /// ranks. DIR is made if it is missing. Entries are not printed
    #[arg(long, value_name = "DIR", group = "logged", help_heading = "Resume", conflicts_with_all = ["print", "print0", "format", "from_list", "follow"])]
    pub(crate) job: Option<PathBuf>,

    /// Forget what was done before, and begin anew
    #[arg(long, requires = "logged", conflicts_with_all = ["print", "print0", "format", "from_list", "follow"], help_heading = "Resume")]
    pub(crate) restart: bool,

    /// Go on when ranks die, without a directory that all ranks see: K other ranks keep a copy of each log in memory (Open MPI 5, mpirun
    /// --with-ft ulfm). Entries are not printed
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=64), help_heading = "Resume", conflicts_with_all = ["logged", "no_job", "no_survive", "print", "print0", "format", "from_list", "follow"])]
    pub(crate) survive: Option<u32>,

    /// The job of a walk with --survive, on this rank.
    #[arg(skip)]
    pub(crate) own: Option<Arc<OwnJob>>,

    /// Whether ranks have died: see `run/going.rs`.
    #[arg(skip)]
    pub(crate) deaths: Deaths,

    /// Keep no log of a walk with --output: after a kill it begins anew
    #[arg(long, conflicts_with_all = ["job", "restart"], help_heading = "Resume")]
    pub(crate) no_job: bool,

    #[command(flatten, next_help_heading = "Performance")]
    pub(crate) effort: EffortArguments,

    #[command(flatten)]
    pub(crate) ranks: RankArguments,

    /// Write message counts for each pair of ranks and a time profile of each rank (JSON)
    #[arg(long, value_name = "FILE", help_heading = "MPI ranks (under mpirun or srun)")]
    pub(crate) stats: Option<PathBuf>,

    /// Write figures of load balance, time profiles and messages between ranks (SVG) to a directory
    #[arg(long, value_name = "DIR", help_heading = "MPI ranks (under mpirun or srun)")]
    pub(crate) plots: Option<PathBuf>,

    /// What to do with each entry, for measurements
    #[arg(long, value_enum, default_value_t = Callback::Summary, hide = true)]
    pub(crate) callback: Callback,

    /// End a part of the catalog after this many rows of a thread, too, for tests
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) part_rows: Option<u64>,

    /// Take the kernel to lack a feature, for tests
    #[arg(long, value_name = "FEATURE", value_parser = ["statx-mount-id"], hide = true)]
    pub(crate) without: Vec<String>,
}

impl Resumes for WalkArguments {
    fn resume(&mut self, directory: PathBuf, deaths: Deaths) {
        (self.restart, self.deaths) = (false, deaths);
        // Each rank has its own directory.
        if self.own.is_none() {
            self.job = Some(directory);
        }
    }
}

impl WalkArguments {
    /// How `--from-list` is read.
    pub(crate) fn list_form(&self) -> ListForm {
        if self.lines { ListForm::Lines } else { ListForm::Detected }
    }

    /// The options that change what is counted, as each run of a job must have them.
    pub(crate) fn agrees(&self) -> Vec<Vec<u8>> {
        let depth = self.max_depth.map(|levels| format!("--max-depth {levels}"));
        let flag = |is_set, name: &str| Some(name.to_owned()).filter(|_| is_set);
        let targets = flag(self.targets && self.output.is_some(), "--targets");
        let flags = [
            flag(self.visit.one_file_system, "--one-file-system"),
            flag(self.lite, "--lite"),
            targets,
            depth,
        ];
        self.visit.agrees().chain(flags.into_iter().flatten().map(String::into_bytes)).collect()
    }

    /// Whether a walk with a catalog has no log: it also prints rows, reads a list, follows links, or is not to have one.
    pub(crate) fn lacks_job(&self) -> bool {
        self.no_job || self.row_format().is_some() || self.from_list.is_some() || self.follow
    }

    /// The format of the rows on standard output, if there are to be any.
    pub(crate) fn row_format(&self) -> Option<Format> {
        match self.format {
            Some(RowFormat::Text) => Some(Format::Text),
            Some(RowFormat::Ndjson) => Some(Format::Ndjson),
            Some(RowFormat::Csv) => Some(Format::Csv),
            None if self.print0 => Some(Format::Path0),
            None if self.print => Some(Format::Path),
            None => None,
        }
    }

    /// Whether anything is to come of all attributes, not of sums and paths alone.
    pub(crate) fn shows_attributes(&self) -> bool {
        let paths_alone = matches!(self.row_format(), None | Some(Format::Path | Format::Path0));
        self.output.is_some() || !paths_alone || self.callback == Callback::Full
    }

    /// The columns of rows and catalog.
    pub(crate) fn columns(&self) -> Columns {
        if self.lite {
            Columns::Lite { targets: self.targets }
        } else {
            Columns::Full { targets: self.targets }
        }
    }
}
