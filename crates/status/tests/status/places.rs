//! Which mounts suit what a job writes. Each rank has its own table, and a fake says how much space there is.

use std::collections::BTreeSet;
use std::sync::Mutex;

use atta_entry::Errno;
use atta_mounts::MountTable;
use atta_status::{
    MountMap, NoRoom, Options, Place, Quota, Requirements, Room, Rooms, Search, Speeds, Status, StatusError,
    Unmet, own_sources, places,
};

use crate::ranks::{Knows, counted, on_ranks};

const MIB: u64 = 1 << 20;

/// Who was asked for which mount point.
type Asked = BTreeSet<(u32, String)>;

/// Answers of one rank.
struct Fake<'a> {
    rank: u32,
    answer: &'a (dyn Fn(u32, &str) -> Result<Room, NoRoom> + Sync),
    asked: &'a Mutex<Asked>,
}

impl Rooms for Fake<'_> {
    fn rooms(&self, points: &[Vec<u8>], _is_write_wanted: bool) -> Vec<Result<Room, NoRoom>> {
        let answer = |point: &Vec<u8>| {
            let point = String::from_utf8(point.clone()).unwrap();
            let answer = (self.answer)(self.rank, &point);
            assert!(self.asked.lock().unwrap().insert((self.rank, point)), "asked twice");
            answer
        };
        points.iter().map(answer).collect()
    }
}

fn room(available: u64) -> Result<Room, NoRoom> {
    Ok(Room { available, quota: Quota::Unlimited, writable: Ok(()) })
}

/// A host for each four ranks, with file systems of all kinds.
fn table(rank: u32) -> MountTable {
    let text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                2 1 0:40 / /home rw - nfs4 10.0.0.5:/home rw\n\
                3 1 0:41 / /work rw - lustre 10.0.0.9@tcp:/work rw\n\
                4 1 0:42 / /dev rw - devtmpfs udev rw\n\
                5 4 0:43 / /dev/shm rw - tmpfs tmpfs rw\n\
                6 1 0:44 / /proc rw - proc proc rw\n\
                7 1 0:45 / /images ro - nfs4 10.0.0.5:/images ro\n";
    MountTable::from_bytes(text.as_bytes(), &Knows::on(rank / 4)).unwrap()
}

/// What a search on so many ranks returns, and who was asked. Each rank has its own table, requirements and speeds.
pub(crate) struct Job<'a> {
    pub(crate) ranks: u32,
    pub(crate) table: &'a (dyn Fn(u32) -> MountTable + Sync),
    pub(crate) wanted: &'a (dyn Fn(u32) -> Requirements + Sync),
    pub(crate) speeds: &'a (dyn Fn(u32, &MountTable) -> Speeds + Sync),
    pub(crate) rooms: &'a (dyn Fn(u32, &str) -> Result<Room, NoRoom> + Sync),
}

impl Job<'_> {
    pub(crate) const PLAIN: Job<'static> = Job {
        ranks: 8,
        table: &table,
        wanted: &|_| Requirements { space_each: MIB, space_total: 0, space_to_free: 0, ..NOTHING },
        speeds: &|_, _| Speeds::default(),
        rooms: &|_, _| room(1000 * MIB),
    };

    pub(crate) fn found(&self) -> (Vec<Place>, Asked) {
        let asked = Mutex::default();
        let mut found = on_ranks(self.ranks, |rank, session| {
            let table = (self.table)(rank);
            let status = Status::join(session, &table, Options::default()).unwrap();
            let map = MountMap::build(&status, session).unwrap();
            let speeds = (self.speeds)(rank, &table);
            let rooms = Fake { rank, answer: self.rooms, asked: &asked };
            let search = Search { requirements: (self.wanted)(rank), speeds: &speeds, rooms: &rooms };
            places(&status, session, &map, &search).unwrap()
        });
        let first = found.remove(0);
        assert!(found.iter().all(|other| *other == first), "all ranks get the same");
        (first, asked.into_inner().unwrap())
    }

    /// Mount points in order, with what does not suit.
    pub(crate) fn order(&self) -> Vec<(String, Vec<Unmet>)> {
        let place = |place: Place| (String::from_utf8(place.point).unwrap(), place.unmet);
        self.found().0.into_iter().map(place).collect()
    }

    pub(crate) fn at(&self, point: &str) -> Place {
        self.found().0.into_iter().find(|place| place.point == point.as_bytes()).unwrap()
    }
}

