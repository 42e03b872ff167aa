//! `--inject FILE`: at which points of a run which ranks kill themselves, for tests of what survives. Builds without debug assertions lack it.
//!
//! ```text
//!   RANK POINT COUNT      1 consumption 20: rank 1 dies when it passes that point for the 20th time
//!   any POISON NAME       any entry bad: any rank dies when it comes to an entry of that name
//! ```

use std::path::Path;

use atta_ops::inject::{Point, Poison, die_of, kill_at};

use super::file::{describe, printable};
use super::refused::Refused;

/// A line.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    /// This rank dies when it passes that point so many times.
    At(u32, Point, u64),
    /// Any rank dies when it comes to this.
    Of(Poison, String),
}

impl Line {
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let (rank, what, last) = (words.next()?, words.next()?, words.next()?);
        let line = if rank == "any" {
            let poison = Poison::ALL.into_iter().find(|known| known.name() == what)?;
            Self::Of(poison, last.to_owned())
        } else {
            let point = Point::ALL.into_iter().find(|known| known.name() == what)?;
            Self::At(rank.parse().ok()?, point, last.parse().ok()?)
        };
        words.next().is_none().then_some(line)
    }

    #[cfg(test)]
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::At(rank, point, count) => format!("{rank} {} {count}", point.name()),
            Self::Of(poison, name) => format!("any {} {name}", poison.name()),
        }
    }
}

/// Prepares the deaths of a rank of the launch.
pub(crate) fn arm(path: &Path, rank: u32) -> Result<(), Refused> {
    let name = printable(path);
    let text = std::fs::read_to_string(path)
        .map_err(|error| Refused::fatal(format!("cannot read {name}: {}", describe(&error))))?;
    for (number, line) in text.lines().enumerate() {
        let Some(line) = Line::from_text(line) else {
            let what = format!("{name}, line {}: it is not RANK POINT COUNT or any POISON NAME", number + 1);
            let hint = "points are traversal, production and consumption; poisons are entry, opening, directory, plan and chunk";
            return Err(Refused::usage(what, hint));
        };
        match line {
            Line::At(of, point, count) if of == rank => kill_at(point, count),
            Line::At(..) => {}
            Line::Of(poison, name) => die_of(poison, name.as_bytes()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_names_rank_point_and_count() {
        assert_eq!(Line::from_text("1 consumption  20"), Some(Line::At(1, Point::Consumption, 20)));
        assert_eq!(Line::from_text("any chunk large"), Some(Line::Of(Poison::Chunk, "large".to_owned())));
        let wrong =
            ["", "1", "1 consumption", "1 nowhere 2", "-1 traversal 2", "1 traversal 2 3", "any file a"];
        for wrong in wrong {
            assert_eq!(Line::from_text(wrong), None, "{wrong}");
        }
    }
}
