//! Striping of files on Lustre: the layout of a copy, in Lustre's binary format, and how a file with that layout is made.
//!
//! A file takes a layout only before it has objects. So it is opened for reading, gets its layout as the attribute `lustre.lov`, as `tar
//! --xattrs` sets it, and is then opened for writing. This needs no Lustre library. It has not been tried on Lustre yet: the tests use a
//! test double.

use std::ffi::CStr;

use atta_entry::{Errno, Metadata};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, XattrFlags};

use crate::metadata::inherited::create_file;
use crate::refused::Refused;
use atta_sys::file_systems::type_of;
use atta_sys::retry;

const ATTRIBUTE: &CStr = c"lustre.lov";
/// More than any layout takes.
const LAYOUT_MOST: usize = 64 << 10;

/// `lov_user_md_v1`: magic and pattern of 4 bytes each, object of 16, size of 4, count and first target of 2 each; then objects.
const PLAIN: u32 = 0x0BD1_0BD0;
const PLAIN_BYTES: usize = 32;
/// `lov_user_md_v3`: the same, then a pool name of 16 bytes.
const POOLED: u32 = 0x0BD3_0BD0;
const POOLED_BYTES: usize = 48;
/// Composite layouts.
const COMPOSITE: u32 = 0x0BD6_0BD0;
const RAID0: u32 = 1;
/// Lustre chooses the first target.
const ANY: u16 = u16::MAX;

/// How copies are striped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stripes {
    /// As their sources are.
    Keep,
    /// By size: the first rule whose limit is above it. A file without a rule is striped as its directory specifies.
    BySize(Vec<StripeRule>),
}

/// How files of a size range are striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeRule {
    /// Exclusive upper limit in bytes; none: all files.
    pub below: Option<u64>,
    /// Number of targets for a file; none: all targets.
    pub count: Option<u16>,
    /// Stripe size in bytes; none: as the directory specifies.
    pub size: Option<u32>,
}

impl Stripes {
    /// The layout of a copy, by its size and its source's layout; none: as its directory specifies.
    fn layout(&self, bytes: u64, source: Option<&[u8]>) -> Option<Vec<u8>> {
        match self {
            Self::Keep => source.and_then(kept),
            Self::BySize(rules) => {
                let rule = rules.iter().find(|rule| rule.below.is_none_or(|below| bytes < below));
                rule.map(StripeRule::layout)
            }
        }
    }
}

impl StripeRule {
    fn layout(&self) -> Vec<u8> {
        let (size, count) = (self.size.unwrap_or(0), self.count.unwrap_or(u16::MAX));
        let mut layout = [PLAIN.to_le_bytes(), RAID0.to_le_bytes()].concat();
        layout.extend([0; 16]);
        layout.extend(size.to_le_bytes());
        layout.extend([count.to_le_bytes(), ANY.to_le_bytes()].concat());
        layout
    }
}

/// The layout of a source, without its objects and its first target, which are specific to the source. None: not a layout.
fn kept(source: &[u8]) -> Option<Vec<u8>> {
    let magic = u32::from_le_bytes(*source.first_chunk()?);
    let length = match magic {
        PLAIN => PLAIN_BYTES,
        POOLED => POOLED_BYTES,
        // Lustre drops the objects of the components itself.
        COMPOSITE => return Some(source.to_vec()),
        _ => return None,
    };
    let mut layout = source.get(..length)?.to_vec();
    layout[8..24].fill(0);
    layout[30..32].copy_from_slice(&ANY.to_le_bytes());
    Some(layout)
}

