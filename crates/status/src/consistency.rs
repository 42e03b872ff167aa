//! Whether files that are not one have equal contents. Representatives compare sizes, then digests. A large file is digested in shares, by as many
//! ranks as the smallest group has, so that the same shares are compared. It splits no communicator, and keeps no digest.

use std::collections::BTreeMap;

use atta_code::record;
use atta_entry::Errno;

use crate::collective::{Collective, concluded};
use crate::contents::{Contents, Digest};
use crate::distribution::{Answer, Distribution};
use crate::error::StatusError;
use crate::status::Status;

/// The least bytes of a share: to read as many takes much longer than a message.
const SHARE_BYTES_MIN: u64 = 64 << 20;

/// A rank that cannot read, the lowest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failed(pub(crate) Option<(u32, Errno)>);

record!(Failed { 0 });

impl Failed {
    fn merge(&mut self, other: Self) {
        self.0 = self.0.into_iter().chain(other.0).min_by_key(|(rank, _)| *rank);
    }

    fn result<E>(self) -> Result<(), StatusError<E>> {
        self.0.map_or(Ok(()), |(rank, errno)| Err(StatusError::Unreadable { rank, errno }))
    }
}

/// The sizes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// That of some rank. None: no rank was asked; none in it: the file does not exist.
    pub(crate) any: Option<Option<u64>>,
    pub(crate) differ: bool,
    pub(crate) failed: Failed,
}

record!(Sizes { any, differ, failed });

impl Sizes {
    fn of(size: Result<Option<u64>, Errno>, rank: u32) -> Self {
        match size {
            Ok(size) => Self { any: Some(size), ..Self::default() },
            Err(errno) => Self { failed: Failed(Some((rank, errno))), ..Self::default() },
        }
    }

    fn merge(&mut self, other: Self) {
        self.failed.merge(other.failed);
        self.differ |= other.differ;
        match (self.any, other.any) {
            (Some(one), Some(two)) => self.differ |= one != two,
            (None, any) => self.any = any,
            (Some(_), None) => {}
        }
    }
}

/// The digests of shares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digests {
    pub(crate) shares: BTreeMap<u32, Digest>,
    pub(crate) differ: bool,
    pub(crate) failed: Failed,
}

record!(Digests { shares, differ, failed });

impl Digests {
    fn of(share: u32, digest: Result<Digest, Errno>, rank: u32) -> Self {
        match digest {
            Ok(digest) => Self { shares: [(share, digest)].into(), ..Self::default() },
            Err(errno) => Self { failed: Failed(Some((rank, errno))), ..Self::default() },
        }
    }

    fn merge(&mut self, other: Self) {
        self.failed.merge(other.failed);
        self.differ |= other.differ;
        for (share, digest) in other.shares {
            self.differ |= *self.shares.entry(share).or_insert(digest) != digest;
        }
    }
}

/// Who reads.
struct Part {
    /// The place of this rank in its group: the first ones read. None: it is not listed.
    place: Option<u32>,
    /// How many ranks each group has for it.
    places: u32,
}

impl Part {
    /// Without a list of groups each rank reads for itself.
    fn of(found: &Distribution) -> Self {
        let listed = |members: u64| u32::try_from(members).unwrap_or(u32::MAX);
        let Some(places) = found.list().iter().map(|group| listed(group.members.len())).min() else {
            return Self { place: Some(0), places: 1 };
        };
        let place = found.own_group().and_then(|group| group.members.position(found.own.1));
        Self { place: place.map(listed), places }
    }
}

/// See [`Status::is_consistent`].
pub(crate) fn is_consistent<C: Collective>(
    status: &Status<'_>,
    collective: &mut C,
    path: &[u8],
    found: &Distribution,
) -> Result<Answer, StatusError<C::Error>> {
    if found.is_unique() == Answer::Yes {
        return Ok(Answer::Yes);
    }
    let (rank, part) = (collective.rank(), Part::of(found));
    let own = match part.place {
        Some(0) => Sizes::of(status.contents.size(path), rank),
        _ => Sizes::default(),
    };
    let sizes = concluded(collective, own, Sizes::merge, |sizes| sizes)?;
    sizes.failed.result()?;
    let size = sizes.any.ok_or(StatusError::Protocol)?;
    match size {
        _ if sizes.differ => Ok(Answer::No),
        None => Err(StatusError::Unreadable { rank: 0, errno: Errno::NOENT }),
        Some(size) => are_digests_equal(status.contents, collective, path, (part, size)),
    }
}

fn are_digests_equal<C: Collective>(
    contents: &dyn Contents,
    collective: &mut C,
    path: &[u8],
    (part, size): (Part, u64),
) -> Result<Answer, StatusError<C::Error>> {
    let shares = size.div_ceil(SHARE_BYTES_MIN).clamp(1, u64::from(part.places));
    let own = match part.place.filter(|place| u64::from(*place) < shares) {
        None => Digests::default(),
        Some(share) => {
            let begin = begin_of(u64::from(share), shares, size);
            let is_last = u64::from(share) + 1 == shares;
            // Sizes of files that the kernel makes while they are read say nothing.
            let end = (!is_last).then(|| begin_of(u64::from(share) + 1, shares, size));
            Digests::of(share, contents.digest(path, begin, end), collective.rank())
        }
    };
    let conclude = |digests: Digests| (digests.differ, digests.failed);
    let (differ, failed) = concluded(collective, own, Digests::merge, conclude)?;
    failed.result()?;
    Ok(Answer::of(!differ))
}

fn begin_of(share: u64, shares: u64, size: u64) -> u64 {
    size / shares * share
}
