//! What a command knows of deaths of ranks when it begins. How it goes on after them: `going.rs`.

/// The number of the run that begins a job.
pub(crate) const FIRST_RUN: u32 = 1;

/// Whether ranks of this launch have died, so that the command resumes its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Deaths {
    /// None has.
    #[default]
    None,
    /// Some have, and an earlier launch has left the job, which this one resumed with this run: what older runs have done may have changed since.
    Since(u32),
    /// Some have, and this launch has begun the job: nobody else can have changed what it has done.
    OfOwnJob,
}

impl Deaths {
    /// The first run of this launch, if some have died.
    pub(crate) fn since(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Since(run) => Some(run),
            Self::OfOwnJob => Some(FIRST_RUN),
        }
    }

    /// Whether nobody else can have changed what the job has done: directories that are done are not looked at again.
    pub(crate) fn are_of_own_job(self) -> bool {
        self == Self::OfOwnJob
    }
}
