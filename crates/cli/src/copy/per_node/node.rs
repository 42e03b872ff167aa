//! What one node has come to: its first rank says it, and the first rank of all prints it. No I/O.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use atta_ops::copy::Leftovers;
use serde_json::{Value, json};

use crate::copy::arguments::CopyArguments;
use crate::copy::end::Ended;
use crate::copy::part::Part;
use crate::copy::summary::{summary, words};
use crate::run::failures::Failures;
use crate::run::fatal::Fatal;
use crate::run::messages::exit;

/// Most characters of an error that a node sends: paths have no limit of their own.
const ERROR_CHARS_MAX: usize = 1024;

/// What one node has come to.
#[derive(Debug)]
pub(crate) struct NodeEnd {
    name: String,
    /// The ranks of the node.
    ranks: Vec<u32>,
    code: u8,
    /// None: its copy has not begun.
    part: Option<Part>,
    /// Why it has not begun.
    error: Option<String>,
    /// Both forms of its summary; empty without one.
    json: String,
    text: String,
    /// The command that removes what is left under temporary names.
    left: Option<String>,
}

atta_entry::record!(NodeEnd { name, ranks, code, part, error, json, text, left });

impl NodeEnd {
    pub(super) fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    pub(super) fn code(&self) -> u8 {
        self.code
    }

    pub(super) fn part(&self) -> Option<&Part> {
        self.part.as_ref()
    }

    pub(super) fn left(&self) -> Option<&str> {
        self.left.as_deref()
    }
}

/// One node's copy, on one of its ranks.
pub(crate) struct OnNode {
    name: String,
    members: Vec<u32>,
    failures: Failures,
    /// On the first rank of the node, when the copy has ended.
    end: Mutex<Option<NodeEnd>>,
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
            part: Some(part.of_ranks(&self.members).shortened()),
            error: None,
            json: summary(arguments, outcome, is_interrupted).to_string(),
            text: words(arguments, outcome, is_interrupted),
            left: outcome.leftovers.as_ref().map(Leftovers::command),
        };
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        code
    }

    /// What the node has come to. `code`: of a copy that has not begun, which is no matter of the command line; `error`: why.
    pub(super) fn come_to(&self, code: u8, error: Option<String>) -> NodeEnd {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        end.unwrap_or_else(|| NodeEnd {
            name: self.name.clone(),
            ranks: self.members.clone(),
            code: if code == exit::USAGE { exit::FATAL } else { code },
            part: None,
            error: error.map(|error| error.chars().take(ERROR_CHARS_MAX).collect()),
            json: String::new(),
            text: String::new(),
            left: None,
        })
    }
}

/// Writes the summary of each node, after its name.
pub(crate) fn lines(nodes: &[NodeEnd], text: &mut String) {
    for node in nodes {
        let name = atta_entry::escape(node.name.as_bytes());
        let _ = match &node.error {
            Some(error) => writeln!(text, "{name}: nothing copied: {error}"),
            None => writeln!(text, "{name}: {}", node.text.trim_end().replace('\n', "\n  ")),
        };
    }
}

/// The same for programs.
pub(crate) fn json(nodes: &[NodeEnd]) -> Vec<Value> {
    let row = |node: &NodeEnd| {
        let summary = serde_json::from_str(&node.json).unwrap_or(Value::Null);
        json!({
            "node": node.name,
            "ranks": node.ranks,
            "exit_code": node.code,
            "error": node.error,
            "summary": summary,
        })
    };
    nodes.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(name: &str) -> OnNode {
        let failures = Failures::new(false, None, None).ok().unwrap();
        OnNode::new(name.to_owned(), vec![2, 3], &failures)
    }

    #[test]
    fn each_node_has_a_line_and_a_row() {
        let (text, json_text) =
            ("1 file copied\nnot copied: 1 entry\n".to_owned(), "{\"files\":1}".to_owned());
        let one = NodeEnd { text, json: json_text, ..on("a").come_to(exit::PARTIAL, None) };
        let nodes = [one, on("b\n").come_to(exit::FATAL, Some("why".to_owned()))];
        let mut text = String::new();
        lines(&nodes, &mut text);
        assert_eq!(text, "a: 1 file copied\n  not copied: 1 entry\nb\\n: nothing copied: why\n");
        let expected = json!([
            {"node": "a", "ranks": [2, 3], "exit_code": 3, "error": null, "summary": {"files": 1}},
            {"node": "b\n", "ranks": [2, 3], "exit_code": 4, "error": "why", "summary": null},
        ]);
        assert_eq!(Value::from(json(&nodes)), expected);
    }

    #[test]
    fn copy_that_was_refused_on_a_node_is_no_usage_error() {
        assert_eq!([exit::USAGE, exit::FATAL].map(|code| on("a").come_to(code, None).code), [exit::FATAL; 2]);
    }
}
