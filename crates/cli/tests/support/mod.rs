//! What the tests of the program share: they run the built binary as a user would, with a limit on its time, and look
//! at what it printed, wrote and exited with. Trees and slow or failing file systems come from testkit; a Python
//! program (`tests/python`) is the second opinion on every format that other programs read.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use atta_testkit::scratch::Scratch;
use atta_testkit::skip;
use serde_json::Value;

/// How long one command may take. Nothing here needs it: it turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(180);

/// The user who owns nothing.
pub(crate) const NOBODY: u32 = 65534;

/// The program under test.
pub(crate) fn atta() -> Command {
    program(Path::new(env!("CARGO_BIN_EXE_atta")))
}

/// `atta walk` with these arguments.
pub(crate) fn walk<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Command {
    let mut command = atta();
    command.arg("walk").args(arguments);
    command
}

fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    // The width of the terminal that the tests were started from must not show.
    command.stdin(Stdio::null()).env_remove("COLUMNS").env("LC_ALL", "C.UTF-8");
    // The jobs of tests are not those of their user.
    command.env("XDG_STATE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"));
    command
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ran {
    status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Ran {
    /// The exit code; a signal shows as -1, which no test expects.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Itself, if it exited so; the failure shows everything.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert!(
            self.code() == code,
            "{}, not exit code {code}\n--- stdout ---\n{}\n--- stderr ---\n{}",
            self.status,
            self.out(),
            self.err()
        );
        self
    }

    /// The JSON on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        parse(&self.stdout)
    }

    /// The lines of standard error that begin so.
    pub(crate) fn errors(&self, beginning: &str) -> usize {
        self.err().lines().filter(|line| line.starts_with(beginning)).count()
    }
}

/// Bytes as JSON.
#[track_caller]
pub(crate) fn parse(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("not JSON: {error}: {}", String::from_utf8_lossy(bytes)))
}

/// Lines of NDJSON.
#[track_caller]
pub(crate) fn parse_lines(bytes: &[u8]) -> Vec<Value> {
    assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "the last line is cut");
    bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(parse).collect()
}

/// Runs a command to its end.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Ran {
    Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped())).finish()
}

/// Runs a command with this standard input.
#[track_caller]
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command);
    let mut pipe = running.child.stdin.take().expect("a pipe for standard input");
    match pipe.write_all(input) {
        // The program may refuse its input after the first bytes.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => panic!("standard input: {error}"),
        _ => drop(pipe),
    }
    running.finish()
}

