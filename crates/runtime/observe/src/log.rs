// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line per reading of a connection's counters, for people who want to see an algorithm at
//! work.
use alcc_flow::OverTcp;
use alcc_sys::Reading;
use alcc_units::{Bytes, Time};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The CSV file of one process.
pub struct Log {
    out: BufWriter<File>,
    origin: Time,
}

impl Log {
    /// Opens `DIR/PID.csv`; a folder that cannot be written is reported by `alcc run` before it
    /// starts anything.
    pub fn open(folder: &Path, origin: Time) -> Option<Self> {
        let file = File::create(folder.join(format!("{}.csv", std::process::id()))).ok()?;
        let mut out = BufWriter::new(file);
        writeln!(out, "time_ms,connection,acked_bytes,in_flight_bytes,unsent_bytes,window_bytes,quota_bytes,rate_mbps,rtt_ms,min_rtt_ms,cwnd_segments,ssthresh_segments,gauges").ok()?;
        Some(Self { out, origin })
    }

    /// Writes one line.
    pub fn reading(&mut self, at: Time, connection: u64, reading: &Reading, flow: &OverTcp) {
        let (tcp, allowance) = (&reading.progress, flow.allowance());
        let ssthresh = reading.ssthresh.map(|n| n.to_string()).unwrap_or_default();
        let limit = |b: Bytes| {
            if b == Bytes::MAX {
                String::new()
            } else {
                b.get().to_string()
            }
        };
        let rate = allowance
            .rate
            .map(|r| format!("{:.3}", r.as_mbps_f64()))
            .unwrap_or_default();
        let mut gauges = String::new();
        flow.gauges(&mut |name, value| gauges.push_str(&format!("{name}={value:.3} ")));
        // A full disk must not stop the connection: a lost line is only a lost line.
        drop(writeln!(
            self.out,
            "{:.3},{connection},{},{},{},{},{},{rate},{:.3},{:.3},{},{ssthresh},{}",
            at.since(self.origin).as_millis_f64(),
            tcp.acked,
            flow.in_flight().get(),
            tcp.unsent.get(),
            limit(allowance.window),
            limit(allowance.quota),
            flow.rtt().latest.as_millis_f64(),
            tcp.min_rtt.as_millis_f64(),
            reading.cwnd,
            gauges.trim_end(),
        ));
    }

    /// Writes what is buffered to the file.
    pub fn flush(&mut self) {
        drop(self.out.flush());
    }
}
