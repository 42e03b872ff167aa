//! The decoders of this crate, for `atta_testkit::fuzz`.

use atta_entry::Code;
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::{DigestLines, ListReader, ShardRecord};

/// Reads a whole list. Items are compared by their debug text: a list has no encoder.
fn listed(bytes: &[u8]) -> Option<Vec<u8>> {
    let items: Result<Vec<_>, _> = ListReader::new(bytes).ok()?.collect();
    items.ok().map(|_| bytes.to_vec())
}

fn digested(bytes: &[u8]) -> Option<Vec<u8>> {
    let items: Result<Vec<_>, _> = DigestLines::new(bytes).ok()?.collect();
    items.ok().map(|_| bytes.to_vec())
}

fn lists() -> Vec<Vec<u8>> {
    let row = |text: &str| [text.as_bytes(), b"\n"].concat();
    let rows = [
        "{\"path\":\"a/b\",\"change\":\"different\",\"fields\":{\"content\":{\"equal_bytes\":7},\"links\":{}}}",
        "{\"path\":\"a\\ufffd\",\"path_raw\":\"61ff\",\"root\":\"r\"}",
        "{\"path\":\"\",\"change\":\"missing\"}",
    ];
    let all = rows.map(row).concat();
    vec![b"a\0b/c\0./d\0".to_vec(), row(rows[0]), row(rows[1]), all]
}

fn records() -> Vec<Vec<u8>> {
    let hex = "ab".repeat(32);
    let rows = [
        format!("{{\"path\":\"a\",\"kind\":\"file\",\"size\":3,\"digest\":\"{hex}\"}}\n"),
        "{\"path\":\"l\",\"kind\":\"symlink\",\"target\":\"t\"}\n".to_owned(),
    ];
    let lines = format!("{hex}  a\n\\{hex}  a\\\\b\\n\nBLAKE3 (c) = {hex}\n");
    vec![lines.into_bytes(), rows.concat().into_bytes()]
}

fn targets() -> Vec<Target> {
    let shard = ShardRecord { file: "part-0.parquet".to_owned(), rows: 7, bytes: 300 };
    vec![
        fuzz_code!("manifest.rs: ShardRecord", ShardRecord, [shard]),
        Target::new("list.rs: ListReader", lists(), listed).holding(200),
        Target::new("digests/lines.rs: DigestLines", records(), digested).holding(200),
    ]
}

atta_testkit::fuzz_tests!(targets);
