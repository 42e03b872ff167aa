//! The wanted tree: every option of `generate`, with defaults and checks. Pure.

use std::fmt;

use super::sizes::{Shape, Sizes};

/// The most attributes on one file: with their names they fit in the 4 KiB that ext4 reserves for them.
pub const XATTRS_MAX: u32 = 32;
/// Share of the files that get attributes, if any do.
pub const XATTRS_SHARE: f64 = 0.25;

/// Contents of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Bytes that depend on the seed and the file, and do not compress.
    Random,
    /// Written zeros.
    Zeros,
    /// One hole of the file's size: no data is written.
    Sparse,
}

/// Distribution of files among directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The same number in each directory, give or take one.
    Even,
    /// From none to twice the average in each directory.
    Random,
}

/// A tree to make. The same values give the same tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The seed of all random values.
    pub seed: u64,
    /// Number of files, hard links not counted.
    pub files: u64,
    /// Number of directories below the target, the target not counted. If there are none, files go into the target. Otherwise they go only
    /// into these directories.
    pub directories: u64,
    /// The most levels of directories below the target.
    pub depth_max: u32,
    /// The most subdirectories of a directory.
    pub fan_out_max: u32,
    /// Sizes of the files.
    pub sizes: Sizes,
    /// Distribution of files among directories.
    pub spread: Spread,
    /// Contents of the files.
    pub contents: Contents,
    /// Number of additional names for existing files.
    pub hard_links: u64,
    /// Number of symbolic links.
    pub symlinks: u64,
    /// Number of `user.` attributes on every fourth file, up to [`XATTRS_MAX`].
    pub xattrs: u32,
    /// Share (0 to 1) of hostile names among all names.
    pub hostile_names: f64,
}

impl Default for Spec {
    /// 1,000 files of 1 KiB to 1 MiB in 100 directories, seed 1.
    fn default() -> Self {
        let sizes = Sizes::new(Shape::Lognormal, 1 << 10, 1 << 20, 1);
        Self {
            seed: 1,
            files: 1000,
            directories: 100,
            depth_max: 16,
            fan_out_max: 100,
            sizes: sizes.unwrap_or_else(|error| unreachable!("{error}")),
            spread: Spread::Random,
            contents: Contents::Random,
            hard_links: 0,
            symlinks: 0,
            xattrs: 0,
            hostile_names: 0.0,
        }
    }
}

impl Spec {
    /// Number of entries to make, the target not counted.
    #[must_use]
    pub fn entries(&self) -> u64 {
        [self.directories, self.hard_links, self.symlinks].into_iter().fold(self.files, u64::saturating_add)
    }

    /// Checks whether such a tree can exist.
    ///
    /// # Errors
    /// The first reason why it cannot exist.
    pub fn check(&self) -> Result<(), SpecError> {
        let limits = [("files", self.files), ("hard links", self.hard_links), ("symlinks", self.symlinks)];
        if let Some(&(what, count)) = limits.iter().find(|(_, count)| *count > COUNT_MAX) {
            return Err(SpecError::TooMany { what, count, most: COUNT_MAX });
        }
        if self.directories >= u64::from(u32::MAX) {
            let most = u64::from(u32::MAX) - 1;
            return Err(SpecError::TooMany { what: "directories", count: self.directories, most });
        }
        if self.xattrs > XATTRS_MAX {
            let (count, most) = (u64::from(self.xattrs), u64::from(XATTRS_MAX));
            return Err(SpecError::TooMany { what: "extended attributes per file", count, most });
        }
        if self.hard_links > 0 && self.files == 0 {
            return Err(SpecError::NothingToLink);
        }
        if !(0.0..=1.0).contains(&self.hostile_names) {
            return Err(SpecError::Share(self.hostile_names));
        }
        let room = room(self.depth_max, self.fan_out_max, self.directories);
        if room < self.directories {
            let (depth_max, fan_out_max) = (self.depth_max, self.fan_out_max);
            return Err(SpecError::NoRoom { directories: self.directories, room, depth_max, fan_out_max });
        }
        Ok(())
    }
}

