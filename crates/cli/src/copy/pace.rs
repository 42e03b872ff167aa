//! Estimates the rate of a copy, and the time left for the known work. It reads no clock and prints nothing: the estimate depends only on
//! the progress passed in.
//!
//! While names are still being found, the estimate is a lower bound: entries not yet seen are not counted. The work left is names that
//! were read and not looked at, directories that were not read, and bytes of large files; small files are copied where they are found. A
//! name costs as much as a MiB.

use std::time::Duration;

use atta_ops::copy::Progress;

/// Time between two samples; more frequent ones add nothing.
const PERIOD: Duration = Duration::from_millis(500);
/// Age at which a sample counts a third. With less, a pause for a sync passes for a new rate; with more, a new rate shows late.
const MEMORY: Duration = Duration::from_secs(10);
/// Earliest time of an estimate; earlier ones would be chance.
const LEAST: Duration = Duration::from_secs(3);
/// All names were found if nothing new was found for this long, and no known name is left to look at. Ranks report at different times, so
/// the sums of one moment prove nothing.
const STILL: Duration = Duration::from_secs(2);
/// Bytes that cost as much as a name.
const NAME_BYTES: f64 = (1 << 20) as f64;
/// Longer estimates than a year are not shown.
const SECONDS_MOST: f64 = 365.0 * 86_400.0;
/// A minute in seconds.
const MINUTE: f64 = 60.0;

/// The estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Outlook {
    /// Names are still being found, so the work left grows.
    pub(super) is_growing: bool,
    /// Time for the known work left; `None` if there is none, or if the rate is unknown.
    pub(super) seconds_left: Option<f64>,
    /// Rate of the last seconds; `None` if it is too early.
    pub(super) bytes_per_second: Option<f64>,
}

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Pace {
    last: Look,
    /// Past work and its time, as sums in which older samples count less.
    names: f64,
    bytes: f64,
    seconds: f64,
    /// Time since which nothing was found.
    still_since: Duration,
    outlook: Outlook,
}

/// A sample of the progress.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    elapsed: Duration,
    entries: u64,
    bytes: u64,
    known: u64,
    looked: u64,
}

impl Default for Pace {
    fn default() -> Self {
        let outlook = Outlook { is_growing: true, seconds_left: None, bytes_per_second: None };
        let still_since = Duration::ZERO;
        Self { last: Look::default(), names: 0.0, bytes: 0.0, seconds: 0.0, still_since, outlook }
    }
}

impl Pace {
    /// Takes a sample and returns the estimate. May be called at any rate.
    pub(super) fn look(&mut self, progress: &Progress) -> Outlook {
        let found = &progress.walk.profile;
        let now = Look {
            elapsed: progress.walk.elapsed,
            entries: found.entries,
            bytes: progress.bytes,
            known: found.known,
            looked: found.looked,
        };
        if now.elapsed >= self.last.elapsed + PERIOD {
            self.learn(now);
            let names_left = now.known.saturating_sub(now.looked) as f64;
            let bytes_left = progress.large_found.saturating_sub(progress.large_done) as f64;
            self.outlook = self.outlook(names_left + bytes_left / NAME_BYTES);
        }
        self.outlook
    }

    fn learn(&mut self, now: Look) {
        let before = std::mem::replace(&mut self.last, now);
        let passed = now.elapsed.saturating_sub(before.elapsed).as_secs_f64();
        let kept = (-passed / MEMORY.as_secs_f64()).exp();
        // Sums of ranks may be older than the previous ones.
        let more = |now: u64, before: u64| now.saturating_sub(before) as f64;
        self.names = self.names * kept + more(now.entries, before.entries);
        self.bytes = self.bytes * kept + more(now.bytes, before.bytes);
        self.seconds = self.seconds * kept + passed;
        if (now.known, now.looked) != (before.known, before.looked) {
            self.still_since = now.elapsed;
        }
    }

