//! The process that serves a slow, synthetic file system. It ends when its standard input ends, on SIGTERM or SIGINT, or when the file
//! system is unmounted. It reads options, waits and unmounts; see `atta_testkit::slow` for the file system.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};

use atta_testkit::slow::{Options, Service, USAGE};
use signal_hook::consts::{SIGINT, SIGTERM};

/// The reason to end.
enum End {
    /// The owner asked for the end.
    Asked,
    /// It was unmounted.
    Unmounted,
}

fn main() {
    if std::env::args_os().any(|argument| argument == "--help") {
        say(&mut io::stdout(), USAGE);
        exit(0);
    }
    keep_buffers_apart();
    let options = Options::parse(std::env::args_os().skip(1)).unwrap_or_else(|wrong| {
        fail(2, &format!("{wrong}\n\n{USAGE}"));
    });
    if !options.mountpoint.is_dir() {
        fail(2, &format!("no directory: {}", options.mountpoint.display()));
    }
    let mut service = Service::start(&options).unwrap_or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput => fail(2, &error.to_string()),
        _ => fail(4, &format!("cannot mount over FUSE: {error}")),
    });
    // From here on, the mount must be removed before the process ends.
    let ends = watch(&mut service).unwrap_or_else(|error| {
        let _also_failed = service.detach();
        fail(4, &format!("cannot watch for the end: {error}"));
    });
    if let Ok(End::Asked) = ends.recv()
        && let Err(error) = service.detach()
    {
        fail(4, &format!("cannot unmount: {error}"));
    }
    if let Err(error) = service.lose_unsynced() {
        fail(4, &format!("cannot lose what was not synced: {error}"));
    }
    say(&mut io::stdout(), &format!("{}\n", service.served()));
    // Not by returning: dropping the session would unmount once more, and meet whatever lies there now.
    exit(0);
}

/// Starts this program over in the same process, once, with an allocator that maps large blocks for good.
///
/// fuser gives each thread a buffer of 16 MiB, of which a read-only file system touches a page. glibc raises its limit
/// for mapped blocks when the first of them is freed, takes the others from its heaps, and clears them: 256 threads
/// then took 1.1 GB and 0.8 s where they now take 6 MB. The allocator reads this at the start of a program only.
fn keep_buffers_apart() {
    const THRESHOLD: &str = "MALLOC_MMAP_THRESHOLD_";
    if std::env::var_os(THRESHOLD).is_some() {
        return;
    }
    if let Ok(program) = std::env::current_exe() {
        let mut again = Command::new(program);
        // The program also works without this, so the error is ignored.
        let _error = again.args(std::env::args_os().skip(1)).env(THRESHOLD, "131072").exec();
    }
}

/// A thread for each reason to end.
fn watch(service: &mut Service) -> io::Result<Receiver<End>> {
    let (ends, first) = channel();
    let session = service.take_session();
    spawn(&ends, move || {
        if let Some(session) = session {
            // An error of the session is an end as well: no requests are served any more.
            let _outcome = session.join();
        }
        End::Unmounted
    })?;
    let (mut reading, writing) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, writing.try_clone()?)?;
    }
    spawn(&ends, move || {
        let _read = reading.read(&mut [0]);
        End::Asked
    })?;
    // A signal would find it prepared; and before the first line is read, since this is what its owner waits for.
    say(&mut io::stdout(), "ready\n");
    let word = service.word();
    spawn(&ends, move || {
        let mut line = String::new();
        while io::stdin().read_line(&mut line).is_ok_and(|length| length > 0) {
            word.store(true, Ordering::Release);
            say(&mut io::stdout(), "armed\n");
        }
        End::Asked
    })?;
    Ok(first)
}

fn spawn(ends: &Sender<End>, wait: impl FnOnce() -> End + Send + 'static) -> io::Result<()> {
    let ends = ends.clone();
    std::thread::Builder::new().spawn(move || {
        // Only the first reason is reported.
        let _unheard = ends.send(wait());
    })?;
    Ok(())
}

/// A reader that went away is no reason to stop, nor to leave a mount behind.
fn say(to: &mut dyn Write, text: &str) {
    let _unheard = to.write_all(text.as_bytes()).and_then(|()| to.flush());
}

fn fail(status: i32, message: &str) -> ! {
    say(&mut io::stderr(), &format!("atta-slow-fs: {message}\n"));
    exit(status);
}
