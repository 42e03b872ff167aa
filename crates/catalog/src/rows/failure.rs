//! The row of an entry that failed: a line of `_errors.ndjson`, which a list reader reads back. No I/O.

use atta_entry::Failure;

use super::ndjson::{bytes_field, key, number_field, text_field};

/// Appends `{"path":...,"root":...,"operation":...,"class":...,"errno":13,"error":"EACCES","message":...}` and a line end. `path_raw` and
/// `root_raw` are there if the names are not UTF-8, `spelled` if another name has the place of the copy, and `at` if the failure was at
/// the entry to be made.
pub fn failure_row(failure: &Failure<'_>, out: &mut Vec<u8>) {
    out.push(b'{');
    bytes_field("\"path\":", key!("path_raw"), &failure.path, out);
    bytes_field(key!("root"), key!("root_raw"), &failure.root, out);
    text_field(key!("operation"), failure.operation.name(), out);
    text_field(key!("class"), failure.class().name(), out);
    number_field(key!("errno"), failure.errno.0, out);
    text_field(key!("error"), &failure.errno.label(), out);
    text_field(key!("message"), failure.reason(), out);
    if let Some(spelled) = &failure.spelled {
        bytes_field(key!("spelled"), key!("spelled_raw"), spelled, out);
    }
    if let Some(at) = &failure.at {
        bytes_field(key!("at"), key!("at_raw"), at, out);
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use atta_entry::{Errno, Operation};

    #[test]
    fn a_failure_with_hostile_names() {
        let failure = Failure {
            operation: Operation::OpenDirectory,
            root: b"a\xff".into(),
            path: b"a\xff/b\n".into(),
            errno: Errno(13),
            spelled: Some(b"A/B".into()),
            at: None,
        };
        let mut out = Vec::new();
        failure_row(&failure, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"path\":\"a\u{fffd}/b\\n\",\"path_raw\":\"61ff2f620a\",\"root\":\"a\u{fffd}\",\"root_raw\":\"61ff\",\
             \"operation\":\"open directory\",\"class\":\"permission\",\"errno\":13,\"error\":\"EACCES\",\
             \"message\":\"permission denied\",\"spelled\":\"A/B\"}\n"
        );
    }
}
