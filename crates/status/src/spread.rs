//! A multicast read: the contents of a file on many ranks. Where the file is well distributed each rank reads it. Else one rank of each group reads,
//! once, and passes it on to its group in parts, while it reads on. Each rank that gets it checks its digest. It writes no file.
//!
//! ```text
//!   source ──▶ reader ──part──▶ rank ──part──▶ rank        another source ──▶ reader ──▶ rank
//!                └ digest after the last part ┘
//! ```

use atta_code::{Code, record};
use atta_entry::Errno;
use atta_runtime::{Shape, Stop};

use crate::collective::Collective;
use crate::contents::{Digest, UNSIZED_BYTES_MAX};
use crate::ranks::Ranks;
use crate::source_file::SourceFile;
use crate::sources::Sources;

/// Bytes of a part.
const PART_BYTES_MAX: u64 = 1 << 20;
const PART_BYTES_MIN: u64 = 64 << 10;
/// A part is so small that a chain of all ranks is full before this fraction of the file has gone.
const FILLED_WITHIN: u64 = 4;
/// What a part begins with.
const DATA: u8 = 0;
const LAST: u8 = 1;

/// A file that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its bytes.
    pub size: u64,
    /// Their digest, which was compared with that of the rank that read them.
    pub digest: Digest,
    /// That rank.
    pub reader: u32,
}

/// Why a file has not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The rank that reads cannot. EAGAIN: the file has changed meanwhile. EINTR: it was asked to end.
    Unreadable {
        /// That rank.
        rank: u32,
        /// Why.
        errno: Errno,
    },
    /// What has come is not what that rank has read.
    Damaged {
        /// That rank.
        rank: u32,
    },
    /// The path is below no mount here.
    NoMount,
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable { rank, errno: Errno::AGAIN } => {
                write!(out, "the file changes while rank {rank} reads it")
            }
            Self::Unreadable { rank, errno } => write!(out, "cannot read the file on rank {rank}: {errno}"),
            Self::Damaged { rank } => write!(out, "what has come from rank {rank} has another digest"),
            Self::NoMount => out.write_str("the path is below no mount"),
        }
    }
}

impl std::error::Error for ReadError {}

/// What follows the last part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) size: u64,
    pub(crate) digest: Digest,
}

record!(Ended { size, digest });

