//! The arguments of `atta walk`, and what they mean to the library. No I/O.

use std::ffi::OsString;
use std::path::PathBuf;

use atta_catalog::{Columns, Format};
use clap::{Args, ValueEnum};

use crate::arguments::{EffortArguments, ReportArguments, VisitArguments};
use crate::run::starts::ListForm;
use crate::schedule::RankArguments;

/// What is written for each entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// A table: permissions, links, owner, group, size, allocated, mtime, path; names escaped
    Text,
    /// One JSON object a line
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

/// List and record file trees
#[derive(Debug, Args)]
#[command(
    after_help = "Every entry below each PATH is visited once, whatever its name, depth or number. By default only \
    a summary is printed. Symbolic links are not followed, a PATH that is one neither, unless it ends in a slash.\n\n\
    Exit codes: 0 all done; 2 wrong usage; 3 done, but some entries failed; 4 could not go on; 130 and 143 interrupted; \
    141 output closed.\n\n\
    Examples:\n  \
    atta walk /data                               count a tree\n  \
    atta walk --print --exclude .snapshot /data   list it, but for snapshots\n  \
    atta walk --output scan.catalog /data         record it in Parquet files\n  \
    atta walk --from-list errors.ndjson           look again at what failed"
)]
pub(crate) struct WalkArguments {
    /// Trees to walk [default: the working directory]
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Print the path of each entry, one a line
    #[arg(long, help_heading = "Output", conflicts_with = "format")]
    pub(crate) print: bool,

    /// Print the path of each entry, each ended by a NUL
    #[arg(short = '0', long, help_heading = "Output", conflicts_with = "format")]
    pub(crate) print0: bool,

    /// Print a row for each entry
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) format: Option<RowFormat>,

    /// Write a catalog of Parquet files to a new directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    /// Record the targets of symbolic links
    #[arg(long, help_heading = "Output")]
    pub(crate) targets: bool,

    /// Write progress events to a file (NDJSON)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) events: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) report: ReportArguments,

    #[command(flatten, next_help_heading = "What to visit")]
    pub(crate) visit: VisitArguments,

    /// Visit at most N levels below each PATH
    #[arg(short = 'd', long, value_name = "N", help_heading = "What to visit")]
    pub(crate) max_depth: Option<u32>,

    /// Follow symbolic links that stay below PATH; the others are reported as errors
    #[arg(short = 'L', long, help_heading = "What to visit")]
    pub(crate) follow: bool,

    /// Walk the paths listed in a file (separated by NULs, or NDJSON rows with a "path"); - is standard input.
    /// Relative ones start at PATH, if one is given
    #[arg(long, value_name = "FILE", help_heading = "What to visit")]
    pub(crate) from_list: Option<PathBuf>,

    /// The list has a path on each line. A line that may stand for more than one name is refused
    #[arg(long, requires = "from_list", help_heading = "What to visit")]
    pub(crate) lines: bool,

    /// Do not ask for metadata where the directory tells the kind of an entry
    #[arg(long, help_heading = "How to walk")]
    pub(crate) lite: bool,

    #[command(flatten, next_help_heading = "How to walk")]
    pub(crate) effort: EffortArguments,

    #[command(flatten)]
    pub(crate) ranks: RankArguments,

    /// Write who sent what to whom, and where the time of each rank went, as JSON
    #[arg(long, value_name = "FILE", help_heading = "On several ranks (under mpirun or srun)")]
    pub(crate) stats: Option<PathBuf>,

    /// Draw how even the work was, where the time went and who sent what to whom, as SVG files
    #[arg(long, value_name = "DIR", help_heading = "On several ranks (under mpirun or srun)")]
    pub(crate) plots: Option<PathBuf>,

    /// What to do with each entry, for measurements
    #[arg(long, value_enum, default_value_t = Callback::Summary, hide = true)]
    pub(crate) callback: Callback,

    /// Take the kernel to lack a feature, for tests
    #[arg(long, value_name = "FEATURE", value_parser = ["statx-mount-id"], hide = true)]
    pub(crate) without: Vec<String>,
}

impl WalkArguments {
    /// How `--from-list` is read.
    pub(crate) fn list_form(&self) -> ListForm {
        if self.lines { ListForm::Lines } else { ListForm::Detected }
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
