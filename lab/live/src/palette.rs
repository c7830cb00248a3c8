// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One colour and one dash for each scheme, the same in the picture and in the report.
//!
//! Every colour has at least 4.5:1 against white (WCAG 2.1, AA). Two colours may still look alike
//! to a colour-blind reader, so the lines differ by their dashes too.
use alcc_results::Results;
use serde::Serialize;

/// Style of a scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Look {
    /// `#rrggbb`.
    pub(crate) colour: &'static str,
    /// Value of SVG's `stroke-dasharray`; empty for a solid line.
    pub(crate) dash: &'static str,
}

const fn look(colour: &'static str, dash: &'static str) -> Look {
    Look { colour, dash }
}

/// Schemes of most comparisons, with fixed styles.
const KNOWN: &[(&str, Look)] = &[
    ("cubic", look("#c0392b", "")),
    ("bbr", look("#9a5b00", "8,3")),
    ("reno", look("#6d4c41", "2,3")),
    ("alcc-verus", look("#00707f", "10,3,2,3")),
    ("alcc-copa", look("#4b4bd0", "4,3")),
    ("alcc-budget", look("#2a7530", "")),
    ("alcc_budget", look("#1f6fa8", "8,3")),
    ("alcc_budget/lowat=16384B", look("#1f6fa8", "")),
];
const OTHERS: &[Look] = &[
    look("#9c2f8f", "8,3"),
    look("#3f5f95", "2,3"),
    look("#5f6b00", "10,3,2,3"),
    look("#b0450f", "4,3"),
    look("#17706a", ""),
    look("#6d597a", "8,3"),
    look("#7b4a12", "2,3"),
    look("#1f6fa8", "10,3,2,3"),
    look("#7a52b3", "4,3"),
    look("#4f6b2f", ""),
    look("#b3327c", "8,3"),
    look("#0e6a80", "2,3"),
];

/// The schemes of a comparison in their order, each with its look.
pub(crate) fn looks(results: &Results) -> Vec<(&str, Look)> {
    let mut looks: Vec<(&str, Look)> = Vec::new();
    let mut others = OTHERS.iter().cycle();
    for row in &results.flows {
        if looks.iter().any(|(name, _)| *name == row.scheme) {
            continue;
        }
        let known = KNOWN.iter().find(|(name, _)| *name == row.scheme);
        let look = known.map(|(_, look)| look).or_else(|| others.next());
        looks.extend(look.map(|look| (row.scheme.as_str(), *look)));
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_results::Row;

    /// Contrast against white: WCAG 2.1, "contrast ratio".
    fn contrast(colour: &str) -> f64 {
        let part = |at: usize| {
            let byte = u8::from_str_radix(&colour[at..at + 2], 16).expect("hex digits");
            let v = f64::from(byte) / 255.0;
            if v <= 0.04045 {
                v / 12.92
            } else {
                ((v + 0.055) / 1.055).powf(2.4)
            }
        };
        1.05 / (0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) + 0.05)
    }

    #[test]
    fn every_colour_can_be_read_as_text_on_white() {
        assert!((contrast("#767676") - 4.54).abs() < 0.01);
        for look in KNOWN.iter().map(|(_, look)| look).chain(OTHERS) {
            let found = contrast(look.colour);
            assert!(found >= 4.5, "{}: {found:.2}", look.colour);
        }
    }

    /// The colour after `filter: invert(1) hue-rotate(180deg)` (Filter Effects Module,
    /// `feColorMatrix`).
    fn in_the_dark(colour: &str) -> String {
        let part = |at: usize| {
            f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("hex digits")) / 255.0
        };
        let [r, g, b] = [1, 3, 5].map(|at| 1.0 - part(at));
        let rows = [
            [-0.574, 1.43, 0.144],
            [0.426, 0.43, 0.144],
            [0.426, 1.43, -0.856],
        ];
        let byte = |[x, y, z]: [f64; 3]| {
            let value = (x * r + y * g + z * b).clamp(0.0, 1.0) * 255.0;
            format!("{:02x}", value.round() as u8)
        };
        format!("#{}", rows.map(byte).concat())
    }

    #[test]
    fn every_colour_can_be_read_in_the_dark() {
        assert_eq!(in_the_dark("#ffffff"), "#000000");
        for look in KNOWN.iter().map(|(_, look)| look).chain(OTHERS) {
            // 21 is black against white; contrast() is against white.
            let against_black = 21.0 / contrast(&in_the_dark(look.colour));
            assert!(against_black >= 4.5, "{}: {against_black:.2}", look.colour);
        }
    }

    #[test]
    fn no_two_schemes_of_a_board_look_alike() {
        let names = [
            "cubic",
            "x",
            "bbr",
            "y",
            "alcc-budget",
            "alcc-copa",
            "z",
            "x",
        ];
        let results = Results {
            flows: names
                .map(|scheme| Row {
                    scheme: scheme.into(),
                    ..Row::default()
                })
                .to_vec(),
            ..Results::default()
        };
        let looks = looks(&results);
        assert_eq!(looks.len(), 7);
        for (n, (_, one)) in looks.iter().enumerate() {
            assert!(!looks[..n].iter().any(|(_, other)| other == one), "{one:?}");
        }
    }
}
