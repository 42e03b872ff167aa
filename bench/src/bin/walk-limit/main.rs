//! `walk-limit -t THREADS PATH`: the raw limit of walking a tree on this machine.
//!
//! It makes the system calls that no walk can do without (openat, getdents64, one fstatat for each entry, close), on
//! some threads over one shared stack of work, and nothing else: no attribute leaves the program, nothing is sorted,
//! filtered, printed or retried. What a real walker takes beyond this time is its own overhead.
//!
//! It is a yardstick, not a tool: it counts errors without naming them.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program reports on its terminal")]

mod queue;
mod worker;

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::time::Instant;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::queue::{Queue, Work};
use crate::worker::{Counts, Worker};

const USAGE: &str = "usage: walk-limit [-t THREADS] PATH";

fn main() -> ExitCode {
    let (threads, root) = match parse(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(reason) => {
            eprintln!("walk-limit: {reason}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    raise_descriptor_limit();

    let start = Instant::now();
    let counts = walk(threads, root);
    let seconds = start.elapsed().as_secs_f64();

    let Counts { entries, directories, errors, bytes } = counts;
    println!(
        "threads={threads} entries={entries} directories={directories} errors={errors} bytes={bytes} \
         seconds={seconds:.4}"
    );
    if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Walks `root` on `threads` threads; the counts of all of them.
fn walk(threads: usize, root: CString) -> Counts {
    let queue = Queue::new(Work::Directory { parent: None, name: root });
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| Worker::new(&queue).run())).collect();
        let joined = workers.into_iter().map(|worker| worker.join().expect("a worker does not panic"));
        joined.fold(Counts::default(), Counts::plus)
    })
}

/// The number of threads (default: the number of cores) and the path.
fn parse(mut arguments: impl Iterator<Item = OsString>) -> Result<(usize, CString), String> {
    let mut threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut root = None;
    while let Some(argument) = arguments.next() {
        if argument == "-t" {
            let count = arguments.next().ok_or("-t needs a number")?;
            threads = count.to_str().and_then(|text| text.parse().ok()).unwrap_or(0);
            if threads == 0 {
                return Err(format!("not a number of threads: {}", count.display()));
            }
        } else if root.replace(argument).is_some() {
            return Err("one path, please".into());
        }
    }
    let root = root.ok_or("no path given")?;
    let root = CString::new(root.into_vec()).map_err(|_| "a path holds no NUL")?;
    Ok((threads, root))
}

/// Queued directories hold their parent's descriptor, so a wide tree needs more than the usual 1,024.
///
/// A refusal is left to show itself as errors in the counts.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        eprintln!("walk-limit: raising the limit of open files: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<(usize, CString), String> {
        parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn arguments() {
        assert_eq!(parsed(&["-t", "3", "/x"]), Ok((3, c"/x".to_owned())));
        assert_eq!(parsed(&["/x", "-t", "1"]), Ok((1, c"/x".to_owned())));
        for wrong in [&["-t", "0", "/x"][..], &["-t"], &[], &["/x", "/y"], &["-t", "two", "/x"]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn counts_every_entry_once() {
        let root = std::env::temp_dir().join(format!("walk-limit-{}", std::process::id()));
        // `large` spans more than one buffer of names' worth of direct stats, so that batches are made.
        for directory in ["a/b/c", "large"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        for number in 0..5_000 {
            std::fs::write(root.join(format!("large/file-{number}")), "x").unwrap();
        }
        std::os::unix::fs::symlink("nowhere", root.join("a/link")).unwrap();
        let path = CString::new(root.clone().into_os_string().into_vec()).unwrap();
        for threads in [1, 4] {
            let counts = walk(threads, path.clone());
            assert_eq!((counts.entries, counts.directories, counts.errors), (5_005, 5, 0));
            assert!(counts.bytes >= 5_000 + "nowhere".len() as u64);
        }
        #[expect(clippy::disallowed_methods, reason = "the test made this tree itself")]
        std::fs::remove_dir_all(root).unwrap();
        let gone = walk(2, path);
        assert_eq!((gone.entries, gone.directories, gone.errors), (0, 0, 1));
    }
}
