//! Copies to a disk that a power cut takes at any time. The same command is given again, as after a reboot.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atta_testkit::random::Random;
use atta_testkit::recorded::RecordedDisk;
use atta_testkit::scratch::Scratch;
use serde_json::Value;

use super::{Case, Counts, Found, after_boot, kill_and_run};
use crate::support::{
    Running, atta, make_directory, make_file, make_link, names_in, run, scratch, signature, temporary, totals,
};

fn bytes(random: &mut Random, length: usize) -> Vec<u8> {
    std::iter::repeat_with(|| random.draw().to_le_bytes()).flatten().take(length).collect()
}

/// Directories, small files, files with several names, links, extended attributes, two large files, and times of all of them.
fn make_source(source: &Path, random: &mut Random) {
    let (mut directories, mut files) = (vec![make_directory(source)], Vec::new());
    for number in 0..36 {
        let parent = if random.chance(60) { source.to_path_buf() } else { random.pick(&directories).clone() };
        directories.push(make_directory(parent.join(format!("d{number}"))));
    }
    for directory in &directories {
        for number in 0..random.below(24) {
            let size = *random.pick(&[0, 17, 700, 4096, 5_000, 20_000, 70_000]);
            files.push(make_file(directory.join(format!("f{number}")), &bytes(random, size)));
        }
    }
    for number in 0..40 {
        let name = random.pick(&directories).join(format!("again{number}"));
        std::fs::hard_link(random.pick(&files), &name).unwrap();
        make_link(format!("f{number}"), random.pick(&directories).join(format!("link{number}")));
    }
    for (directory, size) in [(&directories[0], 6 << 20), (&directories[4], (4 << 20) + 12_345)] {
        files.push(make_file(directory.join("large"), &bytes(random, size)));
    }
    for entry in files.iter().chain(&directories).filter(|_| random.chance(15)).collect::<Vec<_>>() {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(entry, "user.note", b"some words", flags).unwrap();
    }
    // Of directories last, the deepest first.
    for entry in files.iter().chain(directories.iter().rev()) {
        let time = rustix::fs::Timespec {
            tv_sec: random.below(1 << 31).cast_signed(),
            tv_nsec: random.below(1_000_000_000).cast_signed(),
        };
        let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(rustix::fs::CWD, entry, &times, rustix::fs::AtFlags::empty()).unwrap();
    }
}

/// What TARGET is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The name of the copy.
    Name,
    /// A directory that the copy is put into.
    Into,
    /// A copy that has the directories already, and some older files: all files get their names one by one.
    Merged,
}

/// A copy that is recorded.
pub(super) struct CopyCase {
    scratch: Scratch,
    source: PathBuf,
    /// Options that all runs have.
    options: Vec<String>,
    form: Form,
    /// What an undisturbed run comes to.
    totals: Vec<Value>,
    signature: String,
}

impl CopyCase {
    pub(super) fn new(random: &mut Random) -> Self {
        let scratch = scratch("power-cut");
        let source = scratch.join("source");
        make_source(&source, random);
        let fsync = *random.pick(&["batch", "batch", "batch", "file"]);
        let mut options = ["--json", "--chunk", "1M", "--fsync", fsync].map(str::to_owned).to_vec();
        if random.chance(30) {
            options.push("--verify".to_owned());
        }
        let mut plain = atta();
        plain.arg("copy").args(&options).arg(&source).arg(scratch.join("plain"));
        let plain = run(&mut plain).expect_code(0);
        let (totals, signature) = (totals(&plain), signature(&plain));
        Self {
            scratch,
            source,
            options,
            form: *random.pick(&[Form::Name, Form::Into, Form::Merged]),
            totals,
            signature,
        }
    }

    /// The copy to this disk, with more options.
    fn copy(&self, disk: &Path, more: &[String]) -> Command {
        let mut command = atta();
        command.arg("copy").args(&self.options).args(more);
        if self.form == Form::Merged {
            command.arg("-T");
        }
        command.arg(&self.source).arg(if self.form == Form::Name {
            self.target(disk)
        } else {
            disk.join("into")
        });
        command.env("XDG_STATE_HOME", self.scratch.join("state"));
        command
    }

    /// The directory that has the job.
    fn top(&self, disk: &Path) -> PathBuf {
        if self.form == Form::Into { disk.join("into") } else { disk.to_path_buf() }
    }

    fn target(&self, disk: &Path) -> PathBuf {
        disk.join(match self.form {
            Form::Name => "target",
            Form::Into => "into/source",
            Form::Merged => "into",
        })
    }

    /// Makes the directories of the source in an older copy, and some files with other contents.
    fn make_older(from: &Path, to: &Path) {
        make_directory(to);
        for name in names_in(from) {
            let (from, to) = (from.join(&name), to.join(&name));
            let kind = from.symlink_metadata().unwrap().file_type();
            if kind.is_dir() {
                Self::make_older(&from, &to);
            } else if kind.is_file() && name.as_encoded_bytes().ends_with(b"3") {
                make_file(&to, b"older");
            }
        }
    }

