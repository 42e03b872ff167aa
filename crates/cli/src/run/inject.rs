//! `--inject FILE`: at which points of a run which ranks kill themselves, for tests of what survives. Builds without debug assertions lack it.
//!
//! ```text
//!   RANK POINT COUNT      1 consumption 20: rank 1 dies when it passes that point for the 20th time
//! ```

use std::path::Path;

use atta_ops::inject::{Point, kill_at};

use super::file::{describe, printable};
use super::refused::Refused;

/// A line.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    rank: u32,
    point: Point,
    count: u64,
}

impl Line {
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (rank, point, count) = (words.next()?, words.next()?, words.next()?);
        let point = Point::ALL.into_iter().find(|known| known.name() == point)?;
        let line = Self { rank: rank.parse().ok()?, point, count: count.parse().ok()? };
        words.next().is_none().then_some(line)
    }

    #[cfg(test)]
    pub(crate) fn to_text(&self) -> String {
        format!("{} {} {}", self.rank, self.point.name(), self.count)
    }
}

/// Prepares the deaths of a rank of the launch.
pub(crate) fn arm(path: &Path, rank: u32) -> Result<(), Refused> {
    let name = printable(path);
    let text = std::fs::read_to_string(path)
        .map_err(|error| Refused::fatal(format!("cannot read {name}: {}", describe(&error))))?;
    for (number, line) in text.lines().enumerate() {
        let Some(line) = Line::from_text(line) else {
            let what = format!("{name}, line {}: it is not RANK POINT COUNT", number + 1);
            return Err(Refused::usage(what, "points are traversal, production and consumption"));
        };
        if line.rank == rank {
            kill_at(line.point, line.count);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_rank_point_and_count() {
        let line = Line { rank: 1, point: Point::Consumption, count: 20 };
        assert_eq!(Line::from_text("1 consumption  20"), Some(line));
        for wrong in ["", "1", "1 consumption", "1 nowhere 2", "-1 traversal 2", "1 traversal 2 3"] {
            assert_eq!(Line::from_text(wrong), None, "{wrong}");
        }
    }
}
