//! The arguments of `atta copy`, and what they mean to the library. No I/O.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use atta_ops::copy::{Existing, Fsync, Kept, Reflink, Stripes};
use atta_runtime::LogLimits;
use clap::{Args, ValueEnum};

use super::keep::KeepArguments;
use super::stripes::{Striping, parse_stripes};
use crate::arguments::{Chunk, EffortArguments, ReportArguments, VisitArguments, parse_chunk};
use crate::run::deaths::Deaths;
use crate::run::going::Resumes;
use crate::run::starts::ListForm;
use crate::schedule::RankArguments;
use crate::size::parse_size;

/// When what was copied is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FsyncWhen {
    /// Before files are renamed to their final names, many files at a time
    Batch,
    /// Before files are renamed to their final names, one file at a time
    File,
    /// No explicit sync: the kernel writes data back later
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
    /// If possible, and only with --digest none
    Auto,
    /// Fail for files that cannot be cloned; requires --digest none
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
    /// BLAKE3 of each file, and the signature of the tree
    Blake3,
    /// No digest
    None,
}

/// How the rows of a manifest are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManifestFormat {
    /// One JSON object per entry, with path, kind, size, digest and link target
    Ndjson,
    /// One line per regular file, in the format of b3sum
    B3sum,
}

/// What a manifest has of files that the copy skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManifestSkipped {
    /// Their sizes; the rows have "not_read"
    List,
    /// Their digests: they are read in TARGET
    Read,
}

impl From<ManifestSkipped> for Kept {
    fn from(skipped: ManifestSkipped) -> Self {
        match skipped {
            ManifestSkipped::List => Self::Listed,
            ManifestSkipped::Read => Self::Read,
        }
    }
}

/// Copy file trees
#[derive(Clone, Debug, Args)]
#[command(
    override_usage = "atta copy [OPTIONS] SOURCE... TARGET",
    after_help = "If TARGET is a directory, each SOURCE is copied into it, else the only SOURCE is copied to the name TARGET, as \
    'cp -a' does. With -T, the SOURCE is always copied to the name TARGET. 'SOURCE/.' copies the contents of SOURCE.\n\n\
    Contents, holes, modes, owners, times, symbolic links, hard links, extended attributes and ACLs are preserved; the summary counts \
    entries for which this failed. Files appear atomically: other programs see the old file, the complete new one, or none (except with --in-place).\n\n\
    Exit codes: 0 success; 2 invalid usage; 3 completed, but some entries failed or changed during the copy; 4 fatal error; \
    130 or 143 interrupted (SIGINT, SIGTERM).\n\n\
    Examples:\n  \
    atta copy /data /backup                       to /backup/data, if /backup is a directory\n  \
    atta copy /data/. /backup                     the contents of /data\n  \
    atta copy --exclude '*.tmp' a b c /backup     several sources, without *.tmp\n  \
    atta resume /backup                           go on after a kill, or give the command again\n  \
    srun atta copy --per-node /tmp/out /results   each node's /tmp/out to /results/NODE/out\n  \
    atta copy --repair differences a b            repair what 'atta verify --format ndjson a b' found"
)]
pub(crate) struct CopyArguments {
    /// One or more SOURCEs, then TARGET
    #[arg(value_name = "PATH", num_args = 2.., required = true)]
    pub(crate) paths: Vec<OsString>,

    #[command(flatten)]
    pub(crate) report: ReportArguments,

    /// Write progress events to a file (NDJSON)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) events: Option<PathBuf>,

