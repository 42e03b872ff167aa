//! Named trees: plain ones for everyday tests, and the data sets of the papers. Numbers only.
//!
//! Sources: LaFon, Misra, Bringhurst, "On Distributed File Tree Walk of Parallel File Systems" (SC 2012), section V;
//! Wang et al., "FCP: A Fast and Scalable Data Copy Tool" (2017), section V; the thesis on pct, tables 4.2 to 4.4.

use super::sizes::{Band, Shape, Sizes};
use super::spec::{Contents, Spec, SpecError, Spread};

/// A named set of defaults for a [`Spec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// 40,000 files of 4 to 256 KiB in 4,000 directories.
    SmallFiles,
    /// 6 files of 256 MiB.
    LargeFiles,
    /// A chain of 2,000 directories with 200 small files.
    Deep,
    /// One directory with 100,000 files of at most 64 bytes.
    Flat,
    /// 10,000 directories in one, with 10 small files each.
    Wide,
    /// LaFon 2012: 6.5 million files, 471 TB.
    Lafon6m,
    /// LaFon 2012: 12 million files, 2 PB.
    Lafon12m,
    /// LaFon 2012: 110 million files, 7 PB.
    Lafon110m,
    /// Wang 2017, data set 1: a file of 1 TB of zeros.
    Fcp1,
    /// Wang 2017, data set 2: a file of 100 GB of zeros.
    Fcp2,
    /// Wang 2017, data set 3: 1,000 files of 100 MB of zeros.
    Fcp3,
    /// Wang 2017, data set 4: 100,000 files of 4 KB to 100 MB.
    Fcp4,
    /// The pct thesis, "Many Small Files": 1,000,000 files, 904.1 GiB.
    PctSmall,
    /// The pct thesis, "Fewer Large Files": 2,460 files of 1 to 3,480 MiB.
    PctLarge,
    /// The pct thesis, "AWS Files": 75,000 files of 1 to 5 MiB.
    PctAws,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Preset {
    /// Every preset, in the order in which they are listed.
    pub const ALL: [Self; 15] = [
        Self::SmallFiles,
        Self::LargeFiles,
        Self::Deep,
        Self::Flat,
        Self::Wide,
        Self::Lafon6m,
        Self::Lafon12m,
        Self::Lafon110m,
        Self::Fcp1,
        Self::Fcp2,
        Self::Fcp3,
        Self::Fcp4,
        Self::PctSmall,
        Self::PctLarge,
        Self::PctAws,
    ];

    /// The name of the preset, as in `--preset NAME`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SmallFiles => "small-files",
            Self::LargeFiles => "large-files",
            Self::Deep => "deep",
            Self::Flat => "flat",
            Self::Wide => "wide",
            Self::Lafon6m => "lafon-6m",
            Self::Lafon12m => "lafon-12m",
            Self::Lafon110m => "lafon-110m",
            Self::Fcp1 => "fcp-1",
            Self::Fcp2 => "fcp-2",
            Self::Fcp3 => "fcp-3",
            Self::Fcp4 => "fcp-4",
            Self::PctSmall => "pct-small",
            Self::PctLarge => "pct-large",
            Self::PctAws => "pct-aws",
        }
    }

    /// The preset with this [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Returns the tree, with its counts times `scale`.
    ///
    /// Counts above zero stay at least one. Sizes do not change, except for a set of a single file, whose size is scaled. Seed 1.
    ///
    /// # Errors
    /// [`SpecError::Scale`] when the scale is not above 0 or a count overflows.
    pub fn spec(self, scale: f64) -> Result<Spec, SpecError> {
        let (files, directories) = self.counts();
        let mut spec = Spec {
            files: scaled(files, scale)?,
            directories: if directories == 0 { 0 } else { scaled(directories, scale)? },
            sizes: self.sizes(scale)?,
            contents: self.contents(),
            ..Spec::default()
        };
        match self {
            Self::Deep => (spec.depth_max, spec.fan_out_max) = (u32::MAX, 1),
            Self::Wide => {
                (spec.depth_max, spec.fan_out_max, spec.spread) = (1, u32::MAX, Spread::Even);
            }
            Self::Fcp1 | Self::Fcp2 => spec.files = 1,
            _ => {}
        }
        Ok(spec)
    }

    /// Numbers of files and directories.
    const fn counts(self) -> (u64, u64) {
        match self {
            Self::SmallFiles => (40_000, 4_000),
            Self::LargeFiles => (6, 0),
            Self::Deep => (200, 2_000),
            Self::Flat => (100_000, 0),
            Self::Wide => (100_000, 10_000),
            Self::Lafon6m => (6_500_000, 650_000),
            Self::Lafon12m => (12_000_000, 1_200_000),
            Self::Lafon110m => (110_000_000, 11_000_000),
            Self::Fcp1 | Self::Fcp2 => (1, 0),
            Self::Fcp3 => (1_000, 0),
            Self::Fcp4 => (100_000, 10_000),
            Self::PctSmall => (1_000_000, 17_596),
            Self::PctLarge => (2_460, 185),
            Self::PctAws => (75_000, 1_469),
        }
    }

    fn sizes(self, scale: f64) -> Result<Sizes, SpecError> {
        match self {
            Self::SmallFiles => Sizes::new(Shape::Lognormal, 4 * KIB, 256 * KIB, 1),
            Self::LargeFiles => Sizes::fixed(256 * MIB),
            Self::Deep | Self::Wide => Sizes::new(Shape::Uniform, 0, KIB, 1),
            Self::Flat => Sizes::new(Shape::Uniform, 0, 64, 1),
            // The papers give the number of files and the total. With a minimum of 4 KiB, these maxima make the mean of a lognormal
            // distribution the total divided by the number: 72.5, 166.7 and 63.6 MB.
            Self::Lafon6m => Sizes::new(Shape::Lognormal, 4 * KIB, 7_516_886_046, 1),
            Self::Lafon12m => Sizes::new(Shape::Lognormal, 4 * KIB, 20_487_637_526, 1),
            Self::Lafon110m => Sizes::new(Shape::Lognormal, 4 * KIB, 6_419_154_669, 1),
            Self::Fcp1 => Sizes::fixed(scaled(1_000_000_000_000, scale)?),
            Self::Fcp2 => Sizes::fixed(scaled(100_000_000_000, scale)?),
            Self::Fcp3 => Sizes::fixed(100_000_000),
            Self::Fcp4 => Sizes::new(Shape::Lognormal, 4_000, 100_000_000, 1),
            Self::PctSmall => Sizes::bands(&PCT_SMALL),
            Self::PctLarge => Sizes::bands(&PCT_LARGE),
            Self::PctAws => Sizes::bands(&PCT_AWS),
        }
    }

    const fn contents(self) -> Contents {
        match self {
            Self::Lafon6m | Self::Lafon12m | Self::Lafon110m => Contents::Sparse,
            Self::Fcp1 | Self::Fcp2 | Self::Fcp3 => Contents::Zeros,
            _ => Contents::Random,
        }
    }
}

