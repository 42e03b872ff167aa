//! The row of an entry that is not what a record of it says. No I/O.

use super::ndjson::{bytes_field, key, text_field};

/// Appends `{"path":...,"difference":"missing","what":...}` and a line end, with `path_raw` where the path is not UTF-8.
pub fn difference_row(path: &[u8], difference: &str, what: Option<&str>, out: &mut Vec<u8>) {
    out.push(b'{');
    bytes_field("\"path\":", key!("path_raw"), path, out);
    text_field(key!("difference"), difference, out);
    if let Some(what) = what {
        text_field(key!("what"), what, out);
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_keep_their_bytes() {
        let mut out = Vec::new();
        difference_row(b"a\xff", "different", Some("content"), &mut out);
        difference_row(b"b\"", "missing", None, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"path\":\"a\u{fffd}\",\"path_raw\":\"61ff\",\"difference\":\"different\",\"what\":\"content\"}\n\
             {\"path\":\"b\\\"\",\"difference\":\"missing\"}\n"
        );
    }
}
