//! The file system as a test holds it: a child process that serves, a directory to mount on, and an end that leaves
//! neither process nor mount behind, whatever the child does.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, mkdirat};

use super::counts::Served;
use super::fault::Fault;
use super::options::Options;
use super::tree::Tree;
use crate::mounts;
use crate::scratch::Scratch;

/// How long the child may take to unmount before it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Exit code of `atta-slow-fs` if FUSE is not available.
const NO_FUSE: i32 = 4;

/// Options for a [`SlowFs`], each as on the command line of `atta-slow-fs`.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    options: Options,
}

impl Builder {
    /// How long every request waits; 2 ms by default.
    #[must_use]
    pub const fn latency(mut self, latency: Duration) -> Self {
        self.options.latency = latency;
        self
    }

    /// Directories in every directory that is not on the last level, and the levels below the root; 40 and 1.
    #[must_use]
    pub const fn directories(mut self, directories: u64, depth: u64) -> Self {
        self.options.directories = directories;
        self.options.depth = depth;
        self
    }

    /// Files in every directory but the root; 100.
    #[must_use]
    pub const fn files(mut self, files: u64) -> Self {
        self.options.files = files;
        self
    }

    /// Symlinks in every directory but the root; none.
    #[must_use]
    pub const fn symlinks(mut self, symlinks: u64) -> Self {
        self.options.symlinks = symlinks;
        self
    }

    /// So many files in the root and nothing else.
    #[must_use]
    pub const fn flat(mut self, files: u64) -> Self {
        self.options.flat = Some(files);
        self
    }

    /// What sizes, owners, times, contents and chances are derived from; 1.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Shows this directory, which can be changed through the mount, in place of a computed tree.
    #[must_use]
    pub fn over(mut self, directory: &Path) -> Self {
        self.options.over = Some(directory.to_path_buf());
        self
    }

    /// Names in that directory that differ in case alone are one.
    #[must_use]
    pub const fn fold_case(mut self) -> Self {
        self.options.folds_case = true;
        self
    }

    /// A file that is removed in that directory while it is open has another name there until it is closed, as on an NFS client.
    #[must_use]
    pub const fn keep_open_names(mut self) -> Self {
        self.options.keeps_open_names = true;
        self
    }

    /// What was written or named in that directory and not synced is lost when it is unmounted.
    #[must_use]
    pub const fn lose_unsynced(mut self) -> Self {
        self.options.loses_unsynced = true;
        self
    }

    /// Appends to this file what is done to the only file of that directory: writes and syncs.
    #[must_use]
    pub(crate) fn record(mut self, file: &Path) -> Self {
        self.options.record = Some(file.to_path_buf());
        self
    }

    /// Adds a rule such as `stat:f0000007:EIO`; [`USAGE`](super::USAGE) has all that rules can say.
    ///
    /// # Panics
    /// When the rule cannot be read: it is part of the test.
    #[must_use]
    pub fn fail(mut self, rule: &str) -> Self {
        let fault: Fault = rule.parse().unwrap_or_else(|wrong| panic!("{wrong}"));
        self.options.faults.push(fault);
        self
    }

    /// Directories do not report the types of their entries.
    #[must_use]
    pub const fn unknown_types(mut self) -> Self {
        self.options.has_unknown_types = true;
        self
    }

    /// Directories are read together with attributes.
    #[must_use]
    pub const fn readdirplus(mut self) -> Self {
        self.options.has_readdirplus = true;
        self
    }

    /// Threads that serve; 256.
    #[must_use]
    pub const fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads;
        self
    }

    /// Starts the process and waits until the file system can be used.
    ///
    /// # Errors
    /// `Unsupported` if FUSE is not available, `NotFound` if `atta-slow-fs` is not built, else the error that it reported.
    pub fn mount(self) -> io::Result<SlowFs> {
        let program = program()?;
        let scratch = Scratch::new("slow-fs")?;
        let mut options = self.options;
        options.mountpoint = scratch.join("mount");
        mkdirat(CWD, &options.mountpoint, Mode::RWXU)?;
        let tree = Tree::new(&options)?;
        let mut child = Command::new(program)
            .args(options.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().map(BufReader::new);
        let mut mounted = SlowFs {
            child,
            output: output.ok_or_else(|| io::Error::other("no pipe"))?,
            mountpoint: options.mountpoint,
            tree,
            is_ended: false,
            _scratch: scratch,
        };
        mounted.wait_until_ready()?;
        Ok(mounted)
    }
}

/// The program beside this one in the profile's directory, or the one that `ATTA_SLOW_FS` names.
fn program() -> io::Result<PathBuf> {
    if let Some(named) = std::env::var_os("ATTA_SLOW_FS") {
        return Ok(PathBuf::from(named));
    }
    let program = crate::target::profile()?.join("atta-slow-fs");
    if program.exists() {
        return Ok(program);
    }
    // Cargo builds no binaries of a package that it only depends on.
    let message = format!("{} is not built: cargo build -p atta-testkit", program.display());
    Err(io::Error::new(io::ErrorKind::NotFound, message))
}

/// A mounted file system; dropping it unmounts and ends the process.
#[derive(Debug)]
pub struct SlowFs {
    child: Child,
    output: BufReader<ChildStdout>,
    mountpoint: PathBuf,
    tree: Tree,
    is_ended: bool,
    /// Dropped last: it detaches what is still mounted in it and removes the mount point.
    _scratch: Scratch,
}

impl SlowFs {
    /// Options to start from.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The root of the file system.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.mountpoint
    }

    /// The shape of what it shows, if that is computed.
    #[must_use]
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The process that serves it.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Makes the rules count that are `armed`; returns when they do.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn arm(&mut self) -> io::Result<()> {
        let input = self.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(b"\n")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line == "armed\n" { Ok(()) } else { Err(io::Error::other(format!("not armed: '{line}'"))) }
    }

    /// Unmounts and returns what was served.
    ///
    /// # Errors
    /// When the process failed or was killed.
    pub fn finish(mut self) -> io::Result<Served> {
        let status = self.end()?;
        let mut last = String::new();
        self.output.read_to_string(&mut last)?;
        if !status.success() {
            return Err(io::Error::other(format!("atta-slow-fs: {status}: {}", self.complaint())));
        }
        last.trim_end().parse().map_err(io::Error::other)
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line == "ready\n" {
            return Ok(());
        }
        let status = self.end()?;
        let complaint = self.complaint();
        let kind = match status.code() {
            Some(NO_FUSE) => io::ErrorKind::Unsupported,
            _ => io::ErrorKind::Other,
        };
        Err(io::Error::new(kind, format!("{status}: {complaint}")))
    }

    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            // What cannot be read is as good as nothing said.
            let _unread = errors.read_to_string(&mut text);
        }
        text.trim_end().to_owned()
    }

    /// Closes the child's standard input, waits for its end, and detaches what it left mounted.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.is_ended = true;
        drop(self.child.stdin.take());
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if start.elapsed() > PATIENCE {
                self.child.kill()?;
                break self.child.wait()?;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        if !status.success() || status.signal().is_some() {
            mounts::detach_below(&self.mountpoint)?;
        }
        Ok(status)
    }
}

impl Drop for SlowFs {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if let Err(error) = self.end() {
            crate::skip::note(&format!("slow file system not ended: {error}"));
        }
    }
}
