//! Rows of the differences of two trees: a line for people, a line of NDJSON. No I/O.

use std::borrow::Cow;

use atta_entry::{Detail, Difference, Kind, Side, Timestamp, escape_into};

use super::ndjson::{bytes_field, key, number_field, text_field};
use super::number_into;
use crate::calendar::timestamp_into;
use crate::lossy::hex_into;

/// Appends `missing: PATH`, `extra: PATH` or `different: PATH: size 1 -> 2; mtime ...`, and a line end. Paths are escaped. The path of a
/// directory that only one side has ends in a slash; the path of the roots is a dot.
pub fn difference_text(difference: &Difference<'_>, out: &mut Vec<u8>) {
    let Difference { path, kind, change } = difference;
    out.extend_from_slice(change.name().as_bytes());
    out.extend_from_slice(b": ");
    escape_into(if path.is_empty() { b"." } else { path }, out);
    if change.details().is_empty() && *kind == Kind::Directory && !path.ends_with(b"/") {
        out.push(b'/');
    }
    for (number, detail) in change.details().iter().enumerate() {
        out.extend_from_slice(if number == 0 { b": " } else { b"; " });
        detail_text(detail, out);
    }
    out.push(b'\n');
}

fn detail_text(detail: &Detail, out: &mut Vec<u8>) {
    out.extend_from_slice(detail.field().name().as_bytes());
    if let Detail::Digest(..) = detail {
        // Digests are long, and show no more than that they differ.
        return;
    }
    out.push(b' ');
    match detail {
        Detail::Xattrs(names) => {
            for (number, name) in names.iter().enumerate() {
                out.extend_from_slice(if number == 0 { b"" } else { b", " });
                escape_into(name, out);
            }
        }
        Detail::Links(side, other) => {
            out.extend_from_slice(b"one file with ");
            escape_into(other, out);
            out.extend_from_slice(b" in ");
            out.extend_from_slice(match side {
                Side::Source => b"SOURCE alone",
                Side::Target => b"TARGET alone",
            });
        }
        Detail::Content(offset) => {
            out.extend_from_slice(b"from byte ");
            number_into(*offset, out);
        }
        _ => {
            let Some((one, other)) = values(detail) else { return };
            escape_into(&one, out);
            out.extend_from_slice(b" -> ");
            escape_into(&other, out);
        }
    }
}

/// A digest in hexadecimal; empty if there is none.
fn digits(digest: Option<&[u8; 32]>) -> Vec<u8> {
    let mut digits = Vec::new();
    digest.into_iter().for_each(|digest| hex_into(digest, &mut digits));
    digits
}

/// The values of a field: the source's and the target's.
type Values<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The values of a field on both sides, as text, except link targets, which are bytes; `None` if the field has no such values.
pub(crate) fn values(detail: &Detail) -> Option<Values<'_>> {
    let text = |one: String, other: String| Some((one.into_bytes().into(), other.into_bytes().into()));
    match detail {
        Detail::Type(one, other) => Some((one.name().as_bytes().into(), other.name().as_bytes().into())),
        Detail::Size(one, other) => text(one.to_string(), other.to_string()),
        Detail::Mode(one, other) => text(format!("{one:04o}"), format!("{other:04o}")),
        Detail::Owner(one, other) => text(format!("{}:{}", one.0, one.1), format!("{}:{}", other.0, other.1)),
        Detail::Mtime(one, other) => {
            let time = |time: &Timestamp| {
                let mut text = Vec::new();
                timestamp_into(*time, &mut text);
                text
            };
            Some((time(one).into(), time(other).into()))
        }
        Detail::Target(one, other) => Some((one.into(), other.into())),
        Detail::Device(one, other) => {
            let device = |number: &u64| format!("{}:{}", number >> 32, number & u64::from(u32::MAX));
            text(device(one), device(other))
        }
        Detail::Digest(one, other) => Some((digits(one.as_ref()).into(), digits(other.as_ref()).into())),
        Detail::Xattrs(_) | Detail::Links(..) | Detail::Content(_) => None,
    }
}

