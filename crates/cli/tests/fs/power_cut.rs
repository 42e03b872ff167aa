//! Power cuts: a copy or a catalog on a disk that records its writes, and images of the disk as a power cut may leave it at any time. In each image the
//! same command is given again, as after a reboot: it must come to what an undisturbed run comes to. Where it had ended, all must be there
//! as it is. What an image can have is in `atta_testkit::recorded`; what must be in it, in `power_cut/copy.rs` and `power_cut/catalog.rs`.
//! `ATTA_SEED`: the first seed; `ATTA_IMAGES`: images of each recorded run.

mod catalog;
mod copy;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use atta_testkit::lock::Lock;
use atta_testkit::random::{Random, asked};
use atta_testkit::recorded::{Image, RecordedDisk};
use atta_testkit::skip;
use rustix::process::Signal;

use crate::support::{Running, make_file, run};
use catalog::CatalogCase;
use copy::CopyCase;

/// Images of a recorded run in a short test, and in a long one.
const IMAGES: usize = 40;
const IMAGES_LONG: usize = 150;

fn say(line: &str) {
    // Past the test harness's capture: a long test says what it does.
    let _unheard = writeln!(std::io::stderr().lock(), "{line}");
}

/// What is done to a recorded disk, and what images of it must come to.
trait Case {
    /// What it is, for messages.
    fn words(&self) -> String;

    /// Does it to its end.
    fn record(&self, disk: &RecordedDisk, random: &mut Random);

    /// Looks at an image.
    fn check(&self, found: &Found<'_>, counts: &mut Counts);
}

/// A mounted image.
struct Found<'a> {
    disk: &'a Path,
    number: usize,
    /// The command had ended with exit code 0 when the power was cut.
    has_ended: bool,
    /// What it is, for messages.
    said: String,
}

/// What was found in images.
#[derive(Debug, Default)]
struct Counts {
    images: u64,
    at_flush: u64,
    resumed: u64,
    anew: u64,
    ended: u64,
    /// Of those that began anew: with something left, and with something that is left by `atta clean`.
    left: u64,
    unproved: u64,
    not_mounted: u64,
}

/// Gives a command until a run has come to its end; some are killed. `start`: starts a run.
fn kill_and_run(disk: &RecordedDisk, random: &mut Random, start: &dyn Fn(&mut Random) -> Running) {
    run(Command::new("sync").arg("-f").arg(disk.path())).expect_code(0);
    disk.mark("begun").unwrap();
    for _ in 0..random.below(3) {
        let running = start(random);
        std::thread::sleep(Duration::from_millis(200 + random.below(4_000)));
        let ran = running.finish_with(Signal::KILL);
        if ran.signal().is_none() {
            ran.expect_code(0);
            return disk.mark("ended").unwrap();
        }
        disk.mark("killed").unwrap();
    }
    start(random).finish().expect_code(0);
    disk.mark("ended").unwrap();
}

/// The same command on a host that was started again. `scratch` gets the number of that start.
fn after_boot(command: &Command, scratch: &Path) -> Command {
    let boot = make_file(scratch.join("boot"), b"00000000-0000-4000-8000-000000000000\n");
    let mut again = Command::new("unshare");
    let script = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;
    again.args(["--mount", "sh", "-c", script]).arg(boot).arg(command.get_program()).args(command.get_args());
    again.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
    again
}

/// A copy of an image that is removed, unless the test fails.
struct Kept(PathBuf);

impl Kept {
    fn of(image: &Image, seed: u64) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("power-cut-{seed}-{}.image", std::process::id()));
        image.keep(&path).expect("keep an image");
        Self(path)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("the image is {}", self.0.display()));
            return;
        }
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// Mounts an image and looks at it.
fn look_at(image: &Image, (case, seed): (&impl Case, u64), counts: &mut Counts) {
    let said = format!("seed {seed}, {}, {image:?}", case.words());
    counts.images += 1;
    counts.at_flush += u64::from(image.is_at_flush);
    let mount = match image.mount() {
        Ok(mount) => mount,
        Err(error) => {
            counts.not_mounted += 1;
            assert!(!image.is_at_flush, "{said}: {error}");
            return say(&format!("{said}: not mounted: {error}"));
        }
    };
    let has_ended = image.marks.iter().any(|mark| mark == "ended");
    counts.ended += u64::from(has_ended);
    case.check(&Found { disk: mount.path(), number: image.number, has_ended, said }, counts);
}

/// Records something, and looks at about so many images.
fn cut<C: Case>(test: &str, kind: &str, (seed, images): (u64, usize), make: fn(&mut Random) -> C) {
    let Some(_lock) = skip::unless_available(test, Lock::for_own_mount()) else { return };
    let Some(disk) = skip::unless_available(test, RecordedDisk::new(kind)) else { return };
    let random = &mut Random::new(seed);
    let case = make(random);
    case.record(&disk, random);
    let recording = disk.finish().expect("end the recording");
    let flushes = recording.flushes();
    let images = asked("ATTA_IMAGES").and_then(|images| usize::try_from(images).ok()).unwrap_or(images);
    let (mut images, mut counts) = (recording.images(seed, images), Counts::default());
    while let Some(image) = images.make_next().expect("make an image") {
        let _kept = Kept::of(&image, seed);
        look_at(&image, (&case, seed), &mut counts);
    }
    say(&format!("power cut: {kind}, seed {seed}, {}: {flushes} flushes, {counts:?}", case.words()));
    assert!(counts.resumed > 0, "no image had a job");
}

fn cut_often<C: Case>(test: &str, (kind, runs): (&str, u64), make: fn(&mut Random) -> C) {
    let first = asked("ATTA_SEED").unwrap_or(1);
    for seed in first..first + runs {
        cut(test, kind, (seed, IMAGES_LONG), make);
    }
}

#[test]
fn copy_goes_on_after_a_power_cut() {
    cut("copy_goes_on_after_a_power_cut", "ext4", (1, IMAGES), CopyCase::new);
}

#[test]
#[ignore = "takes ten minutes"]
fn copy_goes_on_after_power_cuts_on_ext4() {
    cut_often("copy_goes_on_after_power_cuts_on_ext4", ("ext4", 6), CopyCase::new);
}

#[test]
#[ignore = "takes ten minutes"]
fn copy_goes_on_after_power_cuts_on_xfs() {
    cut_often("copy_goes_on_after_power_cuts_on_xfs", ("xfs", 5), CopyCase::new);
}

#[test]
#[ignore = "takes ten minutes"]
fn copy_goes_on_after_power_cuts_on_btrfs() {
    cut_often("copy_goes_on_after_power_cuts_on_btrfs", ("btrfs", 5), CopyCase::new);
}

#[test]
#[ignore = "takes five minutes"]
fn catalog_goes_on_after_power_cuts() {
    for kind in ["ext4", "xfs", "btrfs", "ext4"] {
        cut_often("catalog_goes_on_after_power_cuts", (kind, 1), CatalogCase::new);
    }
}
