//! The arguments that commands on trees have in common: what to visit, with which effort, and what to report. No I/O.

use std::path::PathBuf;

use atta_ops::walk::Rule;
use atta_runtime::Threads;
use clap::{ArgMatches, Args, ValueEnum};

use crate::size::{parse_memory, parse_size};
use crate::threads::parse_threads;

/// When to show progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressWhen {
    /// On a terminal
    Auto,
    /// Also where standard error is no terminal: one line a second
    Always,
    /// Never
    Never,
}

/// What a run reports, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ReportArguments {
    /// Write entries that failed to a file (NDJSON; a list for --from-list)
    #[arg(long, value_name = "FILE")]
    pub(crate) errors: Option<PathBuf>,

    /// Write a summary as JSON (to standard output, or to standard error if something else is printed)
    #[arg(long)]
    pub(crate) json: bool,

    /// When to show progress on standard error
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ProgressWhen::Auto)]
    pub(crate) progress: ProgressWhen,

    /// Print every error, and more in the summary
    #[arg(short, long, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Print no summary and no progress, only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// What of the trees is visited.
#[derive(Debug, Args)]
pub(crate) struct VisitArguments {
    /// Leave out what matches, in gitignore syntax, and what is below it [may be repeated]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,

    /// Keep what matches; the last rule that matches decides. If the first rule is an --include, files that no
    /// rule matches are left out [may be repeated]
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
#[derive(Debug, Args)]
pub(crate) struct EffortArguments {
    /// Threads: a number, or auto: from the number of cores up, while they mostly wait
    #[arg(short = 'j', long, value_name = "N|auto", default_value = "auto", value_parser = parse_threads)]
    pub(crate) threads: Threads,

    /// Memory for what waits; more goes to an unlinked file in $TMPDIR or /var/tmp
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_memory)]
    pub(crate) memory: u64,

    /// At most N metadata operations a second on the trees that are read, over all threads
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