    /// Write the digests of the entries in TARGET to a file, sorted by path, when the copy is complete. 'atta sum --check FILE'
    /// compares them with TARGET. Nothing is written if the copy is interrupted
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "repair"], help_heading = "Output")]
    pub(crate) manifest: Option<PathBuf>,

    /// Format of the manifest
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t = ManifestFormat::Ndjson,
        requires = "manifest",
        help_heading = "Output"
    )]
    pub(crate) manifest_format: ManifestFormat,

    /// What the manifest has of files that --update or --ignore-existing skips
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value_t = ManifestSkipped::List,
        requires = "manifest",
        help_heading = "Output"
    )]
    pub(crate) manifest_skipped: ManifestSkipped,

    #[command(flatten, next_help_heading = "Selection")]
    pub(crate) visit: VisitArguments,

    /// Copy the entries that a file lists, and everything below them. The list has paths separated by NUL bytes, or NDJSON rows
    /// with a "path"; - reads standard input. Relative paths start at SOURCE; paths in rows are used as recorded. Rows of
    /// 'atta verify --format ndjson' are repaired as with --repair. No signature is computed
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub(crate) from_list: Option<PathBuf>,

    /// The list has one path per line. Lines whose meaning is ambiguous, such as escaped names, are errors
    #[arg(long, requires = "from_list", help_heading = "Selection")]
    pub(crate) lines: bool,

    /// Repair the differences that a file lists, in the format of 'atta verify --format ndjson SOURCE TARGET'; - reads
    /// standard input. Each listed entry is compared again, and only existing differences are repaired. Entries that exist
    /// only in TARGET are kept and counted. SOURCE and TARGET must be those of the comparison
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["from_list", "update", "ignore_existing"],
        help_heading = "Selection"
    )]
    pub(crate) repair: Option<PathBuf>,

    /// Print what would be copied: totals, and with -v each name. Nothing is written, and no file is opened
    #[arg(short = 'n', long, help_heading = "Selection")]
    pub(crate) dry_run: bool,

    /// Copy the only SOURCE to the name TARGET, even if TARGET is a directory: SOURCE is merged into TARGET instead of being
    /// copied to TARGET/NAME
    #[arg(short = 'T', long, help_heading = "Selection")]
    pub(crate) no_target_directory: bool,

    /// Each node copies its own SOURCEs, by itself: into TARGET/NODE, where NODE is its host name. TARGET is a directory that all nodes share, and is
    /// made if it is missing. A node without a SOURCE fails, and the others finish. No log is kept (--no-job)
    #[arg(long, help_heading = "Selection")]
    pub(crate) per_node: bool,

    /// Skip files whose size and modification time equal those of the source; only update their modes, owners and
    /// attributes. Replace all other files, even newer ones. Skipped files are not read, so no signature is computed
    #[arg(long, help_heading = "Existing entries")]
    pub(crate) update: bool,

    /// Skip entries that already exist in TARGET; existing directories are merged. No signature is computed if an entry
    /// was skipped
    #[arg(long, conflicts_with = "update", help_heading = "Existing entries")]
    pub(crate) ignore_existing: bool,

    /// Fail if another copy is writing to TARGET, or if the file system cannot detect this
    #[arg(long, help_heading = "Existing entries")]
    pub(crate) exclusive: bool,

    /// Overwrite existing files instead of replacing them. Programs that have such a file open see a mix of old and new data.
    /// After an error or a kill, the file has lost its old content and is incomplete. Files with several hard links, and
    /// files that this user may not write and modify, are replaced
    #[arg(long, help_heading = "Existing entries")]
    pub(crate) in_place: bool,

    #[command(flatten)]
    pub(crate) keep: KeepArguments,

    /// When to write copied data to stable storage
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = FsyncWhen::Batch, help_heading = "Copying")]
    pub(crate) fsync: FsyncWhen,

    /// Digest to compute while copying
    #[arg(long, value_enum, value_name = "KIND", default_value_t = DigestKind::Blake3, help_heading = "Copying")]
    pub(crate) digest: DigestKind,

    /// Read each copy back from stable storage, bypassing the page cache if possible, and compare its digest. A copy
    /// that differs is written once more
    #[arg(long, help_heading = "Copying")]
    pub(crate) verify: bool,

    /// Chunk size for copying large files with several threads (a power of two, at least 1M), or auto: chosen by file size
    /// and number of threads
    #[arg(long, value_name = "SIZE|auto", default_value = "auto", value_parser = parse_chunk, help_heading = "Copying")]
    pub(crate) chunk: Chunk,

    /// Maximum size of all holes of a file that are hashed. A file with more is copied without a digest and counted; no
    /// signature is computed then
    #[arg(long, value_name = "SIZE", default_value = "1T", value_parser = parse_size, help_heading = "Copying")]
    pub(crate) max_holes: u64,

    /// Keep the log of the copy in DIR, and until no entry fails, instead of in TARGET and until the copy ends. The same command, or atta resume DIR,
    /// goes on after a kill, on any number of ranks. DIR is made if it is missing
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Resume",
        conflicts_with_all = ["manifest", "from_list", "repair", "dry_run", "in_place"]
    )]
    pub(crate) job: Option<PathBuf>,

    /// Forget what a killed run of this copy has done, and begin anew
    #[arg(
        long,
        help_heading = "Resume",
        conflicts_with_all = ["manifest", "from_list", "repair", "dry_run", "in_place", "no_job"]
    )]
    pub(crate) restart: bool,

    /// Whether ranks have died: see `run/going.rs`.
    #[arg(skip)]
    pub(crate) deaths: Deaths,

    /// Keep no log: a copy that is killed begins anew
    #[arg(long, help_heading = "Resume", conflicts_with = "job")]
    pub(crate) no_job: bool,

    #[command(flatten, next_help_heading = "Copying")]
    pub(crate) effort: EffortArguments,

    /// Bypass the page cache (O_DIRECT) for files of 1M or more. Files with holes, and files on file systems that do not
    /// support it, are copied through the page cache and counted
    #[arg(long, help_heading = "Copying")]
    pub(crate) direct: bool,

    /// Whether to clone files (copy-on-write), on file systems that support it
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ReflinkWhen::Auto, help_heading = "Copying")]
    pub(crate) reflink: ReflinkWhen,

    /// Striping of new files on Lustre: keep (as the source file), default (as the directory), COUNT, COUNT:SIZE, or rules
    /// by file size, such as '1M=1,1G=4:4M,all'. Not tested on Lustre yet
    #[arg(long, value_name = "keep|default|RULES", default_value = "default", value_parser = parse_stripes, help_heading = "Copying")]
    pub(crate) stripe: Striping,

    /// Maximum data rate in bytes per second, over all threads [default: unlimited]
    #[arg(long, value_name = "SIZE", value_parser = parse_bandwidth, help_heading = "Copying")]
    pub(crate) bandwidth: Option<u64>,

    #[command(flatten)]
    pub(crate) ranks: RankArguments,

    /// Publish, sync, and sync the log of the job after this time in milliseconds, for tests
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..), hide = true)]
    pub(crate) sync_ms: Option<u32>,
}

