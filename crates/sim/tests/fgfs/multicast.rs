//! STAT reads a large executable: each daemon by itself, or one for all, down a tree (figures 8 and 9).

use atta_sim::FileServer;

use crate::paper::{DIRECT_S, KULL_BYTES, MULTICAST_S, SAMPLE_S, error};
use crate::ranks::RANKS_PER_HOST;

/// STAT has one daemon on each host.
fn daemons(processes: u32) -> f64 {
    f64::from(processes / RANKS_PER_HOST)
}

/// The server behind the time in which all daemons read. Its rate is all that follows from one number.
fn server() -> FileServer {
    FileServer::of_bytes(daemons(DIRECT_S.0) * KULL_BYTES, DIRECT_S.1 - SAMPLE_S)
}

/// A tree whose processes receive the whole file before they send it. Twice as many daemons take one transfer more.
#[derive(Clone, Copy, Debug)]
struct Tree {
    read_s: f64,
    transfer_s: f64,
}

impl Tree {
    fn calibrated((processes, seconds): (u32, f64)) -> Self {
        let read_s = server().last_s(1.0, 1.0, KULL_BYTES);
        let transfer_s = (seconds - SAMPLE_S - read_s) / daemons(processes).log2();
        Self { read_s, transfer_s }
    }

    fn total_s(&self, processes: u32) -> f64 {
        self.read_s + self.transfer_s * daemons(processes).log2() + SAMPLE_S
    }
}

#[test]
fn multicast_of_twice_as_many_is_predicted() {
    let [small, large] = MULTICAST_S;
    let tree = Tree::calibrated(small);
    let predicted = tree.total_s(large.0);
    let error = error(predicted, large.1);
    println!(
        "{:.0} MB/s of the server, read once in {:.2} s, {:.2} s a transfer ({:.0} MB/s); {} processes: {predicted:.2} s, {:+.1} %",
        KULL_BYTES / server().last_s(1.0, 1.0, KULL_BYTES) / 1e6,
        tree.read_s,
        tree.transfer_s,
        KULL_BYTES / tree.transfer_s / 1e6,
        large.0,
        error * 100.0
    );
    assert!(error.abs() < 0.02, "{error}");
}

/// The paper has a factor of 52.
#[test]
fn multicast_saves_what_the_paper_says() {
    let (processes, seconds) = DIRECT_S;
    let factor = seconds / Tree::calibrated(MULTICAST_S[0]).total_s(processes);
    println!("{processes} processes: {factor:.1} times");
    assert!((52.0..54.0).contains(&factor), "{factor}");
    for processes in [256, 1024, 4096, 16_384, 32_768] {
        let direct = server().last_s(daemons(processes), 1.0, KULL_BYTES) + SAMPLE_S;
        let tree = Tree::calibrated(MULTICAST_S[0]).total_s(processes);
        println!("{processes} processes: {direct:.0} s, {} opens; {tree:.1} s, 1 open", daemons(processes));
        assert!(tree < direct);
    }
}
