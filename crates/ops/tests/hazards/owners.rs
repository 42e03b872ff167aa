//! Rows 22 to 24: whose the copies are and what they let do, extended attributes, times.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use atta_ops::copy::{self, Existing, ExtendedNames, Keep, Options};
use atta_ops::walk;
use atta_testkit::lock::Lock;
use atta_testkit::mounts::loop_image;
use atta_testkit::scratch::Scratch;
use atta_testkit::{skip, trees};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::copying::{
    Failures, access_list, as_nobody, assert_same, bytes, copy, extended, facts, make, set_extended, threads,
    try_copy,
};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Row 22 of docs/hazards.md.
#[test]
fn no_rights_of_others_without_chown() {
    let test = "no_rights_of_others_without_chown";
    if !skip::is_root() {
        return skip::skipped(test, "it needs two users");
    }
    let scratch = Scratch::new("owners").unwrap();
    set_mode(scratch.path(), 0o755);
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(&target).unwrap();
    chown(&target, Some(65534), Some(65534)).unwrap();
    let modes = [("setuid", 0o4755), ("setgid", 0o2755), ("both", 0o6711), ("plain", 0o644)];
    for (name, mode) in modes {
        fs::write(source.join(name), name).unwrap();
        set_mode(&source.join(name), mode | 0o444);
    }
    let (outcome, failures) = as_nobody(|| try_copy(&[&source.join(".")], &target, &threads(2)).unwrap());
    assert_eq!(failures, []);
    for (name, mode) in modes {
        let found = fs::metadata(target.join(name)).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (65534, (mode | 0o444) & 0o777), "{name}");
    }
    let not_kept = outcome.totals.not_kept;
    assert_eq!(not_kept.set_id_bits, 3, "{not_kept:?}");
    assert!(not_kept.owners >= 4, "{not_kept:?}");
    // Who can, keeps all.
    copy(&[&source], &scratch.join("kept"), &threads(2));
    assert_same(&source, &scratch.join("kept"));
}

/// Row 22 of docs/hazards.md.
#[test]
fn default_acl_of_the_target_is_not_inherited() {
    let test = "default_acl_of_the_target_is_not_inherited";
    if !skip::is_root() {
        return skip::skipped(test, "it needs two groups");
    }
    let scratch = Scratch::new("inherited").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::create_dir_all(source.join("below")).unwrap();
    fs::create_dir(&target).unwrap();
    for name in ["file", "below/file"] {
        fs::write(source.join(name), name).unwrap();
        set_mode(&source.join(name), 0o600);
    }
    // A group, and a list that lets user 1000 do all.
    chown(&target, None, Some(4242)).unwrap();
    set_mode(&target, 0o2777);
    set_extended(&target, "system.posix_acl_default", &access_list(1000));
    copy(&[&source], &target, &threads(2));
    assert_same(&source, &target.join("source"));
    copy(&[&source.join("file")], &target, &threads(2));
    assert_same(&source.join("file"), &target.join("file"));
}

/// Row 23 of docs/hazards.md.
#[test]
fn xattrs_acls_and_capabilities_are_kept() {
    let test = "xattrs_acls_and_capabilities_are_kept";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    // The only one that takes a value of 64 KiB.
    let Some(disk) = skip::unless_available(test, loop_image("xfs", 320)) else { return };
    let (source, target) = (disk.path().join("source"), disk.path().join("target"));
    fs::create_dir(&source).unwrap();
    fs::create_dir(source.join("directory")).unwrap();
    for name in ["user", "long", "many", "trusted", "able", "list"] {
        fs::write(source.join(name), name).unwrap();
    }
    set_extended(&source.join("user"), "user.empty", b"");
    set_extended(&source.join("user"), "user.bytes \n\u{e9}", b"\0\xff");
    set_extended(&source.join("long"), "user.long", &[b'x'; 64 << 10]);
    for number in 0..200 {
        set_extended(&source.join("many"), &format!("user.{number}-{}", "n".repeat(100)), b"value");
    }
    set_extended(&source.join("trusted"), "trusted.one", b"one");
    // cap_net_raw, permitted and effective, version 2. It goes with a change of the owner, so it comes after that.
    chown(source.join("able"), Some(1000), Some(1000)).unwrap();
    let capability = [0x0200_0001_u32, 1 << 13, 0, 0, 0].map(u32::to_le_bytes).concat();
    set_extended(&source.join("able"), "security.capability", &capability);
    set_extended(&source.join("list"), "system.posix_acl_access", &access_list(1000));
    set_extended(&source.join("directory"), "system.posix_acl_default", &access_list(1001));
    set_extended(&source.join("directory"), "system.posix_acl_access", &access_list(1002));
    for sources in [source.clone(), source.join(".")] {
        let outcome = copy(&[&sources], &target, &threads(2));
        assert_same(&source, &target);
        assert_eq!(outcome.totals.not_kept.extended, 0);
    }
}

