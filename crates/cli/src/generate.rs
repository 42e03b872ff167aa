//! `atta generate`: its arguments, the run and its report.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use atta_ops::generate::{
    Contents, GenerateError, Options, Preset, Progress, Report, Shape, Sizes, Spec, Spread, generate,
};
use atta_runtime::Threads;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::output;
use crate::run::fatal::output_error;
use crate::run::messages::complain;
use crate::run::messages::exit;
use crate::run::signals::Signals;
use crate::size::{binary, grouped, parse_size};
use crate::threads::parse_threads;

/// Time to wait after a signal for threads that hang in a system call.
const PATIENCE: Duration = Duration::from_secs(3);

/// What the files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ContentsName {
    /// Pseudo-random, incompressible data that depends on seed and file
    Random,
    /// Zeros, written to disk
    Zeros,
    /// A single hole: no data is written
    Sparse,
}

/// How files are shared out among directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpreadName {
    /// The same number in each directory, plus or minus one
    Even,
    /// Between zero and twice the average in each directory
    Random,
}

/// Create a reproducible random file tree
#[derive(Debug, Args)]
#[command(
    after_help = "The same seed and options create the same tree, byte for byte, with any number of threads. A preset \
    sets defaults that other options override. Without a preset, the tree has 1,000 files of 1 KiB to 1 MiB in 100 directories.\n\n\
    Sizes: K, M, G, T (or KiB, MiB, ...) are powers of 1024; KB, MB, GB, TB are powers of 1000.\n\n\
    Presets: small-files (40,000 files of 4K to 256K), large-files (6 of 256M), deep (a chain of 2,000 directories), \
    flat (100,000 files in one directory), wide (10,000 directories in one, 10 files each); from papers: lafon-* (LaFon \
    2012, sparse), fcp-* (Wang 2017), pct-* (the pct thesis).\n\n\
    Exit codes: 0 success; 2 invalid usage; 4 fatal error; 130 or 143 interrupted (SIGINT, SIGTERM).\n\n\
    Examples:\n  \
    atta generate --preset small-files /scratch/small\n  \
    atta generate --preset pct-small --scale 0.001 /scratch/pct\n  \
    atta generate --files 1M --directories 50K --size zipf:1K..10M --contents sparse /scratch/zipf\n  \
    atta generate --hard-links 100 --symlinks 100 --xattrs 2 --hostile-names /scratch/odd"
)]
pub(crate) struct GenerateArgs {
    /// Directory to create; an existing directory must be empty
    #[arg(value_name = "TARGET")]
    pub(crate) target: PathBuf,

    /// Predefined set of defaults
    #[arg(long, value_name = "NAME", value_parser = preset_parser(), help_heading = "Tree")]
    pub(crate) preset: Option<Preset>,