const fn only(files: u32, size_bytes: u64) -> Band {
    Band { files, min_bytes: size_bytes, max_bytes: size_bytes, step_bytes: 1 }
}

const fn whole_mib(files: u32, min: u64, max: u64) -> Band {
    Band { files, min_bytes: min * MIB, max_bytes: max * MIB, step_bytes: MIB }
}

/// Table 4.2, in quarters of a MiB. Only then do the sizes add up to the 904.1 GB that the text gives.
const PCT_SMALL: [Band; 10] = [
    only(289_244, 256 * KIB),
    only(168_465, 512 * KIB),
    only(119_901, 768 * KIB),
    only(93_002, 1024 * KIB),
    only(76_031, 1280 * KIB),
    only(64_516, 1536 * KIB),
    only(56_017, 1792 * KIB),
    only(49_037, 2048 * KIB),
    only(44_204, 2304 * KIB),
    only(39_583, 2560 * KIB),
];

/// Table 4.3. Within a band, only the law of the bands is known.
const PCT_LARGE: [Band; 4] = [
    whole_mib(2_097, 1, 1_023),
    whole_mib(205, 1_024, 2_047),
    whole_mib(122, 2_048, 3_071),
    whole_mib(36, 3_072, 3_480),
];

/// Table 4.4. The table has 7,067 files of 5 MB, which is an error: 7,567 make the 75,000 that the text gives.
const PCT_AWS: [Band; 5] = [
    only(29_116, MIB),
    only(16_974, 2 * MIB),
    only(11_967, 3 * MIB),
    only(9_376, 4 * MIB),
    only(7_567, 5 * MIB),
];

