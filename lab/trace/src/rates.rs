// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reader for throughput over time in the formats of other programs. Every column is identified by its name and unit,
//! or the file is refused, because a wrong unit would give a wrong link unnoticed.
mod columns;
#[cfg(test)]
mod tests;

use crate::convert::{Gather, LARGEST};
use crate::parse::{excerpt, read_text};
use crate::{Trace, TraceError};
use alcc_units::Span;
use columns::{
    Clock, Unit, clock_of, find_clock, is_of, is_rate, kbit, listed, no_unit, place, unit_of,
    unit_of_name, words,
};
use serde_json::Value;
use std::borrow::Cow;
use std::io::Read;

/// Properties of a file of rates that it does not contain itself.
#[derive(Clone, Debug, Default)]
pub struct RatesForm {
    /// The columns by name or by number from 1: that of the rate, or those of time and rate with a
    /// comma between them.
    pub column: Option<String>,
    /// The unit of the rate: `kbit`, `Mbit/s`, `bytes/s`; `bytes`: those of the row's interval.
    pub unit: Option<String>,
    /// Duration of each row, if rows have no time.
    pub every: Option<Span>,
}

/// The positions of the values in a row.
struct Layout {
    clock: Clock,
    time: usize,
    rate: usize,
    /// `None`: it is in the field after the rate.
    unit: Option<Unit>,
    /// True if rows of one time are averaged.
    mean: bool,
}

/// Rows of a table, each read as it comes: a file may have very many.
struct Rows<'a> {
    form: &'a RatesForm,
    header: Option<Vec<String>>,
    layout: Option<Layout>,
    /// Number of fields in the first line.
    columns: usize,
    steps: Steps,
}

impl Rows<'_> {
    /// A row by its number from 1.
    fn add(&mut self, line: u64, fields: &[Cow<'_, str>]) -> Result<(), TraceError> {
        let header = self.header.as_ref();
        if self.layout.is_none() {
            self.columns = header.map_or(fields.len(), Vec::len);
        }
        let mut more = (1usize..).zip(fields).skip(self.columns);
        if let Some((n, found)) = more.find(|(_, field)| !field.is_empty()) {
            return Err(TraceError::BadCell {
                line,
                column: n.to_string(),
                found: excerpt(found.as_bytes()),
                want: "a cell of a column that the first line has: with decimal commas separate the columns by semicolons",
            });
        }
        let layout = match &mut self.layout {
            Some(layout) => layout,
            none => none.insert(Layout::of(header, line, fields, self.form)?),
        };
        layout.read(header, line, fields, &mut self.steps)
    }
}

impl Trace {
    /// From throughput over time: each row has the start of an interval and its rate. A rate holds
    /// until the next row's time. The last one holds as long as the one before it (1 s if it is
    /// alone). Without a header row these are seconds and Mbit/s; else the names of the columns identify
    /// what they are, and `form` overrides them.
    ///
    /// Understood as they are: iperf3's JSON, the JSON of sabre (`duration_ms`, `bandwidth_kbps`),
    /// rows `0.57,Mbits/sec` of one second each (NYU-METS), G-NetTrack's CSV with `DL_bitrate` in
    /// kbit/s (Irish 5G), and logs of cake-autorate.
    ///
    /// # Errors
    /// Line and reason: an unknown column or unit, not a number, negative, time goes back; too much,
    /// or nothing at all.
    pub fn from_rates(text: &str, form: &RatesForm) -> Result<Self, TraceError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rows = Rows {
            form,
            header: None,
            layout: None,
            columns: 0,
            steps: Steps {
                out: Gather::of(text),
                ..Steps::default()
            },
        };
        if text.trim_start().starts_with(['{', '[']) {
            objects(text, &mut rows)?;
        } else {
            lines(text, &mut rows)?;
        }
        rows.steps.trace()
    }

    /// The same from a reader, to its end.
    ///
    /// # Errors
    /// Adds the errors of the reader to those of [`Trace::from_rates`]; the input is not text, or it is too long.
    pub fn read_rates(reader: impl Read, form: &RatesForm) -> Result<Self, TraceError> {
        Self::from_rates(&read_text(reader, LARGEST, "seconds,mbps")?, form)
    }

    /// From rates at given times: `(seconds, Mbit/s)`, as [`Trace::from_rates`].
    ///
    /// # Errors
    /// As [`Trace::from_rates`]; lines are positions from 1.
    pub fn from_steps(rates: impl IntoIterator<Item = (f64, f64)>) -> Result<Self, TraceError> {
        let mut steps = Steps::default();
        for ((seconds, mbps), line) in rates.into_iter().zip(1u64..) {
            let bad = |n: f64, want| TraceError::BadField {
                line,
                found: n.to_string(),
                want,
            };
            let number = |n: f64, want| {
                let found = (0.0..1e12).contains(&n).then_some(n);
                found.ok_or_else(|| bad(n, want))
            };
            let seconds = number(seconds, "a time in seconds from 0 on")?;
            let mbps = number(mbps, "a rate in Mbit/s from 0 on")?;
            if !steps.at(seconds * 1e3, mbps, false, false)? {
                return Err(bad(seconds, LATER));
            }
        }
        steps.trace()
    }
}

