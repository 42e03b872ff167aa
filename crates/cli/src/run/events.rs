//! The events of a run (`--events`): one JSON object a line, the first at the start, the last with the summary. A thread of its own writes those
//! in between, so that the run does not wait for the file. If they are not taken as fast as they come, the newest replaces those that wait. The
//! last one is always written: the end of the run waits for that, until a signal.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use atta_runtime::Stop;
use serde_json::{Value, json};

use crate::run::fatal::Fatal;
use crate::run::file::{create, describe, printable};
use crate::run::latest::Latest;
use crate::run::line;
use crate::run::refused::Refused;
use crate::run::settings::rfc3339;

/// How long the last event may take after a signal.
const PATIENCE: Duration = Duration::from_secs(3);

/// The destination of events, if they are requested.
#[derive(Debug, Default)]
pub(crate) struct Events(Option<Written>);

#[derive(Debug)]
struct Written {
    name: String,
    lines: Latest<String>,
    /// The first error.
    lost: Arc<Mutex<Option<io::Error>>>,
}

impl Events {
    /// Creates the file, if one is requested, and writes the first event.
    pub(crate) fn new(path: Option<&Path>) -> Result<Self, Refused> {
        let Some(path) = path else { return Ok(Self::default()) };
        let name = printable(path);
        let command: Vec<_> = line::words().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let started = rfc3339(SystemTime::now());
        let first = json!({"event": "start", "schema_version": 1, "time": started, "command": command});
        let begun = create(path).and_then(|file| Written::begin(name.clone(), file, &first));
        let written = begun
            .map_err(|error| Refused::fatal(format!("cannot write events: {name}: {}", describe(&error))))?;
        Ok(Self(Some(written)))
    }

    /// Whether events are requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Writes an event, unless a newer one comes before that. Does not wait. The run continues after an error; `finish` reports it.
    pub(crate) fn emit(&mut self, event: &Value) {
        if let Some(written) = &self.0 {
            written.lines.put(line_of(event));
        }
    }

    /// Writes the last event, and returns the first error. After a request to stop it does not wait much longer for a reader.
    pub(crate) fn finish(self, summary: impl FnOnce() -> Value, stop: &Stop) -> Result<(), Fatal> {
        let Some(Written { name, lines, lost }) = self.0 else { return Ok(()) };
        lines.put(line_of(&json!({"event": "end", "summary": summary()})));
        let mut asked = None;
        let is_late =
            |since: &mut Option<Instant>| since.get_or_insert_with(Instant::now).elapsed() > PATIENCE;
        let is_written = lines.wait(|| stop.is_set() && is_late(&mut asked));
        let why = match lost.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => describe(&error),
            None if is_written => return Ok(()),
            None => "its reader takes nothing".to_owned(),
        };
        Err(Fatal::Failed { what: format!("cannot write events: {name}: {why}"), hint: None })
    }
}

impl Written {
    /// Writes the first event, and starts the thread that writes the others.
    fn begin(name: String, mut file: File, first: &Value) -> io::Result<Self> {
        file.write_all(line_of(first).as_bytes())?;
        let lost = Arc::<Mutex<Option<io::Error>>>::default();
        let errors = Arc::clone(&lost);
        let lines = Latest::start("events", move |line: String| {
            if let Err(error) = file.write_all(line.as_bytes()) {
                errors.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        })?;
        Ok(Self { name, lines, lost })
    }
}

fn line_of(event: &Value) -> String {
    format!("{event}\n")
}
