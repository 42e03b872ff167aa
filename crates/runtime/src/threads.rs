//! The number of threads: fixed, or tuned to how much they wait for the file system. Pure: its input is numbers.
//!
//! On a cached local disk every thread runs all the time, and more than one per core only get in each other's way. On a network
//! file system, or a disk with a cold cache, a thread spends most of its time waiting in a system call, and the server or the
//! disk is used well only when many threads ask at once. So while threads are blocked for a good part of their time and there
//! is work for more of them, their number doubles at every tick. Over longer windows, a number that proves slower than a
//! smaller one is abandoned for a while. The reverse holds, too: when threads hardly block any more, their number is halved,
//! and restored if that cost speed. On a disk with a cold cache the requests of many threads keep the device busy while all
//! but a few threads wait for a core: few are blocked, and yet fewer would be slower.

use std::num::NonZeroUsize;
use std::time::Duration;

/// The number of threads of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Threads {
    /// Starts at the number of cores, and grows while threads mostly wait and more of them help.
    #[default]
    Auto,
    /// Always this number.
    Fixed(NonZeroUsize),
}

/// The most threads that [`Threads::Auto`] starts on a small machine. At 2 ms per call, 64 threads do 50 times the work of one.
/// No file system that was measured gained from more than that many at once.
const AUTO_MAX: usize = 64;
/// The share of blocked threads above which more threads are tried.
const BLOCKED_GROW: f64 = 0.5;
/// The share below which fewer threads are tried.
const BLOCKED_SHRINK: f64 = 0.1;
/// More threads are abandoned if they do less than this share of the work of fewer.
const RATE_GROWN: f64 = 0.8;
/// Fewer threads must do at least this share of the work of more.
const RATE_SHRUNK: f64 = 0.92;
/// Weight of the newest sample in the running average: two ticks in a row decide, one alone does not.
const BLOCKED_WEIGHT: f64 = 0.4;
/// The share of time held back by the run's own cap above which more threads are useless.
const HELD_BACK: f64 = 0.1;
/// The window for judging a rate: single ticks are too noisy.
const WINDOW: Duration = Duration::from_millis(200);
/// The number of windows for which a disappointing number of threads is not tried again.
const HOLD_WINDOWS: u32 = 10;
/// The longest such time: the tree changes during the walk, so no hold lasts forever.
const HOLD_WINDOWS_MOST: u32 = 160;

impl Threads {
    /// The maximum number of threads on a number of cores.
    #[must_use]
    pub fn max(self, cores: usize) -> usize {
        match self {
            Self::Fixed(count) => count.get(),
            Self::Auto => AUTO_MAX.max(cores.saturating_mul(4)),
        }
    }

    /// The initial number of threads.
    #[must_use]
    pub fn initial(self, cores: usize) -> usize {
        match self {
            Self::Fixed(count) => count.get(),
            Self::Auto => cores.max(1),
        }
    }
}

/// Measurements since the last tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) elapsed: Duration,
    /// Share (0 to 1) of the threads that were blocked in the kernel, except those that the run's own cap holds back.
    pub(crate) blocked: f64,
    /// Share (0 to 1) of the threads' time in which the run's own cap held them back.
    pub(crate) held_back: f64,
    /// Whether tasks wait and no thread is idle: more threads would have work.
    pub(crate) work_waits: bool,
    /// Units of progress made.
    pub(crate) progress: u64,
}

/// Tunes the number of threads between `least` and `most`.
#[derive(Debug)]
pub(crate) struct Tuner {
    least: usize,
    most: usize,
    target: usize,
    window: Window,
    /// The best rate seen in a window, with the number of threads that made it.
    best: Option<(f64, usize)>,
    hold: u32,
    /// The best rate since the number began to shrink, with the number of threads that made it.
    shrunk: Option<(f64, usize)>,
    /// The number of windows for which the number does not shrink.
    shrink_hold: u32,
    /// The length of the next such hold. It doubles each time that shrinking was wrong.
    shrink_patience: u32,
    /// Running average of the share of blocked threads.
    blocked: f64,
    /// Time since the cap last held threads back. None: never. After slow operations a cap lets threads run freely for a while;
    /// that gives no evidence about more threads.
    uncapped: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    elapsed: Duration,
    progress: u64,
    /// Whether the threads always had work: only then does the rate depend on their number.
    busy: bool,
}

