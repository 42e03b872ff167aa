//! The data sets that are copied: two of our own, and those of the papers at a size that a machine has room for. They are made
//! by `atta generate`'s library, so the same set is the same tree everywhere.

use std::path::Path;

use atta_ops::generate::{Contents, Options, Plan, Preset, Shape, Sizes, Spec, SpecError, generate};
use clap::ValueEnum;

use crate::turns::BenchResult;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

/// A data set by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// 40,000 files of 4 to 256 KiB
    Small,
    /// 6 files of 256 MiB
    Large,
    /// One file of 512 MiB
    OneLarge,
    /// Data set 1 of FCP's table I: one file of 1 TB
    Fcp1,
    /// Data set 2: one file of 100 GB
    Fcp2,
    /// Data set 3: 1,000 files of 100 MB
    Fcp3,
    /// Data set 4: 100,000 files of 4 KB to 100 MB
    Fcp4,
    /// Table 4.2 of the pct thesis: 1,000,000 files of 0.25 to 2.5 MB
    PctSmall,
    /// Table 4.3: 2,460 files of 1 to 3,480 MB
    PctLarge,
    /// Table 4.4: 75,000 files of 1 to 5 MB
    PctAws,
}

/// A data set at some scale.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// The tree.
    pub(crate) spec: Spec,
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// What it is, and what of the original is scaled how.
    pub(crate) described: String,
}

impl Name {
    /// The word on the command line and in tables.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// What it is in full, what of that is scaled, and how much of it is taken at scale 1: sets of a gigabyte or less, since
    /// source, target and what is dirty must stay in memory for a run to say anything of the program.
    fn origin(self) -> (&'static str, &'static str, f64) {
        match self {
            Self::Small => ("40,000 files of 4 to 256 KiB", "files and directories", 1.0),
            Self::Large => ("6 files of 256 MiB", "sizes", 1.0),
            Self::OneLarge => ("one file of 512 MiB", "the size", 1.0),
            Self::Fcp1 => ("FCP's data set 1, one file of 1 TB of zeros", "the size", 0.001),
            Self::Fcp2 => ("FCP's data set 2, one file of 100 GB of zeros", "the size", 0.005),
            Self::Fcp3 => ("FCP's data set 3, 1,000 files of 100 MB of zeros", "files", 0.01),
            Self::Fcp4 => {
                ("FCP's data set 4, 100,000 files of 4 KB to 100 MB", "files and directories", 0.004)
            }
            Self::PctSmall => (
                "table 4.2 of the pct thesis, 1,000,000 files of 0.25 to 2.5 MB",
                "files and directories",
                0.001,
            ),
            Self::PctLarge => (
                "table 4.3 of the pct thesis, 2,460 files of 1 to 3,480 MB",
                "sizes times 0.01, files and directories",
                0.1,
            ),
            Self::PctAws => {
                ("table 4.4 of the pct thesis, 75,000 files of 1 to 5 MB", "files and directories", 0.005)
            }
        }
    }

    fn spec(self, factor: f64) -> Result<Spec, SpecError> {
        let large = |files, mib: f64| {
            let sizes = Sizes::fixed(whole(mib * MIB * factor))?;
            Ok(Spec { files, directories: 0, sizes, ..Spec::default() })
        };
        match self {
            Self::Small => Preset::SmallFiles.spec(factor),
            Self::Large => large(6, 256.0),
            Self::OneLarge => large(1, 512.0),
            Self::Fcp1 => Preset::Fcp1.spec(factor),
            Self::Fcp2 => Preset::Fcp2.spec(factor),
            Self::Fcp3 => Preset::Fcp3.spec(factor),
            Self::Fcp4 => Preset::Fcp4.spec(factor),
            Self::PctSmall => Preset::PctSmall.spec(factor),
            Self::PctAws => Preset::PctAws.spec(factor),
            Self::PctLarge => {
                // Two whole files of this set would not be its distribution: all sizes are smaller by one factor. The
                // table's bands follow the law that `Shape::Zipf` is.
                let step = whole(MIB / 100.0);
                let sizes = Sizes::new(Shape::Zipf, step, 3480 * step, step)?;
                Ok(Spec { sizes, ..Preset::PctLarge.spec(factor)? })
            }
        }
    }

    /// The set, `scale` times as large as usual.
    ///
    /// # Errors
    ///
    /// A scale of which no tree can be made.
    pub(crate) fn at(self, scale: f64) -> BenchResult<Set> {
        if !scale.is_finite() || scale <= 0.0 {
            return Err(format!("a scale of {scale}: no trees are as large"));
        }
        let (origin, scaled, factor) = self.origin();
        let factor = factor * scale;
        let made = || -> Result<Set, SpecError> {
            let spec = self.spec(factor)?;
            let plan = Plan::new(&spec)?;
            let bytes = (0..spec.files).map(|file| plan.size_bytes(file)).sum();
            #[expect(clippy::cast_precision_loss, reason = "a size to be read")]
            let mib = bytes as f64 / MIB;
            let (files, directories) = (spec.files, spec.directories);
            let kind = if spec.contents == Contents::Zeros { "zeros" } else { "random bytes" };
            let described = format!(
                "{origin}; {scaled} times {factor}: files: {files}, directories: {directories}, {mib:.1} MiB of {kind}"
            );
            Ok(Set { spec, bytes, described })
        };
        made().map_err(|error| format!("the set {}: {error}", self.word()))
    }
}

impl Set {
    /// Makes the tree.
    ///
    /// # Errors
    ///
    /// What the file system says.
    pub(crate) fn make(&self, root: &Path) -> BenchResult<()> {
        generate(root, &self.spec, &Options::default(), |_| {}).map(drop).map_err(|error| error.to_string())
    }

    /// Whether it has a single file.
    pub(crate) fn is_one_file(&self) -> bool {
        self.spec.files == 1
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size, at least one byte")]
fn whole(bytes: f64) -> u64 {
    bytes.round().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_fits_a_machine_and_scales_down() {
        for name in Name::value_variants() {
            let (usual, quick) = (name.at(1.0).unwrap(), name.at(0.02).unwrap());
            assert!(usual.bytes < 2 << 30 && usual.bytes > 300 << 20, "{}: {}", name.word(), usual.described);
            assert!(quick.bytes < usual.bytes, "{}: {}", name.word(), quick.described);
            assert!(name.at(0.0).is_err() && name.at(f64::NAN).is_err());
        }
    }

    #[test]
    fn a_scaled_set_says_what_it_is_of() {
        let set = Name::Fcp3.at(1.0).unwrap();
        assert!(set.described.starts_with("FCP's data set 3, 1,000 files"), "{}", set.described);
        assert!(set.described.contains("files times 0.01: files: 10, directories: 0, 953.7 MiB of zeros"));
        let large = Name::PctLarge.at(1.0).unwrap();
        assert_eq!((large.spec.files, large.spec.directories), (246, 19));
        // 989 GB, a thousandth of it.
        assert!((900 << 20..1200 << 20).contains(&large.bytes), "{}", large.described);
    }
}
