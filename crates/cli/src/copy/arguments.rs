//! The arguments of `atta copy`, and what they mean to the library. No I/O.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use atta_ops::copy::{Existing, Fsync, Reflink, Stripes};
use clap::{Args, ValueEnum};

use super::keep::KeepArguments;
use super::stripes::{Striping, parse_stripes};
use crate::arguments::{Chunk, EffortArguments, ReportArguments, VisitArguments, parse_chunk};
use crate::run::starts::ListForm;
use crate::schedule::RankArguments;
use crate::size::parse_size;

/// When what was copied is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FsyncWhen {
    /// Before it gets its name, many files at a time
    Batch,
    /// Before it gets its name, each file by itself
    File,
    /// When the kernel likes
    None,
}

impl From<FsyncWhen> for Fsync {
    fn from(when: FsyncWhen) -> Self {
        match when {
            FsyncWhen::Batch => Self::Batch,
            FsyncWhen::File => Self::File,
            FsyncWhen::None => Self::None,
        }
    }
}

/// Whether copies share the bytes of their sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReflinkWhen {
    /// Where they can, with --digest none
    Auto,
    /// Needs --digest none; a file that cannot is not copied
    Always,
    /// Never
    Never,
}

impl From<ReflinkWhen> for Reflink {
    fn from(when: ReflinkWhen) -> Self {
        match when {
            ReflinkWhen::Auto => Self::Auto,
            ReflinkWhen::Always => Self::Always,
            ReflinkWhen::Never => Self::Never,
        }
    }
}

/// What is computed of the bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DigestKind {
    /// BLAKE3 of each file, and the signature of the whole
    Blake3,
    /// Nothing
    None,
}

/// Copy file trees
#[derive(Debug, Args)]
#[command(
    override_usage = "atta copy [OPTIONS] SOURCE... TARGET",
    after_help = "SOURCEs go where 'cp -a' would put them: into TARGET if that is a directory, else one SOURCE becomes \
    TARGET; with -T it always does. 'SOURCE/.' copies what is in SOURCE. Contents, holes, modes, owners, times, links, hard links, extended \
    attributes and ACLs are kept; what cannot be kept is counted. Whoever looks at TARGET meanwhile sees old files, new \
    ones or none, never parts of one.\n\n\
    Exit codes: 0 all done; 2 wrong usage; 3 done, but some entries failed or changed; 4 could not go on; 130 and 143 \
    interrupted.\n\n\
    Examples:\n  \
    atta copy /data /backup                       to /backup/data, if /backup is a directory\n  \
    atta copy /data/. /backup                     what is in it\n  \
    atta copy --exclude '*.tmp' a b c /backup     several, without some files\n  \
    atta copy --repair differences a b            what 'atta verify --format ndjson a b >differences' found"
)]
pub(crate) struct CopyArguments {
    /// What to copy, one or several; the last one is TARGET
    #[arg(value_name = "PATH", num_args = 2.., required = true)]
    pub(crate) paths: Vec<OsString>,

    #[command(flatten)]
    pub(crate) report: ReportArguments,

    /// Write progress events to a file (NDJSON)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) events: Option<PathBuf>,

    #[command(flatten, next_help_heading = "What to copy")]
    pub(crate) visit: VisitArguments,

    /// Copy what a file lists, and what is below it (separated by NULs, or NDJSON rows with a "path"); - is standard
    /// input. Relative names start at SOURCE, rows are as recorded. Rows of 'atta verify --format ndjson' are repaired, as
    /// with --repair. There is no signature
    #[arg(long, value_name = "FILE", help_heading = "What to copy")]
    pub(crate) from_list: Option<PathBuf>,

    /// The list has a path on each line. A line that may stand for more than one name is refused
    #[arg(long, requires = "from_list", help_heading = "What to copy")]
    pub(crate) lines: bool,

