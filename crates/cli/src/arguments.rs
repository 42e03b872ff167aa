//! The arguments that commands on trees have in common: what to visit, with which effort, and what to report. No I/O.

use std::path::PathBuf;
use std::time::Duration;

use atta_ops::walk::Rule;
use atta_runtime::Threads;
use clap::{ArgMatches, Args, ValueEnum};

use crate::run::job::Kept;
use crate::size::{parse_memory, parse_size};
use crate::threads::parse_threads;

/// When to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressWhen {
    /// If standard error is a terminal
    Auto,
    /// Also if standard error is not a terminal: one line per second
    Always,
    /// Never
    Never,
}

/// Seconds until `--stall-warn` warns.
const STALL_WARN: u32 = 60;

/// What a run reports, and how.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ReportArguments {
    /// Write failed entries to a file (NDJSON; can be passed to --from-list)
    #[arg(long, value_name = "FILE")]
    pub(crate) errors: Option<PathBuf>,

    /// Print to a file instead of standard output; an existing file is overwritten. Under mpirun or srun the first rank writes it,
    /// and nothing depends on the launcher
    #[arg(long, value_name = "FILE")]
    pub(crate) print_to: Option<PathBuf>,

    /// Print the summary as JSON: on standard output, or on standard error if entries are printed
    #[arg(long)]
    pub(crate) json: bool,

    /// When to show progress on standard error
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ProgressWhen::Auto)]
    pub(crate) progress: ProgressWhen,

    /// Warn when a thread waits for this many seconds in one call of a file system, with the call and the path; again after twice the
    /// time, and when it goes on. 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = STALL_WARN, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub(crate) stall_warn: u32,

    /// Print every error, and a more detailed summary
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Print only errors: no summary and no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl ReportArguments {
    /// When to warn of a thread that waits.
    pub(crate) fn stall_limit(&self) -> Option<Duration> {
        (self.stall_warn > 0).then(|| Duration::from_secs(self.stall_warn.into()))
    }

    /// How the summary of a job that is complete is printed again.
    pub(crate) fn kept(&self) -> Kept {
        match (self.json, self.quiet) {
            (true, _) => Kept::Json,
            (false, true) => Kept::Nothing,
            (false, false) => Kept::Text,
        }
    }
}

/// What of the trees is visited.
#[derive(Clone, Debug, Args)]
pub(crate) struct VisitArguments {
    /// Exclude matching entries and everything below them (gitignore syntax) [may be repeated]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,

    /// Include matching entries. The last matching --exclude or --include applies. If the first rule is an --include,
    /// files that match no rule are excluded [may be repeated]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,

    /// Do not enter other file systems or bind mounts
    #[arg(short = 'x', long)]
    pub(crate) one_file_system: bool,

    /// The rules in the order in which they were given.
    #[arg(skip)]
    pub(crate) rules: Vec<Rule>,
}

impl VisitArguments {
    /// The rules, as each run of a job must have them.
    pub(crate) fn agrees(&self) -> impl Iterator<Item = Vec<u8>> {
        self.rules.iter().map(|rule| match rule {
            Rule::Exclude(pattern) => format!("--exclude {pattern}").into_bytes(),
            Rule::Include(pattern) => format!("--include {pattern}").into_bytes(),
        })
    }

    /// Puts --exclude and --include together in the order of the command line, which decides between them.
    pub(crate) fn take_rules(&mut self, matches: &ArgMatches) {
        let indices = |name| matches.indices_of(name).into_iter().flatten();
        let mut rules: Vec<_> = indices("exclude")
            .zip(self.exclude.iter().cloned().map(Rule::Exclude))
            .chain(indices("include").zip(self.include.iter().cloned().map(Rule::Include)))
            .collect();
        rules.sort_by_key(|(index, _)| *index);
        self.rules = rules.into_iter().map(|(_, rule)| rule).collect();
    }
}

/// With which effort.
#[derive(Clone, Debug, Args)]
pub(crate) struct EffortArguments {
    /// Number of threads, or auto: one per core, and more while most threads wait for I/O
    #[arg(short = 'j', long, value_name = "N|auto", default_value = "auto", value_parser = parse_threads)]
    pub(crate) threads: Threads,

    /// Memory for pending work. If it is exceeded, work is moved to an unlinked file in $TMPDIR or /var/tmp
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_memory)]
    pub(crate) memory: u64,

    /// Maximum number of metadata operations per second on the trees that are read, over all threads [default: unlimited]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iops: Option<u32>,
}

/// How large files are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    Auto,
    Bytes(u64),
}

impl Chunk {
    /// None: by size and number of threads.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// A chunk as a user writes it.
///
/// # Errors
/// Says what is wrong with it.
pub(crate) fn parse_chunk(text: &str) -> Result<Chunk, String> {
    if text == "auto" {
        return Ok(Chunk::Auto);
    }
    match parse_size(text)? {
        bytes if bytes < 1 << 20 => Err("less than 1M".to_owned()),
        bytes if !bytes.is_power_of_two() => Err("no power of two, as in 64M".to_owned()),
        bytes => Ok(Chunk::Bytes(bytes)),
    }
}
