//! The links of emulated nodes: their rate is limited, and measured with one TCP connection at a time.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use atta_testkit::hosts::Hosts;

use crate::Outcome;

/// Prints its port, then the seconds between the first byte of a connection and the last.
const RECEIVER: &str = "import socket,time\n\
    s=socket.create_server(('0.0.0.0',0)); print(s.getsockname()[1],flush=True)\n\
    c=s.accept()[0]; n=len(c.recv(1)); t=time.monotonic()\n\
    while True:\n  b=c.recv(1<<20)\n  if not b: break\n  n+=len(b)\n\
    print(n,time.monotonic()-t,flush=True)";
const SENDER: &str = "import socket,sys\n\
    c=socket.create_connection((sys.argv[1],int(sys.argv[2]))); b=bytes(1<<20)\n\
    for _ in range(int(sys.argv[3])>>20): c.sendall(b)";

/// Runs a command to its end.
pub(crate) fn must(command: &mut Command) -> Outcome<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
}

/// Limits what a node sends, and what is sent to it.
pub(crate) fn shape(hosts: &Hosts, node: usize, rate: &str) -> Outcome<()> {
    let limit = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"];
    must(hosts.on(node).args(["tc", "qdisc", "add", "dev", "eth0"]).args(limit))?;
    let port = format!("port{}", node + 1);
    must(hosts.on_front().args(["tc", "qdisc", "add", "dev", &port]).args(limit))
}

/// What goes from each node to the next one, in MiB/s.
pub(crate) fn rates(hosts: &Hosts, bytes: u64) -> Outcome<Vec<f64>> {
    (1..hosts.count()).map(|to| rate(hosts, (to - 1, to), bytes)).collect()
}

fn rate(hosts: &Hosts, (from, to): (usize, usize), bytes: u64) -> Outcome<f64> {
    let mut receiver = hosts.on(to).args(["python3", "-c", RECEIVER]).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(receiver.stdout.take().ok_or("no output")?).lines();
    let port = lines.next().ok_or("no port")??;
    must(hosts.on(from).args(["python3", "-c", SENDER, &hosts.name(to), &port, &bytes.to_string()]))?;
    let line = lines.next().ok_or("no time")??;
    receiver.wait()?;
    let (bytes, seconds) = line.split_once(' ').ok_or("no time")?;
    Ok(bytes.parse::<f64>()? / f64::from(1 << 20) / seconds.parse::<f64>()?)
}
