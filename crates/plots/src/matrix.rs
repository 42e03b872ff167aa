//! Values for pairs of ranks, summed in bins as they arrive: a matrix of a million ranks takes no more memory than one of sixty-four. It
//! draws nothing.

use crate::PlotError;
use crate::number::checked;

/// Most rows and columns of cells that a heat map shows. A larger matrix is shown in bins of several rows and columns: at this size cells
/// are large enough to see, and the file stays below half a megabyte.
pub const BINS_PER_SIDE: usize = 64;

/// Values of rows and columns, zero where none was added.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    /// Sums of bins, row by row.
    sums: Vec<f64>,
}

impl Matrix {
    /// A matrix of zeros.
    ///
    /// # Errors
    ///
    /// No rows or no columns.
    pub fn new(rows: usize, columns: usize) -> Result<Self, PlotError> {
        if rows == 0 || columns == 0 {
            let what = if rows == 0 { "rows" } else { "columns" };
            return Err(PlotError::Empty { what: what.to_owned() });
        }
        let bins = bins(rows) * bins(columns);
        Ok(Self { rows, columns, sums: vec![0.0; bins] })
    }

    /// A matrix of given rows.
    ///
    /// # Errors
    ///
    /// No rows or no columns, rows of different lengths, and any value that [`add`](Self::add) refuses.
    pub fn from_rows(rows: &[Vec<f64>]) -> Result<Self, PlotError> {
        let columns_expected = rows.first().map_or(0, Vec::len);
        let mut matrix = Self::new(rows.len(), columns_expected)?;
        for (row, values) in rows.iter().enumerate() {
            let columns = values.len();
            if columns != columns_expected {
                return Err(PlotError::Ragged { row, columns, columns_expected });
            }
            for (column, value) in values.iter().enumerate() {
                matrix.add(row, column, *value)?;
            }
        }
        Ok(matrix)
    }

    /// Adds a value to a cell; both numbers count from zero.
    ///
    /// # Errors
    ///
    /// A cell that does not exist; a value that is negative, not finite or too large.
    pub fn add(&mut self, row: usize, column: usize, value: f64) -> Result<(), PlotError> {
        if row >= self.rows || column >= self.columns {
            return Err(PlotError::Outside { row, column, rows: self.rows, columns: self.columns });
        }
        let value = checked(value, || format!("row {row}, column {column}"))?;
        let bin = row / bin_length(self.rows) * bins(self.columns) + column / bin_length(self.columns);
        self.sums[bin] += value;
        Ok(())
    }

    /// The means of bins, row by row. Means and not sums: the last bins may hold fewer cells.
    pub(crate) fn means(&self) -> Result<Vec<Vec<f64>>, PlotError> {
        let row_of = |row: usize| self.sums.chunks(bins(self.columns)).nth(row).unwrap_or_default();
        let lengths = |count: usize| {
            let length = bin_length(count);
            (0..bins(count)).map(move |bin| length.min(count - bin * length))
        };
        let mean = |(columns, sum): (usize, &f64), rows: usize| {
            checked(sum / (rows as f64 * columns as f64), || "a sum of cells".to_owned())
        };
        lengths(self.rows)
            .enumerate()
            .map(|(row, rows)| lengths(self.columns).zip(row_of(row)).map(|cell| mean(cell, rows)).collect())
            .collect()
    }

    /// Numbers of rows and of columns in one bin.
    pub(crate) fn bin_lengths(&self) -> (usize, usize) {
        (bin_length(self.rows), bin_length(self.columns))
    }
}

fn bin_length(count: usize) -> usize {
    count.div_ceil(BINS_PER_SIDE)
}

fn bins(count: usize) -> usize {
    count.div_ceil(bin_length(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_matrices_keep_their_cells() {
        let rows = vec![vec![0.0, 1.0, 2.0], vec![3.0, 4.0, 5.0]];
        let matrix = Matrix::from_rows(&rows).unwrap();
        assert_eq!(matrix.means().unwrap(), rows);
        assert_eq!(matrix.bin_lengths(), (1, 1));
    }

    #[test]
    fn large_matrices_show_means_of_bins() {
        let mut matrix = Matrix::new(130, 64).unwrap();
        assert_eq!(matrix.bin_lengths(), (3, 1));
        for row in 0..130 {
            matrix.add(row, 5, 7.0).unwrap();
        }
        matrix.add(129, 5, 2.0).unwrap();
        let means = matrix.means().unwrap();
        assert_eq!((means.len(), means[0].len()), (44, 64));
        assert_eq!((means[0][5], means[43][5], means[43][4]), (7.0, 9.0, 0.0));
    }

    #[test]
    fn a_million_ranks_cost_no_more() {
        let mut matrix = Matrix::new(1_000_000, usize::MAX).unwrap();
        matrix.add(999_999, usize::MAX - 1, 1.0).unwrap();
        assert!(matrix.means().unwrap().concat().len() <= BINS_PER_SIDE * BINS_PER_SIDE);
    }

    #[test]
    fn says_what_is_wrong() {
        let error = |rows: &[Vec<f64>]| Matrix::from_rows(rows).unwrap_err().to_string();
        assert_eq!(error(&[]), "cannot draw: no rows");
        assert_eq!(error(&[vec![]]), "cannot draw: no columns");
        let ragged = "cannot draw: row 1: it has 2 columns, the first row has 1";
        assert_eq!(error(&[vec![1.0], vec![1.0, 2.0]]), ragged);
        assert_eq!(error(&[vec![f64::NAN]]), "cannot draw: row 0, column 0: the value is no finite number");
        let outside = Matrix::new(1, 2).unwrap().add(0, 2, 1.0).unwrap_err();
        assert_eq!(outside.to_string(), "cannot draw: row 0, column 2: the matrix has 1 rows and 2 columns");
    }
}
