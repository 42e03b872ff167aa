//! Rows of recorded digests: NDJSON lines that [`DigestLines`](crate::DigestLines) reads, with no other metadata. No I/O.

use atta_entry::Kind;

use super::ndjson::{bytes_field, hex_field, key, number_field};
use crate::digests::Digested;

/// Appends `{"path":...,"path_raw"?:...,"kind":...`, the size, digest and link target if there are any, and `}`. A regular file without a
/// digest has `"not_read":true`.
pub fn digested_row(digested: &Digested, out: &mut Vec<u8>) {
    let Digested { path, kind, size, digest, target } = digested;
    out.push(b'{');
    bytes_field("\"path\":", key!("path_raw"), path, out);
    out.extend_from_slice(b",\"kind\":\"");
    out.extend_from_slice(kind.name().as_bytes());
    out.push(b'"');
    size.iter().for_each(|size| number_field(key!("size"), *size, out));
    if let Some(target) = target {
        bytes_field(key!("target"), key!("target_raw"), target, out);
    }
    match digest {
        Some(digest) => hex_field(key!("digest"), digest, out),
        None if *kind == Kind::File => out.extend_from_slice(b",\"not_read\":true"),
        None => {}
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DigestLines;

    #[test]
    fn rows_are_read_back_as_they_were() {
        let file = Digested {
            path: b"t/a\n\xff\"".to_vec(),
            kind: Kind::File,
            size: Some(u64::MAX),
            digest: Some([0xab; 32]),
            target: None,
        };
        let unread = Digested { path: b"t/b".to_vec(), digest: None, ..file.clone() };
        let link =
            Digested { kind: Kind::Symlink, size: None, target: Some(b"\xfe".to_vec()), ..unread.clone() };
        let directory = Digested { kind: Kind::Directory, target: None, ..link.clone() };
        let all = [file, unread, link, directory];
        let mut rows = Vec::new();
        all.iter().for_each(|digested| digested_row(digested, &mut rows));
        assert_eq!(DigestLines::new(&rows[..]).unwrap().collect::<crate::Result<Vec<_>>>().unwrap(), all);
        let lines: Vec<serde_json::Value> = rows
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        assert_eq!(
            lines[1],
            serde_json::json!({"path": "t/b", "kind": "file", "size": u64::MAX, "not_read": true})
        );
    }
}
