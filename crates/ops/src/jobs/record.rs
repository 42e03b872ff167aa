//! The record of a run in its private directory, as text: its number, host, start time, and the names that it makes. Other runs read it and
//! do not trust it: its size is bounded, and each field is checked. No I/O.
//!
//! ```text
//!   atta job 1
//!   job 00c0ffee00c0ffee        determines the names that the run makes
//!   host node17
//!   boot 4a0e...                of that host
//!   pid 4711
//!   uid 0
//!   started 1764000000          seconds since 1970
//!   top 66306 2                 device and inode of the directory that it is beside
//!   into                        TARGET is a directory that things are put into
//!   log                         the run has a log of its job: a later run of the job goes on with what is left
//!   request job.b90f0eaf7b380874  the directory of that job, as it follows from what was asked for
//!   granted job.b90f0eaf7b380874  the same, and the run came to its end, so no later run goes on with it
//!   log here                    the same; the log is beside the record, unless the run was killed before it made one
//!   new 6e6577                  makes this name, in hexadecimal digits, which was not there
//!   name 6f6c64                 makes something below or in the place of this name
//!   end
//! ```
//!
//! A line with another first word is skipped: later versions may add some. A record without its last line is none.

use std::ffi::{CStr, CString};
use std::fmt::{self, Write as _};

use atta_entry::escape;

/// In place of `request`, when the run has come to its end.
pub(super) const GRANTED: &[u8; 7] = b"granted";

/// Bytes of a record, at most.
pub(crate) const BYTES_MAX: usize = 512 << 10;
/// Names in a record. A run that makes more records `.`: any name.
const NAMES_MAX: usize = 512;
const HEAD: &str = "atta job 1";
/// Most bytes of a host's name or of a boot's number.
const WORD_MAX: usize = 255;

/// The process of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The name of the host, as it calls itself.
    pub host: String,
    /// The number of the process.
    pub pid: u32,
    /// When it began, in seconds since 1970.
    pub started: u64,
}

impl Holder {
    /// Whether a process of this host has its number.
    pub(crate) fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
        // EPERM: it is another user's.
        pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

/// `pid 12 on host, since 2026-11-23T01:02:03Z`, harmless for a terminal.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} on {}, since {}", self.pid, escape(self.host.as_bytes()), utc(self.started))
    }
}

/// A name beside the private directory at or below which a run writes; `.`: any name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Makes {
    pub(crate) name: CString,
    /// It was not there.
    pub(crate) is_new: bool,
}

/// Where the log of a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogPlace {
    /// In a directory that the user has named.
    Elsewhere,
    /// In the directory of all runs of the user.
    Here,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) job: u64,
    pub(crate) holder: Holder,
    pub(crate) boot: String,
    pub(crate) uid: u32,
    pub(crate) top: (u64, u64),
    pub(crate) is_into: bool,
    /// Where the log of the run's job is, if there is one.
    pub(crate) log: Option<LogPlace>,
    /// The name of the job's directory, if that is in the one of all runs of the user.
    pub(crate) request: Option<String>,
    /// When the name was born, in seconds since 1970, if an earlier run for this request has made it, and neither has begun a job.
    pub(crate) since: Option<u64>,
    pub(crate) makes: Vec<Makes>,
}

