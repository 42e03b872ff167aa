//! Properties of file systems by the type that `statfs` or the mount table reports: how data becomes durable, who can copy bytes within
//! them, which have layouts, on which sizes are unreliable, and what identifies a mounted one. There is one table (`table.rs`) with a
//! source for each row, and `columns.rs` explains its columns. It mounts nothing and measures nothing.
//!
//! Nothing is assumed of a type that is not in the table: each file on it is synced by itself, and it is not taken for local.

mod columns;
mod table;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fd::AsFd;
use rustix::fs::StatFs;

use crate::mount_line::{MountLine, line_of, unescaped};
use crate::stat;
use crate::stat::Features;

pub use columns::{CopyBy, Durability, Handles, Mounts, Reach, UriRule};
pub use table::{FileSystem, KNOWN};

use table::OVERLAY;

/// Whether the kernel makes the contents of the file system that something is on while they are read, so that sizes say nothing.
pub fn is_pseudo(descriptor: impl AsFd) -> bool {
    type_of(descriptor).is_some_and(|known| known.is_pseudo)
}

/// Whether something is on an NFS mount.
pub fn is_nfs(descriptor: impl AsFd) -> bool {
    rustix::fs::fstatfs(descriptor)
        .is_ok_and(|found| known_type(&found).is_some_and(|known| known.name == "nfs"))
}

/// What is known of the type that a `statfs` reported.
pub fn known_type(found: &StatFs) -> Option<&'static FileSystem> {
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    find(i64::from(found.f_type))
}

fn find(magic: i64) -> Option<&'static FileSystem> {
    KNOWN.iter().find(|known| known.magic == Some(low(magic)))
}

/// What is known of a mount, from its type and its source in the mount table (without escapes). A source counts where the type alone
/// does not tell (FUSE). A FUSE type that is not in the table is `fuse`.
#[must_use]
pub fn mounted_type(kind: &[u8], source: &[u8]) -> Option<&'static FileSystem> {
    let has_type = |known: &&FileSystem| known.mounts.types.iter().any(|name| name.as_bytes() == kind);
    let named = KNOWN.iter().find(has_type);
    if named.is_some_and(|named| named.name != FUSE) {
        return named;
    }
    let is_fuse = named.is_some() || kind.starts_with(b"fuse.");
    let begins = |prefix: &str| source.starts_with(prefix.as_bytes());
    let by_source = KNOWN.iter().find(|known| is_fuse && known.mounts.source_prefix.is_some_and(begins));
    by_source.or_else(|| KNOWN.iter().find(|known| is_fuse && known.name == FUSE))
}

/// The row of all FUSE types that have none of their own.
const FUSE: &str = "fuse";

/// Some architectures extend the sign of a magic number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the lower half is what is meant"
)]
const fn low(magic: i64) -> u32 {
    magic as u32
}

/// What is known of the file system that something is on.
pub fn type_of(descriptor: impl AsFd) -> Option<&'static FileSystem> {
    rustix::fs::fstatfs(descriptor).ok().as_ref().and_then(known_type)
}

/// Whether bytes of the file system that something is on are copied so.
pub fn is_copied_by(descriptor: impl AsFd, copy_by: CopyBy) -> bool {
    type_of(descriptor).is_some_and(|known| known.copy_by == copy_by)
}

/// How data in a directory is made durable.
pub fn durability_of(directory: impl AsFd, features: Features) -> Durability {
    let Ok(found) = rustix::fs::fstatfs(&directory) else { return Durability::Each };
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    let magic = i64::from(found.f_type);
    durability(magic, || upper_layer(&directory, features, &found))
}

/// How data on a file system of a type is made durable. `upper`: the type of an overlay's upper layer; none if that is not known, or
/// if the overlay is mounted `volatile`.
pub fn durability(magic: i64, upper: impl FnOnce() -> Option<i64>) -> Durability {
    // fs/overlayfs/super.c: ovl_sync_fs syncs the file system of the upper layer, unless it is volatile.
    let magic = if low(magic) == OVERLAY { upper() } else { Some(magic) };
    magic.and_then(find).map_or(Durability::Each, |known| known.durability)
}

/// The type of the file system that the upper layer of an overlay is on.
fn upper_layer(directory: impl AsFd, features: Features, overlay: &StatFs) -> Option<i64> {
    let mount = stat::place_of(&directory, features).ok()?.mount;
    let mounts = std::fs::read("/proc/self/mountinfo").ok()?;
    let upper = upper_directory(&mounts, mount)?;
    let found = rustix::fs::statfs(OsStr::from_bytes(&upper)).ok()?;
    // The path is of whoever mounted the overlay. Here something else may have it: an overlay reports the size of its upper layer.
    let size = |of: &StatFs| (of.f_bsize, of.f_blocks, of.f_files);
    #[expect(clippy::useless_conversion, reason = "its type depends on the architecture")]
    (size(&found) == size(overlay)).then(|| i64::from(found.f_type))
}