/// Appends `{"path":...,"path_raw"?:...,"change":...,"kind":...,"fields":{...}}` and a line end. Each field that differs is an object with
/// `source` and `target`, numbers as in the rows of entries, or with the data that the field has instead.
pub fn difference_row(difference: &Difference<'_>, out: &mut Vec<u8>) {
    let Difference { path, kind, change } = difference;
    out.push(b'{');
    bytes_field("\"path\":", key!("path_raw"), path, out);
    text_field(key!("change"), change.name(), out);
    text_field(key!("kind"), kind.name(), out);
    if !change.details().is_empty() {
        out.extend_from_slice(b",\"fields\":{");
        fields(change.details(), out);
        out.push(b'}');
    }
    out.extend_from_slice(b"}\n");
}

fn fields(details: &[Detail], out: &mut Vec<u8>) {
    let mut last = None;
    for detail in details {
        let field = detail.field();
        // There may be several links; they form one list.
        if last == Some(field) {
            continue;
        }
        if last.replace(field).is_some() {
            out.push(b',');
        }
        out.push(b'"');
        out.extend_from_slice(field.name().as_bytes());
        out.extend_from_slice(b"\":");
        match detail {
            Detail::Xattrs(names) => {
                list(names, |name, out| bytes_field("\"name\":", key!("name_raw"), name, out), out);
            }
            Detail::Links(..) => {
                let all: Vec<_> = details.iter().filter(|detail| detail.field() == field).collect();
                list(&all, |detail, out| link(detail, out), out);
            }
            detail => {
                out.push(b'{');
                value(detail, out);
                out.push(b'}');
            }
        }
    }
}

fn list<T>(items: &[T], each: impl Fn(&T, &mut Vec<u8>), out: &mut Vec<u8>) {
    for (number, item) in items.iter().enumerate() {
        out.extend_from_slice(if number == 0 { b"[{" } else { b",{" });
        each(item, out);
        out.push(b'}');
    }
    out.push(b']');
}

fn link(detail: &Detail, out: &mut Vec<u8>) {
    let Detail::Links(side, other) = detail else { return };
    bytes_field("\"with\":", key!("with_raw"), other, out);
    text_field(key!("alone_in"), if *side == Side::Source { "source" } else { "target" }, out);
}

