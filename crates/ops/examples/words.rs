//! Counts the words of all files below a directory: `mpirun -np 4 words DIRECTORY [SCHEDULE]`, or without a launcher.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a small example")]

use std::{collections::BTreeMap, fs};

use atta_engine::{Config, Reduce};
use atta_runtime::{Job, Queue, run_and_reduce};

#[derive(Clone, Default)]
struct Index(BTreeMap<String, u64>);

impl Reduce for Index {
    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(word, count)| *self.0.entry(word.clone()).or_default() += count);
    }
}

atta_entry::record!(Index { 0 });

struct Words; // A task is a directory.

impl Job for Words {
    type Task = String;
    type Worker = Index;
    fn worker(&self, _thread: usize) -> Index {
        Index::default()
    }
    fn run(&self, index: &mut Index, directory: String, queue: &mut Queue<'_, Self>) {
        for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if let Ok(text) = fs::read_to_string(&path) {
                text.split_whitespace().for_each(|word| *index.0.entry(word.to_owned()).or_default() += 1);
            } else if path.is_dir() {
                queue.push(path.to_string_lossy().into_owned());
            }
        }
    }
    fn pack(&self, task: &String, _last: Option<&String>, out: &mut Vec<u8>) -> bool {
        out.extend(format!("{task}\0").bytes());
        true
    }
    fn unpack(&self, bytes: &[u8]) -> Result<Vec<String>, &'static str> {
        Ok(String::from_utf8_lossy(bytes).split_terminator('\0').map(str::to_owned).collect())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let directory = words.next().ok_or("usage: words DIRECTORY [SCHEDULE]")?;
    let schedule = words.next().and_then(|name| name.parse().ok()).unwrap_or_default();
    let config = Config { schedule, ..Config::default() };
    let all = run_and_reduce(&Words, vec![directory], atta_mpi_loader::join()?, config)?;
    all.iter().flat_map(|all| &all.0).for_each(|(word, count)| println!("{count} {word}"));
    Ok(())
}