/// The upper layer's path, from the line of a mount in `/proc/self/mountinfo` (proc(5)). None: there is none, or the overlay is
/// volatile.
fn upper_directory(mounts: &[u8], mount: u64) -> Option<Vec<u8>> {
    let mut options = line_of(mounts, mount)?.super_options.split(|byte| *byte == b',');
    // Newer kernels report it as `fsync=volatile`: then no sync does anything.
    let is_volatile = |option: &[u8]| {
        option == b"volatile"
            || option.strip_prefix(b"fsync=").is_some_and(|how| !matches!(how, b"auto" | b"strict"))
    };
    if options.clone().any(is_volatile) {
        return None;
    }
    options.find_map(|option| option.strip_prefix(b"upperdir=")).map(|path| unescaped(path).into_owned())
}

/// Whether a directory may not be renamed while others work below it: GlusterFS. Its servers find entries by paths, so a rename of a directory makes
/// changes below it fail on some servers at the same moment, also other renames. Then directories are missing, with all below them, or are there under their old names, and
/// the rename has reported success (GlusterFS 10.3, log of a client: "Rename ... failed, No such file or directory").
pub fn has_fragile_renames(directory: impl AsFd, features: Features) -> bool {
    let Ok(place) = stat::place_of(&directory, features) else { return false };
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    row_of(&mounts, place.mount).is_some_and(|known| known.has_fragile_renames)
}

