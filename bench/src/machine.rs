//! What a reader must know about the machine to judge a number: processor, memory, kernel, file system, date, commit.
//!
//! No host name, no user, no path: results are published.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde::Serialize;

/// Described once at the start of a benchmark.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    /// The day in UTC, as `2026-01-31`.
    pub(crate) date: String,
    /// The commit of the source tree, with `-dirty` if it was changed since.
    pub(crate) commit: String,
    /// The processor's name, as it calls itself.
    pub(crate) processor: String,
    /// Cores that this process may use.
    pub(crate) cores: usize,
    /// Memory in GiB.
    pub(crate) memory_gib: u64,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// The file system below the trees, with its mount options.
    pub(crate) file_system: String,
}

impl Machine {
    /// Describes this machine and the file system of `place`. What cannot be found out is `unknown`.
    pub(crate) fn describe(place: &Path, source: &Path) -> Self {
        let unknown = || "unknown".to_owned();
        let memory_kib = field("/proc/meminfo", "MemTotal").and_then(|text| {
            let number = text.split_whitespace().next()?;
            number.parse::<u64>().ok()
        });
        Self {
            date: date(SystemTime::now()),
            commit: commit(source).unwrap_or_else(unknown),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: cores(),
            memory_gib: memory_kib.unwrap_or(0).div_ceil(1 << 20),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            file_system: file_system(place).unwrap_or_else(unknown),
        }
    }

    /// Whether the file system of the trees lives in memory.
    pub(crate) fn in_memory(&self) -> bool {
        ["tmpfs", "ramfs"].iter().any(|name| self.file_system.starts_with(name))
    }

    /// A list in Markdown.
    pub(crate) fn list(&self) -> String {
        let Self { date, commit, processor, cores, memory_gib, kernel, file_system } = self;
        format!(
            "- date: {date}\n- commit: {commit}\n- processor: {processor}, {cores} cores\n\
             - memory: {memory_gib} GiB\n- kernel: Linux {kernel}\n- file system: {file_system}\n"
        )
    }
}

/// Cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The load of the last minute: others who run here disturb what is measured.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// The first `name : value` of a file below `/proc`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let value = |line: &str| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim().to_owned());
    text.lines().find_map(value)
}

fn commit(source: &Path) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(source)
        // Without this git refreshes its index on the way, under somebody else's feet.
        .args(["--no-optional-locks", "describe", "--always", "--dirty", "--exclude", "*"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The mount that `place` lies on, found by its number: device numbers are ambiguous with bind mounts and on btrfs.
fn file_system(place: &Path) -> Option<String> {
    let status = statx(CWD, place, AtFlags::empty(), StatxFlags::MNT_ID).ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| described_mount(line, status.stx_mnt_id))
}

/// Type and options of a line of mountinfo, if it is the mount with this number (see proc_pid_mountinfo(5)).
fn described_mount(line: &str, mount: u64) -> Option<String> {
    let (fixed, kind) = line.split_once(" - ")?;
    let mut fixed = fixed.split(' ');
    if fixed.next()?.parse() != Ok(mount) {
        return None;
    }
    let options = fixed.nth(4)?;
    Some(format!("{} ({options})", kind.split(' ').next()?))
}

/// The day in UTC of a time after 1970, by the calendar's rule of 400 years (Hinnant, `civil_from_days`): years start
/// in March, so that the leap day comes last.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates() {
        let day = |days: u64| date(UNIX_EPOCH + Duration::from_secs(days * 86_400 + 86_399));
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(19_782), "2024-02-29");
        assert_eq!(day(19_783), "2024-03-01");
        assert_eq!(day(20_453), "2025-12-31");
        assert_eq!(day(47_540), "2100-02-28");
        assert_eq!(day(47_541), "2100-03-01");
    }

    #[test]
    fn mounts_are_found_by_number() {
        let line = "29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/sda rw,errors=remount-ro";
        assert_eq!(described_mount(line, 29).as_deref(), Some("ext4 (rw,relatime)"));
        assert_eq!(described_mount(line, 2), None);
    }
}
