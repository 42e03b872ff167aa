//! Rows of text with aligned columns, for the results of the examples. Numbers are on the right.

/// Rows, of which the first one has the headings.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with headings.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(|heading| (*heading).to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[&dyn std::fmt::Display]) {
        self.rows.push(cells.iter().map(ToString::to_string).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let last = row.len().saturating_sub(1);
            for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let is_number =
                    self.rows.iter().skip(1).filter_map(|row| row.get(at)).all(|cell| is_number(cell));
                match (is_number, at == last) {
                    (true, _) => write!(out, "{cell:>width$}")?,
                    (false, true) => write!(out, "{cell}")?,
                    (false, false) => write!(out, "{cell:width$}")?,
                }
                if at < last {
                    out.write_str("  ")?;
                }
            }
            if number + 1 < self.rows.len() {
                out.write_str("\n")?;
            }
        }
        Ok(())
    }
}

fn is_number(cell: &str) -> bool {
    !cell.is_empty() && cell.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["source", "opens"]);
        table.row(&[&"a", &7]);
        table.row(&[&"longer", &12_345]);
        assert_eq!(table.to_string(), "source  opens\na           7\nlonger  12345");
    }
}
