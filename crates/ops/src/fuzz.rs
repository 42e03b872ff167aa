//! The decoders of this crate, for `atta_testkit::fuzz`. The operations list theirs themselves.

use atta_entry::{Code, Errno, Metadata, Side};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::digest::{PieceValue, Signature};
use crate::file::error::{FileError, PairError, Step};
use crate::file::version::Version;
use crate::jobs;
use crate::large::{ChunkRange, LargeTask, Plan};
use crate::metadata::not_kept::NotKept;
use crate::resume;
use crate::tree::progress::SoFar;
use crate::tree::task::bytes::fuzz as tasks;
use crate::tree::{Profile, ThreadReport};
use crate::{bcast, copy, sum, underway, verify, walk};

/// A task of each kind, and the end of a chunk with each of these results.
pub(crate) fn large_tasks<K, R, const N: usize>(key: K, results: [R; N]) -> Vec<LargeTask<K, R>> {
    let ended = |result| LargeTask::Ended { file: 9, chunk: 1 << 20, result };
    let plan = Plan { name: c"a/b".into(), is_again: true, bytes: 1 << 40 };
    let begun = [LargeTask::Plan(plan), LargeTask::Chunks(chunks(key))];
    begun.into_iter().chain(results.map(ended)).collect()
}

fn chunks<K>(key: K) -> ChunkRange<K> {
    let (bytes, size) = (1 << 30, 1 << 40 | 5);
    ChunkRange { rank: 300, file: 3, first: 8, count: 5, bytes, size, name: c"a\n\xffb".into(), key }
}

/// The state of a file.
pub(crate) fn version() -> Version {
    Version::of(&Metadata { size: 1 << 40, ..Metadata::default() })
}

fn targets() -> Vec<Target> {
    let failed = FileError::new(Step::Sync, Errno::IO);
    let on_source = PairError::Failed(Side::Source, Step::Open.operation(), Errno::IO);
    let plan = || Plan { name: c"a".into(), is_again: false, bytes: 300 };
    let piece = PieceValue::decode_all(&[7; 32]).unwrap();
    let profile = Profile { entries: 300, ..Profile::default() };
    let so_far = SoFar { profile, own: [1, 2, 300, 4] };
    let thread = ThreadReport { profile, worker: atta_runtime::WorkerReport::default() };
    let results = [Ok(Some(7_u64)), Ok(None), Err(FileError::Changed)];
    let mut targets = vec![
        fuzz_code!("digest.rs: Signature", Signature, [Signature::default()]),
        fuzz_code!("digest/pieces.rs: PieceValue", PieceValue, [piece]),
        fuzz_code!("file/error.rs: Step", Step, [Step::Verify]),
        fuzz_code!("file/error.rs: FileError", FileError, [failed, FileError::Changed, FileError::Stopped]),
        fuzz_code!("file/error.rs: PairError", PairError, [on_source, PairError::Changed]),
        fuzz_code!("file/version.rs: Version", Version, [version()]),
        fuzz_code!("large/task.rs: Plan", Plan, [plan()]),
        fuzz_code!("large/task.rs: ChunkRange", ChunkRange<u32>, [chunks(9)]),
        fuzz_code!("metadata/not_kept.rs: NotKept", NotKept, [NotKept::default()]),
        fuzz_code!("tree/profile.rs: Profile", Profile, [profile]),
        fuzz_code!("tree/progress.rs: SoFar", SoFar, [so_far]),
        fuzz_code!("tree/options.rs: ThreadReport", ThreadReport, [thread]),
        Target::new(
            "large/task.rs: LargeTask",
            large_tasks(9_u32, results).iter().map(Code::encoded).collect(),
            |bytes| {
                LargeTask::<u32, Result<Option<u64>, FileError>>::decode_all(bytes).map(|task| task.encoded())
            },
        ),
    ];
    targets.extend(tasks::targets());
    targets.extend(bcast::fuzz::targets());
    targets.extend(copy::fuzz::targets());
    targets.extend(jobs::fuzz::targets());
    targets.extend(resume::fuzz::targets());
    targets.extend(sum::fuzz::targets());
    targets.extend(verify::fuzz::targets());
    let deaths = Target::new("underway.rs: from_bytes", vec![underway::sample()], underway::reread);
    // Bytes of a slot that say nothing, any order, the same death twice.
    targets.push(deaths.holding(64).of_several_encodings());
    let names = walk::LinkedNames::sample();
    targets.push(fuzz_code!("walk/summary.rs: LinkedNames", walk::LinkedNames, [names]));
    targets.push(fuzz_code!("walk/summary.rs: Totals", walk::Totals, [walk::Totals::default()]));
    targets
}

atta_testkit::fuzz_tests!(targets);
