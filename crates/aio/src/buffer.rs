//! Memory that operations read and write. It belongs to the operation until that has ended, so that memory in use by the kernel
//! is not freed.

use std::fmt;
use std::ops::Range;

/// Memory for one operation: owned, or lent by a caller who promises to keep it. It may show only a part of itself; operations
/// then see only that part.
pub struct Buffer(Memory);

enum Memory {
    Owned(Vec<u8>),
    Foreign {
        pointer: *mut u8,
        bytes: usize,
    },
    /// Memory of which a part is shown. It is boxed: few buffers need it, and millions may wait.
    Part(Box<(Memory, Range<usize>)>),
}

impl Memory {
    /// The whole memory, regardless of the shown part.
    fn whole(&self) -> &Self {
        match self {
            Self::Part(part) => part.0.whole(),
            whole => whole,
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Owned(bytes) => bytes.len(),
            Self::Foreign { bytes, .. } => *bytes,
            Self::Part(part) => part.1.len(),
        }
    }

    fn as_ptr(&self) -> *const u8 {
        match self {
            Self::Owned(bytes) => bytes.as_ptr(),
            Self::Foreign { pointer, .. } => *pointer,
            Self::Part(part) => part.0.as_ptr().wrapping_add(part.1.start),
        }
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Self::Owned(bytes) => bytes.as_mut_ptr(),
            Self::Foreign { pointer, .. } => *pointer,
            Self::Part(part) => part.0.as_mut_ptr().wrapping_add(part.1.start),
        }
    }
}

// SAFETY: the caller that created a foreign buffer promised that its memory may be used from any thread until the operation has
// ended; an owned one is a vector.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Lends memory.
    ///
    /// # Safety
    /// `pointer` is valid for reads and writes of `bytes` bytes (for reads alone, if operations only read it), from any thread,
    /// and nothing else writes there, until the operation has ended: until its buffer is returned or its continuation has been
    /// called.
    #[must_use]
    pub unsafe fn foreign(pointer: *mut u8, bytes: usize) -> Self {
        Self(Memory::Foreign { pointer, bytes })
    }

    /// Whether the memory is lent: it must not be released before the operation has ended.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        matches!(self.0.whole(), Memory::Foreign { .. })
    }

    /// A buffer of `bytes` zeros.
    #[must_use]
    pub fn zeroed(bytes: usize) -> Self {
        Self::from(vec![0; bytes])
    }

    /// The length of the buffer, or of the shown part.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Shows only a part of the memory, counted from its beginning: to continue after a short write without a copy.
    ///
    /// # Panics
    /// The part is not within the memory.
    pub fn show(&mut self, part: Range<usize>) {
        self.show_all();
        assert!(part.start <= part.end && part.end <= self.len(), "{part:?} is outside");
        let memory = std::mem::replace(&mut self.0, Memory::Owned(Vec::new()));
        self.0 = Memory::Part(Box::new((memory, part)));
    }

    /// Shows the whole memory again.
    pub fn show_all(&mut self) {
        match std::mem::replace(&mut self.0, Memory::Owned(Vec::new())) {
            Memory::Part(part) => self.0 = part.0,
            whole => self.0 = whole,
        }
    }

    /// The offset of the shown part.
    pub(crate) fn start(&self) -> usize {
        match &self.0 {
            Memory::Part(part) => part.1.start,
            _ => 0,
        }
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A pointer to the first byte, for reading.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr()
    }

    /// A pointer to the first byte, for writing.
    #[must_use]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr()
    }

    /// The bytes of the buffer.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        if self.is_empty() {
            return &[];
        }
        // SAFETY: the shown part is within the memory: a vector, or lent memory that the caller promised to be valid.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len()) }
    }

    /// The bytes of the buffer, for writing.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if self.is_empty() {
            return &mut [];
        }
        let (pointer, bytes) = (self.as_mut_ptr(), self.len());
        // SAFETY: as above, and nothing else writes there until the operation has ended; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(pointer, bytes) }
    }

    /// The vector that it was created from, regardless of the shown part; an empty one for lent memory.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        self.show_all();
        match self.0 {
            Memory::Owned(bytes) => bytes,
            _ => Vec::new(),
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Memory::Owned(bytes))
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len())
    }
}

/// A list of buffers, for `readv` and `writev`.
#[derive(Debug)]
pub struct Vectors {
    // The kernel's table of the buffers. It points into `buffers`, whose memory does not move with them.
    table: Box<[libc::iovec]>,
    buffers: Box<[Buffer]>,
}

// SAFETY: the table points only into the buffers, which may be sent.
unsafe impl Send for Vectors {}

impl Vectors {
    /// Creates a list of buffers.
    #[must_use]
    pub fn new(mut buffers: Vec<Buffer>) -> Self {
        let entry =
            |buffer: &mut Buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        Self { table: buffers.iter_mut().map(entry).collect(), buffers: buffers.into() }
    }

    /// The kernel's table.
    #[must_use]
    pub fn table(&self) -> &[libc::iovec] {
        &self.table
    }

    /// The buffers.
    #[must_use]
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// The bytes of each buffer, for writing.
    pub fn slices_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.buffers.iter_mut().map(Buffer::as_mut_slice)
    }

    /// The total number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffers.iter().map(Buffer::len).sum()
    }

    /// Whether the total length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the buffers.
    #[must_use]
    pub fn into_buffers(self) -> Vec<Buffer> {
        self.buffers.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_is_shown_alone() {
        let mut buffer = Buffer::from(b"0123456789".to_vec());
        buffer.show(3..5);
        assert_eq!((buffer.len(), buffer.as_slice()), (2, &b"34"[..]));
        buffer.as_mut_slice()[0] = b'x';
        buffer.show(10..10);
        assert!(buffer.is_empty() && buffer.as_slice().is_empty());
        buffer.show_all();
        assert_eq!(buffer.as_slice(), b"012x456789");
        buffer.show(0..1);
        assert_eq!(buffer.into_vec().len(), 10);
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn part_outside_is_refused() {
        Buffer::zeroed(3).show(2..4);
    }
}