impl Record {
    /// Of this process, from now on.
    pub(crate) fn of_this_process(job: u64, top: (u64, u64), is_into: bool, makes: Vec<Makes>) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let holder =
            Holder { host: host(), pid: std::process::id(), started: now.map_or(0, |since| since.as_secs()) };
        let uid = rustix::process::geteuid().as_raw();
        let makes = match makes.len() {
            0..=NAMES_MAX => makes,
            _ => vec![Makes { name: c".".to_owned(), is_new: false }],
        };
        let (log, request, since) = (None, None, None);
        Self { job, holder, boot: boot(), uid, top, is_into, log, request, since, makes }
    }

    /// For a run that has a log of its job, or not.
    pub(crate) fn with_log(self, log: Option<LogPlace>) -> Self {
        Self { log, ..self }
    }

    /// For a run whose job has this directory.
    pub(crate) fn with_request(self, request: Option<String>) -> Self {
        Self { request, ..self }
    }

    /// For a run that goes on with the name that an earlier run for this request has made, and that was born then.
    pub(crate) fn with_since(self, since: Option<u64>) -> Self {
        Self { since, ..self }
    }

    /// Where the word `request` begins in its text.
    pub(super) fn place_of_request(&self) -> Option<u64> {
        let line = format!("\nrequest {}\n", self.request.as_ref()?);
        self.to_text().find(&line).map(|at| at as u64 + 1)
    }

    /// Whether it is of a run for this request that makes this name in the directory that it is beside, or goes on with one that made it.
    pub(crate) fn makes_new(&self, request: &str, name: &CStr) -> bool {
        let makes_it = |makes: &Makes| (makes.is_new || self.since.is_some()) && *makes.name == *name;
        !self.is_into && self.makes.iter().any(makes_it) && self.request.as_deref() == Some(request)
    }

    /// Whether it is of a process of this host.
    pub(crate) fn is_of_this_host(&self) -> bool {
        self.holder.host == host()
    }

    /// Whether it is of this process.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.holder.pid == std::process::id() && self.is_of_this_boot()
    }

    /// Whether it is of a process of this host, since it was started the last time.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        let boot = boot();
        !boot.is_empty() && self.boot == boot && self.is_of_this_host()
    }

    pub(crate) fn to_text(&self) -> String {
        let Self { job, holder, boot, uid, top, is_into, log, request, since, makes } = self;
        let mut text = format!("{HEAD}\njob {job:016x}\nhost {}\nboot {boot}\n", holder.host);
        let _ = writeln!(
            text,
            "pid {}\nuid {uid}\nstarted {}\ntop {} {}",
            holder.pid, holder.started, top.0, top.1
        );
        if *is_into {
            text.push_str("into\n");
        }
        match log {
            Some(LogPlace::Elsewhere) => text.push_str("log\n"),
            Some(LogPlace::Here) => text.push_str("log here\n"),
            None => {}
        }
        if let Some(request) = request {
            let _ = writeln!(text, "request {request}");
        }
        if let Some(since) = since {
            let _ = writeln!(text, "since {since}");
        }
        for Makes { name, is_new } in makes {
            let word = if *is_new { "new" } else { "name" };
            let _ = writeln!(text, "{word} {}", hex(name.to_bytes()));
        }
        text.push_str("end\n");
        text
    }

    /// None: it is no whole record of this version.
    pub(crate) fn from_text(text: &[u8]) -> Option<Self> {
        let mut read = Fields::default();
        fields_of(text, HEAD, BYTES_MAX)?.try_for_each(|(word, rest)| read.take(word, rest))?;
        let Fields { job, host, boot, pid, uid, started, top, is_into, log, request, since, makes } = read;
        let holder = Holder { host: host?, pid: pid?, started: started? };
        let (job, boot, uid, top) = (job?, boot?, uid?, top?);
        Some(Self { job, holder, boot, uid, top, is_into, log, request, since, makes })
    }
}

/// The first word of each line of a text, and the rest of the line. None: it does not begin with `head`, has no last line, or is too long.
pub(crate) fn fields_of<'a>(
    text: &'a [u8],
    head: &str,
    bytes_max: usize,
) -> Option<impl Iterator<Item = (&'a str, &'a str)>> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= bytes_max)?;
    let mut lines = text.strip_suffix("\nend\n")?.split('\n');
    (lines.next()? == head).then(|| lines.map(|line| line.split_once(' ').unwrap_or((line, ""))))
}

/// What was read so far.
#[derive(Default)]
struct Fields {
    job: Option<u64>,
    host: Option<String>,
    boot: Option<String>,
    pid: Option<u32>,
    uid: Option<u32>,
    started: Option<u64>,
    top: Option<(u64, u64)>,
    is_into: bool,
    log: Option<LogPlace>,
    request: Option<String>,
    since: Option<u64>,
    makes: Vec<Makes>,
}

impl Fields {
    /// None: the line is wrong, or a second one of its kind.
    fn take(&mut self, word: &str, rest: &str) -> Option<()> {
        match word {
            "job" => {
                once(&mut self.job, (rest.len() == 16).then(|| u64::from_str_radix(rest, 16).ok()).flatten())
            }
            "host" => once(&mut self.host, is_word(rest).then(|| rest.to_owned())),
            // Empty if it was not known.
            "boot" => once(&mut self.boot, (rest.is_empty() || is_word(rest)).then(|| rest.to_owned())),
            "pid" => once(&mut self.pid, rest.parse().ok().filter(|pid| *pid > 0)),
            "uid" => once(&mut self.uid, rest.parse().ok()),
            "started" => once(&mut self.started, rest.parse().ok()),
            "top" => once(
                &mut self.top,
                rest.split_once(' ')
                    .and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?))),
            ),
            "into" => {
                self.is_into = true;
                Some(())
            }
            "log" => {
                let here = (rest == "here").then_some(LogPlace::Here);
                once(&mut self.log, here.or(rest.is_empty().then_some(LogPlace::Elsewhere)))
            }
            "request" => once(&mut self.request, is_word(rest).then(|| rest.to_owned())),
            "since" => once(&mut self.since, rest.parse().ok()),
            "new" | "name" => {
                let name = unhex(rest).and_then(|name| CString::new(name).ok());
                let name = name.filter(|name| is_name(name) && self.makes.len() < NAMES_MAX)?;
                self.makes.push(Makes { name, is_new: word == "new" });
                Some(())
            }
            _ => Some(()),
        }
    }
}

