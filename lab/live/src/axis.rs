// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An axis of a picture or a chart: from values to places, and where its ticks are.

/// Values `from` to `to` lie at the places `begin` to `end`, which may go either way.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
    log: bool,
    step: f64,
    names: Vec<String>,
}

/// Factors of a power of ten that a tick may have.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];
/// With more ticks than that, a logarithmic axis has only the powers of ten.
const MOST_TICKS: usize = 13;
/// With fewer, it has the multiples of a step, as a linear one.
const FEWEST_TICKS: usize = 2;
/// The smallest value of a logarithmic axis.
const LEAST: f64 = 1e-9;

/// A round step of which there are at most six in this width.
fn step(wide: f64) -> f64 {
    let power = 10f64.powf((wide / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|t| t * power);
    let found = steps.into_iter().find(|s| wide / s <= 6.0);
    found.unwrap_or(10.0 * power)
}

impl Axis {
    /// An axis between two values at the places 0 to 1, with round steps.
    pub fn exactly(from: f64, to: f64) -> Self {
        Self {
            from,
            to,
            begin: 0.0,
            end: 1.0,
            log: false,
            step: step(to - from),
            names: Vec::new(),
        }
    }

    /// Names at 0, 1, 2 and so on.
    pub fn names(names: Vec<String>) -> Self {
        let to = names.len().max(1) as f64 - 0.5;
        Self {
            names,
            ..Self::exactly(-0.5, to)
        }
    }

    /// An axis for positive values, with a margin on both sides.
    pub fn log(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Self {
        let (least, most) = extremes(values.map(|v| v.max(LEAST)));
        // At least a factor of two, so that a single scheme does not look like a spread.
        let room = (most / least).powf(0.1).max(1.25);
        Self {
            from: least / room,
            to: most * room,
            begin,
            end,
            log: true,
            step: 0.0,
            names: Vec::new(),
        }
    }

    /// A little more than the values on both sides, and from zero if they come near it.
    pub fn linear(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Self {
        let (least, most) = extremes(values);
        let low = if least < 0.4 * most { 0.0 } else { least };
        let wide = (most - low).max(0.1 * most).max(1e-9);
        let room = 0.08 * wide;
        let from = if low > 0.0 {
            (low - room).max(0.0)
        } else {
            low
        };
        let to = most + room;
        // Values near each other: the step of `wide` would leave one tick, or none.
        let ticked = if low > 0.0 { wide.min(to - from) } else { wide };
        Self {
            from,
            to,
            begin,
            end,
            log: false,
            step: step(ticked),
            names: Vec::new(),
        }
    }

    /// Place of a value on the drawing.
    pub fn place(&self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(LEAST) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.begin + part * (self.end - self.begin)
    }

    /// The place of the value, or of the end that it is beyond.
    pub fn place_inside(&self, value: f64) -> f64 {
        let (least, most) = (self.begin.min(self.end), self.begin.max(self.end));
        self.place(value).clamp(least, most)
    }

    /// The smallest and the largest value.
    pub fn values(&self) -> (f64, f64) {
        (self.from, self.to)
    }

    /// Equal factors, not equal differences, have the same length on the axis.
    pub fn is_log(&self) -> bool {
        self.log
    }

    /// Values with their labels.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        if !self.names.is_empty() {
            let places = (0..).map(f64::from);
            return places.zip(self.names.iter().cloned()).collect();
        }
        if self.log {
            let powers = (self.from.log10().floor() as i32)..=(self.to.log10().ceil() as i32);
            let of = |round: &'static [f64]| {
                let all = powers
                    .clone()
                    .flat_map(|p| round.iter().map(move |r| (p, *r)));
                all.map(|(p, r)| (r * 10f64.powi(p), p))
                    .filter(|(v, _)| (self.from..=self.to).contains(v))
                    .map(|(v, p)| (v, format!("{v:.0$}", usize::try_from(-p).unwrap_or(0))))
                    .collect::<Vec<_>>()
            };
            // The powers alone, if there are many.
            let all = of(&ROUND);
            return match all.len() {
                n if n > MOST_TICKS => of(&ROUND[..1]),
                // One place tells no length: over so narrow a range equal steps will do.
                n if n < FEWEST_TICKS => multiples(self.from, self.to, step(self.to - self.from)),
                _ => all,
            };
        }
        multiples(self.from, self.to, self.step)
    }
}

/// The multiples of a step between two values, with their labels.
fn multiples(from: f64, to: f64, step: f64) -> Vec<(f64, String)> {
    let digits = (-step.log10().floor()).max(0.0) as usize;
    let first = (from / step - 1e-9).ceil();
    let last = (to / step + 1e-9).floor();
    let n = (last - first).max(0.0) as usize;
    (0..=n)
        .map(|i| (first + i as f64) * step)
        .map(|v| (v, format!("{v:.digits$}")))
        .collect()
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
    fn values_near_each_other_have_several_ticks() {
        let labels =
            |axis: &Axis| -> Vec<String> { axis.ticks().into_iter().map(|t| t.1).collect() };
        let x = Axis::log([81.0, 71.0].into_iter(), 100.0, 0.0);
        assert_eq!(labels(&x), ["60", "70", "80", "90", "100"]);
        let y = Axis::linear([21.2, 21.78].into_iter(), 100.0, 0.0);
        assert_eq!(labels(&y), ["21.2", "21.4", "21.6", "21.8"]);
        for value in [1.0, 4.1, 5.0, 73.0, 980.0] {
            let near = [value, value * 1.02];
            for axis in [
                Axis::log(near.into_iter(), 0.0, 1.0),
                Axis::linear(near.into_iter(), 0.0, 1.0),
            ] {
                let count = labels(&axis).len();
                assert!((2..=8).contains(&count), "{axis:?}: {:?}", labels(&axis));
            }
        }
    }

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
