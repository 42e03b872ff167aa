//! The arguments of `atta sum`, and what they mean to the library. No I/O.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::arguments::{Chunk, EffortArguments, ReportArguments, VisitArguments, parse_chunk};
use crate::run::deaths::Deaths;
use crate::run::going::Resumes;
use crate::schedule::RankArguments;
use crate::size::parse_size;

/// How entries are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SumFormat {
    /// One line per file, in the format of b3sum
    B3sum,
    /// One JSON object per entry, with all its fields
    Ndjson,
    /// Comma-separated values with a header, one line per entry
    Csv,
}

/// Compute or check BLAKE3 digests of files and the signature of a tree
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Prints the BLAKE3 digest of every regular file at and below each PATH, in the format of b3sum, in order of \
    completion. Several threads hash a large file. The summary on standard error contains the signature: one digest of all paths, \
    types, sizes, contents and link targets. 'atta copy' prints the same signature for the same tree.\n\n\
    Symbolic links are not followed; a PATH that is a symbolic link is followed only if it ends in a slash. Pipes, sockets and \
    devices are not opened.\n\n\
    Exit codes: 0 success; 1 differences from the record found; 2 invalid usage; 3 completed, but some entries failed or changed \
    while they were read, or directories that an earlier run had finished have changed; 4 fatal error; 130 or 143 interrupted (SIGINT, SIGTERM); 141 standard output closed.\n\n\
    Examples:\n  \
    atta sum /data > data.b3                  write the digests of a tree\n  \
    atta sum --check data.b3                  report files that are missing or different\n  \
    atta sum --check data.b3 /data            report also files that are not listed\n  \
    atta sum --output data.sums /data         write a catalog (Parquet) with digests; after a kill, the same command goes on\n  \
    atta sum --check data.sums                check the tree of the catalog\n  \
    atta sum --signature /data                print only the signature"
)]
pub(crate) struct SumArguments {
    /// Files and trees to hash; - or no PATH: standard input
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,

    /// Check files against a record and print the differences. The record is output of b3sum or --format ndjson (a file, or -
    /// for standard input), or a catalog written by --output. Without PATH, checks the recorded entries; with PATH, reports also
    /// files below PATH that are not recorded
    #[arg(short, long, value_name = "RECORD", help_heading = "Output", conflicts_with_all = ["format", "sort", "signature", "output"])]
    pub(crate) check: Option<PathBuf>,

    /// Format of the output [default: b3sum; with --output: no entries are printed]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) format: Option<SumFormat>,

    /// Print entries sorted by path, at the end of the run
    #[arg(long, help_heading = "Output")]
    pub(crate) sort: bool,

    /// Print only the signature
    #[arg(long, help_heading = "Output", conflicts_with_all = ["format", "sort"])]
    pub(crate) signature: bool,

    /// Write a catalog (Parquet files) with digests to a new directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) report: ReportArguments,

    /// Forget what a killed run with --output has done, and begin anew
    #[arg(long, requires = "output", conflicts_with_all = ["format", "sort", "signature"], help_heading = "Resume")]
    pub(crate) restart: bool,

    /// Whether ranks have died: see `run/going.rs`.
    #[arg(skip)]
    pub(crate) deaths: Deaths,

    /// Keep no log of a run with --output: after a kill it begins anew
    #[arg(long, conflicts_with = "restart", help_heading = "Resume")]
    pub(crate) no_job: bool,

    #[command(flatten, next_help_heading = "Selection")]
    pub(crate) visit: VisitArguments,

    /// Chunk size for hashing large files with several threads (a power of two, at least 1M), or auto: chosen by file size
    /// and number of threads
    #[arg(long, value_name = "SIZE|auto", default_value = "auto", value_parser = parse_chunk, help_heading = "Hashing")]
    pub(crate) chunk: Chunk,

    /// Maximum size of all holes of a file that are hashed. A file with more is an error
    #[arg(long, value_name = "SIZE", default_value = "1T", value_parser = parse_size, help_heading = "Hashing")]
    pub(crate) max_holes: u64,

    #[command(flatten, next_help_heading = "Hashing")]
    pub(crate) effort: EffortArguments,

    #[command(flatten, next_help_heading = "MPI ranks (under mpirun or srun)")]
    pub(crate) ranks: RankArguments,

    /// End a part of the catalog after this many rows of a thread, too, for tests
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) part_rows: Option<u64>,
}

impl Resumes for SumArguments {
    /// Its job is beside its catalog.
    fn resume(&mut self, _directory: PathBuf, deaths: Deaths) {
        (self.restart, self.deaths) = (false, deaths);
    }
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

    /// Whether a run with a catalog has no log: it also prints, or is not to have one.
    pub(crate) fn lacks_job(&self) -> bool {
        self.no_job || self.prints()
    }

    /// The options that change what is hashed, as each run of a job must have them.
    pub(crate) fn agrees(&self) -> Vec<Vec<u8>> {
        let one = self.visit.one_file_system.then(|| "--one-file-system".to_owned());
        let flags = [one, Some(format!("--max-holes {}", self.max_holes))];
        self.visit.agrees().chain(flags.into_iter().flatten().map(String::into_bytes)).collect()
    }

    /// Whether standard input is what is summed up.
    pub(crate) fn reads_input(&self) -> bool {
        self.check.is_none() && (self.paths.is_empty() || self.paths == ["-"])
    }
}
