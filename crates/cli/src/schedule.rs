//! The options of a job on several ranks, for every command that runs on several. No I/O.

use std::time::Duration;

use atta_engine::{Config, ScheduleKind, Split, Termination};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// How ranks share the work. Without an MPI launcher there is one rank, and these change nothing.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "MPI ranks (under mpirun or srun)")]
pub(crate) struct RankArguments {
    /// How idle ranks get work from other ranks
    #[arg(long, value_name = "SCHEDULE", default_value = "lifeline", value_parser = schedules())]
    pub(crate) schedule: ScheduleKind,

    /// Share of its pending tasks that a rank gives away: half (equal), or a random share
    #[arg(long, value_name = "HOW", default_value = "equal", value_parser = splits())]
    pub(crate) split: Split,

    /// How ranks detect the end of the job
    #[arg(long, value_name = "HOW", default_value = "counters", value_parser = terminations())]
    pub(crate) termination: Termination,

    /// Children per rank in the reduction tree for totals
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) tree_width: u32,

    /// Interval of progress reports from ranks, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_interval)]
    pub(crate) progress_interval: Duration,

    /// End the run when a rank dies, also where the others could go on (Open MPI 5 with --with-ft ulfm, and a job)
    #[arg(long)]
    pub(crate) no_survive: bool,

    /// Take PATHs for the same on all ranks where that is not known. Without it, ranks that find something else there are refused. Does not allow what is
    /// known to differ, as local disks
    #[arg(long)]
    pub(crate) assume_same: bool,

    /// Kill ranks at points of the run that this file names, for tests
    #[cfg(debug_assertions)]
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) inject: Option<std::path::PathBuf>,
}

impl Default for RankArguments {
    /// For commands without a job.
    fn default() -> Self {
        let Config { schedule, split, termination, tree_width, .. } = Config::default();
        Self {
            schedule,
            split,
            termination,
            tree_width,
            progress_interval: Duration::from_secs(1),
            no_survive: false,
            assume_same: false,
            #[cfg(debug_assertions)]
            inject: None,
        }
    }
}

impl RankArguments {
    /// The engine's configuration.
    pub(crate) fn config(&self) -> Config {
        Config {
            schedule: self.schedule,
            split: self.split,
            termination: self.termination,
            tree_width: self.tree_width,
            progress_interval: Some(self.progress_interval),
            ..Config::default()
        }
    }
}

/// Names of schedules.
pub(crate) fn schedules() -> impl TypedValueParser<Value = ScheduleKind> {
    PossibleValuesParser::new(ScheduleKind::ALL.map(ScheduleKind::name))
        .map(|name| name.parse().unwrap_or_default())
}

/// Names of splits.
pub(crate) fn splits() -> impl TypedValueParser<Value = Split> {
    PossibleValuesParser::new(Split::ALL.map(Split::name)).map(|name| name.parse().unwrap_or_default())
}

/// Names of methods of termination detection.
pub(crate) fn terminations() -> impl TypedValueParser<Value = Termination> {
    PossibleValuesParser::new(Termination::ALL.map(Termination::name))
        .map(|name| name.parse().unwrap_or_default())
}

/// Seconds, from a millisecond to a day.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.001..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("not between 0.001 and 86400".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals() {
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "0", "-1", "NaN", "1e9", "1s"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
