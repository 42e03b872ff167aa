//! What follows when COMMAND has ended: an exit code, or a new start. What the ranks have written decides; the launcher's exit code counts only
//! if they have written nothing. No I/O but messages.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use crate::run::messages::{complain, exit};
use crate::run::outcome::Outcome;

/// What follows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Exit(u8),
    /// A new start, and why.
    Again(String),
}

/// What follows. `outcome`: of this start; and whether the job has begun, in this start or before. `what`: how COMMAND ended, in words; `code`:
/// its exit code.
pub(super) fn of((outcome, has_begun): (Outcome, bool), what: &str, code: u8) -> Verdict {
    match (outcome.ended, outcome.complete) {
        (Some(exit::FATAL), None) if has_begun => {
            let code = exit::FATAL;
            Verdict::Again(format!("the job ended with a fatal error (exit code {code})"))
        }
        (Some(code), _) => Verdict::Exit(code),
        (None, Some(code)) => {
            let hint = "atta clean lists what may be left of its log";
            complain(
                &format!("{what} when the job was complete, and before the end of its report"),
                Some(hint),
            );
            Verdict::Exit(code)
        }
        (None, None) if has_begun => Verdict::Again(format!("{what} before the job came to its end")),
        (None, None) if code == exit::DONE => {
            let hint = "the ranks have not reported an end; give the command again without atta launch";
            complain(&format!("{what}, but no job had begun, and nothing is known of its end"), Some(hint));
            Verdict::Exit(exit::FATAL)
        }
        (None, None) => {
            complain(&format!("{what}, and no job had begun: it is not started again"), None);
            Verdict::Exit(code)
        }
    }
}

/// How a launcher ended.
pub(super) fn how_ended(launcher: &str, status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("{launcher} ended with signal {signal}"),
        None => format!("{launcher} ended with exit code {}", code_of(status)),
    }
}

/// An exit code as a shell has it.
pub(super) fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FATAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGUN: Outcome = Outcome { has_begun: true, complete: None, ended: None };

    fn verdict(outcome: Outcome, code: u8) -> Option<u8> {
        match of((outcome, outcome.has_begun), "it ended", code) {
            Verdict::Exit(code) => Some(code),
            Verdict::Again(_) => None,
        }
    }

    #[test]
    fn end_of_the_job_decides() {
        for launcher in [0, 1, 4, 137] {
            for code in [0, 1, 2, 3, 130, 141, 143] {
                assert_eq!(verdict(Outcome { ended: Some(code), ..BEGUN }, launcher), Some(code));
                assert_eq!(
                    verdict(Outcome { ended: Some(code), ..Outcome::default() }, launcher),
                    Some(code)
                );
            }
            assert_eq!(verdict(Outcome { ended: Some(4), ..Outcome::default() }, launcher), Some(4));
            assert_eq!(verdict(Outcome { ended: Some(4), ..BEGUN }, launcher), None);
            assert_eq!(verdict(BEGUN, launcher), None);
        }
    }

    #[test]
    fn complete_job_is_never_started_again() {
        for (ended, code) in [(None, 3), (Some(4), 4), (Some(0), 0)] {
            assert_eq!(verdict(Outcome { ended, complete: Some(3), ..BEGUN }, 0), Some(code));
        }
    }

    #[test]
    fn without_a_job_the_launcher_decides() {
        for (launcher, code) in [(0, 4), (1, 1), (2, 2), (137, 137)] {
            assert_eq!(verdict(Outcome::default(), launcher), Some(code));
        }
        let again = of((Outcome::default(), true), "it ended", 0);
        assert_eq!(again, Verdict::Again("it ended before the job came to its end".to_owned()));
    }

    #[test]
    fn ends_are_put_into_words() {
        let of = |raw| how_ended("mpirun", ExitStatus::from_raw(raw));
        assert_eq!(of(9), "mpirun ended with signal 9");
        assert_eq!(of(137 << 8), "mpirun ended with exit code 137");
        assert_eq!(code_of(ExitStatus::from_raw(9)), 137);
    }
}
