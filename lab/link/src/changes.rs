// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes of a path over time: steps of rate, delay and loss, which are typed, read from a table, or drawn from a
//! seed.
use alcc_units::{Rate, Rng, Span, Time, one_line};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The changes of a direction after its start. By default there are none.
///
/// A new rate applies at once, even to the packet that is being carried. A new delay applies to packets whose
/// propagation begins from then on. Unless `reorder` is set, packets that began earlier still arrive no later than they
/// do. A link without a rate, or one that follows a trace, becomes a link of that rate for good.
///
/// ```
/// use alcc_link::Changes;
///
/// let table = Changes::from_csv("seconds,mbps,loss\n0,20,\n10,5,0.01\n")?;
/// assert_eq!(table.steps.len(), 2);
/// assert_eq!(table.steps[1], "10s:rate=5mbit,loss=1%".parse()?);
/// # Ok::<(), alcc_link::ChangesError>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Changes {
    /// The steps. Their order does not matter, except among those of one moment, of which the last
    /// applies.
    pub steps: Vec<Step>,
    /// Period of the schedule: after this time the steps start again, from the initial values; later steps never come.
    /// `None`: no repetition.
    pub repeat: Option<Span>,
    /// True if packets may overtake those before them when the delay shrinks.
    pub reorder: bool,
}

/// One change. A field that is `None` leaves its value as it is.
///
/// ```
/// use alcc_link::{Changes, Step};
/// use alcc_units::{Rate, Span};
///
/// let step: Step = "5s:rate=20mbit,delay=50ms".parse()?;
/// assert_eq!((step.rate, step.delay), (Some(Rate::mbps(20)), Some(Span::from_millis(50))));
/// let changes = Changes::of(vec![step]);
/// # drop(changes);
/// # Ok::<(), alcc_link::ChangesError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Step {
    /// Time of the change since the start of the direction.
    pub at: Time,
    /// The bottleneck's rate; [`Rate::ZERO`] carries nothing.
    pub rate: Option<Rate>,
    /// One-way propagation delay.
    pub delay: Option<Span>,
    /// Probability of random loss, 0 to 1.
    pub loss: Option<f64>,
    /// The same in the reverse direction, if it differs: see [`Changes::back`].
    pub loss_up: Option<f64>,
}

/// Error of changes that could not be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangesError {
    /// A step is invalid.
    #[error("step '{}': '{}': expected {want}", one_line(.step), one_line(.found))]
    Step {
        /// The step.
        step: String,
        /// The invalid part.
        found: String,
        /// The valid form.
        want: &'static str,
    },
    /// A description of random steps is invalid.
    #[error("'{}': '{}': expected {want}", one_line(.text), one_line(.found))]
    Draw {
        /// The text.
        text: String,
        /// The invalid part.
        found: String,
        /// The valid form.
        want: &'static str,
    },
    /// A cell of a table is invalid.
    #[error("line {line}, column {column}: '{}': expected {want}", one_line(.found))]
    Cell {
        /// The line's number from 1.
        line: usize,
        /// The column's name.
        column: String,
        /// The invalid text.
        found: String,
        /// The valid form.
        want: &'static str,
    },
    /// A line of a table is invalid.
    #[error("line {line}: '{}': expected {want}", one_line(.found))]
    Line {
        /// Its number from 1.
        line: usize,
        /// The invalid text.
        found: String,
        /// The valid form.
        want: &'static str,
    },
    /// More steps than are kept in memory.
    #[error(
        "{0} steps: there may be 1000000: take a longer every=; --radio jitter holds single packets"
    )]
    TooMany(u64),
}

const MAX_STEPS: u64 = 1_000_000;
const RATE: &str = "a rate such as 12mbit, or 0 for an outage";
const STEP: &str = "AT:rate=R,delay=T,loss=P,loss-up=P with at least one of them, such as 5s:rate=20mbit,delay=50ms,loss=1%";
const RANDOM: &str = "every=T and rate=R..R, delay=T..T, loss=P..P or loss-up=P..P, such as every=5s,rate=10mbit..100mbit,loss=0..1%";
const OUTAGES: &str = "every=T..T,length=T..T, such as every=60s..180s,length=500ms..2s";
const PROBABILITY: &str = "a probability: 0% to 100%, or 0 to 1";

/// Parses `1%` or `0.01`.
fn probability(text: &str) -> Option<f64> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 0.01),
        None => (text, 1.0),
    };
    let p = number.parse::<f64>().ok()? * scale;
    (0.0..=1.0).contains(&p).then_some(p)
}

