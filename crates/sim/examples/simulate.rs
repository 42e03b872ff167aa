//! Runs one simulation and prints what came out.
//!
//! ```text
//! cargo run --release -p atta-sim --example simulate -- mode=atta schedule=lifeline ranks=1000 threads=4 files=10000000
//! ```
//!
//! Everything is `name=value`: `mode` (`paper`, `atta`), `schedule`, `split`, `termination`, `shape`, `files`, `ranks` (in
//! mode `paper` workers), `threads`, `ranks-per-host`, `topology`, `costs`, `aggregate`, `slice`, `lock-step`, `low-water`,
//! `width`, `seed`, `send-ns`, `receive-ns`, `master-ns`, `quiet-us`, `pause-us`,
//! `evenly`.

#![expect(clippy::print_stdout, reason = "an example that prints its result")]

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::{Duration, Instant};

use atta_engine::{ScheduleKind, Split};
use atta_sim::{Costs, KINDS, Outcome, Setup, Shape, Topology, Tree, simulate};

/// What was given on the command line.
struct Values(BTreeMap<String, String>);

impl Values {
    fn get<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        let Some(value) = self.0.get(name) else { return Ok(default) };
        value.parse().map_err(|_| format!("{name}: no such value: {value}"))
    }

    fn named<T>(&self, name: &str, default: T, find: impl Fn(&str) -> Option<T>) -> Result<T, String> {
        let Some(value) = self.0.get(name) else { return Ok(default) };
        find(value).ok_or_else(|| format!("{name}: no such value: {value}"))
    }

    fn setup(&self) -> Result<Setup, String> {
        let shape = self.named("shape", Shape::Zipf { fan_out_most: 64 }, Shape::named)?;
        let seed = self.get("seed", 1)?;
        let tree = Tree::new(shape, self.get("files", 6_500_000)?, seed);
        let schedule = self.get("schedule", ScheduleKind::default())?;
        let (ranks, threads) = (self.get("ranks", 40)?, self.get("threads", 1)?);
        let mut setup = match self.get("mode", "atta".to_owned())?.as_str() {
            "paper" => Setup::paper(tree, schedule, self.get("split", Split::Random)?, ranks),
            _ => Setup::atta(tree, schedule, ranks, threads),
        };
        setup.engine.seed = seed;
        setup.engine.split = self.get("split", setup.engine.split)?;
        setup.engine.termination = self.get("termination", setup.engine.termination)?;
        setup.engine.low_water = self.get("low-water", setup.engine.low_water)?;
        setup.engine.tree_width = self.get("width", setup.engine.tree_width)?;
        setup.engine.quiet_interval = Duration::from_micros(self.get("quiet-us", 1000)?);
        let default_pause = setup.engine.pause_first.as_micros() as u64;
        setup.engine.pause_first = Duration::from_micros(self.get("pause-us", default_pause)?);
        setup.habits.aggregate_files = self.get("aggregate", 0)?;
        setup.habits.gives_evenly = self.get("evenly", setup.habits.gives_evenly)?;
        setup.habits.slice_units = self.get("slice", setup.habits.slice_units)?;
        setup.habits.lock_step = self.get("lock-step", false)?;
        setup.network.ranks_per_host = self.get("ranks-per-host", setup.network.ranks_per_host)?;
        let hosts = setup.ranks.div_ceil(setup.network.ranks_per_host);
        setup.network.topology =
            self.named("topology", setup.network.topology, |name| Topology::named(name, hosts))?;
        setup.costs = self.named("costs", setup.costs, Costs::named)?;
        setup.costs.send_ns = self.get("send-ns", setup.costs.send_ns)?;
        setup.costs.receive_ns = self.get("receive-ns", setup.costs.receive_ns)?;
        setup.costs.master_ns = self.get("master-ns", setup.costs.master_ns)?;
        Ok(setup)
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn print(outcome: &Outcome, wall: Duration) {
    let sent = outcome.sent();
    println!("run {:.3} s, announced at {:.3} s", seconds(outcome.run_ns), seconds(outcome.announced_ns));
    println!("efficiency {:.4}, end phase {:.4}", outcome.efficiency(), outcome.end_phase());
    println!("{} directories, {} files", outcome.totals.directories, outcome.totals.files);
    println!("messages {}, {:.6} a task, bytes {}", sent.messages, outcome.messages_per_task(), sent.bytes);
    for (kind, volume) in KINDS.iter().zip(&outcome.kinds).filter(|(_, volume)| volume.messages > 0) {
        println!("  {kind}: {} messages, {} bytes", volume.messages, volume.bytes);
    }
    let readdir: u64 = outcome.ranks.iter().map(|rank| rank.readdir_ns).sum();
    let stat: u64 = outcome.ranks.iter().map(|rank| rank.stat_ns).sum();
    let communication = outcome.communication_ns();
    println!(
        "time: readdir {:.1} s, stat {:.1} s, communication {:.3} s",
        seconds(readdir),
        seconds(stat),
        seconds(communication)
    );
    println!("spread {:.5}, at most {} tasks waited", outcome.spread(), outcome.waiting_most());
    println!("ranks without tasks {}, {:?}", outcome.ranks_without_tasks, outcome.counts);
    let rate = outcome.events as f64 / wall.as_secs_f64() / 1e6;
    println!("{} events, {rate:.2} million a second, trace {:016x}", outcome.events, outcome.trace);
}

fn main() -> Result<(), String> {
    let pairs = std::env::args().skip(1).map(|argument| match argument.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(format!("not name=value: {argument}")),
    });
    let setup = Values(pairs.collect::<Result<_, _>>()?).setup()?;
    let start = Instant::now();
    let outcome = simulate(&setup).map_err(|violation| violation.to_string())?;
    print(&outcome, start.elapsed());
    Ok(())
}
