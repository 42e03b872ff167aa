//! One PATH as the first rank has it, with what all ranks find there: its labels, notes and exit code. No I/O.

use std::time::Duration;

use atta_entry::escape;
use atta_ops::resume::hex;
use atta_status::{Answer, Distribution, Evidence, Finding, Inspection, Ranks};
use atta_sys::file_systems::Reach;

use crate::run::messages::exit;
use crate::size::{binary, counted};

/// Ranges of ranks that a message names.
const RANGES_MAX: usize = 8;

/// A mount of the first rank.
pub(super) struct Mounted {
    pub(super) point: Vec<u8>,
    pub(super) kind: String,
    pub(super) source: Vec<u8>,
}

/// One PATH.
pub(super) struct Row {
    /// As it was given, from the root on.
    pub(super) path: Vec<u8>,
    /// Without symbolic links, on the first rank.
    pub(super) resolved: Vec<u8>,
    pub(super) mount: Option<Mounted>,
    pub(super) uri: Option<String>,
    pub(super) reach: Option<Reach>,
    /// What ranks find, or why they were not asked.
    pub(super) found: Result<Inspection, String>,
    pub(super) deadline: Duration,
}

impl Row {
    /// Where the data is, for a process alone.
    pub(super) fn reach(&self) -> &'static str {
        match self.reach {
            Some(Reach::Local) => "local",
            Some(Reach::Remote) => "remote",
            Some(Reach::Layers | Reach::Unknown) | None => "unknown",
        }
    }

    /// Which ranks see the same, by the names of the queries.
    pub(super) fn distribution(&self) -> String {
        let Ok(Inspection { distribution, .. }) = &self.found else { return "unknown".to_owned() };
        let is_unique = self.found.as_ref().map_or(Answer::Unknown, Inspection::is_unique);
        label_of(distribution, is_unique)
    }

    /// Whether ranks find the same.
    pub(super) fn consistency(&self) -> &'static str {
        let Ok(found) = &self.found else { return "unknown" };
        match (found.is_consistent(), &found.findings[..]) {
            (Answer::Yes, [Finding { evidence: Evidence::Absent, .. }]) => "absent",
            (Answer::Yes, _) => "consistent",
            (Answer::No, _) => "inconsistent",
            (Answer::Unknown, _) => "unknown",
        }
    }

    /// What is to be reported of it.
    pub(super) fn notes(&self) -> Vec<String> {
        let name = escape(&self.path);
        let found = match &self.found {
            Ok(found) => found,
            Err(why) => return vec![format!("{name}: {why}")],
        };
        let is_of_all = found.findings.len() == 1 && found.others == 0;
        let is_different = found.is_consistent() == Answer::No;
        let note = |Finding { evidence, ranks }: &Finding| {
            let what = match evidence {
                Evidence::Absent => "no such file or directory".to_owned(),
                Evidence::NotMounted => {
                    "an automounter mounts it when it is used; it was not looked at".to_owned()
                }
                Evidence::Failed(errno) => format!("cannot look at it: {errno}"),
                Evidence::NoAnswer => format!("no answer within {} s", self.deadline.as_secs_f64()),
                known if is_different => described(known),
                _ => return None,
            };
            let on = if is_of_all { String::new() } else { format!("{}: ", listed(ranks)) };
            Some(format!("{name}: {on}{what}"))
        };
        let mut notes: Vec<_> = found.findings.iter().filter_map(note).collect();
        if found.others > 0 {
            notes.push(format!("{name}: {} find something else", counted(found.others, "rank", "ranks")));
        }
        notes
    }

    /// The exit code for this PATH alone.
    pub(super) fn code(&self) -> u8 {
        let Ok(found) = &self.found else { return exit::PARTIAL };
        let failed = |found: &Finding| matches!(found.evidence, Evidence::Failed(_) | Evidence::NoAnswer);
        match () {
            () if found.findings.iter().any(failed) => exit::PARTIAL,
            () if found.is_consistent() == Answer::No || found.absent().is_some() => exit::DIFFERENT,
            () => exit::DONE,
        }
    }
}

/// The strongest query that is true, and the number of groups. Whether ranks see one file, the caller may know better.
pub(super) fn label_of(distribution: &Distribution, is_unique: Answer) -> String {
    if is_unique == Answer::Yes {
        return "unique".to_owned();
    }
    let answers = [
        (distribution.is_fully_distributed(), "fully distributed"),
        (distribution.is_well_distributed(), "well distributed"),
        (distribution.is_poorly_distributed(), "poorly distributed"),
    ];
    let label =
        answers.iter().find(|(answer, _)| *answer == Answer::Yes).map_or("unknown", |(_, label)| label);
    let groups = distribution.groups();
    match (groups.low, groups.high) {
        (low, high) if low == high => format!("{label}, {}", counted(high.into(), "group", "groups")),
        (low, high) => format!("{label}, {low} to {high} groups"),
    }
}

/// What ranks find, where others find something else.
fn described(evidence: &Evidence) -> String {
    match evidence {
        Evidence::File(size, None) => format!("a file of {}", binary(*size)),
        Evidence::File(size, Some(digest)) => {
            format!("a file of {}, digest {}", binary(*size), digits(digest))
        }
        Evidence::Directory(None) => "a directory".to_owned(),
        Evidence::Directory(Some(digest)) => format!("a directory, digest of its names {}", digits(digest)),
        _ => "something else".to_owned(),
    }
}

/// The first digits of a digest: enough to see which ranks agree.
fn digits(digest: &[u8; 32]) -> String {
    hex(&digest[..6])
}

/// `rank 3`, `ranks 0-3, 7`.
pub(super) fn listed(ranks: &Ranks) -> String {
    let range = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let mut named: Vec<_> = ranks.ranges().take(RANGES_MAX).map(range).collect();
    if ranks.ranges().nth(RANGES_MAX).is_some() {
        named.push("...".to_owned());
    }
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, named.join(", "))
}
