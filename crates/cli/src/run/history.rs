//! The jobs that this user has begun, for `atta jobs`: a small file for each in the user's state directory, with the summary once the job has
//! ended. No run depends on it: what cannot be written is left out.
//!
//! ```text
//!   $XDG_STATE_HOME/atta/jobs/NUMBER     (~/.local/state), 0600: JSON; bytes of paths and arguments as hexadecimal digits
//! ```

use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use atta_ops::resume::{RunningJob, hex, host, unhex};
use serde_json::{Value, json};

use super::file::create;

/// Jobs that are kept after their end; of more, those that began first are forgotten.
const JOBS_KEPT: usize = 1000;
/// Jobs that are forgotten at once: all files are read for that.
const FORGOTTEN_TOGETHER: usize = 100;
/// Most bytes of a file.
const BYTES_MAX: u64 = 16 << 20;

/// A job that this user has begun.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    /// The random number that names it, as hexadecimal digits.
    pub(crate) number: String,
    /// The host that has begun it: its directory may be unknown elsewhere.
    pub(crate) host: String,
    /// Its directory.
    pub(crate) place: PathBuf,
    /// When it began, in seconds since 1970.
    pub(crate) began: u64,
    /// The arguments of its command, without the program's name.
    pub(crate) arguments: Vec<OsString>,
    /// How it ended, if it has.
    pub(crate) ended: Option<End>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) code: u8,
    /// The summary, as JSON and as text.
    pub(crate) json: Value,
    pub(crate) text: String,
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Known {
    /// A job that this process runs.
    pub(crate) fn of(job: &RunningJob) -> Self {
        let place = std::env::current_dir().unwrap_or_default().join(job.place().path());
        Self {
            number: hex(&job.number()),
            host: host(),
            place,
            began: job.began_seconds(),
            arguments: job.arguments().iter().cloned().map(OsString::from_vec).collect(),
            ended: None,
        }
    }

    /// Keeps it. Errors are ignored.
    pub(crate) fn keep(&self) {
        if let Some(directory) = directory() {
            let _ = self.write(&directory);
            forget_old(&directory);
        }
    }

    fn write(&self, directory: &Path) -> std::io::Result<()> {
        std::fs::DirBuilder::new().mode(0o700).recursive(true).create(directory)?;
        let partial = directory.join(format!("{}.partial", self.number));
        create(&partial)?.write_all(format!("{:#}\n", self.to_json()).as_bytes())?;
        std::fs::rename(&partial, directory.join(&self.number))
    }

    fn to_json(&self) -> Value {
        let arguments = self.arguments.iter().map(|argument| hex(argument.as_bytes()));
        let ended = self
            .ended
            .as_ref()
            .map(|End { code, json, text }| json!({"code": code, "summary": json, "text": text}));
        json!({
            "schema_version": 1,
            "number": self.number,
            "host": self.host,
            "place": hex(self.place.as_os_str().as_bytes()),
            "began": self.began,
            "arguments": arguments.collect::<Vec<_>>(),
            "ended": ended,
        })
    }

    /// None: it is not valid, or of another version.
    fn from_json(value: &Value) -> Option<Self> {
        if value.get("schema_version")? != 1 {
            return None;
        }
        let bytes = |value: &Value| unhex(value.as_str()?).map(OsString::from_vec);
        let ended = |value: &Value| {
            Some(End {
                code: u8::try_from(value.get("code")?.as_u64()?).ok()?,
                json: value.get("summary")?.clone(),
                text: value.get("text")?.as_str()?.to_owned(),
            })
        };
        Some(Self {
            number: value.get("number")?.as_str()?.to_owned(),
            host: value.get("host")?.as_str()?.to_owned(),
            place: PathBuf::from(bytes(value.get("place")?)?),
            began: value.get("began")?.as_u64()?,
            arguments: value.get("arguments")?.as_array()?.iter().map(bytes).collect::<Option<_>>()?,
            ended: match value.get("ended")? {
                Value::Null => None,
                value => Some(ended(value)?),
            },
        })
    }
}

/// All jobs that are kept, those that began first at the front.
pub(crate) fn all() -> Vec<Known> {
    let mut known: Vec<_> = directory().iter().flat_map(|directory| all_in(directory)).collect();
    known.sort_by(|one, other| (one.began, &one.number).cmp(&(other.began, &other.number)));
    known
}

