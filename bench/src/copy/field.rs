//! Who competes in the benchmark `copy`, and with which arguments.
//!
//! Everybody gets a tree, and a target that does not exist. What a contender does not do that others do, or does besides, is
//! said in its note.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::trial::Entrant;
use super::{Options, Which};
use crate::machine::cores;
use crate::programs::{self, CP, DCP, FPSYNC, Peer, RCLONE, RSYNC, XCP};
use crate::ranks::Mpi;
use crate::report::name_before;
use crate::turns::BenchResult;

/// The raw limit in tables.
pub(crate) const LIMIT: &str = "copy-limit";
/// Our program as it is usually run.
pub(crate) const ATTA: &str = "atta copy";
/// Our program without digests.
pub(crate) const NO_DIGEST: &str = "atta copy, no digest";
/// Arguments without digests.
const WITHOUT: [&str; 2] = ["--digest", "none"];

/// A copy that is only read again, in tables.
pub(crate) const READ_PLAINLY: &str = "atta copy, then all read in parallel";
/// Of SOURCE, TARGET, cores and atta.
const READ_AGAIN: &str = r#"
"$4" copy -q "$1" "$2" && sync -f "$2" && { { echo 1 >/proc/sys/vm/drop_caches; } 2>/dev/null; true; } &&
find "$2" -type f -print0 | xargs -0 -P "$3" -n 32 cat >/dev/null"#;
/// Of SOURCE, TARGET, SCRATCH, atta and atta-corrupt.
const MENDED_BY_ATTA: &str = r#"
"$4" copy -q "$1" "$2" && "$5" --files 4 "$2" >"$3/turned" &&
{ "$4" verify --content --format ndjson "$1" "$2" >"$3/rows" 2>"$3/summary"; test $? = 1; } &&
"$4" copy -q --from-list "$3/rows" "$1/." "$2" && "$4" verify -q --content "$1" "$2""#;
/// The same with other programs.
const MENDED_BY_RSYNC: &str = r#"
cp -a "$1" "$2" && "$5" --files 4 "$2" >"$3/turned" && rsync -ac "$1/" "$2/" && diff -r "$1" "$2""#;

/// Who may compete, by preference of the tables.
const PEERS: [Peer; 6] = [CP, RSYNC, RCLONE, XCP, FPSYNC, DCP];

/// Everybody's program.
pub(crate) struct Field {
    /// The raw limit.
    pub(crate) limit: PathBuf,
    atta: PathBuf,
    /// An older one, to compare with.
    before: Option<PathBuf>,
    /// What turns bits in a copy, where that is wanted.
    corrupt: Option<PathBuf>,
    peers: Vec<(Peer, PathBuf)>,
    /// For ranks.
    pub(crate) mpis: Vec<Mpi>,
    /// Who is not there, in words.
    pub(crate) missing: Vec<String>,
}

impl Field {
    /// Builds our programs, unless others were named, and looks for the peers.
    ///
    /// # Errors
    ///
    /// If one of ours does not build.
    pub(crate) fn gather(options: &Options, target: &Path, log: &dyn Fn(&str)) -> BenchResult<Self> {
        let built = |named: &Option<PathBuf>, package, name| match named {
            Some(program) => Ok(program.clone()),
            None => programs::build(package, target).map(|place| place.join(name)),
        };
        let limit = built(&options.copy_limit, "atta-bench", "copy-limit")?;
        let atta = built(&options.atta, "atta-cli", "atta")?;
        let mpis = options.mpi.iter().enumerate().map(|(number, prefix)| Mpi::new(prefix, number, target));
        let mpis = mpis.collect::<Result<_, _>>()?;
        let corrupt = options.wants(Which::Verify).then(|| programs::build("atta-testkit", target));
        let corrupt = corrupt.transpose()?.map(|place| place.join("atta-corrupt"));
        let before = options.before.clone();
        let mut field = Self { limit, atta, before, corrupt, peers: vec![], mpis, missing: vec![] };
        if options.alone {
            field.missing.push("peers: left out as asked for".to_owned());
        } else {
            field.find_peers(options, &target.join("bench-tools"), log);
        }
        if field.mpis.is_empty() && options.wants(Which::Ranks) {
            field.missing.push("ranks: no MPI was named with --mpi".to_owned());
        }
        field.missing.iter().for_each(|missing| log(missing));
        Ok(field)
    }

