//! Measured speeds, and the file in which a user's speeds are kept from run to run. It measures nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use atta_code::{Code, record};

use crate::measure::Speed;
use crate::sealed::{Kind, SealedError, read, sealed, unsealed, write};

/// What the file begins with, and the most bytes that are read.
const KIND: Kind = Kind { magic: *b"atta spd", bytes_max: 4 << 20 };
/// The most file systems. The oldest ones are dropped.
const MOUNTS_MAX: usize = 4096;

/// A measured speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The speed.
    pub speed: Speed,
    /// Seconds since 1970.
    pub at: u64,
}

record!(Measured { speed, at });

impl Measured {
    /// How long ago it was measured; zero if the clock was set back.
    #[must_use]
    pub fn age(&self, now: SystemTime) -> Duration {
        Duration::from_secs(seconds(now).saturating_sub(self.at))
    }
}

/// Measured speeds by the names of file systems ([`mount_name`](crate::mount_name)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Speeds {
    by_name: BTreeMap<Vec<u8>, Measured>,
}

record!(Speeds { by_name } if is_valid);

pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Speeds {
    fn is_valid(&self) -> bool {
        self.by_name.len() <= MOUNTS_MAX
    }

    /// The speed of a file system.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&Measured> {
        self.by_name.get(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Measured)> {
        self.by_name.iter().map(|(name, measured)| (&name[..], measured))
    }

    /// Adds a speed that was measured now, or replaces the one that is known.
    pub fn insert(&mut self, name: Vec<u8>, speed: Speed, now: SystemTime) {
        self.by_name.insert(name, Measured { speed, at: seconds(now) });
        while self.by_name.len() > MOUNTS_MAX {
            let oldest = self.by_name.iter().min_by_key(|(_, measured)| measured.at);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
            self.by_name.remove(&name);
        }
    }

    /// Those that are not older.
    #[must_use]
    pub fn younger(&self, age_max: Duration, now: SystemTime) -> Self {
        let young = self.by_name.iter().filter(|(_, measured)| measured.age(now) <= age_max);
        Self { by_name: young.map(|(name, measured)| (name.clone(), *measured)).collect() }
    }

    /// Reads the file. A file that does not exist has no speeds.
    ///
    /// # Errors
    /// It cannot be read, or is not what this version of the program wrote. A caller may go on without speeds.
    pub fn load(path: &Path) -> Result<Self, SealedError> {
        match read(path, &KIND) {
            Ok(bytes) => Self::from_bytes(&bytes),
            Err(SealedError::Missing) => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }

    /// The bytes of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        sealed(&self.encoded(), &KIND)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) returns.
    ///
    /// # Errors
    /// They are something else, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SealedError> {
        Self::decode_all(unsealed(bytes, &KIND)?).ok_or(SealedError::Damaged)
    }

    /// Replaces the file in one step. Of two processes that save at once the last one wins.
    ///
    /// # Errors
    /// The directory does not exist or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), SealedError> {
        write(path, &self.to_bytes())
    }
}

#[cfg(test)]
mod tests {
    use atta_testkit::scratch::Scratch;

    use super::*;

    fn after(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    const SPEED: Speed = Speed { write: 1, read: 2 };

    #[test]
    fn speeds_are_kept_in_a_file() {
        let scratch = Scratch::new("speeds").unwrap();
        let path = scratch.join("speeds");
        let mut speeds = Speeds::load(&path).unwrap();
        assert_eq!(speeds, Speeds::default());
        speeds.insert(b"xfs://8:1@boot".to_vec(), SPEED, after(1000));
        speeds.insert(b"nfs://10.0.0.1/\n".to_vec(), Speed { write: 300, read: u64::MAX }, after(1500));
        speeds.save(&path).unwrap();
        assert_eq!(Speeds::load(&path), Ok(speeds));
        std::fs::write(&path, b"something else").unwrap();
        assert_eq!(Speeds::load(&path), Err(SealedError::Foreign));
    }

    #[test]
    fn speeds_grow_old() {
        let mut speeds = Speeds::default();
        speeds.insert(b"a".to_vec(), SPEED, after(1000));
        speeds.insert(b"b".to_vec(), SPEED, after(1060));
        let age = |name: &[u8], now| speeds.get(name).unwrap().age(after(now)).as_secs();
        assert_eq!([age(b"a", 1090), age(b"b", 1090), age(b"b", 900)], [90, 30, 0]);
        let young = |seconds| speeds.younger(Duration::from_secs(seconds), after(1090));
        assert_eq!([29, 30, 90].map(|seconds| young(seconds).iter().count()), [0, 1, 2]);
        speeds.insert(b"a".to_vec(), SPEED, after(1090));
        assert_eq!((speeds.iter().count(), speeds.get(b"a").unwrap().at), (2, 1090));
    }

    #[test]
    fn oldest_speeds_are_dropped() {
        let mut speeds = Speeds::default();
        for at in 0..MOUNTS_MAX as u64 + 3 {
            speeds.insert(format!("{at}").into_bytes(), SPEED, after(100_000 - at));
        }
        assert_eq!(speeds.iter().count(), MOUNTS_MAX);
        let last = format!("{}", MOUNTS_MAX + 2).into_bytes();
        // Each new one is the oldest.
        assert!(speeds.get(b"0").is_some() && speeds.get(&last).is_none());
    }
}