    /// Multiply the number of entries of the preset by this factor; for a preset of a single file, its size
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "preset", help_heading = "Tree")]
    pub(crate) scale: f64,

    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Tree")]
    pub(crate) seed: u64,

    /// Number of files, hard links not counted; 10K is 10,000
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Tree")]
    pub(crate) files: Option<u64>,

    /// Number of directories below TARGET; 10K is 10,000
    #[arg(long, value_name = "N", value_parser = parse_count, help_heading = "Tree")]
    pub(crate) directories: Option<u64>,

    /// Maximum depth of directories below TARGET [default: 16]
    #[arg(long, value_name = "N", help_heading = "Tree")]
    pub(crate) depth: Option<u32>,

    /// Maximum number of subdirectories per directory [default: 100]
    #[arg(long, value_name = "N", help_heading = "Tree")]
    pub(crate) fan_out: Option<u32>,

    /// Distribution of files over directories [default: random]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Tree")]
    pub(crate) spread: Option<SpreadName>,

    /// Distribution of file sizes: fixed:SIZE, or DIST:MIN..MAX, where DIST is uniform, normal (limits at three standard
    /// deviations), lognormal (the same for logarithms) or zipf (probability proportional to 1/size). With /STEP, sizes are
    /// MIN plus multiples of STEP
    #[arg(long, value_name = "DIST:MIN..MAX[/STEP]", value_parser = parse_sizes, help_heading = "Tree")]
    pub(crate) size: Option<Sizes>,

    /// Contents of files [default: random]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Tree")]
    pub(crate) contents: Option<ContentsName>,

    /// Number of hard links: additional names of files, in any directory
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_count, help_heading = "Tree")]
    pub(crate) hard_links: u64,

    /// Number of symbolic links: to entries of the tree, to entries outside it, to themselves, and dangling
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_count, help_heading = "Tree")]
    pub(crate) symlinks: u64,

    /// Number of extended attributes (user.*) on every fourth file (at most 32)
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Tree")]
    pub(crate) xattrs: u32,

    /// Fraction (0 to 1) of names with newlines, control characters, invalid UTF-8 and similar; 0.25 if no value is given
    #[arg(
        long,
        value_name = "SHARE",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = 0.0,
        default_missing_value = "0.25",
        help_heading = "Tree"
    )]
    pub(crate) hostile_names: f64,

    /// Number of threads, or auto: one per core, and more while most threads wait for I/O
    #[arg(short = 'j', long, value_name = "N|auto", default_value = "auto", value_parser = parse_threads)]
    pub(crate) threads: Threads,

    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors: no summary and no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

impl GenerateArgs {
    /// The requested tree.
    ///
    /// # Errors
    /// Returns why there can be no such tree.
    pub(crate) fn spec(&self) -> Result<Spec, String> {
        let preset = self.preset.map_or_else(|| Ok(Spec::default()), |preset| preset.spec(self.scale));
        let mut spec = preset.map_err(|error| error.to_string())?;
        spec.seed = self.seed;
        spec.files = self.files.unwrap_or(spec.files);
        spec.directories = self.directories.unwrap_or(spec.directories);
        spec.depth_max = self.depth.unwrap_or(spec.depth_max);
        spec.fan_out_max = self.fan_out.unwrap_or(spec.fan_out_max);
        spec.sizes = self.size.unwrap_or(spec.sizes);
        spec.spread = match self.spread {
            Some(SpreadName::Even) => Spread::Even,
            Some(SpreadName::Random) => Spread::Random,
            None => spec.spread,
        };
        spec.contents = match self.contents {
            Some(ContentsName::Random) => Contents::Random,
            Some(ContentsName::Zeros) => Contents::Zeros,
            Some(ContentsName::Sparse) => Contents::Sparse,
            None => spec.contents,
        };
        (spec.hard_links, spec.symlinks) = (self.hard_links, self.symlinks);
        (spec.xattrs, spec.hostile_names) = (self.xattrs, self.hostile_names);
        spec.check().map(|()| spec).map_err(|error| error.to_string())
    }
}

/// Runs the command; returns its exit code.
pub(crate) fn run(args: &GenerateArgs, signals: &Signals) -> u8 {
    let spec = match args.spec() {
        Ok(spec) => spec,
        Err(why) => {
            complain(&why, Some("see atta generate --help"));
            return exit::USAGE;
        }
    };
    let bar = bar(args, &spec);
    let options = Options { threads: args.threads, stop: signals.stop() };
    let outcome = generate(&args.target, &spec, &options, |progress| {
        bar.set_position(progress.entries);
        if progress.stopping.is_some_and(|since| since > PATIENCE) {
            give_up(&bar, progress, signals);
        }
    });
    bar.finish_and_clear();
    match outcome {
        Ok(report) => conclude(args, &spec, &report, signals),
        Err(error) => {
            complain(&error.to_string(), hint(&error).as_deref());
            if args.json
                && let GenerateError::Failed { made, .. } = &error
            {
                // The error matters more than a failure to write the summary.
                let _ = write(&format!("{}\n", json(&spec, made, Some(&error.to_string()))));
            }
            exit::FATAL
        }
    }
}

