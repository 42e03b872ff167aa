//! The arguments of `atta simulate`, and the runs that they ask for. No I/O.

use std::path::PathBuf;
use std::time::Duration;

use atta_engine::{Config, ScheduleKind, Split, Termination};
use atta_sim::{Costs, Habits, Network, Setup, Shape, Topology, Tree};
use clap::builder::{BoolishValueParser, PossibleValuesParser};
use clap::{Args, ValueEnum};

use super::count::parse_count;
use super::experiment::Experiment;
use crate::schedule::{schedules, splits, terminations};

/// More ranks than this are not asked for: each takes some kilobytes.
const RANKS_MAX: u32 = 10_000_000;
/// Threads of all ranks, at most: each takes some hundred bytes.
const THREADS_MAX: u64 = 50_000_000;
/// Files of a tree, at most.
const FILES_MAX: u64 = 1 << 40;
/// Ranks up to which messages of each pair are counted: 16 bytes a pair.
pub(crate) const PAIRS_MAX: u32 = 2048;
/// Hosts of the machine that the paper used.
const PAPER_HOSTS: u32 = 20;

/// Which tasks other ranks get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Gives {
    /// The oldest tasks, which are the largest
    Oldest,
    /// Tasks taken evenly from the whole queue
    Evenly,
}

/// How the hosts are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopologyName {
    /// All ranks are on one host
    OneHost,
    /// One switch
    Flat,
    /// A tree of switches, each connecting 32 hosts or switches below it
    FatTree,
    /// A three-dimensional torus
    Torus,
    /// 16 hosts per router, 32 routers per group
    Dragonfly,
}