pub(crate) const NOTHING: Requirements = Requirements {
    space_each: 0,
    space_total: 0,
    space_to_free: 0,
    speed: None,
    distribution: None,
    scalability: None,
    writable: false,
};

pub(crate) fn names(order: &[(String, Vec<Unmet>)]) -> Vec<&str> {
    order.iter().map(|(name, _)| &name[..]).collect()
}

#[test]
fn one_rank_of_each_source_looks() {
    let (found, asked) = Job::PLAIN.found();
    let expected = [(0, "/"), (0, "/dev/shm"), (0, "/home"), (0, "/images"), (0, "/work")];
    let own = [(4, "/"), (4, "/dev/shm")];
    let expected: Asked =
        expected.into_iter().chain(own).map(|(rank, point)| (rank, point.to_owned())).collect();
    assert_eq!(asked, expected);
    assert!(found.iter().all(Place::is_suitable));
    let sources = |point: &[u8]| found.iter().find(|place| place.point == point).unwrap().sources;
    assert_eq!([sources(b"/"), sources(b"/home")], [2, 1]);
}

#[test]
fn ranks_that_share_a_source_are_added() {
    // Rank 5 writes 3 MiB more; 4 ranks for each disk, 8 for the server.
    let wanted = |rank| Requirements { space_each: if rank == 5 { 4 * MIB } else { MIB }, ..NOTHING };
    let unmet = |point: &str, space: u64, on: u32| {
        let rooms = move |rank, at: &str| room(if at == point && rank == on { space } else { 1000 * MIB });
        Job { wanted: &wanted, rooms: &rooms, ..Job::PLAIN }.at(point)
    };
    for (point, on, need) in [("/", 0, 4 * MIB), ("/", 4, 7 * MIB), ("/home", 0, 11 * MIB)] {
        let enough = unmet(point, need, on);
        assert!(enough.is_suitable(), "{enough:?}");
        let tightest = enough.tightest.unwrap();
        assert_eq!((tightest.rank, tightest.need, tightest.available), (on, need, need));
        assert_eq!(unmet(point, need - 1, on).unmet, [Unmet::Space]);
    }
}

// Defect 8: 2^64 bytes were missing.
#[test]
fn freed_space_does_not_underflow() {
    let need = |space_each, space_to_free, space_total| {
        let wanted = move |_| Requirements { space_each, space_to_free, space_total, ..NOTHING };
        Job { wanted: &wanted, ..Job::PLAIN }.at("/home").tightest.unwrap().need
    };
    assert_eq!(need(MIB, 5 * MIB, 0), 0);
    assert_eq!(need(5 * MIB, MIB, 0), 32 * MIB);
    assert_eq!(need(0, MIB, 20 * MIB), 12 * MIB);
    assert_eq!(need(u64::MAX, 0, u64::MAX), u64::MAX);
    // Half of the ranks have half of the total.
    let wanted = |_| Requirements { space_total: 20 * MIB, ..NOTHING };
    assert_eq!(Job { wanted: &wanted, ..Job::PLAIN }.at("/").tightest.unwrap().need, 10 * MIB);
}

#[test]
fn what_fails_or_hangs_is_a_row() {
    let rooms = |rank: u32, point: &str| match (point, rank) {
        ("/home", _) => Err(NoRoom::NoAnswer),
        ("/", 4) => Err(NoRoom::Unreadable(Errno::IO)),
        ("/work", _) => Ok(Room { writable: Err(Errno::ROFS), ..room(MIB).unwrap() }),
        _ => room(1000 * MIB),
    };
    let wanted = |_| Requirements { space_each: MIB, writable: true, ..NOTHING };
    let order = Job { rooms: &rooms, wanted: &wanted, ..Job::PLAIN }.order();
    let unmet = |point: &str| &order.iter().find(|(name, _)| name == point).unwrap().1[..];
    assert_eq!(unmet("/dev/shm"), []);
    assert_eq!(unmet("/home"), [Unmet::NoAnswer { rank: 0 }]);
    assert_eq!(unmet("/"), [Unmet::Unreadable { rank: 4, errno: Errno::IO }]);
    assert_eq!(unmet("/work"), [Unmet::NotWritable { rank: 0, errno: Errno::ROFS }, Unmet::Space]);
    assert_eq!(unmet("/images"), [Unmet::ReadOnly { rank: 0 }]);
    assert_eq!(names(&order)[0], "/dev/shm");
}