/// The row of a mount.
fn row_of(mounts: &[u8], mount: u64) -> Option<&'static FileSystem> {
    let MountLine { kind, source, .. } = line_of(mounts, mount)?;
    mounted_type(&unescaped(kind), &unescaped(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(magic: i64) -> Durability {
        durability(magic, || panic!("no overlay: {magic:x}"))
    }

    #[test]
    fn type_of_a_mount_follows_the_optional_fields() {
        let mounts = b"24 1 0:22 / / rw - ext4 /dev/a rw\n\
            31 24 0:48 / /volume rw,relatime shared:9 master:2 - fuse.glusterfs host:/volume rw,user_id=0\n";
        let of = |mount| row_of(mounts, mount).map(|row| (row.name, row.has_fragile_renames));
        assert_eq!((of(24), of(3)), (Some(("ext2, ext3, ext4", false)), None));
        assert_eq!(of(31), Some(("glusterfs", true)));
    }

    // Hazard 31.
    #[test]
    fn syncfs_is_trusted_only_where_it_is_known() {
        // Numbers of statfs(2), linux/magic.h, and of file systems that are not part of Linux.
        let whole = [
            0xef53,
            0x5846_5342,
            0x9123_683e,
            0xf2f5_2010,
            0xca45_1a4e,
            0x2fc1_2fc1,
            0x6969,
            0x00c3_6400,
            0x7461_636f,
            0x0116_1970,
        ];
        assert!(whole.into_iter().all(|magic| plain(magic) == Durability::Whole));
        assert!([0x0102_1994, 0x8584_58f6].into_iter().all(|magic| plain(magic) == Durability::Volatile));
        // Lustre, BeeGFS, SMB, FUSE, 9p; GPFS, JFS, exFAT, FAT, AFS; nothing that there is.
        let each = [
            0x0bd0_0bd0,
            0x1983_0326,
            0xfe53_4d42,
            0xff53_4d42,
            0x6573_5546,
            0x0102_1997,
            0x4750_4653,
            0x3153_464a,
            0x2011_bab0,
            0x4d44,
            0x5346_414f,
            0,
            -1,
            0x1234_5678,
        ];
        assert!(each.into_iter().all(|magic| plain(magic) == Durability::Each));
        let negative = i64::from(0x9123_683e_u32.cast_signed());
        assert_eq!(plain(negative), Durability::Whole, "as 32-bit systems report it");
    }

    // Hazard 31.
    #[test]
    fn an_overlay_is_what_its_upper_layer_is() {
        let over = |upper| durability(0x794c_7630, || upper);
        assert_eq!(over(Some(0xef53)), Durability::Whole);
        assert_eq!(over(Some(0x0102_1994)), Durability::Volatile);
        assert_eq!(over(Some(0x6573_5546)), Durability::Each);
        // Volatile, or unknown.
        assert_eq!(over(None), Durability::Each);
        assert_eq!(over(Some(0x794c_7630)), Durability::Each, "an overlay on an overlay");
    }

    #[test]
    fn upper_layer_is_read_from_the_mount_line() {
        let mounts = b"22 1 0:5 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
            36 22 0:31 / /m rw - overlay overlay rw,lowerdir=/l,upperdir=/a\\040b\\134c,workdir=/w\n\
            37 22 0:32 / /n rw shared:2 master:1 - overlay o rw,upperdir=/u,workdir=/w,volatile\n\
            38 22 0:33 / /o rw - overlay none ro,lowerdir=/l\n\
            39 22 0:34 / /p rw - overlay o rw,upperdir=/u,workdir=/w,uuid=on,fsync=volatile\n\
            40 22 0:35 / /q rw - overlay o rw,upperdir=/u,workdir=/w,fsync=strict\n";
        assert_eq!(upper_directory(mounts, 36).as_deref(), Some(&b"/a b\\c"[..]));
        assert_eq!(upper_directory(mounts, 40).as_deref(), Some(&b"/u"[..]));
        for mount in [22, 37, 38, 39, 3, 99] {
            assert_eq!(upper_directory(mounts, mount), None, "{mount}");
        }
    }

    #[test]
    fn each_type_is_there_once_and_has_a_source() {
        for (at, known) in KNOWN.iter().enumerate() {
            assert!(!known.source.is_empty() && !known.name.is_empty());
            let others = &KNOWN[at + 1..];
            assert!(
                known.magic.is_none() || others.iter().all(|other| other.magic != known.magic),
                "{}",
                known.name
            );
            let types = known.mounts.types;
            let is_apart = |other: &FileSystem| !other.mounts.types.iter().any(|name| types.contains(name));
            assert!(others.iter().all(is_apart), "{}", known.name);
            assert!(!types.is_empty() || known.mounts.source_prefix.is_some(), "{}", known.name);
        }
        let with_layouts: Vec<_> = KNOWN.iter().filter(|known| known.has_layouts).collect();
        assert_eq!(with_layouts.len(), 1);
    }

    #[test]
    fn twenty_types_are_made_while_they_are_read() {
        let pseudo: Vec<_> = KNOWN.iter().filter(|known| known.is_pseudo).collect();
        assert_eq!(pseudo.len(), 20);
        let proc = std::fs::File::open("/proc/self/status").unwrap();
        assert!(is_pseudo(proc) && !is_pseudo(std::fs::File::open("/").unwrap()));
    }

    #[test]
    fn no_files_are_kept_on_what_has_a_purpose() {
        let without: Vec<_> = KNOWN.iter().filter(|known| !known.stores_files && !known.is_pseudo).collect();
        let names: Vec<_> = without.iter().map(|known| known.name).collect();
        assert_eq!(names, ["devtmpfs", "hugetlbfs", "autofs", "devpts", "nsfs", "rpc_pipefs", "nfsd"]);
        assert!(KNOWN.iter().all(|known| !(known.is_pseudo && known.stores_files)));
    }

    #[test]
    fn types_of_mounts_are_found_by_name_or_source() {
        let name = |kind: &[u8], source: &[u8]| mounted_type(kind, source).map(|known| known.name);
        assert_eq!(name(b"nfs4", b"server:/e"), Some("nfs"));
        assert_eq!(name(b"fuse", b"mfs#master:9421"), Some("moosefs"));
        assert_eq!(name(b"fuse.other", b"x"), Some("fuse"));
        assert_eq!(name(b"ext4", b"mfs#master:9421"), Some("ext2, ext3, ext4"));
        assert_eq!((name(b"new", b"mfs#"), name(b"", b"")), (None, None));
    }

    #[test]
    fn speeds_and_handles_are_those_of_the_kind() {
        let row = |kind: &str| mounted_type(kind.as_bytes(), b"").unwrap().mounts;
        // FGFS, ftinfo.
        for (kind, speed, scalability) in [
            ("nfs", 1, 1),
            ("lustre", 1, 6),
            ("gpfs", 1, 6),
            ("dvs", 1, 2),
            ("xfs", 2, 1),
            ("tmpfs", 10, 1),
            ("proc", 10, 1),
        ] {
            assert_eq!((row(kind).speed, row(kind).scalability), (speed, scalability), "{kind}");
        }
        for known in KNOWN {
            let Mounts { reach, is_parallel, handles, rule, .. } = known.mounts;
            assert!(!is_parallel || reach == Reach::Remote, "{}", known.name);
            assert!(reach != Reach::Local || rule == UriRule::Device, "{}", known.name);
            assert!(handles != Handles::AllHosts || reach == Reach::Remote, "{}", known.name);
        }
        assert_eq!((row("nfs4").handles, row("ext4").handles), (Handles::AllHosts, Handles::ThisHost));
        assert_eq!((row("cifs").handles, row("fuse.x").handles), (Handles::Nowhere, Handles::Nowhere));
    }

    #[test]
    fn no_unknown_type_is_local() {
        let unknown = KNOWN.iter().filter(|known| known.mounts.rule == UriRule::Unknown);
        assert!(unknown.clone().count() > 3);
        assert!(unknown.map(|known| known.mounts.reach).all(|reach| reach != Reach::Local));
    }

    #[test]
    fn the_memory_of_this_machine_is_volatile() {
        let Ok(shared) = std::fs::File::open("/dev/shm") else { return };
        if type_of(&shared).is_some_and(|known| known.name == "tmpfs") {
            assert_eq!(durability_of(&shared, Features::default()), Durability::Volatile);
        }
    }
}