    fn find_peers(&mut self, options: &Options, tools: &Path, log: &dyn Fn(&str)) {
        for peer in PEERS {
            let named = options.peer.iter().find(|(name, _)| name == peer.name());
            let find = || named.map(|(_, program)| program.clone()).or_else(|| peer.find(tools));
            let mut found = find();
            if found.is_none() && options.install {
                if let Err(reason) = peer.install(tools) {
                    log(&format!("installing {}: {reason}", peer.name()));
                }
                found = find();
            }
            match found {
                Some(program) => self.peers.push((peer, program)),
                None => self.missing.push(format!("{}: not installed ({})", peer.name(), peer.package())),
            }
        }
    }

    /// The raw limit on so many threads; on pieces of files where `chunk_bytes` is not 0.
    pub(crate) fn limit(&self, name: impl Into<String>, threads: usize, chunk_bytes: u64) -> Entrant {
        let note = "the raw limit";
        let mut limit = Entrant::new(name, &self.limit, &["-t", &threads.to_string()], note);
        if chunk_bytes > 0 {
            limit = limit.with(&["-k", &chunk_bytes.to_string()]);
        }
        Entrant { is_base: true, ..limit.with(&["-l", "LIST", "SOURCE", "TARGET"]) }
    }

    /// The same, which also hashes what it reads.
    pub(crate) fn hashing_limit(&self, name: impl Into<String>, threads: usize, chunk_bytes: u64) -> Entrant {
        let mut limit = self.limit(name, threads, chunk_bytes);
        limit.words.insert(1, "-d".into());
        Entrant { is_base: false, note: "the raw limit with a digest", ..limit }
    }

    /// Our program with more arguments.
    pub(crate) fn atta(&self, name: impl Into<String>, more: &[&str], note: &'static str) -> Entrant {
        self.atta_after(&[], name, more, "SOURCE", note)
    }

    /// The same behind the words of a launcher, of another source.
    pub(crate) fn atta_after(
        &self,
        launch: &[OsString],
        name: impl Into<String>,
        more: &[&str],
        source: &str,
        note: &'static str,
    ) -> Entrant {
        let mut words = launch.to_vec();
        words.push(self.atta.clone().into());
        let entrant = Entrant { name: name.into(), words, note, is_base: false };
        entrant.with(&["copy", "--quiet", "--progress", "never"]).with(more).with(&[source, "TARGET"])
    }

    /// A copy, and then all of it read again, by other programs: past the cache, as far as that may be emptied.
    pub(crate) fn read_again(&self) -> Entrant {
        let (atta, cores) = (self.atta.to_string_lossy(), cores().to_string());
        let words = ["-c", READ_AGAIN, "sh", "SOURCE", "TARGET", &cores, &atta];
        Entrant::new(READ_PLAINLY, "sh".as_ref(), &words, "reads, and compares nothing")
    }

    /// Copies whose targets are corrupted, detected and repaired: by our programs, and by `cp` and `rsync`.
    pub(crate) fn mended(&self) -> Vec<Entrant> {
        let Some(corrupt) = &self.corrupt else { return vec![] };
        let (atta, corrupt) = (self.atta.to_string_lossy(), corrupt.to_string_lossy());
        let entrant = |name: &str, script: &str, note| {
            let words = ["-c", script, "sh", "SOURCE", "TARGET", "SCRATCH", &atta, &corrupt];
            Entrant::new(name, "sh".as_ref(), &words, note)
        };
        vec![
            entrant("atta copy, corrupted, verify, copy again", MENDED_BY_ATTA, "bits of four files turned"),
            entrant("cp -a, corrupted, rsync -ac", MENDED_BY_RSYNC, "the same four files"),
        ]
    }

    /// Our program with a digest and without, and on a disk with each way to make durable.
    pub(crate) fn atta_variants(&self, is_disk: bool) -> Vec<Entrant> {
        let mut all = vec![self.atta(ATTA, &[], ""), self.atta(NO_DIGEST, &WITHOUT, "")];
        for (when, note) in [("none", "durable in the end, as the others are"), ("file", "syncs each file")] {
            let name = format!("{NO_DIGEST}, --fsync {when}");
            all.push(self.atta(name, &["--digest", "none", "--fsync", when], note));
        }
        all.truncate(if is_disk { 4 } else { 2 });
        if let Some(before) = &self.before {
            all.splice(
                ..0,
                [(ATTA, &[][..]), (NO_DIGEST, &WITHOUT)].map(|(name, more)| {
                    let mut entrant = self.atta(name_before(name), more, "the older program");
                    entrant.words[0] = before.into();
                    entrant
                }),
            );
        }
        all
    }

