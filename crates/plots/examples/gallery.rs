//! Writes one picture of each kind, with made-up numbers, into a directory: `gallery DIRECTORY`. To look at, after a
//! change; it checks nothing.

use std::error::Error;
use std::path::PathBuf;

use atta_plots::{Group, Labels, Matrix, Scale, Stack, bars, heat_map, histogram, lines, stacked};

const SCHEDULES: [&str; 4] = ["central", "random victim, half", "ring", "hosts first"];

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: gallery DIRECTORY")?);
    std::fs::create_dir_all(&directory)?;
    let pictures = [
        ("time", time()?),
        ("messages", messages()?),
        ("profile", profile(Stack::Sum)?),
        ("profile-percent", profile(Stack::Percent)?),
        ("pairs-30", pairs(30, Scale::Linear)?),
        ("pairs-4096", pairs(4096, Scale::Logarithmic)?),
        ("shares", shares()?),
        ("efficiency", efficiency()?),
    ];
    for (name, svg) in pictures {
        std::fs::write(directory.join(name).with_extension("svg"), svg)?;
    }
    Ok(())
}

fn groups(ranks: &[u32], series: &[&str], value: impl Fn(f64, f64) -> f64) -> Vec<Group> {
    let values = |ranks: u32| {
        let series = (1_u32..).zip(series);
        series.map(|(i, name)| ((*name).to_owned(), value(f64::from(ranks), f64::from(i)))).collect()
    };
    ranks.iter().map(|ranks| (ranks.to_string(), values(*ranks))).collect()
}

fn time() -> Result<String, Box<dyn Error>> {
    let labels = Labels::new("Running time").subtitle("1 million files, made up").x("ranks").y("seconds");
    let groups = groups(&[1, 2, 4, 8, 16, 32], &SCHEDULES, |ranks, i| 900.0 / ranks.powf(0.5 + i * 0.1));
    Ok(bars(&labels, &groups, Scale::Linear)?)
}

fn messages() -> Result<String, Box<dyn Error>> {
    let labels = Labels::new("Messages").x("files").y("messages");
    let groups = groups(&[10_000, 100_000, 1_000_000], &SCHEDULES, |files, i| files * 10_f64.powf(1.0 - i));
    Ok(bars(&labels, &groups, Scale::Logarithmic)?)
}

fn profile(stack: Stack) -> Result<String, Box<dyn Error>> {
    let labels =
        Labels::new("Profile").x("ranks").y(if stack == Stack::Sum { "seconds" } else { "% of time" });
    let parts = ["readdir", "lstat", "callback", "communication", "idle"];
    let groups = groups(&[1, 2, 4, 8, 16, 32, 64, 128], &parts, |ranks, i| {
        if i > 3.0 { ranks.ln() * i } else { 120.0 / i / ranks.sqrt() }
    });
    Ok(stacked(&labels, &groups, stack)?)
}

fn pairs(ranks: u32, scale: Scale) -> Result<String, Box<dyn Error>> {
    let labels = Labels::new("Bytes between ranks").x("to rank").y("from rank").value("bytes");
    let mut matrix = Matrix::new(ranks as usize, ranks as usize)?;
    for from in 0..ranks {
        for to in (0..ranks).filter(|to| *to != from) {
            let near = 1e6 / f64::from(from.abs_diff(to)).powf(1.2);
            let master = if from == 0 || to == 0 { 1.6e9 / f64::from(ranks) } else { 0.0 };
            matrix.add(from as usize, to as usize, near + master)?;
        }
    }
    Ok(heat_map(&labels, &matrix, scale)?)
}

fn shares() -> Result<String, Box<dyn Error>> {
    let labels = Labels::new("Work of each rank").subtitle("20 ranks, made up").x("% of the work").y("ranks");
    let series: Vec<_> = (1_u32..)
        .zip(SCHEDULES)
        .map(|(i, name)| {
            let share = |rank: u32| {
                5.0 + f64::from((rank * 7919) % 20) * 0.4 / f64::from(i * i) - 3.8 / f64::from(i * i)
            };
            (name.to_owned(), (0..20).map(share).collect())
        })
        .collect();
    Ok(histogram(&labels, &series, 40)?)
}

fn efficiency() -> Result<String, Box<dyn Error>> {
    let labels = Labels::new("Efficiency, simulated").x("ranks").y("share of the time spent at work");
    let line = |(i, name): (u32, &str)| {
        let point = |power: i32| {
            let ranks = 10_f64.powf(1.0 + f64::from(power) / 2.0);
            (ranks, 1.0 / (1.0 + ranks.powf(0.25 * f64::from(5 - i)) / 1000.0))
        };
        (name.to_owned(), (0..=10).map(point).collect())
    };
    let series: Vec<_> = (1_u32..).zip(SCHEDULES).map(line).collect();
    Ok(lines(&labels, &series, Scale::Logarithmic, Scale::Linear)?)
}