/// Rates over time, which are converted to opportunities as soon as known.
#[derive(Default)]
struct Steps {
    out: Gather,
    /// Start of the first row, ms.
    first: Option<f64>,
    /// The rate that holds: its start in ms, Mbit/s, volume; silence is one however many rows it
    /// has.
    open: Option<(f64, f64, bool)>,
    /// Start and width of the last row, ms.
    last: Option<(f64, Option<f64>)>,
    /// Duration of the row before the last one, ms.
    width: Option<f64>,
    /// Number of rows with the last time, for their mean.
    same: f64,
}

impl Steps {
    /// A rate from `ms` on; false if that is not later than the row before.
    fn at(&mut self, ms: f64, rate: f64, volume: bool, mean: bool) -> Result<bool, TraceError> {
        if let Some((before, _)) = self.last {
            if mean && ms == before {
                self.same += 1.0;
                match &mut self.open {
                    Some(open) if open.0 == ms => open.1 += (rate - open.1) / self.same,
                    // The mean of the silence before and of this row.
                    _ => self.begin(ms, rate / self.same, volume)?,
                }
                return Ok(true);
            }
            if ms <= before {
                return Ok(false);
            }
            self.width = Some(ms - before);
        }
        self.last = Some((ms, None));
        self.same = 1.0;
        self.begin(ms, rate, volume)?;
        Ok(true)
    }

    fn lasting(&mut self, width: f64, rate: f64, volume: bool) -> Result<(), TraceError> {
        let start = self
            .last
            .map_or(0.0, |(at, width)| at + width.unwrap_or(0.0));
        self.last = Some((start, Some(width)));
        self.begin(start, rate, volume)
    }

    fn begin(&mut self, ms: f64, rate: f64, volume: bool) -> Result<(), TraceError> {
        if rate == 0.0 && self.open.is_some_and(|open| open.1 == 0.0) {
            return Ok(());
        }
        self.end_at(ms)?;
        self.first.get_or_insert(ms);
        self.open = Some((ms, rate, volume));
        Ok(())
    }

    /// The rate that holds ends.
    fn end_at(&mut self, ms: f64) -> Result<(), TraceError> {
        let (Some((start, rate, volume)), Some(first)) = (self.open, self.first) else {
            return Ok(());
        };
        let width = ms - start;
        let mbps = if volume { rate * 1e3 / width } else { rate };
        self.out.fill(start - first, width, mbps * 125.0)
    }

    fn trace(mut self) -> Result<Trace, TraceError> {
        let (Some(first), Some((last, own))) = (self.first, self.last) else {
            return Err(form_error(
                "it has no row with a time and a rate: write lines of seconds,mbps",
            ));
        };
        let end = last + own.or(self.width).unwrap_or(1000.0);
        self.end_at(end)?;
        // A trace ends with its last opportunity, so silence at the end needs one behind it.
        if self.open.is_some_and(|open| open.1 == 0.0) {
            self.out.end_at(end - first);
        }
        self.out.trace().map_err(|error| match error {
            TraceError::Empty => {
                form_error("its rates carry less than one packet of 1500 bytes: check their unit")
            }
            error => error,
        })
    }
}