fn value(detail: &Detail, out: &mut Vec<u8>) {
    let mut numbers = |one: i128, other: i128| {
        number_field("\"source\":", one, out);
        number_field(key!("target"), other, out);
    };
    match detail {
        Detail::Size(one, other) | Detail::Device(one, other) => numbers((*one).into(), (*other).into()),
        Detail::Mode(one, other) => numbers((*one).into(), (*other).into()),
        Detail::Mtime(one, other) => numbers(one.as_nanoseconds(), other.as_nanoseconds()),
        Detail::Content(offset) => number_field("\"offset\":", *offset, out),
        Detail::Owner(one, other) => {
            for (key, owner) in [("\"source\":{\"uid\":", one), (",\"target\":{\"uid\":", other)] {
                number_field(key, owner.0, out);
                number_field(key!("gid"), owner.1, out);
                out.push(b'}');
            }
        }
        _ => {
            let Some((one, other)) = values(detail) else { return };
            bytes_field("\"source\":", key!("source_raw"), &one, out);
            bytes_field(key!("target"), key!("target_raw"), &other, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_entry::Change;
    use serde_json::{Value, json};

    fn different(path: &'static [u8], details: Vec<Detail>) -> Difference<'static> {
        Difference { path: path.into(), kind: Kind::File, change: Change::Different(details) }
    }

    fn text(difference: &Difference<'_>) -> String {
        let mut out = Vec::new();
        difference_text(difference, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn json(difference: &Difference<'_>) -> Value {
        let mut out = Vec::new();
        difference_row(difference, &mut out);
        assert_eq!(out.pop(), Some(b'\n'));
        assert!(!out.contains(&b'\n'));
        serde_json::from_slice(&out).unwrap()
    }

    fn all() -> Difference<'static> {
        let time = |seconds| Timestamp { seconds, nanoseconds: 7 };
        different(
            b"a\xff\n",
            vec![
                Detail::Type(Kind::File, Kind::CharDevice),
                Detail::Size(u64::MAX, 0),
                Detail::Mode(0o644, 0o4755),
                Detail::Owner((0, 1), (2, 3)),
                Detail::Mtime(time(-1), time(10_000_000_000)),
                Detail::Xattrs(vec![b"user.a".to_vec(), b"user.\xfe".to_vec()]),
                Detail::Target(b"x\xff".to_vec(), b"y".to_vec()),
                Detail::Device(1 << 32 | 3, 8 << 32),
                Detail::Links(Side::Source, b"b".to_vec()),
                Detail::Links(Side::Target, b"\xfd".to_vec()),
                Detail::Content(9),
            ],
        )
    }

    #[test]
    fn lines_for_people() {
        let alone = |change, kind| text(&Difference { path: b"a b".into(), kind, change });
        assert_eq!(alone(Change::Missing, Kind::File), "missing: a b\n");
        assert_eq!(alone(Change::Extra, Kind::Directory), "extra: a b/\n");
        assert_eq!(text(&different(b"", vec![Detail::Size(1, 2)])), "different: .: size 1 -> 2\n");
        assert_eq!(
            text(&all()),
            "different: a\\xff\\n: type file -> char; size 18446744073709551615 -> 0; mode 0644 -> 4755; \
             owner 0:1 -> 2:3; mtime 1969-12-31T23:59:59.000000007Z -> 2286-11-20T17:46:40.000000007Z; \
             xattrs user.a, user.\\xfe; target x\\xff -> y; device 1:3 -> 8:0; \
             links one file with b in SOURCE alone; links one file with \\xfd in TARGET alone; \
             content from byte 9\n"
        );
    }

    #[test]
    fn only_programs_get_digests() {
        let digests = different(b"a", vec![Detail::Digest(Some([0xab; 32]), None)]);
        assert_eq!(text(&digests), "different: a: content\n");
        let content = json!({"content": {"source": "ab".repeat(32), "target": ""}});
        assert_eq!(
            json(&digests),
            json!({"path": "a", "change": "different", "kind": "file", "fields": content})
        );
    }

    #[test]
    fn rows_for_programs() {
        let extra = Difference { path: b"d".into(), kind: Kind::Directory, change: Change::Extra };
        assert_eq!(json(&extra), json!({"path": "d", "change": "extra", "kind": "directory"}));
        let fields = json!({
            "type": {"source": "file", "target": "char"},
            "size": {"source": u64::MAX, "target": 0},
            "mode": {"source": 0o644, "target": 0o4755},
            "owner": {"source": {"uid": 0, "gid": 1}, "target": {"uid": 2, "gid": 3}},
            "mtime": {"source": -999_999_993, "target": 10_000_000_000_000_000_007_u64},
            "xattrs": [{"name": "user.a"}, {"name": "user.\u{fffd}", "name_raw": "757365722efe"}],
            "target": {"source": "x\u{fffd}", "source_raw": "78ff", "target": "y"},
            "device": {"source": 1_u64 << 32 | 3, "target": 8_u64 << 32},
            "links": [
                {"with": "b", "alone_in": "source"},
                {"with": "\u{fffd}", "with_raw": "fd", "alone_in": "target"},
            ],
            "content": {"offset": 9},
        });
        let row = json!({
            "path": "a\u{fffd}\n", "path_raw": "61ff0a", "change": "different", "kind": "file", "fields": fields,
        });
        assert_eq!(json(&all()), row);
    }
}