/// Parses `name=value` parts in order, each name once. `wrong` makes an error from the invalid part and the valid form.
fn parts<'a, E>(
    text: &'a str,
    want: &'static str,
    wrong: impl Fn(&str, &'static str) -> E,
) -> Result<Vec<(&'a str, &'a str)>, E> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(|| wrong(text, want))?;
        if all.iter().any(|(known, _)| *known == name) {
            return Err(wrong(name, "it only once"));
        }
        all.push((name, value));
    }
    Ok(all)
}

impl FromStr for Step {
    type Err = ChangesError;

    /// Parses `5s:rate=20mbit,delay=50ms,loss=1%`.
    fn from_str(text: &str) -> Result<Self, ChangesError> {
        let wrong = |found: &str, want| ChangesError::Step {
            step: text.to_owned(),
            found: found.to_owned(),
            want,
        };
        let (at, rest) = text.split_once(':').ok_or_else(|| wrong(text, STEP))?;
        let at: Span = at
            .parse()
            .map_err(|_| wrong(at, "a length of time such as 5s or 200ms"))?;
        let mut step = Self {
            at: Time::ZERO + at,
            ..Self::default()
        };
        for (name, value) in parts(rest, STEP, wrong)? {
            match name {
                "rate" => {
                    // Zero is the same in every unit.
                    let rate = match value {
                        "0" => Ok(Rate::ZERO),
                        value => value.parse(),
                    };
                    step.rate = Some(rate.map_err(|_| wrong(value, RATE))?);
                }
                "delay" => {
                    let delay = value.parse();
                    step.delay =
                        Some(delay.map_err(|_| wrong(value, "a length of time such as 20ms"))?);
                }
                "loss" | "loss-up" => {
                    let loss = probability(value).ok_or_else(|| wrong(value, PROBABILITY))?;
                    let place = match name {
                        "loss" => &mut step.loss,
                        _ => &mut step.loss_up,
                    };
                    *place = Some(loss);
                }
                _ => return Err(wrong(name, "rate, delay, loss or loss-up")),
            }
        }
        Ok(step)
    }
}

impl Changes {
    /// Changes with these steps and without repetition.
    pub fn of(steps: Vec<Step>) -> Self {
        Self {
            steps,
            ..Self::default()
        }
    }

    /// True if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The changes of the forward direction. Without a bottleneck it has no rates.
    #[must_use]
    pub fn there(&self, bottleneck: bool) -> Self {
        let mut there = self.clone();
        for step in &mut there.steps {
            step.rate = step.rate.filter(|_| bottleneck);
        }
        there
    }

    /// The changes of the reverse direction, with its own loss if there is one.
    #[must_use]
    pub fn back(&self, bottleneck: bool) -> Self {
        let mut back = self.there(bottleneck);
        for step in &mut back.steps {
            step.loss = step.loss_up.or(step.loss);
        }
        back
    }

    /// The columns of a table.
    pub const COLUMNS: &str = "seconds,mbps,delay_ms,loss,loss_up";

    /// MiB of the largest table: a million lines of many digits.
    pub const MIB: u64 = 64;