pub(crate) fn once<T>(field: &mut Option<T>, value: Option<T>) -> Option<()> {
    match field {
        Some(_) => None,
        None => value.map(|value| *field = Some(value)),
    }
}

fn is_word(word: &str) -> bool {
    (1..=WORD_MAX).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_graphic())
}

/// One name in a directory, or the directory itself.
fn is_name(name: &CStr) -> bool {
    let bytes = name.to_bytes();
    !bytes.is_empty() && bytes != b".." && bytes.len() <= WORD_MAX && !bytes.contains(&b'/')
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Bytes of hexadecimal digits; none: they are no pairs of such.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

/// The name of this host; what is no plain character of it is a question mark.
#[must_use]
pub fn host() -> String {
    let uname = rustix::system::uname();
    let plain = |byte: &u8| if byte.is_ascii_graphic() { char::from(*byte) } else { '?' };
    let host: String = uname.nodename().to_bytes().iter().take(WORD_MAX).map(plain).collect();
    if host.is_empty() { "?".to_owned() } else { host }
}

/// Identifies this start of the kernel; empty: it is not known.
pub(crate) fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot = boot.trim();
    if is_word(boot) { boot.to_owned() } else { String::new() }
}

/// A time as RFC 3339 has it, by the civil calendar of Hinnant's `civil_from_days`.
pub(crate) fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let makes: [(&CStr, bool); 3] = [(c"new name", true), (c"b\xff\n", false), (c".", false)];
        let makes = makes.map(|(name, is_new)| Makes { name: name.to_owned(), is_new });
        Record::of_this_process(7, (1, 2), true, makes.to_vec())
            .with_log(Some(LogPlace::Here))
            .with_since(Some(5))
    }

    #[test]
    fn a_record_is_read_back_and_says_who_runs() {
        let record = record();
        assert_eq!(Record::from_text(record.to_text().as_bytes()), Some(record.clone()));
        assert!(record.is_of_this_boot());
        let other = Record { boot: "another".to_owned(), ..record.clone() };
        assert!(!other.is_of_this_boot());
        let holder = Holder { host: "h".to_owned(), pid: 12, started: 1_709_210_096 };
        assert_eq!(holder.to_string(), "pid 12 on h, since 2024-02-29T12:34:56Z");
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        let later = record.to_text().replace("\nend\n", "\nlater words\nend\n");
        assert_eq!(Record::from_text(later.as_bytes()), Some(record), "a later version says more");
    }

    #[test]
    fn damaged_record_is_never_misread() {
        let text = record().to_text().into_bytes();
        for end in 0..text.len() {
            assert_eq!(Record::from_text(&text[..end]), None, "cut at {end}");
        }
        for at in 0..text.len() {
            for byte in [0, b'\n', b' ', b'/', 0xff, text[at] ^ 1] {
                let mut changed = text.clone();
                changed[at] = byte;
                // It must not panic; what is read is well formed.
                if let Some(read) = Record::from_text(&changed) {
                    assert!(read.makes.iter().all(|makes| is_name(&makes.name)));
                }
            }
        }
        for wrong in ["new 2e2e", "new 612f62", "new ", "new 6", "new zz", "pid 1", "top 1", "job 1", "host"]
        {
            let changed = record().to_text().replace("\nend\n", &format!("\n{wrong}\nend\n"));
            assert_eq!(Record::from_text(changed.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn generate_of_very_many_names_reports_progress() {
        let name = |number: u32| CString::new("x".repeat(250) + &number.to_string()).unwrap();
        let makes = |count| (0..count).map(|number| Makes { name: name(number), is_new: true }).collect();
        let most = Record::of_this_process(7, (1, 2), true, makes(512));
        assert_eq!(Record::from_text(most.to_text().as_bytes()), Some(most));
        let more = Record::of_this_process(7, (1, 2), true, makes(513));
        assert_eq!(more.makes, [Makes { name: c".".to_owned(), is_new: false }]);
    }
}