impl Sources<'_> {
    /// Reads the file on all these ranks. `among` is the same on all ranks, and all call this together, once. `sink` gets the bytes in order; where
    /// they cannot be used it keeps to itself why, as the other ranks go on. None: this rank is not among them.
    ///
    /// # Errors
    /// The ranks cannot communicate. That a file cannot be read is an error of the ranks that should have got it, and the others go on.
    pub fn read<C: Collective>(
        &mut self,
        collective: &mut C,
        among: &Ranks,
        sink: impl FnMut(&[u8]) + Send,
    ) -> Result<Option<Result<Received, ReadError>>, C::Error> {
        let (rank, is_direct) = (self.rank, self.is_direct());
        let is_wanted = among.contains(rank);
        if is_direct {
            return Ok(is_wanted.then(|| self.read_here(sink)));
        }
        let (reader, look) = match self.own() {
            Some((reader, look)) => {
                (reader, look.map_err(|errno| ReadError::Unreadable { rank: reader, errno }))
            }
            None => (rank, Err(ReadError::NoMount)),
        };
        // A reader may read for other groups only.
        let reader = if self.file.is_some() { rank } else { reader };
        let audience = self.audience(reader, among);
        let (members, size) = match (look, self.file.as_ref()) {
            (_, Some(file)) => (&audience[..], file.facts().size),
            (Ok(facts), None) => (&audience[..], facts.size),
            (Err(_), None) => (&[][..], 0),
        };
        let members = if members.contains(&rank) && (members.len() > 1 || is_wanted) { members } else { &[] };
        let (shape, part) = plan(size, members.len() as u64);
        let mut feeder = self.file.as_deref_mut().map(|file| Feeder::new(file, part, self.stop.clone()));
        let next = || feeder.as_mut().and_then(Feeder::next);
        let mut taken = Taken::new(reader != rank, sink);
        collective.multicast_parts(members, shape, next, |bytes| {
            if is_wanted {
                taken.take(bytes);
            }
        })?;
        Ok(is_wanted.then(|| look.and_then(|_| taken.result(reader))))
    }

    /// The same for a small file, as a vector.
    ///
    /// # Errors
    /// As [`read`](Self::read). EFBIG: it has more bytes.
    pub fn read_small<C: Collective>(
        &mut self,
        collective: &mut C,
        among: &Ranks,
        bytes_max: u64,
    ) -> Result<Option<Result<Vec<u8>, ReadError>>, C::Error> {
        let (mut bytes, mut is_over) = (Vec::new(), false);
        let read = self.read(collective, among, |part| {
            is_over |= (bytes.len() + part.len()) as u64 > bytes_max;
            if !is_over {
                bytes.extend_from_slice(part);
            }
        })?;
        let too_big =
            |received: Received| ReadError::Unreadable { rank: received.reader, errno: Errno::FBIG };
        let whole = |received| if is_over { Err(too_big(received)) } else { Ok(bytes) };
        Ok(read.map(|read| read.and_then(whole)))
    }

    /// Reads on this rank alone.
    fn read_here(&mut self, sink: impl FnMut(&[u8]) + Send) -> Result<Received, ReadError> {
        let rank = self.rank;
        let opened = match (self.file.take(), self.looks().get(&rank)) {
            (Some(file), _) => Ok(file),
            (None, Some(Err(errno))) => Err(*errno),
            (None, _) => self.files.open(&self.path),
        };
        let file = opened.map_err(|errno| ReadError::Unreadable { rank, errno })?;
        let file = &mut **self.file.insert(file);
        let mut feeder = Feeder::new(file, PART_BYTES_MAX, self.stop.clone());
        let mut taken = Taken::new(false, sink);
        while let Some(part) = feeder.next() {
            taken.take(&part);
        }
        taken.result(rank)
    }
}

/// How a file of this size goes to so many ranks, and the bytes of its parts.
fn plan(size: u64, ranks: u64) -> (Shape, u64) {
    let part = (size / (FILLED_WITHIN * ranks.max(1))).clamp(PART_BYTES_MIN, PART_BYTES_MAX);
    let shape = if part.saturating_mul(ranks) <= size { Shape::Chain } else { Shape::Tree };
    (shape, part)
}

/// Reads a file in parts, and digests it.
struct Feeder<'f> {
    file: &'f mut dyn SourceFile,
    part: usize,
    stop: Stop,
    hasher: blake3::Hasher,
    at: u64,
    has_ended: bool,
}

impl<'f> Feeder<'f> {
    fn new(file: &'f mut dyn SourceFile, part: u64, stop: Stop) -> Self {
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        Self { file, part, stop, hasher: blake3::Hasher::new(), at: 0, has_ended: false }
    }

    /// The next part, the last of which says how it has ended.
    fn next(&mut self) -> Option<Vec<u8>> {
        if self.has_ended {
            return None;
        }
        match self.read() {
            Ok(Some(part)) => Some(part),
            ended => {
                self.has_ended = true;
                let ended = ended.and_then(|_| self.end());
                let mut part = vec![LAST];
                ended.encode(&mut part);
                Some(part)
            }
        }
    }

    /// None: the file has ended.
    fn read(&mut self) -> Result<Option<Vec<u8>>, Errno> {
        if self.stop.is_set() {
            return Err(Errno::INTR);
        }
        let mut part = vec![DATA; self.part + 1];
        let mut filled = 1;
        while filled < part.len() {
            match self.file.read_at(&mut part[filled..], self.at)? {
                0 => break,
                count => {
                    filled += count;
                    self.at += count as u64;
                }
            }
        }
        part.truncate(filled);
        self.hasher.update(&part[1..]);
        let size = self.file.facts().size;
        match size {
            0 if self.at > UNSIZED_BYTES_MAX => Err(Errno::FBIG),
            // It may grow as fast as it is read.
            1.. if self.at > size => Err(Errno::AGAIN),
            _ => Ok((filled > 1).then_some(part)),
        }
    }