    /// Reads a table. Its first line names the columns ([`Changes::COLUMNS`]), `seconds` first. An empty cell leaves
    /// its value unchanged. Lines are in the order of their times; those that begin with `#` are comments. `alcc-lab
    /// trace convert --to rates` writes such a table.
    ///
    /// # Errors
    /// The line and the reason.
    pub fn from_csv(text: &str) -> Result<Self, ChangesError> {
        let mut lines = (1..).zip(text.lines().map(str::trim));
        let mut lines = lines
            .by_ref()
            .filter(|(_, text)| !text.is_empty() && !text.starts_with('#'));
        let wrong = |line, found: &str, want| ChangesError::Line {
            line,
            found: found.chars().take(40).collect(),
            want,
        };
        let head = "a first line of column names: seconds, then mbps, delay_ms, loss or loss_up";
        let (line, names) = lines.next().ok_or_else(|| wrong(1, "", head))?;
        let names: Vec<&str> = names.split(',').map(str::trim).collect();
        let known = |name: &&str| ["mbps", "delay_ms", "loss", "loss_up"].contains(name);
        let once = |name: &&str| names.iter().filter(|other| other == &name).count() == 1;
        if names.len() < 2
            || names[0] != "seconds"
            || !names[1..].iter().all(|n| known(n) && once(n))
        {
            return Err(wrong(line, &names.join(","), head));
        }
        let mut steps: Vec<Step> = Vec::new();
        for (line, text) in lines {
            let cells: Vec<&str> = text.split(',').map(str::trim).collect();
            if cells.len() != names.len() {
                return Err(wrong(line, text, "as many cells as the first line names"));
            }
            if steps.len() as u64 == MAX_STEPS {
                return Err(ChangesError::TooMany(MAX_STEPS + 1));
            }
            let mut step = Step::default();
            for (name, cell) in names.iter().zip(&cells) {
                if cell.is_empty() && *name != "seconds" {
                    continue;
                }
                let number = cell.parse::<f64>().ok();
                let number = number.filter(|n| (0.0..1e12).contains(n));
                let bad = |want| ChangesError::Cell {
                    line,
                    column: (*name).to_owned(),
                    found: cell.chars().take(40).collect(),
                    want,
                };
                let number = number
                    .ok_or_else(|| bad("a number from 0 on, in the unit of the column's name"))?;
                match *name {
                    "seconds" => {
                        step.at = Time::ZERO + Span::from_secs_f64(number);
                        if steps.last().is_some_and(|before| step.at < before.at) {
                            return Err(bad(
                                "no time before that of the line before: sort the lines by time",
                            ));
                        }
                    }
                    "mbps" => step.rate = Some(Rate::bps_f64(number * 1e6)),
                    "delay_ms" => step.delay = Some(Span::from_millis_f64(number)),
                    _ if number > 1.0 => return Err(bad(PROBABILITY)),
                    "loss" => step.loss = Some(number),
                    _ => step.loss_up = Some(number),
                }
            }
            steps.push(step);
        }
        if steps.is_empty() {
            return Err(wrong(
                line,
                &names.join(","),
                "lines of numbers below the column names",
            ));
        }
        Ok(Self::of(steps))
    }

    /// Draws random outages of a link of `rate` from time 0 until `end`, such as `every=60s..180s,length=500ms..2s`.
    /// `every` is the time from the end of one (or from 0) to the beginning of the next. `length` is that of each. Both
    /// are drawn evenly between their bounds.
    ///
    /// # Errors
    /// The error in the text; or more than a million steps.
    pub fn outages(text: &str, rate: Rate, end: Span, seed: u64) -> Result<Self, ChangesError> {
        let wrong = |found: &str, want| ChangesError::Draw {
            text: text.to_owned(),
            found: found.to_owned(),
            want,
        };
        let (mut every, mut length) = (None, None);
        for (name, value) in parts(text, OUTAGES, wrong)? {
            let bounds = range(value, |t| t.parse::<Span>().ok().map(Span::as_nanos));
            let place = match name {
                "every" => &mut every,
                "length" => &mut length,
                _ => return Err(wrong(name, OUTAGES)),
            };
            let bounds = bounds.filter(|bounds| *bounds.start() > 0);
            *place = Some(bounds.ok_or_else(|| wrong(value, OUTAGES))?);
        }
        let (Some(every), Some(length)) = (every, length) else {
            return Err(wrong(text, OUTAGES));
        };
        let most = 2 * end.as_nanos() / (every.start() + length.start());
        if most > MAX_STEPS {
            return Err(ChangesError::TooMany(most));
        }
        let mut rng = Rng::new(seed ^ 0x6f75_7461_6765);
        let mut draw = |bounds: &RangeInclusive<u64>| {
            let span = (bounds.end() - bounds.start()).saturating_add(1);
            Span::from_nanos(bounds.start() + rng.below(span))
        };
        let mut steps = Vec::new();
        let mut at = Time::ZERO + draw(&every);
        while at < Time::ZERO + end {
            let down = Step {
                at,
                rate: Some(Rate::ZERO),
                ..Step::default()
            };
            let up = Step {
                at: at + draw(&length),
                rate: Some(rate),
                ..Step::default()
            };
            at = up.at + draw(&every);
            steps.extend([down, up]);
        }
        Ok(Self::of(steps))
    }

