//! The columns of a catalog, their order and their Parquet types. The rows on stdout use the same names in the same order. No I/O.

/// Version of the columns and of `_manifest.json`: raised when a column changes its name, its type or its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The columns of a catalog or of a table on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Columns {
    /// All data of `statx`. Every entry needs its metadata.
    Full {
        /// With `target` and `target_raw`, the targets of symbolic links.
        targets: bool,
    },
    /// The data of the directory itself: path, kind, depth and inode number.
    Lite {
        /// With `target` and `target_raw`, the targets of symbolic links.
        targets: bool,
    },
    /// As `Full` with targets, and `digest`, the BLAKE3 of each regular file.
    Digests,
}

impl Columns {
    /// Whether the columns of the metadata are among them.
    #[must_use]
    pub const fn metadata(self) -> bool {
        matches!(self, Self::Full { .. } | Self::Digests)
    }

    /// Whether `target` and `target_raw` are among them.
    #[must_use]
    pub const fn targets(self) -> bool {
        match self {
            Self::Full { targets } | Self::Lite { targets } => targets,
            Self::Digests => true,
        }
    }

    /// Whether `digest` is among them.
    #[must_use]
    pub const fn digests(self) -> bool {
        matches!(self, Self::Digests)
    }

    /// The names of the columns, in the order in which a row has them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.table().map(|column| column.name)
    }

    /// The schema of a shard in Parquet's own notation, for its parser.
    pub(crate) fn parquet_schema(self) -> String {
        let mut schema = String::from("message entries {\n");
        for column in self.table() {
            let (before, after) = column.parquet;
            schema.push_str(&format!("  {before} {}{after};\n", column.name));
        }
        schema.push('}');
        schema
    }

    fn table(self) -> impl Iterator<Item = &'static Column> {
        TABLE.iter().filter(move |column| match column.part {
            Part::Name => true,
            Part::Metadata => self.metadata(),
            Part::Target => self.targets(),
            Part::Digest => self.digests(),
        })
    }
}

/// Condition for a column.
#[derive(Clone, Copy)]
enum Part {
    /// Always.
    Name,
    /// With [`Columns::Full`] or [`Columns::Digests`].
    Metadata,
    /// With `targets` or [`Columns::Digests`].
    Target,
    /// With [`Columns::Digests`].
    Digest,
}

/// One column: its name, and the text before and after it in a Parquet schema.
struct Column {
    name: &'static str,
    parquet: (&'static str, &'static str),
    part: Part,
}

const TEXT: (&str, &str) = ("REQUIRED BINARY", " (STRING)");
const TEXT_OR_NULL: (&str, &str) = ("OPTIONAL BINARY", " (STRING)");
const BYTES_OR_NULL: (&str, &str) = ("OPTIONAL BINARY", "");
const U32: (&str, &str) = ("REQUIRED INT32", " (INTEGER(32,false))");
const U64: (&str, &str) = ("REQUIRED INT64", " (INTEGER(64,false))");
const TIME_OR_NULL: (&str, &str) = ("OPTIONAL INT64", " (TIMESTAMP(NANOS,true))");

const fn column(name: &'static str, parquet: (&'static str, &'static str), part: Part) -> Column {
    Column { name, parquet, part }
}

/// Every column in order. `shard::RowGroup` writes them in this order.
const TABLE: [Column; 19] = [
    column("path", TEXT, Part::Name),
    column("path_raw", BYTES_OR_NULL, Part::Name),
    column("kind", TEXT, Part::Name),
    column("depth", U32, Part::Name),
    column("inode", U64, Part::Name),
    column("device", U64, Part::Metadata),
    column("mode", U32, Part::Metadata),
    column("nlink", U32, Part::Metadata),
    column("uid", U32, Part::Metadata),
    column("gid", U32, Part::Metadata),
    column("size", U64, Part::Metadata),
    column("blocks", U64, Part::Metadata),
    column("atime", TIME_OR_NULL, Part::Metadata),
    column("mtime", TIME_OR_NULL, Part::Metadata),
    column("ctime", TIME_OR_NULL, Part::Metadata),
    column("btime", TIME_OR_NULL, Part::Metadata),
    column("target", TEXT_OR_NULL, Part::Target),
    column("target_raw", BYTES_OR_NULL, Part::Target),
    column("digest", TEXT_OR_NULL, Part::Digest),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lite_columns_are_the_first_of_the_full_ones() {
        let lite: Vec<_> = Columns::Lite { targets: false }.names().collect();
        let full: Vec<_> = Columns::Full { targets: true }.names().collect();
        assert_eq!(lite, ["path", "path_raw", "kind", "depth", "inode"]);
        assert_eq!(full[..5], lite[..]);
        assert_eq!(full[16..], ["target", "target_raw"]);
        assert_eq!(Columns::Full { targets: false }.names().count(), 16);
        assert_eq!(Columns::Lite { targets: true }.names().count(), 7);
        let digests: Vec<_> = Columns::Digests.names().collect();
        assert_eq!((&digests[..18], digests[18]), (&full[..], "digest"));
    }
}
