//! How much a victim gives. Independent of the schedule.

use core::fmt;
use core::str::FromStr;

use crate::Random;

/// How a victim splits its waiting tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Split {
    /// Into a random part and the rest (the papers' random queue splitting).
    Random,
    /// Into halves (equal queue splitting).
    #[default]
    Equal,
}

/// The share of the waiting tasks to give, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Share {
    /// One task.
    One,
    /// A fraction of them in 65536ths, rounded up.
    Part(u16),
    /// All but this number.
    AllBut(u64),
}

impl Split {
    /// All choices.
    pub const ALL: [Self; 2] = [Self::Random, Self::Equal];

    /// The name by which it is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Equal => "equal",
        }
    }

    /// The share to give this time.
    pub fn share(self, random: &mut Random) -> Share {
        match self {
            Self::Random => Share::Part(u16::try_from(random.below(1 << 16)).unwrap_or(0)),
            Self::Equal => Share::Part(1 << 15),
        }
    }
}

impl Share {
    /// The number of tasks in the share. At least one if a task waits, except for [`AllBut`](Self::AllBut).
    #[must_use]
    pub fn of(self, waiting: u64) -> u64 {
        match self {
            Self::One => waiting.min(1),
            Self::Part(part) => {
                let count = (u128::from(waiting) * u128::from(part)).div_ceil(1 << 16);
                u64::try_from(count).unwrap_or(waiting).max(waiting.min(1))
            }
            Self::AllBut(kept) => waiting.saturating_sub(kept),
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Split {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|split| split.name() == name).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_between_one_task_and_all() {
        let shares = [Share::One, Share::Part(0), Share::Part(1 << 15), Share::Part(u16::MAX)];
        for share in shares {
            assert_eq!(share.of(0), 0);
            for waiting in [1, 2, 3, 1000, u64::MAX] {
                assert!((1..=waiting).contains(&share.of(waiting)), "{share:?} of {waiting}");
            }
        }
        assert_eq!(Share::Part(1 << 15).of(7), 4);
        assert_eq!(Share::AllBut(1).of(7), 6);
        assert_eq!(Share::AllBut(3).of(2), 0);
    }

    #[test]
    fn random_shares_cover_all_sizes() {
        let mut random = Random::new(3);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            let given = Split::Random.share(&mut random).of(10);
            seen[usize::try_from(given - 1).unwrap()] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
