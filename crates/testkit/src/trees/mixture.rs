//! A random tree for property tests: everything the other builders have, mixed, from a seed. Small by intent (tens to
//! a few hundred entries). Makes no devices and no unreadable directories: the tree does not depend on who makes it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, ftruncate, linkat, mknodat, symlinkat};

use super::names::HOSTILE_NAMES;
use super::times::{TIMES, set_times};
use super::{make_directory, make_file, open_directory, open_or_make, set_mode, write_at};
use crate::random::Random;

/// A tree of exactly `budget` entries below `directory`. Equal seeds and budgets give equal names, kinds, modes,
/// contents, links and modification times, but for the times and the mode of `directory` itself.
///
/// # Errors
/// What making an entry said.
pub fn random(directory: &Path, seed: u64, budget: u64) -> io::Result<u64> {
    let mut mixture = Mixture {
        top: open_or_make(directory)?,
        random: Random::new(seed),
        directories: vec![Place::default()],
        files: Vec::new(),
        made: 0,
        budget,
    };
    while mixture.made < budget {
        mixture.make_one()?;
    }
    mixture.finish()?;
    Ok(mixture.made)
}

/// A directory of the tree: the names that lead to it from the top, and the names that are taken in it.
#[derive(Default)]
struct Place {
    names: Vec<Vec<u8>>,
    taken: BTreeSet<Vec<u8>>,
}

struct Mixture {
    top: OwnedFd,
    random: Random,
    directories: Vec<Place>,
    /// Files that may get another name: where they are and what they are called.
    files: Vec<(usize, Vec<u8>)>,
    made: u64,
    budget: u64,
}

impl Mixture {
    fn make_one(&mut self) -> io::Result<()> {
        let place = self.random.index(self.directories.len());
        let at = self.open(place)?;
        let name = self.draw_name(place);
        match self.random.below(100) {
            0..25 => self.make_directory(place, &at, name)?,
            25..28 => return self.make_chain(place),
            28..60 => self.make_file(place, &at, name)?,
            60..75 => self.make_symlink(&at, &name)?,
            75..83 => self.make_hard_link(&at, &name)?,
            83..92 => self.make_special(&at, &name)?,
            _ => self.make_sparse(place, &at, name)?,
        }
        self.made += 1;
        Ok(())
    }

    /// Opens a directory by a step for each level: its path may be longer than a system call takes.
    fn open(&self, place: usize) -> io::Result<OwnedFd> {
        let mut at = open_directory(&self.top, c".")?;
        for name in &self.directories[place].names {
            at = open_directory(&at, name.as_slice())?;
        }
        Ok(at)
    }

    fn draw_name(&mut self, place: usize) -> Vec<u8> {
        loop {
            let name = if self.random.chance(25) {
                self.random.pick(HOSTILE_NAMES).to_vec()
            } else {
                format!("e{:x}", self.random.below(1 << 20)).into_bytes()
            };
            if self.directories[place].taken.insert(name.clone()) {
                return name;
            }
        }
    }

    fn make_directory(&mut self, place: usize, at: &OwnedFd, name: Vec<u8>) -> io::Result<()> {
        make_directory(at, &name)?;
        let mode = *self.random.pick(&[0o755, 0o700, 0o2775, 0o1777]);
        set_mode(at, &name, mode)?;
        let mut names = self.directories[place].names.clone();
        names.push(name);
        self.directories.push(Place { names, taken: BTreeSet::new() });
        Ok(())
    }

    /// A chain of up to 20 levels, as far as the budget goes.
    fn make_chain(&mut self, place: usize) -> io::Result<()> {
        let levels = (1 + self.random.below(20)).min(self.budget - self.made);
        let mut place = place;
        for _ in 0..levels {
            let at = self.open(place)?;
            let name = self.draw_name(place);
            self.make_directory(place, &at, name)?;
            self.made += 1;
            place = self.directories.len() - 1;
        }
        Ok(())
    }

    fn make_file(&mut self, place: usize, at: &OwnedFd, name: Vec<u8>) -> io::Result<()> {
        let length = *self.random.pick(&[0, 1, 17, 4095, 4096, 4097, 70_000]);
        let byte = u8::try_from(self.random.below(256)).map_err(io::Error::other)?;
        make_file(at, &name, &vec![byte; length])?;
        self.dress(at, &name)?;
        self.files.push((place, name));
        Ok(())
    }

