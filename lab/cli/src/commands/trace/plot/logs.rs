// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Charts of packets at an emulated bottleneck, from the logs of `alcc-lab emulate --log`.
use super::{COLOURS, MAX_BINS, MAX_POINTS, from_zero, line, time_axis};
use crate::failure::{Failure, reason};
use alcc_link::log::{FIRST_LINE, Line, Parser};
use alcc_live::axis::Axis;
use alcc_live::chart::{Chart, Curve, Shape};
use alcc_live::report::{Panel, page};
use alcc_units::{Span, Time};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Longest line of a log, bytes: the header has the command.
const MAX_LINE: u64 = 1 << 20;

/// One log. Its lines are read again for each use, because the memory for all of them would have no bound.
pub(super) struct Log {
    name: String,
    path: PathBuf,
    /// The last event.
    end: Time,
    /// Bytes that departed.
    bytes: u64,
    dropped: u64,
    /// The sum of all queueing delays, ms.
    waited: f64,
    /// Queueing delays, rounded to 0.1 %, and the number of packets with each.
    delays: BTreeMap<Span, u64>,
    has_capacity: bool,
}

/// The log in this file; `None` if it is none, or is not there. One of another version is an error.
pub(super) fn read(file: &OsStr) -> Result<Option<Log>, Failure> {
    let path = Path::new(file);
    let mut first = [0; FIRST_LINE.len() - 1];
    let mut begins = || File::open(path).and_then(|mut f| f.read_exact(&mut first).map(|()| first));
    if !path.is_file() || !begins().is_ok_and(|first| FIRST_LINE.as_bytes().starts_with(&first)) {
        return Ok(None);
    }
    let name = path.file_name().unwrap_or(file).to_string_lossy();
    let mut log = Log {
        name: name.into_owned(),
        path: path.to_owned(),
        end: Time::ZERO,
        bytes: 0,
        dropped: 0,
        waited: 0.0,
        delays: BTreeMap::new(),
        has_capacity: false,
    };
    each(path, |line| log.add(&line))?;
    if log.delays.is_empty() {
        return Err(Failure::usage(format!(
            "draw {}: no packet left this bottleneck: draw the log of the other direction",
            path.display()
        )));
    }
    Ok(Some(log))
}

/// Calls `on` with each event of a log.
fn each(path: &Path, mut on: impl FnMut(Line)) -> Result<(), Failure> {
    let not_read = |e: Error| {
        let why = reason(&e);
        Failure::usage(format!("read packet log {}: {why}", path.display()))
    };
    let mut file = BufReader::new(File::open(path).map_err(not_read)?);
    let mut parser = Parser::default();
    let mut text = String::new();
    loop {
        text.clear();
        let length = (&mut file)
            .take(MAX_LINE)
            .read_line(&mut text)
            .map_err(not_read)?;
        if length as u64 == MAX_LINE {
            let why = format!("a line is longer than {MAX_LINE} bytes");
            return Err(not_read(Error::new(ErrorKind::InvalidData, why)));
        }
        if length == 0 {
            return Ok(());
        }
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let event = parser
            .line(line)
            .map_err(|e| Failure::usage(format!("read {}: {e}", path.display())))?;
        event.into_iter().for_each(&mut on);
    }
}

/// A delay with its 11 leading binary digits, so that there are few of them.
fn rounded(delay: Span) -> Span {
    let ns = delay.as_nanos();
    let cut = (u64::BITS - ns.leading_zeros()).saturating_sub(11);
    Span::from_nanos(ns >> cut << cut)
}

/// The events of each interval.
struct Bins {
    /// Bytes that departed.
    departed: Vec<u64>,
    /// Bytes that could have departed.
    offered: Vec<u64>,
    /// The longest delay, if packets departed.
    longest: Vec<Option<Span>>,
}

impl Log {
    fn add(&mut self, line: &Line) {
        let at = match line {
            Line::Arrival { at, .. } => at,
            Line::Departure {
                at,
                packet,
                queue_delay,
            } => {
                self.bytes = self.bytes.saturating_add(packet.len.get());
                self.waited += queue_delay.as_secs_f64() * 1e3;
                *self.delays.entry(rounded(*queue_delay)).or_default() += 1;
                at
            }
            Line::Drop { at, .. } => {
                self.dropped += 1;
                at
            }
            Line::Opportunity { at, .. } => {
                self.has_capacity = true;
                at
            }
        };
        self.end = self.end.max(*at);
    }

