//! Exit codes, and messages on standard error.

use std::os::fd::AsFd;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use atta_mpi_loader::Launcher;
use rustix::fs::FileType;

/// The longest time that a launcher gets to read what its rank has written.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// The exit codes of the program.
pub(crate) mod exit {
    /// All done.
    pub(crate) const DONE: u8 = 0;
    /// The compared data differ.
    pub(crate) const DIFFERENT: u8 = 1;
    /// Wrong usage.
    pub(crate) const USAGE: u8 = 2;
    /// Done, but some entries failed.
    pub(crate) const PARTIAL: u8 = 3;
    /// The run could not continue.
    pub(crate) const FATAL: u8 = 4;
    /// The reader of standard output closed it (128 + SIGPIPE).
    pub(crate) const CLOSED: u8 = 141;
}

/// Prints a message that all ranks would print before they have met, if this rank's turn ([`Launcher::turn`]) says so. Every rank waits
/// for its turn first: a launcher may end all ranks when one exits.
pub(crate) fn once(launcher: Option<&Launcher>, print: impl FnOnce()) {
    let Some(launcher) = launcher else { return print() };
    let turn = launcher.turn();
    std::thread::sleep(turn.wait);
    if turn.reports {
        print();
    }
}

/// The node whose part of a command this process runs, and the last error that it has reported.
static NODE: RwLock<Option<(String, Option<String>)>> = RwLock::new(None);

/// Runs a node's part of a command: its name precedes all errors. Also returns the last one.
pub(crate) fn on_node<T>(name: &str, part: impl FnOnce() -> T) -> (T, Option<String>) {
    let set = |node| std::mem::replace(&mut *NODE.write().unwrap_or_else(PoisonError::into_inner), node);
    set(Some((name.to_owned(), None)));
    let done = part();
    (done, set(None).and_then(|(_, last)| last))
}

/// Notes an error of the node whose part this process runs, if it does. Returns what precedes the error.
fn of_node(what: &str) -> String {
    match &mut *NODE.write().unwrap_or_else(PoisonError::into_inner) {
        Some((name, last)) => {
            *last = Some(what.to_owned());
            format!("{name}: ")
        }
        None => String::new(),
    }
}

/// Writes an error and a hint to standard error.
pub(crate) fn complain(what: &str, hint: Option<&str>) {
    use std::io::Write;
    let mut text = format!("atta: {}{what}\n", of_node(what));
    if let Some(hint) = hint {
        text.push_str("hint: ");
        text.push_str(hint);
        text.push('\n');
    }
    // An error of standard error cannot be reported.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes a separate hint to standard error.
pub(crate) fn hint(text: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("hint: {text}\n").as_bytes());
}

/// Waits until a launcher has read what this process has written to a pipe. Some launchers end all ranks of an aborted run without reading
/// what their pipes still have: the message that says why the run was aborted would be lost.
pub(crate) fn wait_until_read() {
    let began = Instant::now();
    let (output, error) = (std::io::stdout(), std::io::stderr());
    while (is_unread(&output) || is_unread(&error)) && began.elapsed() < READ_WITHIN {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this is a pipe with bytes that nobody has read.
fn is_unread(stream: impl AsFd) -> bool {
    let is_pipe =
        |fd| rustix::fs::fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    is_pipe(stream.as_fd()) && rustix::io::ioctl_fionread(&stream).is_ok_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn pipe_is_unread_until_all_is_read() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        assert!(!is_unread(&writer));
        writer.write_all(b"why").unwrap();
        assert!(is_unread(&writer));
        reader.read_exact(&mut [0; 2]).unwrap();
        assert!(is_unread(&writer));
        reader.read_exact(&mut [0; 1]).unwrap();
        assert!(!is_unread(&writer));
    }

    #[test]
    fn node_part_returns_its_last_error() {
        assert_eq!(
            on_node("a", || of_node("one") + &of_node("two")),
            ("a: a: ".to_owned(), Some("two".to_owned()))
        );
        assert_eq!((on_node("a", || ()), of_node("three")), (((), None), String::new()));
    }

    #[test]
    fn files_are_never_unread() {
        let program = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert!(rustix::io::ioctl_fionread(&program).unwrap() > 0);
        assert!(!is_unread(&program));
    }
}