/// A file system with layouts.
pub(crate) trait Layouts: std::fmt::Debug + Sync {
    /// The layout of a file; none: it has none.
    fn get(&self, file: BorrowedFd<'_>) -> Option<Vec<u8>>;

    /// Gives a layout to a file that has no objects yet.
    fn set(&self, file: BorrowedFd<'_>, layout: &[u8]) -> Result<(), Errno>;
}

/// The real Lustre.
#[derive(Debug)]
struct Lustre;

impl Layouts for Lustre {
    fn get(&self, file: BorrowedFd<'_>) -> Option<Vec<u8>> {
        let mut layout = vec![0; LAYOUT_MOST];
        let length = retry(|| rustix::fs::fgetxattr(file, ATTRIBUTE, &mut layout[..])).ok()?;
        layout.truncate(length);
        Some(layout)
    }

    fn set(&self, file: BorrowedFd<'_>, layout: &[u8]) -> Result<(), Errno> {
        retry(|| rustix::fs::fsetxattr(file, ATTRIBUTE, layout, XattrFlags::empty()))
    }
}

/// Gives copies their layouts, if striping was requested.
#[derive(Debug)]
pub(crate) struct Striping<'a> {
    wanted: Option<(&'a Stripes, &'static dyn Layouts)>,
}

impl<'a> Striping<'a> {
    /// # Errors
    /// Striping was requested, and TARGET has no layouts.
    pub(crate) fn new(stripes: Option<&'a Stripes>, top: impl AsFd) -> Result<Self, Refused> {
        let wanted = match stripes {
            None => None,
            Some(stripes) if type_of(top).is_some_and(|known| known.has_layouts) => {
                Some((stripes, &Lustre as &dyn Layouts))
            }
            Some(_) => {
                return Err(Refused {
                    what: "files are to be striped, and TARGET is not on Lustre".to_owned(),
                    hint: "leave --stripe out".into(),
                    is_usage: true,
                });
            }
        };
        Ok(Self { wanted })
    }

    /// The layout for the copy of an open file; none: as its directory specifies.
    pub(crate) fn layout_of(&self, source: impl AsFd, metadata: &Metadata) -> Option<Vec<u8>> {
        let (stripes, layouts) = self.wanted?;
        let own = if *stripes == Stripes::Keep { layouts.get(source.as_fd()) } else { None };
        stripes.layout(metadata.size, own.as_deref())
    }