    fn bins(&self, bin: Span) -> Result<Bins, Failure> {
        let number = |at: Time| (at.as_nanos() / bin.as_nanos()) as usize;
        let count = number(self.end) + 1;
        let mut bins = Bins {
            departed: vec![0; count],
            offered: vec![0; count],
            longest: vec![None; count],
        };
        let add = |to: &mut Vec<u64>, at: Time, len: u64| {
            // The file may have grown since.
            if let Some(sum) = to.get_mut(number(at)) {
                *sum = sum.saturating_add(len);
            }
        };
        each(&self.path, |line| match line {
            Line::Departure {
                at,
                packet,
                queue_delay,
            } => {
                add(&mut bins.departed, at, packet.len.get());
                if let Some(longest) = bins.longest.get_mut(number(at)) {
                    *longest = (*longest).max(Some(queue_delay));
                }
            }
            Line::Opportunity { at, len } => add(&mut bins.offered, at, len.get()),
            _ => {}
        })?;
        Ok(bins)
    }

    /// Cumulative distribution: for each delay, the percentage of packets that waited at most that
    /// long.
    fn distribution(&self) -> Vec<(f64, f64)> {
        let last = self.delays.values().sum::<u64>() - 1;
        let mut delays = self.delays.iter();
        let (mut delay, mut below) = delays.next().map_or((Span::ZERO, 0), |(d, n)| (*d, *n));
        let mut at = |rank: u64| {
            while rank >= below {
                let Some((next, n)) = delays.next() else {
                    break;
                };
                (delay, below) = (*next, below + n);
            }
            delay.as_secs_f64() * 1e3
        };
        (0..=MAX_POINTS)
            .map(|n| n as f64 / MAX_POINTS as f64)
            .map(|share| (at((share * last as f64) as u64), share * 100.0))
            .collect()
    }

    fn sentence(&self, seconds: f64) -> String {
        format!(
            "{}: {:.2} Mbit/s on the average over {seconds:.1} s, {:.1} ms in the queue, {} packets dropped",
            self.name,
            self.bytes as f64 * 8e-6 / seconds.max(1e-3),
            self.waited / self.delays.values().sum::<u64>() as f64,
            self.dropped
        )
    }
}

/// The rate in Mbit/s for each interval.
fn rate(bytes: &[u64], bin: Span) -> Vec<(f64, f64)> {
    let seconds = bin.as_secs_f64();
    let point = |(n, bytes): (usize, &u64)| (n as f64 * seconds, *bytes as f64 * 8e-6 / seconds);
    bytes.iter().enumerate().map(point).collect()
}

/// Throughput and delay over time, and the distribution of delay.
pub(super) fn logs_page(logs: &[Log], bin: Option<Span>) -> Result<String, Failure> {
    let end = logs.iter().map(|log| log.end).max().unwrap_or(Time::ZERO);
    let length = end.since(Time::ZERO);
    let bin = bin.unwrap_or_else(|| super::wide_enough(length));
    let many = length.as_nanos() / bin.as_nanos();
    if many > MAX_BINS {
        return Err(Failure::usage(format!(
            "draw throughput: {many} points, and at most {MAX_BINS} are drawn: take a longer --bin"
        )));
    }
    let sentence: Vec<_> = (logs.iter())
        .map(|log| log.sentence(log.end.since(Time::ZERO).as_secs_f64()))
        .collect();
    let sentence = sentence.join("; ");
    let bins = logs.iter().map(|log| log.bins(bin));
    let bins = bins.collect::<Result<Vec<_>, _>>()?;
    let both = || logs.iter().zip(&bins);
    let mut rates: Vec<Curve> = Vec::new();
    let mut legend: Vec<(String, &str, &str)> = Vec::new();
    for ((log, bins), colour) in both().zip(COLOURS.iter().cycle()) {
        rates.push(line(legend.len(), rate(&bins.departed, bin)));
        legend.push((log.name.clone(), *colour, ""));
    }
    for ((log, bins), colour) in both().zip(COLOURS.iter().cycle()) {
        if log.has_capacity {
            rates.push(line(legend.len(), rate(&bins.offered, bin)));
            legend.push((format!("{}: capacity", log.name), *colour, "2,3"));
        }
    }
    let longest = |bins: &Bins| {
        let all = bins.longest.iter().enumerate();
        let point = |(n, longest): (usize, &Option<Span>)| {
            Some((
                n as f64 * bin.as_secs_f64(),
                (*longest)?.as_secs_f64() * 1e3,
            ))
        };
        all.filter_map(point).collect()
    };
    let delays = bins.iter().map(longest).enumerate();
    let delays = delays.map(|(class, points)| line(class, points)).collect();
    let shares = logs.iter().enumerate().map(|(class, log)| Curve {
        class,
        shape: Shape::Steps,
        points: log.distribution(),
    });
    let shares: Vec<_> = shares.collect();
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
