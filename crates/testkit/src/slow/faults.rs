//! All rules of a mount, with their use counts. It decides the effect on each request and serves nothing itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::fault::{Effect, Fault};
use super::glob;
use super::operation::Operation;
use crate::random::mix;

/// How long requests wait for each other.
const TOGETHER: Duration = Duration::from_secs(10);

/// The rules, in the order of their evaluation: the first match applies.
#[derive(Debug)]
pub(super) struct Faults {
    seed: u64,
    rules: Vec<(Fault, AtomicU64)>,
    /// Total bytes written.
    written: AtomicU64,
    /// Whether `armed` rules apply.
    is_armed: Arc<AtomicBool>,
    /// Number of requests that wait for each other, by the number of the rule.
    gathered: Mutex<HashMap<u64, u64>>,
    more: Condvar,
}

impl Faults {
    pub(super) fn new(rules: &[Fault], seed: u64, is_armed: &Arc<AtomicBool>) -> Self {
        let rules = rules.iter().map(|rule| (rule.clone(), AtomicU64::new(0))).collect();
        let (gathered, more) = (Mutex::default(), Condvar::new());
        Self { seed, rules, written: AtomicU64::new(0), is_armed: Arc::clone(is_armed), gathered, more }
    }

    /// Whether there are no rules. Then no paths are needed.
    pub(super) const fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Counts bytes written.
    pub(super) fn add_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What happens to a request on an entry with this path below the root; a delay has happened by then. `bytes` are those that
    /// a write is of.
    pub(super) fn meet(&self, operation: Operation, path: &[u8], bytes: u64) -> Option<Effect> {
        for (number, (rule, met)) in (0..).zip(&self.rules) {
            let is_about = rule.operations.is_empty() || rule.operations.contains(&operation);
            let is_waiting = rule.is_armed && !self.is_armed.load(Ordering::Acquire);
            if !is_about || is_waiting || !glob::matches_path(rule.pattern.as_bytes(), path) {
                continue;
            }
            let written = self.written.load(Ordering::Relaxed);
            let is_write = operation == Operation::Write;
            let is_early = if is_write { written + bytes <= rule.after } else { written < rule.after };
            if rule.after > 0 && is_early {
                continue;
            }
            if rule.after > written && is_write {
                // A full disk accepts a write up to its remaining space.
                return u32::try_from(rule.after - written).ok().map(Effect::Short);
            }
            let count = met.fetch_add(1, Ordering::Relaxed);
            let is_turn = count >= rule.skip && rule.times.is_none_or(|times| count - rule.skip < times);
            if !is_turn || mix(self.seed ^ mix(number) ^ count) % 100 >= rule.percent {
                continue;
            }
            match rule.effect {
                Effect::Delay(milliseconds) => std::thread::sleep(Duration::from_millis(milliseconds)),
                Effect::Together(wanted) if self.gather(number, wanted) => {}
                Effect::Together(_) => {
                    return Some(Effect::Error(rustix::io::Errno::TIMEDOUT.raw_os_error()));
                }
                effect => return Some(effect),
            }
        }
        None
    }

    /// Waits until this many requests have met a rule. Returns whether they have.
    fn gather(&self, rule: u64, wanted: u64) -> bool {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        *gathered.entry(rule).or_default() += 1;
        self.more.notify_all();
        let are_few =
            |gathered: &mut HashMap<u64, u64>| gathered.get(&rule).is_some_and(|some| *some < wanted);
        let waited = self.more.wait_timeout_while(gathered, TOGETHER, are_few);
        let (mut gathered, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        if outcome.timed_out() {
            *gathered.entry(rule).or_default() -= 1;
        }
        !outcome.timed_out()
    }

    /// Flips one bit of some bytes, chosen by the seed and by their offset in the file.
    pub(super) fn flip(&self, bytes: &mut [u8], offset: u64) {
        if let Some(last) = bytes.len().checked_sub(1) {
            let draw = mix(self.seed ^ mix(offset));
            let at = usize::try_from(draw >> 3).unwrap_or(0) % (last + 1);
            bytes[at] ^= 1 << (draw & 7);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rules: &[&str]) -> Faults {
        let rules: Vec<_> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        Faults::new(&rules, 7, &Arc::default())
    }

    #[test]
    fn first_matching_rule_counts_as_often_as_given() {
        let faults = faults(&["read:x:EIO:skip=1:times=2", "read:*:short=3", "any:y:EPERM"]);
        let reads = [(); 5].map(|()| faults.meet(Operation::Read, b"a/x", 0));
        let (error, short) = (Some(Effect::Error(5)), Some(Effect::Short(3)));
        assert_eq!(reads, [short, error, error, short, short]);
        assert_eq!(faults.meet(Operation::Write, b"a/x", 9), None);
        assert_eq!(faults.meet(Operation::Rmdir, b"y", 0), Some(Effect::Error(1)));
    }

    #[test]
    fn a_rule_that_waits_for_a_word_counts_after_it() {
        let (rules, word) = (["any:*:EIO:armed".parse().unwrap()], Arc::default());
        let faults = Faults::new(&rules, 1, &word);
        assert_eq!(faults.meet(Operation::Read, b"x", 0), None);
        word.store(true, Ordering::Release);
        assert_eq!(faults.meet(Operation::Read, b"x", 0), Some(Effect::Error(5)));
    }

    #[test]
    fn requests_wait_for_each_other() {
        let faults = faults(&["fsync:*:together=3"]);
        let meet = || faults.meet(Operation::Fsync, b"x", 0);
        std::thread::scope(|scope| {
            let met = [(); 3].map(|()| scope.spawn(meet));
            assert!(met.into_iter().all(|met| met.join().unwrap().is_none()));
        });
        assert_eq!(meet(), None, "they came");
    }

    #[test]
    fn a_disk_runs_full_at_its_byte() {
        let faults = faults(&["write,create:*:ENOSPC:after=10"]);
        assert_eq!(faults.meet(Operation::Write, b"x", 8), None);
        faults.add_written(8);
        assert_eq!(faults.meet(Operation::Write, b"x", 8), Some(Effect::Short(2)));
        assert_eq!(faults.meet(Operation::Create, b"x", 0), None);
        faults.add_written(2);
        assert_eq!(faults.meet(Operation::Write, b"x", 1), Some(Effect::Error(28)));
        assert_eq!(faults.meet(Operation::Create, b"x", 0), Some(Effect::Error(28)));
    }

    #[test]
    fn some_of_a_hundred_are_chosen_by_the_seed() {
        let rules = ["read:*:EIO:percent=20".parse().unwrap()];
        let count = |seed| {
            let faults = Faults::new(&rules, seed, &Arc::default());
            (0..1000).map(|_| faults.meet(Operation::Read, b"x", 0).is_some()).collect::<Vec<_>>()
        };
        let (one, other) = (count(1), count(2));
        assert_eq!(one, count(1));
        assert_ne!(one, other);
        let hits = one.iter().filter(|hit| **hit).count();
        assert!((150..250).contains(&hits), "{hits}");
    }

    #[test]
    fn one_bit_is_flipped() {
        let faults = faults(&[]);
        let mut bytes = [0_u8; 100];
        faults.flip(&mut bytes, 5);
        assert_eq!(bytes.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        faults.flip(&mut bytes, 5);
        assert_eq!(bytes, [0; 100]);
        faults.flip(&mut [], 5);
    }
}