#[test]
fn missing_answers_are_no_space() {
    struct Nobody;
    impl Rooms for Nobody {
        fn rooms(&self, _points: &[Vec<u8>], _is_write_wanted: bool) -> Vec<Result<Room, NoRoom>> {
            Vec::new()
        }
    }
    let found = on_ranks(2, |rank, session| {
        let table = table(rank);
        let status = Status::join(session, &table, Options::default()).unwrap();
        let map = MountMap::build(&status, session).unwrap();
        let search = Search { requirements: NOTHING, speeds: &Speeds::default(), rooms: &Nobody };
        places(&status, session, &map, &search).unwrap()
    });
    assert_eq!(found[0].len(), 5);
    assert!(found[0].iter().all(|place| place.unmet == [Unmet::NoAnswer { rank: 0 }]));
}

#[test]
fn read_only_mounts_are_not_asked() {
    let wanted = |_| Requirements { writable: true, ..NOTHING };
    let (_, asked) = Job { wanted: &wanted, ..Job::PLAIN }.found();
    assert!(asked.iter().all(|(_, point)| point != "/images"));
}

#[test]
fn mounts_that_a_rank_lacks_are_left_out() {
    let with = |rank: u32| {
        let mut lines = vec!["0:40 / /all rw - nfs4 10.0.0.5:/a rw", "0:42 / /some rw - nfs4 10.0.0.5:/c rw"];
        match rank {
            // Hidden by a later mount.
            2 => lines.extend(["0:41 / /m rw - nfs4 10.0.0.5:/b rw", "0:43 / /m rw - proc proc rw"]),
            _ => lines.push("0:41 / /m rw - nfs4 10.0.0.5:/b rw"),
        }
        if rank == 5 {
            lines.remove(1);
        }
        Knows::on(rank).table(&lines)
    };
    let found = Job { table: &with, ..Job::PLAIN }.order();
    assert_eq!(names(&found).into_iter().collect::<BTreeSet<_>>(), BTreeSet::from(["/", "/all"]));
}

// One export, of which each host has mounted its own directory: the hosts share its space.
#[test]
fn directories_of_one_file_system_share_its_space() {
    let with = |rank: u32| Knows::on(rank).table(&[&format!("0:40 /n{rank} /m rw - nfs4 10.0.0.5:/e rw")]);
    let job = Job { table: &with, rooms: &|_, _| room(8 * MIB - 1), ..Job::PLAIN };
    let (found, asked) = job.found();
    let place = found.iter().find(|place| place.point == b"/m").unwrap();
    assert_eq!((place.sources, &place.unmet[..]), (1, &[Unmet::Space][..]));
    assert_eq!(asked.iter().filter(|(_, point)| point == "/m").count(), 1);
}

// Servers that may be one are counted as one, and each must have space for all.
#[test]
fn sources_that_may_be_one_share_their_space() {
    let with = |rank: u32| Knows::on(rank).table(&[&format!("0:40 / /m rw - nfs4 s{}:/e rw", rank % 2)]);
    let space = |space| Job { table: &with, rooms: &move |_, _| room(space), ..Job::PLAIN }.at("/m");
    let found = space(8 * MIB);
    assert_eq!((found.sources, found.is_suitable(), found.tightest.unwrap().need), (1, true, 8 * MIB));
    assert_eq!(space(8 * MIB - 1).unmet, [Unmet::Space]);
    // Two exports of one server are two for certain.
    let with = |rank: u32| Knows::on(rank).table(&[&format!("0:40 / /m rw - nfs4 s:/e{} rw", rank % 2)]);
    let found = Job { table: &with, rooms: &|_, _| room(4 * MIB), ..Job::PLAIN }.at("/m");
    assert_eq!((found.sources, found.is_suitable()), (2, true));
}