/// A job, by its number.
pub(crate) fn of(number: &str) -> Option<Known> {
    let path = directory()?.join(number);
    read(&path, OsStr::new(number))
}

/// Forgets a job.
pub(crate) fn forget(number: &str) {
    if let Some(directory) = directory() {
        let _ = std::fs::remove_file(directory.join(number));
    }
}

/// Where they are kept; none: there is no such place.
fn directory() -> Option<PathBuf> {
    state().map(|state| state.join("jobs"))
}

/// The directory for what `atta` keeps for this user; none: there is no such place.
pub(crate) fn state() -> Option<PathBuf> {
    let is_absolute = |path: &PathBuf| path.is_absolute();
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(is_absolute);
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(is_absolute);
    let state = state.or_else(|| Some(home()?.join(".local/state")))?;
    Some(state.join("atta"))
}

#[expect(clippy::disallowed_methods, reason = "the user's own directory")]
fn all_in(directory: &Path) -> Vec<Known> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| read(&entry.path(), &entry.file_name())).collect()
}

fn read(path: &Path, name: &OsStr) -> Option<Known> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let known = Known::from_json(&serde_json::from_slice(&bytes).ok()?)?;
    (name == known.number.as_str()).then_some(known)
}

#[expect(clippy::disallowed_methods, reason = "the user's own directory")]
fn count_in(directory: &Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

/// Forgets the jobs that began first, of those that have ended, if there are too many.
fn forget_old(directory: &Path) {
    let count = count_in(directory);
    // Jobs that have not ended are counted, too, and are not forgotten.
    if count < JOBS_KEPT + FORGOTTEN_TOGETHER || !count.is_multiple_of(FORGOTTEN_TOGETHER) {
        return;
    }
    let ended = all_in(directory).into_iter().filter(|known| known.ended.is_some());
    let mut ended: Vec<_> = ended.map(|known| (known.began, known.number)).collect();
    ended.sort_unstable();
    let most = ended.len().saturating_sub(JOBS_KEPT);
    ended[..most].iter().for_each(|(_, number)| drop(std::fs::remove_file(directory.join(number))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_began_first_are_forgotten() {
        let scratch = atta_testkit::scratch::Scratch::new("history").unwrap();
        let (code, json, text) = (0, json!({}), String::new());
        let mut known = Known {
            number: String::new(),
            host: "node17".to_owned(),
            place: PathBuf::from("/a"),
            began: 0,
            arguments: Vec::new(),
            ended: Some(End { code, json, text }),
        };
        let count = || count_in(scratch.path());
        for job in 1..=(JOBS_KEPT + FORGOTTEN_TOGETHER) as u64 {
            (known.number, known.began) = (format!("{job:032x}"), job);
            known.write(scratch.path()).unwrap();
            forget_old(scratch.path());
            let forgets = job == (JOBS_KEPT + FORGOTTEN_TOGETHER) as u64;
            assert_eq!(count() as u64, if forgets { JOBS_KEPT as u64 } else { job });
        }
        let first = all_in(scratch.path()).iter().map(|known| known.began).min();
        assert_eq!(first, Some(1 + FORGOTTEN_TOGETHER as u64));
    }

    #[test]
    fn known_job_is_read_back() {
        let end = End { code: 3, json: json!({"files": 1}), text: "text\n".to_owned() };
        let known = Known {
            number: "00ff".to_owned(),
            host: "node17".to_owned(),
            place: PathBuf::from(OsString::from_vec(b"/a\xff".to_vec())),
            began: 7,
            arguments: vec![OsString::from("copy"), OsString::from_vec(b"\xfe\n".to_vec())],
            ended: Some(end),
        };
        assert_eq!(Known::from_json(&known.to_json()), Some(known.clone()));
        let running = Known { ended: None, ..known };
        let value = running.to_json();
        assert_eq!(Known::from_json(&value), Some(running));
        for member in ["number", "place", "began", "arguments", "ended"] {
            let mut damaged = value.clone();
            damaged[member] = json!("x");
            assert_eq!(
                Known::from_json(&damaged).map(|known| known.number),
                match member {
                    "number" => Some("x".to_owned()),
                    _ => None,
                }
            );
        }
    }
}