impl Window {
    fn new() -> Self {
        Self { busy: true, ..Self::default() }
    }
}

impl Tuner {
    /// Never more than `most` threads.
    pub(crate) fn new(threads: Threads, cores: usize, most: usize) -> Self {
        let least = threads.initial(cores).min(most);
        Self {
            least,
            most: threads.max(cores).min(most),
            target: least,
            window: Window::new(),
            best: None,
            hold: 0,
            shrunk: None,
            shrink_hold: 0,
            shrink_patience: HOLD_WINDOWS,
            blocked: 0.0,
            uncapped: None,
        }
    }

    /// The number of threads from now on.
    pub(crate) fn tick(&mut self, sample: &Sample) -> usize {
        self.window.elapsed += sample.elapsed;
        self.window.progress += sample.progress;
        self.blocked += (sample.blocked - self.blocked) * BLOCKED_WEIGHT;
        self.uncapped = match self.uncapped {
            _ if sample.held_back >= HELD_BACK => Some(Duration::ZERO),
            since => since.map(|since| since + sample.elapsed),
        };
        let work_waits = sample.work_waits && self.uncapped.is_none_or(|since| since >= WINDOW);
        self.window.busy &= work_waits;
        if work_waits && self.blocked > BLOCKED_GROW && self.hold == 0 && self.target < self.most {
            self.set((self.target * 2).min(self.most));
        } else if self.window.elapsed >= WINDOW {
            self.judge();
        }
        self.target
    }

    fn judge(&mut self) {
        let window = std::mem::replace(&mut self.window, Window::new());
        if self.hold > 0 {
            self.hold -= 1;
            if self.hold == 0 {
                // The result from another part of the tree may not hold here: try again.
                self.best = None;
            }
        }
        self.shrink_hold = self.shrink_hold.saturating_sub(1);
        if window.busy {
            self.judge_rate(window.progress as f64 / window.elapsed.as_secs_f64());
        }
    }

    fn judge_rate(&mut self, rate: f64) {
        match self.best {
            Some((best, threads)) if threads < self.target && rate < best * RATE_GROWN => {
                self.hold = HOLD_WINDOWS;
                self.set(threads);
            }
            Some((best, _)) if rate <= best => {}
            _ => self.best = Some((rate, self.target)),
        }
        match self.shrunk {
            Some((before, threads)) if threads > self.target && rate < before * RATE_SHRUNK => {
                self.shrunk = None;
                self.shrink_hold = self.shrink_patience;
                self.shrink_patience = (self.shrink_patience * 2).min(HOLD_WINDOWS_MOST);
                self.set(threads);
            }
            _ if self.blocked < BLOCKED_SHRINK && self.target > self.least && self.shrink_hold == 0 => {
                // Compared with the best of all steps so far: small losses add up.
                let better = |(before, threads): &(f64, usize)| *threads > self.target && *before > rate;
                self.shrunk = self.shrunk.filter(better).or(Some((rate, self.target)));
                self.set((self.target / 2).max(self.least));
            }
            _ => {}
        }
    }