const LIST: &str = "system.posix_acl_access";

/// Links to a file outside, to a directory and to nothing, a FIFO, a socket and a device, all with attributes of their own.
fn links_and_specials(source: &Path, outside: &Path) {
    fs::create_dir(source).unwrap();
    fs::write(outside, "outside").unwrap();
    for (name, leads) in [("file", outside), ("directory", Path::new(".")), ("nothing", Path::new("none"))] {
        symlink(leads, source.join(name)).unwrap();
        set_extended(&source.join(name), "trusted.link", name.as_bytes());
        set_extended(&source.join(name), "security.link", b"");
    }
    let null = rustix::fs::makedev(1, 3);
    for (name, kind, device) in [
        ("fifo", FileType::Fifo, 0),
        ("socket", FileType::Socket, 0),
        ("device", FileType::CharacterDevice, null),
    ] {
        mknodat(CWD, source.join(name), kind, Mode::RUSR, device).unwrap();
        set_extended(&source.join(name), "trusted.special", &[7; 2000]);
        set_extended(&source.join(name), LIST, &access_list(1000));
    }
    mknodat(CWD, source.join("plain"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    chown(source.join("fifo"), Some(1000), Some(2000)).unwrap();
    set_mode(&source.join("fifo"), 0o620);
}

/// Row 23 of docs/hazards.md.
#[test]
fn xattrs_of_links_are_kept_without_following() {
    let test = "xattrs_of_links_are_kept_without_following";
    if !skip::is_root() {
        return skip::skipped(test, "trusted attributes need root");
    }
    let scratch = Scratch::new("named-attributes").unwrap();
    let (source, outside) = (scratch.join("source"), scratch.join("outside"));
    links_and_specials(&source, &outside);
    let target = scratch.join("target");
    for (round, sources) in [source.clone(), source.join(".")].into_iter().enumerate() {
        let outcome = copy(&[&sources], &target, &threads(2));
        assert_same(&source, &target);
        assert_eq!(outcome.totals.not_kept.extended, 0, "{round}");
    }
    // As a SOURCE by itself; and in a directory that hands down a list of its own.
    set_extended(&make(&scratch.join("single")), "system.posix_acl_default", &access_list(1001));
    for (name, facts) in facts(&source).into_iter().skip(1) {
        let name = std::str::from_utf8(&name[1..]).unwrap();
        copy(&[&source.join(name)], &scratch.join("single"), &threads(1));
        assert_eq!(extended(&scratch.join("single").join(name)), facts.extended, "{name}");
    }
    assert!(extended(&outside).is_empty());
}

/// Row 23 of docs/hazards.md.
#[test]
fn links_and_special_files_keep_attributes() {
    let test = "links_and_special_files_keep_attributes";
    if !skip::is_root() {
        return skip::skipped(test, "trusted attributes need root");
    }
    let scratch = Scratch::new("named-attributes").unwrap();
    let source = scratch.join("source");
    links_and_specials(&source, &scratch.join("outside"));
    let kept = |name: &str, keep: Keep| {
        let target = scratch.join(name);
        let outcome = copy(&[&source], &target, &Options { keep, ..threads(2) });
        assert_eq!(outcome.totals.not_kept.extended, 0);
        let names = |entry: &str| extended(&target.join(entry)).into_keys().collect::<Vec<_>>();
        let mode = |entry: &str| fs::symlink_metadata(target.join(entry)).unwrap().mode() & 0o7777;
        (names("file"), names("device"), mode("device"))
    };
    let none = Keep { extended: ExtendedNames::None, ..Keep::default() };
    assert_eq!(kept("lists", none.clone()), (vec![], vec![LIST.into()], 0o770));
    // Without its list the group may do what the list gave to the group, not all that its mask lets through.
    assert_eq!(kept("nothing", Keep { lists: false, ..none }), (vec![], vec![], 0o750));
    let some = ExtendedNames::Matching(vec![b"*.link".to_vec()]);
    let some = Keep { extended: some, lists: false, ..Keep::default() };
    let links = vec![b"security.link".to_vec(), b"trusted.link".to_vec()];
    assert_eq!(kept("some", some), (links, vec![], 0o750));
}

/// Row 24 of docs/hazards.md.
#[test]
fn times_of_any_year_are_kept() {
    let scratch = Scratch::new("times").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    trees::times(&source).unwrap();
    for sources in [source.clone(), source.join(".")] {
        copy(&[&sources], &target, &threads(2));
        assert_same(&source, &target);
    }
}

/// An access list of the owner, of one user, of the group and of the most that both may do.
fn list_of(user: u16, group: u16, most: u16) -> Vec<u8> {
    let entries = [(1_u16, 6_u16, u32::MAX), (2, user, 1000), (4, group, u32::MAX), (16, most, u32::MAX)];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (kind, rights, who) in entries.into_iter().chain([(32, 0, u32::MAX)]) {
        bytes.extend(kind.to_le_bytes().into_iter().chain(rights.to_le_bytes()).chain(who.to_le_bytes()));
    }
    bytes
}

/// Row 22 of docs/hazards.md.
#[test]
fn acls_without_modes_give_no_rights() {
    let test = "acls_without_modes_give_no_rights";
    if !skip::is_root() {
        return skip::skipped(test, "it needs root");
    }
    let keep = Keep { mode: false, ..Keep::default() };
    for (in_place, existing) in [(true, Existing::Replace), (false, Existing::Update)] {
        let scratch = Scratch::new("lists").unwrap();
        let (source, target) = (scratch.join("source"), scratch.join("target"));
        for directory in [source.join("directory"), target.join("directory")] {
            fs::create_dir_all(directory).unwrap();
        }
        for name in ["comes", "goes"] {
            fs::write(source.join(name), name).unwrap();
            fs::write(target.join(name), if in_place { "old" } else { name }).unwrap();
            let time = |root: &Path| fs::metadata(root.join(name)).unwrap().modified().unwrap();
            if !in_place {
                fs::File::open(target.join(name)).unwrap().set_modified(time(&source)).unwrap();
            }
            set_mode(&target.join(name), 0o666);
        }
        // The user may read and write, were it not for the mask.
        set_extended(&source.join("comes"), LIST, &list_of(6, 4, 4));
        // The group may do nothing, and its bits say what the user may.
        for name in ["goes", "directory"] {
            set_extended(&target.join(name), LIST, &list_of(6, 0, 6));
        }
        let options = Options { in_place, existing, keep: keep.clone(), ..threads(1) };
        let sources = source.join(".");
        let (_, failures) = try_copy(&[&sources], &target, &options).unwrap();
        assert_eq!(failures, []);
        let rights = |name: &str| fs::metadata(target.join(name)).unwrap().mode() & 0o077;
        assert_eq!(extended(&target.join("comes"))[LIST.as_bytes()], list_of(6, 4, 4));
        assert_eq!(["comes", "goes", "directory"].map(rights), [0o040, 0, 0], "in place: {in_place}");
        assert!(extended(&target.join("goes")).is_empty() && extended(&target.join("directory")).is_empty());
    }
    // Attributes that the copy does not control stay, also if the directory has a default ACL.
    let scratch = Scratch::new("lists").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::create_dir(&target).unwrap();
    fs::write(target.join("source"), "old").unwrap();
    set_extended(&target.join("source"), LIST, &list_of(6, 0, 6));
    set_extended(&target, "system.posix_acl_default", &access_list(1001));
    fs::write(&source, "new").unwrap();
    copy(&[&source], &target, &Options { in_place: true, keep: Keep::nothing(), ..threads(1) });
    assert_eq!(fs::read(target.join("source")).unwrap(), b"new");
    assert_eq!(extended(&target.join("source"))[LIST.as_bytes()], list_of(6, 0, 6));
}

/// Row 22 of docs/hazards.md.
#[test]
fn directories_above_a_list_inherit_no_acl() {
    let test = "directories_above_a_list_inherit_no_acl";
    if !skip::is_root() {
        return skip::skipped(test, "it needs root");
    }
    let scratch = Scratch::new("handed-down").unwrap();
    let (source, target) = (scratch.join("source"), scratch.join("target"));
    fs::create_dir_all(source.join("a/b")).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(source.join("a/b/file"), "file").unwrap();
    set_extended(&target, "system.posix_acl_default", &access_list(1000));
    set_mode(&source.join("a"), 0o700);
    // Its bits of the group are those of the list's mask.
    set_extended(&source.join("a/b"), LIST, &list_of(6, 0, 6));
    for (mode, rights) in [(true, [0o700, 0o600]), (false, [0o700, 0o700])] {
        let keep = Keep { lists: false, mode, ..Keep::default() };
        let sources = [bytes(&source.join("."))];
        let start = |name: &str| walk::Start { root: sources[0].clone(), below: Some(name.into()) };
        let (failures, options) = (Failures::default(), Options { keep, ..threads(1) });
        // Made for what is in it, or because it is named.
        let starts = if mode { vec![start("a/b/file")] } else { vec![start("a/b")] }.into_iter();
        copy::run_listed(&sources, starts, &bytes(&target), &options, &failures, |_| {}).unwrap();
        assert_eq!(failures.0.into_inner().unwrap(), []);
        for (name, rights) in ["a", "a/b"].into_iter().zip(rights) {
            let made = target.join(name);
            assert!(extended(&made).is_empty(), "{name}: {:?}", extended(&made));
            assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, rights, "{name}");
        }
        fs::remove_dir_all(target.join("a")).unwrap();
    }
}

/// Whether the kernel has calls for extended attributes by a descriptor and a name.
fn has_calls_at() -> bool {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|digit: char| !digit.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6, 13))
}

