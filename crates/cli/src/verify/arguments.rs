//! The arguments of `atta verify`, and what they mean to the library. No I/O.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use atta_entry::Field;
use atta_ops::verify::Fields;
use clap::{Args, ValueEnum};

use crate::arguments::{Chunk, EffortArguments, ReportArguments, VisitArguments, parse_chunk};
use crate::run::deaths::Deaths;
use crate::run::going::Resumes;
use crate::schedule::RankArguments;

/// What --quiet is for here.
const QUIET: &str = "Print only errors, and stop at the first difference (with --output, --errors or --json, compare everything)";

/// How differences are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DifferenceFormat {
    /// One line per difference; unusual characters in names are escaped
    Text,
    /// One JSON object per line
    Ndjson,
}

/// What can be compared of an entry. Its type is compared in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FieldName {
    /// Type of the entry; always compared
    Type,
    /// Size of a file
    Size,
    /// Permissions, set-user-ID, set-group-ID and sticky bits
    Mode,
    /// User and group
    Owner,
    /// Modification time
    Mtime,
    /// Extended attributes of files and directories, including ACLs and capabilities
    Xattrs,
    /// Target of a symbolic link
    Target,
    /// Hard links: which names refer to the same file
    Links,
    /// Device number of a device file
    Device,
    /// Contents of files; same as --content
    Content,
}

impl From<FieldName> for Field {
    fn from(name: FieldName) -> Self {
        match name {
            FieldName::Type => Self::Type,
            FieldName::Size => Self::Size,
            FieldName::Mode => Self::Mode,
            FieldName::Owner => Self::Owner,
            FieldName::Mtime => Self::Mtime,
            FieldName::Xattrs => Self::Xattrs,
            FieldName::Target => Self::Target,
            FieldName::Links => Self::Links,
            FieldName::Device => Self::Device,
            FieldName::Content => Self::Content,
        }
    }
}

/// Compare two file trees
#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("quiet", |quiet| quiet.help(QUIET)),
    after_help = "Compares the metadata that 'atta copy SOURCE TARGET' preserves, and with --content also the contents of files. \
    SOURCE and TARGET are two trees or two single entries. A symbolic link is compared as a link, unless its path ends in a slash. Holes, access times and \
    file flags (chattr) are not compared. A directory that exists on one side only is one difference, regardless of its contents.\n\n\
    Prints one line per difference: 'missing: PATH' (not in TARGET), 'extra: PATH' (only in TARGET), or 'different: PATH: \
    FIELD VALUE -> VALUE; ...' with the value of SOURCE first.\n\n\
    Exit codes: 0 no differences; 1 differences found, or some entries could not be compared, or directories that an \
    earlier run had compared have changed; 2 invalid usage; 4 fatal error; \
    130 or 143 interrupted (SIGINT, SIGTERM); 141 standard output closed.\n\n\
    Examples:\n  \
    atta verify /data /backup/data                  compare metadata only\n  \
    atta verify --content /data /backup/data        compare metadata and contents\n  \
    atta verify --fields size,mtime --modify-window 2 /data /mnt/usb\n  \
    atta verify --quiet a b && echo the same\n  \
    atta verify --content --output differences.parquet a b   after a kill the same command goes on\n  \
    atta verify --content --format ndjson a b >differences; atta copy --repair differences a b"
)]
pub(crate) struct VerifyArguments {
    /// The reference
    #[arg(value_name = "SOURCE")]
    pub(crate) source: OsString,

    /// The tree or entry to compare with SOURCE
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,

    /// Format of differences on standard output [default: text; with --output: none are printed]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output", conflicts_with = "quiet")]
    pub(crate) format: Option<DifferenceFormat>,

    /// Write differences to a Parquet file
    #[arg(long, value_name = "FILE", group = "logged", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) report: ReportArguments,

    /// Compare also the contents of files
    #[arg(short, long, help_heading = "Comparison")]
    pub(crate) content: bool,

