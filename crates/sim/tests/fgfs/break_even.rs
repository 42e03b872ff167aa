//! From how many questions on a map of all mount points pays for itself.

use atta_sim::RankTree;
use atta_status::{Answer, MountMap};

use crate::paper;
use crate::ranks::{Asked, Files, Job, ask_of};

/// A question to the map, as measured (0032).
const LOOKUP_US: f64 = 0.11;

/// What is mounted where.
#[derive(Clone, Copy, Debug)]
struct Mounts {
    nfs: u32,
    local: u32,
}

impl Mounts {
    /// A few tens, as the paper has it.
    const FEW_TENS: Self = Self { nfs: 10, local: 20 };
    /// A host that mounts nothing of its own but the root.
    const SERVERS: Self = Self { nfs: 30, local: 0 };

    fn lines(self) -> String {
        let nfs = (0..self.nfs)
            .map(|at| format!("{} 1 0:{} / /nfs/{at} rw - nfs4 10.0.0.{at}:/e rw\n", 2 + at, 60 + at));
        let first = 2 + self.nfs;
        let local = (0..self.local)
            .map(|at| format!("{} 1 0:{} / /local/{at} rw - tmpfs none rw\n", first + at, 100 + at));
        nfs.chain(local).collect()
    }

    /// One question of a file on a server.
    fn question(self, job: Job) -> Asked<Answer> {
        let lines = self.lines();
        let path = b"/nfs/3/lib/libm.so";
        ask_of(job, &|_| lines.clone(), &Files::default(), |status, seat| status.is_unique(seat, path))
    }

    /// The map, and its answer to the same question.
    fn map(self, job: Job) -> Asked<Answer> {
        let lines = self.lines();
        ask_of(job, &|_| lines.clone(), &Files::default(), |status, seat| {
            Ok(MountMap::build(status, seat)?.is_unique(b"/nfs/3/lib/libm.so"))
        })
    }

    /// The number of questions from which on the map takes less time, and milliseconds for all files of KULL: from the map, and one by one.
    fn break_even(self, ranks: u32) -> (f64, [f64; 2]) {
        let job = Job::mpi(ranks, RankTree::Binomial);
        let (question, map) = (self.question(job), self.map(job));
        assert_eq!((question.common(), map.common()), (&Answer::Yes, &Answer::Yes));
        assert_eq!(
            map.traffic.messages,
            2 * question.traffic.messages,
            "two reductions, whatever is mounted"
        );
        let number = (map.us / (question.us - LOOKUP_US)).ceil();
        let files = f64::from(paper::KULL_FILES);
        let all_ms = [map.us + LOOKUP_US * files, question.us * files].map(|us| us / 1e3);
        println!(
            "{self:?}, {ranks} ranks: a question {:.1} us, the map {:.1} us, longest message {} bytes, break-even at {number} questions; \
             {files} files: {all_ms:.2?} ms",
            question.us, map.us, map.traffic.longest
        );
        (number, all_ms)
    }
}

#[test]
fn map_pays_for_itself_below_849_questions() {
    for ranks in [4, 64, 1024] {
        let (number, [from_map, one_by_one]) = Mounts::SERVERS.break_even(ranks);
        assert!(number < f64::from(Mounts::SERVERS.nfs), "as the paper says: {number}");
        assert!(from_map < one_by_one);
        let (number, [from_map, one_by_one]) = Mounts::FEW_TENS.break_even(ranks);
        assert!((1.0..f64::from(paper::KULL_FILES)).contains(&number), "{number}");
        assert!(from_map < one_by_one);
    }
}

#[test]
#[ignore = "takes minutes"]
fn break_even_of_32768_ranks() {
    println!("the paper: {:?} ms", paper::KULL_UNIQUE_MS);
    for mounts in [Mounts::SERVERS, Mounts::FEW_TENS] {
        for ranks in [4096, paper::LARGE_RANKS] {
            let (_, [from_map, one_by_one]) = mounts.break_even(ranks);
            assert!(from_map < one_by_one);
        }
    }
}
