//! Queries whose messages are damaged on the way. Each must end, with an error or with some answer.

use std::fmt;

use atta_code::Code;
use atta_entry::Errno;
use atta_mounts::MountTable;
use atta_status::{Collective, Contents, Digest, MountMap, Options, Ranks, Status, StatusError};
use atta_testkit::random::Random;

use crate::ranks::Knows;

/// The first of some ranks. The others send what it sends, damaged, and so does it.
struct Damaged {
    random: Random,
    /// One in so many messages arrives as it is.
    whole: u64,
}

#[derive(Debug)]
struct Invalid;

impl fmt::Display for Invalid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("not a message")
    }
}

impl std::error::Error for Invalid {}

impl Damaged {
    fn sent<T: Code>(&mut self, value: &T) -> Result<T, Invalid> {
        let mut bytes = value.encoded();
        let damages = if self.random.below(self.whole) == 0 { 0 } else { 1 + self.random.below(3) };
        for _ in 0..damages {
            if bytes.is_empty() {
                break;
            }
            let at = self.random.below(bytes.len() as u64) as usize;
            match self.random.below(4) {
                0 => bytes[at] = self.random.below(256) as u8,
                1 => bytes[at] ^= 1 << self.random.below(8),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, self.random.below(256) as u8),
            }
        }
        T::decode_all(&bytes).ok_or(Invalid)
    }
}

impl Collective for Damaged {
    type Error = Invalid;

    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        100
    }

    fn reduce<T: Code>(&mut self, own: T, mut merge: impl FnMut(&mut T, T)) -> Result<Option<T>, Invalid> {
        let others = [self.sent(&own)?, self.sent(&own)?];
        let mut all = own;
        others.into_iter().for_each(|other| merge(&mut all, other));
        Ok(Some(all))
    }

    fn broadcast<T: Code>(&mut self, value: Option<T>) -> Result<T, Invalid> {
        self.sent(&value.ok_or(Invalid)?)
    }

    fn multicast<T: Code>(&mut self, _group: &Ranks, value: Option<T>) -> Result<Option<T>, Invalid> {
        self.broadcast(value).map(Some)
    }
}

/// Files of 1 GiB.
struct Large;

impl Contents for Large {
    fn size(&self, _path: &[u8]) -> Result<Option<u64>, Errno> {
        Ok(Some(1 << 30))
    }

    fn digest(&self, _path: &[u8], _begin: u64, _end: Option<u64>) -> Result<Digest, Errno> {
        Ok([7; 32])
    }
}

/// All queries. Returns how many had an answer.
fn ask(table: &MountTable, damaged: &mut Damaged, options: Options) -> Result<u32, StatusError<Invalid>> {
    let status = Status::join(damaged, table, options)?.with_contents(&Large);
    let mut answered = 0;
    for path in [&b"/m/f"[..], b"/o/f", b"/b/f", b"/f"] {
        let found = status.distribution(damaged, path).and_then(|_| status.groups(damaged, path));
        if let Ok(found) = found {
            answered += 1;
            let _ = (found.is_unique(), found.is_well_distributed(), found.descriptor(), found.own_group());
        }
        answered += u32::from(status.is_consistent(damaged, path).is_ok());
        if let Ok(map) = MountMap::build(&status, damaged) {
            answered += 1;
            let _ = (map.is_unique(path), map.descriptor(path), map.is_consistent(path));
        }
    }
    Ok(answered)
}

#[test]
fn damaged_messages_are_errors_or_answers() {
    let table = Knows::on(1).table(&[
        "0:40 / /m rw - nfs4 srv:/e rw,addr=10.0.0.5",
        "0:41 / /o ro - overlay o ro,lowerdir=/m/a:/m/b",
        "0:42 / /b rw - fuse.goofys b rw",
    ]);
    let (mut answered, mut refused) = (0, 0);
    for seed in 0..2000 {
        let mut damaged = Damaged { random: Random::new(seed), whole: 1 + seed % 4 };
        let classes_max = [64, 1][seed as usize % 2];
        match ask(&table, &mut damaged, Options { classes_max, ..Options::default() }) {
            Ok(count) => answered += count,
            Err(_) => refused += 1,
        }
    }
    assert!(answered > 1000 && refused > 100, "{answered} answered, {refused} refused");
}
