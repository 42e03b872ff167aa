//! Warns of threads that wait long for a file system (`--stall-warn`): a server that does not answer, a disk that hangs. A thread of its own looks at all
//! others from time to time; nothing else of the run knows of it, and nothing is ended.
//!
//! Of a thread that makes equal calls one after another, each of some seconds, it may say that it waits for one of them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use atta_entry::escape;
use atta_sys::blocked::{self, Blocked};

use super::messages::complain;
use crate::size::grouped;

/// The longest time between two looks.
const LOOK_MOST: Duration = Duration::from_secs(10);
/// Looks before a warning, at least.
const LOOKS: u32 = 4;
/// A thread that waits may get a processor this often: some file systems wake it to look whether the server has answered.
const WAKES_EVERY: Duration = Duration::from_secs(5);

/// The thread that looks at the others. It ends when this is dropped.
pub(super) struct Stalls {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Stalls {
    /// Warns of threads of this process that wait for longer than `limit`. `rank`: if there are several.
    pub(super) fn watch(limit: Option<Duration>, rank: Option<u32>) -> Self {
        let over = Arc::<(Mutex<bool>, Condvar)>::default();
        let begun = limit.and_then(|limit| {
            let (over, who) =
                (Arc::clone(&over), rank.map_or_else(String::new, |rank| format!("rank {rank}: ")));
            let watch = move || watch_until(&over, &mut Watch { limit, who, waits: HashMap::new() });
            // Without the thread there is no warning.
            std::thread::Builder::new().name("atta-stalls".to_owned()).spawn(watch).ok()
        });
        Self { over, thread: begun }
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        let (over, changed) = &*self.over;
        *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of it has been reported.
            let _ended = thread.join();
        }
    }
}

fn watch_until((over, changed): &(Mutex<bool>, Condvar), watch: &mut Watch) {
    let period = (watch.limit / LOOKS).min(LOOK_MOST);
    let mut is_over = over.lock().unwrap_or_else(PoisonError::into_inner);
    while !*is_over {
        is_over = changed.wait_timeout(is_over, period).unwrap_or_else(PoisonError::into_inner).0;
        // Also when all is over, if a call was named: it has ended.
        if !*is_over || watch.has_said() {
            for text in watch.look(Instant::now()) {
                complain(&text, None);
            }
        }
    }
}

/// What is known of the threads that wait.
struct Watch {
    limit: Duration,
    who: String,
    waits: HashMap<u32, Wait>,
}

/// A thread in the same call as at the last look.
struct Wait {
    blocked: Blocked,
    since: Instant,
    /// How often the thread had got a processor.
    runs: u64,
    /// When to warn next.
    warns: Duration,
    /// What was said of it.
    said: Option<String>,
}

impl Wait {
    fn begins(blocked: Blocked, thread: u32, limit: Duration, now: Instant) -> Self {
        let runs = blocked::runs(thread).unwrap_or(0);
        Self { blocked, since: now, runs, warns: limit, said: None }
    }

    /// Whether the thread has been in this call since then.
    fn goes_on(&self, blocked: &Blocked, thread: u32, now: Instant) -> bool {
        let wakes = blocked::runs(thread).unwrap_or(0).saturating_sub(self.runs);
        let elapsed = now.duration_since(self.since);
        *blocked == self.blocked && u128::from(wakes) <= elapsed.as_nanos() / WAKES_EVERY.as_nanos()
    }
}

impl Watch {
    /// Whether a warning has not been followed by its end.
    fn has_said(&self) -> bool {
        self.waits.values().any(|wait| wait.said.is_some())
    }

    /// Looks at all threads. Returns what is to be said.
    fn look(&mut self, now: Instant) -> Vec<String> {
        let mut before = std::mem::take(&mut self.waits);
        let mut says = Vec::new();
        for thread in blocked::threads() {
            let was = before.remove(&thread);
            let Some(blocked) = Blocked::of(thread) else {
                says.extend(was.and_then(|wait| self.ended(&wait, now)));
                continue;
            };
            let mut wait = match was {
                Some(wait) if wait.goes_on(&blocked, thread, now) => wait,
                was => {
                    says.extend(was.and_then(|wait| self.ended(&wait, now)));
                    Wait::begins(blocked, thread, self.limit, now)
                }
            };
            says.extend(self.warn(&mut wait, thread, now));
            self.waits.insert(thread, wait);
        }
        says.extend(before.values().filter_map(|wait| self.ended(wait, now)));
        says
    }

    fn warn(&self, wait: &mut Wait, thread: u32, now: Instant) -> Option<String> {
        let elapsed = now.duration_since(wait.since);
        if elapsed < wait.warns {
            return None;
        }
        let path = wait.blocked.path(thread)?;
        let what = format!("{} of {}", wait.blocked.call(), escape(&path));
        // Again after twice the time.
        wait.warns = elapsed * 2;
        let text = format!("{}the file system has not answered for {}: {what}", self.who, seconds(elapsed));
        wait.said = Some(what);
        Some(text)
    }

    fn ended(&self, wait: &Wait, now: Instant) -> Option<String> {
        let what = wait.said.as_ref()?;
        let elapsed = seconds(now.duration_since(wait.since));
        Some(format!("{}the file system has answered after {elapsed}: {what}", self.who))
    }
}

fn seconds(time: Duration) -> String {
    format!("{} s", grouped(time.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn call_that_takes_long_is_reported() {
        let scratch = atta_testkit::scratch::Scratch::new("stalls").unwrap();
        let path = scratch.join("file");
        let open = || std::fs::File::options().create(true).append(true).open(&path).unwrap();
        let (held, asks) = (open(), open());
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let limit = Duration::from_secs(60);
        let mut watch = Watch { limit, who: "rank 3: ".to_owned(), waits: HashMap::new() };
        let (says, hears) = channel();
        let waits = std::thread::spawn(move || {
            says.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
            flock(&asks, FlockOperation::LockExclusive).unwrap();
            drop(says);
        });
        let thread = hears.recv().unwrap();
        while Blocked::of(thread).is_none() {
            std::thread::yield_now();
        }
        let (began, what) = (Instant::now(), format!("flock of {}", path.display()));
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut look = |seconds| {
            let mut says = watch.look(at(seconds));
            says.retain(|text| text.ends_with(&what));
            says
        };
        assert_eq!(look(0), [""; 0]);
        assert_eq!(look(59), [""; 0]);
        assert_eq!(look(60), [format!("rank 3: the file system has not answered for 60 s: {what}")]);
        assert_eq!(look(119), [""; 0]);
        assert_eq!(look(120), [format!("rank 3: the file system has not answered for 120 s: {what}")]);
        flock(&held, FlockOperation::Unlock).unwrap();
        waits.join().unwrap();
        assert_eq!(look(130), [format!("rank 3: the file system has answered after 130 s: {what}")]);
        assert_eq!(look(900), [""; 0]);
    }
}
