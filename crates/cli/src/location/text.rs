//! The table of `atta where` for people.

use atta_entry::escape;

use super::gather::Gathered;
use super::row::Row;
use crate::size::binary;

/// What stands where nothing is known.
const NONE: &str = "-";

/// The table, with a line of titles.
pub(super) fn table(gathered: &Gathered) -> String {
    let has_ranks = gathered.ranks > 1;
    let seen = if has_ranks { &["RANKS", "CONTENT"][..] } else { &["DATA"] };
    let titles = ["PATH", "TYPE", "AVAILABLE", "OF"].iter().chain(seen).chain(&["URI"]);
    let mut lines = vec![titles.map(|title| (*title).to_owned()).collect()];
    lines.extend(gathered.rows.iter().map(|row| cells(row, has_ranks)));
    aligned(&lines)
}

fn cells(row: &Row, has_ranks: bool) -> Vec<String> {
    let space = row.found.as_ref().ok().and_then(|found| found.space).filter(|space| space.total > 0);
    let bytes = |bytes: Option<u64>| bytes.map_or(NONE.to_owned(), binary);
    let kind = row.mount.as_ref().map_or(NONE, |mount| &mount.kind).to_owned();
    let mut cells = vec![
        escape(&row.path),
        kind,
        bytes(space.map(|space| space.available)),
        bytes(space.map(|space| space.total)),
    ];
    match has_ranks {
        true => cells.extend([row.distribution(), row.consistency().to_owned()]),
        false => cells.push(row.reach().to_owned()),
    }
    cells.push(row.uri.as_deref().unwrap_or(NONE).to_owned());
    cells
}

/// Columns of one width each, but for the last one.
pub(super) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (column, cell) in line.iter().enumerate() {
            text.push_str(cell);
            if line[column + 1..].iter().any(|next| !next.is_empty()) {
                let gap = widths[column] + 2 - cell.chars().count();
                text.extend(std::iter::repeat_n(' ', gap));
            }
        }
        text.push('\n');
    }
    text
}
