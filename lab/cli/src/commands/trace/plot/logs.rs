// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of packets at an emulated bottleneck, from the logs of `alcc-lab emulate --log`.
use super::{COLOURS, MAX_BINS, MAX_POINTS, from_zero, line, time_axis};
use crate::failure::{Failure, reason};
use alcc_link::log::{FIRST_LINE, Line, parse};
use alcc_live::axis::Axis;
use alcc_live::chart::{Chart, Curve, Shape};
use alcc_live::report::{Panel, page};
use alcc_units::{Bytes, Span, Time};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// One log.
pub(super) struct Log {
    name: String,
    lines: Vec<Line>,
}

/// The log in this file; `None` if it is none, or is not there.
pub(super) fn read(file: &OsStr) -> Result<Option<Log>, Failure> {
    let path = Path::new(file);
    let mut first = [0; FIRST_LINE.len()];
    let begins =
        File::open(path).and_then(|mut f| f.read_exact(&mut first).map(|()| first.as_slice()));
    if !path.is_file() || !begins.is_ok_and(|first| first == FIRST_LINE.as_bytes()) {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::usage(format!(
            "read packet log {}: {}",
            path.display(),
            reason(&e)
        ))
    })?;
    let (_, lines) =
        parse(&text).map_err(|e| Failure::usage(format!("read {}: {e}", path.display())))?;
    if !lines.iter().any(|l| matches!(l, Line::Departure { .. })) {
        return Err(Failure::usage(format!(
            "draw {}: no packet left this bottleneck: draw the log of the other direction",
            path.display()
        )));
    }
    let name = path.file_name().unwrap_or(file).to_string_lossy();
    Ok(Some(Log {
        name: name.into_owned(),
        lines,
    }))
}

impl Log {
    fn end(&self) -> Time {
        let of = |line: &Line| match line {
            Line::Arrival { at, .. }
            | Line::Departure { at, .. }
            | Line::Drop { at, .. }
            | Line::Opportunity { at, .. } => *at,
        };
        self.lines.iter().map(of).max().unwrap_or(Time::ZERO)
    }

    /// The rate of what `len` finds, in Mbit/s for each interval.
    fn rate(&self, bin: Span, len: impl Fn(&Line) -> Option<(Time, Bytes)>) -> Vec<(f64, f64)> {
        let mut bytes = vec![0; (self.end().as_nanos() / bin.as_nanos()) as usize + 1];
        for (at, len) in self.lines.iter().filter_map(len) {
            bytes[(at.as_nanos() / bin.as_nanos()) as usize] += len.get();
        }
        let seconds = bin.as_secs_f64();
        let point = |(n, bytes): (usize, u64)| (n as f64 * seconds, bytes as f64 * 8e-6 / seconds);
        bytes.into_iter().enumerate().map(point).collect()
    }

    fn delays(&self) -> impl Iterator<Item = (Time, f64)> + '_ {
        self.lines.iter().filter_map(|line| match line {
            Line::Departure {
                at, queue_delay, ..
            } => Some((*at, queue_delay.as_secs_f64() * 1e3)),
            _ => None,
        })
    }

    /// The longest delay in each interval in which packets left.
    fn longest(&self, bin: Span) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (at, ms) in self.delays() {
            let x = (at.as_nanos() / bin.as_nanos()) as f64 * bin.as_secs_f64();
            match points.last_mut() {
                Some(last) if last.0 >= x => last.1 = last.1.max(ms),
                _ => points.push((x, ms)),
            }
        }
        points
    }

    /// Cumulative distribution: for each delay, the percentage of packets that waited at most that
    /// long.
    fn distribution(&self) -> Vec<(f64, f64)> {
        let mut delays: Vec<f64> = self.delays().map(|(_, ms)| ms).collect();
        delays.sort_unstable_by(f64::total_cmp);
        let last = (delays.len() - 1) as f64;
        (0..=MAX_POINTS)
            .map(|n| n as f64 / MAX_POINTS as f64)
            .map(|share| (delays[(share * last) as usize], share * 100.0))
            .collect()
    }

    fn sentence(&self, seconds: f64) -> String {
        let departed = |line: &Line| match line {
            Line::Departure { packet, .. } => Some(packet.len.get()),
            _ => None,
        };
        let bytes: u64 = self.lines.iter().filter_map(departed).sum();
        let (count, sum) = self
            .delays()
            .fold((0_u64, 0.0), |(n, sum), (_, ms)| (n + 1, sum + ms));
        let drops = self.lines.iter().filter(|l| matches!(l, Line::Drop { .. }));
        format!(
            "{}: {:.2} Mbit/s on the average over {seconds:.1} s, {:.1} ms in the queue, {} packets dropped",
            self.name,
            bytes as f64 * 8e-6 / seconds.max(1e-3),
            sum / count as f64,
            drops.count()
        )
    }
}

