//! Colours that any kind of colour vision can distinguish. It draws nothing.

use plotters::style::RGBColor;

pub(crate) const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
pub(crate) const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);
pub(crate) const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);

/// Okabe and Ito, "Color Universal Design" (2008), with grey instead of black.
const SERIES: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xf0, 0xe4, 0x42),
    RGBColor(0x66, 0x66, 0x66),
];

/// Brewer's `OrRd` without its lightest tone, which is too close to the white of zero: lightness falls steadily.
const HEAT: [RGBColor; 7] = [
    RGBColor(0xfe, 0xe8, 0xc8),
    RGBColor(0xfd, 0xd4, 0x9e),
    RGBColor(0xfd, 0xbb, 0x84),
    RGBColor(0xfc, 0x8d, 0x59),
    RGBColor(0xef, 0x65, 0x48),
    RGBColor(0xb3, 0x00, 0x00),
    RGBColor(0x5f, 0x00, 0x00),
];

/// Steps of the colour scale: similar neighbours are drawn as one.
pub(crate) const HEAT_LEVELS: u8 = 64;

/// The colour of a series: eight colours, then the same ones paler.
pub(crate) fn series(index: usize) -> RGBColor {
    let colour = SERIES[index % SERIES.len()];
    if index < SERIES.len() { colour } else { between(colour, PAPER, 0.55) }
}

/// The colour of a level above zero, from 0 to [`HEAT_LEVELS`] - 1.
pub(crate) fn heat(level: u8) -> RGBColor {
    let last = HEAT.len() - 1;
    let place = f64::from(level.min(HEAT_LEVELS - 1)) / f64::from(HEAT_LEVELS - 1) * last as f64;
    let below = (place as usize).min(last - 1);
    between(HEAT[below], HEAT[below + 1], place - below as f64)
}

fn between(from: RGBColor, to: RGBColor, fraction: f64) -> RGBColor {
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * fraction).round() as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_gets_steadily_darker_and_is_never_white() {
        let light = |RGBColor(r, g, b): RGBColor| 2 * u32::from(r) + 5 * u32::from(g) + u32::from(b);
        let lights: Vec<u32> = (0..HEAT_LEVELS).map(|level| light(heat(level))).collect();
        assert!(lights.windows(2).all(|pair| pair[1] < pair[0]), "{lights:?}");
        assert!(lights[0] < light(PAPER));
    }

    #[test]
    fn no_two_series_have_one_colour() {
        for a in 0..crate::SERIES_MAX {
            assert!((0..a).all(|b| series(a) != series(b)));
        }
    }
}