/// Exits the program although threads still hang in the kernel: no more results will come from them.
fn give_up(bar: &ProgressBar, progress: &Progress, signals: &Signals) -> ! {
    bar.finish_and_clear();
    let made = grouped(progress.entries);
    complain(&format!("interrupted; some threads hang in the file system; {made} entries were made"), None);
    std::process::exit(signals.code().unwrap_or(exit::FATAL).into());
}

/// Prints the summary and returns the exit code.
fn conclude(args: &GenerateArgs, spec: &Spec, report: &Report, signals: &Signals) -> u8 {
    let text = if args.json {
        format!("{}\n", json(spec, report, None))
    } else if args.quiet {
        String::new()
    } else {
        text(report)
    };
    let written = write(&text);
    if report.stopped {
        return signals.code().unwrap_or(exit::FATAL);
    }
    match written {
        Ok(()) => exit::DONE,
        Err(error) => output_error(&error).report(),
    }
}

fn write(text: &str) -> io::Result<()> {
    output::write(text.as_bytes())
}

fn hint(error: &GenerateError) -> Option<String> {
    match error {
        GenerateError::NotEmpty(_) => {
            Some("nothing was changed; choose a new or an empty directory".to_owned())
        }
        GenerateError::Failed { made, .. } if made.files + made.directories > 0 => {
            let (files, directories) = (grouped(made.files), grouped(made.directories));
            Some(format!("{files} files and {directories} directories were made and left as they are"))
        }
        _ => None,
    }
}

/// Progress bar on standard error, if that is a terminal.
fn bar(args: &GenerateArgs, spec: &Spec) -> ProgressBar {
    if args.quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(spec.entries()), ProgressDrawTarget::stderr_with_hz(10));
    let template = "{wide_bar} {human_pos} of {human_len} entries, {per_sec}, {eta} left";
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn text(report: &Report) -> String {
    let entries = report.files + report.directories + report.hard_links + report.symlinks;
    let seconds = report.elapsed.as_secs_f64();
    let rate = (entries as f64 / seconds.max(1e-9)) as u64;
    let state = if report.stopped { "interrupted: " } else { "" };
    let threads = match report.threads_max {
        1 => "1 thread".to_owned(),
        count => format!("{count} threads"),
    };
    let (total, rate) = (grouped(entries), grouped(rate));
    let noun = if entries == 1 { "entry" } else { "entries" };
    let mut text = format!("{state}{total} {noun} in {seconds:.2} s ({rate}/s, {threads})\n");
    let rows = [
        ("files", report.files),
        ("directories", report.directories),
        ("hard links", report.hard_links),
        ("symlinks", report.symlinks),
        ("xattrs", report.xattrs),
        ("xattrs the file system does not take", report.xattrs_unsupported),
    ];
    for (name, count) in rows.into_iter().filter(|(_, count)| *count > 0) {
        text.push_str(&format!("  {name:<12} {:>15}\n", grouped(count)));
    }
    text.push_str(&format!(
        "  {:<12} {:>15}  {}\n",
        "apparent",
        grouped(report.size_bytes),
        binary(report.size_bytes)
    ));
    text
}

fn json(spec: &Spec, report: &Report, error: Option<&str>) -> Value {
    json!({
        "schema_version": 1,
        "command": "generate",
        "seed": spec.seed,
        "interrupted": report.stopped && error.is_none(),
        "error": error,
        "files": report.files,
        "directories": report.directories,
        "hard_links": report.hard_links,
        "symlinks": report.symlinks,
        "xattrs": report.xattrs,
        "xattrs_unsupported": report.xattrs_unsupported,
        "apparent_bytes": report.size_bytes,
        "elapsed_seconds": report.elapsed.as_secs_f64(),
        "threads": report.threads_max,
    })
}

fn preset_parser() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::name))
        .try_map(|name| Preset::from_name(&name).ok_or_else(|| format!("no preset is called {name}")))
}

