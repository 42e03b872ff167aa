//! Kills this process at a chosen point of a run, to test what survives: the kill points of the thesis of pct. Or at each entry of
//! a name, to test what ranks die at again and again. It does nothing until [`kill_at`] or [`die_of`] is called, and is not part of builds without debug
//! assertions.

/// A point of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A directory was opened, and nothing of it was read.
    Traversal,
    /// Names of a directory were read and noted, and none was looked at.
    Production,
    /// A block of names, or a chunk of a large file, is about to be handled.
    Consumption,
}

impl Point {
    /// All points.
    pub const ALL: [Self; 3] = [Self::Traversal, Self::Production, Self::Consumption];

    /// The name by which it is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Traversal => "traversal",
            Self::Production => "production",
            Self::Consumption => "consumption",
        }
    }
}

/// What a process may die at whenever it comes to one of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poison {
    /// An entry is about to be looked at.
    Entry,
    /// A directory is about to be opened.
    Opening,
    /// Names of a directory are about to be read.
    Directory,
    /// A large file is about to be opened and cut.
    Plan,
    /// The second chunk of a large file is about to be processed.
    Chunk,
}

impl Poison {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Entry, Self::Opening, Self::Directory, Self::Plan, Self::Chunk];

    /// The word by which it is chosen.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Opening => "opening",
            Self::Directory => "directory",
            Self::Plan => "plan",
            Self::Chunk => "chunk",
        }
    }
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Point, Poison};

    static POISON: OnceLock<(Poison, Vec<u8>)> = OnceLock::new();

    /// The process kills itself whenever it comes to this.
    pub fn die_of(poison: Poison, name: &[u8]) {
        let _ = POISON.set((poison, name.to_vec()));
    }

    pub(crate) fn meet(poison: Poison, name: &[u8]) {
        if POISON.get().is_some_and(|(of, fatal)| *of == poison && fatal == name) {
            die();
        }
    }

    fn die() {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }

    /// How often each point is passed until the process dies; 0: it does not.
    static LEFT: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

    /// The process kills itself when it passes a point for the `count`th time from now on.
    pub fn kill_at(point: Point, count: u64) {
        LEFT[point as usize].store(count, Ordering::Relaxed);
    }

    pub(crate) fn pass(point: Point) {
        let left = &LEFT[point as usize];
        if left.load(Ordering::Relaxed) > 0 && left.fetch_sub(1, Ordering::Relaxed) == 1 {
            die();
        }
    }
}

#[cfg(debug_assertions)]
pub use armed::{die_of, kill_at};
#[cfg(debug_assertions)]
pub(crate) use armed::{meet, pass};

#[cfg(not(debug_assertions))]
pub(crate) fn pass(_point: Point) {}

#[cfg(not(debug_assertions))]
pub(crate) fn meet(_poison: Poison, _name: &[u8]) {}