impl Layout {
    fn of(
        header: Option<&Vec<String>>,
        line: u64,
        first: &[Cow<'_, str>],
        form: &RatesForm,
    ) -> Result<Self, TraceError> {
        let given = form.unit.as_deref().map(|unit| {
            unit_of(unit).ok_or_else(|| {
                form_error(format!(
                    "unit '{}' is not known: use bit, kbit, Mbit, Gbit, bytes/s, kB/s, MB/s or bytes (of a row's interval)",
                    excerpt(unit.as_bytes())
                ))
            })
        });
        let given = given.transpose()?;
        let every = form.every.map(|every| Clock::Every(every.as_millis_f64()));
        if let Some(columns) = &form.column {
            let place = |name: &str| place(name.trim(), header, first.len());
            let (time, rate) = match columns.split_once(',') {
                Some((time, rate)) => (Some(place(time)?), place(rate)?),
                None => (None, place(columns)?),
            };
            let name = header.map(|header| header[rate].as_str());
            let unit = given
                .or_else(|| name.and_then(unit_of_name))
                .or_else(|| kbit(header, rate));
            let Some(unit) = unit else {
                return Err(no_unit(name.unwrap_or(columns)));
            };
            let mean = header
                .is_some_and(|header| is_of(header, "rsrp") || is_of(header, "cakedlratekbps"));
            let (clock, time) = match (every, time) {
                (Some(_), Some(time)) => {
                    let number = || (time + 1).to_string();
                    let name = header.map_or_else(number, |header| header[time].clone());
                    return Err(own_times(&name));
                }
                (Some(clock), None) => (clock, 0),
                (None, Some(time)) => {
                    let name = header.map_or("", |header| header[time].as_str());
                    (clock_of(name).unwrap_or(Clock::At(1e3)), time)
                }
                (None, None) => find_clock(header)?,
            };
            return Ok(Self {
                clock,
                time,
                rate,
                unit: Some(unit),
                mean,
            });
        }
        let Some(header) = header else {
            let seconds = Clock::At(1e3);
            let mbit = given.unwrap_or(Unit {
                mbit: 1.0,
                volume: false,
            });
            let plain = |clock, rate| Self {
                clock,
                time: 0,
                rate,
                unit: Some(mbit),
                mean: false,
            };
            return match (first.len(), every) {
                (2, _) if unit_of(&first[1]).is_some() => Ok(Self {
                    clock: every.unwrap_or(Clock::Every(1e3)),
                    time: 0,
                    rate: 0,
                    unit: given,
                    mean: false,
                }),
                (1, Some(every)) => Ok(plain(every, 0)),
                (1, None) => Err(form_error(format!(
                    "line {line}: found one column: write seconds,mbps, or give the interval of the rows (--every)"
                ))),
                (2, None) => Ok(plain(seconds, 1)),
                (n, _) => Err(form_error(format!(
                    "line {line}: found {n} columns without names: say which are time and rate (--column 1,2), and the rate's unit (--unit)"
                ))),
            };
        };
        let rates: Vec<usize> = (0..header.len()).filter(|n| is_rate(&header[*n])).collect();
        let down: Vec<usize> = (rates.iter().copied())
            .filter(|n| {
                words(&header[*n])
                    .iter()
                    .any(|w| ["dl", "down", "downlink", "download"].contains(&w.as_str()))
            })
            .collect();
        let cake = header
            .iter()
            .position(|name| name == "DL_ACHIEVED_RATE_KBPS");
        let rate = match (cake.as_ref(), rates.as_slice(), down.as_slice()) {
            (Some(n), ..) | (None, [n], _) | (None, _, [n]) => *n,
            (None, [], _) => {
                return Err(form_error(format!(
                    "no column has the name of a rate ({}): choose one (--column)",
                    listed(header)
                )));
            }
            (None, found, _) => {
                let names: Vec<String> = found.iter().map(|n| header[*n].clone()).collect();
                return Err(form_error(format!(
                    "several columns are rates ({}): choose one (--column)",
                    listed(&names)
                )));
            }
        };
        let name = &header[rate];
        let unit = given
            .or_else(|| unit_of_name(name))
            .or_else(|| kbit(Some(header), rate));
        let unit = unit.ok_or_else(|| no_unit(name))?;
        let (clock, time) = match (every, find_clock(Some(header))) {
            (Some(_), Ok((_, time))) => return Err(own_times(&header[time])),
            (Some(clock), Err(_)) => (clock, 0),
            (None, found) => found?,
        };
        let mean = cake.is_some() || is_of(header, "rsrp");
        Ok(Self {
            clock,
            time,
            rate,
            unit: Some(unit),
            mean,
        })
    }

    fn read(
        &self,
        header: Option<&Vec<String>>,
        line: u64,
        fields: &[Cow<'_, str>],
        steps: &mut Steps,
    ) -> Result<(), TraceError> {
        let field = |n: usize| fields.get(n).map_or("", AsRef::as_ref);
        let bad = |n: usize, want| {
            let name = header.and_then(|header| header.get(n));
            let number = || (n + 1).to_string();
            TraceError::BadCell {
                line,
                column: name.map_or_else(number, |name| excerpt(name.as_bytes())),
                found: excerpt(field(n).as_bytes()),
                want,
            }
        };
        let unit = match self.unit {
            Some(unit) => unit,
            None => unit_of(field(self.rate + 1))
                .ok_or_else(|| bad(self.rate + 1, "a unit of a rate: Kbits/sec, Mbits/sec"))?,
        };
        let rate = number(field(self.rate)).ok_or_else(|| {
            let want = if unit.volume {
                "an amount of data: write a number from 0 on"
            } else {
                "a rate: write a number from 0 on, and its unit in the column's name or by --unit"
            };
            bad(self.rate, want)
        })? * unit.mbit;
        match self.clock {
            Clock::Every(width) => steps.lasting(width, rate, unit.volume),
            Clock::Lasting(scale) => {
                let width = number(field(self.time)).filter(|width| *width > 0.0);
                let width = width.ok_or_else(|| bad(self.time, "a duration above 0"))?;
                steps.lasting(width * scale, rate, unit.volume)
            }
            Clock::At(scale) => {
                let text = field(self.time);
                let date = date(text).map(|seconds| seconds * 1e3);
                let ms = date.or_else(|| Some(number(text)? * scale));
                let ms = ms.ok_or_else(|| bad(self.time, "a time in seconds: name its column, or give the interval of the rows (--column, --every)"))?;
                match steps.at(ms, rate, unit.volume, self.mean)? {
                    true => Ok(()),
                    false => Err(bad(self.time, LATER)),
                }
            }
        }
    }
}

/// The message for a time that goes back.
const LATER: &str = "a time later than that of the row before: sort the rows by time, each time once, or choose the columns of time and rate (--column TIME,RATE)";

/// A length of rows that have times.
fn own_times(column: &str) -> TraceError {
    form_error(format!(
        "column {} has the times of the rows, and --every says how long each holds: leave --every out, or choose the column of the rate alone (--column RATE)",
        excerpt(column.as_bytes())
    ))
}

fn form_error(what: impl Into<String>) -> TraceError {
    TraceError::Form { what: what.into() }
}

/// A number that is not negative, of sensible size.
fn number(field: &str) -> Option<f64> {
    field.parse().ok().filter(|n| (0.0..1e13).contains(n))
}

/// `2019.11.25_15.34.34`, `2019-11-25 15:34:34.5`: seconds since 1970.
fn date(field: &str) -> Option<f64> {
    let parts: Vec<&str> = field.split(|c: char| !c.is_ascii_digit()).collect();
    let (Some(whole), rest) = (parts.get(..6)?.try_into().ok(), parts.get(6)) else {
        return None;
    };
    let whole: [&str; 6] = whole;
    let number = |n: usize, range: std::ops::RangeInclusive<i64>| {
        whole[n].parse::<i64>().ok().filter(|v| range.contains(v))
    };
    let (year, month, day) = (
        number(0, 1970..=9999)?,
        number(1, 1..=12)?,
        number(2, 1..=31)?,
    );
    let (hour, minute, second) = (number(3, 0..=23)?, number(4, 0..=59)?, number(5, 0..=60)?);
    // Days since 1970, with years that begin in March.
    let (y, m) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    let fraction: f64 = match rest {
        None | Some(&"") => 0.0,
        Some(digits) => format!("0.{digits}").parse().ok()?,
    };
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) as f64 + fraction)
}

