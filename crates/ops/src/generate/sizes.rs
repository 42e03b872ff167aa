//! Sizes of the files in a tree: a distribution between two limits, as its quantile function. Pure; the plan assigns a quantile to each
//! file.

use super::portable::{exp, ln, normal_quantile};
use super::random::{fraction, scale};
use super::spec::SpecError;

/// The largest file on Linux.
const SIZE_MAX: u64 = i64::MAX as u64;
/// Distance of both limits of `normal` and `lognormal` from the middle, in standard deviations.
const DEVIATIONS: f64 = 3.0;
/// Share of the standard normal distribution below minus three.
const BELOW_DEVIATIONS: f64 = 0.001_349_898_031_630_094_6;

/// The form of a size distribution. `docs/generate.md` has the exact definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every file has the minimum size.
    Fixed,
    /// All sizes are equally likely.
    Uniform,
    /// A bell around the middle of both limits, which are three standard deviations away.
    Normal,
    /// Small sizes are more likely, in proportion to 1 / size.
    Zipf,
    /// The logarithm of the size is normal: a median at the geometric middle of both limits, and few large files.
    Lognormal,
    /// A given number of files in each of several bands, with `Zipf` within a band.
    Bands(&'static [Band]),
}

/// Files in a range of sizes, for data sets with a known table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Number of files, in proportion to the other bands.
    pub files: u32,
    /// The minimum size in bytes, at least 1.
    pub min_bytes: u64,
    /// The maximum size in bytes.
    pub max_bytes: u64,
    /// Sizes are the minimum plus a multiple of this many bytes.
    pub step_bytes: u64,
}

/// A valid distribution of file sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    shape: Shape,
    min_bytes: u64,
    max_bytes: u64,
    step_bytes: u64,
}

impl Sizes {
    /// Creates sizes from `min_bytes` to `max_bytes`, both included, in steps of `step_bytes` counted from the minimum.
    ///
    /// # Errors
    /// [`SpecError::Sizes`] when the limits are in the wrong order or above 2^63 - 1, or the step is 0; when `Zipf` starts at 0 bytes; when
    /// the limits of `Fixed` differ, or those of `Bands` are not the bands' own.
    pub fn new(shape: Shape, min_bytes: u64, max_bytes: u64, step_bytes: u64) -> Result<Self, SpecError> {
        let wrong = if min_bytes > max_bytes {
            Some("the least size is above the largest")
        } else if max_bytes > SIZE_MAX {
            Some("the largest size is above 2^63 - 1 bytes")
        } else if step_bytes == 0 || step_bytes > SIZE_MAX {
            Some("the step is not between 1 and 2^63 - 1 bytes")
        } else {
            match shape {
                Shape::Zipf if min_bytes == 0 => Some("zipf has no size of 0 bytes"),
                Shape::Fixed if min_bytes != max_bytes => Some("a fixed size is one size"),
                Shape::Bands(bands) => wrong_bands(bands, min_bytes, max_bytes),
                _ => None,
            }
        };
        wrong.map_or(Ok(Self { shape, min_bytes, max_bytes, step_bytes }), |why| Err(SpecError::Sizes(why)))
    }

    /// Creates a distribution in which every file has this size.
    ///
    /// # Errors
    /// [`SpecError::Sizes`] when it is above 2^63 - 1.
    pub fn fixed(size_bytes: u64) -> Result<Self, SpecError> {
        Self::new(Shape::Fixed, size_bytes, size_bytes, 1)
    }

    /// Creates the distribution of a table.
    ///
    /// # Errors
    /// [`SpecError::Sizes`] when the table is empty or a band is not a valid range for `Zipf`.
    pub fn bands(bands: &'static [Band]) -> Result<Self, SpecError> {
        let min_bytes = bands.iter().map(|band| band.min_bytes).min().unwrap_or(0);
        let max_bytes = bands.iter().map(|band| band.max_bytes).max().unwrap_or(0);
        Self::new(Shape::Bands(bands), min_bytes, max_bytes, 1)
    }

    /// The minimum size in bytes.
    #[must_use]
    pub const fn min_bytes(&self) -> u64 {
        self.min_bytes
    }

    /// The maximum size in bytes.
    #[must_use]
    pub const fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Returns the size in bytes below which a share `quantile` / 2^64 of all files is.
    #[must_use]
    pub fn at(&self, quantile: u64) -> u64 {
        let (min, max, step) = (self.min_bytes, self.max_bytes, self.step_bytes);
        match self.shape {
            Shape::Fixed => min,
            Shape::Uniform => min + scale(quantile, (max - min) / step + 1) * step,
            Shape::Normal => stepped(normal(min as f64, max as f64, quantile), min, max, step),
            Shape::Zipf => zipf(min, max, step, quantile),
            Shape::Lognormal => {
                let (low, high) = (ln((min as f64).max(1.0)), ln((max as f64).max(1.0)));
                stepped(exp(normal(low, high, quantile)), min, max, step)
            }
            Shape::Bands(bands) => in_bands(bands, quantile),
        }
    }
}

fn wrong_bands(bands: &[Band], min_bytes: u64, max_bytes: u64) -> Option<&'static str> {
    let is_wrong = |band: &Band| {
        band.min_bytes < min_bytes.max(1)
            || band.max_bytes > max_bytes
            || band.min_bytes > band.max_bytes
            || band.step_bytes == 0
    };
    let files: u64 = bands.iter().map(|band| u64::from(band.files)).sum();
    (files == 0 || bands.iter().any(is_wrong)).then_some("a band is empty or outside the limits")
}

