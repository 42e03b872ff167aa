//! A table in Markdown with padded columns: the same text serves the terminal and the written results.

/// Rows of text below a header. The first column is aligned to the left, like any column of words; numbers to the
/// right.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// How a column is headed and aligned.
pub(crate) enum Column {
    /// Aligned to the left.
    Words(&'static str),
    /// Aligned to the right.
    Numbers(&'static str),
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    ///
    /// If the row does not have a cell for each column.
    pub(crate) fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        // A bar inside a cell would end it.
        self.rows.push(row.into_iter().map(|cell| cell.replace('|', "\\|")).collect());
    }

    /// The table's lines, each ended by a newline.
    pub(crate) fn render(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|index| self.width(index)).collect();
        let mut text = self.line(&widths, |index| self.columns[index].head());
        let rule = |(column, width): (&Column, &usize)| match column {
            Column::Words(_) => format!(" {} |", "-".repeat(*width)),
            Column::Numbers(_) => format!(" {}: |", "-".repeat(*width - 1)),
        };
        let rules: String = self.columns.iter().zip(&widths).map(rule).collect();
        text.push_str(&format!("|{rules}\n"));
        for row in &self.rows {
            text.push_str(&self.line(&widths, |index| &row[index]));
        }
        text
    }

    fn width(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[index].chars().count());
        // Three dashes are the shortest rule that every reader of Markdown takes for one.
        cells.chain([self.columns[index].head().chars().count(), 3]).max().unwrap_or(3)
    }

    fn line<'text>(&self, widths: &[usize], cell: impl Fn(usize) -> &'text str) -> String {
        let cells =
            self.columns.iter().zip(widths).enumerate().map(|(index, (column, &width))| match column {
                Column::Words(_) => format!(" {:<width$} |", cell(index)),
                Column::Numbers(_) => format!(" {:>width$} |", cell(index)),
            });
        format!("|{}\n", cells.collect::<String>())
    }
}

impl Column {
    fn head(&self) -> &'static str {
        match self {
            Self::Words(head) | Self::Numbers(head) => head,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_aligned_markdown() {
        let mut table = Table::new(vec![Column::Words("who"), Column::Numbers("s")]);
        table.push(vec!["é|b".into(), "0.5".into()]);
        table.push(vec!["longer".into(), "12.25".into()]);
        let expected = "\
| who    |     s |
| ------ | ----: |
| é\\|b   |   0.5 |
| longer | 12.25 |
";
        assert_eq!(table.render(), expected);
    }

    #[test]
    #[should_panic(expected = "a cell for each column")]
    fn a_row_has_every_cell() {
        Table::new(vec![Column::Words("who"), Column::Numbers("s")]).push(vec!["alone".into()]);
    }
}
