//! What it is worth to register files and buffers with the ring beforehand: raw io_uring with and without, 64 transfers at a time.
//! atta-aio registers neither, for what this says.

#![expect(unsafe_code, reason = "the kernel uses buffers by their addresses")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use io_uring::squeue::Entry;
use io_uring::types::{Fd, Fixed};
use io_uring::{IoUring, opcode};

use super::place::Place;
use super::port::Direction;
use super::{BenchResult, Case, Scale};
use crate::sheet::Sheet;
use crate::turns::{Contender, hold};

const DEPTH: u32 = 64;
const BLOCKS: [usize; 4] = [512, 4 << 10, 64 << 10, 512 << 10];

/// Runs the case in one place.
pub(crate) fn run(place: &Place, scale: &Scale, case: &mut Case<'_>) -> BenchResult<()> {
    let bytes = scale.pick(128 << 20, 32 << 20);
    let file = place.file("registered", bytes)?;
    let note = "Thousands of transfers a second by raw io_uring, 64 at a time, in sequence through a file; each time again \
                into or from the same memory.";
    let title = format!("Files and buffers registered beforehand, {}", place.kind);
    let mut sheet = Sheet::comparison(title, note);
    for direction in Direction::BOTH {
        for block in BLOCKS {
            (case.log)(&format!("registered: {} {block} B", direction.name()));
            let ways = [
                ("neither", false, false),
                ("files", true, false),
                ("buffers", false, true),
                ("both", true, true),
            ];
            let contenders = ways.map(|(name, files, buffers)| {
                let job = Job { file: Arc::clone(&file), bytes, direction, block, files, buffers };
                Contender::new(name, move || job.speed())
            });
            let outcomes = hold(scale.turns, contenders.into());
            sheet.compare(&[format!("{}, {block} B", direction.name())], &outcomes, "neither");
        }
    }
    case.sheets.push(sheet);
    Ok(())
}

struct Job {
    file: Arc<File>,
    bytes: u64,
    direction: Direction,
    block: usize,
    /// The file is registered.
    files: bool,
    /// The buffers are.
    buffers: bool,
}

impl Job {
    #[expect(clippy::cast_precision_loss, reason = "a count of transfers")]
    fn speed(&self) -> BenchResult<Vec<f64>> {
        let mut memory: Vec<Vec<u8>> = (0..DEPTH).map(|_| vec![b'r'; self.block]).collect();
        let mut ring = self.ring(&mut memory)?;
        let batches = (self.bytes / (self.block as u64 * u64::from(DEPTH))).clamp(1, 1000);
        let start = Instant::now();
        for batch in 0..batches {
            for (index, buffer) in (0_u16..).zip(&mut memory) {
                let offset = (batch * u64::from(DEPTH) + u64::from(index)) * self.block as u64 % self.bytes;
                let entry = self.entry(buffer, index, offset);
                // SAFETY: the buffer outlives the batch, which is waited for, and the ring.
                unsafe { ring.submission().push(&entry) }.map_err(|error| error.to_string())?;
            }
            ring.submit_and_wait(DEPTH as usize).map_err(|error| format!("io_uring: {error}"))?;
            for end in ring.completion() {
                if usize::try_from(end.result()) != Ok(self.block) {
                    return Err(format!("a transfer gave {}", end.result()));
                }
            }
        }
        drop(ring);
        Ok(vec![(batches * u64::from(DEPTH)) as f64 / start.elapsed().as_secs_f64() / 1e3])
    }

    fn ring(&self, memory: &mut [Vec<u8>]) -> BenchResult<IoUring> {
        let failed = |error: std::io::Error| format!("io_uring: {error}");
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
        let ring = builder.build(DEPTH).map_err(failed)?;
        if self.files {
            ring.submitter().register_files(&[self.file.as_raw_fd()]).map_err(failed)?;
        }
        if self.buffers {
            let table: Vec<_> = memory
                .iter_mut()
                .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() })
                .collect();
            // SAFETY: the memory outlives the ring.
            unsafe { ring.submitter().register_buffers(&table) }.map_err(failed)?;
        }
        Ok(ring)
    }

    fn entry(&self, buffer: &mut [u8], index: u16, offset: u64) -> Entry {
        let (start, bytes) = (buffer.as_mut_ptr(), u32::try_from(buffer.len()).unwrap_or(u32::MAX));
        let fd = Fd(self.file.as_raw_fd());
        match (self.direction, self.buffers, self.files) {
            (Direction::Read, false, false) => opcode::Read::new(fd, start, bytes).offset(offset).build(),
            (Direction::Read, false, true) => {
                opcode::Read::new(Fixed(0), start, bytes).offset(offset).build()
            }
            (Direction::Read, true, false) => {
                opcode::ReadFixed::new(fd, start, bytes, index).offset(offset).build()
            }
            (Direction::Read, true, true) => {
                opcode::ReadFixed::new(Fixed(0), start, bytes, index).offset(offset).build()
            }
            (Direction::Write, false, false) => opcode::Write::new(fd, start, bytes).offset(offset).build(),
            (Direction::Write, false, true) => {
                opcode::Write::new(Fixed(0), start, bytes).offset(offset).build()
            }
            (Direction::Write, true, false) => {
                opcode::WriteFixed::new(fd, start, bytes, index).offset(offset).build()
            }
            (Direction::Write, true, true) => {
                opcode::WriteFixed::new(Fixed(0), start, bytes, index).offset(offset).build()
            }
        }
    }
}
