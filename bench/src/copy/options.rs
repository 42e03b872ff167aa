//! The options of the benchmark `copy`, and what follows from them: rounds, sets, places, the name of the results. No I/O.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::case::Which;
use super::place::{Ground, Kind};
use super::set::Name;
use crate::turns::BenchResult;

/// Compare `atta copy` with its peers and with the raw limit
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds that count, after one to warm up [default: 7; 1 with --quick]
    #[arg(long, value_parser = clap::value_parser!(u16).range(3..))]
    rounds: Option<u16>,
    /// Directory to copy in; may be given several times [default: /dev/shm, and both images]
    #[arg(long)]
    dir: Vec<PathBuf>,
    /// Copy in a fresh file system on a loop device, which takes root; may be given several times
    #[arg(long, value_name = "KIND")]
    image: Vec<Kind>,
    /// Directory for image files, on a disk [default: bench-images in the target directory]
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// How much of each data set is taken, beside what is usual [default: 1; 0.02 with --quick]
    #[arg(long, value_name = "FACTOR")]
    scale: Option<f64>,
    /// Take the least of everything, and in images two data sets: about a minute where the programs are built
    #[arg(long)]
    quick: bool,
    /// Take only this case; may be given several times
    #[arg(long, value_name = "CASE")]
    only: Vec<Which>,
    /// Take only this data set; may be given several times
    #[arg(long)]
    set: Vec<Name>,
    /// Drop all caches before each run; needs root
    #[arg(long)]
    pub(super) cold: bool,
    /// Directory with bin/mpicc and bin/mpirun of an MPI, for ranks; may be given several times
    #[arg(long, value_name = "PREFIX")]
    pub(super) mpi: Vec<PathBuf>,
    /// Files in the case of memory [default: 2000000; 20000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(20..))]
    memory_files: Option<u64>,
    /// This atta, and not the one that is built here
    #[arg(long, value_name = "PROGRAM")]
    pub(super) atta: Option<PathBuf>,
    /// An older atta, which copies in turns with the new one, in the case of peers
    #[arg(long, value_name = "PROGRAM")]
    pub(super) before: Option<PathBuf>,
    /// This raw limit, and not the one that is built here
    #[arg(long, value_name = "PROGRAM")]
    pub(super) copy_limit: Option<PathBuf>,
    /// Where a peer is that is not on the search path, as xcp=/opt/bin/xcp; may be given several times
    #[arg(long, value_name = "NAME=PROGRAM", value_parser = named)]
    pub(super) peer: Vec<(String, PathBuf)>,
    /// Install the peers that are missing, with apt-get and cargo
    #[arg(long)]
    pub(super) install: bool,
    /// Leave the peers out: atta and the raw limit alone, for more rounds in the same time
    #[arg(long)]
    pub(super) alone: bool,
    /// Where the results are written [default: bench/results]
    #[arg(long)]
    pub(super) results: Option<PathBuf>,
}

impl Options {
    pub(super) fn rounds(&self) -> usize {
        self.rounds.map_or(if self.quick { 1 } else { 7 }, usize::from)
    }

    pub(super) fn scale(&self) -> f64 {
        self.scale.unwrap_or(if self.quick { 0.02 } else { 1.0 })
    }

    pub(super) fn memory_files(&self) -> u64 {
        self.memory_files.unwrap_or(if self.quick { 20_000 } else { 2_000_000 })
    }

    /// Whether a case is taken.
    pub(super) fn wants(&self, which: Which) -> bool {
        self.only.is_empty() || self.only.contains(&which)
    }

    pub(super) fn cases(&self) -> Vec<Which> {
        Which::value_variants().iter().copied().filter(|which| self.wants(*which)).collect()
    }

    pub(super) fn sets(&self) -> Vec<Name> {
        let wanted = |name: &&Name| self.set.is_empty() || self.set.contains(name);
        let is_taken = |name: &&Name| self.cases().iter().any(|which| which.takes(**name));
        Name::value_variants().iter().filter(wanted).filter(is_taken).copied().collect()
    }

    /// Whether a set is copied there: a file system that is made for each takes most of a quick run's time.
    pub(super) fn takes(&self, name: Name, ground: &Ground) -> bool {
        let is_usual = matches!(name, Name::Small | Name::Large) || self.set.contains(&name);
        !self.quick || matches!(ground, Ground::Directory(_)) || is_usual
    }

