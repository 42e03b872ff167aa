//! Why a picture could not be drawn. It names the wrong input; nothing is drawn then.

use std::error::Error;
use std::fmt;

/// Why a picture could not be drawn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PlotError {
    /// There is nothing to draw.
    Empty {
        /// The missing input.
        what: String,
    },
    /// A value is infinite or not a number.
    NotFinite {
        /// Whose value it is.
        whose: String,
    },
    /// A value is less than zero.
    Negative {
        /// Whose value it is.
        whose: String,
        /// The value.
        value: f64,
    },
    /// A value, or a sum of values, is above [`VALUE_MAX`](crate::VALUE_MAX).
    TooLarge {
        /// Whose value it is.
        whose: String,
        /// The value.
        value: f64,
    },
    /// A position on a logarithmic axis is not above zero.
    NotPositive {
        /// Whose position it is.
        whose: String,
        /// The position.
        value: f64,
    },
    /// There is more than a picture can show.
    TooMany {
        /// The kind of the excess input.
        what: &'static str,
        /// Their number, or a lower bound of it.
        count: usize,
        /// The largest number allowed.
        count_max: usize,
    },
    /// One group has two values for one series.
    Twice {
        /// The series.
        series: String,
        /// The group.
        group: String,
    },
    /// A row of a matrix is longer or shorter than its first row.
    Ragged {
        /// Number of the row, from zero.
        row: usize,
        /// Its length.
        columns: usize,
        /// The length of the first row.
        columns_expected: usize,
    },
    /// A value was added to a cell that the matrix does not have.
    Outside {
        /// The given row.
        row: usize,
        /// The given column.
        column: usize,
        /// Number of rows.
        rows: usize,
        /// Number of columns.
        columns: usize,
    },
    /// The library that writes the SVG failed.
    Backend {
        /// The message of the library.
        text: String,
    },
}

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot draw: ")?;
        match self {
            Self::Empty { what } => write!(f, "no {what}"),
            Self::NotFinite { whose } => write!(f, "{whose}: the value is no finite number"),
            Self::Negative { whose, value } => write!(f, "{whose}: {value} is less than zero"),
            Self::TooLarge { whose, value } => {
                write!(f, "{whose}: {value:e} is above {:e}", crate::VALUE_MAX)
            }
            Self::NotPositive { whose, value } => {
                write!(f, "{whose}: {value:e} is too small for a logarithmic axis")
            }
            Self::TooMany { what, count, count_max } => {
                write!(f, "{count} {what}: {count_max} are the most")
            }
            Self::Twice { series, group } => write!(f, "{group}: it has two values for {series}"),
            Self::Ragged { row, columns, columns_expected } => {
                write!(f, "row {row}: it has {columns} columns, the first row has {columns_expected}")
            }
            Self::Outside { row, column, rows, columns } => {
                write!(f, "row {row}, column {column}: the matrix has {rows} rows and {columns} columns")
            }
            Self::Backend { text } => write!(f, "the SVG writer failed: {text}"),
        }
    }
}

impl Error for PlotError {}
