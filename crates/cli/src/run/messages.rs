//! Exit codes, and messages on standard error.

use atta_mpi_loader::Launcher;

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

/// Writes an error and a hint to standard error.
pub(crate) fn complain(what: &str, hint: Option<&str>) {
    use std::io::Write;
    let mut text = format!("atta: {what}\n");
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
