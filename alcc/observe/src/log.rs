// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A log with one line per reading of a connection's counters, for people who examine an algorithm.
//!
//! The thread that reads the counters also opens the gates, so it must not wait for a file system,
//! which may be frozen or on a network. So lines are collected in memory, and a thread that exists
//! only while there is something to write opens and writes the file. Lines that do not fit are
//! dropped, and counted in the next line.
use crate::event::{Event, Reading, Subscriber};
use alcc_sys::{lock, overwrite_own};
use alcc_units::{Bytes, Time};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::Builder;

/// Size at which a piece goes to the writer at once, bytes.
const PIECE: usize = 64 * 1024;
/// Maximum number of pieces that wait for the file.
const MAX_PIECES: usize = 64;

const HEADER: &str = "time_ms,connection,acked_bytes,in_flight_bytes,unsent_bytes,window_bytes,quota_bytes,rate_mbps,rtt_ms,min_rtt_ms,cwnd_segments,ssthresh_segments,gauges\n";

/// The CSV file of one process.
pub struct Log {
    lines: String,
    /// Number of lines in `lines`.
    count: u64,
    dropped: u64,
    origin: Time,
    writer: Arc<Writer>,
}

struct Writer {
    path: PathBuf,
    queue: Mutex<Queue>,
    /// The file of the writing thread. It stays open, because the program may give up the right to
    /// open it.
    file: Mutex<Option<File>>,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<String>,
    /// True while a thread is writing.
    busy: bool,
    /// True if the file cannot be opened: nothing more is collected.
    over: bool,
}

impl Log {
    /// A log in `DIR/PID.csv`, which is created with the first lines. `alcc run` reports a folder
    /// that cannot be written before it starts anything.
    pub fn new(folder: &Path, origin: Time) -> Self {
        let path = folder.join(format!("{}.csv", std::process::id()));
        Self {
            lines: HEADER.to_owned(),
            count: 0,
            dropped: 0,
            origin,
            writer: Arc::new(Writer {
                path,
                queue: Mutex::default(),
                file: Mutex::default(),
            }),
        }
    }

    fn add(&mut self, now: &Reading<'_>) {
        let ssthresh = now.ssthresh.map(|n| n.to_string()).unwrap_or_default();
        let limit = |b: Bytes| {
            if b == Bytes::MAX {
                String::new()
            } else {
                b.get().to_string()
            }
        };
        let rate = (now.allowance.rate)
            .map(|r| format!("{:.3}", r.as_mbps_f64()))
            .unwrap_or_default();
        let mut gauges = String::new();
        (now.gauges)(&mut |name, value| gauges.push_str(&format!("{name}={value:.3} ")));
        if self.dropped > 0 {
            gauges.push_str(&format!("dropped_lines={}", self.dropped));
        }
        // Writing to memory never fails.
        let _ = writeln!(
            self.lines,
            "{:.3},{},{},{},{},{},{},{rate},{:.3},{:.3},{},{ssthresh},{}",
            now.at.since(self.origin).as_millis_f64(),
            now.connection,
            now.tcp.acked,
            now.in_flight.get(),
            now.tcp.unsent.get(),
            limit(now.allowance.window),
            limit(now.allowance.quota),
            now.rtt.latest.as_millis_f64(),
            now.tcp.min_rtt.as_millis_f64(),
            now.cwnd,
            gauges.trim_end(),
        );
        self.count += 1;
        if self.lines.len() >= PIECE {
            self.flush();
        }
    }

    /// Passes the collected lines to the writer.
    fn flush(&mut self) {
        if self.count == 0 {
            return;
        }
        let lines = std::mem::take(&mut self.lines);
        let count = std::mem::take(&mut self.count);
        let tells = std::mem::take(&mut self.dropped);
        if !write(&self.writer, lines) {
            self.dropped = tells + count;
        }
    }
}

impl Subscriber for Log {
    fn on(&mut self, event: &Event<'_>) {
        match *event {
            Event::Reading(now) => self.add(now),
            // At intervals, and when the thread has nothing more to do.
            Event::Worked { .. } => self.flush(),
            _ => {}
        }
    }
}

