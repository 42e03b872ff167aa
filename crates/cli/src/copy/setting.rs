//! The meaning of the arguments of a copy: what is refused, and the options of the operation. It opens only the files that the command
//! writes and the list that it reads.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use atta_entry::Kind;
use atta_ops::copy::{Existing, Keep, Options};
use atta_ops::resume::JobPlace;
use atta_ops::walk;
use atta_runtime::{Rate, Seat, Session, Stop};

use super::arguments::{CopyArguments, DigestKind, ManifestFormat, ManifestSkipped, ReflinkWhen};
use super::logged::{self, OfCopy};
use super::manifest::Manifest;
use super::owners::{self, Rows};
use crate::run::events::Events;
use crate::run::failures::{Failures, is_same_file};
use crate::run::file::printable;
use crate::run::job::TargetIs;
use crate::run::logged::RunOfJob;
use crate::run::refused::Refused;
use crate::run::settings::{compile, spill_directory};
use crate::run::starts::Starts;

/// The arguments, as one of several ranks sees them.
pub(super) struct Setting<'a> {
    arguments: &'a CopyArguments,
    rate: Option<Rate>,
    bandwidth: Option<Arc<Rate>>,
    keep: Keep,
    pub(super) sources: Vec<Vec<u8>>,
    pub(super) target: Vec<u8>,
    cores: usize,
}

impl<'a> Setting<'a> {
    pub(super) fn new(arguments: &'a CopyArguments, seat: Seat, keep: Keep) -> Self {
        let (sources, target) = sides(arguments);
        let rate = arguments.effort.iops.map(|iops| Rate::new((iops / seat.ranks).max(1)));
        let bandwidth =
            arguments.bandwidth.map(|bytes| Arc::new(Rate::per_second(bytes / u64::from(seat.ranks))));
        Self { arguments, rate, bandwidth, keep, sources, target, cores: seat.cores }
    }

    /// Whether ranks take PATHs for the same where that is not known.
    pub(super) fn assumes_same(&self) -> bool {
        self.arguments.ranks.assume_same
    }

    /// With the name that TARGET is to the job: after its first run, a slash at the end would make it a directory that copies are put into.
    pub(super) fn with_target_of(mut self, begun: &Begun) -> Self {
        if begun.target_is_name && begun.job.is_some_and(|job| job.run() > 1) {
            while self.target.len() > 1 && self.target.ends_with(b"/") {
                self.target.pop();
            }
        }
        self
    }

    /// The options. `begun`: what the first rank has decided.
    pub(super) fn options(&self, begun: &Begun, stop: &Stop) -> Options<'_> {
        let arguments = self.arguments;
        let defaults = walk::Options::default();
        let walk = walk::Options {
            one_file_system: arguments.visit.one_file_system,
            birth_time: false,
            // Errors in the rules were reported before.
            rules: compile(&arguments.visit.rules).ok().flatten(),
            rate: self.rate.as_ref(),
            threads: arguments.effort.threads,
            memory_bytes: arguments.effort.memory / 2,
            spill_directory: spill_directory(),
            stop: stop.clone(),
            cores: self.cores,
            ..defaults
        };
        Options {
            walk,
            fsync: arguments.fsync.into(),
            digest: arguments.digest == DigestKind::Blake3,
            verify: arguments.verify,
            chunk: arguments.chunk.bytes(),
            hole_bytes_max: Some(arguments.max_holes),
            keep: self.keep.clone(),
            no_target_directory: arguments.no_target_directory || begun.target_is_name,
            run_of_job: begun.job.map(|job| job.run()),
            job_in_target: begun.job_in_target,
            request: JobPlace::from(Path::new(OsStr::from_bytes(&begun.directory))).name(),
            given_up: begun.given_up,
            sync_every: arguments.sync_every(),
            exclusive: arguments.exclusive,
            existing: arguments.existing(),
            in_place: arguments.in_place,
            direct: arguments.direct,
            reflink: arguments.reflink.into(),
            stripes: arguments.stripes(),
            manifest: arguments.manifest.as_ref().map(|_| arguments.manifest_skipped.into()),
            bandwidth: self.bandwidth.clone(),
        }
    }
}

