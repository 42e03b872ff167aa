//! What earlier runs of a job have done, as messages and summaries say it. The logs are read elsewhere.

use std::fmt::Write as _;

use atta_entry::escape;
use atta_ops::resume::Rechecked;
use serde_json::{Value, json};

use super::job::Job;
use super::messages::hint;
use crate::size::counted;

/// What earlier runs of a job have done and this one has not looked at again, but for directories themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Earlier {
    pub(crate) entries: u64,
    /// Bytes that they have read or copied, if the command counts that.
    pub(crate) bytes: Option<u64>,
    /// When the job began, as RFC 3339 has it.
    pub(crate) since: String,
    /// Finished directories that have changed since.
    pub(crate) rechecked: Rechecked,
}

atta_entry::record!(Earlier { entries, bytes, since, rechecked });

/// How a command is given again that has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It does not write over what it has written.
    ToAnotherOutput,
    /// It begins anew.
    Given,
    /// Its job is complete.
    Restarted,
}

impl Earlier {
    /// Of this job. Reports that this run goes on with what they have done, if there were any.
    pub(crate) fn of(job: &Job, (entries, bytes): (u64, Option<u64>), rechecked: Rechecked) -> Self {
        if job.running.run() > 1 {
            job.report_earlier(entries);
        }
        Self { entries, bytes, since: job.running.began(), rechecked }
    }

    /// The same. None: this is the first run.
    pub(crate) fn after_first(job: &Job, counts: (u64, Option<u64>), rechecked: Rechecked) -> Option<Self> {
        (job.running.run() > 1).then(|| Self::of(job, counts, rechecked))
    }

    /// Whether directories have changed since, as far as is known.
    pub(crate) fn has_changed(&self) -> bool {
        self.rechecked.changed > 0 || self.rechecked.failed > 0
    }

    /// Lines of a summary. `done`: what the command does with entries. `of`: ` of SOURCE`, or nothing.
    pub(crate) fn lines(&self, done: &str, of: &str, text: &mut String) {
        let Self { entries, since, rechecked: Rechecked { changed, one, failed, failed_one }, .. } = self;
        if *entries > 0 {
            let entries = counted(*entries, "entry", "entries");
            let _ =
                writeln!(text, "not looked at again: {entries} that earlier runs have {done} since {since}");
        }
        if *changed > 0 {
            let one = one.as_deref().map_or_else(String::new, |one| format!(", such as {}", escape(one)));
            let changed = counted(*changed, "directory", "directories");
            let _ = writeln!(text, "changed since they were {done}: {changed}{of}{one}");
        }
        if let Some((path, errno)) = failed_one {
            let failed = counted(*failed, "directory", "directories");
            let _ =
                writeln!(text, "could not be looked at again: {failed}, such as {}: {errno}", escape(path));
        }
    }

    /// Says how to have results of all directories as they are now, if some have changed.
    pub(crate) fn advise(&self, again: Again) {
        let how = match again {
            Again::ToAnotherOutput => "the same command with another --output",
            Again::Given => "the same command, given again,",
            Again::Restarted => "the same command with --restart",
        };
        if self.has_changed() {
            hint(&format!("{how} has all directories as they are now"));
        }
    }

    pub(crate) fn json(&self) -> Value {
        let mut all = json!({
            "entries": self.entries,
            "since": self.since,
            "changed_directories": self.rechecked.changed,
            "unknown_directories": self.rechecked.failed,
        });
        if let Some(bytes) = self.bytes {
            all["bytes"] = bytes.into();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use atta_entry::Errno;

    use super::*;

    #[test]
    fn changed_directories_are_named_in_summaries() {
        let since = "2026-01-02T03:04:05Z".to_owned();
        let earlier = Earlier { entries: 1234, bytes: Some(5), since, rechecked: Rechecked::default() };
        let mut text = String::new();
        earlier.lines("walked", "", &mut text);
        assert_eq!(
            text,
            "not looked at again: 1,234 entries that earlier runs have walked since 2026-01-02T03:04:05Z\n"
        );
        let one = Some(b"/data/a\n".to_vec());
        let changed = Rechecked { changed: 2, one, failed: 1, failed_one: Some((b"/b".to_vec(), Errno(5))) };
        let earlier = Earlier { rechecked: changed, ..earlier };
        text.clear();
        earlier.lines("copied", " of SOURCE", &mut text);
        let last: Vec<_> = text.lines().skip(1).collect();
        let expected = [
            "changed since they were copied: 2 directories of SOURCE, such as /data/a\\n",
            "could not be looked at again: 1 directory, such as /b: input/output error (EIO)",
        ];
        assert_eq!(last, expected);
        assert_eq!(earlier.json()["changed_directories"], 2);
    }
}
