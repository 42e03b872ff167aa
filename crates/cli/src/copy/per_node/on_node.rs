//! One node's copy, on one of its ranks: where its failures go, and what it has come to, which `node.rs` prints. It copies nothing.

use std::sync::{Mutex, PoisonError};

use atta_ops::copy::Leftovers;

use super::node::NodeEnd;
use crate::copy::arguments::CopyArguments;
use crate::copy::end::Ended;
use crate::copy::part::Part;
use crate::copy::summary::{summary, words};
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::messages::exit;

/// Most characters of an error that a node sends: paths have no limit of their own.
const ERROR_CHARS_MAX: usize = 1024;

/// One node's copy, on one of its ranks.
pub(crate) struct OnNode {
    name: String,
    members: Vec<u32>,
    failures: Failures,
    /// On the first rank of the node, when the copy has ended.
    end: Mutex<Option<(NodeEnd, Part)>>,
}

impl OnNode {
    /// `failures`: those of all nodes.
    pub(super) fn new(name: String, members: Vec<u32>, failures: &Failures) -> Self {
        let failures = failures.of_node(&name);
        Self { name, members, failures, end: Mutex::default() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The ranks of the node.
    pub(super) fn members(&self) -> &[u32] {
        &self.members
    }

    /// Where failures of this node go.
    pub(crate) fn failures(&self) -> Failures {
        self.failures.clone()
    }

    /// Keeps what the copy has come to, on the first rank of the node; returns the exit code.
    pub(crate) fn end(&self, arguments: &CopyArguments, part: Part, ended: Ended<'_>) -> u8 {
        let (code, is_interrupted, outcome) = (ended.code(), ended.interrupted.is_some(), ended.outcome);
        let code = ended.fatal.map_or(code, Fatal::report);
        let end = NodeEnd {
            name: self.name.clone(),
            ranks: self.members.clone(),
            code,
            error: None,
            json: summary(arguments, outcome, is_interrupted).to_string(),
            text: words(arguments, outcome, is_interrupted),
            left: outcome.leftovers.as_ref().map(Leftovers::command),
        };
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((end, part.of_ranks(&self.members).shortened()));
        code
    }

    /// What the node has come to. `code`: of a copy that has not begun, which is no matter of the command line; `error`: why.
    pub(super) fn come_to(&self, code: u8, error: Option<String>) -> (NodeEnd, Option<Part>) {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((end, part)) = end {
            return (end, Some(part));
        }
        let end = NodeEnd {
            name: self.name.clone(),
            ranks: self.members.clone(),
            code: if code == exit::USAGE { exit::FATAL } else { code },
            error: error.map(|error| error.chars().take(ERROR_CHARS_MAX).collect()),
            json: String::new(),
            text: String::new(),
            left: None,
        };
        (end, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_that_was_refused_on_a_node_is_no_usage_error() {
        let failures = Failures::new(false, None, None).ok().unwrap();
        let on = OnNode::new("a".to_owned(), vec![1], &failures);
        let ends = [exit::USAGE, exit::FATAL].map(|code| on.come_to(code, Some("why".to_owned())).0);
        assert_eq!(
            ends.map(|end| (end.code, end.error)),
            [(); 2].map(|()| (exit::FATAL, Some("why".to_owned())))
        );
    }
}