/// SOURCE... and TARGET. For a repair, they are the two directories that were compared.
fn sides(arguments: &CopyArguments) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut sources: Vec<_> = arguments.paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    let target = sources.pop().unwrap_or_default();
    if arguments.repair.is_some() {
        sources.iter_mut().for_each(|source| source.extend(b"/."));
    }
    (sources, target)
}

/// What the first rank has decided before the copy, for all ranks.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    /// Rules for owners.
    pub(super) rules: Rows,
    job: Option<RunOfJob>,
    /// The directory of the job.
    directory: Vec<u8>,
    /// The job is in TARGET.
    job_in_target: bool,
    /// TARGET is the name of the copy, although it may be a directory by now.
    pub(super) target_is_name: bool,
    /// The number of a job that is forgotten.
    pub(super) given_up: Option<u64>,
}

atta_entry::record!(Begun { rules, job, directory, job_in_target, target_is_name, given_up });

impl Begun {
    pub(super) fn of(run: &Run) -> Self {
        let rules = owners::to_rows(&run.keep.owners);
        let job = run.job.as_ref().map(|of_copy| RunOfJob::of(&of_copy.job));
        let place = run.job.as_ref().map(|of_copy| of_copy.job.running.place());
        let directory = place.map(|place| place.path().as_os_str().as_bytes().to_vec()).unwrap_or_default();
        let job_in_target = run.job.as_ref().is_some_and(|of_copy| of_copy.job.is_in_target());
        let target_is_name = run.job.as_ref().is_some_and(|of_copy| of_copy.target == TargetIs::Name);
        let given_up = run.job.as_ref().and_then(|of_copy| of_copy.given_up);
        Self { rules, job, directory, job_in_target, target_is_name, given_up }
    }

    /// The directory of the job and its run, if there is one.
    pub(super) fn job(&self) -> Option<(&Path, RunOfJob)> {
        self.job.map(|of_job| (Path::new(OsStr::from_bytes(&self.directory)), of_job))
    }

    /// The place of a rank: in all runs of a job, names follow from the same number.
    pub(super) fn seat(&self, seat: Seat) -> Seat {
        Seat { job: self.job.map_or(seat.job, |job| job.job()), ..seat }
    }
}

/// State of the first rank, set up before the copy starts.
pub(super) struct Run {
    pub(super) failures: Failures,
    pub(super) events: Events,
    pub(super) manifest: Option<Manifest>,
    pub(super) keep: Keep,
    /// The starts from a list, if there is one.
    pub(super) starts: Option<Starts>,
    pub(super) job: Option<OfCopy>,
}

impl Run {
    /// `failures`: where they go; none: to this process.
    pub(super) fn new(
        arguments: &CopyArguments,
        session: &Session<'_>,
        stop: &Stop,
        failures: Option<Failures>,
    ) -> Result<Self, Refused> {
        refuse(arguments)?;
        let keep = arguments.keep.keep()?;
        if arguments.repair.is_some() {
            refuse_repair(arguments)?;
        }
        let (report, list) = (&arguments.report, arguments.list());
        let opened = || Failures::new(report.verbose, report.errors.as_deref(), list.map(|(list, _)| list));
        let failures = failures.map_or_else(opened, Ok)?;
        let events = Events::new(arguments.events.as_deref())?;
        let manifest = Manifest::begin(arguments, stop.clone())?;
        let starts = list.map(|list| Starts::listed_for_copy(list, sides(arguments).0, stop.clone()));
        let starts = starts.transpose()?;
        if arguments.existing() != Existing::Replace && starts.as_ref().is_some_and(Starts::are_differences) {
            let what = "a list of differences with --update or --ignore-existing".to_owned();
            return Err(Refused::usage(
                what,
                "what may stay is found out entry by entry; leave the option out",
            ));
        }
        if arguments.manifest.is_some() && starts.as_ref().is_some_and(Starts::are_differences) {
            let what = "--manifest with a list of differences".to_owned();
            return Err(Refused::usage(
                what,
                "repair without it; then 'atta sum --format ndjson TARGET > FILE' writes a record",
            ));
        }
        let (sources, target) = sides(arguments);
        let job = logged::begun(arguments, (sources, &target), session)?;
        Ok(Self { failures, events, manifest, keep, starts, job })
    }
}

