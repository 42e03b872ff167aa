//! Errors of records as a whole. The error of one entry is a row instead. No I/O.

use std::fmt;
use std::io;
use std::path::PathBuf;

use atta_entry::{Errno, escape};
use parquet::errors::ParquetError;

/// Why a list could not be read, or a shard or a catalog could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A list could not be read further.
    ListRead {
        /// The error of the system.
        source: io::Error,
    },
    /// A list is in neither form: it holds line ends, no NUL, and does not begin as NDJSON.
    ListForm,
    /// An item of a list is empty.
    ListEmptyPath {
        /// Number of the item, from 1; in NDJSON the number of its line.
        item: u64,
    },
    /// An item of a list holds a NUL, which no path can.
    ListNul {
        /// Number of the item, from 1; in NDJSON the number of its line.
        item: u64,
    },
    /// An item of a list is longer than a path or a row may be.
    ListTooLong {
        /// Number of the item, from 1; in NDJSON the number of its line.
        item: u64,
        /// The limit that it passes, in bytes.
        bytes_max: usize,
    },
    /// An item of a list has `..` among its components: it could lead out of its tree.
    ListParent {
        /// Number of the item, from 1; in NDJSON the number of its line.
        item: u64,
    },
    /// A line of a list of lines may stand for more than one name.
    ListLine {
        /// Number of the line, from 1.
        line: u64,
        /// The reason for it.
        reason: &'static str,
    },
    /// A line of a list is not a row.
    ListJson {
        /// Number of the line, from 1.
        line: u64,
        /// Byte in the line, from 1; 0 if unknown.
        column: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The digits of a row are not hexadecimal, or their number is odd.
    ListHex {
        /// Number of the line, from 1.
        line: u64,
        /// Name of the field that holds them.
        field: &'static str,
    },
    /// A line of a list of digests is neither `HEX  PATH` nor `BLAKE3 (PATH) = HEX`.
    DigestLine {
        /// Number of the line, from 1.
        line: u64,
    },
    /// A file of a catalog could not be opened or read.
    CatalogOpen {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file of a catalog is not what it should be.
    CatalogRead {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A shard could not be written, for example because the disk is full.
    ShardWrite {
        /// The error of the system.
        source: io::Error,
    },
    /// The Parquet writer refused its input.
    ShardEncode {
        /// The error of the writer.
        source: ParquetError,
    },
    /// An entry without metadata was pushed to a shard with [`Columns::Full`](crate::Columns::Full) or
    /// [`Columns::Digests`](crate::Columns::Digests).
    ShardNoMetadata {
        /// The entry.
        path: Vec<u8>,
    },
    /// The shard had failed before; nothing more can be written to it.
    ShardBroken,
    /// The directory for a catalog exists and is not empty.
    CatalogNotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The place for a catalog is taken by a non-directory or by a symbolic link.
    CatalogNotDirectory {
        /// The place.
        path: PathBuf,
    },
    /// The path for a catalog does not end in a name, for example `.`, `..` or `/`.
    CatalogNoName {
        /// The path.
        path: PathBuf,
    },
    /// A catalog is complete and in its place, but that is not on storage.
    CatalogUnsynced {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or a directory of a catalog could not be created, written, synced, renamed or examined.
    CatalogWrite {
        /// The operation that failed, as in `cannot WORDS`.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Result of the functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The system's error number behind it, if there is one: `ENOSPC` for a full disk.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        self.io_source()?.raw_os_error().map(Errno)
    }

    fn io_source(&self) -> Option<&io::Error> {
        match self {
            Self::ListRead { source }
            | Self::ShardWrite { source }
            | Self::CatalogOpen { source, .. }
            | Self::CatalogUnsynced { source, .. }
            | Self::CatalogWrite { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The Parquet crate boxes the errors of its output; they come out again as what they were.
impl From<ParquetError> for Error {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(source) => Self::ShardWrite { source: *source },
                Err(inner) => Self::ShardEncode { source: ParquetError::External(inner) },
            },
            source => Self::ShardEncode { source },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListRead { source } => write!(f, "cannot read list: {}", reason(source)),
            Self::ListForm => f.write_str(
                "list is neither NUL-separated nor NDJSON; line-separated lists cannot hold every name; \
                 use find -print0, or --lines",
            ),
            Self::ListLine { line, reason } => {
                write!(
                    f,
                    "list line {line} may stand for more than one name: {reason}; use a NUL-separated list"
                )
            }
            Self::ListEmptyPath { item } => write!(f, "list item {item}: empty path"),
            Self::ListNul { item } => write!(f, "list item {item}: path holds a NUL"),
            Self::ListTooLong { item, bytes_max } => {
                write!(f, "list item {item}: longer than {bytes_max} bytes")
            }
            Self::ListParent { item } => write!(f, "list item {item}: path has a `..` component"),
            Self::ListJson { line, column, reason } => {
                write!(f, "list line {line}, column {column}: {reason}")
            }
            Self::ListHex { line, field } => {
                write!(f, "list line {line}: {field} is not an even number of hexadecimal digits")
            }
            Self::DigestLine { line } => {
                write!(f, "line {line} is neither 'DIGEST  PATH' nor 'BLAKE3 (PATH) = DIGEST'")
            }
            Self::CatalogOpen { path, source } => {
                write!(f, "cannot read catalog: {}: {}", shown(path), reason(source))
            }
            Self::CatalogRead { path, reason } => {
                write!(f, "cannot read catalog: {}: {reason}", shown(path))
            }
            Self::ShardWrite { source } => write!(f, "cannot write shard: {}", reason(source)),
            Self::ShardEncode { source } => write!(f, "cannot encode shard: {source}"),
            Self::ShardNoMetadata { path } => {
                write!(f, "cannot record {}: full columns need its metadata", escape(path))
            }
            Self::ShardBroken => f.write_str("cannot write shard: it failed before"),
            Self::CatalogNotEmpty { path } => write!(f, "catalog directory is not empty: {}", shown(path)),
            Self::CatalogNotDirectory { path } => write!(f, "not a directory: {}", shown(path)),
            Self::CatalogNoName { path } => {
                write!(f, "path for a catalog does not end in a name: {}", shown(path))
            }
            Self::CatalogUnsynced { path, source } => {
                let (path, reason) = (shown(path), reason(source));
                write!(
                    f,
                    "catalog is complete, but may be lost if the power fails: {path}: cannot sync: {reason}"
                )
            }
            Self::CatalogWrite { operation, path, source } => {
                write!(f, "cannot {operation}: {}: {}", shown(path), reason(source))
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ShardEncode { source } => Some(source),
            _ => self.io_source().map(|source| source as _),
        }
    }
}

/// `no space left on device (ENOSPC)` where there is a number, else the library's own words.
fn reason(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |number| Errno(number).to_string())
}

fn shown(path: &std::path::Path) -> String {
    escape(path.as_os_str().as_encoded_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_of_a_full_disk_passes_the_parquet_crate() {
        let error = Error::from(ParquetError::from(io::Error::from_raw_os_error(28)));
        assert_eq!(error.errno(), Some(Errno(28)));
        assert_eq!(error.to_string(), "cannot write shard: no space left on device (ENOSPC)");
        assert!(std::error::Error::source(&error).is_some());
    }

    #[test]
    fn names_in_messages_are_escaped() {
        let error = Error::CatalogNotEmpty { path: "a\x1b[31m".into() };
        assert_eq!(error.to_string(), "catalog directory is not empty: a\\x1b[31m");
    }
}
