//! What a command knows of deaths of ranks when it begins. How it goes on after them: `going.rs`.

/// The number of the run that begins a job.
const FIRST_RUN: u32 = 1;

/// Whether ranks of this launch have died, so that the command resumes its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deaths(Option<u32>);

impl Deaths {
    /// Some have died. `run`: the first run of the job in this launch.
    pub(crate) fn since(run: u32) -> Self {
        Self(Some(run))
    }

    /// The first run of the job in this launch, if some have died.
    pub(crate) fn first_run(self) -> Option<u32> {
        self.0
    }

    /// Whether some have died, and this launch has begun the job. Then nobody else can have changed what it has done, and directories that are done are not
    /// looked at again.
    pub(crate) fn leave_new_job(self) -> bool {
        self.0 == Some(FIRST_RUN)
    }
}
