//! What is compared: the cases, the data sets of each, and who competes in it.

use clap::ValueEnum;

use super::field::{ATTA, Field, LIMIT, NO_DIGEST};
use super::set::Name;
use super::trial::{Entrant, Trial};
use crate::machine::cores;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Which {
    /// Everybody, over every data set
    Peers,
    /// 1, 2, 4 and 8 threads
    Threads,
    /// 1, 2, 4 and 8 ranks beside two threads
    Ranks,
    /// With and without digests
    Digest,
    /// With and without reading the copy again
    Verify,
    /// Two threads over one, for one file
    OneLarge,
    /// The largest resident set for two million files
    Memory,
}

/// A copy that is read back, in tables.
pub(crate) const VERIFIED: &str = "atta copy, verified";
/// Threads and ranks.
const COUNTS: [usize; 4] = [1, 2, 4, 8];
/// One thread in the case of one large file.
pub(crate) const ONE_THREAD: &str = "1 thread";
/// Two threads in the case of one large file, and beside ranks.
pub(crate) const TWO_THREADS: &str = "2 threads";

impl Which {
    /// The word on the command line and in tables.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether a data set is of interest.
    pub(crate) fn takes(self, set: Name) -> bool {
        match self {
            Self::Peers => true,
            // FCP's figures 6 to 11 are of its four data sets.
            Self::Threads | Self::Ranks | Self::Digest | Self::Verify => {
                use Name::{Fcp1, Fcp2, Fcp3, Fcp4, Large, Small};
                matches!(set, Small | Large | Fcp1 | Fcp2 | Fcp3 | Fcp4)
            }
            Self::OneLarge => set == Name::OneLarge,
            // It has trees of its own.
            Self::Memory => false,
        }
    }

    /// What a reader must know.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::Peers => "Whole processes; on a disk until everything is written back.",
            Self::Threads => {
                "Threads in brackets. Ratios compare with the fastest of the limits. FCP's figures 6 to 9 have 1, 2, 4 and 8 \
                 nodes instead, over its four data sets."
            }
            Self::Ranks => {
                "One thread for each rank, no digests. Of each command what the same launch took in that round for an empty \
                 directory (EMPTY) is taken off."
            }
            Self::Digest => {
                "FCP's figures 10 and 11, the time and the rate of a transfer with checksums: what a digest of each file and the \
                 signature of all cost."
            }
            Self::Verify => {
                "What it costs to read the copy again, as FCP does with checksums on (figures 10 and 11); and to find and mend a \
                 copy that was corrupted (the last measurement of FCP's section III.C)."
            }
            Self::OneLarge => "Threads over one file.",
            Self::Memory => "",
        }
    }

    /// Who competes.
    pub(crate) fn entrants(self, field: &Field, trial: &Trial<'_>) -> Vec<Entrant> {
        match self {
            Self::Peers => peers(field, trial),
            Self::Threads => threads(field),
            Self::Ranks => ranks(field),
            Self::Digest => digest(field),
            Self::Verify => verify(field),
            Self::OneLarge => one_large(field, trial),
            Self::Memory => vec![],
        }
    }
}

fn peers(field: &Field, trial: &Trial<'_>) -> Vec<Entrant> {
    let mut all = vec![field.limit(LIMIT, cores(), 0)];
    if trial.set.is_one_file() {
        let chunk = half(trial.set.bytes);
        all.push(field.limit(format!("{LIMIT}, in pieces"), cores(), chunk));
    }
    all.extend(field.atta_variants(trial.place.is_disk));
    all.extend(field.peers());
    all
}

/// Pieces for two threads; whole pages, so that no page is written by both.
fn half(bytes: u64) -> u64 {
    bytes.div_ceil(2).next_multiple_of(4096)
}

fn threads(field: &Field) -> Vec<Entrant> {
    let mut all = vec![];
    for count in COUNTS {
        all.push(field.limit(format!("{LIMIT} ({count})"), count, 0));
        all.push(field.atta(
            format!("{NO_DIGEST} ({count})"),
            &["--digest", "none", "-j", &count.to_string()],
            "",
        ));
        all.push(field.atta(format!("{ATTA} ({count})"), &["-j", &count.to_string()], ""));
        for peer in ["xcp", "dcp"] {
            let entrant = field.peer(peer, count);
            all.extend(entrant.map(|entrant| Entrant { name: format!("{peer} ({count})"), ..entrant }));
        }
    }
    all
}

/// In pairs: nothing, then the tree, with the same launch.
fn ranks(field: &Field) -> Vec<Entrant> {
    let mut launches = vec![(TWO_THREADS.to_owned(), vec![], "2")];
    for mpi in &field.mpis {
        let words = |&count: &usize| mpi.launch(u32::try_from(count).unwrap_or(1));
        let named = COUNTS.iter().map(|count| (format!("{}, {count} ranks", mpi.name()), words(count), "1"));
        launches.extend(named);
    }
    if field.mpis.is_empty() {
        return vec![];
    }
    let mut all = vec![];
    for (name, launch, threads) in launches {
        let arguments = ["--digest", "none", "-j", threads];
        let pair = [(format!("{name}, EMPTY"), "EMPTY"), (name, "SOURCE")];
        for (name, source) in pair {
            let entrant = field.atta_after(&launch, name, &arguments, source, "");
            let is_base = source == "SOURCE" && entrant.name == TWO_THREADS;
            all.push(Entrant { is_base, ..entrant });
        }
    }
    all
}

fn digest(field: &Field) -> Vec<Entrant> {
    let without = field.atta(NO_DIGEST, &["--digest", "none"], "");
    vec![Entrant { is_base: true, ..without }, field.atta(ATTA, &[], "")]
}

fn verify(field: &Field) -> Vec<Entrant> {
    let compared = "cp -a \"$1\" \"$2\" && diff -r \"$1\" \"$2\"";
    let compare = ["-c", compared, "sh", "SOURCE", "TARGET"];
    let reads_both = "reads both trees again";
    let mut all = vec![
        Entrant { is_base: true, ..field.atta(ATTA, &[], "") },
        field.atta(VERIFIED, &["--verify"], ""),
        field.read_again(),
        Entrant::new("cp -a, diff -r", "sh".as_ref(), &compare, reads_both),
    ];
    all.extend(field.mended());
    all
}

fn one_large(field: &Field, trial: &Trial<'_>) -> Vec<Entrant> {
    let bytes = trial.set.bytes;
    let mut all = vec![
        field.limit(format!("{LIMIT}, {ONE_THREAD}"), 1, 0),
        field.limit(format!("{LIMIT}, {TWO_THREADS}"), 2, half(bytes)),
        field.hashing_limit(format!("{LIMIT}, digest, {ONE_THREAD}"), 1, 0),
        field.hashing_limit(format!("{LIMIT}, digest, {TWO_THREADS}"), 2, half(bytes)),
    ];
    for (name, digest) in [(NO_DIGEST, "none"), (ATTA, "blake3")] {
        for (threads, words) in [("1", ONE_THREAD), ("2", TWO_THREADS)] {
            let arguments = ["--digest", digest, "-j", threads];
            all.push(field.atta(format!("{name}, {words}"), &arguments, ""));
        }
    }
    all
}