/// Parses a count: `K`, `M` and `G` are thousands, millions and billions.
fn parse_count(text: &str) -> Result<u64, String> {
    let units = [('K', 1_000_u64), ('M', 1_000_000), ('G', 1_000_000_000)];
    let unit = units.into_iter().find(|(letter, _)| text.ends_with([*letter, letter.to_ascii_lowercase()]));
    let (digits, unit) = unit.map_or((text, 1), |(_, unit)| (&text[..text.len() - 1], unit));
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is no number, as in 500, 10K or 2M"))?;
    number.checked_mul(unit).ok_or_else(|| format!("'{text}' is 2^64 or more"))
}

/// `fixed:1M`, `zipf:256K..2560K/256K`.
fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let forms = "as in fixed:1M, uniform:0..64K or zipf:256K..2560K/256K";
    let (name, range) = text.split_once(':').ok_or_else(|| format!("no distribution, {forms}"))?;
    let shape = match name {
        "fixed" => Shape::Fixed,
        "uniform" => Shape::Uniform,
        "normal" => Shape::Normal,
        "zipf" => Shape::Zipf,
        "lognormal" => Shape::Lognormal,
        _ => return Err(format!("'{name}' is no distribution, {forms}")),
    };
    let (range, step) = range.split_once('/').unwrap_or((range, "1"));
    let (min, max) = match range.split_once("..") {
        Some(limits) => limits,
        None if shape == Shape::Fixed => (range, range),
        None => return Err(format!("no range of sizes, {forms}")),
    };
    let sizes = Sizes::new(shape, parse_size(min)?, parse_size(max)?, parse_size(step)?);
    sizes.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: GenerateArgs,
    }

    fn spec(words: &[&str]) -> Result<Spec, String> {
        let line = ["generate", "t"].iter().chain(words);
        Line::try_parse_from(line).map_err(|error| error.to_string())?.args.spec()
    }

    #[test]
    fn without_options_it_is_the_default() {
        assert_eq!(spec(&[]), Ok(Spec::default()));
    }

    #[test]
    fn options_override_a_preset() {
        let made =
            spec(&["--preset", "fcp-3", "--scale", "0.5", "--files", "2K", "--contents", "sparse"]).unwrap();
        assert_eq!((made.files, made.contents), (2_000, Contents::Sparse));
        assert_eq!(made.sizes.max_bytes(), 100_000_000);
        let deep = spec(&["--preset", "deep", "--directories", "20000"]).unwrap();
        assert_eq!((deep.directories, deep.fan_out_max), (20_000, 1));
        assert!((spec(&["--hostile-names"]).unwrap().hostile_names - 0.25).abs() < 1e-9);
        assert!((spec(&["--hostile-names=1"]).unwrap().hostile_names - 1.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_are_a_distribution_and_a_range() {
        let step = Sizes::new(Shape::Zipf, 1 << 18, 10 << 18, 1 << 18).unwrap();
        assert_eq!(parse_sizes("zipf:256K..2560K/256K"), Ok(step));
        assert_eq!(parse_sizes("fixed:1M"), Ok(Sizes::fixed(1 << 20).unwrap()));
        for wrong in
            ["1M", "fixed:", "uniform:1K", "zipf:0..1K", "normal:2K..1K", "gauss:1..2", "uniform:1..2/0"]
        {
            assert!(parse_sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn wrong_usage_says_why() {
        assert!(spec(&["--scale", "2"]).unwrap_err().contains("--preset"));
        assert!(spec(&["--preset", "tiny"]).unwrap_err().contains("small-files"));
        assert!(spec(&["--preset", "deep", "--scale", "0"]).unwrap_err().contains("scale"));
        assert!(spec(&["--depth", "1"]).is_ok() && spec(&["--depth", "1", "--fan-out", "99"]).is_err());
        assert!(spec(&["--threads", "0"]).is_err());
        assert!(spec(&["--hostile-names=2"]).unwrap_err().contains("share"));
    }
}
