//! The job of a run that writes a catalog or a table. It needs no option: it is beside what is written, in a private directory, with the catalog while that
//! is not complete. `job.rs` has jobs, `parts.rs` the parts of the catalog.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use atta_catalog::CatalogPlace;
use atta_ops::copy::clean_command;
use atta_ops::resume::JobPlace;

use super::catalog::refuse;
use super::job::{self, Asked, Job, Kept};
use super::refused::Refused;

/// The job of a run, if it has one.
#[derive(Default)]
pub(crate) struct WithJob {
    pub(crate) job: Option<Job>,
    /// Why a run that should have one has none.
    pub(crate) lacks: Option<String>,
}

impl From<Job> for WithJob {
    fn from(job: Job) -> Self {
        Self { job: Some(job), lacks: None }
    }
}

/// Begins the job of a run that writes a catalog, or goes on with it. `command`: as the user has it. None of `asked`: the run has no job. Refused if
/// something is in the place of the catalog.
pub(crate) fn begin(
    (output, command): (&Path, &str),
    asked: Option<Asked>,
    kept: Kept,
) -> Result<WithJob, Refused> {
    let place = job::place_of_catalog(output)?;
    job::remove_ended(&place);
    CatalogPlace::vacant(output).map_err(|error| refused_beside(&place, &error))?;
    let Some(Asked { restarts, deaths, mut agrees, roots }) =
        asked.filter(|asked| repeated(&asked.roots).is_none())
    else {
        return Ok(WithJob::default());
    };
    agrees.insert(0, command.as_bytes().to_vec());
    agrees.push(job::describe_catalog(output)?);
    let with_job = begin_or_lack(&place, Asked { restarts, deaths, agrees, roots }, kept)?;
    match (CatalogPlace::vacant(output), &with_job.job) {
        // Another process has completed it meanwhile.
        (Err(error), Some(_)) => {
            with_job.job.into_iter().for_each(Job::give_up);
            Err(refuse(&error))
        }
        _ => Ok(with_job),
    }
}

/// Begins the job in a place, or goes on with it. A new one that cannot be begun is lacking, and the run goes on without it.
pub(crate) fn begin_or_lack(place: &JobPlace, asked: Asked, kept: Kept) -> Result<WithJob, Refused> {
    let is_new = matches!(place.number(), Ok(None));
    match job::begin(place, asked, kept) {
        // Else another process has begun it meanwhile.
        Err(refused) if is_new && matches!(place.number(), Ok(None)) => {
            // If its directory cannot be reached, nor can that of what is written beside it, and that is reported.
            Ok(WithJob { job: None, lacks: Some(refused.what().to_owned()).filter(|_| place.is_reachable()) })
        }
        begun => begun.map(WithJob::from),
    }
}

/// Why a catalog cannot be begun. There may be an unfinished one of the same name.
fn refused_beside(place: &JobPlace, error: &atta_catalog::Error) -> Refused {
    let top = place.home().filter(|_| matches!(place.number(), Ok(Some(_))));
    match top.as_deref().and_then(Path::parent) {
        Some(top) => {
            let clean = clean_command(top.as_os_str().as_bytes());
            let hint = format!(
                "a run to that name was killed, too, and goes on when the catalog is moved away; to give it up: {clean}"
            );
            Refused::fatal_with(error.to_string(), Some(hint))
        }
        None => refuse(error),
    }
}

/// The index of the first path that comes twice.
pub(crate) fn repeated(roots: &[Vec<u8>]) -> Option<usize> {
    (0..roots.len()).find(|index| roots[..*index].contains(&roots[*index]))
}