/// A command that runs. Its outputs are read as they come. Dropping it kills the command.
pub(crate) struct Running {
    child: Child,
    outputs: Vec<std::thread::JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Starts it; what it shall be read from must be pipes.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let outputs = vec![drain(stdout), drain(stderr)];
        Self { child, outputs }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).expect("send a signal to the child");
    }

    /// Waits until the command catches SIGTERM, or has ended: a signal before that would end it as it ends any program.
    pub(crate) fn wait_for_handlers(&mut self) {
        let status = format!("/proc/{}/status", self.child.id());
        let is_caught = || {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            mask.is_some_and(|mask| mask >> (rustix::process::Signal::TERM.as_raw() - 1) & 1 == 1)
        };
        self.wait_until(is_caught);
    }

    /// Waits until something is so, or the command has ended.
    pub(crate) fn wait_until(&mut self, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            let ended = self.child.try_wait().expect("look at the child").is_some();
            if ended || start.elapsed() > PATIENCE {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The command's standard input, to be held open.
    pub(crate) fn take_input(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits until a file is there and has so many lines, or the command has ended.
    pub(crate) fn wait_for_lines(&mut self, path: &Path, count: usize) {
        let found =
            || std::fs::read(path).map_or(0, |text| text.iter().filter(|&&byte| byte == b'\n').count());
        self.wait_until(|| found() >= count);
    }

    /// Sends a signal again and again until the command has ended.
    #[track_caller]
    pub(crate) fn finish_with(mut self, signal: rustix::process::Signal) -> Ran {
        let start = Instant::now();
        while self.child.try_wait().expect("look at the child").is_none() && start.elapsed() < PATIENCE {
            self.signal(signal);
            std::thread::sleep(Duration::from_millis(5));
        }
        self.finish()
    }

    #[track_caller]
    pub(crate) fn finish(mut self) -> Ran {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("look at the child") {
                break status;
            }
            if start.elapsed() > PATIENCE {
                // Before it is killed: a call that the kernel cannot interrupt may keep it.
                let calls = system_calls(self.child.id());
                panic!("still running after {} s; system calls of its threads: {calls}", PATIENCE.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let outputs = std::mem::take(&mut self.outputs);
        let mut outputs = outputs.into_iter().map(|output| output.join().expect("read an output"));
        let (stdout, stderr) = (outputs.next().unwrap_or_default(), outputs.next().unwrap_or_default());
        Ran { status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, where the test goes well.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// What each thread of a process waits for: `/proc/PID/task/TID/syscall`, the number of the call and its arguments.
fn system_calls(process: u32) -> String {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return String::new() };
    let of_thread = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("syscall"));
    let calls: Vec<String> = threads.filter_map(|thread| of_thread(thread.ok()?).ok()).collect();
    calls.join("; ").replace('\n', "")
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut bytes).expect("read an output");
        }
        bytes
    })
}

/// A directory of this name and mode 0755 for a test, with a tree's names below it.
pub(crate) fn scratch(label: &str) -> Scratch {
    let scratch = Scratch::new(label).expect("make a scratch directory");
    set_mode(scratch.path(), 0o755);
    scratch
}

/// The program as a user whom permissions bind: for root a copy of it that runs as nobody, in a directory that nobody
/// can reach. The copy and the trees of the test lie in the scratch directory that comes along.
pub(crate) fn unprivileged(test: &str) -> Option<(Scratch, impl Fn() -> Command + use<>)> {
    let scratch = Scratch::below(&std::env::temp_dir(), "nobody").expect("make a scratch directory");
    set_mode(scratch.path(), 0o755);
    let path = scratch.join("atta");
    // Not by this process: a child that another test starts at this moment would inherit the file open for writing, and
    // what is open for writing cannot be run (ETXTBSY).
    run(Command::new("cp").arg(env!("CARGO_BIN_EXE_atta")).arg(&path)).expect_code(0);
    set_mode(&path, 0o755);
    let command = move || {
        let mut command = program(&path);
        if skip::is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    };
    // Its working directory must be open to it, too.
    let mut version = command();
    match version.arg("--version").stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Some((scratch, command)),
        outcome => {
            let place = scratch.path().display();
            skip::skipped(test, &format!("another user cannot run a program in {place}: {outcome:?}"));
            None
        }
    }
}

/// Makes an entry somebody else's.
pub(crate) fn give_to_nobody(path: &Path) {
    if skip::is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("change the owner");
    }
}

pub(crate) fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set a mode");
}

pub(crate) fn make_directory(path: impl AsRef<Path>) -> PathBuf {
    std::fs::create_dir(path.as_ref()).expect("make a directory");
    path.as_ref().to_path_buf()
}

pub(crate) fn make_file(path: impl AsRef<Path>, bytes: &[u8]) -> PathBuf {
    std::fs::write(path.as_ref(), bytes).expect("make a file");
    path.as_ref().to_path_buf()
}

pub(crate) fn make_link(target: impl AsRef<Path>, path: impl AsRef<Path>) -> PathBuf {
    std::os::unix::fs::symlink(target, path.as_ref()).expect("make a link");
    path.as_ref().to_path_buf()
}

/// The names in a directory, sorted.
pub(crate) fn names_in(path: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(path).expect("read a directory");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("read an entry").file_name()).collect();
    names.sort();
    names
}

/// None: it has vanished.
fn there<T>(looked: std::io::Result<T>) -> Option<T> {
    match looked {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        looked => Some(looked.expect("look at a name")),
    }
}

/// NUL-separated records, sorted.
pub(crate) fn records(bytes: &[u8]) -> Vec<Vec<u8>> {
    sorted_by(bytes, 0)
}

/// Lines, sorted. A name with a line end makes two of them, here and there.
pub(crate) fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    sorted_by(bytes, b'\n')
}

fn sorted_by(bytes: &[u8], separator: u8) -> Vec<Vec<u8>> {
    assert!(bytes.is_empty() || bytes.ends_with(&[separator]), "the last record is cut");
    let mut records: Vec<_> = bytes.split(|&byte| byte == separator).map(<[u8]>::to_vec).collect();
    records.pop();
    records.sort();
    records
}

