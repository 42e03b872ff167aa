//! How the rate of `lstat` on the slow file system grows with the threads, and how fast a huge directory is listed:
//! what there is to gain for a walk on this machine. Prints figures; judges nothing.
//!
//! `cargo run --release -p atta-testkit --example stat_rate -- [LATENCY_US] [FLAT_FILES]`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use atta_testkit::slow::{Operation, SlowFs};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, openat, statat};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let latency_us = number(2000).map_err(io::Error::other)?;
    let flat = number(10_000_000).map_err(io::Error::other)?;
    let mut out = io::stdout().lock();
    stat(Duration::from_micros(latency_us), &mut out)?;
    list(flat, &mut out)
}

fn stat(latency: Duration, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "threads      stats  seconds  stats/s  times  peak")?;
    let mut single = 0.0;
    for threads in [1_usize, 8, 16, 32, 64, 128] {
        let mounted = SlowFs::builder().latency(latency).mount()?;
        let files = files(mounted.path());
        let stats = (threads * 500).min(files.len() * 4);
        let next = AtomicUsize::new(0);
        let start = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| take_turns(&files, stats, &next));
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        let rate = f64::from(u32::try_from(stats).map_err(io::Error::other)?) / seconds;
        if threads == 1 {
            single = rate;
        }
        let peak = mounted.finish()?.peak;
        let times = rate / single;
        writeln!(out, "{threads:7} {stats:10} {seconds:8.2} {rate:8.0} {times:6.1} {peak:5}")?;
    }
    Ok(())
}

fn files(root: &Path) -> Vec<PathBuf> {
    let names = (0..40).flat_map(|directory| (0..100).map(move |file| (directory, file)));
    names.map(|(directory, file)| root.join(format!("d{directory:04}/f{file:07}"))).collect()
}

fn take_turns(files: &[PathBuf], stats: usize, next: &AtomicUsize) {
    loop {
        let turn = next.fetch_add(1, Ordering::Relaxed);
        if turn >= stats {
            return;
        }
        let path = &files[turn % files.len()];
        statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).expect("the file exists");
    }
}

fn list(files: u64, out: &mut dyn Write) -> io::Result<()> {
    let mounted = SlowFs::builder().latency(Duration::ZERO).flat(files).mount()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, mounted.path(), flags, Mode::empty())?;
    let mut buffer = Vec::with_capacity(1 << 17);
    let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
    let start = Instant::now();
    let mut names = 0_u64;
    while let Some(entry) = entries.next() {
        entry?;
        names += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(directory);
    let pieces = mounted.finish()?.of(Operation::Readdir);
    writeln!(out, "listed {names} names of {files} files in {seconds:.2} s, {pieces} requests")
}