    /// A run that takes some seconds, with several syncs.
    fn slow(&self, disk: &Path, random: &mut Random) -> Running {
        let options = [
            ("--sync-ms", 100 + random.below(500)),
            ("--iops", 600 + random.below(1_500)),
            ("-j", *random.pick(&[1, 2, 4])),
        ];
        let options: Vec<_> =
            options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]).collect();
        Running::start(self.copy(disk, &options).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// Fails unless the copy is equal to the source, with names of one file that are one file.
    fn compare(&self, disk: &Path, said: &str) {
        let target = self.target(disk);
        let verified = run(atta().args(["verify", "--content"]).arg(&self.source).arg(&target));
        assert_eq!(verified.code(), 0, "{said}\n{}{}", verified.out(), verified.err());
        let slash = |path: &Path| format!("{}/", path.display());
        let mut rsync = Command::new("rsync");
        rsync.args(["-aHAXn", "--delete", "--checksum", "--itemize-changes"]);
        let ran = run(rsync.args([slash(&self.source), slash(&target)]));
        assert_eq!((ran.code(), ran.out()), (0, String::new()), "{said}\n{}", ran.err());
    }

    /// Gives the command again, and looks at what it comes to.
    fn go_on(&self, found: &Found<'_>, counts: &mut Counts) {
        let disk = found.disk;
        if self.form == Form::Name && self.target(disk).exists() && !has_job(disk) && self.has_ended(found) {
            counts.ended += 1;
            return;
        }
        let ran = run(&mut after_boot(&self.copy(disk, &[]), self.scratch.path()));
        let said = format!("{}\n{}{}", found.said, ran.out(), ran.err());
        assert_eq!(ran.code(), 0, "{said}");
        let is_resumed = ran.err().contains("resuming the job");
        if !is_resumed {
            counts.anew += 1;
            if clean(&self.top(disk), &said, counts) {
                // Directories of the copy have new times. Without the record, TARGET is a directory like any other.
                let is_copy = if self.form == Form::Name { vec!["-T".to_owned()] } else { Vec::new() };
                run(&mut self.copy(disk, &is_copy)).expect_code(0);
            }
        }
        self.compare(disk, &said);
        assert_eq!(signature(&ran), self.signature, "{said}");
        if is_resumed {
            counts.resumed += 1;
            assert_eq!(totals(&ran), self.totals, "{said}");
        }
        assert_eq!(temporary(disk), Vec::<PathBuf>::new(), "{said}");
    }
}

impl CopyCase {
    /// Whether the copy had come to its end: TARGET has its name and no job. A run that was killed in its first second leaves a record, by which the
    /// command knows that TARGET is its copy.
    fn has_ended(&self, found: &Found<'_>) -> bool {
        let target = self.target(found.disk);
        let is_equal = run(atta().args(["verify", "--content"]).arg(&self.source).arg(target)).code() == 0;
        if is_equal {
            self.compare(found.disk, &found.said);
        }
        is_equal
    }
}

impl Case for CopyCase {
    fn words(&self) -> String {
        format!("{:?} {}", self.form, self.options.join(" "))
    }

    fn record(&self, disk: &RecordedDisk, random: &mut Random) {
        match self.form {
            Form::Name => {}
            Form::Into => drop(make_directory(disk.path().join("into"))),
            Form::Merged => Self::make_older(&self.source, &self.target(&disk.path())),
        }
        kill_and_run(disk, random, &|random| self.slow(&disk.path(), random));
    }

    fn check(&self, found: &Found<'_>, counts: &mut Counts) {
        if !found.has_ended {
            return self.go_on(found, counts);
        }
        self.compare(found.disk, &found.said);
        // Where TARGET was the name of the copy, the same command is another copy by now.
        if self.form != Form::Name && found.number.is_multiple_of(4) {
            let resumed = counts.resumed;
            self.go_on(found, counts);
            assert_eq!(counts.resumed, resumed, "{}: the job is still there", found.said);
        }
    }
}

/// A copy that begins anew leaves what is of another start of the host to `atta clean`, which leaves what no record proves: the power cut may have
/// taken the record of a run in its first moments (`docs/design/0017-leftovers.md`, open 3). Returns whether something
/// was left.
fn clean(top: &Path, said: &str, counts: &mut Counts) -> bool {
    if temporary(top).is_empty() {
        return false;
    }
    counts.left += 1;
    run(atta().args(["clean", "--yes"]).arg(top)).expect_code(0);
    if !temporary(top).is_empty() {
        counts.unproved += 1;
        let is_record = |path: &PathBuf| std::fs::read(path).is_ok_and(|text| text.ends_with(b"end\n"));
        let proved: Vec<_> = records(top).into_iter().filter(is_record).collect();
        assert_eq!(proved, Vec::<PathBuf>::new(), "{said}");
        for path in temporary(top) {
            // Some are in others that are gone by now.
            let _gone = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        }
    }
    true
}

/// Whether there is a job in this place.
fn has_job(top: &Path) -> bool {
    let home = top.join(".atta.0");
    let names = if home.exists() { names_in(&home) } else { Vec::new() };
    names.iter().any(|name| home.join(name).join("job").exists())
}

/// The records of runs in this place.
fn records(top: &Path) -> Vec<PathBuf> {
    let home = top.join(".atta.0");
    let names = if home.exists() { names_in(&home) } else { Vec::new() };
    let runs = names.iter().map(|run| home.join(run).join("record"));
    runs.filter(|path| path.exists()).collect()
}
