//! What a command knows of deaths of ranks when it begins. How it goes on after them: `going.rs`.

use super::read_before::ReadBefore;

/// The number of the run that begins a job.
const FIRST_RUN: u32 = 1;

/// Whether ranks of this launch have died, so that the command resumes its job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deaths {
    since: Option<u32>,
    read: ReadBefore,
}

impl Deaths {
    /// Some have died. `run`: the first run of the job in this launch; `read`: what earlier views have read of its logs.
    pub(crate) fn since(run: u32, read: ReadBefore) -> Self {
        Self { since: Some(run), read }
    }

    /// The first run of the job in this launch, if some have died.
    pub(crate) fn first_run(&self) -> Option<u32> {
        self.since
    }

    /// Whether some have died, and this launch has begun the job. Then nobody else can have changed what it has done, and directories that are done are not
    /// looked at again.
    pub(crate) fn leave_new_job(&self) -> bool {
        self.since == Some(FIRST_RUN)
    }

    /// What earlier views have read of the logs.
    pub(crate) fn read_before(&self) -> &ReadBefore {
        &self.read
    }
}