    fn end(&self) -> Result<Ended, Errno> {
        let size = self.file.facts().size;
        if size > 0 && (self.at != size || !self.file.is_unchanged()?) {
            return Err(Errno::AGAIN);
        }
        Ok(Ended { size: self.at, digest: *self.hasher.finalize().as_bytes() })
    }
}

/// What has come.
struct Taken<S> {
    sink: S,
    /// None on the rank that reads: its digest is that of the last part.
    hasher: Option<blake3::Hasher>,
    size: u64,
    ended: Option<Result<Ended, Errno>>,
}

impl<S: FnMut(&[u8])> Taken<S> {
    fn new(is_checked: bool, sink: S) -> Self {
        Self { sink, hasher: is_checked.then(blake3::Hasher::new), size: 0, ended: None }
    }

    fn take(&mut self, part: &[u8]) {
        match part.split_first() {
            Some((&DATA, bytes)) if self.ended.is_none() => {
                self.size += bytes.len() as u64;
                self.hasher.as_mut().map(|hasher| hasher.update(bytes));
                (self.sink)(bytes);
            }
            Some((&LAST, ended)) => self.ended = Result::decode_all(ended),
            // It has no end, or the digest differs.
            _ => {}
        }
    }

    fn result(self, reader: u32) -> Result<Received, ReadError> {
        let damaged = ReadError::Damaged { rank: reader };
        let Ended { size, digest } =
            self.ended.ok_or(damaged)?.map_err(|errno| ReadError::Unreadable { rank: reader, errno })?;
        let is_same = |hasher: blake3::Hasher| *hasher.finalize().as_bytes() == digest;
        if size != self.size || !self.hasher.is_none_or(is_same) {
            return Err(damaged);
        }
        Ok(Received { size, digest, reader })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_go_along_a_chain_in_few_parts() {
        assert_eq!(plan(256 << 20, 6), (Shape::Chain, 1 << 20));
        assert_eq!(plan(1 << 20, 6), (Shape::Chain, 64 << 10));
        assert_eq!(plan(1 << 20, 1000), (Shape::Tree, 64 << 10));
        assert_eq!(plan(1 << 40, 1_000_000), (Shape::Chain, (1 << 40) / 4_000_000));
        assert_eq!(plan(0, 0), (Shape::Chain, 64 << 10));
        assert_eq!(plan(100, 2), (Shape::Tree, 64 << 10));
    }

    fn parts(all: &[&[u8]]) -> (Result<Received, ReadError>, Vec<u8>) {
        let mut bytes = Vec::new();
        let mut taken = Taken::new(true, |part: &[u8]| bytes.extend_from_slice(part));
        all.iter().for_each(|part| taken.take(part));
        (taken.result(3), bytes)
    }

    #[test]
    fn only_whole_files_with_their_digests_count() {
        let ended = |size, of: &[u8]| {
            let ended: Result<Ended, Errno> = Ok(Ended { size, digest: *blake3::hash(of).as_bytes() });
            [&[LAST][..], &ended.encoded()].concat()
        };
        let received = Received { size: 3, digest: *blake3::hash(b"abc").as_bytes(), reader: 3 };
        assert_eq!(parts(&[b"\0ab", b"\0c", &ended(3, b"abc")]), (Ok(received), b"abc".to_vec()));
        let damaged = ReadError::Damaged { rank: 3 };
        for wrong in [
            &[&b"\0ab"[..], b"\0d", &ended(3, b"abc")][..],
            &[b"\0ab", b"\0c", &ended(4, b"abc")],
            &[b"\0ab", b"\0c"],
            &[b"\0ab", &ended(3, b"abc"), b"\0c"],
            &[&ended(0, b"abc")],
            &[b"\x01"],
            &[b""],
        ] {
            assert_eq!(parts(wrong).0, Err(damaged), "{wrong:?}");
        }
        let failed: Result<Ended, Errno> = Err(Errno::IO);
        let failed = [&[LAST][..], &failed.encoded()].concat();
        assert_eq!(parts(&[&failed]).0, Err(ReadError::Unreadable { rank: 3, errno: Errno::IO }));
    }
}
