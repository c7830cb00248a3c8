// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a recording: traces of both directions, the delay of every packet, a summary; and
//! their files.
use crate::arrivals::{Arrival, trace};
use crate::clock::ClockFit;
use crate::plan::{Load, Plan};
use crate::results::Recorded;
use crate::session::{End, Phase, Role, Session};
use alcc_link::Dir;
use alcc_results::percentile;
use alcc_trace::{Trace, TraceError};
use alcc_units::{Span, Time};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A recording from the view of one end.
#[derive(Debug)]
pub struct Recording {
    /// The role of this end.
    pub role: Role,
    /// The other end's address.
    pub peer: String,
    /// The client's name.
    pub label: String,
    /// The agreed plan.
    pub plan: Plan,
    /// The end of the recording.
    pub end: End,
    /// The relation of the clocks.
    pub clock: Option<ClockFit>,
    /// The record of the packets that arrived here.
    pub own: Recorded,
    /// On a client: the listener's record.
    pub other: Option<Recorded>,
}

/// A file that takes this many bytes more.
struct Limited<'a> {
    file: File,
    remaining: &'a mut u64,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len() as u64;
        if length > *self.remaining {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all(bytes)?;
        *self.remaining -= length;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Recording {
    pub(crate) fn of(session: &Session, peer: String, label: String) -> Self {
        let end = match session.phase() {
            Phase::Done(end) => end,
            _ => End::Stopped,
        };
        Self {
            role: session.role(),
            peer,
            label,
            plan: session.plan().clone(),
            end,
            clock: session.clock(),
            own: session.recorded(),
            other: session.fetched(),
        }
    }

    /// True if the recording is complete.
    pub fn is_complete(&self) -> bool {
        self.end == End::Complete && (self.role == Role::Listener || self.other.is_some())
    }

    /// Number of packets that had arrived and were not recorded, so that a trace is wrong although
    /// the recording is complete.
    pub fn missed(&self) -> u64 {
        let both = Dir::BOTH.into_iter().filter_map(|dir| self.record(dir));
        both.map(|r| r.overrun + r.beyond).sum()
    }

    /// Maximum delay of a sender by its own machine, at either end, as far as is known here. A
    /// queue may have run empty then.
    pub fn held_up(&self) -> Span {
        let other = self.other.as_ref().map_or(Span::ZERO, |r| r.late[2]);
        self.own.late[2].max(other)
    }

    /// Time at which the recording stopped, from the start of the counted time.
    pub fn reached(&self) -> Span {
        match self.end {
            End::Complete => self.plan.duration,
            End::Silent(at) => at.since(self.own.from).min(self.plan.duration),
            _ => self
                .own
                .arrivals
                .last()
                .map_or(Span::ZERO, |a| a.received.since(self.own.from)),
        }
    }

    /// The receiver's record of a direction.
    pub fn record(&self, dir: Dir) -> Option<&Recorded> {
        let here = (dir == Dir::Down) == (self.role == Role::Client);
        if here {
            Some(&self.own)
        } else {
            self.other.as_ref()
        }
    }

    const fn load(&self, dir: Dir) -> Load {
        match dir {
            Dir::Down => self.plan.down,
            Dir::Up => self.plan.up,
        }
    }

    /// The trace of a direction; `None` if it had no load, or if its arrivals are not known here.
    ///
    /// # Errors
    /// Nothing arrived.
    pub fn trace(&self, dir: Dir) -> Option<Result<Trace, TraceError>> {
        if self.load(dir) == Load::Nothing {
            return None;
        }
        let record = self.record(dir)?;
        Some(trace(&record.arrivals, record.from, self.plan.ip_len()))
    }

    /// Sending time and one-way delay of a packet, in ns, by this end's clock. The time is relative
    /// to the start of the counted time.
    fn delay(&self, dir: Dir, clock: &ClockFit, arrival: &Arrival) -> (i64, i64) {
        let theirs = |t: Time| clock.to_ours(t.as_nanos());
        let ours = |t: Time| t.as_nanos();
        // The sender of `down` is the listener.
        let sent_here = (dir == Dir::Up) == (self.role == Role::Client);
        let (sent, received) = if sent_here {
            (ours(arrival.sent), theirs(arrival.received))
        } else {
            (theirs(arrival.sent), ours(arrival.received))
        };
        let since = |a: u64, b: u64| a.wrapping_sub(b).cast_signed();
        (since(sent, ours(self.own.from)), since(received, sent))
    }

    /// Writes the delay of every packet as `direction,seq,sent_s,delay_ms,bytes` with a header
    /// line.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write_delays(&self, mut to: impl Write) -> io::Result<()> {
        writeln!(to, "direction,seq,sent_s,delay_ms,bytes")?;
        let Some(clock) = &self.clock else {
            return Ok(());
        };
        let bytes = self.plan.ip_len();
        for dir in Dir::BOTH {
            let arrivals = self.record(dir).map_or(&[][..], |r| &r.arrivals);
            for arrival in arrivals {
                let (sent, delay) = self.delay(dir, clock, arrival);
                writeln!(
                    to,
                    "{},{},{:.6},{:.3},{bytes}",
                    dir.name(),
                    arrival.seq,
                    sent as f64 / 1e9,
                    delay as f64 / 1e6
                )?;
            }
        }
        to.flush()
    }

    /// Writes the available data into a folder that it creates: `down.trace`, `up.trace`,
    /// `delays.csv`, `summary.json` with `about`; at most `room` bytes. Returns their size.
    ///
    /// # Errors
    /// The file that could not be written, with the error; `StorageFull` beyond `room`. Then no file
    /// of the recording stays.
    pub fn write(
        &self,
        folder: &Path,
        room: u64,
        about: &Value,
    ) -> Result<u64, (PathBuf, io::Error)> {
        alcc_sys::create_folders(folder).map_err(|e| (folder.to_owned(), e))?;
        let mut made = Vec::new();
        let written = self.write_files(folder, room, about, &mut made);
        if written.is_err() {
            for path in made {
                let _ = std::fs::remove_file(path);
            }
            // Only if it is empty.
            let _ = std::fs::remove_dir(folder);
        }
        written
    }

    fn write_files(
        &self,
        folder: &Path,
        room: u64,
        about: &Value,
        made: &mut Vec<PathBuf>,
    ) -> Result<u64, (PathBuf, io::Error)> {
        let mut remaining = room;
        let mut file = |name: &str, fill: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            let path = folder.join(name);
            let result = alcc_sys::create(&path).and_then(|file| {
                made.push(path.clone());
                let remaining = &mut remaining;
                let mut to = BufWriter::new(Limited { file, remaining });
                fill(&mut to)?;
                to.flush()
            });
            result.map_err(|e| (path, e))
        };
        for dir in Dir::BOTH {
            if let Some(Ok(trace)) = self.trace(dir) {
                file(&format!("{}.trace", dir.name()), &|to| trace.write(to))?;
            }
        }
        file("delays.csv", &|to| self.write_delays(to))?;
        file("summary.json", &|to| {
            writeln!(to, "{:#}", self.to_json(about))
        })?;
        Ok(room - remaining)
    }

    /// The summary, with what it came about by.
    pub fn to_json(&self, about: &Value) -> Value {
        let ms = |ns: f64| ns / 1e6;
        let clock = self.clock.as_ref().map(|c| {
            json!({
                "offset_ms": ms(c.offset_ns(self.own.from.as_nanos())),
                "offset_error_ms": ms(c.error_ns()),
                "skew_ppm": c.skew() * 1e6,
                "min_rtt_ms": ms(c.round_trip_ns),
            })
        });
        let end = match self.end {
            End::Complete => "complete",
            End::Silent(_) => "silent",
            End::Left => "left",
            End::Stopped => "stopped",
        };
        json!({
            "about": about,
            "role": match self.role { Role::Client => "client", Role::Listener => "listener" },
            "peer": self.peer,
            "label": self.label,
            "mode": self.plan.mode.name(),
            "duration_s": self.plan.duration.as_secs_f64(),
            "warm_up_s": self.plan.warm_up.as_secs_f64(),
            "payload_bytes": self.plan.size,
            "ip_bytes": self.plan.ip_len(),
            "complete": self.is_complete(),
            "end": end,
            "reached_s": self.reached().as_secs_f64(),
            "clock": clock,
            "zero_monotonic_ns": self.own.from.as_nanos(),
            "down": self.direction(Dir::Down),
            "up": self.direction(Dir::Up),
        })
    }

    fn direction(&self, dir: Dir) -> Value {
        if self.load(dir) == Load::Nothing {
            return Value::Null;
        }
        let Some(record) = self.record(dir) else {
            return Value::Null;
        };
        // The other end's record contains its number of packets sent in this direction.
        let sender = if std::ptr::eq(record, &self.own) {
            self.other.as_ref()
        } else {
            Some(&self.own)
        };
        let seconds = record.to.since(record.from).as_secs_f64();
        let bits = record.arrivals.len() as f64 * self.plan.ip_len() as f64 * 8.0;
        let stats = self.trace(dir).and_then(Result::ok).map(|t| t.stats());
        let gap = stats.as_ref().map(|s| s.gaps.max);
        let mut delays: Vec<i64> = self.clock.as_ref().map_or_else(Vec::new, |clock| {
            let all = record.arrivals.iter();
            all.map(|a| self.delay(dir, clock, a).1).collect()
        });
        delays.sort_unstable();
        let quantile = |percent| percentile(&delays, percent).map(ms_of);
        json!({
            "packets": record.arrivals.len(),
            "mbps": bits / seconds / 1e6,
            "sent": sender.map(|s| s.sent),
            "lost": sender.map(|s| s.sent.saturating_sub(record.received)),
            "copies": record.copies,
            "not_kept": record.beyond,
            "lost_at_receiver": record.overrun,
            "longest_gap_ms": gap,
            "delay_min_ms": delays.first().map(|&ns| ms_of(ns)),
            "delay_median_ms": quantile(50),
            "delay_p95_ms": quantile(95),
            "delay_max_ms": delays.last().map(|&ns| ms_of(ns)),
            "send_late_p50_ms": sender.map(|s| s.late[0].as_millis_f64()),
            "send_late_p99_ms": sender.map(|s| s.late[1].as_millis_f64()),
            "send_late_max_ms": sender.map(|s| s.late[2].as_millis_f64()),
            "send_skipped": sender.map(|s| s.skipped),
        })
    }
}

fn ms_of(ns: i64) -> f64 {
    ns as f64 / 1e6
}