/// `count` times `scale`, rounded, at least 1.
fn scaled(count: u64, scale: f64) -> Result<u64, SpecError> {
    let product = (count as f64 * scale).round();
    if scale > 0.0 && product < (1_u64 << 62) as f64 {
        Ok((product as u64).max(1))
    } else {
        Err(SpecError::Scale(scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::plan::Plan;
    use std::collections::BTreeMap;

    /// Sizes with their number of files.
    fn counts(spec: &Spec) -> BTreeMap<u64, u64> {
        let plan = Plan::new(&Spec { directories: 0, ..spec.clone() }).unwrap();
        let mut counts = BTreeMap::new();
        (0..spec.files).for_each(|file| *counts.entry(plan.size_bytes(file)).or_default() += 1);
        counts
    }

    fn total(counts: &BTreeMap<u64, u64>) -> f64 {
        counts.iter().map(|(&size, &count)| size as f64 * count as f64).sum()
    }

    #[test]
    fn names_go_back_and_forth_and_every_preset_can_be() {
        for preset in Preset::ALL {
            assert_eq!(Preset::from_name(preset.name()), Some(preset));
            for scale in [1.0, 0.001, 1e-12] {
                assert_eq!(preset.spec(scale).unwrap().check(), Ok(()), "{} {scale}", preset.name());
            }
            assert!(
                preset.spec(0.0).is_err() && preset.spec(-1.0).is_err() && preset.spec(f64::NAN).is_err()
            );
            assert!(preset.spec(f64::INFINITY).is_err());
        }
    }

    #[test]
    fn pct_tables_are_met_to_the_file() {
        for (preset, bands) in [(Preset::PctSmall, &PCT_SMALL[..]), (Preset::PctAws, &PCT_AWS[..])] {
            let counts = counts(&preset.spec(1.0).unwrap());
            let table: BTreeMap<_, _> =
                bands.iter().map(|band| (band.min_bytes, u64::from(band.files))).collect();
            assert_eq!(counts, table);
        }
        let small = counts(&Preset::PctSmall.spec(1.0).unwrap());
        assert!((total(&small) / (1_u64 << 30) as f64 - 904.1).abs() < 0.05);
    }

    #[test]
    fn pct_large_meets_its_bands_and_nearly_its_total() {
        let counts = counts(&Preset::PctLarge.spec(1.0).unwrap());
        for (band, files) in PCT_LARGE.iter().zip([2_097, 205, 122, 36]) {
            assert_eq!(
                counts.range(band.min_bytes..=band.max_bytes).map(|(_, count)| count).sum::<u64>(),
                files
            );
        }
        let gib = total(&counts) / (1_u64 << 30) as f64;
        assert!((gib / 989.0 - 1.0).abs() < 0.03, "{gib}");
    }

    #[test]
    fn the_zipf_shape_draws_the_papers_tables() {
        for (bands, files) in [(&PCT_SMALL[..], 1_000_000_u64), (&PCT_AWS[..], 75_000)] {
            let (first, last) = (bands[0], bands[bands.len() - 1]);
            let sizes = Sizes::new(Shape::Zipf, first.min_bytes, last.max_bytes, first.min_bytes).unwrap();
            let counts = counts(&Spec { files, sizes, ..Spec::default() });
            for band in bands {
                let (drawn, printed) = (counts[&band.min_bytes] as f64, f64::from(band.files));
                // The thesis used a sample: allow three standard deviations of a count.
                assert!((drawn - printed).abs() < 3.0 * printed.sqrt(), "{drawn} {printed}");
            }
        }
    }

    #[test]
    fn lafon_totals_are_met() {
        let sets = [(Preset::Lafon6m, 471e12), (Preset::Lafon12m, 2e15), (Preset::Lafon110m, 7e15)];
        for (preset, bytes) in sets {
            let scale = 0.001;
            let total = total(&counts(&preset.spec(scale).unwrap()));
            assert!((total / (bytes * scale) - 1.0).abs() < 0.01, "{} {total:e}", preset.name());
        }
    }

    #[test]
    fn a_single_file_scales_by_its_size() {
        let spec = Preset::Fcp1.spec(0.001).unwrap();
        assert_eq!((spec.files, spec.sizes.max_bytes()), (1, 1_000_000_000));
        let spec = Preset::Fcp3.spec(0.01).unwrap();
        assert_eq!((spec.files, spec.sizes.max_bytes()), (10, 100_000_000));
    }
}
