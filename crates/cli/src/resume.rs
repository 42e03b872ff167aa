//! `atta resume`: runs the command again that has begun a job. The command itself goes on with the job.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::run::job;
use crate::run::refused::Refused;

/// Go on with a job that was killed or interrupted
#[derive(Debug, Args)]
#[command(
    after_help = "Runs the command that has begun the job again, in its working directory and with its arguments. What the logs of the job \
    say is done is not done again.\n\n\
    Exit codes: those of the command.\n\n\
    Examples:\n  \
    atta copy /data /backup           a copy that is killed\n  \
    atta resume /backup               the rest of it\n  \
    atta resume scan.catalog          the rest of a catalog (walk --output, sum --output)\n  \
    atta walk --job walk.job /data    a walk that is killed\n  \
    atta resume walk.job              the rest of it"
)]
pub(crate) struct ResumeArguments {
    /// The directory of the job, the TARGET of the copy, or the catalog
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The command line of the job, with the program's name, and the directory of the job as an absolute path.
pub(crate) fn recorded(arguments: &ResumeArguments) -> Result<(Vec<OsString>, PathBuf), Refused> {
    let (mut line, directory) = job::recorded(&arguments.directory)?;
    line.insert(0, OsString::from("atta"));
    Ok((line, directory))
}
