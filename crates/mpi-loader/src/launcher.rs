//! Detects an MPI launcher from the environment that launchers set. Starts nothing and calls no library: the result decides
//! whether MPI is used at all.

use std::ffi::OsString;
use std::time::Duration;

/// The time that the first rank has to report an error shared by others, and its launcher to end them.
const FIRST_REPORTS: Duration = Duration::from_secs(3);

/// The kind of launcher.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Kind {
    /// The `mpirun` of Open MPI, or of a derived MPI.
    OpenMpi,
    /// Hydra, the `mpirun` of MPICH and of derived MPIs.
    Hydra,
    /// A launcher that speaks PMIx: `srun --mpi=pmix`, `prun`. Several MPIs can answer.
    Pmix,
    /// A launcher that speaks PMI-1 or PMI-2: `srun --mpi=pmi2` and others. Several MPIs can answer.
    Pmi,
    /// `srun` with several tasks and without any PMI, so that no MPI can connect them.
    Slurm,
}

/// The launcher, as described by the environment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Launcher {
    /// The kind of launcher.
    pub kind: Kind,
    /// The number of processes, if given.
    pub size: Option<u32>,
    /// The rank of this process, if given.
    pub rank: Option<u32>,
    /// The index of this process among those on this host, if given.
    pub local: Option<u32>,
    /// The version of the launcher's Open MPI, if given (Open MPI 5 does).
    pub version: Option<String>,
    /// The switches above this host, from the top, as in `core.row3.rack7`, if Slurm gives them.
    pub switches: Option<String>,
}

/// When a process may report that it could not join the others, and whether. See [`Launcher::turn`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Turn {
    /// How long to wait before the report, or before a silent exit.
    pub wait: Duration,
    /// Whether to report the error.
    pub reports: bool,
}

impl Launcher {
    /// How this process ends if it cannot join the others.
    ///
    /// The scheme reports an error that all ranks have only once, and also reports one that only some hosts have. The first rank
    /// reports at once. The first rank of every other host reports later, if it is still alive: most launchers end all ranks when
    /// one ends with an error. For the same reason the silent ranks wait as well; otherwise the first rank could be ended before
    /// its report. (Hydra ends no rank before MPI is initialised, hence the silence.)
    #[must_use]
    pub fn turn(&self) -> Turn {
        if self.rank.unwrap_or(0) == 0 {
            return Turn { wait: Duration::ZERO, reports: true };
        }
        Turn { wait: FIRST_REPORTS, reports: self.local.unwrap_or(0) == 0 }
    }
}

/// The launcher that started this process, if one did.
#[must_use]
pub fn launcher() -> Option<Launcher> {
    launcher_in(&|name| std::env::var_os(name))
}