    /// Makes a new file, which inherits nothing if its directory `is_sealed`. Returns also whether it has the layout that it should have.
    pub(crate) fn create(
        &self,
        (directory, is_sealed): (&OwnedFd, bool),
        name: &CStr,
        layout: Option<&[u8]>,
    ) -> Result<(OwnedFd, bool), Errno> {
        let (Some((_, layouts)), Some(layout)) = (self.wanted, layout) else {
            return Ok((create_file(directory, name, OFlags::WRONLY, is_sealed)?, true));
        };
        let empty = create_file(directory, name, OFlags::RDONLY, is_sealed)?;
        let striped = striped(layouts, &empty, layout);
        if striped.is_err() {
            let _ = rustix::fs::unlinkat(directory, name, rustix::fs::AtFlags::empty());
        }
        striped
    }
}

/// Gives a new file its layout, and opens it for writing. Returns the file and whether the layout was set.
///
/// It is opened by its descriptor, so no other process can substitute another file.
fn striped(layouts: &dyn Layouts, empty: &OwnedFd, layout: &[u8]) -> Result<(OwnedFd, bool), Errno> {
    let has_layout = layouts.set(empty.as_fd(), layout).is_ok();
    // A default ACL of the directory may deny write access to the owner.
    let _ = retry(|| rustix::fs::fchmod(empty, Mode::RUSR | Mode::WUSR));
    let link = format!("/proc/self/fd/{}", empty.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let opened = retry(|| rustix::fs::openat(CWD, link.as_str(), flags, Mode::empty()))?;
    Ok((opened, has_layout))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A double of Lustre's rules for layouts: refused if a file has bytes, or is open for writing.
    #[derive(Debug, Default)]
    struct Recorded(Mutex<Vec<Vec<u8>>>);

    impl Layouts for Recorded {
        fn get(&self, _file: BorrowedFd<'_>) -> Option<Vec<u8>> {
            self.0.lock().unwrap().last().cloned()
        }

        fn set(&self, file: BorrowedFd<'_>, layout: &[u8]) -> Result<(), Errno> {
            let flags = rustix::fs::fcntl_getfl(file).unwrap();
            let is_fresh = rustix::fs::fstat(file).unwrap().st_size == 0;
            if flags.contains(OFlags::WRONLY) || !is_fresh || layout.len() < PLAIN_BYTES {
                return Err(Errno::INVAL);
            }
            self.0.lock().unwrap().push(layout.to_vec());
            Ok(())
        }
    }

    #[test]
    fn stripe_rules_choose_by_size() {
        let rules = [
            StripeRule { below: Some(1 << 20), count: Some(1), size: None },
            StripeRule { below: Some(1 << 30), count: Some(4), size: Some(4 << 20) },
            StripeRule { below: None, count: None, size: None },
        ];
        let stripes = Stripes::BySize(rules.to_vec());
        let expected = |size: u32, count: u16| {
            let mut layout = vec![0xD0, 0x0B, 0xD1, 0x0B, 1, 0, 0, 0];
            layout.extend([0; 16]);
            layout.extend(size.to_le_bytes());
            layout.extend(count.to_le_bytes());
            layout.extend([0xFF, 0xFF]);
            Some(layout)
        };
        assert_eq!(stripes.layout(0, None), expected(0, 1));
        assert_eq!(stripes.layout((1 << 20) - 1, Some(b"other")), expected(0, 1));
        assert_eq!(stripes.layout(1 << 20, None), expected(4 << 20, 4));
        assert_eq!(stripes.layout(1 << 30, None), expected(0, u16::MAX));
        assert_eq!(Stripes::BySize(rules[..1].to_vec()).layout(1 << 20, None), None);
    }

    #[test]
    fn kept_layout_names_no_object() {
        let mut source = StripeRule { below: None, count: Some(2), size: Some(1 << 20) }.layout();
        source[8..24].fill(7);
        source[30..32].fill(0);
        source.extend([9; 48]);
        let clean = StripeRule { below: None, count: Some(2), size: Some(1 << 20) }.layout();
        assert_eq!(Stripes::Keep.layout(5, Some(&source)), Some(clean.clone()));
        source[..4].copy_from_slice(&POOLED.to_le_bytes());
        let pooled = kept(&source).unwrap();
        assert_eq!((&pooled[4..32], &pooled[32..]), (&clean[4..], &[9; 16][..]));
        source[..4].copy_from_slice(&COMPOSITE.to_le_bytes());
        assert_eq!(kept(&source), Some(source.clone()));
        for wrong in [&b""[..], b"\xD0\x0B\xD1", b"\xD0\x0B\xD1\x0B", b"something else of some length....."] {
            assert_eq!(kept(wrong), None);
        }
        assert_eq!(Stripes::Keep.layout(5, None), None);
    }

    #[test]
    fn a_file_has_its_layout_before_it_can_be_written() {
        let scratch = atta_testkit::scratch::Scratch::new("stripe").unwrap();
        let made = |name| {
            std::fs::write(scratch.join(name), "").unwrap();
            OwnedFd::from(std::fs::File::open(scratch.join(name)).unwrap())
        };
        let lustre = Recorded::default();
        let layout = StripeRule { below: None, count: Some(3), size: None }.layout();
        let (file, has_layout) = striped(&lustre, &made("file"), &layout).unwrap();
        assert_eq!((has_layout, lustre.get(file.as_fd())), (true, Some(layout.clone())));
        assert_eq!(rustix::io::write(&file, b"bytes"), Ok(5));
        assert_eq!(std::fs::read(scratch.join("file")).unwrap(), b"bytes");
        // A refused layout does not fail the file.
        let (file, has_layout) = striped(&lustre, &made("other"), b"?").unwrap();
        assert!(!has_layout && rustix::io::write(&file, b"bytes") == Ok(5));
    }

    #[test]
    fn nothing_is_striped_where_there_is_no_lustre() {
        let here = std::fs::File::open("/").unwrap();
        assert!(Striping::new(None, &here).unwrap().wanted.is_none());
        assert!(Striping::new(Some(&Stripes::Keep), &here).unwrap_err().is_usage);
    }
}
