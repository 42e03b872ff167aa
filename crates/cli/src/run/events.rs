//! The events of a run (`--events`): one JSON object a line, the first at the start, the last with the summary.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use serde_json::{Value, json};

use crate::run::fatal::Fatal;
use crate::run::file::{create, describe, printable};
use crate::run::refused::Refused;
use crate::run::settings::rfc3339;

/// The destination of events, if they are requested.
#[derive(Debug, Default)]
pub(crate) struct Events {
    file: Option<(File, String)>,
    /// The first error of an event before the last one.
    lost: Option<io::Error>,
}

impl Events {
    /// Creates the file, if one is requested, and writes the first event.
    pub(crate) fn new(path: Option<&Path>) -> Result<Self, Refused> {
        let Some(path) = path else { return Ok(Self::default()) };
        let name = printable(path);
        let cannot =
            |error: &io::Error| Refused::fatal(format!("cannot write events: {name}: {}", describe(error)));
        let file = create(path).map_err(|error| cannot(&error))?;
        let mut events = Self { file: Some((file, name.clone())), lost: None };
        let command: Vec<_> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
        let started = rfc3339(SystemTime::now());
        events
            .write(&json!({"event": "start", "schema_version": 1, "time": started, "command": command}))
            .map_err(|error| cannot(&error))?;
        Ok(events)
    }

    /// Whether events are requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.file.is_some()
    }

    /// Writes an event. The run continues after an error; `finish` reports it.
    pub(crate) fn emit(&mut self, event: &Value) {
        if let Err(error) = self.write(event) {
            self.lost.get_or_insert(error);
        }
    }

    /// Writes the last event, and returns the first error.
    pub(crate) fn finish(mut self, summary: impl FnOnce() -> Value) -> Result<(), Fatal> {
        if !self.is_wanted() {
            return Ok(());
        }
        let ended = self.write(&json!({"event": "end", "summary": summary()}));
        let ended = self.lost.take().map_or(ended, Err);
        ended.map_err(|error| {
            let name = self.file.as_ref().map_or("", |(_, name)| name);
            Fatal::Failed { what: format!("cannot write events: {name}: {}", describe(&error)), hint: None }
        })
    }

    fn write(&mut self, event: &Value) -> io::Result<()> {
        match &mut self.file {
            Some((file, _)) => file.write_all(format!("{event}\n").as_bytes()),
            None => Ok(()),
        }
    }
}
