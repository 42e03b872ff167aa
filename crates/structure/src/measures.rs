//! What is measured, and what the design wants of it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use crate::circles::circles;
use crate::crate_source::CrateSource;
use crate::fuzzed;
use crate::kept_tests;
use crate::names::imports;

/// One number that must not grow.
pub(crate) struct Measure {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// What the design wants at most.
    pub(crate) goal: f64,
    /// Where it comes from, one line each.
    pub(crate) details: Vec<String>,
}

/// All measures, and lines that only inform.
pub(crate) struct Measured {
    pub(crate) lines: Vec<String>,
    pub(crate) measures: Vec<Measure>,
}

/// Files of one circle of imports.
const CIRCLE_FILES: f64 = 3.0;
/// Parameters from which on a function counts as one with many; the receiver is one of them.
const PARAMETERS: usize = 5;
/// Percent of functions with many parameters.
const MANY_PARAMETERS_PERCENT: f64 = 3.0;
/// Files in one folder of `copy`.
const FOLDER_FILES: f64 = 10.0;

/// Which file imports which, by index.
type Edges = Vec<(usize, usize)>;

/// Measures the workspace below `root`.
pub(crate) fn of(root: &Path) -> Result<Measured, Box<dyn Error>> {
    let mut measured = Measured { lines: Vec::new(), measures: Vec::new() };
    let mut sources = BTreeMap::new();
    #[expect(clippy::disallowed_methods, reason = "the workspace's own source, which nobody attacks")]
    let directories = fs::read_dir(root.join("crates"))?;
    for directory in directories {
        let directory = directory?;
        let name = directory.file_name().to_string_lossy().into_owned();
        if directory.path().join("src").is_dir() {
            sources.insert(name, CrateSource::read(&directory.path().join("src"))?);
        }
    }
    for (name, source) in &sources {
        let (code, tests) = source.lines();
        measured
            .lines
            .push(format!("{name}: {} files, {code} lines of source, {tests} of tests", source.files.len()));
    }
    for name in ["ops", "cli", "runtime"] {
        let source = sources.get(name).ok_or_else(|| format!("no crate {name}"))?;
        let edges = imports(source);
        measured.measures.push(largest_circle(name, source, &edges));
        match name {
            "ops" => {
                measured.measures.push(many_parameters(name, source));
                measured.measures.push(fullest_folder(source, "copy"));
                for user in ["sum", "verify"] {
                    measured.measures.push(imports_between(source, &edges, user, "copy"));
                }
            }
            "cli" => measured.measures.push(imports_of_walk(source, &edges)),
            _ => {}
        }
    }
    let kept_tests::Kept { same, replaced, dropped, missing, long } = kept_tests::of(root)?;
    measured.lines.push(format!(
        "tests of {}: {same} as they were, {replaced} replaced, {dropped} gone for a reason",
        kept_tests::LIST
    ));
    measured.measures.push(Measure {
        name: "tests that are gone without a replacement".to_owned(),
        value: missing.len() as f64,
        goal: 0.0,
        details: missing,
    });
    measured.measures.push(Measure {
        name: "tests with names of 50 characters or more".to_owned(),
        value: long.len() as f64,
        goal: 0.0,
        details: long,
    });
    let crates: Vec<_> = sources.keys().map(String::as_str).collect();
    let not_fuzzed = fuzzed::missing(root, &crates)?;
    measured.measures.push(Measure {
        name: "decoders without a target in a fuzz table".to_owned(),
        value: not_fuzzed.len() as f64,
        goal: 0.0,
        details: not_fuzzed,
    });
    Ok(measured)
}

fn largest_circle(name: &str, source: &CrateSource, edges: &Edges) -> Measure {
    let mut found = circles(source.files.len(), edges);
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    let value = found.first().map_or(1, Vec::len) as f64;
    let details = found.iter().filter(|circle| circle.len() as f64 > CIRCLE_FILES);
    let details = details.map(|circle| {
        let files: Vec<_> = circle.iter().map(|file| source.files[*file].path.as_str()).collect();
        files.join(" ")
    });
    Measure {
        name: format!("files in the largest circle of imports in {name}"),
        value,
        goal: CIRCLE_FILES,
        details: details.collect(),
    }
}

fn many_parameters(name: &str, source: &CrateSource) -> Measure {
    let functions = source.functions();
    let many: Vec<_> = functions.iter().filter(|function| function.parameters >= PARAMETERS).collect();
    let details = many.iter().map(|function| {
        format!("{}: {} has {}", source.files[function.file].path, function.name, function.parameters)
    });
    Measure {
        name: format!("percent of functions with {PARAMETERS} parameters or more in {name}"),
        value: (1000.0 * many.len() as f64 / functions.len().max(1) as f64).round() / 10.0,
        goal: MANY_PARAMETERS_PERCENT,
        details: details.collect(),
    }
}

/// The folder with most files among `name` and those below it. A module beside the folder of its parts does not count.
fn fullest_folder(source: &CrateSource, name: &str) -> Measure {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    let has_folder = |path: &str| {
        let folder = path.trim_end_matches(".rs");
        source
            .files
            .iter()
            .any(|file| file.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    };
    for file in source.files.iter().filter(|file| !has_folder(&file.path)) {
        if let Some((folder, _)) = file.path.rsplit_once('/')
            && is_of(&file.path, name)
        {
            *folders.entry(folder).or_default() += 1;
        }
    }
    let details = folders.iter().map(|(folder, files)| format!("{folder}: {files}"));
    Measure {
        name: format!("files in the fullest folder of {name}"),
        value: folders.values().copied().max().unwrap_or(0) as f64,
        goal: FOLDER_FILES,
        details: details.collect(),
    }
}

fn imports_between(source: &CrateSource, edges: &Edges, user: &str, used: &str) -> Measure {
    counted(
        format!("imports of {used} in {user}"),
        source,
        edges.iter().filter(|(from, to)| {
            is_of(&source.files[*from].path, user) && is_of(&source.files[*to].path, used)
        }),
    )
}

/// `main.rs` may name the command, as it names every other one.
fn imports_of_walk(source: &CrateSource, edges: &Edges) -> Measure {
    counted(
        "imports of the command walk in the rest of cli".to_owned(),
        source,
        edges.iter().filter(|(from, to)| {
            let (from, to) = (&source.files[*from].path, &source.files[*to].path);
            is_of(to, "walk") && !is_of(from, "walk") && from != "main.rs"
        }),
    )
}

fn counted<'a>(
    name: String,
    source: &CrateSource,
    edges: impl Iterator<Item = &'a (usize, usize)>,
) -> Measure {
    let file = |index: usize| source.files[index].path.as_str();
    let details: Vec<_> = edges.map(|(from, to)| format!("{} imports {}", file(*from), file(*to))).collect();
    Measure { name, value: details.len() as f64, goal: 0.0, details }
}

/// Whether a file is the module `name` of the crate or below it.
fn is_of(path: &str, name: &str) -> bool {
    path.strip_prefix(name).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}
