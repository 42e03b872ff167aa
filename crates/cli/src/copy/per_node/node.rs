//! What one node has come to: its first rank says it, and the first rank of all prints it. No I/O.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// What one node has come to.
#[derive(Debug)]
pub(crate) struct NodeEnd {
    pub(super) name: String,
    /// The ranks of the node.
    pub(super) ranks: Vec<u32>,
    pub(super) code: u8,
    /// Why it has not begun.
    pub(super) error: Option<String>,
    /// Both forms of its summary; empty without one.
    pub(super) json: String,
    pub(super) text: String,
    /// The command that removes what is left under temporary names.
    pub(super) left: Option<String>,
}

atta_entry::record!(NodeEnd { name, ranks, code, error, json, text, left });

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

    fn node(name: &str, error: Option<&str>, (text, json): (&str, &str)) -> NodeEnd {
        let [name, text, json] = [name, text, json].map(str::to_owned);
        NodeEnd { name, ranks: vec![2, 3], code: 3, error: error.map(str::to_owned), json, text, left: None }
    }

    #[test]
    fn each_node_has_a_line_and_a_row() {
        let one = node("a", None, ("1 file copied\nnot copied: 1 entry\n", "{\"files\":1}"));
        let nodes = [one, node("b\n", Some("why"), ("", ""))];
        let mut text = String::new();
        lines(&nodes, &mut text);
        assert_eq!(text, "a: 1 file copied\n  not copied: 1 entry\nb\\n: nothing copied: why\n");
        let expected = json!([
            {"node": "a", "ranks": [2, 3], "exit_code": 3, "error": null, "summary": {"files": 1}},
            {"node": "b\n", "ranks": [2, 3], "exit_code": 3, "error": "why", "summary": null},
        ]);
        assert_eq!(Value::from(json(&nodes)), expected);
    }
}