#[test]
fn more_sources_than_are_listed_are_all_asked() {
    let with = |rank: u32| Knows::on(rank).table(&["0:40 / /m rw - tmpfs none rw"]);
    let rooms = |rank, point: &str| room(if rank == 77 && point == "/m" { MIB - 1 } else { MIB });
    let (found, asked) = Job { ranks: 80, table: &with, rooms: &rooms, ..Job::PLAIN }.found();
    assert_eq!(asked.iter().filter(|(_, point)| point == "/m").count(), 80);
    let place = |point: &[u8]| found.iter().find(|place| place.point == point).unwrap();
    assert_eq!((place(b"/m").sources, place(b"/m").tightest.unwrap().rank), (80, 77));
    assert_eq!((&place(b"/m").unmet[..], place(b"/").is_suitable()), (&[Unmet::Space][..], true));
    assert!((place(b"/m").score - 1.0).abs() < 1e-9);
}

#[test]
fn search_costs_two_reductions_and_two_broadcasts() {
    let asked = Mutex::default();
    let tables: Vec<_> = (0..40).map(table).collect();
    let (found, traffic) = counted(
        40,
        |rank, session| {
            let status = Status::join(session, &tables[rank as usize], Options::default()).unwrap();
            let map = MountMap::build(&status, session).unwrap();
            (rank, status, map)
        },
        |(rank, status, map), session| {
            let rooms = Fake { rank, answer: &|_, _| room(MIB), asked: &asked };
            let search = Search { requirements: NOTHING, speeds: &Speeds::default(), rooms: &rooms };
            places(&status, session, &map, &search).unwrap().len()
        },
    );
    println!("{traffic:?}");
    assert_eq!(found, [5; 40]);
    assert_eq!(traffic.messages, 4 * 39);
}

#[test]
fn each_source_has_one_rank_that_measures_it() {
    let found = on_ranks(8, |rank, session| {
        let table = table(rank);
        let status = Status::join(session, &table, Options::default()).unwrap();
        let map = MountMap::build(&status, session).unwrap();
        own_sources(&status, session, &map).unwrap()
    });
    let expected = |points: &[&str]| points.iter().map(|point| point.as_bytes().to_vec()).collect::<Vec<_>>();
    assert_eq!(found[0], expected(&["/", "/dev/shm", "/home", "/work"]));
    assert_eq!(found[4], expected(&["/", "/dev/shm"]));
    assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 6);
}

#[test]
fn ranks_with_other_maps_are_refused() {
    let found = on_ranks(3, |rank, session| {
        let table = table(rank);
        let status = Status::join(session, &table, Options::default()).unwrap();
        let own = Knows::on(1).table(&[]);
        let alone = Status::join(&mut atta_status::Alone, &own, Options::default()).unwrap();
        let mut map = MountMap::build(&status, session).unwrap();
        if rank == 1 {
            map = MountMap::build(&alone, &mut atta_status::Alone).unwrap();
        }
        let asked = Mutex::default();
        let rooms = Fake { rank, answer: &|_, _| room(MIB), asked: &asked };
        let search = Search { requirements: NOTHING, speeds: &Speeds::default(), rooms: &rooms };
        matches!(places(&status, session, &map, &search), Err(StatusError::Protocol))
    });
    assert_eq!(found, [true; 3]);
}

#[test]
fn a_process_alone_finds_places_on_this_machine() {
    use atta_status::{Alone, SystemRooms};
    let text = std::fs::read("/proc/self/mountinfo").unwrap();
    let table = MountTable::from_bytes(&text, &atta_mounts::SystemProbes::new().unwrap()).unwrap();
    let status = Status::join(&mut Alone, &table, Options::default()).unwrap();
    let map = MountMap::build(&status, &mut Alone).unwrap();
    let requirements = Requirements { space_each: 1, writable: false, ..NOTHING };
    let search = Search { requirements, speeds: &Speeds::default(), rooms: &SystemRooms::default() };
    let found = places(&status, &mut Alone, &map, &search).unwrap();
    let pseudo = [&b"proc"[..], b"sysfs", b"devtmpfs", b"cgroup2", b"devpts"];
    assert!(found.iter().all(|place| !pseudo.contains(&&place.kind[..])), "{found:?}");
    assert!(found.iter().any(|place| place.point == b"/" && place.tightest.is_some()), "{found:?}");
}
