//! Logarithm, exponential and normal quantile with the same bits on every machine. The standard library uses the C library, whose last bit
//! differs between versions, and one bit can change the size of a file. This module uses only `+ - * /` and `sqrt`, which IEEE 754 defines
//! to the last bit. The error is about 1e-15 (the quantile: 1e-9 relative). It is not fast.

use std::f64::consts::{LN_2, SQRT_2};

/// Terms of both series: the next one is below 2^-53 for every argument that remains after the reduction.
const TERMS: u32 = 20;

/// The natural logarithm of a normal number above 0.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    let exponent = (x.to_bits() >> 52) as i32 - 1023;
    let mantissa = f64::from_bits((x.to_bits() & ((1 << 52) - 1)) | (1023 << 52));
    let (mantissa, exponent) =
        if mantissa > SQRT_2 { (mantissa / 2.0, exponent + 1) } else { (mantissa, exponent) };
    // ln(m) = 2 artanh((m - 1) / (m + 1))
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let mut power = s;
    let mut sum = 0.0;
    for term in 0..TERMS {
        sum += power / f64::from(2 * term + 1);
        power *= s * s;
    }
    2.0 * sum + f64::from(exponent) * LN_2
}

/// e to the power of `x`, which is between -700 and 700.
pub(crate) fn exp(x: f64) -> f64 {
    debug_assert!(x.abs() <= 700.0);
    let twos = (x / LN_2).round();
    let rest = x - twos * LN_2;
    let mut power = 1.0;
    let mut sum = 0.0;
    for term in 1..=TERMS {
        sum += power;
        power *= rest / f64::from(term);
    }
    sum * f64::from_bits(((1023 + twos as i64) as u64) << 52)
}

/// The value below which a share `p` (above 0, below 1) of the standard normal distribution lies.
///
/// Source: P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution function" (2003).
#[rustfmt::skip]
pub(crate) fn normal_quantile(p: f64) -> f64 {
    debug_assert!(p > 0.0 && p < 1.0);
    const A: [f64; 6] = [-3.969683028665376e1, 2.209460984245205e2, -2.759285104469687e2, 1.38357751867269e2,
        -3.066479806614716e1, 2.506628277459239];
    const B: [f64; 6] = [-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1,
        -1.328068155288572e1, 1.0];
    const C: [f64; 6] = [-7.784894002430293e-3, -3.223964580411365e-1, -2.400758277161838, -2.549732539343734,
        4.374664141464968, 2.938163982698783];
    const D: [f64; 5] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416, 1.0];
    const TAIL: f64 = 0.02425;
    let tail = |p: f64| {
        let q = (-2.0 * ln(p)).sqrt();
        polynomial(&C, q) / polynomial(&D, q)
    };
    if p < TAIL {
        tail(p)
    } else if p > 1.0 - TAIL {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        polynomial(&A, q * q) * q / polynomial(&B, q * q)
    }
}

/// Evaluates a polynomial; the highest power comes first.
fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithm_and_exponential_match_the_library() {
        for x in [1e-9, 0.3, 0.999, 1.0, 1.5, 2.0, 10.0, 4096.0, 1e12, 9e18] {
            assert!((ln(x) - f64::ln(x)).abs() <= 1e-14 * f64::ln(x).abs().max(1.0), "ln {x}");
        }
        for x in [-20.0, -1.0, 0.0, 1e-9, 0.5, 1.0, 14.07, 43.6] {
            assert!((exp(x) / f64::exp(x) - 1.0).abs() < 1e-13, "exp {x}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (p, z) in [(0.5, 0.0), (0.841_344_746, 1.0), (0.975, 1.959_963_985), (0.001_349_898, -3.0)] {
            assert!((normal_quantile(p) - z).abs() < 1e-7, "{p}");
            assert!((normal_quantile(1.0 - p) + z).abs() < 1e-7, "{p}");
        }
    }

    #[test]
    fn bits_are_pinned() {
        // These bits are part of the promise that a seed gives the same tree on every machine.
        assert_eq!(ln(10.0).to_bits(), 0x4002_6bb1_bbb5_5515);
    }
}