    /// Draws random steps from time 0 until `length`: `every=5s,rate=10mbit..100mbit,delay=5ms..50ms,loss=0..1%`. Each
    /// quantity is drawn evenly between its bounds.
    ///
    /// # Errors
    /// The error in the text; or more than a million steps.
    pub fn random(text: &str, length: Span, seed: u64) -> Result<Self, ChangesError> {
        let wrong = |found: &str, want| ChangesError::Draw {
            text: text.to_owned(),
            found: found.to_owned(),
            want,
        };
        let mut every = Span::ZERO;
        let (mut rate, mut delay, mut loss, mut loss_up) = (None, None, None, None);
        for (name, value) in parts(text, RANDOM, wrong)? {
            let bad = || wrong(value, RANDOM);
            match name {
                "every" => every = value.parse().map_err(|_| bad())?,
                "rate" => {
                    let bounds = range(value, |t| t.parse::<Rate>().ok().map(Rate::as_bps));
                    rate = Some(bounds.ok_or_else(bad)?);
                }
                "delay" => {
                    let bounds = range(value, |t| t.parse::<Span>().ok().map(Span::as_nanos));
                    delay = Some(bounds.ok_or_else(bad)?);
                }
                "loss" => loss = Some(range(value, probability).ok_or_else(bad)?),
                "loss-up" => loss_up = Some(range(value, probability).ok_or_else(bad)?),
                _ => return Err(wrong(name, RANDOM)),
            }
        }
        let none = rate.is_none() && delay.is_none() && loss.is_none() && loss_up.is_none();
        if every.is_zero() || none {
            return Err(wrong(text, RANDOM));
        }
        let count = length.as_nanos().div_ceil(every.as_nanos());
        if count > MAX_STEPS {
            return Err(ChangesError::TooMany(count));
        }
        let mut rng = Rng::new(seed);
        let mut whole = |bounds: &Option<RangeInclusive<u64>>| {
            let bounds = bounds.as_ref()?;
            Some(bounds.start() + rng.below((bounds.end() - bounds.start()).saturating_add(1)))
        };
        // Losses have separate random numbers, so that rates and delays do not depend on them.
        let (mut losses, mut losses_up) = (Rng::new(!seed), Rng::new(!seed ^ 0x7570));
        let one = |bounds: &Option<RangeInclusive<f64>>, rng: &mut Rng| {
            let p = bounds.as_ref()?;
            Some(p.start() + (p.end() - p.start()) * rng.unit())
        };
        let steps = (0..count).map(|n| Step {
            at: Time::ZERO + every * n,
            rate: whole(&rate).map(Rate::bps),
            delay: whole(&delay).map(Span::from_nanos),
            loss: one(&loss, &mut losses),
            loss_up: one(&loss_up, &mut losses_up),
        });
        Ok(Self::of(steps.collect()))
    }
}