/// Has a thread write these lines; false if they are dropped.
fn write(writer: &Arc<Writer>, lines: String) -> bool {
    let mut queue = lock(&writer.queue);
    if queue.over || queue.pieces.len() >= MAX_PIECES {
        return false;
    }
    queue.pieces.push_back(lines);
    if !queue.busy {
        let writer = Arc::clone(writer);
        let builder = Builder::new().name("alcc-log".to_owned());
        let made = alcc_sys::spawn(builder.stack_size(128 * 1024), move || writer.write());
        queue.busy = made.is_ok();
    }
    true
}

impl Writer {
    /// Writes the waiting pieces, and ends.
    fn write(&self) {
        let mut file = lock(&self.file);
        loop {
            let piece = {
                let mut queue = lock(&self.queue);
                let piece = queue.pieces.pop_front();
                queue.busy = piece.is_some();
                piece
            };
            let Some(piece) = piece else { return };
            if file.is_none() {
                *file = overwrite_own(&self.path).ok();
            }
            let Some(file) = &mut *file else {
                let mut queue = lock(&self.queue);
                queue.over = true;
                queue.pieces.clear();
                continue;
            };
            // A full disk must not stop the connection, so the line is lost.
            drop(file.write_all(piece.as_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;
    use std::time::{Duration, Instant};

    fn log(folder: &Path) -> Log {
        std::fs::create_dir(folder).unwrap();
        Log::new(folder, Time::ZERO)
    }

    fn push(log: &mut Log, line: &str) {
        log.lines.push_str(line);
        log.count += 1;
    }

    fn until(wanted: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !wanted() {
            assert!(Instant::now() < deadline, "never came");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn lines_arrive_in_order_and_the_thread_ends() {
        let scratch = Scratch::new();
        let mut log = log(&scratch.0);
        let wanted: String = (0..1000).map(|n| format!("{n}\n")).collect();
        for n in 0..1000 {
            push(&mut log, &format!("{n}\n"));
            if n % 50 == 0 {
                log.flush();
            }
        }
        log.flush();
        let path = log.writer.path.clone();
        let written = || std::fs::read_to_string(&path).unwrap_or_default();
        until(|| written() == format!("{HEADER}{wanted}"));
        until(|| !lock(&log.writer.queue).busy);
        std::fs::remove_dir_all(&scratch.0).unwrap();
    }

    #[test]
    fn a_reading_is_a_line() {
        let scratch = Scratch::new();
        let mut log = log(&scratch.0);
        let tcp = crate::event::tests::tcp();
        let reading = Reading {
            gauges: &|put| put("mode", 2.0),
            ..crate::event::tests::reading(&tcp)
        };
        log.on(&Event::Reading(&reading));
        let line = "9.000,3,40000,1448,500,10136,,7.000,50.000,39.000,10,6,mode=2.000\n";
        assert_eq!(log.lines, format!("{HEADER}{line}"));
        std::fs::remove_dir_all(&scratch.0).unwrap();
    }

    #[test]
    fn a_blocked_file_delays_no_writer_and_dropped_lines_are_counted() {
        let scratch = Scratch::new();
        let mut log = log(&scratch.0);
        // As while the file system is frozen: the writer does not come back.
        let frozen = Arc::clone(&log.writer);
        let held = lock(&frozen.file);
        for n in 0..200 {
            push(&mut log, &format!("{n}\n"));
            log.flush();
        }
        assert!(log.dropped >= 100, "{}", log.dropped);
        assert!(lock(&log.writer.queue).pieces.len() <= MAX_PIECES);
        drop(held);
        until(|| !lock(&log.writer.queue).busy);
        std::fs::remove_dir_all(&scratch.0).unwrap();
    }

    #[test]
    fn a_fifo_or_a_link_in_the_place_of_the_file_is_left_alone() {
        let scratch = Scratch::new();
        let mut log = log(&scratch.0);
        let other = scratch.0.join("other");
        std::fs::write(&other, "content").unwrap();
        std::os::unix::fs::symlink(&other, &log.writer.path).unwrap();
        push(&mut log, "1\n");
        log.flush();
        until(|| lock(&log.writer.queue).over);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "content");
        std::fs::remove_dir_all(&scratch.0).unwrap();
    }
}
