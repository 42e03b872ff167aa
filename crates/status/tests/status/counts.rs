//! Messages, rounds and bytes of queries.

use atta_runtime::Session;
use atta_status::{Answer, Contents, Digest, MountMap, Options, Status};

use crate::ranks::{Traffic, counted, mounted};

/// Fails if it is asked.
struct Unasked;

impl Contents for Unasked {
    fn size(&self, _path: &[u8]) -> Result<Option<u64>, atta_entry::Errno> {
        panic!("a file is opened");
    }

    fn digest(&self, _path: &[u8], _begin: u64, _end: Option<u64>) -> Result<Digest, atta_entry::Errno> {
        panic!("a file is read");
    }
}

/// What `ask` costs on ranks of which each has a mount at `/m`.
fn cost(
    ranks: u32,
    options: Options,
    mount: impl Fn(u32) -> String + Sync,
    ask: impl Fn(&Status<'_>, &mut Session<'_>) -> Answer + Sync,
) -> (Answer, Traffic) {
    let tables: Vec<_> = (0..ranks).map(|rank| mounted(rank, &mount(rank))).collect();
    let (answers, traffic) = counted(
        ranks,
        |rank, session| {
            Status::join(session, &tables[rank as usize], options).unwrap().with_contents(&Unasked)
        },
        |status, session| ask(&status, session),
    );
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    (answers[0], traffic)
}

fn export(_rank: u32) -> String {
    "nfs4 10.0.0.5:/e rw".to_owned()
}

#[test]
fn uniqueness_takes_two_rounds_for_each_level() {
    for ranks in [2, 3, 5, 16, 17, 40, 300] {
        let ask =
            |status: &Status<'_>, session: &mut Session<'_>| status.is_unique(session, b"/m/f").unwrap();
        for mount in [&export as &(dyn Fn(u32) -> String + Sync), &|_| "tmpfs none rw".to_owned()] {
            let (answer, traffic) = cost(ranks, Options::default(), mount, ask);
            println!("{ranks} ranks: {answer:?}, {traffic:?}");
            assert_ne!(answer, Answer::Unknown);
            assert_eq!(traffic.messages, 2 * u64::from(ranks - 1));
            let rounds_max = 2.0 * f64::from(ranks).log2();
            assert!(f64::from(traffic.rounds) <= rounds_max, "{traffic:?} of {ranks}");
            assert!(traffic.rounds >= 2);
        }
    }
}

#[test]
fn consistency_of_one_file_reads_nothing() {
    let ask =
        |status: &Status<'_>, session: &mut Session<'_>| status.is_consistent(session, b"/m/f").unwrap();
    let (answer, traffic) = cost(40, Options::default(), export, ask);
    assert_eq!(answer, Answer::Yes);
    assert_eq!(traffic.messages, 2 * 39, "as many as for `is_unique`");
}

#[test]
fn messages_of_fully_distributed_files_are_bounded() {
    let ask = |status: &Status<'_>, session: &mut Session<'_>| {
        status.is_well_distributed(session, b"/m/f").unwrap()
    };
    let (answer, traffic) = cost(300, Options::default(), |_| "tmpfs none rw".to_owned(), ask);
    println!("{traffic:?}");
    assert_eq!(answer, Answer::Yes);
    assert!(traffic.longest <= 64 * 128, "{traffic:?}");
    assert_eq!(traffic.messages, 2 * 299, "no filter is sent");
}

#[test]
fn estimate_costs_one_more_reduction() {
    let ask = |status: &Status<'_>, session: &mut Session<'_>| {
        status.is_poorly_distributed(session, b"/m/f").unwrap()
    };
    let options = Options { classes_max: 4, ranks_per_server: 4, ..Options::default() };
    let few = |rank: u32| format!("fuse.goofys b{} rw", rank % 20);
    let (answer, traffic) = cost(200, options, few, ask);
    println!("{traffic:?}");
    assert_eq!(answer, Answer::Yes);
    assert_eq!(traffic.messages, 4 * 199);
    let many = |rank: u32| format!("fuse.goofys b{} rw", rank % 100);
    assert_eq!(cost(200, options, many, ask).0, Answer::No);
    // What is local everywhere needs no estimate.
    let (answer, traffic) = cost(200, options, |_| "tmpfs none rw".to_owned(), ask);
    assert_eq!((answer, traffic.messages), (Answer::No, 2 * 199));
}

