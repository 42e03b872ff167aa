//! Measures the cost of encodings, row groups and rows: the source of the figures in the documentation of `shard`. It checks nothing and
//! runs only on request: `cargo test --release -p atta-catalog speed -- --ignored --nocapture`

use std::time::Instant;

use atta_entry::{Metadata, Timestamp};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::*;
use crate::{Format, RowWriter};

const ROWS: usize = 550_000;
const ROUNDS: usize = 7;
const FULL: Columns = Columns::Full { targets: false };
const LITE: Columns = Columns::Lite { targets: false };

struct Tree {
    directories: Vec<Vec<u8>>,
    files: Vec<(usize, Vec<u8>, Metadata)>,
}

/// A tree of 11 entries a directory, made one after another: inodes ascend with small jumps, times lie close
/// together, sizes do not.
fn tree() -> Tree {
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let mut directories = Vec::new();
    let mut files = Vec::with_capacity(ROWS);
    for number in 0..ROWS {
        let is_directory = number.is_multiple_of(11);
        let directory = number / 11;
        if is_directory {
            directories.push(format!("root/d{}/d{}", directory / 100, directory % 100).into_bytes());
        }
        let name = if is_directory { format!("d{directory}") } else { format!("file-{number:06}.dat") };
        let time = |random: u64| Timestamp {
            seconds: 1_760_000_000 + (number / 5000) as i64,
            nanoseconds: ((number as u64 * 200_000 + random % 20_000) % 1_000_000_000) as u32,
        };
        let size = if is_directory { 4096 } else { next() % 100_000 };
        let metadata = Metadata {
            mode: if is_directory { 0o040_755 } else { 0o100_644 },
            uid: 1000,
            gid: 1000,
            nlink: if is_directory { 2 } else { 1 },
            size,
            blocks: size.div_ceil(4096) * 8,
            inode: 13_000_000 + number as u64 + next() % 7,
            device: (8 << 32) | 1,
            atime: time(next()),
            mtime: time(next()),
            ctime: time(next()),
            btime: Some(time(next())),
        };
        files.push((directory, name.into_bytes(), metadata));
    }
    Tree { directories, files }
}

impl Tree {
    fn for_each(&self, mut visit: impl FnMut(&Entry<'_>)) {
        for (directory, name, metadata) in &self.files {
            visit(&Entry {
                directory: &self.directories[*directory],
                name,
                root_bytes: 4,
                depth: 3,
                kind: metadata.kind(),
                inode: metadata.inode,
                metadata: Some(metadata),
                target: None,
            });
        }
    }
}

/// Prints the best of several rounds of each variant: on a shared machine, it is the least disturbed one. The variants take turns, so that
/// quiet minutes benefit all of them.
fn measure<V>(variants: &[(String, V)], mut round: impl FnMut(&V) -> u64) {
    let mut best = vec![(f64::MAX, 0); variants.len()];
    for _ in 0..ROUNDS {
        for ((_, variant), best) in variants.iter().zip(&mut best) {
            let start = Instant::now();
            let bytes = round(variant);
            *best = (best.0.min(start.elapsed().as_secs_f64()), bytes);
        }
    }
    let rows = ROWS as f64;
    for ((what, _), (seconds, bytes)) in variants.iter().zip(best) {
        println!("{what:36} {:5.0} ns/row {:6.1} B/row", seconds * 1e9 / rows, bytes as f64 / rows);
    }
}

fn shard(tree: &Tree, columns: Columns, row_group_bytes: usize, properties: &WriterProperties) -> u64 {
    let output = Vec::with_capacity(ROWS * 64);
    let mut shard = Shard::with_properties(output, columns, row_group_bytes, properties.clone()).unwrap();
    tree.for_each(|entry| shard.push(entry).unwrap());
    shard.finish().unwrap().bytes
}

fn with_columns(
    names: &[&str],
    mut change: impl FnMut(WriterPropertiesBuilder, ColumnPath) -> WriterPropertiesBuilder,
) -> WriterProperties {
    names
        .iter()
        .fold(schema::properties(FULL).unwrap().into_builder(), |builder, &name| {
            change(builder, ColumnPath::from(name))
        })
        .build()
}

#[test]
#[ignore = "measures and checks nothing"]
fn encodings() {
    let few = ["mode", "nlink", "uid", "gid", "device", "depth"];
    let all: Vec<_> = FULL.names().collect();
    let chosen = || schema::properties(FULL).unwrap().into_builder();
    let variants = [
        ("chosen", chosen().build()),
        (
            "kind: delta instead of dictionary",
            with_columns(&["kind"], |b, c| b.set_column_dictionary_enabled(c, false)),
        ),
        ("few values: dictionary", with_columns(&few, |b, c| b.set_column_dictionary_enabled(c, true))),
        ("everything: dictionary", with_columns(&all, |b, c| b.set_column_dictionary_enabled(c, true))),
        ("everything: plain", with_columns(&all, |b, c| b.set_column_encoding(c, Encoding::PLAIN))),
        (
            "path: delta of lengths alone",
            with_columns(&["path"], |b, c| b.set_column_encoding(c, Encoding::DELTA_LENGTH_BYTE_ARRAY)),
        ),
        ("no statistics", chosen().set_statistics_enabled(EnabledStatistics::None).build()),
        ("no compression", chosen().set_compression(Compression::UNCOMPRESSED).build()),
        ("zstd 3", chosen().set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap())).build()),
    ];
    let tree = tree();
    let variants = variants.map(|(what, properties)| (what.to_owned(), properties));
    measure(&variants, |properties| shard(&tree, FULL, ROW_GROUP_BYTES, properties));
}

#[test]
#[ignore = "measures and checks nothing"]
fn row_groups() {
    let tree = tree();
    let mut variants = Vec::new();
    for (what, columns) in [("full", FULL), ("lite", LITE)] {
        for mebibytes in [1, 2, 4, 8, 16] {
            let what = format!("{what}, row groups of {mebibytes} MiB");
            variants.push((what, (columns, mebibytes)));
        }
    }
    measure(&variants, |&(columns, mebibytes)| {
        let properties = schema::properties(columns).unwrap();
        shard(&tree, columns, mebibytes << 20, &properties)
    });
}

#[test]
#[ignore = "measures and checks nothing"]
fn rows() {
    let tree = tree();
    let formats = [Format::Path, Format::Path0, Format::Text, Format::Ndjson, Format::Csv];
    measure(&formats.map(|format| (format!("{format:?}"), format)), |&format| {
        let mut writer = RowWriter::new(format, FULL, false);
        let mut out = Vec::with_capacity(128 << 10);
        let mut bytes = 0;
        tree.for_each(|entry| {
            writer.append(entry, &mut out);
            if out.len() > 64 << 10 {
                bytes += out.len() as u64;
                out.clear();
            }
        });
        bytes + out.len() as u64
    });
}
