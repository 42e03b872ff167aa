//! `atta bcast` to emulated nodes over links of a set rate (`tc tbf`), beside what one TCP connection reaches over the slowest of these links in the same
//! run. It counts who opens FILE. Needs root, iproute2, util-linux, python3, and `ATTA_TEST_MPI` with the prefix of an MPI whose launcher reaches
//! the nodes. The nodes are network namespaces of this machine, so that all of them share its cores and memory.

#![expect(clippy::disallowed_methods, reason = "a benchmark's own directory")]
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

mod links;

use std::fs;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use atta_testkit::hosts::Hosts;
use atta_testkit::mpi::{self, Mpi};
use atta_testkit::random::Random;
use clap::Parser;
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};

/// Bytes that the raw limit is measured with, on each link.
const RAW_BYTES: u64 = 64 << 20;

/// Sends a file to emulated nodes.
#[derive(Parser)]
struct Arguments {
    /// Where FILE is made, and where each node mounts a file system in memory.
    directory: PathBuf,
    /// The program.
    #[arg(long, default_value = "target/release/atta")]
    program: PathBuf,
    /// Nodes, with one rank each.
    #[arg(long, default_value_t = 6)]
    nodes: u8,
    /// Size of FILE.
    #[arg(long, default_value_t = 256)]
    mebibytes: u64,
    /// The rate of each link, as tc has it.
    #[arg(long, default_value = "400mbit")]
    rate: String,
    /// The rate of the link of the last node, if that is another one.
    #[arg(long)]
    slowest: Option<String>,
    /// Runs under each MPI.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

fn main() {
    let arguments = Arguments::parse();
    if let Err(error) = run(&arguments) {
        println!("bcast: {error}");
        std::process::exit(1);
    }
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn run(arguments: &Arguments) -> Outcome<()> {
    let directory = fs::canonicalize(&arguments.directory)?;
    let (file, local) = (directory.join("bcast-file"), directory.join("bcast-local"));
    let size = arguments.mebibytes << 20;
    make(&file, size)?;
    fs::create_dir_all(&local)?;
    let hosts = Hosts::new(arguments.nodes)?;
    let last = arguments.slowest.as_deref().unwrap_or(&arguments.rate);
    for node in 0..hosts.count() {
        let rate = if node + 1 == hosts.count() { last } else { &arguments.rate };
        links::shape(&hosts, node, rate)?;
        let options = format!("size={}m", arguments.mebibytes + 8);
        let mut mount = hosts.on(node);
        links::must(mount.args(["mount", "-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&local))?;
    }
    let raw = links::rates(&hosts, RAW_BYTES)?;
    let slowest = raw.iter().copied().fold(f64::INFINITY, f64::min);
    let shown: Vec<String> = raw.iter().map(|rate| format!("{rate:.1}")).collect();
    println!(
        "raw, one connection from each node to the next: {} MiB/s; slowest {slowest:.1}",
        shown.join(" ")
    );
    let mpis = Mpi::installed(&directory.join("bcast-target"));
    if mpis.is_empty() {
        return Err("ATTA_TEST_MPI names no MPI".into());
    }
    for mpi in &mpis {
        for round in 1..=arguments.rounds {
            let Some(ran) = once(&hosts, mpi, arguments, (&file, &local.join("copy")))? else {
                println!("{}: its launcher does not reach the nodes", mpi.version);
                break;
            };
            let rate = arguments.mebibytes as f64 / ran.seconds;
            println!(
                "{}, round {round}: {:.2} s ({:.2} s with the launch), {rate:.1} MiB/s to each of {} nodes, {:.2} of the slowest link; \
                 FILE opened {} times, read on ranks {}",
                mpi.version,
                ran.seconds,
                ran.with_launch,
                ran.written,
                rate / slowest,
                ran.opens,
                ran.readers,
            );
        }
    }
    fs::remove_file(&file)?;
    fs::remove_dir(&local)?;
    Ok(())
}

/// A file of random bytes.
fn make(path: &Path, size: u64) -> Outcome<()> {
    let (mut random, mut file) = (Random::new(1), std::io::BufWriter::new(fs::File::create(path)?));
    for _ in 0..size / 8 {
        file.write_all(&random.draw().to_le_bytes())?;
    }
    Ok(file.flush()?)
}

struct Ran {
    seconds: f64,
    with_launch: f64,
    written: u64,
    opens: usize,
    readers: serde_json::Value,
}

/// One run, whose copies are compared with FILE and removed.
fn once(
    hosts: &Hosts,
    mpi: &Mpi,
    arguments: &Arguments,
    (file, target): (&Path, &Path),
) -> Outcome<Option<Ran>> {
    let Some(mut launch) = mpi.launch_on(hosts, 1, Some(&mpi.plugin)) else { return Ok(None) };
    launch.arg(fs::canonicalize(&arguments.program)?).args(["bcast", "--json"]).arg(file).arg(target);
    let watch = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    // An opening to look at the path is no opening of the file.
    add_watch(&watch, file, WatchFlags::OPEN)?;
    let began = Instant::now();
    let output = mpi::alone(launch.stdin(Stdio::null()));
    let with_launch = began.elapsed().as_secs_f64();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let (mut reader, mut opens) = (Reader::new(&watch, &mut buffer), 0);
    while let Ok(event) = reader.next() {
        opens += usize::from(event.events().contains(ReadFlags::OPEN));
    }
    for node in 0..hosts.count() {
        links::must(hosts.on(node).arg("cmp").arg(file).arg(target))?;
        links::must(hosts.on(node).arg("rm").arg(target))?;
    }
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let seconds = summary["elapsed_seconds"].as_f64().ok_or("no time in the summary")?;
    let written = summary["written"].as_u64().unwrap_or_default();
    Ok(Some(Ran { seconds, with_launch, written, opens, readers: summary["readers"].clone() }))
}
