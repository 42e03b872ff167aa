//! Kill points of a simulated rank: the points of `ops/inject.rs`, in the tasks of the simulator. It computes when a task passes a point, and, from the time
//! alone, how far a task has come. It kills nobody (`world.rs`), and knows no disturbed costs.
//!
//! ```text
//!   stat, open ─▶ traversal ─ read entries ─▶ production ─▶ consumption ─ 32 names ─▶ consumption ─ 32 names ─ ...
//! ```

use std::collections::BTreeMap;

use crate::cost::Costs;
use crate::task::Kind;
use crate::work::Running;

/// Names that are handled at once: a block of `ops/tree/listing/look.rs`.
const BLOCK: u64 = 32;

/// A point of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// A directory was opened, and nothing of it was read.
    Traversal,
    /// Names of a directory were read and noted, and none was looked at.
    Production,
    /// A block of names is about to be handled.
    Consumption,
}

impl Point {
    /// All points.
    pub const ALL: [Self; 3] = [Self::Traversal, Self::Production, Self::Consumption];
}

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// It is a directory, not a slice of one.
    pub is_directory: bool,
    /// Its directory was opened.
    pub is_open: bool,
    /// Entries that it has read.
    pub read: u64,
    /// Entries that it reads.
    pub entries: u64,
    /// Names that it has handled. A slice of a directory has names, and reads no entries.
    pub handled: u64,
    /// Names that it handles.
    pub names: u64,
}

/// All passings of a point. The rank that passes it for the so many-th time dies.
#[derive(Debug)]
pub(crate) struct Passings {
    point: Point,
    /// None: nobody dies.
    dies_at: Option<u64>,
    passed: u64,
    /// In the order of their times.
    coming: BTreeMap<(u64, u64), Passing>,
    added: u64,
}

/// A rank passes a point in a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing {
    pub(crate) rank: u32,
    pub(crate) at_ns: u64,
    begun_ns: u64,
    pub(crate) running: Running,
}

impl Passings {
    pub(crate) fn new(point: Point, dies_at: Option<u64>) -> Self {
        Self { point, dies_at, passed: 0, coming: BTreeMap::new(), added: 0 }
    }

    /// How often it was passed.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// A rank begins a task.
    pub(crate) fn begin(&mut self, costs: &Costs, (rank, begun_ns): (u32, u64), running: Running) {
        let read_ns = read_ns(costs, &running);
        let times: Vec<u64> = match self.point {
            Point::Traversal if running.opens() => vec![opened_ns(costs, &running)],
            Point::Production if running.entries > 0 => vec![read_ns],
            Point::Traversal | Point::Production => Vec::new(),
            Point::Consumption => {
                let blocks = (0..names(&running)).step_by(BLOCK as usize);
                blocks.map(|name| read_ns + name * costs.stat_ns).collect()
            }
        };
        for ns in times {
            let at_ns = begun_ns + ns;
            self.added += 1;
            self.coming.insert((at_ns, self.added), Passing { rank, at_ns, begun_ns, running });
        }
    }

    /// The time is this. Returns the passing at which a rank dies, if there was one.
    pub(crate) fn until(&mut self, now_ns: u64) -> Option<Passing> {
        while let Some(next) = self.coming.first_entry().filter(|next| next.key().0 <= now_ns) {
            let passing = next.remove();
            self.passed += 1;
            if self.dies_at == Some(self.passed) {
                return Some(passing);
            }
        }
        None
    }
}

impl Passing {
    /// How far the task has come when the rank dies.
    pub(crate) fn progress(&self, costs: &Costs) -> Progress {
        let (running, passed_ns) = (&self.running, self.at_ns - self.begun_ns);
        let after = |from_ns: u64, each_ns: u64| passed_ns.saturating_sub(from_ns) / each_ns.max(1);
        Progress {
            is_directory: running.task.kind == Kind::Directory,
            is_open: passed_ns >= opened_ns(costs, running),
            read: after(opened_ns(costs, running), costs.entry_ns).min(running.entries),
            entries: running.entries,
            handled: after(read_ns(costs, running), costs.stat_ns).min(names(running)),
            names: names(running),
        }
    }

    /// Whether the names of its directory were read.
    pub(crate) fn has_read(&self, costs: &Costs) -> bool {
        self.running.entries > 0 && self.progress(costs).read == self.running.entries
    }
}

/// The time of a directory's own `stat`, and until it is open.
fn opened_ns(costs: &Costs, running: &Running) -> u64 {
    if running.opens() { costs.stat_ns + costs.directory_ns } else { 0 }
}

fn read_ns(costs: &Costs, running: &Running) -> u64 {
    opened_ns(costs, running) + running.entries * costs.entry_ns
}

/// The names that the task itself handles.
fn names(running: &Running) -> u64 {
    running.done.files
}

#[cfg(test)]
mod tests {
    use atta_engine::ScheduleKind;

    use super::*;
    use crate::setup::Setup;
    use crate::task::Task;
    use crate::tree::{Shape, Tree};

    /// A task of one directory with so many files, and the setup.
    fn running(files: u64) -> (Setup, Running) {
        let tree = Tree::new(Shape::Flat, files, 1);
        let setup = Setup::atta(tree, ScheduleKind::default(), 1, 1, Costs::FILE_SERVER);
        (setup, Running::begin(&setup, Task::directory(&tree.root()), 1))
    }

    /// When a task that begins at 5 passes a point, and how far it is then.
    fn found(point: Point, files: u64) -> Vec<(u64, Progress)> {
        let (setup, running) = running(files);
        let all = |dies_at| {
            let mut passings = Passings::new(point, dies_at);
            passings.begin(&setup.costs, (3, 5), running);
            (passings.until(4), passings.until(u64::MAX), passings.passed())
        };
        let (_, none, passed) = all(None);
        assert!(none.is_none());
        let at = |count| match all(Some(count)) {
            (None, Some(passing), _) => (passing.at_ns, passing.progress(&setup.costs)),
            other => panic!("{other:?}"),
        };
        (1..=passed).map(at).collect()
    }

    #[test]
    fn task_passes_the_points_one_after_the_other() {
        let opened =
            Progress { is_directory: true, is_open: true, read: 0, entries: 40, handled: 0, names: 40 };
        assert_eq!(found(Point::Traversal, 40), [(1_100_005, opened)]);
        let read = Progress { read: 40, ..opened };
        assert_eq!(found(Point::Production, 40), [(1_180_005, read)]);
        let block = Progress { handled: 32, ..read };
        assert_eq!(found(Point::Consumption, 40), [(1_180_005, read), (4_380_005, block)]);
        // There is nothing to read.
        assert_eq!(found(Point::Traversal, 0).len(), 1);
        assert_eq!((found(Point::Production, 0), found(Point::Consumption, 0)), (vec![], vec![]));
    }

    #[test]
    fn points_take_the_time_of_the_task() {
        for files in [0, 3, 40] {
            let (setup, running) = running(files);
            let whole = read_ns(&setup.costs, &running) + names(&running) * setup.costs.stat_ns;
            assert_eq!(whole, running.ns(), "{files} files");
        }
    }
}
