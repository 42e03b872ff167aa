//! The arguments of `atta copy`, and what they mean to the library. No I/O.

use std::ffi::OsString;

use atta_ops::copy::Fsync;
use clap::{Args, ValueEnum};

use crate::arguments::{Chunk, EffortArguments, TellArguments, VisitArguments, parse_chunk};
use crate::schedule::RankArguments;

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
    TARGET. 'SOURCE/.' copies what is in SOURCE. Contents, holes, modes, owners, times, links, hard links, extended \
    attributes and ACLs are kept; what cannot be kept is counted. Whoever looks at TARGET meanwhile sees old files, new \
    ones or none, never parts of one.\n\n\
    Exit codes: 0 all done; 2 wrong usage; 3 done, but some entries failed or changed; 4 could not go on; 130 and 143 \
    interrupted.\n\n\
    Examples:\n  \
    atta copy /data /backup                       to /backup/data, if /backup is a directory\n  \
    atta copy /data/. /backup                     what is in it\n  \
    atta copy --exclude '*.tmp' a b c /backup     several, without some files"
)]
pub(crate) struct CopyArguments {
    /// What to copy, one or several; the last one is TARGET
    #[arg(value_name = "PATH", num_args = 2.., required = true)]
    pub(crate) paths: Vec<OsString>,

    #[command(flatten)]
    pub(crate) tell: TellArguments,

    #[command(flatten, next_help_heading = "What to copy")]
    pub(crate) visit: VisitArguments,

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

    #[command(flatten, next_help_heading = "How to copy")]
    pub(crate) effort: EffortArguments,

    #[command(flatten)]
    pub(crate) ranks: RankArguments,
}