/// Simulate how MPI ranks share a walk
#[derive(Debug, Args)]
#[command(
    after_help = "Predicts running time, messages and load balance of jobs on many ranks. The simulated ranks run the protocol of \
    'atta walk' under mpirun; file tree, file system and network are models. No file is accessed, and time is simulated. The same \
    arguments give the same result. --schedule, --split, --ranks and --files accept lists, such as --schedule hybrid,lifeline: every \
    combination is simulated, and figures compare the results.\n\n\
    Numbers: K, M, G, T are powers of 1000; 10^9 and 1e9 are accepted.\n\n\
    --figure N repeats an experiment of the paper (LaFon, Misra, Bringhurst: On Distributed File Tree Walk of Parallel File \
    Systems, 2012): 1 and 5 bytes between ranks, 3 running times, 4 messages and bytes, 6 work distribution. It implies \
    --paper; other options override its settings.\n\n\
    Exit codes: 0 success; 2 invalid usage; 4 fatal error; 130 or 143 interrupted (SIGINT, SIGTERM).\n\n\
    Examples:\n  \
    atta simulate --ranks 1000 --threads 4 --files 10M\n  \
    atta simulate --schedule random,hybrid,lifeline --ranks 10,100,1000 --plots figures\n  \
    atta simulate --paper --schedule centralized,hybrid --ranks 40 --files 6.5M\n  \
    atta simulate --figure 3 --plots figures"
)]
pub(crate) struct SimulateArguments {
    /// Numbers of ranks [default: 40]. With --paper, numbers of workers: each is a rank with one thread; with hybrid and
    /// lifeline, a rank has two workers as threads (odd numbers are rounded up)
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_ranks, help_heading = "Ranks")]
    pub(crate) ranks: Vec<u32>,

    /// Worker threads per rank [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with_all = ["paper", "figure"], help_heading = "Ranks")]
    pub(crate) threads: Option<u32>,

    /// Ranks per host [default: 1; with --paper: 2, or 1 if it has two threads]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536), help_heading = "Ranks")]
    pub(crate) ranks_per_host: Option<u32>,

    /// Schedules: how idle ranks get work from other ranks [default: lifeline]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = schedules(), help_heading = "Protocol")]
    pub(crate) schedule: Vec<ScheduleKind>,

    /// Share of its pending tasks that a rank gives away: half (equal), or a random share [default: equal; with --paper: random]
    #[arg(long, value_name = "HOW,...", value_delimiter = ',', value_parser = splits(), help_heading = "Protocol")]
    pub(crate) split: Vec<Split>,

    /// How ranks detect the end of the job [default: counters; with --paper: token, except for centralized]
    #[arg(long, value_name = "HOW", value_parser = terminations(), help_heading = "Protocol")]
    pub(crate) termination: Option<Termination>,

    /// Children per rank in the reduction tree for totals
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Protocol")]
    pub(crate) tree_width: u32,

    /// Request work when fewer than N tasks are pending; a rank with one thread requests it when it has no task [default: 1;
    /// with --paper: 0]
    #[arg(long, value_name = "N", help_heading = "Protocol")]
    pub(crate) low_water: Option<u64>,

    /// First pause after all requests for work were refused, in microseconds [default: 50]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=10_000_000), help_heading = "Protocol")]
    pub(crate) pause_us: Option<u64>,

    /// Idle time before a rank reports that it is idle, in microseconds
    #[arg(long, value_name = "US", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000), help_heading = "Protocol")]
    pub(crate) quiet_us: u64,

    /// Which tasks a rank gives away [default: evenly; with --paper: oldest]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Rank model")]
    pub(crate) gives: Option<Gives>,

    /// While fewer than N tasks are pending on a rank, traverse breadth-first: oldest directory first [default: 16; with
    /// --paper: 0]
    #[arg(long, value_name = "N", help_heading = "Rank model")]
    pub(crate) breadth: Option<u64>,

    /// Let all threads of a rank wait for each other after each task, like the hybrid program of the paper [default: no;
    /// with --paper: yes]
    #[arg(long, value_name = "YES|NO", num_args = 0..=1, require_equals = true, default_missing_value = "yes", value_parser = BoolishValueParser::new(), hide_possible_values = true, help_heading = "Rank model")]
    pub(crate) lock_step: Option<bool>,

    /// Treat a subtree with at most N files as one task: the simulation is faster, and ranks have less to share
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_count, help_heading = "Rank model")]
    pub(crate) aggregate: u64,

    /// Tasks for files of one directory that a thread takes at once: the simulation is faster, and messages wait longer
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1 << 20), help_heading = "Rank model")]
    pub(crate) slice: u64,

    /// Numbers of files [default: 6.5M]
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = parse_files, help_heading = "Tree")]
    pub(crate) files: Vec<u64>,

    /// Shape of the directory tree: zipf (skewed), balanced, flat (one directory) or chain
    #[arg(long, value_name = "SHAPE", default_value = "zipf", value_parser = PossibleValuesParser::new(["zipf", "balanced", "flat", "chain"]), help_heading = "Tree")]
    pub(crate) shape: String,

    /// Average number of files per directory
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1 << 30), help_heading = "Tree")]
    pub(crate) files_per_directory: u64,

    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Tree")]
    pub(crate) seed: u64,

    /// Cost of system calls and messages: file-server (100 us per stat, 1 ms per directory and 3 us per message at sender and
    /// receiver, like the Panasas system of the paper) or local-disk (0.7 us, 8 us, 0.5 us)
    #[arg(long, value_name = "NAME", default_value = "file-server", value_parser = PossibleValuesParser::new(["file-server", "local-disk"]), help_heading = "Costs")]
    pub(crate) costs: String,

    /// Time to open and close a directory, in nanoseconds [default for this and the next five options: set by --costs]
    #[arg(long, value_name = "NS", value_parser = parse_ns, help_heading = "Costs")]
    pub(crate) directory_ns: Option<u64>,

    /// Time to read an entry of a directory, in nanoseconds
    #[arg(long, value_name = "NS", value_parser = parse_ns, help_heading = "Costs")]
    pub(crate) entry_ns: Option<u64>,

    /// Time to read the metadata of an entry, in nanoseconds
    #[arg(long, value_name = "NS", value_parser = parse_ns, help_heading = "Costs")]
    pub(crate) stat_ns: Option<u64>,

    /// CPU time to send a message, in nanoseconds
    #[arg(long, value_name = "NS", value_parser = parse_ns, help_heading = "Costs")]
    pub(crate) send_ns: Option<u64>,

    /// CPU time to receive a message, in nanoseconds
    #[arg(long, value_name = "NS", value_parser = parse_ns, help_heading = "Costs")]
    pub(crate) receive_ns: Option<u64>,

    /// Additional CPU time of a master per message, in nanoseconds
    #[arg(long, value_name = "NS", value_parser = parse_ns, help_heading = "Costs")]
    pub(crate) master_ns: Option<u64>,

    /// Network topology [default: dragonfly; with --paper: torus]
    #[arg(long, value_enum, value_name = "NAME", help_heading = "Network")]
    pub(crate) topology: Option<TopologyName>,

    /// Latency between hosts without hops, in nanoseconds
    #[arg(long, value_name = "NS", default_value = "1000", value_parser = parse_ns, help_heading = "Network")]
    pub(crate) latency_ns: u64,

    /// Latency per hop, in nanoseconds
    #[arg(long, value_name = "NS", default_value = "100", value_parser = parse_ns, help_heading = "Network")]
    pub(crate) hop_ns: u64,

    /// Use the settings of the paper: one task per path, messages handled between tasks, two workers per host, a torus
    #[arg(long, help_heading = "Experiments")]
    pub(crate) paper: bool,

    /// Repeat an experiment of the paper; with --plots, draw its figure
    #[arg(long, value_enum, value_name = "N", help_heading = "Experiments")]
    pub(crate) figure: Option<Experiment>,

    /// Print all results as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,

    /// Write all results to a file (JSON)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) stats: Option<PathBuf>,

    /// Write figures (SVG) to a directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) plots: Option<PathBuf>,

    /// Print details of each run even if there are several
    #[arg(short, long, help_heading = "Output", conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Print only errors: no summary and no progress
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// One run that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// What it is called among runs of the same size: the schedule, and the split where there are two.
    pub(crate) series: String,
    /// What it is called within its series: ranks, files, or both.
    pub(crate) group: String,
    /// What was asked for as the number of ranks.
    pub(crate) workers: u32,
    /// All that decides what happens.
    pub(crate) setup: Setup,
}