/// Copies links and special files, with the newer calls and without.
fn copy_with_and_without_calls_at(source: &Path) {
    for calls_at in [true, false] {
        let target = source.with_extension(if calls_at { "with" } else { "without" });
        let mut options = threads(2);
        options.walk.features.calls_at = calls_at;
        let totals = copy(&[source], &target, &options).totals;
        assert_eq!((totals.symlinks, totals.specials), (3, 4));
        let not_kept = (totals.not_kept.extended, totals.not_kept.modes_and_times);
        if calls_at && has_calls_at() || Path::new("/proc/self").exists() {
            assert_eq!(not_kept, (0, 0));
            assert_same(source, &target);
        } else {
            // Each is made; its attributes cannot be read, and its mode stays private.
            assert_eq!(not_kept, (7, 4));
            let fifo = fs::symlink_metadata(target.join("fifo")).unwrap();
            assert_eq!((fifo.mode() & 0o777, fifo.uid()), (0o600, 1000));
        }
    }
}

#[test]
#[ignore = "run by links_need_newer_calls_or_proc_but_not_both"]
fn child_copies_special_files_without_proc() {
    let Some(source) = crate::harness::child_argument() else { return };
    assert!(!Path::new("/proc/self").exists());
    copy_with_and_without_calls_at(&source);
}

// Hazards 8 and 23.
#[test]
fn links_need_newer_calls_or_proc_but_not_both() {
    let test = "links_need_newer_calls_or_proc_but_not_both";
    if !skip::is_root() {
        return skip::skipped(test, "it needs root");
    }
    let scratch = Scratch::new("newer-calls").unwrap();
    let (one, other) = (scratch.join("one"), scratch.join("other"));
    links_and_specials(&one, &scratch.join("outside"));
    copy_with_and_without_calls_at(&one);
    links_and_specials(&other, &scratch.join("outside"));
    let child = "owners::child_copies_special_files_without_proc";
    let ran = crate::harness::child_without_proc(child, other.as_os_str()).output().unwrap();
    let (said, complaint) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    if complaint.starts_with("unshare:") {
        return skip::skipped(test, complaint.trim_end());
    }
    assert!(ran.status.success() && said.contains("1 passed"), "{}:\n{said}\n{complaint}", ran.status);
}