impl Resumes for CopyArguments {
    fn resume(&mut self, directory: PathBuf, deaths: Deaths) {
        (self.job, self.restart, self.deaths) = (Some(directory), false, deaths);
    }
}

impl CopyArguments {
    /// The options that change what is copied, as each run of a job must have them.
    pub(crate) fn agrees(&self) -> Vec<Vec<u8>> {
        let flag = |is_set, name: &str| Some(name.to_owned()).filter(|_| is_set);
        let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
            value().map_or_else(String::new, |value| value.get_name().to_owned())
        };
        let preserve: Vec<_> =
            self.keep.preserve.iter().map(|kept| name(&|| kept.to_possible_value())).collect();
        let listed = |option: &str, values: &[String]| {
            (!values.is_empty()).then(|| format!("{option} {}", values.join(",")))
        };
        let stripes = self.stripes().map(|stripes| format!("--stripe {stripes:?}"));
        let options = [
            flag(self.visit.one_file_system, "--one-file-system"),
            flag(self.update, "--update"),
            flag(self.ignore_existing, "--ignore-existing"),
            flag(self.verify, "--verify"),
            Some(format!("--preserve {}", preserve.join(","))),
            listed("--xattrs", &self.keep.xattrs),
            listed("--chown", &self.keep.chown),
            Some(format!("--fsync {}", name(&|| self.fsync.to_possible_value()))),
            Some(format!("--digest {}", name(&|| self.digest.to_possible_value()))),
            Some(format!("--reflink {}", name(&|| self.reflink.to_possible_value()))),
            Some(format!("--max-holes {}", self.max_holes)),
            stripes,
        ];
        let options = options.into_iter().flatten().map(String::into_bytes);
        self.visit.agrees().chain(options).collect()
    }

    /// How copies are striped; none: as their directories say.
    pub(crate) fn stripes(&self) -> Option<Stripes> {
        match &self.stripe {
            Striping::Default => None,
            Striping::Asked(stripes) => Some(stripes.clone()),
        }
    }

    /// Time between two syncs of what goes into the log of the job, and of the log; none: as it is usual.
    pub(crate) fn sync_every(&self) -> Option<Duration> {
        self.sync_ms.map(|ms| Duration::from_millis(ms.into()))
    }

    /// When the log of the job is written; `usual`: without an option.
    pub(crate) fn log_limits(&self, usual: LogLimits) -> LogLimits {
        match self.sync_every() {
            Some(sync_every) => LogLimits { frame_every: sync_every / 5, sync_every, ..usual },
            None => usual,
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