    /// All peers.
    pub(crate) fn peers(&self) -> Vec<Entrant> {
        self.peers.iter().map(|(peer, program)| entrant(*peer, program, cores())).collect()
    }

    /// A peer on so many threads, if it is there.
    pub(crate) fn peer(&self, wanted: &str, threads: usize) -> Option<Entrant> {
        let found = self.peers.iter().find(|(peer, _)| peer.name() == wanted);
        found.map(|(peer, program)| entrant(*peer, program, threads))
    }

    /// What each program says about its version.
    pub(crate) fn versions(&self) -> Vec<String> {
        let peers = self.peers.iter().map(|(_, program)| program);
        let programs = std::iter::once(&self.atta).chain(peers);
        let said = |program: &PathBuf| {
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("version of {name}: {}", words(&programs::version(program)))
        };
        let mpis = self.mpis.iter().map(|mpi| format!("version of {}: {}", mpi.name(), words(&mpi.version)));
        programs.map(said).chain(mpis).collect()
    }
}

/// With one blank between two words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A peer with the arguments that make it copy as much of a tree as it can.
fn entrant(peer: Peer, program: &Path, threads: usize) -> Entrant {
    let threads = threads.to_string();
    let name = peer.name();
    let new = |words: &[&str], note| Entrant::new(name, program, words, note);
    match name {
        "rsync" => new(&["-a", "SOURCE/", "TARGET/"], "no extended attributes"),
        "rclone" => new(
            &["--config", "", "copy", "--metadata", "--create-empty-src-dirs", "SOURCE", "TARGET"],
            "compares digests (MD5) afterwards; gives directories no times",
        ),
        "xcp" => new(
            &["--recursive", "--ownership", "--no-progress", "--workers", &threads, "SOURCE", "TARGET"],
            "",
        ),
        "fpsync" => {
            new(&["-n", &threads, "-t", "SCRATCH", "SOURCE/", "TARGET/"], "several rsync over lists of files")
        }
        "dcp" => {
            let launcher = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "mpirun"];
            let words = launcher.into_iter().chain(["-np", &threads]).map(OsString::from);
            let words = words.chain([program.into()]).collect();
            let note = "ranks, with the launcher's time; syncs everything";
            let dcp = Entrant { name: name.to_owned(), words, note, is_base: false };
            dcp.with(&["--preserve", "--quiet", "SOURCE", "TARGET"])
        }
        _ => new(&["-a", "SOURCE", "TARGET"], ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_get_their_threads_and_the_limit_its_list() {
        let xcp = entrant(XCP, Path::new("/x/xcp"), 4);
        assert!(xcp.shown().contains("xcp --recursive --ownership --no-progress --workers 4 SOURCE TARGET"));
        let field = Field {
            limit: "/b/copy-limit".into(),
            atta: "/b/atta".into(),
            before: Some("/old/atta".into()),
            corrupt: Some("/b/atta-corrupt".into()),
            peers: vec![],
            mpis: vec![],
            missing: vec![],
        };
        assert_eq!(field.mended().len(), 2);
        let limit = field.limit(LIMIT, 2, 0);
        assert_eq!((limit.shown().as_str(), limit.is_base), ("copy-limit -t 2 -l LIST SOURCE TARGET", true));
        assert_eq!(field.limit(LIMIT, 2, 4096).shown(), "copy-limit -t 2 -k 4096 -l LIST SOURCE TARGET");
        assert_eq!((field.atta_variants(true).len(), field.atta_variants(false).len()), (6, 4));
        let older = field.atta_variants(true).remove(1);
        assert_eq!(
            (older.name.as_str(), &older.words[0]),
            ("atta copy, no digest, before", &"/old/atta".into())
        );
        let shown = field.atta_variants(true).remove(5).shown();
        assert_eq!(shown, "atta copy --quiet --progress never --digest none --fsync file SOURCE TARGET");
    }
}