/// A normal distribution around the middle of two limits, truncated at both.
fn normal(low: f64, high: f64, quantile: u64) -> f64 {
    let share = BELOW_DEVIATIONS + fraction(quantile) * (1.0 - 2.0 * BELOW_DEVIATIONS);
    let deviation = (high - low) / (2.0 * DEVIATIONS);
    (low + high) / 2.0 + deviation * normal_quantile(share)
}

/// The density 1 / x from `min` to below `max + step`, rounded down to a step. The probability of the k-th step of a range that starts at
/// one step is `ln((k + 1) / k) / ln(K + 1)`, as in the tool of the pct thesis.
fn zipf(min: u64, max: u64, step: u64, quantile: u64) -> u64 {
    let low = min as f64;
    let high = max as f64 + step as f64;
    stepped(low * exp(fraction(quantile) * ln(high / low)), min, max, step)
}

/// Rounds `x` down to a step, within the limits.
fn stepped(x: f64, min: u64, max: u64, step: u64) -> u64 {
    let above = (x as u64).clamp(min, max) - min;
    min + above / step * step
}

fn in_bands(bands: &[Band], quantile: u64) -> u64 {
    let total: u64 = bands.iter().map(|band| u64::from(band.files)).sum();
    // The position in the table in units of 2^-64 files: the high bits are whole files, the low bits the position within one.
    let mut place = u128::from(quantile) * u128::from(total);
    for band in bands {
        let width = u128::from(band.files) << 64;
        if place < width {
            let inner = (place / u128::from(band.files)) as u64;
            return zipf(band.min_bytes, band.max_bytes, band.step_bytes, inner);
        }
        place -= width;
    }
    unreachable!("a quantile below 1 lies in one of the bands")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u64 = 100_000;

    fn draw(sizes: Sizes) -> Vec<u64> {
        (0..MANY).map(|at| sizes.at(((u128::from(at) << 64) / u128::from(MANY)) as u64)).collect()
    }

    fn mean(sizes: &[u64]) -> f64 {
        sizes.iter().map(|&size| size as f64).sum::<f64>() / sizes.len() as f64
    }

    #[test]
    fn every_shape_keeps_to_its_limits_and_steps() {
        for shape in [Shape::Uniform, Shape::Normal, Shape::Zipf, Shape::Lognormal] {
            for (min, max, step) in
                [(1, 1, 1), (1, 2, 1), (4096, 262_144, 1), (1000, 9999, 1000), (1, SIZE_MAX, 1)]
            {
                let sizes = Sizes::new(shape, min, max, step).unwrap();
                for quantile in [0, 1, 1 << 30, 1 << 63, u64::MAX - 1, u64::MAX] {
                    let size = sizes.at(quantile);
                    assert!((min..=max).contains(&size), "{shape:?} {min} {max}: {size}");
                    assert_eq!((size - min) % step, 0, "{shape:?}");
                }
            }
        }
    }

    #[test]
    fn sizes_grow_with_the_quantile() {
        for shape in [Shape::Uniform, Shape::Normal, Shape::Zipf, Shape::Lognormal] {
            assert!(draw(Sizes::new(shape, 1, 1 << 30, 1).unwrap()).is_sorted(), "{shape:?}");
        }
    }

    #[test]
    fn uniform_and_normal_have_their_mean_in_the_middle() {
        for shape in [Shape::Uniform, Shape::Normal] {
            let sizes = draw(Sizes::new(shape, 0, 1_000_000, 1).unwrap());
            assert!((mean(&sizes) - 500_000.0).abs() < 10.0, "{shape:?} {}", mean(&sizes));
        }
        let sizes = draw(Sizes::new(Shape::Normal, 0, 600_000, 1).unwrap());
        let inside = sizes.iter().filter(|size| (200_000..400_000).contains(*size)).count();
        // 68.27 % within one deviation (100,000), out of the 99.73 % that are not truncated.
        assert!((68_400..68_520).contains(&inside), "{inside}");
    }

    #[test]
    fn lognormal_has_its_median_at_the_geometric_middle() {
        let sizes = draw(Sizes::new(Shape::Lognormal, 1 << 12, 1 << 20, 1).unwrap());
        assert!(sizes[50_000].abs_diff(1 << 16) < 10, "{}", sizes[50_000]);
        assert!(mean(&sizes) > 65_536.0 * 1.3);
    }

    #[test]
    fn zipf_has_as_many_sizes_in_each_doubling() {
        let sizes = draw(Sizes::new(Shape::Zipf, 1 << 10, 1 << 20, 1).unwrap());
        for power in 10..20 {
            let count = sizes.iter().filter(|size| (1 << power..2 << power).contains(*size)).count();
            assert!((9_990..10_010).contains(&count), "2^{power}: {count}");
        }
    }

    #[test]
    fn wrong_ranges_are_refused() {
        let zipf = |min, max, step| Sizes::new(Shape::Zipf, min, max, step).is_err();
        assert!(zipf(2, 1, 1) && zipf(0, 1, 1) && zipf(1, 2, 0) && zipf(1, u64::MAX, 1));
        assert!(Sizes::new(Shape::Fixed, 1, 2, 1).is_err());
        assert!(Sizes::bands(&[]).is_err());
    }
}