/// Refuses options that contradict each other.
pub(super) fn refuse(arguments: &CopyArguments) -> Result<(), Refused> {
    if arguments.paths.iter().any(|path| path.is_empty()) {
        let hint = "the working directory is '.'";
        return Err(Refused::usage("SOURCE or TARGET is empty".to_owned(), hint));
    }
    if arguments.no_target_directory && arguments.paths.len() > 2 {
        let what = "-T, and several SOURCEs".to_owned();
        return Err(Refused::usage(
            what,
            "TARGET is the name of one copy; leave -T out to put several into it",
        ));
    }
    if arguments.verify && arguments.digest == DigestKind::None {
        let what = "--verify compares digests, and there are none".to_owned();
        return Err(Refused::usage(what, "leave --digest none out"));
    }
    if arguments.reflink == ReflinkWhen::Always && arguments.digest == DigestKind::Blake3 {
        let what = "--reflink always, and a digest of bytes that nobody reads".to_owned();
        return Err(Refused::usage(what, "add --digest none"));
    }
    refuse_manifest(arguments)?;
    compile(&arguments.visit.rules)?;
    Ok(())
}

/// Refuses a manifest that would lack digests, or that is a file which the copy reads or writes otherwise.
fn refuse_manifest(arguments: &CopyArguments) -> Result<(), Refused> {
    let Some(manifest) = &arguments.manifest else { return Ok(()) };
    if arguments.digest == DigestKind::None {
        let what = "--manifest needs digests".to_owned();
        return Err(Refused::usage(what, "leave --digest none out"));
    }
    let skips =
        arguments.existing() != Existing::Replace && arguments.manifest_skipped == ManifestSkipped::List;
    if skips && arguments.manifest_format == ManifestFormat::B3sum {
        let what = "--manifest-format b3sum needs digests of skipped files".to_owned();
        return Err(Refused::usage(what, "add --manifest-skipped read, or use --manifest-format ndjson"));
    }
    let (errors, list) = (arguments.report.errors.as_deref(), arguments.list().map(|(list, _)| list));
    let others = [("--from-list", list), ("--errors", errors), ("--events", arguments.events.as_deref())];
    for (option, other) in others {
        if other.is_some_and(|other| other == manifest || is_same_file(other, manifest)) {
            let what = format!("--manifest and {option} are the same file: {}", printable(manifest));
            return Err(Refused::usage(what, "write the manifest to a new file"));
        }
    }
    Ok(())
}

/// Refuses a repair of anything but one directory.
fn refuse_repair(arguments: &CopyArguments) -> Result<(), Refused> {
    let [source, target] = arguments.paths.as_slice() else {
        let hint = "name the two directories that were compared: SOURCE TARGET";
        return Err(Refused::usage("--repair with several SOURCEs".to_owned(), hint));
    };
    for path in [source, target] {
        let found = atta_ops::walk::look_at(path.as_bytes());
        if !found.is_ok_and(|found| found.kind() == Kind::Directory) {
            let what = format!("--repair: not a directory: {}", atta_entry::escape(path.as_bytes()));
            let hint =
                "SOURCE and TARGET are two directories that were compared; a single file is copied as it is";
            return Err(Refused::usage(what, hint));
        }
    }
    Ok(())
}
