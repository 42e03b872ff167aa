//! Parses one NDJSON row of a list: its path and its root. It checks no path.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Listed, ListedChange};
use crate::lossy::from_hex;
use crate::{Error, Result};

/// The fields that are used; a row of a walk or of `_errors.ndjson` has more.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow)]
    path_raw: Option<Cow<'a, str>>,
    #[serde(borrow)]
    root: Option<Cow<'a, str>>,
    #[serde(borrow)]
    root_raw: Option<Cow<'a, str>>,
    /// Present in a row of `atta verify`.
    #[serde(borrow)]
    change: Option<Cow<'a, str>>,
    fields: Option<Fields>,
}

/// The fields of a difference that carry more than the fact that they differ.
#[derive(Deserialize)]
struct Fields {
    content: Option<IgnoredAny>,
    links: Option<IgnoredAny>,
}

impl Row<'_> {
    /// The change of the path, in a row of a list of differences. `None` if the word is unknown.
    fn change(&self) -> Option<Option<ListedChange>> {
        let Some(word) = &self.change else { return Some(None) };
        let has = |field: fn(&Fields) -> bool| self.fields.as_ref().is_some_and(field);
        Some(Some(match word.as_ref() {
            "missing" => ListedChange::Missing,
            "extra" => ListedChange::Extra,
            "different" => ListedChange::Different {
                content: has(|fields| fields.content.is_some()),
                links: has(|fields| fields.links.is_some()),
            },
            _ => return None,
        }))
    }
}

/// The path and the root of the row on line `line`; `path_raw` and `root_raw` take precedence over their texts.
pub(super) fn parse(bytes: &[u8], line: u64) -> Result<Listed> {
    let row: Row<'_> = serde_json::from_slice(bytes).map_err(|error| Error::ListJson {
        line,
        column: error.column(),
        reason: reason(&error),
    })?;
    let unknown = || Error::ListJson { line, column: 0, reason: "an unknown change".to_owned() };
    let change = row.change().ok_or_else(unknown)?;
    let path = match row.path_raw {
        Some(digits) => decode(&digits, line, "path_raw")?,
        None => row.path.into_owned().into_bytes(),
    };
    let root = match row.root_raw {
        Some(digits) => Some(decode(&digits, line, "root_raw")?),
        None => row.root.map(|root| root.into_owned().into_bytes()),
    };
    Ok(Listed { root, path, change })
}

pub(crate) fn decode(digits: &str, line: u64, field: &'static str) -> Result<Vec<u8>> {
    from_hex(digits).ok_or(Error::ListHex { line, field })
}

/// The message of the JSON reader without its position: it counts lines within the single row that it read.
pub(crate) fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((reason, _)) => reason.to_owned(),
        None => text,
    }
}