impl SimulateArguments {
    /// All runs: series by series within each number of files and ranks.
    ///
    /// # Errors
    /// Says why there can be no such run.
    pub(crate) fn cases(&self) -> Result<Vec<Case>, String> {
        let (sizes, series) = (self.sizes(), self.series());
        let several = |one: fn(&(u64, u32)) -> u64| sizes.iter().any(|size| one(size) != one(&sizes[0]));
        let (many_files, many_ranks) = (several(|size| size.0), several(|size| u64::from(size.1)));
        let mut cases = Vec::with_capacity(sizes.len() * series.len());
        for &(files, workers) in &sizes {
            let group = match (many_files, many_ranks) {
                (true, true) => format!("{files}, {workers}"),
                (true, false) => files.to_string(),
                _ => workers.to_string(),
            };
            for (name, schedule, split) in &series {
                let setup = self.setup(files, workers, *schedule, *split)?;
                cases.push(Case { series: name.clone(), group: group.clone(), workers, setup });
            }
        }
        Ok(cases)
    }

    /// Whether the paper's settings hold.
    pub(crate) fn is_paper(&self) -> bool {
        self.paper || self.figure.is_some()
    }

    /// What groups of runs differ in.
    pub(crate) fn group_label(&self) -> &'static str {
        let sizes = self.sizes();
        let (files, ranks) = sizes[0];
        match (sizes.iter().any(|size| size.0 != files), sizes.iter().any(|size| size.1 != ranks)) {
            (true, true) if self.is_paper() => "files, workers",
            (true, true) => "files, ranks",
            (true, false) => "files",
            (false, _) if self.is_paper() => "workers",
            (false, _) => "ranks",
        }
    }

    /// Numbers of files and ranks, each pair once; at least one.
    fn sizes(&self) -> Vec<(u64, u32)> {
        let defaults = self.figure.map(Experiment::sizes);
        let files = given(&self.files, defaults.as_ref().map_or(&[6_500_000], |sizes| sizes.0));
        let ranks = given(&self.ranks, defaults.as_ref().map_or(&[40], |sizes| sizes.1));
        files.iter().flat_map(|&files| ranks.iter().map(move |&ranks| (files, ranks))).collect()
    }

    /// Schedules and splits, with the name of each pair.
    fn series(&self) -> Vec<(String, ScheduleKind, Split)> {
        let usual = if self.is_paper() { Split::Random } else { Split::default() };
        let mut pairs: Vec<(ScheduleKind, Split)> = Vec::new();
        if let (Some(figure), true, true) = (self.figure, self.schedule.is_empty(), self.split.is_empty()) {
            pairs = figure.series().to_vec();
        } else {
            for schedule in given(&self.schedule, &[ScheduleKind::default()]) {
                pairs.extend(given(&self.split, &[usual]).into_iter().map(|split| (schedule, split)));
            }
        }
        let name = |schedule: ScheduleKind, split: Split| {
            let is_alone = pairs.iter().filter(|pair| pair.0 == schedule).count() == 1;
            if is_alone { schedule.to_string() } else { format!("{schedule}-{split}") }
        };
        pairs.iter().map(|&(schedule, split)| (name(schedule, split), schedule, split)).collect()
    }

    fn setup(&self, files: u64, workers: u32, schedule: ScheduleKind, split: Split) -> Result<Setup, String> {
        let shape = Shape::named(&self.shape).ok_or_else(|| format!("no shape is called {}", self.shape))?;
        let tree = Tree::new(shape, files, self.seed).with_files_per_directory(self.files_per_directory);
        let mut setup = if self.is_paper() {
            Setup::paper(tree, schedule, split, workers)
        } else {
            Setup::atta(tree, schedule, workers, self.threads.unwrap_or(1), self.costs()?)
        };
        let threads = u64::from(setup.ranks) * u64::from(setup.habits.threads);
        if threads > THREADS_MAX {
            return Err(format!("{threads} threads on all ranks are more than {THREADS_MAX}"));
        }
        setup.engine = self.engine(setup.engine, split);
        setup.habits = self.habits(setup.habits);
        setup.network = self.network(setup.network, setup.ranks)?;
        setup.costs = self.costs()?;
        setup.count_pairs =
            setup.ranks <= PAIRS_MAX && (self.plots.is_some() || self.stats.is_some() || self.json);
        Ok(setup)
    }

    fn engine(&self, usual: Config, split: Split) -> Config {
        let pause_first = self.pause_us.map_or(usual.pause_first, Duration::from_micros);
        Config {
            split,
            seed: self.seed,
            termination: self.termination.unwrap_or(usual.termination),
            tree_width: self.tree_width,
            low_water: self.low_water.unwrap_or(usual.low_water),
            pause_first,
            // It would cut the first one off.
            pause_most: usual.pause_most.max(pause_first),
            quiet_interval: Duration::from_micros(self.quiet_us),
            ..usual
        }
    }

    fn habits(&self, usual: Habits) -> Habits {
        Habits {
            lock_step: self.lock_step.unwrap_or(usual.lock_step),
            aggregate_files: self.aggregate,
            slice_units: self.slice,
            breadth_units: self.breadth.unwrap_or(usual.breadth_units),
            gives_evenly: self.gives.map_or(usual.gives_evenly, |gives| gives == Gives::Evenly),
            ..usual
        }
    }

    fn network(&self, usual: Network, ranks: u32) -> Result<Network, String> {
        let mut network = Network { base_ns: self.latency_ns, hop_ns: self.hop_ns, ..usual };
        network.ranks_per_host = self.ranks_per_host.unwrap_or(usual.ranks_per_host);
        if self.topology == Some(TopologyName::OneHost) {
            if self.ranks_per_host.is_some_and(|per_host| per_host < ranks) {
                return Err(format!(
                    "--topology one-host: {ranks} ranks need one host, not --ranks-per-host"
                ));
            }
            network.ranks_per_host = ranks;
        }
        let hosts = ranks.div_ceil(network.ranks_per_host);
        let name = match self.topology {
            Some(TopologyName::OneHost) => "one-host",
            Some(TopologyName::Flat) => "flat",
            Some(TopologyName::FatTree) => "fat-tree",
            Some(TopologyName::Torus) => "torus",
            Some(TopologyName::Dragonfly) => "dragonfly",
            None if self.is_paper() && hosts > PAPER_HOSTS => "torus",
            None => return Ok(network),
        };
        network.topology = Topology::named(name, hosts).unwrap_or(usual.topology);
        Ok(network)
    }

    fn costs(&self) -> Result<Costs, String> {
        let usual = Costs::named(&self.costs).ok_or_else(|| format!("no costs are called {}", self.costs))?;
        Ok(Costs {
            directory_ns: self.directory_ns.unwrap_or(usual.directory_ns),
            entry_ns: self.entry_ns.unwrap_or(usual.entry_ns),
            stat_ns: self.stat_ns.unwrap_or(usual.stat_ns),
            send_ns: self.send_ns.unwrap_or(usual.send_ns),
            receive_ns: self.receive_ns.unwrap_or(usual.receive_ns),
            master_ns: self.master_ns.unwrap_or(usual.master_ns),
        })
    }
}