    fn set(&mut self, target: usize) {
        self.target = target;
        self.window = Window::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(blocked: f64, work_waits: bool, rate: f64) -> Sample {
        let elapsed = Duration::from_millis(20);
        Sample { elapsed, blocked, held_back: 0.0, work_waits, progress: (rate * 0.02) as u64 }
    }

    #[test]
    fn a_fixed_number_stays() {
        let mut tuner = Tuner::new(Threads::Fixed(NonZeroUsize::new(3).unwrap()), 2, usize::MAX);
        assert_eq!((0..50).map(|_| tuner.tick(&sample(0.9, true, 1e5))).max(), Some(3));
    }

    #[test]
    fn busy_threads_stay_as_many_as_cores() {
        let mut tuner = Tuner::new(Threads::Auto, 2, usize::MAX);
        assert!((0..200).all(|_| tuner.tick(&sample(0.05, true, 1e6)) == 2));
    }

    #[test]
    fn slow_file_system_gets_the_most_threads() {
        let mut tuner = Tuner::new(Threads::Auto, 2, usize::MAX);
        for _ in 0..7 {
            let _ = tuner.tick(&sample(0.95, true, 1e3));
        }
        assert_eq!(tuner.tick(&sample(0.95, true, 1e3)), 64);
    }

    #[test]
    fn without_work_for_more_nothing_grows() {
        let mut tuner = Tuner::new(Threads::Auto, 2, usize::MAX);
        assert!((0..200).all(|_| tuner.tick(&sample(0.95, false, 1e3)) == 2));
    }

    /// As with `--iops`: all threads sleep for the cap. Sometimes a file takes so long that the next operations are free, and for a
    /// tick only the file system is slow.
    #[test]
    fn capped_threads_do_not_grow() {
        let mut tuner = Tuner::new(Threads::Auto, 2, usize::MAX);
        let capped = Sample { held_back: 0.95, ..sample(0.05, true, 400.0) };
        for tick in 0..1000 {
            let sample = if tick % 8 < 6 { capped } else { sample(1.0, true, 400.0) };
            assert_eq!(tuner.tick(&sample), 2, "tick {tick}");
        }
        // Once the cap is no longer reached, the file system decides again.
        let most = (0..50).map(|_| tuner.tick(&sample(1.0, true, 100.0))).max();
        assert_eq!(most, Some(64));
    }

    #[test]
    fn slow_server_is_left_at_fewer_threads() {
        let mut tuner = Tuner::new(Threads::Auto, 8, usize::MAX);
        let rate = |threads: usize| if threads <= 8 { 10_000.0 } else { 2_000.0 };
        let mut threads = 8;
        let mut ticks_at_eight = 0;
        (0..12).for_each(|_| threads = tuner.tick(&sample(0.3, true, rate(threads))));
        for _ in 0..1000 {
            threads = tuner.tick(&sample(0.9, true, rate(threads)));
            ticks_at_eight += usize::from(threads == 8);
        }
        assert!(ticks_at_eight > 500, "{ticks_at_eight} of 1000");
    }

    /// A disk with a cold cache: threads wait for a core, hardly ever blocked, and yet many of them are faster.
    #[test]
    fn threads_that_rarely_block_stay_at_fewer() {
        let mut tuner = Tuner::new(Threads::Auto, 2, usize::MAX);
        for _ in 0..10 {
            let _ = tuner.tick(&sample(0.9, true, 1e5));
        }
        let rate = |threads: usize| if threads >= 32 { 200_000.0 } else { 150_000.0 };
        let (mut threads, mut ticks_with_many) = (64, 0);
        for _ in 0..1000 {
            threads = tuner.tick(&sample(0.02, true, rate(threads)));
            ticks_with_many += usize::from(threads >= 32);
        }
        assert!(ticks_with_many > 900, "{ticks_with_many} of 1000");
    }

    #[test]
    fn threads_go_back_when_nothing_blocks_any_more() {
        let mut tuner = Tuner::new(Threads::Auto, 2, usize::MAX);
        for _ in 0..10 {
            let _ = tuner.tick(&sample(0.9, true, 1e3));
        }
        let last = (0..500).map(|_| tuner.tick(&sample(0.01, true, 1e6))).last();
        assert_eq!(last, Some(2));
    }
}
