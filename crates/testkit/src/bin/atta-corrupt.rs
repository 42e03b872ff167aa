//! Changes bytes in the files of a tree, silently, and prints which. Reads arguments; what it does is in `atta_testkit::corrupt`.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::exit;

use atta_testkit::corrupt::{Damage, Files, corrupt};

const USAGE: &str = "\
usage: atta-corrupt TREE [--seed N] [--files N | --glob PATTERN] [--bits N | --block BYTES]

Changes bytes in files of TREE, keeps their sizes and times, and prints what it changed.

  --seed N         what is chosen follows from it (1)
  --files N        so many files (1)
  --glob PATTERN   all files whose names match, with * and ?; with a slash it is of paths
  --bits N         so many bits of each file are turned (1)
  --block BYTES    a block of each file becomes another one

Exit status: 0 changed, 2 wrong options or too little to change, 4 a file could not be changed.
";

struct Options {
    tree: PathBuf,
    seed: u64,
    files: Files,
    damage: Damage,
}

fn main() {
    let options =
        parse(std::env::args_os().skip(1)).unwrap_or_else(|wrong| fail(2, &format!("{wrong}\n\n{USAGE}")));
    let changes = corrupt(&options.tree, options.seed, &options.files, options.damage);
    let changes = changes.unwrap_or_else(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => fail(2, &error.to_string()),
        _ => fail(4, &error.to_string()),
    });
    let mut out = std::io::stdout().lock();
    for change in changes {
        if let Err(error) = writeln!(out, "{change}") {
            fail(4, &error.to_string());
        }
    }
}

fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Options, String> {
    let mut arguments = arguments;
    let (mut tree, mut seed, mut files, mut damage) = (None, 1, Files::Some(1), Damage::Bits(1));
    while let Some(argument) = arguments.next() {
        let Some(name) = argument.to_str().filter(|text| text.starts_with("--")) else {
            if tree.replace(PathBuf::from(&argument)).is_some() {
                return Err(format!("a second tree: {}", argument.display()));
            }
            continue;
        };
        let value = arguments.next().and_then(|value| value.into_string().ok());
        let value = value.ok_or_else(|| format!("{name} wants a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{name} wants a number, not '{value}'"));
        match name {
            "--seed" => seed = number()?,
            "--files" => files = Files::Some(number()?),
            "--glob" => files = Files::Matching(value),
            "--bits" => damage = Damage::Bits(number()?),
            "--block" => damage = Damage::Block(number()?),
            _ => return Err(format!("unknown option {name}")),
        }
    }
    Ok(Options { tree: tree.ok_or("no tree")?, seed, files, damage })
}

fn fail(status: i32, message: &str) -> ! {
    // A failure here cannot be reported.
    let _unheard = writeln!(std::io::stderr(), "atta-corrupt: {message}");
    exit(status);
}
