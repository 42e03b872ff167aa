//! Whole trees, made and read back by an independent walk.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};

use atta_testkit::oracle::{self, Record};
use atta_testkit::scratch::Scratch;
use atta_testkit::{lock::Lock, skip};
use rustix::fs::{lgetxattr, llistxattr};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{generate as generate_observed, *};

fn generate(target: &Path, spec: &Spec, options: &Options) -> Result<Report, GenerateError> {
    generate_observed(target, spec, options, |_| {})
}

fn threads(count: usize) -> Options {
    Options { threads: Threads::Fixed(NonZeroUsize::new(count).unwrap()), stop: Stop::new() }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Everything the promise covers, by path: type, mode, time, size, target, content, attributes, and the first of all names of the same
/// file.
fn digest(root: &Path) -> String {
    let tree = oracle::list(root).unwrap();
    let mut firsts: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut hasher = blake3::Hasher::new();
    for (full, record) in &tree {
        let below = &full[root.as_os_str().len()..];
        let first = firsts.entry(record.ino).or_insert_with(|| below.to_vec());
        let size = if record.kind == 'd' { 0 } else { record.size };
        let nlink = if record.kind == 'd' { 0 } else { record.nlink };
        let Record { kind, mode, mtime_sec, mtime_nsec, target, .. } = record;
        let line = format!(
            "{below:?} {kind} {mode:o} {mtime_sec}.{mtime_nsec:09} {size} {target:?} {nlink} {first:?}\n"
        );
        hasher.update(line.as_bytes());
        if *kind == 'f' {
            hasher.update(blake3::hash(&std::fs::read(path(full)).unwrap()).as_bytes());
            hasher.update(format!("{:?}", xattrs(path(full))).as_bytes());
        }
    }
    hasher.finalize().to_hex().to_string()
}

fn xattrs(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut list = vec![0; 4096];
    let length = llistxattr(path, &mut list).unwrap();
    let names = list[..length].split(|&byte| byte == 0).filter(|name| name.starts_with(b"user."));
    let value = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let length = lgetxattr(path, name, &mut value).unwrap();
        value.truncate(length);
        (String::from_utf8(name.to_vec()).unwrap(), value)
    };
    names.map(value).collect()
}

/// A tree with every type of entry.
fn mixed() -> Spec {
    Spec {
        files: 700,
        directories: 90,
        depth_max: 5,
        fan_out_max: 4,
        sizes: Sizes::new(Shape::Zipf, 1, 20_000, 1).unwrap(),
        hard_links: 60,
        symlinks: 80,
        xattrs: 3,
        hostile_names: 0.3,
        ..Spec::default()
    }
}

#[test]
fn the_tree_is_the_same_on_any_number_of_threads() {
    let scratch = Scratch::new("generate").unwrap();
    let digests: Vec<_> = [1, 2, 8, 8]
        .iter()
        .enumerate()
        .map(|(at, &count)| {
            let target = scratch.join(format!("t{at}"));
            let report = generate(&target, &mixed(), &threads(count)).unwrap();
            assert_eq!(
                (report.files, report.directories, report.hard_links, report.symlinks),
                (700, 90, 60, 80)
            );
            assert!(!report.stopped);
            digest(&target)
        })
        .collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
    let other = scratch.join("other");
    generate(&other, &Spec { seed: 2, ..mixed() }, &threads(2)).unwrap();
    assert_ne!(digest(&other), digests[0]);
}

#[test]
fn counts_sizes_and_limits_are_those_of_the_spec() {
    let scratch = Scratch::new("generate").unwrap();
    let target = scratch.join("t");
    let report = generate(&target, &mixed(), &Options::default()).unwrap();
    let tree = oracle::list(&target).unwrap();
    let count = |kind| tree.values().filter(|record| record.kind == kind).count();
    assert_eq!((count('d'), count('f'), count('l')), (91, 760, 80));
    let files = tree.values().filter(|record| record.kind == 'f');
    assert!(files.clone().all(|record| (1..=20_000).contains(&record.size)));
    let mut inodes: BTreeMap<u64, u64> = BTreeMap::new();
    files.for_each(|record| _ = inodes.insert(record.ino, record.size));
    assert_eq!(inodes.len(), 700);
    assert_eq!(inodes.values().sum::<u64>(), report.size_bytes);
    assert_eq!((report.xattrs + report.xattrs_unsupported) % 3, 0);
    let root = target.as_os_str().len();
    let subdirectories = |above: &[u8]| {
        let is_child = |(name, record): &(&Vec<u8>, &Record)| {
            record.kind == 'd' && name.rsplitn(2, |&byte| byte == b'/').nth(1) == Some(above)
        };
        tree.iter().filter(is_child).count()
    };
    for (name, record) in tree.iter().filter(|(_, record)| record.kind == 'd') {
        let depth = name[root..].iter().filter(|&&byte| byte == b'/').count();
        let children = subdirectories(name);
        assert!(depth <= 5 && children <= 4);
        assert_eq!(record.mode & 0o700, 0o700);
        assert!((1_000_000_000..1_750_000_000).contains(&record.mtime_sec), "set last");
    }
}

