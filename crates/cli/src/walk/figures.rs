//! Data for the figures of a walk (`--plots`). The program's `figures.rs` chooses the figures and their look.

use std::path::Path;

use atta_ops::walk::Profile;

use super::report::Whole;
use super::threads::ranks_per_row;
use crate::figures::{Run, Sent, write};
use crate::run::fatal::Fatal;

/// Draws all figures into a directory, which is created if it does not exist.
pub(crate) fn draw(directory: &Path, whole: &Whole) -> Result<(), Fatal> {
    write(directory, run(whole).figures())
}

fn run(whole: &Whole) -> Run {
    let all = whole.profile.entries.max(1) as f64;
    let share = |entries: u64| entries as f64 / all * 100.0;
    let threads = whole.threads.iter().map(|thread| share(thread.profile.entries)).collect();
    let mut shares = vec![("threads".to_owned(), threads)];
    if whole.thread_count != whole.threads.len() as u64 {
        // These rows are per rank, not per thread.
        shares.clear();
    }
    if !whole.ranks.is_empty() {
        let ranks = whole.ranks.iter().map(|rank| share(rank.entries)).collect();
        shares.insert(0, ("ranks".to_owned(), ranks));
    }
    let communication = whole.ranks.iter().map(|rank| rank.communication_seconds).sum();
    let waiting = whole.threads.iter().map(|thread| thread.worker.waiting.as_secs_f64()).sum();
    let ranks = whole.ranks.iter().map(|rank| {
        (rank.rank.to_string(), parts(rank.profile(), rank.communication_seconds, rank.waiting()))
    });
    let ranks_per_row = ranks_per_row(whole.ranks.len() as u32);
    let pairs: Vec<Sent> = whole
        .ranks
        .iter()
        .flat_map(|rank| {
            let from = rank.rank / ranks_per_row;
            let row = move |&(to, messages, bytes): &(u32, _, _)| Sent {
                from,
                to: to / ranks_per_row,
                messages,
                bytes,
            };
            rank.traffic.iter().map(row)
        })
        .collect();
    Run {
        shares,
        ranks: ranks.collect(),
        all: parts(whole.profile, communication, waiting),
        size: whole.ranks.len().div_ceil(ranks_per_row as usize),
        ranks_per_row,
        sent: (pairs.iter().map(|sent| sent.messages).sum(), pairs.iter().map(|sent| sent.bytes).sum()),
        pairs: Some(pairs),
    }
}

fn parts(profile: Profile, communication: f64, waiting: f64) -> Vec<(String, f64)> {
    let seconds = [
        ("readdir", profile.readdir.as_secs_f64()),
        ("stat", profile.stat.as_secs_f64()),
        ("callback", profile.callback.as_secs_f64()),
        ("communication", communication),
        ("idle", waiting),
    ];
    seconds.map(|(part, seconds)| (part.to_owned(), seconds)).to_vec()
}