    fn make_sparse(&mut self, place: usize, at: &OwnedFd, name: Vec<u8>) -> io::Result<()> {
        let file = make_file(at, &name, b"")?;
        let size = 1 + self.random.below(4 << 20);
        if self.random.chance(50) {
            write_at(&file, b"data", self.random.below(size))?;
        }
        ftruncate(&file, size)?;
        self.dress(at, &name)?;
        self.files.push((place, name));
        Ok(())
    }

    /// Mode and time of a file.
    fn dress(&mut self, at: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let mode = *self.random.pick(&[0o644, 0o644, 0o600, 0o755, 0o4755, 0o2755, 0o400]);
        set_mode(at, name, mode)?;
        self.date(at, name)
    }

    fn date(&mut self, at: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let &(_, seconds, nanoseconds) = self.random.pick(TIMES);
        set_times(at, name, seconds, nanoseconds)
    }

    fn make_symlink(&mut self, at: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let target: &[u8] = match self.random.below(6) {
            0 => b"..",
            1 => b"/",
            2 => b"no such file",
            3 => name,
            4 => b"../..",
            _ => HOSTILE_NAMES[self.random.index(HOSTILE_NAMES.len())],
        };
        symlinkat(target, at, name)?;
        self.date(at, name)
    }

    /// Another name for a file of the tree; a file of its own where there is none yet.
    fn make_hard_link(&mut self, at: &OwnedFd, name: &[u8]) -> io::Result<()> {
        if self.files.is_empty() {
            make_file(at, name, b"alone")?;
            return self.dress(at, name);
        }
        let (place, first) = self.random.pick(&self.files).clone();
        let from = self.open(place)?;
        Ok(linkat(&from, &first, at, name, AtFlags::empty())?)
    }

    fn make_special(&mut self, at: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let kind = *self.random.pick(&[FileType::Fifo, FileType::Socket]);
        mknodat(at, name, kind, Mode::from_raw_mode(0o600), 0)?;
        set_mode(at, name, 0o600)?;
        self.date(at, name)
    }

    /// Dates the directories, the deepest first: making an entry in one changes its time.
    fn finish(&mut self) -> io::Result<()> {
        for index in (1..self.directories.len()).rev() {
            let names = self.directories[index].names.clone();
            let Some((name, above)) = names.split_last() else {
                continue;
            };
            let mut at = open_directory(&self.top, c".")?;
            for each in above {
                at = open_directory(&at, each.as_slice())?;
            }
            self.date(&at, name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{oracle, scratch::Scratch};

    type Shape = (char, u32, u64, u64, i64, u32, Option<Vec<u8>>);

    /// What must be equal for equal seeds, by the path below the root.
    fn shapes(root: &Path) -> BTreeMap<Vec<u8>, Shape> {
        let prefix = root.as_os_str().len();
        let found = oracle::list(root).expect("list the tree");
        let below = found.into_iter().filter(|(path, _)| path.len() > prefix);
        let shaped = below.map(|(path, record)| {
            // The size of a directory and its link count belong to the file system.
            let of_file = |value| if record.kind == 'd' { 0 } else { value };
            let shape = (
                record.kind,
                record.mode,
                of_file(record.nlink),
                of_file(record.size),
                record.mtime_sec,
                record.mtime_nsec,
                record.target,
            );
            (path[prefix..].to_vec(), shape)
        });
        shaped.collect()
    }

    #[test]
    fn equal_seeds_give_equal_trees() {
        let scratch = Scratch::new("random").unwrap();
        for seed in 0..20 {
            let (one, two) = (scratch.join(format!("{seed}-1")), scratch.join(format!("{seed}-2")));
            assert_eq!(random(&one, seed, 150).unwrap(), 150, "seed {seed}");
            assert_eq!(random(&two, seed, 150).unwrap(), 150, "seed {seed}");
            let shape = shapes(&one);
            assert_eq!(shape.len(), 150, "seed {seed}");
            assert_eq!(shape, shapes(&two), "seed {seed}");
        }
        assert_ne!(shapes(&scratch.join("1-1")), shapes(&scratch.join("2-1")));
    }

    #[test]
    fn budget_is_met_exactly() {
        let scratch = Scratch::new("budget").unwrap();
        for budget in [0, 1, 7, 400] {
            let root = scratch.join(budget.to_string());
            random(&root, 9, budget).unwrap();
            assert_eq!(oracle::visit(&root, &mut |_, _| {}).unwrap(), budget + 1);
        }
    }
}
