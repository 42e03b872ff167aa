//! What a job wants of a file system, and how that is written: `10GiB,speed=high,distribution=unique,writable`. It parses no sizes; the
//! caller does.

use std::fmt;

use atta_code::{choice, record};

/// Sequential speed of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedRequirement {
    /// Any.
    Low,
    /// That of a local disk or more: measured 200 MB/s, or 2 in the table of types.
    High,
}

/// On how many servers the directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributionRequirement {
    /// All ranks see one directory.
    Unique,
    /// It is on one or on few servers: poorly distributed.
    Low,
    /// It is on many servers or on all hosts: well distributed.
    High,
    /// Each host has its own.
    Full,
}

/// How many processes a file system serves at full speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalabilityRequirement {
    /// Any.
    Single,
    /// More than one: a parallel file system.
    Multi,
}

choice!(SpeedRequirement { 0 => Low, 1 => High });
choice!(DistributionRequirement { 0 => Unique, 1 => Low, 2 => High, 3 => Full });
choice!(ScalabilityRequirement { 0 => Single, 1 => Multi });

/// What a job wants of a file system. The default wants nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Bytes that this rank writes. Ranks may want different amounts: those that share a file system are added.
    pub space_each: u64,
    /// Bytes that all ranks write together, each the same share. The first rank's value counts.
    pub space_total: u64,
    /// Bytes that this rank removes from the file system before it writes.
    pub space_to_free: u64,
    /// Speed. The first rank's value counts, as for all that follow.
    pub speed: Option<SpeedRequirement>,
    /// Distribution.
    pub distribution: Option<DistributionRequirement>,
    /// Scalability.
    pub scalability: Option<ScalabilityRequirement>,
    /// Whether files can be made in the directory of the mount point. Each looking rank tries it.
    pub writable: bool,
}

record!(Requirements { space_each, space_total, space_to_free, speed, distribution, scalability, writable });

/// Why a text gives no requirements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRequirement {
    /// The part that is wrong.
    pub part: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for InvalidRequirement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "'{}': {}", self.part, self.reason)
    }
}

impl std::error::Error for InvalidRequirement {}

/// The names of requirements, for messages.
const NAMES: &str = "a size, each=SIZE, total=SIZE, free=SIZE, speed=low|high, distribution=unique|low|high|full, \
                     scalability=single|multi or writable";

impl Requirements {
    /// Reads a list with commas: `SIZE` or `each=SIZE` for each process, `total=SIZE`, `free=SIZE`, `speed=`, `distribution=`,
    /// `scalability=` and `writable`, each at most once. `size` reads a size in bytes.
    ///
    /// # Errors
    /// A part that is no requirement, has another value than the possible ones, or is there twice; or what `size` says.
    pub fn parse(text: &str, size: impl Fn(&str) -> Result<u64, String>) -> Result<Self, InvalidRequirement> {
        let (mut found, mut names) = (Self::default(), Vec::new());
        for part in text.split(',') {
            let invalid = |reason: String| InvalidRequirement { part: part.to_owned(), reason };
            let (name, value) = part.split_once('=').unwrap_or(match part {
                "writable" => (part, ""),
                size => ("each", size),
            });
            if part.is_empty() {
                return Err(invalid(format!("expected {NAMES}")));
            }
            if names.contains(&name) {
                return Err(invalid(format!("{name} is given twice")));
            }
            names.push(name);
            found.set(name, value, &size).map_err(invalid)?;
        }
        Ok(found)
    }

    fn set(
        &mut self,
        name: &str,
        value: &str,
        size: impl Fn(&str) -> Result<u64, String>,
    ) -> Result<(), String> {
        match name {
            "each" if value.is_empty() => return Err(format!("expected {NAMES}")),
            "each" => self.space_each = size(value)?,
            "total" => self.space_total = size(value)?,
            "free" => self.space_to_free = size(value)?,
            "speed" => self.speed = Some(one_of(value, &SPEEDS)?),
            "distribution" => self.distribution = Some(one_of(value, &DISTRIBUTIONS)?),
            "scalability" => self.scalability = Some(one_of(value, &SCALABILITIES)?),
            "writable" if value.is_empty() => self.writable = true,
            "writable" => return Err("writable has no value".to_owned()),
            _ => return Err(format!("expected {NAMES}")),
        }
        Ok(())
    }
}

const SPEEDS: [(&str, SpeedRequirement); 2] =
    [("low", SpeedRequirement::Low), ("high", SpeedRequirement::High)];
const DISTRIBUTIONS: [(&str, DistributionRequirement); 4] = [
    ("unique", DistributionRequirement::Unique),
    ("low", DistributionRequirement::Low),
    ("high", DistributionRequirement::High),
    ("full", DistributionRequirement::Full),
];
const SCALABILITIES: [(&str, ScalabilityRequirement); 2] =
    [("single", ScalabilityRequirement::Single), ("multi", ScalabilityRequirement::Multi)];

fn one_of<T: Copy>(value: &str, all: &[(&str, T)]) -> Result<T, String> {
    let found = all.iter().find(|(name, _)| *name == value);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        format!("expected {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Result<u64, String> {
        let (number, unit) = text.strip_suffix('K').map_or((text, 1), |number| (number, 1024));
        number.parse::<u64>().map(|number| number * unit).map_err(|_| format!("{text} is no size"))
    }

    fn refused(text: &str) -> String {
        Requirements::parse(text, size).unwrap_err().to_string()
    }

    #[test]
    fn lists_of_requirements_are_read() {
        let read = |text: &str| Requirements::parse(text, size).unwrap();
        let all = "10K,total=7,free=1K,speed=high,distribution=unique,scalability=multi,writable";
        let expected = Requirements {
            space_each: 10_240,
            space_total: 7,
            space_to_free: 1024,
            speed: Some(SpeedRequirement::High),
            distribution: Some(DistributionRequirement::Unique),
            scalability: Some(ScalabilityRequirement::Multi),
            writable: true,
        };
        assert_eq!(read(all), expected);
        assert_eq!(read("each=5"), Requirements { space_each: 5, ..Requirements::default() });
        assert_eq!(read("writable"), Requirements { writable: true, ..Requirements::default() });
        for (name, level) in DISTRIBUTIONS {
            assert_eq!(read(&format!("distribution={name}")).distribution, Some(level));
        }
    }

    #[test]
    fn what_is_no_requirement_is_named() {
        assert_eq!(refused("1,speed=fast"), "'speed=fast': expected low, high");
        assert_eq!(refused("1,2"), "'2': each is given twice");
        assert_eq!(refused("speed=low,speed=high"), "'speed=high': speed is given twice");
        assert_eq!(refused("writable=yes"), "'writable=yes': writable has no value");
        assert_eq!(refused("total=x"), "'total=x': x is no size");
        assert_eq!(refused("fast"), "'fast': fast is no size");
        for text in ["", "1,", "each=", "size=1", "=1", "Speed=low"] {
            assert!(refused(text).ends_with(&format!("expected {NAMES}")), "{text}");
        }
    }
}