    fn outlook(&self, left: f64) -> Outlook {
        let Look { elapsed, known, looked, .. } = self.last;
        let is_growing = known != looked || elapsed < self.still_since + STILL;
        let is_known = elapsed >= LEAST;
        let pace = (self.names + self.bytes / NAME_BYTES) / self.seconds;
        let seconds_left = (is_known && left > 0.0).then_some(left / pace);
        Outlook {
            is_growing,
            seconds_left: seconds_left.filter(|seconds| *seconds < SECONDS_MOST),
            bytes_per_second: is_known.then_some(self.bytes / self.seconds),
        }
    }
}

/// The time left as text, in steps that a reader can follow: rounded up; a lower bound is rounded down.
pub(super) fn words(outlook: &Outlook) -> Option<String> {
    let round = |seconds: f64, step: u64| {
        let steps = seconds / step as f64;
        (if outlook.is_growing { steps.floor() } else { steps.ceil() }) as u64 * step
    };
    let time = outlook.seconds_left.map(|seconds| {
        if seconds < MINUTE {
            format!("{} s", round(seconds, 5))
        } else if seconds < 60.0 * MINUTE {
            format!("{} min", round(seconds, 60) / 60)
        } else if seconds < 48.0 * 60.0 * MINUTE {
            let minutes = round(seconds, 600) / 60;
            format!("{} h {} min", minutes / 60, minutes % 60)
        } else {
            format!("{} days", round(seconds, 86_400) / 86_400)
        }
    });
    // A bound of zero says nothing.
    let time = time.filter(|time| time != "0 s");
    match (time, outlook.is_growing) {
        (Some(time), true) => Some(format!(">= {time} left, still finding")),
        (Some(time), false) => Some(format!("{time} left")),
        (None, true) => Some("still finding".to_owned()),
        (None, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// State of a simulated copy.
    #[derive(Clone, Copy, Default)]
    struct At {
        milliseconds: u64,
        entries: u64,
        bytes: u64,
        names: [u64; 2],
        large: [u64; 2],
    }

    impl Pace {
        fn at(&mut self, at: At) -> Outlook {
            let At { milliseconds, entries, bytes, names: [known, looked], large: [found, done] } = at;
            let profile = atta_ops::walk::Profile { entries, known, looked, ..Default::default() };
            let elapsed = Duration::from_millis(milliseconds);
            let walk = atta_ops::walk::Progress { elapsed, threads: 2, stopping: None, profile };
            self.look(&Progress { walk, files: 0, bytes, large_found: found, large_done: done })
        }
    }

    fn about(outlook: Outlook, seconds: f64) -> bool {
        outlook.seconds_left.is_some_and(|left| (left / seconds - 1.0).abs() < 0.05)
    }

    #[test]
    fn time_left_of_one_known_large_file_is_shown() {
        let mut pace = Pace::default();
        let (found, each) = (1000 * MIB, 10 * MIB);
        for second in 1..=60_u64 {
            let done = second * each;
            let (names, large) = ([1, 1], [found, done]);
            let at = At { milliseconds: second * 1000, entries: 1, bytes: done, names, large };
            let outlook = pace.at(at);
            // The names were found in the first second; two more seconds without a change show that these are all.
            assert_eq!(outlook.is_growing, second < 3, "{second}");
            assert_eq!(outlook.seconds_left.is_some(), second >= 3, "{second}");
            assert!(second < 3 || about(outlook, (100 - second) as f64), "{second}: {outlook:?}");
            assert!(second < 3 || (outlook.bytes_per_second.unwrap() - each as f64).abs() < 1.0);
        }
    }

    #[test]
    fn known_work_is_a_growing_bound_during_the_walk() {
        let mut pace = Pace::default();
        let mut before = 0.0;
        for second in 1..=20_u64 {
            // 100 small files a second are copied, and 310 more names a second are found.
            let names = [410 * second, 100 * second];
            let at = At { milliseconds: second * 1000, entries: 100 * second, names, ..At::default() };
            let outlook = pace.at(at);
            assert!(outlook.is_growing);
            if second >= 3 {
                assert!(about(outlook, 3.1 * second as f64), "{second}: {outlook:?}");
                assert!(outlook.seconds_left > Some(before));
                before = outlook.seconds_left.unwrap();
            }
        }
        assert_eq!(words(&pace.outlook), Some(">= 1 min left, still finding".to_owned()));
    }

    #[test]
    fn pause_does_not_change_the_pace() {
        let mut pace = Pace::default();
        let (mut at, mut pauses) =
            (At { names: [1, 1], large: [100_000 * MIB, 0], ..At::default() }, Vec::new());
        for half in 1..=200_u64 {
            at.milliseconds = half * 500;
            // 100 MiB a second, with a pause of three seconds; then 10 MiB a second for fifty seconds.
            at.large[1] += match half {
                ..80 => 50 * MIB,
                80..86 => 0,
                86..100 => 50 * MIB,
                _ => 5 * MIB,
            };
            at.bytes = at.large[1];
            let left = pace.at(at).seconds_left;
            if (80..86).contains(&half) {
                pauses.push(left.unwrap());
            }
        }
        let most = pauses.iter().copied().fold(0.0, f64::max);
        assert!(most < 1.5 * 960.0, "three seconds without anything: {pauses:?}");
        let left = 100_000.0 - (at.large[1] / MIB) as f64;
        assert!(pace.outlook.seconds_left.unwrap() > 0.9 * left / 10.0, "{:?}", pace.outlook);
        assert!(pace.outlook.seconds_left.unwrap() < 1.01 * left / 10.0);
    }

    #[test]
    fn nothing_is_said_early_or_when_nothing_moves() {
        let mut pace = Pace::default();
        let at = At { names: [10, 0], large: [MIB, 0], ..At::default() };
        for milliseconds in (0..2_900).step_by(25) {
            let outlook = pace.at(At { milliseconds, bytes: milliseconds * 1000, ..at });
            assert_eq!((outlook.seconds_left, outlook.bytes_per_second), (None, None));
        }
        let mut pace = Pace::default();
        for milliseconds in (0..60_000).step_by(25) {
            let outlook = pace.at(At { milliseconds, ..at });
            assert_eq!((outlook.seconds_left, outlook.is_growing), (None, true));
        }
        // Sums that decrease, more done than found, and time that stands still.
        for numbers in [[5, 3, 7, 1], [1, 9, 0, 4], [0; 4]] {
            let [entries, bytes, known, looked] = numbers;
            let at = At { milliseconds: 60_000, entries, bytes, names: [known, looked], large: [1, 2] };
            let outlook = [pace.at(at), pace.at(At { milliseconds: 61_000, ..at })];
            let is_sound = |outlook: &Outlook| outlook.seconds_left.is_none_or(f64::is_finite);
            assert!(outlook.iter().all(is_sound), "{outlook:?}");
        }
    }

    #[test]
    fn sums_that_happen_to_agree_do_not_end_the_finding() {
        let mut pace = Pace::default();
        for second in 0..20_u64 {
            let names = [second * 10, if second % 3 == 0 { second * 10 } else { second * 8 }];
            assert!(pace.at(At { milliseconds: second * 1000, names, ..At::default() }).is_growing);
        }
    }

    #[test]
    fn times_are_rounded_in_steps() {
        let shown = |seconds: f64, is_growing| {
            let outlook = Outlook { is_growing, seconds_left: Some(seconds), bytes_per_second: None };
            words(&outlook).unwrap_or_default()
        };
        let all = [1.0, 59.0, 61.0, 200.0, 3601.0, 20_000.0, 180_000.0].map(|seconds| shown(seconds, false));
        assert_eq!(
            all,
            [
                "5 s left",
                "60 s left",
                "2 min left",
                "4 min left",
                "1 h 10 min left",
                "5 h 40 min left",
                "3 days left"
            ]
        );
        let all = [1.0, 59.0, 200.0, 3601.0, 180_000.0].map(|seconds| shown(seconds, true));
        assert_eq!(
            all,
            [
                "still finding",
                ">= 55 s left, still finding",
                ">= 3 min left, still finding",
                ">= 1 h 0 min left, still finding",
                ">= 2 days left, still finding"
            ]
        );
        let outlook = Outlook { is_growing: false, seconds_left: None, bytes_per_second: None };
        assert_eq!(words(&outlook), None);
    }
}
