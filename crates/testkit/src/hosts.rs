//! Several emulated hosts on one machine, for tests of ranks on more than one host. Each has its own network, host name, processes, mounts
//! and shared memory. A switch joins them. Needs root and Debian's iproute2 and util-linux. It does not model a slow or failing network.
//! Hosts share the machine's files, except for what a test mounts.
//!
//! ```text
//!   front: launchers run here, and reach the hosts through the agent
//!     │ bridge 198.51.100.254
//!     ├── atta1 198.51.100.1
//!     ├── atta2 198.51.100.2   each a keeper: `unshare ... cat`, whose input ends when this value is dropped
//!     └── atta3 198.51.100.3
//! ```
//!
//! Namespaces have no names outside. They are reached through the process that keeps them, so any number of these values can exist at once,
//! with the same addresses. A keeper ends with its input: when the value is dropped, or when the test program ends for any reason. The
//! keeper is the first process of its host. When it ends, the kernel ends all other processes of the host and removes the namespaces.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::scratch::Scratch;
use crate::skip::{is_root, note};

/// Hosts that a front can launch on.
#[derive(Debug)]
pub struct Hosts {
    // Dropped in this order: the scratch directory holds what is mounted on the hosts.
    hosts: Vec<Keeper>,
    front: Keeper,
    agent: PathBuf,
    _scratch: Scratch,
}

/// A process that keeps its own namespaces alive.
#[derive(Debug)]
struct Keeper {
    process: Child,
    input: Option<ChildStdin>,
}

impl Hosts {
    /// Creates this many hosts, named from `atta1` up.
    ///
    /// # Errors
    /// `PermissionDenied` without root or if namespaces cannot be made; `Unsupported` without the programs; otherwise their error.
    pub fn new(count: u8) -> io::Result<Self> {
        if !is_root() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "emulated hosts need root"));
        }
        let scratch = Scratch::new("hosts")?;
        let names: Vec<String> = (1..=count).map(|number| format!("atta{number}")).collect();
        let table = scratch.join("hosts");
        let lines = (1..).zip(&names).map(|(number, name)| format!("198.51.100.{number} {name}\n"));
        let front_line = "127.0.0.1 localhost\n198.51.100.254 atta0\n".to_owned();
        fs::write(&table, std::iter::once(front_line).chain(lines).collect::<String>())?;
        // The front sees the machine's processes, which the agent requires.
        let front = Keeper::start(&[], "atta0", &table)?;
        front.run("ip link add bridge type bridge && ip addr add 198.51.100.254/24 dev bridge && ip link set bridge up")?;
        let mut hosts = Vec::new();
        for (number, name) in (1..).zip(&names) {
            let own = ["--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"];
            let host = Keeper::start(&own, name, &table)?;
            host.run("mount -t tmpfs tmpfs /dev/shm")?;
            host.connect(number, &front)?;
            hosts.push(host);
        }
        let agent = scratch.join("agent");
        write_agent(&agent, &names, &hosts)?;
        Ok(Self { hosts, front, agent, _scratch: scratch })
    }

    /// Number of hosts.
    #[must_use]
    pub fn count(&self) -> usize {
        self.hosts.len()
    }

    /// Name of a host, by its index from 0.
    #[must_use]
    pub fn name(&self, host: usize) -> String {
        format!("atta{}", host + 1)
    }

    /// Returns a command on a host, by its index from 0. The caller adds the program and its arguments.
    #[must_use]
    pub fn on(&self, host: usize) -> Command {
        self.hosts[host].command()
    }

    /// Returns a command on the front, from which all hosts are reachable.
    #[must_use]
    pub fn on_front(&self) -> Command {
        self.front.command()
    }

    /// The program that replaces `ssh` for a launcher on the front: `agent [-OPTION]... HOST COMMAND...`.
    #[must_use]
    pub fn agent(&self) -> &Path {
        &self.agent
    }

    /// The address of the network between them, with its prefix length.
    #[must_use]
    pub fn network(&self) -> &'static str {
        "198.51.100.0/24"
    }
}

impl Keeper {
    /// Starts a keeper with its own network, host name and mounts, and with these options of `unshare`.
    fn start(options: &[&str], name: &str, table: &Path) -> io::Result<Self> {
        let begin = "hostname \"$0\" && mount --bind \"$1\" /etc/hosts && ip link set lo up && echo ready && exec cat";
        let mut command = Command::new("unshare");
        command.args(["--net", "--uts", "--mount"]).args(options).args(["sh", "-c", begin, name]).arg(table);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| missing(&error, "unshare"))?;
        let input = process.stdin.take();
        let output = process.stdout.take();
        let keeper = Self { process, input };
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        if line == "ready\n" { Ok(keeper) } else { Err(keeper.refusal()) }
    }

    /// Returns the error that prevented the start.
    fn refusal(mut self) -> io::Error {
        self.input = None;
        let mut message = String::new();
        if let Some(error) = self.process.stderr.take() {
            // Output that cannot be read is not reported.
            let _unread = io::read_to_string(error).map(|text| message = text);
        }
        let message = message.trim();
        let kind = match message {
            _ if message.contains("not found") => io::ErrorKind::Unsupported,
            _ if message.contains("not permitted") || message.contains("ermission denied") => {
                io::ErrorKind::PermissionDenied
            }
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, format!("cannot create a host: {message}"))
    }

    /// Returns its namespaces, as options of `nsenter`.
    fn places(&self) -> Vec<String> {
        let id = self.process.id();
        let place = |kind: &str, file: &str| format!("--{kind}=/proc/{id}/ns/{file}");
        let mut places =
            vec![place("net", "net"), place("uts", "uts"), place("ipc", "ipc"), place("mount", "mnt")];
        // The keeper of a host is the parent of the first process in it.
        places.push(place("pid", "pid_for_children"));
        places
    }

    fn command(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(self.places());
        command
    }

    fn run(&self, script: &str) -> io::Result<()> {
        run(self.command().args(["sh", "-c", script]))
    }

    /// Connects this host to the bridge of the front.
    fn connect(&self, number: u8, front: &Self) -> io::Result<()> {
        // Called from outside: the front is named by its process, which a host does not see.
        let port = format!("port{number}");
        let (net, peer) =
            (format!("--net=/proc/{}/ns/net", self.process.id()), front.process.id().to_string());
        let link = ["ip", "link", "add", "eth0", "type", "veth", "peer", "name", &port, "netns", &peer];
        run(Command::new("nsenter").arg(net).args(link))?;
        self.run(&format!("ip addr add 198.51.100.{number}/24 dev eth0 && ip link set eth0 up"))?;
        front.run(&format!("ip link set {port} master bridge && ip link set {port} up"))
    }
}

