//! The arguments of `atta sum`, and what they mean to the library. No I/O.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::{Chunk, EffortArguments, ReportArguments, VisitArguments, parse_chunk};
use crate::schedule::RankArguments;
use crate::size::parse_size;

/// How entries are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SumFormat {
    /// A line for each file, as b3sum prints it
    B3sum,
    /// One JSON object for each entry, with all that is known of it
    Ndjson,
    /// Comma-separated values with a header, a line for each entry
    Csv,
}

/// Print digests of files, check them, sign whole trees
#[derive(Debug, Args)]
#[command(
    after_help = "Prints the BLAKE3 of every regular file at and below each PATH, as b3sum would, in the order in which they are \
    done. Large files are hashed by several threads. Then, on standard error, the signature: one number for all paths, kinds, \
    sizes, contents and link targets, the same that 'atta copy' prints of them. Symbolic links are not followed, a PATH that is \
    one neither, unless it ends in a slash; pipes, sockets and devices are not opened.\n\n\
    Exit codes: 0 all done; 1 something is not as it was recorded; 2 wrong usage; 3 done, but some entries failed or changed; \
    4 could not go on; 130 and 143 interrupted; 141 output closed.\n\n\
    Examples:\n  \
    atta sum /data > data.b3                  digests of a tree\n  \
    atta sum --check data.b3                  the listed files: missing, or different\n  \
    atta sum --check data.b3 /data            what is not listed as well\n  \
    atta sum --output data.sums /data         in a catalog of Parquet files\n  \
    atta sum --check data.sums                the tree it was made of\n  \
    atta sum --signature /data                one number for all of it"
)]
pub(crate) struct SumArguments {
    /// Files and trees. Without one, or with -, standard input is read
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Compare with a record: lines of b3sum, rows of --format ndjson (a file, or - for standard input), or a catalog of --output.
    /// Without PATH what it lists or was made of, else what is below PATH. Prints what is different
    #[arg(short, long, value_name = "RECORD", help_heading = "Output", conflicts_with_all = ["format", "sort", "signature", "output"])]
    pub(crate) check: Option<PathBuf>,

    /// How to print entries [default: b3sum, and nothing with --output]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) format: Option<SumFormat>,

    /// Print in the order of the paths, when all is done
    #[arg(long, help_heading = "Output")]
    pub(crate) sort: bool,

    /// Print the signature and nothing else
    #[arg(long, help_heading = "Output", conflicts_with_all = ["format", "sort"])]
    pub(crate) signature: bool,

    /// Write a catalog of Parquet files, with digests, to a new directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) report: ReportArguments,

    #[command(flatten, next_help_heading = "What to sum up")]
    pub(crate) visit: VisitArguments,

    /// Bytes that one thread hashes of a large file at a time (a power of two, at least 1M), or auto: by its size and the
    /// number of threads
    #[arg(long, value_name = "SIZE|auto", default_value = "auto", value_parser = parse_chunk, help_heading = "How to sum up")]
    pub(crate) chunk: Chunk,

    /// Hash at most so many bytes of holes of a file. A file with more fails
    #[arg(long, value_name = "SIZE", default_value = "1T", value_parser = parse_size, help_heading = "How to sum up")]
    pub(crate) max_holes: u64,

    #[command(flatten, next_help_heading = "How to sum up")]
    pub(crate) effort: EffortArguments,

    #[command(flatten, next_help_heading = "On several ranks (under mpirun or srun)")]
    pub(crate) ranks: RankArguments,
}

impl SumArguments {
    /// How entries are printed, if they are.
    pub(crate) fn rows(&self) -> Option<SumFormat> {
        let is_other = self.check.is_some() || self.signature || self.output.is_some();
        let default = if self.sort || !is_other { Some(SumFormat::B3sum) } else { None };
        self.format.or(default)
    }

    /// Whether standard output has something else than the summary.
    pub(crate) fn prints(&self) -> bool {
        self.rows().is_some() || self.check.is_some() || self.signature
    }

    /// Whether standard input is what is summed up.
    pub(crate) fn reads_input(&self) -> bool {
        self.check.is_none() && (self.paths.is_empty() || self.paths == ["-"])
    }
}
