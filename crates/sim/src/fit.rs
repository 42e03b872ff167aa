//! Least squares: how well a line, or a logarithm, describes points. It tests no hypothesis.

/// `constant + slope * x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The value at x = 0.
    pub constant: f64,
    /// What one unit of x adds.
    pub slope: f64,
    /// The share of the variance that it explains: 1 if all points are on it. 1 also if all values are equal.
    pub r_squared: f64,
}

impl Fit {
    /// The best line through `(x, y)`. None: fewer than two different x.
    #[must_use]
    pub fn line(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            points.iter().map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>()
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        // Also if there are no points.
        if xx.is_nan() || xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        let r_squared = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
        Some(Self { constant: mean_y - slope * mean_x, slope, r_squared })
    }

    /// The best `constant + slope * log2 x`. None: fewer than two different x, or one that is not above 0.
    #[must_use]
    pub fn logarithm(points: &[(f64, f64)]) -> Option<Self> {
        let points: Vec<_> = points.iter().map(|(x, y)| (x.log2(), *y)).collect();
        Self::line(&points).filter(|fit| fit.slope.is_finite())
    }

    /// The value of the line at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.constant + self.slope * x
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn points_of_a_line_are_fitted() {
        let fit = Fit::line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]).unwrap();
        assert!(
            is_near(fit.constant, 3.0) && is_near(fit.slope, 2.0) && is_near(fit.r_squared, 1.0),
            "{fit:?}"
        );
        assert!(is_near(fit.at(10.0), 23.0));
    }

    // Anscombe's first set: 3.00, 0.500 and 0.667 to as many digits.
    #[test]
    fn scattered_points_are_fitted() {
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let points: Vec<_> = x.into_iter().zip(y).collect();
        let fit = Fit::line(&points).unwrap();
        assert!((fit.constant - 3.0).abs() < 0.005 && (fit.slope - 0.5).abs() < 0.0005, "{fit:?}");
        assert!((fit.r_squared - 0.667).abs() < 0.0005, "{fit:?}");
    }

    #[test]
    fn powers_of_two_grow_with_the_logarithm() {
        let fit = Fit::logarithm(&[(2.0, 1.0), (4.0, 3.0), (16.0, 7.0)]).unwrap();
        assert!(is_near(fit.slope, 2.0) && is_near(fit.constant, -1.0) && is_near(fit.r_squared, 1.0));
    }

    #[test]
    fn one_point_has_no_line() {
        assert_eq!(Fit::line(&[]), None);
        assert_eq!(Fit::line(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(Fit::logarithm(&[(0.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(Fit::line(&[(1.0, 2.0), (2.0, 2.0)]).unwrap().r_squared, 1.0);
    }
}