/// Throughput and delay over time, and the distribution of delay.
pub(super) fn logs_page(logs: &[Log], bin: Option<Span>) -> Result<String, Failure> {
    let end = logs.iter().map(Log::end).max().unwrap_or(Time::ZERO);
    let length = end.since(Time::ZERO);
    let bin = bin.unwrap_or_else(|| super::wide_enough(length));
    let many = length.as_nanos() / bin.as_nanos();
    if many > MAX_BINS {
        return Err(Failure::usage(format!(
            "draw throughput: {many} points, and at most {MAX_BINS} are drawn: take a longer --bin"
        )));
    }
    let sentence: Vec<_> = (logs.iter())
        .map(|log| log.sentence(log.end().since(Time::ZERO).as_secs_f64()))
        .collect();
    let sentence = sentence.join("; ");
    let mut rates: Vec<Curve> = Vec::new();
    let mut legend: Vec<(String, &str, &str)> = Vec::new();
    for (log, colour) in logs.iter().zip(COLOURS.iter().cycle()) {
        let departed = log.rate(bin, |line| match line {
            Line::Departure { at, packet, .. } => Some((*at, packet.len)),
            _ => None,
        });
        rates.push(line(legend.len(), departed));
        legend.push((log.name.clone(), *colour, ""));
    }
    for (log, colour) in logs.iter().zip(COLOURS.iter().cycle()) {
        if (log.lines.iter()).any(|l| matches!(l, Line::Opportunity { .. })) {
            let offered = log.rate(bin, |line| match line {
                Line::Opportunity { at, len } => Some((*at, *len)),
                _ => None,
            });
            rates.push(line(legend.len(), offered));
            legend.push((format!("{}: capacity", log.name), *colour, "2,3"));
        }
    }
    let of_logs = |points: &dyn Fn(&Log) -> Vec<(f64, f64)>| -> Vec<Curve> {
        let curve = |(class, log): (usize, &Log)| line(class, points(log));
        logs.iter().enumerate().map(curve).collect()
    };
    let delays = of_logs(&|log| log.longest(bin));
    let mut shares = of_logs(&Log::distribution);
    for curve in &mut shares {
        curve.shape = Shape::Steps;
    }
    let over_time = |title: String, y: &str, curves: Vec<Curve>| Panel {
        chart: Chart {
            label: format!("{title}. {sentence}"),
            x_title: "s".into(),
            y_title: y.into(),
            x: time_axis(&curves),
            y: from_zero(&curves),
            curves,
        },
        title,
        is_half: false,
    };
    let waits = shares.iter().flat_map(|c| &c.points).map(|p| p.0);
    let panels = [
        over_time(format!("Throughput in intervals of {bin}"), "Mbit/s", rates),
        over_time(
            format!("Longest queueing delay in intervals of {bin}"),
            "ms",
            delays,
        ),
        Panel {
            title: "Queueing delay: share of packets with at most this delay".into(),
            chart: Chart {
                label: "Percentage of packets with at most this queueing delay".into(),
                x_title: "ms".into(),
                y_title: "%".into(),
                x: Axis::linear(waits.chain([0.0]), 0.0, 1.0),
                y: Axis::exactly(0.0, 100.0),
                curves: shares,
            },
            is_half: true,
        },
    ];
    page("Packet logs", &sentence, &legend, &panels).map_err(Failure::failed)
}