/// Header and rows of a text file.
fn lines(text: &str, rows: &mut Rows<'_>) -> Result<(), TraceError> {
    let mut separator = None;
    let is_log = text
        .lines()
        .any(|line| line.starts_with("DATA_HEADER;") || line.starts_with("DATA;"));
    for (line, n) in text.lines().zip(1u64..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if is_log && !line.starts_with("DATA") {
            continue;
        }
        let by = *separator.get_or_insert_with(|| {
            [';', ',', '\t']
                .into_iter()
                .find(|c| line.contains(*c))
                .unwrap_or(' ')
        });
        let fields: Vec<Cow<'_, str>> = match by {
            ' ' => line.split_whitespace().map(Cow::Borrowed).collect(),
            _ => line.split(by).map(|field| cell(field, by)).collect(),
        };
        let is_header = if is_log {
            fields[0] == "DATA_HEADER"
        } else {
            rows.header.is_none()
                && rows.layout.is_none()
                && fields
                    .iter()
                    .all(|f| number(f).is_none() && date(f).is_none())
        };
        if is_header {
            rows.header = Some(fields.into_iter().map(Cow::into_owned).collect());
        } else if is_log && (fields[0] != "DATA" || rows.header.is_none()) {
            return Err(form_error(format!(
                "line {n}: a log of cake-autorate without its line DATA_HEADER: put that before the others"
            )));
        } else {
            rows.add(n, &fields)?;
        }
    }
    Ok(())
}

