//! Looks at what the logs of earlier runs name, on threads of its own: on a server, each look takes a round trip. What is looked at, and how, is the
//! part of whoever asks.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::descriptors::available;

/// Directories, or names, that a thread gets at once.
const BATCH: usize = 2048;
/// The most threads.
const THREADS: usize = 8;
/// The most batches beyond the first one that has no answers yet: their answers wait for those.
const AHEAD_MOST: u64 = 64;
/// How often a wait looks whether the run was asked to end.
const STOP_LOOKED_AT: Duration = Duration::from_millis(50);
/// Descriptors that are left to others.
const OTHERS: u64 = 24;

/// What is looked at.
pub(crate) trait Look: Debug + Send + Sync + 'static {
    /// A question.
    type Asked: Debug + Send;
    type Answer: Debug + Send;
    /// What a thread keeps from look to look.
    type Ways: Default;
    /// What the answers come to.
    type Sum: Debug + Default + Send;

    /// Answers the questions of a batch. Answers about one directory are in the order of the questions.
    fn look_at(&self, asked: Vec<Self::Asked>, ways: &mut Self::Ways) -> Vec<Self::Answer>;

    /// Adds an answer: of a directory that was asked for several times, the last one counts.
    fn add(sum: &mut Self::Sum, answer: Self::Answer);

    /// Whether the run was asked to end: nobody needs the answers.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Questions, and the number of the batch.
type Batch<L> = (u64, Vec<<L as Look>::Asked>);

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Looks<L: Look> {
    batch: Vec<L::Asked>,
    /// What it asks for, in names.
    weight: usize,
    batches: u64,
    looker: Arc<L>,
    /// None: no batch was full yet.
    crew: Option<Crew<L>>,
    threads_most: usize,
    found: Arc<Found<L>>,
}

/// What was found, and where to wait for more.
#[derive(Debug)]
struct Found<L: Look> {
    answers: Mutex<InOrder<L>>,
    added: Condvar,
}

