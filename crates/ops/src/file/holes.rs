//! Holes of an open file: where data begins and ends, and whether there are too many to hash. It moves nothing.

use atta_entry::Metadata;
use atta_runtime::Stop;
use rustix::fd::AsFd;
use rustix::fs::SeekFrom;

use super::error::{FileError, Step};
use atta_sys::retry;

/// Whether a file has fewer blocks than bytes: it has holes, or is compressed.
pub(crate) fn may_have_holes(metadata: &Metadata) -> bool {
    metadata.allocated_bytes() < metadata.size
}

/// Where the next data or hole begins; none: there is no more data.
pub(crate) fn seek(fd: impl AsFd, to: SeekFrom) -> Result<Option<u64>, FileError> {
    match retry(|| rustix::fs::seek(&fd, to)) {
        Ok(at) => Ok(Some(at)),
        // ENXIO
        Err(atta_entry::Errno::NXIO) => Ok(None),
        Err(errno) => Err(FileError::new(Step::Read, errno)),
    }
}

/// Whether a file has more than `most` bytes of holes. Block counts alone do not show it: a compressed file has few blocks and no holes. So
/// if the block count allows that many, the file system is asked; one that does not support holes reports none.
///
/// # Errors
/// The seek fails, the file changes, or the run is to end.
pub(crate) fn exceed(
    file: impl AsFd,
    metadata: &Metadata,
    most: u64,
    stop: &Stop,
) -> Result<bool, FileError> {
    let size = metadata.size;
    if size.saturating_sub(metadata.allocated_bytes()) <= most {
        return Ok(false);
    }
    let (mut at, mut holes) = (0, 0);
    while at < size {
        if stop.is_set() {
            return Err(FileError::Stopped);
        }
        let data = seek(&file, SeekFrom::Data(at))?.unwrap_or(size).clamp(at, size);
        holes += data - at;
        if holes > most || data == size {
            break;
        }
        at = seek(&file, SeekFrom::Hole(data))?.unwrap_or(data).min(size);
        if at <= data {
            // There was data here a moment ago.
            return Err(FileError::Changed);
        }
    }
    Ok(holes > most)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;
    use atta_sys::stat_descriptor;

    fn sparse(bytes: u64, data_at: &[u64]) -> (File, Metadata) {
        let file = atta_runtime::unnamed_file(&std::env::temp_dir()).unwrap();
        file.set_len(bytes).unwrap();
        data_at.iter().for_each(|at| file.write_all_at(&[1; 4096], *at).unwrap());
        let metadata = stat_descriptor(&file).unwrap();
        (file, metadata)
    }

    #[test]
    fn holes_are_counted_as_the_file_system_reports_them() {
        let (file, metadata) = sparse(1 << 30, &[0, 1 << 20, (1 << 30) - 4096]);
        let holes = (1 << 30) - 3 * 4096;
        let stop = Stop::new();
        for (most, exceeds) in [(0, true), (holes - 1, true), (holes, false), (u64::MAX, false)] {
            assert_eq!(exceed(&file, &metadata, most, &stop), Ok(exceeds), "{most}");
        }
        // Compressed: fewer blocks than bytes, and no holes.
        let (full, metadata) = sparse(4096, &[0]);
        let metadata = Metadata { blocks: 0, ..metadata };
        assert_eq!(exceed(&full, &metadata, 0, &stop), Ok(false));
        stop.set();
        let (file, metadata) = sparse(1 << 30, &[0]);
        assert_eq!(exceed(&file, &metadata, 0, &stop), Err(FileError::Stopped));
    }
}