impl Drop for Keeper {
    /// Ends the keeper, and with it its host.
    fn drop(&mut self) {
        self.input = None;
        if let Err(error) = self.process.wait() {
            note(&format!("cannot wait for the keeper of a host: {error}"));
        }
    }
}

/// Writes the program that enters a host as `ssh` would.
fn write_agent(path: &Path, names: &[String], hosts: &[Keeper]) -> io::Result<()> {
    // Process numbers on hosts are small and similar, and launchers use them in the names of their files in TMPDIR.
    let place = path.parent().unwrap_or(path).join("tmp");
    for name in names {
        fs::create_dir_all(place.join(name))?;
    }
    let cases = names.iter().zip(hosts).map(|(name, host)| {
        let (places, place) = (host.places().join(" "), place.join(name));
        format!("  {name}) exec nsenter {places} env TMPDIR={} sh -c \"$*\" ;;\n", place.display())
    });
    let cases: String = cases.collect();
    let script = format!(
        "#!/bin/sh\nwhile :; do case \"$1\" in -*) shift ;; *) break ;; esac; done\n\
         host=$1\nshift\ncase $host in\n{cases}  *) echo \"no such host: $host\" >&2; exit 255 ;;\nesac\n"
    );
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(path)?;
    file.write_all(script.as_bytes())
}

fn missing(error: &io::Error, program: &str) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(io::ErrorKind::Unsupported, format!("{program} is not installed"))
        }
        kind => io::Error::new(kind, error.to_string()),
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output().map_err(|error| missing(&error, "nsenter"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}", said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skip::unless_available;

    fn output_of(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[test]
    fn hosts_have_own_names_and_reach_each_other() {
        let test = "hosts_have_own_names_and_reach_each_other";
        // Two sets at once, with the same addresses.
        let Some(hosts) = unless_available(test, Hosts::new(2)) else { return };
        let others = Hosts::new(1).unwrap();
        assert_eq!(output_of(hosts.on(1).arg("hostname")), "atta2");
        assert_eq!(output_of(others.on(0).arg("hostname")), "atta1");
        assert_eq!(
            output_of(Command::new(hosts.agent()).args(["-x", "atta1", "echo $(hostname) 'a  b'"])),
            "atta1 a  b"
        );
        assert!(!Command::new(hosts.agent()).args(["atta3", "true"]).output().unwrap().status.success());
        output_of(hosts.on(0).args(["touch", "/dev/shm/atta-test-of-hosts"]));
        assert_eq!(output_of(hosts.on(0).args(["ls", "/dev/shm"])), "atta-test-of-hosts");
        assert_eq!(output_of(hosts.on(1).args(["ls", "/dev/shm"])), "");
        assert_eq!(output_of(others.on(0).args(["ls", "/dev/shm"])), "");
        // One host listens, the other one connects.
        let server = "import socket\ns = socket.create_server(('atta2', 0))\nprint(s.getsockname()[1], flush=True)\nprint(s.accept()[0].recv(9))";
        let mut listens = hosts.on(1).args(["python3", "-c", server]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(listens.stdout.take().unwrap());
        let mut port = String::new();
        output.read_line(&mut port).unwrap();
        let client =
            format!("import socket\nsocket.create_connection(('atta2', {})).send(b'hello')", port.trim());
        output_of(hosts.on(0).args(["python3", "-c", &client]));
        assert_eq!(io::read_to_string(output).unwrap(), "b'hello'\n");
        listens.wait().unwrap();
    }

    #[test]
    fn nothing_is_left_of_a_host_when_a_test_panics() {
        let test = "nothing_is_left_of_a_host_when_a_test_panics";
        let Some(hosts) = unless_available(test, Hosts::new(1)) else { return };
        let keeper = hosts.hosts[0].process.id();
        let mut sleeps = hosts.on(0);
        let mut sleeps =
            sleeps.args(["sh", "-c", "echo; exec sleep 1000"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(sleeps.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "\n");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _hosts = hosts;
            std::panic::resume_unwind(Box::new("a failing test"));
        }));
        assert!(panicked.is_err());
        // The kernel ends it with the first process of its host; otherwise it would wait forever.
        assert!(!sleeps.wait().unwrap().success());
        assert!(!Path::new(&format!("/proc/{keeper}")).exists());
    }
}
