//! Whether a name is that of a private directory of runs and jobs, as their records and headers prove. No other name is one, whatever it looks like.

use std::ffi::CStr;
use std::sync::Arc;

use rustix::fd::OwnedFd;

use super::directories::is_name;
use super::files::forget_files;
use crate::jobs::directory::{open_private, read_record};
use crate::jobs::names::{self, Namer};
use crate::jobs::others::RUNS_MAX;
use atta_sys as sys;

/// Whether a name is a run's private directory, or the directory of all runs of a user, and records prove it for everything in it.
pub(crate) fn is_private_directory(above: &Arc<OwnedFd>, name: &CStr) -> bool {
    let is_of_run = |above: &OwnedFd, name: &CStr, parsed: Option<names::Parsed<'_>>| {
        let directory = open_private(above, name, None).ok();
        let record = directory.and_then(|directory| read_record(&directory).ok().flatten());
        record.is_some_and(|(_, record)| {
            let namer = Namer::of(record.job, record.uid.to_string().as_bytes());
            match parsed {
                Some(_) => namer.alone().as_c_str() == name,
                None => namer.tag().as_c_str() == name,
            }
        })
    };
    match names::parse(name.to_bytes()) {
        Some(names::Parsed { serial: Some(_), .. }) | None => false,
        parsed @ Some(names::Parsed { tag: Some(_), .. }) => is_of_run(above, name, parsed),
        Some(names::Parsed { tag: None, .. }) => {
            let Ok(home) = open_private(above, name, None) else { return false };
            let names = sys::names_of(&home, RUNS_MAX).unwrap_or_default();
            let is_of_job = |name: &CStr| {
                let job = is_name(name.to_bytes()).then(|| open_private(&home, name, None).ok());
                job.flatten().is_some_and(|job| forget_files(&job, false).is_ok_and(|files| files.is_some()))
            };
            !names.is_empty() && names.iter().all(|name| is_of_run(&home, name, None) || is_of_job(name))
        }
    }
}
