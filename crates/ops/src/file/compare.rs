//! Compares the bytes of two open files, range by range, and skips holes that both have. It knows no names.

use std::ops::Range;

use atta_entry::Side;
use rustix::fd::BorrowedFd;
use rustix::fs::SeekFrom;

use super::error::{FileError, Step};
use super::error::{PairError, on};
use super::holes::seek;
use super::mover::OFFSET_MOST;
use super::retries::patiently;
use atta_sys::retry;

/// Bytes of each file that are compared at a time: two such blocks stay in the caches.
const BLOCK: usize = 256 << 10;

/// Two open files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Two<'a> {
    pub(crate) source: BorrowedFd<'a>,
    pub(crate) target: BorrowedFd<'a>,
    /// Size of each; there must be no bytes beyond it.
    pub(crate) sizes: [u64; 2],
    /// Both have fewer blocks than bytes: holes are looked for.
    pub(crate) have_holes: bool,
}

/// The buffers of one thread that compares bytes.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    source: Vec<u8>,
    target: Vec<u8>,
}

impl Blocks {
    /// The first difference in a range that both files have. None: there is none, or `wanted`, called before each block, ended the search.
    pub(crate) fn compare(
        &mut self,
        two: Two<'_>,
        range: Range<u64>,
        wanted: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<u64>, PairError> {
        let mut at = range.start;
        while at < range.end && (!two.have_holes || wanted(at)) {
            let data = if two.have_holes { data_of_either(two, at..range.end)? } else { at..range.end };
            at = data.end;
            if let Some(found) = self.compare_data(two, data, wanted)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn compare_data(
        &mut self,
        two: Two<'_>,
        range: Range<u64>,
        wanted: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<u64>, PairError> {
        let mut at = range.start;
        while at < range.end && wanted(at) {
            let bytes = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(BLOCK);
            let [source_size, target_size] = two.sizes;
            let end = at + bytes as u64;
            let one = fill(&mut self.source, two.source, at..end, source_size);
            let one = one.map_err(|error| on(Side::Source, error))?;
            let other = fill(&mut self.target, two.target, at..end, target_size);
            let other = other.map_err(|error| on(Side::Target, error))?;
            if one != other {
                let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
                return Ok(Some(at + same as u64));
            }
            at = end;
        }
        Ok(None)
    }
}

/// Reads a range of at most a block. If it ends at the file's size, requests one more byte, which must not exist.
fn fill<'b>(
    block: &'b mut Vec<u8>,
    from: BorrowedFd<'_>,
    range: Range<u64>,
    size: u64,
) -> Result<&'b [u8], FileError> {
    if block.is_empty() {
        block.resize(BLOCK + 1, 0);
    }
    let bytes = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(BLOCK);
    let past = usize::from(range.end == size && size < OFFSET_MOST);
    let block = &mut block[..bytes + past];
    let mut done = 0;
    while done < bytes {
        let read =
            patiently(|| retry(|| rustix::io::pread(from, &mut block[done..], range.start + done as u64)));
        match read.map_err(|errno| FileError::new(Step::Read, errno))? {
            // It was longer a moment ago.
            0 => return Err(FileError::Changed),
            read => done += read,
        }
    }
    // It is longer than it was, or than its stated size.
    if done > bytes { Err(FileError::Changed) } else { Ok(&block[..bytes]) }
}

/// The first part of a range that has data in at least one file, and in which neither changes between data and hole. Empty at the end of
/// the range: both have only holes.
fn data_of_either(two: Two<'_>, range: Range<u64>) -> Result<Range<u64>, PairError> {
    let next = |file, side| {
        let data = seek(file, SeekFrom::Data(range.start)).map_err(|error| on(side, error))?;
        Ok(data.map_or(range.end, |data| data.clamp(range.start, range.end)))
    };
    let (one, other) = (next(two.source, Side::Source)?, next(two.target, Side::Target)?);
    let start = one.min(other);
    let end = |file, side, data: u64| {
        if data > start || start == range.end {
            return Ok(data);
        }
        let hole = seek(file, SeekFrom::Hole(start)).map_err(|error| on(side, error))?;
        match hole {
            Some(hole) if hole > start => Ok(hole.min(range.end)),
            // There was data here a moment ago.
            _ => Err(PairError::Changed),
        }
    };
    Ok(start..end(two.source, Side::Source, one)?.min(end(two.target, Side::Target, other)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use proptest::prelude::*;
    use rustix::fd::AsFd;

    /// A file without a name, with pieces of data at these places.
    fn file(bytes: u64, pieces: &[(u64, Vec<u8>)]) -> File {
        let file = atta_runtime::unnamed_file(&std::env::temp_dir()).unwrap();
        file.set_len(bytes).unwrap();
        for (at, piece) in pieces {
            let at = at % bytes.max(1);
            let fits = usize::try_from(bytes - at).unwrap().min(piece.len());
            file.write_all_at(&piece[..fits], at).unwrap();
        }
        file
    }

    fn content(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn two<'a>(one: &'a File, other: &'a File, have_holes: bool) -> Two<'a> {
        let sizes = [one, other].map(|file| file.metadata().unwrap().len());
        Two { source: one.as_fd(), target: other.as_fd(), sizes, have_holes }
    }

    fn first(one: &File, other: &File, range: Range<u64>, have_holes: bool) -> Option<u64> {
        let two = two(one, other, have_holes);
        Blocks::default().compare(two, range, &mut |_| true).unwrap()
    }

    fn pieces() -> impl Strategy<Value = Vec<(u64, Vec<u8>)>> {
        let piece = (0_u64..1 << 20, prop::collection::vec(0_u8..2, 1..3000));
        prop::collection::vec(piece, 0..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn first_difference_matches_a_simple_comparison(
            bytes in 1_u64..1 << 20,
            common in pieces(),
            own in pieces(),
            start in 0_u64..1 << 20,
        ) {
            let one = file(bytes, &common);
            let other = file(bytes, &[common, own].concat());
            let start = start % bytes;
            let (left, right) = (content(&one), content(&other));
            let from = usize::try_from(start).unwrap();
            let expected = (from..left.len()).find(|at| left[*at] != right[*at]).map(|at| at as u64);
            for have_holes in [false, true] {
                prop_assert_eq!(first(&one, &other, start..bytes, have_holes), expected);
                prop_assert_eq!(first(&other, &one, start..bytes, have_holes), expected);
            }
        }
    }

    #[test]
    fn what_is_a_hole_in_both_is_not_read() {
        let (one, other) = (file(1 << 41, &[]), file(1 << 41, &[(1 << 40, vec![1; 10])]));
        assert_eq!(first(&one, &one, 0..1 << 41, true), None);
        assert_eq!(first(&one, &other, 0..1 << 41, true), Some(1 << 40));
        assert_eq!(first(&one, &other, (1 << 40) + 10..1 << 41, true), None);
    }

    #[test]
    fn a_file_that_is_shorter_than_it_was_has_changed() {
        let (one, other) = (file(1000, &[]), file(999, &[]));
        let shorter = two(&one, &other, false);
        assert_eq!(Blocks::default().compare(shorter, 0..1000, &mut |_| true), Err(PairError::Changed));
        let longer = Two { sizes: [999, 999], ..shorter };
        assert_eq!(Blocks::default().compare(longer, 0..999, &mut |_| true), Err(PairError::Changed));
        assert_eq!(Blocks::default().compare(shorter, 0..999, &mut |_| true), Ok(None));
    }

    #[test]
    fn nothing_is_read_that_nobody_wants_to_know() {
        let (one, other) = (file(1 << 20, &[]), file(1 << 20, &[((1 << 20) - 1, vec![1])]));
        let two = two(&one, &other, false);
        let mut asked = Vec::new();
        let mut wanted = |at| {
            asked.push(at);
            asked.len() < 3
        };
        assert_eq!(Blocks::default().compare(two, 0..1 << 20, &mut wanted), Ok(None));
        assert_eq!(asked, [0, BLOCK as u64, 2 * BLOCK as u64]);
    }
}
