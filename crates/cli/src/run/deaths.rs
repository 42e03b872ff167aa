//! What a command knows of deaths of ranks when it begins. How it goes on after them: `going.rs`.

/// Whether ranks of this launch have died, so that the command resumes its job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Deaths {
    /// None has.
    #[default]
    None,
    /// Some have, and an earlier launch has left the job: what it has done may have changed since.
    Some,
    /// Some have, and this launch has begun the job: nobody else can have changed what it has done.
    OfOwnJob,
}

impl Deaths {
    /// Whether some have died.
    pub(crate) fn are_some(self) -> bool {
        self != Self::None
    }

    /// Whether nobody else can have changed what the job has done: directories that are done are not looked at again.
    pub(crate) fn are_of_own_job(self) -> bool {
        self == Self::OfOwnJob
    }
}