#[test]
fn contents_are_as_asked_for() {
    let scratch = Scratch::new("generate").unwrap();
    let sizes = Sizes::fixed(300_000).unwrap();
    let spec = |contents| Spec { files: 2, directories: 0, sizes, contents, ..Spec::default() };
    for (name, contents) in [("r", Contents::Random), ("z", Contents::Zeros), ("s", Contents::Sparse)] {
        generate(&scratch.join(name), &spec(contents), &threads(2)).unwrap();
        let bytes = std::fs::read(scratch.join(name).join("f1")).unwrap();
        assert_eq!(bytes.len(), 300_000);
        assert_eq!(bytes.iter().all(|&byte| byte == 0), contents != Contents::Random, "{name}");
    }
    let tree = oracle::list(&scratch.join("s")).unwrap();
    assert!(tree.values().filter(|record| record.kind == 'f').all(|record| record.blocks == 0));
}

#[test]
fn a_large_file_is_the_same_in_pieces() {
    let scratch = Scratch::new("generate").unwrap();
    let sizes = Sizes::fixed((130 << 20) + 12_345).unwrap();
    let spec = Spec { files: 1, directories: 0, sizes, ..Spec::default() };
    let hash = |count| {
        let target = scratch.join(format!("t{count}"));
        let report = generate(&target, &spec, &threads(count)).unwrap();
        assert_eq!((report.files, report.size_bytes), (1, (130 << 20) + 12_345));
        blake3::hash(&std::fs::read(target.join("f0")).unwrap())
    };
    assert_eq!(hash(1), hash(4));
}

#[test]
fn an_empty_target_is_filled_and_another_refused() {
    let scratch = Scratch::new("generate").unwrap();
    let spec = Spec { files: 3, directories: 1, ..Spec::default() };
    let target = scratch.join("there");
    std::fs::create_dir(&target).unwrap();
    generate(&target, &spec, &Options::default()).unwrap();
    let before = digest(&target);
    let error = generate(&target, &spec, &Options::default()).unwrap_err();
    assert_eq!(error, GenerateError::NotEmpty(target.clone()));
    assert_eq!(digest(&target), before);
    for name in ["file", "link"] {
        let target = scratch.join(name);
        match name {
            "file" => std::fs::write(&target, b"kept").unwrap(),
            _ => std::os::unix::fs::symlink(scratch.path(), &target).unwrap(),
        }
        let error = generate(&target, &spec, &Options::default()).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("cannot open directory: ") && said.ends_with("(ENOTDIR)"), "{said}");
    }
    let error = generate(&scratch.join("no/where"), &spec, &Options::default()).unwrap_err();
    assert!(error.to_string().ends_with("no such file or directory (ENOENT)"), "{error}");
}

#[test]
fn a_spec_that_cannot_be_makes_nothing() {
    let scratch = Scratch::new("generate").unwrap();
    let target = scratch.join("t");
    let spec = Spec { directories: 3, depth_max: 1, fan_out_max: 2, ..Spec::default() };
    assert!(matches!(generate(&target, &spec, &Options::default()), Err(GenerateError::Spec(_))));
    assert!(!target.exists());
}