#[test]
fn map_answers_without_a_message() {
    let tables: Vec<_> = (0..40).map(|rank| mounted(rank, "nfs4 10.0.0.5:/e rw")).collect();
    let (answers, traffic) = counted(
        40,
        |rank, session| {
            let status = Status::join(session, &tables[rank as usize], Options::default()).unwrap();
            MountMap::build(&status, session).unwrap()
        },
        |map, _| [map.is_unique(b"/m/f"), map.is_consistent(b"/m/f"), map.is_fully_distributed(b"/f")],
    );
    assert_eq!(answers, vec![[Answer::Yes; 3]; 40]);
    assert_eq!(traffic, Traffic::default());
}

#[test]
fn map_is_built_by_two_reductions() {
    let lines = |rank: u32| {
        (0..30)
            .map(|at| format!("0:{} / /m{at} rw - fuse.goofys b{}-{at} rw", 40 + at, rank % 2))
            .collect::<Vec<_>>()
    };
    let tables: Vec<_> = (0..40)
        .map(|rank| {
            let lines = lines(rank);
            crate::ranks::Knows::on(rank).table(&lines.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .collect();
    let (found, traffic) = counted(
        40,
        |rank, session| Status::join(session, &tables[rank as usize], Options::default()).unwrap(),
        |status, session| MountMap::build(&status, session).unwrap().groups(b"/m7/f").unwrap().high,
    );
    println!("{traffic:?}");
    assert_eq!(found, [2; 40]);
    assert_eq!(traffic.messages, 4 * 39, "however many mounts there are");
}

// Each host has a server of its own at this address. Nobody else can use what it knows of that.
#[test]
fn servers_of_one_host_are_not_sent() {
    let longest = |ranks: u32| {
        let mount = "nfs4 localhost:/e rw,addr=127.0.0.1";
        let tables: Vec<_> = (0..ranks).map(|rank| mounted(rank, mount)).collect();
        let join = |rank: u32, session: &mut Session<'_>| {
            Status::join(session, &tables[rank as usize], Options::default())
                .unwrap()
                .is_unique(session, b"/m/f")
                .unwrap()
        };
        let rank = |rank, _: &mut Session<'_>| rank;
        let (found, traffic) = counted(ranks, rank, |rank, session| {
            Status::join(session, &tables[rank as usize], Options::default()).map(drop).unwrap();
        });
        assert_eq!(found.len(), ranks as usize);
        let answers = counted(ranks, rank, join).0;
        assert!(answers.iter().all(|answer| *answer == Answer::Unknown), "{answers:?}");
        traffic.longest
    };
    assert_eq!(longest(30), longest(2));
}

#[test]
fn all_estimates_of_a_map_take_one_reduction() {
    let line = |rank: u32, at: u32| format!("0:{} / /m{at} rw - fuse.goofys b{}-{at} rw", 40 + at, rank % 8);
    let tables: Vec<_> = (0..40)
        .map(|rank| {
            let lines: Vec<_> = (0..30).map(|at| line(rank, at)).collect();
            crate::ranks::Knows::on(rank).table(&lines.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .collect();
    // More than 4 are not counted exactly, and up to 10 are few.
    let options = Options { classes_max: 4, ranks_per_server: 4, ..Options::default() };
    let (found, traffic) = counted(
        40,
        |rank, session| Status::join(session, &tables[rank as usize], options).unwrap(),
        |status, session| {
            let map = MountMap::build(&status, session).unwrap();
            let groups = [b"/m7/f", b"/m9/f"].map(|path| map.groups(path).unwrap());
            groups.map(|groups| groups.is_estimate && (7..=9).contains(&groups.high))
        },
    );
    assert_eq!(found, [[true; 2]; 40]);
    println!("estimates of a map: {traffic:?}");
    assert_eq!(traffic.messages, 6 * 39);
}

// 1,000 mount points with a name of some 2 KiB on each of 40 ranks: the first rank gets those of 17 ranks in one message.
#[test]
fn messages_of_a_map_are_bounded() {
    let directory = "d".repeat(2000);
    let (found, traffic) = counted(
        40,
        |rank, session| {
            let line = |at: u32| format!("0:{at} /{directory} /m{at} rw - tmpfs none rw");
            let lines: Vec<_> = (0..1000).map(line).collect();
            let table =
                crate::ranks::Knows::on(rank).table(&lines.iter().map(String::as_str).collect::<Vec<_>>());
            let table: &'static _ = Box::leak(Box::new(table));
            Status::join(session, table, Options::default()).unwrap()
        },
        |status, session| {
            let map = MountMap::build(&status, session).unwrap();
            [map.is_fully_distributed(b"/m5/f"), map.is_unique(b"/m5/f"), map.is_unique(b"/f")]
        },
    );
    assert_eq!(found, [[Answer::Yes, Answer::No, Answer::No]; 40]);
    println!("a large map: {traffic:?}");
    assert!(traffic.longest <= 17 << 20, "{traffic:?}");
}