/// What was given, each value once, or what is usual.
fn given<T: Copy + PartialEq>(values: &[T], usual: &[T]) -> Vec<T> {
    let mut distinct = Vec::new();
    for &value in if values.is_empty() { usual } else { values } {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

fn parse_ranks(text: &str) -> Result<u32, String> {
    match u32::try_from(parse_count(text)?) {
        Ok(ranks @ 1..=RANKS_MAX) => Ok(ranks),
        _ => Err(format!("not in 1 to {RANKS_MAX}")),
    }
}

fn parse_files(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        files if files <= FILES_MAX => Ok(files),
        _ => Err(format!("more than 2^40 = {FILES_MAX}")),
    }
}

/// Nanoseconds up to a minute.
fn parse_ns(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(ns) if ns <= 60_000_000_000 => Ok(ns),
        Ok(_) => Err("more than a minute".to_owned()),
        Err(_) => Err("not a whole number of nanoseconds".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: SimulateArguments,
    }

    fn cases(words: &str) -> Result<Vec<Case>, String> {
        let line = ["simulate"].into_iter().chain(words.split_whitespace());
        Line::try_parse_from(line).map_err(|error| error.to_string())?.arguments.cases()
    }

    fn names(words: &str) -> Vec<String> {
        cases(words).unwrap().iter().map(|case| format!("{} {}", case.series, case.group)).collect()
    }

    #[test]
    fn without_options_it_is_one_run_of_the_usual_kind() {
        let cases = cases("").unwrap();
        let tree = Tree::new(Shape::Zipf { fan_out_most: 64 }, 6_500_000, 1);
        let mut usual = Setup::atta(tree, ScheduleKind::Lifeline, 40, 1, Costs::FILE_SERVER);
        usual.engine.seed = 1;
        assert_eq!(cases.len(), 1);
        assert_eq!(cases[0].setup, usual);
        assert_eq!((cases[0].series.as_str(), cases[0].group.as_str()), ("lifeline", "40"));
    }

    #[test]
    fn lists_and_repeats_are_combined_each_once() {
        assert_eq!(
            names("--schedule random,hybrid --schedule random --ranks 2,4"),
            ["random 2", "hybrid 2", "random 4", "hybrid 4"]
        );
        assert_eq!(names("--split random,equal --files 1K"), ["lifeline-random 40", "lifeline-equal 40"]);
        assert_eq!(names("--files 1K,2K"), ["lifeline 1000", "lifeline 2000"]);
        assert_eq!(names("--files 1K,2K --ranks 3,4").len(), 4);
        assert_eq!(names("--files 1K,2K --ranks 3,4")[1], "lifeline 1000, 4");
    }

    #[test]
    fn paper_workers_share_the_pool_of_one_rank() {
        let cases = cases("--paper --schedule random,hybrid --ranks 30 --files 100").unwrap();
        let shapes = cases.iter().map(|case| (case.setup.ranks, case.setup.habits.threads));
        assert_eq!(shapes.collect::<Vec<_>>(), [(30, 1), (15, 2)]);
        assert_eq!(cases[0].setup.engine.termination, Termination::Token);
        assert_eq!(cases[0].setup.engine.split, Split::Random);
    }

    #[test]
    fn paper_programs_use_no_acks_and_lock_step() {
        let setups = |words: &str| -> Vec<_> {
            let setup = |case: Case| (case.setup.engine.termination, case.setup.habits.lock_step);
            cases(words).unwrap().into_iter().map(setup).collect()
        };
        let (counters, token) = (Termination::Counters, Termination::Token);
        assert_eq!(
            setups("--paper --schedule centralized,centralized-keep,random,hybrid"),
            [(counters, false), (counters, false), (token, false), (token, true)]
        );
        assert_eq!(
            setups("--paper --schedule centralized,hybrid --termination token --lock-step=no"),
            [(token, false); 2]
        );
        assert_eq!(setups("--schedule hybrid,centralized --lock-step"), [(counters, true); 2]);
        assert_eq!(setups("--schedule hybrid"), [(counters, false)]);
    }

    #[test]
    fn options_override_what_a_figure_sets() {
        assert_eq!(names("--figure 3").len(), 40);
        assert_eq!(names("--figure 3 --ranks 5 --schedule hybrid"), ["hybrid 5"]);
        let small = cases("--figure 6 --files 1K").unwrap();
        assert!(small.iter().all(|case| case.setup.tree.files() == 1000));
    }

    #[test]
    fn one_host_holds_all_ranks() {
        let cases = cases("--topology one-host --ranks 7").unwrap();
        assert_eq!(cases[0].setup.network.host(6), 0);
        assert_eq!(cases[0].setup.network.topology, Topology::OneHost);
    }

    #[test]
    fn single_costs_override_the_named_ones() {
        let cases = cases("--costs local-disk --send-ns 9 --stat-ns 0").unwrap();
        assert_eq!(cases[0].setup.costs, Costs { send_ns: 9, stat_ns: 0, ..Costs::LOCAL_DISK });
    }

    #[test]
    fn a_long_first_pause_is_not_cut_off() {
        let pauses = |words: &str| {
            let engine = cases(words).unwrap()[0].setup.engine;
            (engine.pause_first.as_micros(), engine.pause_most.as_micros())
        };
        assert_eq!(pauses(""), (50, 10_000));
        assert_eq!(pauses("--pause-us 10000"), (10_000, 10_000));
        assert_eq!(pauses("--pause-us 70000"), (70_000, 70_000));
    }

    #[test]
    fn wrong_usage_says_why() {
        let wrong = [
            ("--ranks 0", "not in 1 to 10000000"),
            ("--ranks 10,x", "no number"),
            ("--files 2^50", "no number"),
            ("--files 2T", "2^40"),
            ("--threads 2 --paper", "cannot be used with"),
            ("--schedule none", "possible values"),
            ("--figure 2", "possible values"),
            ("--topology ring", "possible values"),
            ("--topology one-host --ranks 8 --ranks-per-host 4", "need one host"),
            ("--ranks 10000000 --threads 4096", "more than 50000000"),
            ("--stat-ns 1s", "nanoseconds"),
        ];
        for (words, why) in wrong {
            let error = cases(words).unwrap_err();
            assert!(error.contains(why), "{words}: {error}");
        }
    }
}