/// Indices are multiplied in 128 bits and permuted in 62; no file system reaches this count.
const COUNT_MAX: u64 = 1 << 60;

/// Returns how many directories fit below one within both limits, counted up to `enough`.
fn room(depth_max: u32, fan_out_max: u32, enough: u64) -> u64 {
    let mut level = 1_u64;
    let mut room = 0_u64;
    for _ in 0..depth_max {
        level = level.saturating_mul(u64::from(fan_out_max));
        room = room.saturating_add(level);
        if room >= enough || level == 0 {
            break;
        }
    }
    room
}

/// Why a tree cannot exist.
#[derive(Clone, Debug, PartialEq)]
pub enum SpecError {
    /// A count exceeds its limit.
    TooMany {
        /// The counted entries.
        what: &'static str,
        /// The wanted number.
        count: u64,
        /// The largest possible number.
        most: u64,
    },
    /// The directories do not fit within the limits.
    NoRoom {
        /// The wanted number.
        directories: u64,
        /// The number that fits.
        room: u64,
        /// The most levels below the target.
        depth_max: u32,
        /// The most subdirectories of a directory.
        fan_out_max: u32,
    },
    /// Hard links are wanted, but no files.
    NothingToLink,
    /// An invalid range of sizes, and the reason.
    Sizes(&'static str),
    /// A share that is not between 0 and 1.
    Share(f64),
    /// A scale that is not above 0, or so large that a count overflows.
    Scale(f64),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { what, count, most } => write!(f, "{count} {what} are too many: at most {most}"),
            Self::NoRoom { directories, room, depth_max, fan_out_max } => write!(
                f,
                "{directories} directories do not fit: {depth_max} levels with {fan_out_max} subdirectories each \
                 hold {room}"
            ),
            Self::NothingToLink => write!(f, "hard links need files to link to"),
            Self::Sizes(why) => write!(f, "file sizes: {why}"),
            Self::Share(share) => write!(f, "a share of {share} is not between 0 and 1"),
            Self::Scale(scale) => write!(f, "a scale of {scale} is not above 0, or too large"),
        }
    }
}

impl std::error::Error for SpecError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Spec)) -> Result<(), SpecError> {
        let mut spec = Spec::default();
        change(&mut spec);
        spec.check()
    }

    #[test]
    fn defaults_are_a_tree_that_can_be() {
        assert_eq!(with(|_| {}), Ok(()));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_reason() {
        let room = with(|spec| {
            (spec.directories, spec.depth_max, spec.fan_out_max) = (15, 3, 2);
        });
        assert_eq!(
            room.unwrap_err().to_string(),
            "15 directories do not fit: 3 levels with 2 subdirectories each hold 14"
        );
        assert_eq!(with(|spec| (spec.files, spec.hard_links) = (0, 1)), Err(SpecError::NothingToLink));
        assert!(with(|spec| spec.hostile_names = f64::NAN).is_err());
        assert!(with(|spec| spec.xattrs = 33).is_err());
        assert!(with(|spec| spec.directories = u64::from(u32::MAX)).is_err());
        assert!(with(|spec| spec.files = u64::MAX).is_err());
        assert!(with(|spec| spec.fan_out_max = 0).is_err());
    }

    #[test]
    fn limits_that_just_fit_are_taken() {
        assert_eq!(with(|spec| (spec.directories, spec.depth_max, spec.fan_out_max) = (14, 3, 2)), Ok(()));
        assert_eq!(
            with(|spec| (spec.directories, spec.depth_max, spec.fan_out_max) = (20_000, 20_000, 1)),
            Ok(())
        );
        assert_eq!(with(|spec| (spec.directories, spec.depth_max) = (0, 0)), Ok(()));
    }
}
