// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion from and to other formats: packet arrivals of a capture or log, and throughput over time. The latter is
//! read in `rates.rs`.
use crate::parse::read_text;
use crate::{MAX_OPPORTUNITIES, OPPORTUNITY, Trace, TraceError};
use alcc_units::{Bytes, Span};
use std::io::{Read, Write};

impl Trace {
    /// Parses packet arrivals. Each line has a time in `unit`s (fractions allowed). After a comma or white space come
    /// the packet's bytes; without these it counts as `size`. A first line that begins with a letter is a header; lines
    /// that begin with `#` are comments. Times count from the first. Bytes are gathered into opportunities of 1500,
    /// each at the time of the packet that completes it.
    ///
    /// # Errors
    /// Line and reason: a time that goes back is refused. Also arrivals that last less than 1 ms or do not fill one opportunity.
    pub fn from_packets(text: &str, unit: Span, size: Bytes) -> Result<Self, TraceError> {
        let mut out = Gather::of(text);
        let (mut first, mut before) = (None, 0);
        for (line, fields) in records(text) {
            let written = fields.first().copied();
            let time = decimal(line, written)?;
            if time < before {
                return Err(TraceError::BadField {
                    line,
                    found: crate::parse::excerpt(written.unwrap_or_default().as_bytes()),
                    want: "a time at or after that of the packet before: sort the lines by time",
                });
            }
            before = time;
            let bytes = match fields.get(1) {
                None => size.get(),
                Some(field) => match field.parse() {
                    Ok(n) if n <= u64::from(u32::MAX) => n,
                    _ => {
                        return Err(TraceError::BadField {
                            line,
                            found: crate::parse::excerpt(field.as_bytes()),
                            want: "a whole number of bytes",
                        });
                    }
                },
            };
            let since = time - *first.get_or_insert(time);
            let ns = since.saturating_mul(u128::from(unit.as_nanos())) / DECIMALS;
            out.add((ns / 1_000_000) as f64, bytes as f64)?;
        }
        out.trace().map_err(|error| match error {
            TraceError::Empty => TraceError::Form {
                what: "its packets are less than one of 1500 bytes: write lines of time,bytes"
                    .to_owned(),
            },
            error => error,
        })
    }

    /// The same from a reader, to its end.
    ///
    /// # Errors
    /// The errors of [`Trace::from_packets`] and of the reader; the input is not text, or it is too long.
    pub fn read_packets(reader: impl Read, unit: Span, size: Bytes) -> Result<Self, TraceError> {
        Self::from_packets(&read_text(reader, LARGEST, "time,bytes")?, unit, size)
    }

    /// Makes a trace from arrivals in order of time, each with its bytes. Bytes are gathered into opportunities as in
    /// [`Trace::from_packets`], but times count from the caller's zero.
    ///
    /// # Errors
    /// There is less than one opportunity, all are in the first millisecond, there are too many, or time goes back.
    pub fn from_arrivals(
        arrivals: impl IntoIterator<Item = (Span, u64)>,
    ) -> Result<Self, TraceError> {
        let mut out = Gather::default();
        for (at, bytes) in arrivals {
            out.add((at.as_nanos() / 1_000_000) as f64, bytes as f64)?;
        }
        Self::new(out.times)
    }

    /// Writes throughput over time as `seconds,mbps` with a header line, one line per complete `bin` (whole
    /// milliseconds, at least 1). An opportunity at a bin's edge belongs to the later bin, except the very last one,
    /// after which there is none.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write_rates(&self, bin: Span, mut to: impl Write) -> std::io::Result<()> {
        let width = (bin.as_nanos() / 1_000_000).max(1);
        let mbit = (OPPORTUNITY.get() * 8) as f64 / 1e3 / width as f64;
        writeln!(to, "seconds,mbps")?;
        for (n, count) in self.windows(Span::from_millis(width)).enumerate() {
            let start = n as u64 * width;
            writeln!(
                to,
                "{}.{:03},{:.6}",
                start / 1000,
                start % 1000,
                f64::from(count) * mbit
            )?;
        }
        to.flush()
    }
}