/// The launcher described by the environment behind `variable`, if any.
///
/// | variables | kind |
/// | --- | --- |
/// | `OMPI_COMM_WORLD_SIZE` | [`Kind::OpenMpi`] |
/// | `PMIX_RANK` | [`Kind::Pmix`] |
/// | `PMI_RANK` and `HYDI_CONTROL_FD`, or `PMI_FD` or `PMI_PORT` outside of Slurm | [`Kind::Hydra`] |
/// | `PMI_RANK` otherwise | [`Kind::Pmi`] |
/// | `SLURM_PROCID` with `SLURM_STEP_NUM_TASKS` above 1 | [`Kind::Slurm`] |
///
/// A batch script has `SLURM_PROCID`, too; only processes started by `srun` have the number of tasks of the step.
#[must_use]
pub fn launcher_in(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Launcher> {
    let is_set = |name| variable(name).is_some();
    let number = |name| variable(name)?.to_str()?.trim().parse::<u32>().ok();
    let tasks = number("SLURM_STEP_NUM_TASKS");
    let local =
        ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"].into_iter().find_map(number);
    let switches = switches(variable);
    let found = |kind, size, rank| {
        Some(Launcher { kind, size, rank, local, version: None, switches: switches.clone() })
    };

    if is_set("OMPI_COMM_WORLD_SIZE") {
        let rank = number("OMPI_COMM_WORLD_RANK").or(number("PMIX_RANK"));
        let version = variable("OMPI_VERSION").and_then(|version| version.into_string().ok());
        let size = number("OMPI_COMM_WORLD_SIZE");
        return Some(Launcher { version, ..found(Kind::OpenMpi, size, rank)? });
    }
    if is_set("PMIX_RANK") {
        return found(Kind::Pmix, tasks, number("PMIX_RANK"));
    }
    if is_set("PMI_RANK") {
        let socket = is_set("PMI_FD") || is_set("PMI_PORT");
        let hydra = is_set("HYDI_CONTROL_FD") || (socket && !is_set("SLURM_PROCID"));
        let kind = if hydra { Kind::Hydra } else { Kind::Pmi };
        return found(kind, number("PMI_SIZE"), number("PMI_RANK"));
    }
    match (number("SLURM_PROCID"), tasks) {
        (Some(rank), Some(tasks)) if tasks > 1 => found(Kind::Slurm, Some(tasks), Some(rank)),
        _ => None,
    }
}

/// The switches above this host, as given by Slurm with a topology. `SLURM_TOPOLOGY_ADDR` is `core.rack7.node12`, and
/// `SLURM_TOPOLOGY_ADDR_PATTERN` is `switch.switch.node`. If a node shares several switches, Slurm writes their names in
/// brackets, which works as well.
fn switches(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<String> {
    let text = |name| variable(name)?.into_string().ok();
    let pattern = text("SLURM_TOPOLOGY_ADDR_PATTERN")?;
    let address = text("SLURM_TOPOLOGY_ADDR")?;
    let (switches, _node) = address.rsplit_once('.')?;
    let has_switches =
        pattern.ends_with(".node") && pattern.split('.').rev().skip(1).all(|level| level == "switch");
    has_switches.then(|| switches.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<Launcher> {
        launcher_in(&|name| {
            variables.iter().find(|(each, _)| *each == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn found(kind: Kind, size: Option<u32>, rank: Option<u32>) -> Option<Launcher> {
        Some(Launcher { kind, size, rank, local: None, version: None, switches: None })
    }

    #[test]
    fn alone_there_is_no_launcher() {
        assert_eq!(of(&[]), None);
        // A shell or a batch script under Slurm, and a step of one task, run alone.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "64"), ("SLURM_JOB_ID", "7")]), None);
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "1")]), None);
    }

    #[test]
    fn switches_are_those_that_slurm_names() {
        let with = |address, pattern| {
            let task = [
                ("PMIX_RANK", "1"),
                ("SLURM_TOPOLOGY_ADDR", address),
                ("SLURM_TOPOLOGY_ADDR_PATTERN", pattern),
            ];
            of(&task).unwrap().switches
        };
        assert_eq!(with("core.rack7.node12", "switch.switch.node").as_deref(), Some("core.rack7"));
        assert_eq!(with("rack[1-3].node12", "switch.node").as_deref(), Some("rack[1-3]"));
        // Without a topology, and with another kind of pattern.
        assert_eq!(with("node12", "node"), None);
        assert_eq!(with("block1.node12", "block.node"), None);
        assert_eq!(of(&[("PMIX_RANK", "1")]).unwrap().switches, None);
    }

    #[test]
    fn each_launcher_is_known_by_its_variables() {
        let open = [("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "3"), ("PMIX_RANK", "3")];
        assert_eq!(of(&open), found(Kind::OpenMpi, Some(4), Some(3)));
        let hydra = [("PMI_RANK", "1"), ("PMI_SIZE", "2"), ("PMI_FD", "11"), ("HYDI_CONTROL_FD", "7")];
        assert_eq!(of(&hydra), found(Kind::Hydra, Some(2), Some(1)));
        let intel = [("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("PMI_FD", "9")];
        assert_eq!(of(&intel), found(Kind::Hydra, Some(2), Some(0)));
        let srun_pmix = [("PMIX_RANK", "5"), ("SLURM_PROCID", "5"), ("SLURM_STEP_NUM_TASKS", "8")];
        assert_eq!(of(&srun_pmix), found(Kind::Pmix, Some(8), Some(5)));
        let prun = [("PMIX_RANK", "5")];
        assert_eq!(of(&prun), found(Kind::Pmix, None, Some(5)));
        let srun_pmi2 = [("PMI_RANK", "2"), ("PMI_SIZE", "3"), ("PMI_FD", "4"), ("SLURM_PROCID", "2")];
        assert_eq!(of(&srun_pmi2), found(Kind::Pmi, Some(3), Some(2)));
        let srun = [("SLURM_PROCID", "2"), ("SLURM_STEP_NUM_TASKS", "3")];
        assert_eq!(of(&srun), found(Kind::Slurm, Some(3), Some(2)));
    }

    #[test]
    fn bad_numbers_of_a_launcher_are_unknown() {
        let odd = [("OMPI_COMM_WORLD_SIZE", "many"), ("OMPI_VERSION", "5.0.11")];
        let launcher = of(&odd).unwrap();
        assert_eq!((launcher.kind, launcher.size, launcher.rank), (Kind::OpenMpi, None, None));
        assert_eq!(launcher.version.as_deref(), Some("5.0.11"));
    }

    #[test]
    fn first_rank_of_a_host_reports_at_once() {
        let turn = |rank, local| {
            let variables = [("PMIX_RANK", rank), ("SLURM_LOCALID", local)];
            of(&variables).unwrap().turn()
        };
        let (at_once, later) = (Duration::ZERO, FIRST_REPORTS);
        assert_eq!(turn("0", "0"), Turn { wait: at_once, reports: true });
        assert_eq!(turn("3", "3"), Turn { wait: later, reports: false });
        assert_eq!(turn("4", "0"), Turn { wait: later, reports: true });
        assert_eq!(of(&[("PMIX_RANK", "3")]).unwrap().turn(), Turn { wait: later, reports: true });
        assert_eq!(of(&[("PMI_RANK", "?")]).unwrap().turn(), Turn { wait: at_once, reports: true });
    }
}