impl<L: Look> Found<L> {
    fn lock(&self) -> MutexGuard<'_, InOrder<L>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, batch: u64, answers: Vec<L::Answer>) {
        self.lock().add(batch, answers);
        self.added.notify_all();
    }

    /// Waits until few answers wait for those of earlier batches.
    fn wait(&self, batch: u64, is_stopped: impl Fn() -> bool) {
        let mut found = self.lock();
        while batch > found.next + AHEAD_MOST && !is_stopped() {
            let waited = self.added.wait_timeout(found, STOP_LOOKED_AT);
            found = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What the threads find, in the order of the batches.
#[derive(Debug)]
struct InOrder<L: Look> {
    next: u64,
    early: BTreeMap<u64, Vec<L::Answer>>,
    sum: L::Sum,
}

impl<L: Look> Default for InOrder<L> {
    fn default() -> Self {
        Self { next: 0, early: BTreeMap::new(), sum: L::Sum::default() }
    }
}

impl<L: Look> InOrder<L> {
    fn add(&mut self, batch: u64, answers: Vec<L::Answer>) {
        self.early.insert(batch, answers);
        while let Some(answers) = self.early.remove(&self.next) {
            self.next += 1;
            answers.into_iter().for_each(|answer| L::add(&mut self.sum, answer));
        }
    }
}

impl<L: Look> Looks<L> {
    /// `descriptors`: how many one thread needs.
    pub(crate) fn new(looker: L, descriptors: usize) -> Self {
        let most = available().saturating_sub(OTHERS) / descriptors.max(1) as u64;
        let threads_most = usize::try_from(most).unwrap_or(THREADS).clamp(1, THREADS);
        let found = Found { answers: Mutex::default(), added: Condvar::new() };
        let (looker, found) = (Arc::new(looker), Arc::new(found));
        Self { batch: Vec::new(), weight: 0, batches: 0, looker, crew: None, threads_most, found }
    }

    /// Who looks.
    pub(crate) fn looker(&self) -> Arc<L> {
        Arc::clone(&self.looker)
    }

    /// Asks for something that counts as so many names.
    pub(crate) fn ask(&mut self, asked: L::Asked, weight: usize) {
        self.batch.push(asked);
        self.weight += weight;
        if self.weight >= BATCH {
            self.send();
        }
    }

    fn send(&mut self) {
        let batch = (self.batches, mem::take(&mut self.batch));
        self.batches += 1;
        self.weight = 0;
        let Self { looker, crew, found, threads_most, .. } = self;
        found.wait(batch.0, || looker.is_stopped());
        let crew = crew.get_or_insert_with(|| Crew::start(looker, found, *threads_most));
        // Without a thread, or if all of them have panicked.
        if crew.threads.is_empty() {
            answer(&**looker, batch, &mut L::Ways::default(), found);
        } else if let Err(back) = crew.to_threads.send(batch) {
            answer(&**looker, back.0, &mut L::Ways::default(), found);
        }
    }

    /// Waits for all answers.
    ///
    /// # Panics
    /// A thread has panicked.
    pub(crate) fn end(mut self) -> L::Sum {
        if !self.batch.is_empty() {
            self.send();
        }
        if let Some(Crew { to_threads, threads }) = self.crew {
            drop(to_threads);
            // What a thread that panicked has taken was not looked at.
            for thread in threads {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        }
        mem::take(&mut self.found.lock().sum)
    }
}

fn answer<L: Look>(looker: &L, (number, asked): Batch<L>, ways: &mut L::Ways, found: &Found<L>) {
    let answers = looker.look_at(asked, ways);
    found.add(number, answers);
}

/// The threads that look.
#[derive(Debug)]
struct Crew<L: Look> {
    to_threads: SyncSender<Batch<L>>,
    /// None: none can be started.
    threads: Vec<JoinHandle<()>>,
}

impl<L: Look> Crew<L> {
    fn start(looker: &Arc<L>, found: &Arc<Found<L>>, threads: usize) -> Self {
        let (to_threads, batches) = sync_channel(2 * THREADS);
        let batches = Arc::new(Mutex::new(batches));
        let start = |_| {
            let (looker, batches, found) = (Arc::clone(looker), Arc::clone(&batches), Arc::clone(found));
            let thread = std::thread::Builder::new().name("atta-look".to_owned());
            thread.spawn(move || answer_all(&*looker, &batches, &found)).ok()
        };
        let threads = (0..threads).filter_map(start).collect();
        Self { to_threads, threads }
    }
}

fn answer_all<L: Look>(looker: &L, batches: &Mutex<Receiver<Batch<L>>>, found: &Found<L>) {
    let mut ways = L::Ways::default();
    loop {
        let batch = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(batch) = batch else { return };
        answer(looker, batch, &mut ways, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with the square, the later batches first.
    #[derive(Debug)]
    struct Squares;

    impl Look for Squares {
        type Asked = u64;
        type Answer = u64;
        type Ways = ();
        type Sum = Vec<u64>;

        fn look_at(&self, asked: Vec<u64>, _: &mut ()) -> Vec<u64> {
            std::thread::sleep(std::time::Duration::from_millis(3_u64.saturating_sub(asked[0])));
            asked.into_iter().map(|number| number * number).collect()
        }

        fn add(sum: &mut Vec<u64>, answer: u64) {
            sum.push(answer);
        }
    }

    #[test]
    fn answers_come_in_the_order_of_the_questions() {
        for (count, weight) in [(0_u64, 1), (3, 1), (400, BATCH), (5, BATCH - 1)] {
            let mut looks = Looks::new(Squares, 1);
            (0..count).for_each(|number| looks.ask(number, weight));
            assert_eq!(looks.end(), (0..count).map(|number| number * number).collect::<Vec<_>>());
        }
    }
}