/// A field without quotes. Where something else separates, a comma is that of a decimal.
fn cell(field: &str, separator: char) -> Cow<'_, str> {
    let field = field.trim().trim_matches('"');
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    match field.split_once(',') {
        Some((whole, part)) if separator != ',' && digits(whole) && digits(part) => {
            format!("{whole}.{part}").into()
        }
        _ => field.into(),
    }
}

/// Header and rows of a JSON file: iperf3's, or a list of objects.
fn objects(text: &str, rows: &mut Rows<'_>) -> Result<(), TraceError> {
    /// Its values take some ten times as much memory.
    const LARGEST_JSON: usize = 1 << 27;
    if text.len() > LARGEST_JSON {
        return Err(form_error(
            "its JSON is larger than 128 MiB: write it as lines of seconds,mbps",
        ));
    }
    let value: Value = serde_json::from_str(text)
        .map_err(|e| form_error(format!("it is not complete JSON ({e}): write it anew")))?;
    let unknown = || {
        form_error(
            "its JSON has neither iperf3's intervals nor a list of objects with a time and a rate: write seconds,mbps",
        )
    };
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => Cow::from(text.clone()),
        Some(value) => value.to_string().into(),
        None => Cow::default(),
    };
    if let Some(intervals) = value.get("intervals").and_then(Value::as_array) {
        let names = ["start", "bits_per_second"];
        rows.header = Some(vec!["seconds".to_owned(), names[1].to_owned()]);
        for (interval, n) in intervals.iter().zip(1u64..) {
            let sum = interval.get("sum").ok_or_else(unknown)?;
            if sum.get("omitted") == Some(&Value::Bool(true)) {
                continue;
            }
            rows.add(n, &names.map(|name| text(sum.get(name))))?;
        }
        return Ok(());
    }
    let list = value.as_array().ok_or_else(unknown)?;
    let Some(first) = list.first() else {
        return Ok(());
    };
    let header = first.as_object().ok_or_else(unknown)?.keys().cloned();
    let header: Vec<String> = header.collect();
    rows.header = Some(header.clone());
    for (object, n) in list.iter().zip(1u64..) {
        let fields: Vec<_> = header.iter().map(|name| text(object.get(name))).collect();
        rows.add(n, &fields)?;
    }
    Ok(())
}