/// Lines that hold data, with their number from 1.
fn records(text: &str) -> impl Iterator<Item = (u64, Vec<&str>)> {
    text.lines().zip(1u64..).filter_map(|(line, n)| {
        let line = line.trim();
        let header = n == 1 && line.starts_with(|c: char| c.is_ascii_alphabetic());
        if line.is_empty() || line.starts_with('#') || header {
            return None;
        }
        let fields = line.split([',', ';', ' ', '\t']).filter(|f| !f.is_empty());
        Some((n, fields.take(3).collect()))
    })
}

/// Maximum size of a text, MiB: a longer one would not fit into memory together with its result.
pub(crate) const LARGEST: u64 = 1 << 10;

const DECIMALS: u128 = 1_000_000_000;

/// A decimal number with at most nine decimals, exact: nanoseconds since 1970 do not fit into a
/// float.
fn decimal(line: u64, field: Option<&str>) -> Result<u128, TraceError> {
    let field = field.unwrap_or("");
    let exact = || {
        let (whole, part) = field.split_once('.').unwrap_or((field, ""));
        let digits = |text: &str| text.bytes().all(|c| c.is_ascii_digit());
        if whole.is_empty() || whole.len() > 20 || part.len() > 9 || !digits(whole) || !digits(part)
        {
            return None;
        }
        let part: u128 = format!("{part:0<9}").parse().ok()?;
        Some(whole.parse::<u128>().ok()? * DECIMALS + part)
    };
    exact().ok_or_else(|| TraceError::BadField {
        line,
        found: crate::parse::excerpt(field.as_bytes()),
        want: "a time: a number with at most nine decimals",
    })
}

/// Maximum number of opportunities from a short text; each byte adds one. So memory stays below 64 MB plus four times
/// the text's size.
pub(crate) const MAX_OF_TEXT: usize = 11 << 20;

/// Bytes over time, gathered into opportunities.
pub(crate) struct Gather {
    bytes: f64,
    times: Vec<u32>,
    most: usize,
}

impl Default for Gather {
    fn default() -> Self {
        Self {
            bytes: 0.0,
            times: Vec::new(),
            most: MAX_OPPORTUNITIES,
        }
    }
}

impl Gather {
    /// A collector with the limit for this text.
    pub(crate) fn of(text: &str) -> Self {
        Self {
            most: MAX_OPPORTUNITIES.min(MAX_OF_TEXT + text.len()),
            ..Self::default()
        }
    }

    fn add(&mut self, ms: f64, bytes: f64) -> Result<(), TraceError> {
        let size = OPPORTUNITY.get() as f64;
        if ms > f64::from(u32::MAX) {
            return Err(TraceError::TooManyMade);
        }
        self.bytes += bytes;
        while self.bytes >= size {
            if self.times.len() == self.most {
                return Err(TraceError::TooManyMade);
            }
            self.bytes -= size;
            self.times.push(ms as u32);
        }
        Ok(())
    }

    /// The last opportunity is moved to `ms`, which keeps the capacity.
    pub(crate) fn end_at(&mut self, ms: f64) {
        if let Some(last) = self.times.last_mut() {
            *last = (*last).max(ms as u32);
        }
    }

    pub(crate) fn trace(self) -> Result<Trace, TraceError> {
        Trace::new(self.times)
    }

