// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An axis of a picture: from values to places, and where its ticks are.

/// Values `from` to `to` lie at the places `begin` to `end`, which may go either way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
    log: bool,
    step: f64,
}

/// What a tick may be a power of ten times of.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];

impl Axis {
    /// For positive values, with some room on both sides.
    pub(super) fn log(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Self {
        let (least, most) = extremes(values.map(|v| v.max(1e-3)));
        // At least a factor of two, so that a single scheme does not look like a spread.
        let room = (most / least).powf(0.1).max(1.25);
        Self {
            from: least / room,
            to: most * room,
            begin,
            end,
            log: true,
            step: 0.0,
        }
    }

    /// A little more than the values on both sides, and from zero if they come near it.
    pub(super) fn linear(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Self {
        let (least, most) = extremes(values);
        let low = if least < 0.4 * most { 0.0 } else { least };
        let wide = (most - low).max(0.1 * most).max(1e-9);
        let power = 10f64.powf((wide / 5.0).log10().floor());
        let times = [1.0, 2.0, 5.0, 10.0];
        let step = times.into_iter().map(|t| t * power);
        let step = step
            .clone()
            .find(|s| wide / s <= 6.0)
            .unwrap_or(10.0 * power);
        let room = 0.08 * wide;
        Self {
            from: if low > 0.0 {
                (low - room).max(0.0)
            } else {
                low
            },
            to: most + room,
            begin,
            end,
            log: false,
            step,
        }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(1e-3) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.begin + part * (self.end - self.begin)
    }

    /// Values with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        if self.log {
            let powers = (self.from.log10().floor() as i32)..=(self.to.log10().ceil() as i32);
            let all = powers.flat_map(|p| ROUND.map(|r| r * 10f64.powi(p)));
            return all
                .filter(|v| (self.from..=self.to).contains(v))
                .map(|v| (v, format!("{v}")))
                .collect();
        }
        let digits = (-self.step.log10().floor()).max(0.0) as usize;
        let first = (self.from / self.step - 1e-9).ceil();
        let last = (self.to / self.step + 1e-9).floor();
        let n = (last - first).max(0.0) as usize;
        (0..=n)
            .map(|i| (first + i as f64) * self.step)
            .map(|v| (v, format!("{v:.digits$}")))
            .collect()
    }
}

fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let found = values.fold(None, |found: Option<(f64, f64)>, v| {
        Some(found.map_or((v, v), |(least, most)| (least.min(v), most.max(v))))
    });
    found.unwrap_or((1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let x = Axis::log([30.0, 1400.0].into_iter(), 100.0, 0.0);
        let labels: Vec<String> = x.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels, ["50", "100", "200", "500", "1000", "2000"]);
        assert!(x.place(30.0) > x.place(1400.0) && x.place(1400.0) > 0.0);
        let y = Axis::linear([7.5, 7.9, 7.2].into_iter(), 200.0, 0.0);
        let labels: Vec<String> = y.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(labels.first().map(String::as_str), Some("7.2"));
        assert_eq!(labels.last().map(String::as_str), Some("7.8"));
        assert!(y.place(7.2) < 200.0 && y.place(7.9) > 0.0, "{y:?}");
        let all = Axis::linear([80.0, 100.0].into_iter(), 0.0, 1.0).ticks();
        assert_eq!(
            all.last().map(|t| t.0),
            Some(100.0),
            "no tick beyond what can be"
        );
        let all = Axis::linear([5.0, 12.0, 2.0].into_iter(), 0.0, 1.0);
        assert_eq!(all.ticks()[0].0, 0.0);
        // One value, none at all: still an axis.
        for values in [vec![5.0], vec![], vec![0.0]] {
            let y = Axis::linear(values.iter().copied(), 0.0, 1.0);
            let ticks = y.ticks();
            assert!((1..20).contains(&ticks.len()), "{values:?} {ticks:?}");
            assert!(y.place(1.0).is_finite());
            assert!(!Axis::log(values.into_iter(), 0.0, 1.0).ticks().is_empty());
        }
    }
}