    pub(super) fn grounds(&self, target: &Path) -> Vec<Ground> {
        let images = self.images.clone().unwrap_or_else(|| target.join("bench-images"));
        let (dirs, kinds) = match self.dir.is_empty() && self.image.is_empty() {
            true => (vec![PathBuf::from("/dev/shm")], vec![Kind::Ext4, Kind::Xfs]),
            false => (self.dir.clone(), self.image.clone()),
        };
        let kinds = kinds.into_iter().map(|kind| Ground::Image(kind, images.clone()));
        dirs.into_iter().map(Ground::Directory).chain(kinds).collect()
    }

    /// Where trees of many files are made: /dev/shm may have fewer inodes than they need.
    pub(super) fn memory_ground(&self) -> Ground {
        let below = self.dir.first().cloned().unwrap_or_else(|| "/dev/shm".into());
        match rustix::process::geteuid().is_root() {
            true => Ground::Memory(below),
            false => Ground::Directory(below),
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let caches = match self.cold {
            true => "caches: dropped before each run",
            false => "caches: warm; the source was read in the round before",
        };
        let mut notes = vec![
            format!("rounds: {}, after one to warm up; targets are removed between runs", self.rounds()),
            format!("scale: {}", self.scale()),
            caches.to_owned(),
            "durability: on a disk everyone's time ends when syncfs has ended; nothing is dirty when it begins".to_owned(),
            "complete: only copies with as many files, directories and bytes as their source count".to_owned(),
        ];
        if self.quick {
            notes.push("quick: too small for goals to mean anything".to_owned());
        }
        notes
    }

    /// Partial runs get names of their own, so that they never take the place of a full run.
    pub(super) fn results_name(&self) -> String {
        let mut name = "copy".to_owned();
        for (is_wanted, part) in [(self.cold, "-cold"), (self.quick, "-quick"), (self.alone, "-alone")] {
            name.push_str(if is_wanted { part } else { "" });
        }
        self.image.iter().for_each(|kind| name.push_str(&format!("-{}", kind.word())));
        let cases = self.only.iter().map(|which| which.word());
        let sets = self.set.iter().map(|set| set.word());
        cases.chain(sets).for_each(|part| name.push_str(&format!("-{part}")));
        name
    }
}

/// A name and a path with '=' between.
fn named(text: &str) -> BenchResult<(String, PathBuf)> {
    let (name, path) = text.split_once('=').ok_or("not NAME=PROGRAM")?;
    Ok((name.to_owned(), path.into()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parsed(line: &[&str]) -> Options {
        Line::parse_from(std::iter::once(&"copy").chain(line)).options
    }

    #[test]
    fn a_partial_run_never_takes_the_place_of_a_full_one() {
        assert_eq!(parsed(&[]).results_name(), "copy");
        let partial = parsed(&["--quick", "--only", "one-large", "--set", "fcp3", "--cold"]);
        assert_eq!(partial.results_name(), "copy-cold-quick-one-large-fcp3");
        let partial = parsed(&["--alone", "--image", "xfs", "--set", "small"]);
        assert_eq!(partial.results_name(), "copy-alone-xfs-small");
    }

    #[test]
    fn places_sets_and_peers_follow_the_options() {
        let target = Path::new("/t");
        let image = |kind| Ground::Image(kind, "/t/bench-images".into());
        let shm = Ground::Directory("/dev/shm".into());
        assert_eq!(parsed(&[]).grounds(target), [shm, image(Kind::Ext4), image(Kind::Xfs)]);
        assert_eq!(parsed(&["--image", "xfs"]).grounds(target), [image(Kind::Xfs)]);
        assert_eq!(parsed(&["--set", "fcp3", "--set", "small"]).sets(), [Name::Small, Name::Fcp3]);
        assert_eq!(parsed(&["--only", "one-large"]).sets(), [Name::OneLarge]);
        assert_eq!(parsed(&["--peer", "xcp=/a=b"]).peer, [("xcp".to_owned(), PathBuf::from("/a=b"))]);
        assert!(Line::try_parse_from(["copy", "--peer", "xcp"]).is_err());
        assert_eq!((parsed(&["--quick"]).rounds(), parsed(&["--quick"]).scale()), (1, 0.02));
    }
}
