//! `is_consistent` beside a checksum of each file on each rank: figures 1 and 6(c).

use atta_sim::{FileServer, RankTree};
use atta_status::{Answer, Collective as _};

use crate::paper;
use crate::ranks::{Asked, Files, Job, ask, ask_of, local, unique};

/// Consistency of a file on one server. Nobody reads it.
fn of_unique(job: Job) -> Asked<Answer> {
    let asked = ask(job, &unique, |status, seat| status.is_consistent(seat, b"/m/f"));
    assert_eq!(*asked.common(), Answer::Yes);
    asked
}

/// Consistency of a file in the memory of each host, of 2 MB, as KULL's files have on average, read and digested at 1 GB/s by each rank. Both are
/// assumed.
fn of_local(job: Job) -> Asked<Answer> {
    let files = Files::of(2_000_000, 1024);
    let asked =
        ask_of(job, &|rank| format!("2 1 0:40 / /m rw - {}\n", local(rank)), &files, |status, seat| {
            status.is_consistent(seat, b"/m/f")
        });
    assert_eq!(*asked.common(), Answer::Yes);
    assert!(files.reads.get() >= u64::from(job.hosts()));
    asked
}

/// What the paper's smaller applications take with a checksum on each rank. The sizes of their files are not known: what one process asks of the
/// server is.
fn checksum_s(application: usize, ranks: u32) -> f64 {
    let small = f64::from(paper::SMALL_RANKS);
    let server = FileServer::of_requests(small, paper::SMALL_CHECKSUM_S[application]);
    server.last_s(f64::from(ranks), 1.0, 0.0)
}

/// Compares a number of ranks. Returns how many times less the query takes, by application.
fn compare(ranks: u32) -> [f64; 2] {
    let query_us = of_unique(Job::mpi(ranks, RankTree::Binomial)).us;
    [0, 1].map(|application| {
        let files = paper::SMALL_FILES[application];
        let (query_s, checksum_s) = (query_us * f64::from(files) / 1e6, checksum_s(application, ranks));
        println!(
            "{ranks} ranks, {files} files: {query_s:.6} s, checksums {checksum_s:.1} s: {:.0} times",
            checksum_s / query_s
        );
        checksum_s / query_s
    })
}

#[test]
fn query_beats_checksums_at_512_ranks() {
    let factors = compare(paper::SMALL_RANKS);
    let of_paper = paper::SMALL_CHECKSUM_S.map(|seconds| seconds / paper::SMALL_CONSISTENT_S);
    println!("the paper: {of_paper:.0?}");
    for (ours, paper) in factors.into_iter().zip(of_paper) {
        assert!(ours > paper, "{ours} {paper}");
    }
}

#[test]
fn query_beats_checksums_at_32768_ranks() {
    compare(paper::LARGE_RANKS);
    let job = Job::mpi(paper::LARGE_RANKS, RankTree::Binomial);
    let all_s = of_unique(job).us * f64::from(paper::KULL_FILES) / 1e6;
    println!(
        "KULL, all files on one server: {all_s:.3} s; the paper: less than {} s",
        paper::KULL_CONSISTENT_S
    );
    assert!(all_s < paper::KULL_CONSISTENT_S);
}

#[test]
fn nobody_reads_what_is_unique() {
    let files = Files::of(1 << 40, 1024);
    let job = Job::mpi(256, RankTree::SESSION);
    let asked = ask_of(job, &|_| format!("2 1 0:40 / /m rw - {}\n", unique(0)), &files, |status, seat| {
        Ok((status.is_consistent(seat, b"/m/f")?, seat.rank()))
    });
    assert!((0..256).zip(asked.values).all(|(rank, value)| value == (Answer::Yes, rank)));
    assert_eq!(files.reads.get(), 0);
}

/// More than half of KULL's files are on the server; here all others are on each host.
#[test]
#[ignore = "takes a minute"]
fn half_of_the_files_may_be_local() {
    let job = Job::mpi(paper::LARGE_RANKS, RankTree::Binomial);
    let [unique, local] = [of_unique(job), of_local(job)];
    let of_each = f64::from(paper::KULL_FILES) / 2.0 / 1e6;
    let all_s = (unique.us + local.us) * of_each;
    println!("a local file: {:.1} us, {:?}; KULL, half of it local: {all_s:.3} s", local.us, local.traffic);
    assert!(all_s < paper::KULL_CONSISTENT_S);
}