/// Parses `LOW..HIGH`.
fn range<T: PartialOrd>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<RangeInclusive<T>> {
    let (low, high) = text.split_once("..")?;
    let (low, high) = (read(low)?, read(high)?);
    (low <= high).then_some(low..=high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_as_people_type_them() {
        let step: Step = "1.5s:rate=20mbit,delay=50ms,loss=1%".parse().unwrap();
        assert_eq!(step.at, Time::from_millis(1500));
        assert_eq!(step.rate, Some(Rate::mbps(20)));
        assert_eq!(step.delay, Some(Span::from_millis(50)));
        assert_eq!(step.loss, Some(0.01));
        for nothing in ["1s:rate=0", "1s:rate=0bit", "1s:rate=0mbit"] {
            assert_eq!(nothing.parse::<Step>().unwrap().rate, Some(Rate::ZERO));
        }
        let step: Step = "0s:loss=0.5".parse().unwrap();
        assert_eq!((step.rate, step.delay, step.loss), (None, None, Some(0.5)));
        for (text, found) in [
            ("5s", "'5s'"),
            ("5:rate=1mbit", "'5'"),
            ("5s:", "''"),
            ("5s:rate=fast", "'fast'"),
            ("5s:loss=2", "'2'"),
            ("5s:width=3", "'width'"),
            ("5s:rate=1mbit,rate=2mbit", "'rate'"),
        ] {
            let error = text.parse::<Step>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("step '{text}': {found}: expected ")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_table_leaves_what_it_leaves_empty() {
        let table = "# measured\nseconds,mbps,delay_ms,loss\n0,12,20,\n2.5,,,0.02\n\n5,0.5,30,0\n";
        let changes = Changes::from_csv(table).unwrap();
        let text: Vec<Step> = [
            "0s:rate=12mbit,delay=20ms",
            "2500ms:loss=2%",
            "5s:rate=500kbit,delay=30ms,loss=0",
        ]
        .map(|t| t.parse().unwrap())
        .to_vec();
        assert_eq!(changes, Changes::of(text));
        for (table, line, found) in [
            ("", "line 1", "''"),
            ("0,12\n", "line 1", "'0,12'"),
            ("seconds,mbit\n", "line 1", "'seconds,mbit'"),
            ("seconds,mbps,mbps\n", "line 1", "'seconds,mbps,mbps'"),
            ("seconds,mbps\n1\n", "line 2", "'1'"),
            ("seconds,mbps\n1,2\n2,-1\n", "line 3, column mbps", "'-1'"),
            (
                "seconds,mbps\n1,2\n2,3 kbit\n",
                "line 3, column mbps",
                "'3 kbit'",
            ),
            ("seconds,loss\n1,2\n", "line 2, column loss", "'2'"),
            ("seconds,loss_up\n1,2\n", "line 2, column loss_up", "'2'"),
            (
                "seconds,mbps\n0,5\n2,6\n1,7\n",
                "line 4, column seconds",
                "'1'",
            ),
        ] {
            let error = Changes::from_csv(table).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{line}: {found}: expected ")),
                "{error}"
            );
        }
    }

    #[test]
    fn drawn_steps_lie_between_their_bounds_and_repeat_with_the_seed() {
        let text = "every=5s,rate=10mbit..100mbit,delay=5ms..50ms,loss=0..1%";
        let draw = |seed| Changes::random(text, Span::from_secs(5000), seed).unwrap();
        let changes = draw(3);
        assert_eq!(changes, draw(3));
        assert_ne!(changes, draw(4));
        assert_eq!(changes.steps.len(), 1000);
        let mean = |f: &dyn Fn(&Step) -> f64| changes.steps.iter().map(f).sum::<f64>() / 1000.0;
        // Uniform distribution: the mean is the middle, its standard error range / sqrt(12 * 1000).
        assert!((mean(&|s| s.rate.unwrap().as_mbps_f64()) - 55.0).abs() < 4.0 * 0.82);
        assert!((mean(&|s| s.delay.unwrap().as_millis_f64()) - 27.5).abs() < 4.0 * 0.41);
        assert!((mean(&|s| s.loss.unwrap()) - 0.005).abs() < 4.0 * 0.000_091);
        for step in &changes.steps {
            assert!((Rate::mbps(10)..=Rate::mbps(100)).contains(&step.rate.unwrap()));
            assert!(step.delay.unwrap() <= Span::from_millis(50));
        }
        for bad in [
            "",
            "every=5s",
            "rate=1mbit..2mbit",
            "every=5s,rate=2mbit..1mbit",
            "every=5s,x=1..2",
            "every=5s,every=5s,loss=0..1",
        ] {
            assert!(
                Changes::random(bad, Span::from_secs(1), 1).is_err(),
                "{bad}"
            );
        }
        let wrong = Changes::outages("every=1s", Rate::mbps(1), Span::from_secs(1), 1);
        let wrong = wrong.unwrap_err().to_string();
        assert!(
            wrong.starts_with("'every=1s': '1s': expected every=T..T,length="),
            "{wrong}"
        );
        let many = Changes::random("every=1ns,loss=0..1", Span::from_secs(1), 1);
        assert_eq!(
            many.unwrap_err().to_string(),
            "1000000000 steps: there may be 1000000: take a longer every=; --radio jitter holds single packets"
        );
    }

    #[test]
    fn the_way_back_has_a_loss_of_its_own() {
        let steps = [
            "1s:loss=1%,rate=9mbit",
            "2s:loss-up=3%",
            "3s:loss=1%,loss-up=0",
        ];
        let changes = Changes::of(steps.iter().map(|t| t.parse().unwrap()).collect());
        let losses = |c: &Changes| c.steps.iter().map(|s| s.loss).collect::<Vec<_>>();
        assert_eq!(losses(&changes), [Some(0.01), None, Some(0.01)]);
        assert_eq!(
            losses(&changes.back(true)),
            [Some(0.01), Some(0.03), Some(0.0)]
        );
        assert_eq!(changes.back(true).steps[0].rate, Some(Rate::mbps(9)));
        assert_eq!(changes.back(false).steps[0].rate, None);
        let drawn = |text| Changes::random(text, Span::from_secs(50), 3).unwrap();
        let (down, both) = (
            drawn("every=5s,loss=0..1%"),
            drawn("every=5s,loss=0..1%,loss-up=0..1%"),
        );
        assert_eq!(losses(&down), losses(&both));
        assert_ne!(losses(&both), losses(&both.back(true)));
        let table = Changes::from_csv("seconds,loss,loss_up\n1,,0.5\n").unwrap();
        assert_eq!(losses(&table.back(true)), [Some(0.5)]);
    }
}
