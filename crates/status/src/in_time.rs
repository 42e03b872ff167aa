//! Asks several file systems at once, and leaves those behind that do not answer in time: a server that is gone holds a system call for
//! minutes or for ever. Each question runs on a thread of its own. A thread that is left behind ends when its call returns or the process
//! ends; it holds nothing that others need.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Asks `look` for each of the points, in order of the points. `left` gets the number of answers and returns how much longer to wait for the next
/// one. None: there was no answer, or no thread to ask.
pub(crate) fn each_in_time<T: Send + 'static>(
    points: &[Vec<u8>],
    look: impl Fn(&[u8]) -> T + Clone + Send + 'static,
    left: impl Fn(usize) -> Duration,
) -> Vec<Option<T>> {
    let (sender, receiver) = channel();
    for (at, point) in points.iter().enumerate() {
        let (sender, look, point) = (sender.clone(), look.clone(), point.clone());
        // Whoever asked may have gone.
        let ask = move || drop(sender.send((at, look(&point))));
        drop(std::thread::Builder::new().name("look at a mount".to_owned()).spawn(ask));
    }
    drop(sender);
    received(&receiver, points.len(), left)
}

fn received<T>(
    receiver: &Receiver<(usize, T)>,
    count: usize,
    left: impl Fn(usize) -> Duration,
) -> Vec<Option<T>> {
    let mut answers: Vec<Option<T>> = (0..count).map(|_| None).collect();
    for number in 0..count {
        let Ok((at, answer)) = receiver.recv_timeout(left(number)) else { break };
        answers[at] = Some(answer);
    }
    // What has come meanwhile.
    receiver.try_iter().for_each(|(at, answer)| answers[at] = Some(answer));
    answers
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::*;

    #[test]
    fn a_question_without_an_answer_is_left_behind() {
        let barrier = Arc::new(Barrier::new(2));
        let look = {
            let barrier = Arc::clone(&barrier);
            move |point: &[u8]| {
                if point == b"/dead" {
                    barrier.wait();
                }
                point.len()
            }
        };
        let points = [b"/a".to_vec(), b"/dead".to_vec(), b"/abc".to_vec()];
        let left = |answers| if answers < 2 { Duration::from_secs(600) } else { Duration::ZERO };
        assert_eq!(each_in_time(&points, look, left), [Some(2), None, Some(4)]);
        barrier.wait();
    }

    #[test]
    fn a_question_that_panics_has_no_answer() {
        let look = |point: &[u8]| {
            if point == b"/" {
                std::panic::resume_unwind(Box::new(()));
            }
            point.len()
        };
        let points = [b"/".to_vec(), b"/a".to_vec()];
        assert_eq!(each_in_time(&points, look, |_| Duration::from_secs(600)), [None, Some(2)]);
    }
}
