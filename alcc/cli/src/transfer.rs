// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Common parts of `alcc send` and `alcc recv`.
use crate::failure::Failure;
use crate::output::create;
use alcc_transfer::Counter;
use alcc_units::row::Row;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

/// A file of progress: lines `CLOCK_MONOTONIC_NS BYTES`, with the content bytes so far.
pub(crate) struct Series {
    inner: Mutex<Lines>,
}

struct Lines {
    file: std::fs::File,
    text: String,
    counter: Counter,
    flushed: u64,
}

const FLUSH_INTERVAL: u64 = 100_000_000;

impl Series {
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let file = create(path)?;
        Ok(Self {
            inner: Mutex::new(Lines {
                file,
                text: String::new(),
                counter: Counter::default(),
                flushed: 0,
            }),
        })
    }

    /// Adds bytes at the present time, over all flows.
    pub(crate) fn add(&self, bytes: u64, now: u64) {
        let mut lines = alcc_sys::lock(&self.inner);
        let reading = lines.counter.add(bytes, now);
        lines.line(reading);
        if now >= lines.flushed + FLUSH_INTERVAL {
            lines.flush(now);
        }
    }
}

impl Lines {
    fn line(&mut self, reading: Option<(u64, u64)>) {
        use std::fmt::Write as _;
        if let Some((at, bytes)) = reading {
            let _ = writeln!(self.text, "{at} {bytes}");
        }
    }

    fn flush(&mut self, now: u64) {
        // A full disk must not end the transfer. The file then ends early.
        let _ = self.file.write_all(self.text.as_bytes());
        self.text.clear();
        self.flushed = now;
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let rest = self.counter.rest();
        self.line(rest);
        self.flush(0);
    }
}

/// Columns of the table: heading, field, digits.
const COLUMNS: [(&str, &str, usize); 9] = [
    ("Mbit/s", "goodput_mbps", 2),
    ("MB", "bytes", 2),
    ("app median ms", "app_delay_median_ms", 1),
    ("p95 ms", "app_delay_p95_ms", 1),
    ("RTT mean ms", "rtt_mean_ms", 1),
    ("p95 ms", "rtt_p95_ms", 1),
    ("retransmits", "retransmits", 0),
    ("timeouts", "timeouts", 0),
    ("CPU s/Gbit", "cpu_s_per_gbit", 3),
];

/// The results as a table.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        std::iter::once("flow")
            .chain(COLUMNS.iter().map(|c| c.0))
            .map(str::to_owned)
            .collect::<Vec<_>>(),
    ];
    for row in rows {
        let numbers = row.numbers();
        let mut line = vec![row.scheme.clone()];
        if let Some(why) = &row.error {
            line.push(why.clone());
        } else {
            line.extend(COLUMNS.iter().map(|(_, field, digits)| {
                let unit = if *field == "bytes" { 1e-6 } else { 1.0 };
                let value = numbers.get(*field);
                value.map_or_else(|| "-".to_owned(), |v| format!("{:.*}", *digits, v * unit))
            }));
        }
        lines.push(line);
    }
    let width = |column: usize| {
        let cells = lines.iter().filter(|l| l.len() > 2 || column == 0);
        cells.filter_map(|l| l.get(column).map(String::len)).max()
    };
    let widths: Vec<usize> = (0..=COLUMNS.len()).map(|i| width(i).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().enumerate().map(|(i, cell)| match i {
            0 => format!("{cell:<0$}", widths[0]),
            _ if line.len() == 2 => cell.clone(),
            _ => format!("{cell:>0$}", widths[i]),
        });
        text.push_str(&cells.collect::<Vec<_>>().join("  "));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_flow_has_its_reason_in_the_table() {
        let good = Row {
            scheme: "verus-udp".to_owned(),
            goodput_mbps: Some(12.345),
            bytes: Some(2_000_000),
            ..Row::default()
        };
        let bad = Row {
            error: Some("nobody answered".to_owned()),
            ..good.clone()
        };
        let text = table(&[good, bad]);
        assert!(text.contains("12.35") && text.contains(" 2.00 "), "{text}");
        assert!(text.ends_with("verus-udp  nobody answered\n"), "{text}");
    }
}
