// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Styles of the series: they differ in colour, in the shape of their points and in their dashes.
use alcc_live::chart::SIGNS;
use alcc_live::report::classes;

/// Six colours of medium lightness, since pages are light or dark. They are the best that a search
/// found for what the tests ask of them.
pub(crate) const COLOURS: [&str; 6] = [
    "#3c4bf0", "#f0690f", "#874b96", "#3c96f0", "#b43c00", "#b48796",
];

/// Lengths of dash and gap of a line, and what stands for them beside a name.
const DASHES: [(&str, &str); 3] = [("", "━"), ("9,4", "╍"), ("2,4", "┉")];

/// Looks that a page knows.
const LOOKS: usize = 90;

/// Colour and shape of the points of a series, as text.
pub(crate) fn marker(series: usize) -> (&'static str, char) {
    // Five shapes and six colours: neighbours differ in both, and up to five series in shape alone.
    let shape = SIGNS[series % SIGNS.len()];
    (COLOURS[series % COLOURS.len()], shape)
}

/// Number of the dashes of a look: lines of one colour differ in them, too.
pub(crate) fn dashes(look: usize) -> usize {
    (look + look / COLOURS.len() * 2) % DASHES.len()
}

/// Sign for the line style of a look beside a name.
pub(crate) fn line(look: usize) -> &'static str {
    DASHES[dashes(look)].1
}

/// The looks of all series, as CSS.
pub(crate) fn style() -> String {
    let look = |n| (String::new(), marker(n).0, DASHES[dashes(n)].0);
    classes(&(0..LOOKS).map(look).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Perceived colours, in linear light: by all people, and by those without one of three kinds
    /// of cones.
    /// Machado, Oliveira and Fernandes 2009, table 1, severity 1.
    const VISIONS: [[[f64; 3]; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ];

    fn times(matrix: [[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
    }

    fn linear(hex: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let byte = u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let v = f64::from(byte) / 255.0;
            if v <= 0.04045 {
                v / 12.92
            } else {
                ((v + 0.055) / 1.055).powf(2.4)
            }
        })
    }

    /// WCAG 2.1, "contrast ratio".
    fn contrast(one: &str, other: &str) -> f64 {
        let light = |hex| {
            let [r, g, b] = linear(hex);
            0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05
        };
        let (a, b) = (light(one), light(other));
        a.max(b) / a.min(b)
    }

    /// Ottosson 2020: distances in this space are about those that people see.
    fn oklab(rgb: [f64; 3]) -> [f64; 3] {
        let cones = times(
            [
                [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
                [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
                [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
            ],
            rgb.map(|v| v.clamp(0.0, 1.0)),
        );
        times(
            [
                [0.210_454_255_3, 0.793_617_785, -0.004_072_046_8],
                [1.977_998_495_1, -2.428_592_205, 0.450_593_709_9],
                [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766],
            ],
            cones.map(f64::cbrt),
        )
    }

    fn distance(one: &str, other: &str, vision: [[f64; 3]; 3]) -> f64 {
        let of = |hex| oklab(times(vision, linear(hex)));
        let (a, b) = (of(one), of(other));
        (0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn five_series_differ_in_shape_and_twelve_in_shape_or_colour() {
        use std::collections::BTreeSet;
        let shapes: BTreeSet<char> = (0..5).map(|i| marker(i).1).collect();
        let both: BTreeSet<(&str, char)> = (0..12).map(marker).collect();
        assert_eq!((shapes.len(), both.len()), (5, 12));
    }

    #[test]
    fn the_formulas_have_their_known_values() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        assert!((contrast("#767676", "#ffffff") - 4.54).abs() < 0.01);
        assert!((distance("#000000", "#ffffff", VISIONS[0]) - 1.0).abs() < 1e-3);
        // Red and green of equal lightness are alike for who lacks the cones for green.
        assert!(
            distance("#b04000", "#707000", VISIONS[2])
                < distance("#b04000", "#707000", VISIONS[0]) / 2.0
        );
    }

    #[test]
    fn every_colour_is_seen_on_light_and_dark_pages() {
        for colour in COLOURS {
            for background in ["#ffffff", "#121212"] {
                let found = contrast(colour, background);
                // WCAG 2.1, 1.4.11: graphical objects.
                assert!(found >= 3.0, "{colour} on {background}: {found:.2}");
            }
        }
    }

    #[test]
    fn no_two_colours_are_alike_to_anyone() {
        for (i, one) in COLOURS.iter().enumerate() {
            for other in &COLOURS[..i] {
                for (v, vision) in VISIONS.into_iter().enumerate() {
                    let found = distance(one, other, vision);
                    // About ten times what is just noticed. With Okabe and Ito's six it is 0.08.
                    assert!(found >= 0.13, "{one} and {other}, vision {v}: {found:.3}");
                }
            }
        }
    }
}