    /// Adds `rate`, in bytes per ms, from `start` for `width` ms.
    pub(crate) fn fill(&mut self, start: f64, width: f64, rate: f64) -> Result<(), TraceError> {
        // Tolerance, so that a sum of fractions that make a whole packet counts as one.
        const SLACK: f64 = 1e-6;
        let size = OPPORTUNITY.get() as f64;
        let have = self.bytes;
        let whole = ((have + rate * width) / size + SLACK).floor();
        if start + width > f64::from(u32::MAX) || whole > self.most as f64 {
            return Err(TraceError::TooManyMade);
        }
        for n in 1..=whole as u64 {
            if self.times.len() == self.most {
                return Err(TraceError::TooManyMade);
            }
            let wait = ((n as f64 * size - have) / rate).clamp(0.0, width);
            // The last bit of a sum of fractions may differ from the next interval's start.
            let before = self.times.last().copied().unwrap_or(0);
            self.times.push(((start + wait) as u32).max(before));
        }
        self.bytes = (have + rate * width - whole * size).max(0.0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RatesForm;

    #[test]
    fn packets_in_any_unit() {
        let size = Bytes::new(1500);
        let ns = "time,bytes\n1700000000000000000\n1700000000002000000\n1700000000004999999\n";
        let us = "# log\n10.5 1500\n\n2010.5 1500\n5010.4\t1500\n";
        for (text, unit) in [(ns, Span::from_nanos(1)), (us, Span::from_micros(1))] {
            let trace = Trace::from_packets(text, unit, size).unwrap();
            assert_eq!(trace.opportunities(), [0, 2, 4], "{text}");
        }
        // 1000 + 1000 fill one opportunity and leave 500; the third fills the second exactly
        let small = Trace::from_packets("0\n3\n7\n", Span::from_millis(1), Bytes::new(1000));
        assert_eq!(small.unwrap().opportunities(), [3, 7]);
    }

    #[test]
    fn throughput_becomes_evenly_spread_opportunities() {
        // 12 Mbit/s is one opportunity per ms, 6 Mbit/s one per 2 ms; the second interval is as
        // long as the first
        let trace =
            Trace::from_rates("seconds,mbps\n5.000,12\n5.004,6\n", &RatesForm::default()).unwrap();
        assert_eq!(trace.opportunities(), [1, 2, 3, 4, 6, 8]);
        let zero = Trace::from_rates("0,0\n1,0\n", &RatesForm::default());
        assert_eq!(
            zero.unwrap_err().to_string(),
            "its rates carry less than one packet of 1500 bytes: check their unit"
        );
    }

    #[test]
    fn throughput_by_hand() {
        let trace = Trace::new(vec![0, 1, 9, 10, 25, 30]).unwrap();
        let mut text = Vec::new();
        trace.write_rates(Span::from_millis(10), &mut text).unwrap();
        // 3, 1 and 1 opportunities of 12,000 bit in 10 ms
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "seconds,mbps\n0.000,3.600000\n0.010,1.200000\n0.020,1.200000\n"
        );
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text| {
            Trace::from_rates(text, &RatesForm::default())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error("0,1\n1,x\n"),
            "line 2, column 2: 'x' is not a rate: write a number from 0 on, and its unit in the column's name or by --unit"
        );
        assert!(error("0\n").contains("--every"), "{}", error("0\n"));
        assert_eq!(
            error("0,1\n0,1\n"),
            "line 2, column 1: '0' is not a time later than that of the row before: sort the rows by time, each time once, or choose the columns of time and rate (--column TIME,RATE)"
        );
        assert!(error("0,1e11\n").contains("more than"));
        let back = Trace::from_packets(
            "# log\n3,1500\n5,1500\n4.9,1500\n",
            Span::from_millis(1),
            OPPORTUNITY,
        );
        assert_eq!(
            back.unwrap_err().to_string(),
            "line 4: '4.9' is not a time at or after that of the packet before: sort the lines by time"
        );
        assert!(Trace::from_packets("1,-5", Span::from_millis(1), OPPORTUNITY).is_err());
        for none in ["", "1,20\n"] {
            let error = Trace::from_packets(none, Span::from_millis(1), OPPORTUNITY).unwrap_err();
            assert!(error.to_string().ends_with("write lines of time,bytes"));
        }
    }
}