#[test]
fn full_file_system_ends_the_run_with_a_reason() {
    let _lock = Lock::for_mounts().unwrap();
    let name = "full_file_system_ends_the_run_with_a_reason";
    let Some(scratch) = skip::unless_available(name, Scratch::on_tmpfs(1 << 20)) else {
        return;
    };
    let target = scratch.join("t");
    let spec = Spec { sizes: Sizes::fixed(10_000).unwrap(), ..Spec::default() };
    match generate(&target, &spec, &threads(2)).unwrap_err() {
        GenerateError::Failed { failure, made } => {
            assert_eq!(failure.errno.name(), Some("ENOSPC"));
            assert!(failure.path.starts_with(target.as_os_str().as_bytes()));
            assert!(failure.path.len() > target.as_os_str().len());
            assert!((10..110).contains(&made.files), "{}", made.files);
        }
        other => panic!("{other}"),
    }
    assert!(target.exists(), "what was made stays");
}

#[test]
fn a_chain_of_20_000_levels_is_made() {
    let scratch = Scratch::new("generate").unwrap();
    let target = scratch.join("t");
    let sizes = Sizes::fixed(1).unwrap();
    let base = Preset::Deep.spec(1.0).unwrap();
    let spec = Spec { directories: 20_000, files: 100, hard_links: 5, symlinks: 50, sizes, ..base };
    let report = generate(&target, &spec, &threads(4)).unwrap();
    assert_eq!((report.directories, report.files, report.hard_links, report.symlinks), (20_000, 100, 5, 50));
    let mut seen = 0;
    let entries = oracle::visit(&target, &mut |_, record| {
        seen += 1;
        assert!(record.mtime_sec < 1_750_000_000);
    });
    assert_eq!((entries.unwrap(), seen), (20_156, 20_156));
}

#[test]
fn few_directories_are_open_at_once() {
    let scratch = Scratch::new("generate").unwrap();
    let spec = Spec { directories: 3_000, depth_max: 16, fan_out_max: 3, files: 3_000, ..mixed() };
    let mut most = 0;
    let options = threads(8);
    generate_observed(&scratch.join("t"), &spec, &options, |_| most = most.max(open_files())).unwrap();
    assert!(most < 200, "{most}, of all tests that run at this time");
}

fn open_files() -> usize {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, "/proc/self/fd", flags, Mode::empty()).unwrap();
    Dir::read_from(directory).unwrap().count()
}

#[test]
fn what_a_seed_gives_never_changes() {
    let plan = Plan::new(&mixed()).unwrap();
    let mut hasher = blake3::Hasher::new();
    let mut see = |node: Node, more: String| {
        let mtime = plan.mtime(node);
        let path = plan.path(node);
        hasher.update(format!("{path:?} {:o} {mtime:?} {more}\n", plan.mode(node)).as_bytes());
    };
    (0..=90).for_each(|index| see(Node::Directory(index), String::new()));
    for index in 0..700 {
        see(Node::File(index), format!("{} {:?}", plan.size_bytes(index), plan.xattr(index, 1)));
    }
    (0..80).for_each(|index| see(Node::Symlink(index), format!("{:?}", symlink::target(&plan, index))));
    (0..60).for_each(|index| see(Node::HardLink(index), plan.linked_file(index).to_string()));
    for shape in [Shape::Uniform, Shape::Normal, Shape::Zipf, Shape::Lognormal] {
        let sizes = Sizes::new(shape, 1_000, 1 << 40, 7).unwrap();
        let plan = Plan::new(&Spec { sizes, ..mixed() }).unwrap();
        (0..700).for_each(|file| _ = hasher.update(&plan.size_bytes(file).to_le_bytes()));
    }
    // A change of this value breaks the promise that a seed gives the same tree in every version.
    assert_eq!(hasher.finalize().to_hex()[..16], *"3b0f4d300fc04d8f");
}

#[test]
fn a_request_to_stop_is_heeded() {
    let scratch = Scratch::new("generate").unwrap();
    let spec = Spec { files: 50_000_000, directories: 1000, ..Spec::default() };
    let options = Options::default();
    let stop = options.stop.clone();
    let target = scratch.join("t");
    let started = Instant::now();
    let report = std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            stop.set();
        });
        generate(&target, &spec, &options).unwrap()
    });
    assert!(report.stopped && report.files < spec.files);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(generate(&scratch.join("u"), &spec, &options).unwrap().files, 0);
}

#[test]
fn a_hundred_thousand_small_files_take_seconds() {
    let scratch = Scratch::new("generate").unwrap();
    let report = generate(&scratch.join("t"), &Preset::Flat.spec(1.0).unwrap(), &Options::default()).unwrap();
    assert_eq!(report.files, 100_000);
    assert!(report.elapsed < Duration::from_secs(60), "{:?}", report.elapsed);
}