    /// Repair the differences that a file lists, as 'atta verify --format ndjson SOURCE TARGET' prints them; - is standard
    /// input. Both sides of each are looked at again; only what differs is changed; what TARGET alone has is left and
    /// counted. SOURCE and TARGET are the two that were compared
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["from_list", "update", "ignore_existing"],
        help_heading = "What to copy"
    )]
    pub(crate) repair: Option<PathBuf>,

    /// Only say what would be made: totals, and with -v each name. Nothing is written, and files are not opened
    #[arg(short = 'n', long, help_heading = "What to copy")]
    pub(crate) dry_run: bool,

    /// TARGET is the name of the copy of one SOURCE, also if it is a directory already: the copy is merged into it, and does not go
    /// to TARGET/NAME
    #[arg(short = 'T', long, help_heading = "What to copy")]
    pub(crate) no_target_directory: bool,

    /// Leave files as they are that have the size and the time of change of their source, but for modes, owners and
    /// attributes; replace all others, newer ones too. What is left is not read: there is no signature
    #[arg(long, help_heading = "What is there already")]
    pub(crate) update: bool,

    /// Leave as it is whatever has the name of a copy; directories are entered. There is no signature where
    /// anything is left
    #[arg(long, conflicts_with = "update", help_heading = "What is there already")]
    pub(crate) ignore_existing: bool,

    /// Do not start while another copy is writing to TARGET, nor where the file system does not say
    #[arg(long, help_heading = "What is there already")]
    pub(crate) exclusive: bool,

    /// Write into files that are there instead of replacing them. Whoever has one open sees old and new bytes mixed;
    /// after a failure or a kill the old content is gone and the new one not whole. Files with several names, and
    /// those that are not this user's to write and to change, are replaced all the same
    #[arg(long, help_heading = "What is there already")]
    pub(crate) in_place: bool,

    #[command(flatten)]
    pub(crate) keep: KeepArguments,

    /// When to make durable what was copied
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = FsyncWhen::Batch, help_heading = "How to copy")]
    pub(crate) fsync: FsyncWhen,

    /// What to compute of the bytes on their way
    #[arg(long, value_enum, value_name = "KIND", default_value_t = DigestKind::Blake3, help_heading = "How to copy")]
    pub(crate) digest: DigestKind,

    /// Read each copy back when it is on stable storage, past the cache where the kernel lets it out, and compare; what
    /// differs is written once more
    #[arg(long, help_heading = "How to copy")]
    pub(crate) verify: bool,

    /// Bytes that one thread copies of a large file at a time (a power of two, at least 1M), or auto: by its size and the
    /// number of threads
    #[arg(long, value_name = "SIZE|auto", default_value = "auto", value_parser = parse_chunk, help_heading = "How to copy")]
    pub(crate) chunk: Chunk,

    /// Hash at most so many bytes of holes of a file. A file with more is copied without a digest and counted; then there is no
    /// signature
    #[arg(long, value_name = "SIZE", default_value = "1T", value_parser = parse_size, help_heading = "How to copy")]
    pub(crate) max_holes: u64,

    #[command(flatten, next_help_heading = "How to copy")]
    pub(crate) effort: EffortArguments,

    /// Read and write files of 1M and more past the page cache (O_DIRECT), where both file systems take that; files for
    /// which they do not, and those with holes, are counted
    #[arg(long, help_heading = "How to copy")]
    pub(crate) direct: bool,

    /// Whether copies share the bytes of their sources until one of them changes, on file systems that can
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ReflinkWhen::Auto, help_heading = "How to copy")]
    pub(crate) reflink: ReflinkWhen,

    /// How files are striped on Lustre: keep, as their sources are; default, as their directories say; COUNT or COUNT:SIZE; or by
    /// size, as in '1M=1,1G=4:4M,all'. Not tested on Lustre yet
    #[arg(long, value_name = "keep|default|RULES", default_value = "default", value_parser = parse_stripes, help_heading = "How to copy")]
    pub(crate) stripe: Striping,

    /// At most so many bytes a second, over all threads
    #[arg(long, value_name = "SIZE", value_parser = parse_bandwidth, help_heading = "How to copy")]
    pub(crate) bandwidth: Option<u64>,

    #[command(flatten)]
    pub(crate) ranks: RankArguments,
}

impl CopyArguments {
    /// How copies are striped; none: as their directories say.
    pub(crate) fn stripes(&self) -> Option<Stripes> {
        match &self.stripe {
            Striping::Default => None,
            Striping::Asked(stripes) => Some(stripes.clone()),
        }
    }

    /// The list of what is to be copied, and how it is read; none: there is no list.
    pub(crate) fn list(&self) -> Option<(&Path, ListForm)> {
        let form = if self.lines { ListForm::Lines } else { ListForm::Detected };
        let listed = self.from_list.as_deref().map(|list| (list, form));
        listed.or(self.repair.as_deref().map(|list| (list, ListForm::Differences)))
    }

    /// What is done where something is there already.
    pub(crate) fn existing(&self) -> Existing {
        match (self.update, self.ignore_existing) {
            (true, _) => Existing::Update,
            (_, true) => Existing::Ignore,
            _ => Existing::Replace,
        }
    }
}

fn parse_bandwidth(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("nothing would be copied".to_owned()),
        bytes => Ok(bytes),
    }
}