    /// Fields to compare besides the type, separated by commas
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "size,mode,owner,mtime,xattrs,target,links,device",
        help_heading = "Comparison"
    )]
    pub(crate) fields: Vec<FieldName>,

    /// Treat modification times as equal if they differ by at most this many seconds
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds, help_heading = "Comparison")]
    pub(crate) modify_window: Duration,

    /// Keep a log of a run without --output in DIR, so that the same command, or atta resume DIR, goes on after a kill, on any number of
    /// ranks. DIR is made if it is missing. Differences that earlier runs have found are printed again
    #[arg(long, value_name = "DIR", group = "logged", help_heading = "Resume", conflicts_with_all = ["output"])]
    pub(crate) job: Option<PathBuf>,

    /// Forget what was done before, and begin anew
    #[arg(long, requires = "logged", help_heading = "Resume")]
    pub(crate) restart: bool,

    /// Whether ranks have died: see `run/going.rs`.
    #[arg(skip)]
    pub(crate) deaths: Deaths,

    /// Keep no log of a run with --output: after a kill it begins anew
    #[arg(long, conflicts_with_all = ["job", "restart"], help_heading = "Resume")]
    pub(crate) no_job: bool,

    #[command(flatten, next_help_heading = "Comparison")]
    pub(crate) visit: VisitArguments,

    /// Chunk size for comparing large files with several threads (a power of two, at least 1M), or auto: chosen by file
    /// size and number of threads
    #[arg(long, value_name = "SIZE|auto", default_value = "auto", value_parser = parse_chunk, help_heading = "Performance")]
    pub(crate) chunk: Chunk,

    #[command(flatten, next_help_heading = "Performance")]
    pub(crate) effort: EffortArguments,

    #[command(flatten, next_help_heading = "MPI ranks (under mpirun or srun)")]
    pub(crate) ranks: RankArguments,
}

impl Resumes for VerifyArguments {
    fn resume(&mut self, directory: PathBuf, deaths: Deaths) {
        (self.job, self.restart, self.deaths) = (Some(directory), false, deaths);
    }
}

impl VerifyArguments {
    /// What is compared.
    pub(crate) fn fields(&self) -> Fields {
        let fields: Fields = self.fields.iter().copied().map(Field::from).collect();
        if self.content { fields.with(Field::Content) } else { fields }
    }

    /// The options that change what is found, as each run of a job must have them.
    pub(crate) fn agrees(&self) -> Vec<Vec<u8>> {
        let fields = self.fields();
        let fields: Vec<_> =
            Field::ALL.iter().filter(|field| fields.has(**field)).map(|field| field.name()).collect();
        let one = self.visit.one_file_system.then(|| "--one-file-system".to_owned());
        let window = format!("--modify-window {}", self.modify_window.as_secs_f64());
        let options = [
            Some("atta verify".to_owned()),
            Some(format!("--fields {}", fields.join(","))),
            Some(window),
            one,
        ];
        options.into_iter().flatten().map(String::into_bytes).chain(self.visit.agrees()).collect()
    }

    /// How differences are printed, if they are.
    pub(crate) fn row_format(&self) -> Option<DifferenceFormat> {
        let is_text = !self.report.quiet && self.output.is_none();
        self.format.or_else(|| is_text.then_some(DifferenceFormat::Text))
    }

    /// Whether the run may end at the first difference: no output needs more.
    pub(crate) fn ends_at_first(&self) -> bool {
        let writes = self.output.is_some() || self.report.errors.is_some() || self.job.is_some();
        self.report.quiet && !writes && !self.report.json
    }
}

/// A time in seconds, to the nanosecond.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let no = || format!("'{text}' is no time in seconds, as in 1, 2.5 or 0.000001");
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return Err(no());
    }
    let seconds = whole.parse().map_err(|_| no())?;
    let nanoseconds = format!("{fraction:0<9}").parse().map_err(|_| no())?;
    Ok(Duration::new(seconds, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_to_the_nanosecond() {
        let cases = [("0", (0, 0)), ("2", (2, 0)), ("1.5", (1, 500_000_000)), ("0.000000001", (0, 1))];
        for (text, (seconds, nanoseconds)) in cases {
            assert_eq!(parse_seconds(text), Ok(Duration::new(seconds, nanoseconds)), "{text}");
        }
        for text in ["", ".", "1.", ".5", "-1", "+1", "1e3", "0.0000000001", "1.2.3", "99999999999999999999"]
        {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }
}