/// What GNU find prints.
#[track_caller]
pub(crate) fn find<A: AsRef<OsStr>>(directory: &Path, arguments: impl IntoIterator<Item = A>) -> Vec<u8> {
    let mut command = Command::new("find");
    let ran = run(command.args(arguments).current_dir(directory).stdin(Stdio::null()));
    ran.expect_code(0).stdout
}

/// A Python program of `tests/python`, or none after saying why the test is skipped. It runs in the environment that
/// `./check setup` makes, which has the readers of Parquet, else with the system's Python if it `needs` none of them.
pub(crate) fn python(test: &str, script: &str, needs: &[&str]) -> Option<Command> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.check/venv/bin/python3");
    let interpreter = if own.exists() { own.into_os_string() } else { "python3".into() };
    let imports: String = needs.iter().map(|module| format!("import {module}\n")).collect();
    let mut probe = Command::new(&interpreter);
    match probe.args(["-c", &imports]).stdin(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        _ => {
            let lack = format!("no Python with {}; ./check setup makes one", needs.join(", "));
            skip::skipped(test, &lack);
            return None;
        }
    }
    let mut command = Command::new(interpreter);
    command.arg("-B").arg(tests.join(script)).stdin(Stdio::null());
    Some(command)
}

/// Values by a path of keys, as in `totals.by_kind.file`.
#[track_caller]
pub(crate) fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.')
        .fold(value, |value, key| value.get(key).unwrap_or_else(|| panic!("no {key} of {path} in {value}")))
}

#[track_caller]
pub(crate) fn number(value: &Value, path: &str) -> u64 {
    at(value, path).as_u64().unwrap_or_else(|| panic!("{path} is no number in {value}"))
}

/// What a copy has come to, from its JSON.
pub(crate) fn totals(ran: &Ran) -> Vec<Value> {
    let json = ran.json();
    let counts =
        ["files", "directories", "symlinks", "hard_links", "special_files", "bytes", "skipped", "failed"];
    counts.iter().chain(&["not_kept", "names_elsewhere"]).map(|count| at(&json, count).clone()).collect()
}

pub(crate) fn signature(ran: &Ran) -> String {
    let json = ran.json();
    at(&json, "signature").as_str().expect("a signature").to_owned()
}

/// Temporary names in a directory, which is there, and below it. A copy may be running: names that have vanished are passed by.
pub(crate) fn temporary(directory: &Path) -> Vec<PathBuf> {
    assert!(directory.is_dir(), "{}", directory.display());
    temporary_below(directory)
}

fn temporary_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Some(entries) = there(std::fs::read_dir(directory)) else { return found };
    for entry in entries {
        let Some(entry) = there(entry) else { break };
        let path = entry.path();
        let Some(metadata) = there(path.symlink_metadata()) else { continue };
        if metadata.is_dir() {
            found.extend(temporary_below(&path));
        }
        if entry.file_name().as_encoded_bytes().starts_with(b".atta.") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// How many entries of each kind find counts, by the name that the program uses.
pub(crate) fn kinds_by_find(root: &Path) -> BTreeMap<&'static str, u64> {
    let letters = find(Path::new("/"), [root.as_os_str(), "-printf".as_ref(), "%y".as_ref()]);
    let names = [
        (b'f', "file"),
        (b'd', "directory"),
        (b'l', "symlink"),
        (b'p', "fifo"),
        (b's', "socket"),
        (b'c', "char"),
        (b'b', "block"),
    ];
    let count = |letter| letters.iter().filter(|&&each| each == letter).count() as u64;
    names.into_iter().map(|(letter, name)| (name, count(letter))).collect()
}

/// A path that is bytes.
pub(crate) fn path_of(bytes: impl Into<Vec<u8>>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.into()))
}

/// The bytes of a path.
pub(crate) fn bytes_of(path: &(impl AsRef<OsStr> + ?Sized)) -> Vec<u8> {
    path.as_ref().as_bytes().to_vec()
}

/// A path with a slash at its end.
pub(crate) fn with_slash(path: &Path) -> PathBuf {
    let mut bytes = bytes_of(path);
    bytes.push(b'/');
    path_of(bytes)
}
