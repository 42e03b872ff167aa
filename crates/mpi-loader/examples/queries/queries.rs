//! The queries of `atta-status` over the ranks of a real MPI. Each rank has a mount table from text, as if two ranks shared a host, and contents
//! that it makes up. It tests that the queries work over this fabric; what they answer has its tests in `crates/status`.

use atta_entry::Errno;
use atta_fabric::Endpoint;
use atta_mounts::{Host, MountTable, Silent};
use atta_runtime::{Limits, Session, Stop};
use atta_status::{Answer, Collective, Contents, Digest, MountMap, Options, Status};

/// A file that has other contents on ranks with odd numbers, where its path says so.
struct MadeUp {
    is_odd: bool,
}

impl Contents for MadeUp {
    fn size(&self, _path: &[u8]) -> Result<Option<u64>, Errno> {
        Ok(Some(5))
    }

    fn digest(&self, path: &[u8], _begin: u64, _end: Option<u64>) -> Result<Digest, Errno> {
        Ok([u8::from(self.is_odd && path.starts_with(b"/parts")); 32])
    }
}

/// Asks all queries; every rank must call it.
///
/// # Errors
/// The first wrong answer, or the error of a query.
pub(super) fn conformance(endpoint: &mut dyn Endpoint) -> Result<(), String> {
    let joined = Session::join(endpoint, "queries", Stop::new(), Limits::default());
    let mut session = joined.map_err(|error| error.to_string())?.map_err(|_| "ranks differ".to_owned())?;
    let rank = session.seat().rank;
    ask(&mut session).map_err(|why| format!("rank {rank}: {why}"))?;
    session.close((), |(), ()| ()).map(|_| ()).map_err(|error| error.to_string())
}

fn ask(session: &mut Session<'_>) -> Result<(), String> {
    let (rank, ranks) = (session.seat().rank, session.seat().ranks);
    let text = format!(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
         2 1 0:40 / /one rw - nfs4 10.0.0.5:/e rw,addr=10.0.0.5\n\
         3 1 0:41 / /local rw - tmpfs none rw\n\
         4 1 0:42 / /parts rw - fuse.goofys b{} rw\n",
        rank % 2
    );
    let host = Host::new(format!("boot-{}", rank / 2).as_bytes(), b"node");
    let table =
        MountTable::from_bytes(text.as_bytes(), &Silent::on(host)).map_err(|error| error.to_string())?;
    let contents = MadeUp { is_odd: rank % 2 == 1 };
    let status = Status::join(session, &table, Options::default()).map_err(|error| error.to_string())?;
    let status = status.with_contents(&contents);
    let map = MountMap::build(&status, session).map_err(|error| error.to_string())?;
    for (path, expected) in expected(ranks) {
        let found = answers(&status, session, path).map_err(|error| error.to_string())?;
        let from_map = [
            map.is_fully_distributed(path),
            map.is_well_distributed(path),
            map.is_poorly_distributed(path),
            map.is_unique(path),
        ];
        if found != expected || from_map != expected[..4] {
            return Err(format!("{}: {found:?}, {from_map:?}", String::from_utf8_lossy(path)));
        }
    }
    parts(&status, session)
}

/// Fully, well and poorly distributed, unique, consistent.
fn expected(ranks: u32) -> [(&'static [u8], [Answer; 5]); 3] {
    use Answer::{No, Yes};
    let of = |is_so: bool| if is_so { Yes } else { No };
    [
        (b"/one/f", [No, No, Yes, Yes, Yes]),
        (b"/local/f", [Yes, Yes, No, of(ranks <= 2), Yes]),
        (b"/parts/f", [No, of(ranks > 1), of(ranks == 1), of(ranks == 1), of(ranks == 1)]),
    ]
}

fn answers(
    status: &Status<'_>,
    session: &mut Session<'_>,
    path: &[u8],
) -> Result<[Answer; 5], Box<dyn std::error::Error>> {
    Ok([
        status.is_fully_distributed(session, path)?,
        status.is_well_distributed(session, path)?,
        status.is_poorly_distributed(session, path)?,
        status.is_unique(session, path)?,
        status.is_consistent(session, path)?,
    ])
}

/// The groups of even and odd ranks, and a value from the first one of each to the others.
fn parts(status: &Status<'_>, session: &mut Session<'_>) -> Result<(), String> {
    let rank = session.seat().rank;
    let found = status.groups(session, b"/parts/f").map_err(|error| error.to_string())?;
    let group = found.own_group().ok_or("no group")?;
    let place = found.descriptor().and_then(|descriptor| descriptor.rank_in_group);
    let own = (group.members.first() == Some(rank)).then_some(rank);
    let received = Collective::multicast(session, &group.members, own).map_err(|error| error.to_string())?;
    if (place, received) != (Some(u64::from(rank / 2)), Some(rank % 2)) {
        return Err(format!("place {place:?}, received {received:?}"));
    }
    Ok(())
}
