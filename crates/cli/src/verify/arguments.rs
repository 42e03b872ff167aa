//! The arguments of `atta verify`, and what they mean to the library. No I/O.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use atta_entry::Field;
use atta_ops::verify::Fields;
use clap::{Args, ValueEnum};

use crate::arguments::{Chunk, EffortArguments, ReportArguments, VisitArguments, parse_chunk};
use crate::schedule::RankArguments;

/// What --quiet is for here.
const QUIET: &str =
    "Print nothing but errors, and end at the first difference, unless --output or --json wants all of them";

/// How differences are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DifferenceFormat {
    /// A line in words; names escaped
    Text,
    /// One JSON object a line
    Ndjson,
}

/// What can be compared of an entry. Its type is compared in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FieldName {
    /// What kind of entry it is: always
    Type,
    /// Bytes of a file
    Size,
    /// Permissions, set-id bits, sticky bit
    Mode,
    /// User and group
    Owner,
    /// Time of the last change
    Mtime,
    /// Extended attributes of files and directories, with ACLs and capabilities
    Xattrs,
    /// Where a symbolic link leads
    Target,
    /// Which names are one file
    Links,
    /// Number of a device
    Device,
    /// Bytes of files, as --content
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
#[derive(Debug, Args)]
#[command(
    mut_arg("quiet", |quiet| quiet.help(QUIET)),
    after_help = "Two directories are compared entry by entry, two other entries as what they are; a symbolic link is \
    compared as a link, unless it ends in a slash. What 'atta copy SOURCE TARGET' keeps is compared, but bytes only with \
    --content. Holes, times of access and flags of files (chattr) are not compared. A directory that one side alone has is one difference, whatever is below it. Each difference is a line: \
    'missing: PATH' in TARGET, 'extra: PATH' in TARGET, or 'different: PATH: FIELD VALUE -> VALUE; ...', SOURCE's value \
    first.\n\n\
    Exit codes: 0 no difference; 1 some, or entries that could not be compared; 2 wrong usage; 4 could not go on; \
    130 and 143 interrupted; 141 output closed.\n\n\
    Examples:\n  \
    atta verify /data /backup/data                  what a copy keeps, without reading files\n  \
    atta verify --content /data /backup/data        bytes, too\n  \
    atta verify --fields size,mtime --modify-window 2 /data /mnt/usb\n  \
    atta verify --quiet a b && echo the same\n  \
    atta verify --content --format ndjson a b >differences; atta copy --repair differences a b"
)]
pub(crate) struct VerifyArguments {
    /// What TARGET should be the same as
    #[arg(value_name = "SOURCE")]
    pub(crate) source: OsString,

    /// What is compared with it
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,

    /// How to print differences on standard output [default: text, unless --output is given]
    #[arg(long, value_enum, value_name = "FORMAT", help_heading = "Output", conflicts_with = "quiet")]
    pub(crate) format: Option<DifferenceFormat>,

    /// Write differences to a Parquet file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) report: ReportArguments,

    /// Compare the bytes of files, too
    #[arg(short, long, help_heading = "What to compare")]
    pub(crate) content: bool,

    /// What to compare beside the type, separated by commas
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "size,mode,owner,mtime,xattrs,target,links,device",
        help_heading = "What to compare"
    )]
    pub(crate) fields: Vec<FieldName>,

    /// Times that differ by at most so much are the same
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds, help_heading = "What to compare")]
    pub(crate) modify_window: Duration,

    #[command(flatten, next_help_heading = "What to compare")]
    pub(crate) visit: VisitArguments,

    /// Bytes that one thread compares of a large file at a time (a power of two, at least 1M), or auto: by its size and the
    /// number of threads
    #[arg(long, value_name = "SIZE|auto", default_value = "auto", value_parser = parse_chunk, help_heading = "How to compare")]
    pub(crate) chunk: Chunk,

    #[command(flatten, next_help_heading = "How to compare")]
    pub(crate) effort: EffortArguments,

    #[command(flatten, next_help_heading = "On several ranks (under mpirun or srun)")]
    pub(crate) ranks: RankArguments,
}

impl VerifyArguments {
    /// What is compared.
    pub(crate) fn fields(&self) -> Fields {
        let fields: Fields = self.fields.iter().copied().map(Field::from).collect();
        if self.content { fields.with(Field::Content) } else { fields }
    }

    /// How differences are printed, if they are.
    pub(crate) fn row_format(&self) -> Option<DifferenceFormat> {
        let is_text = !self.report.quiet && self.output.is_none();
        self.format.or_else(|| is_text.then_some(DifferenceFormat::Text))
    }

    /// Whether the run may end at the first difference: no output needs more.
    pub(crate) fn ends_at_first(&self) -> bool {
        self.report.quiet && self.output.is_none() && self.report.errors.is_none() && !self.report.json
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
