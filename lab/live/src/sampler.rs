// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of TCP connections from the outside by the kernel's socket diagnosis, the same for every
//! scheme.
//!
//! Bytes acknowledged + bytes still in the send queue = bytes that the application has written. The
//! other application has the times at which it read them. Together these give the delay from
//! application to application, wherever bytes are parked on the way.
use alcc_results::Distribution;
use alcc_sys::{Sockets, TcpCounters, TcpSocket};
use alcc_units::{Span, Time};
use std::io;

/// Interval of the samples: the error bound of write times.
pub const PERIOD: Span = Span::from_millis(5);

/// One sample of one connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Connection {
    /// The peer's port.
    pub peer: u16,
    /// Bytes the application has written so far.
    pub written: u64,
    /// The kernel's counters.
    pub counters: TcpCounters,
    /// The kernel's congestion control.
    pub congestion: String,
}

impl Connection {
    /// `None` without counters.
    fn of(socket: &TcpSocket) -> Option<Self> {
        let counters = socket.counters?;
        Some(Self {
            peer: socket.remote.port(),
            written: counters.acked + u64::from(socket.queued),
            counters,
            congestion: socket.control.as_str().to_owned(),
        })
    }
}

/// All IPv4 connections whose port on our side is `port`.
///
/// # Errors
/// The kernel's error.
pub fn connections(sockets: &mut Sockets, port: u16) -> io::Result<Vec<Connection>> {
    let found = sockets.at_port(port)?;
    Ok(found.iter().filter_map(Connection::of).collect())
}

/// Samples of one connection over time.
#[derive(Default)]
pub struct History {
    /// Bytes written by then; both never go back.
    written: Vec<(Time, u64)>,
    rtts: Vec<(Time, Span)>,
    last: Connection,
}

impl History {
    /// Samples of a sender that recorded when how many bytes had been written.
    pub(crate) fn of_writes(written: Vec<(Time, u64)>) -> Self {
        Self {
            written,
            ..Self::default()
        }
    }

    /// Adds a sample. The connection with the most bytes is the sampled one; others are probes.
    pub fn add(&mut self, at: Time, connections: Vec<Connection>) {
        let Some(now) = connections.into_iter().max_by_key(|c| c.written) else {
            return;
        };
        if self.written.last().is_none_or(|(_, n)| *n < now.written) {
            self.written.push((at, now.written));
        }
        if !now.counters.rtt.is_zero() {
            self.rtts.push((at, now.counters.rtt));
        }
        self.last = now;
    }

    /// The latest look.
    pub fn last(&self) -> &Connection {
        &self.last
    }

    /// Share of its sending time, in per cent, for which the send buffer kept the connection from
    /// sending more; `None` up to half of it.
    pub(crate) fn held_by_buffer(&self) -> Option<u64> {
        let counters = &self.last.counters;
        let [held, busy] = [counters.held_by_buffer, counters.busy].map(Span::as_nanos);
        (held > busy / 2).then(|| held.saturating_mul(100) / busy.max(1))
    }

    /// Time at which byte number `offset` (from 1) was written, to [`PERIOD`] at worst. Between two samples
    /// bytes are taken to have been written evenly. `None` if no look saw it.
    fn written_at(&self, offset: u64) -> Option<Time> {
        let after = self.written.partition_point(|(_, n)| *n < offset);
        let (to, n) = *self.written.get(after)?;
        let Some((mut from, m)) = after.checked_sub(1).map(|i| self.written[i]) else {
            return Some(to);
        };
        // Nothing changed for long and then something did: it was written within the last period.
        from = from.max(Time::from_nanos(
            to.as_nanos().saturating_sub(PERIOD.as_nanos()),
        ));
        let share = (offset - m) as f64 / (n - m) as f64;
        Some(from + to.since(from).mul_f64(share))
    }

    /// Median and 95th percentile, per byte, of the time from write to read, in ms. `reads` are
    /// (when, bytes read by then).
    pub fn app_delay_ms(&self, reads: &[(Time, u64)], from: Time, to: Time) -> Option<[f64; 2]> {
        let mut delays = Distribution::new();
        let mut before = 0;
        for (at, offset) in reads {
            let bytes = offset - before;
            before = *offset;
            if *at < from || *at >= to {
                continue;
            }
            if let Some(written) = self.written_at(*offset) {
                delays.add(at.since(written), bytes);
            }
        }
        Some([delays.quantile_ms(0.5)?, delays.quantile_ms(0.95)?])
    }

    /// Mean and 95th percentile of the smoothed round trip in `from..to`, in ms.
    pub fn rtt_ms(&self, from: Time, to: Time) -> Option<[f64; 2]> {
        let mut all = Distribution::new();
        for (at, rtt) in &self.rtts {
            if *at >= from && *at < to {
                all.add(*rtt, 1);
            }
        }
        Some([all.mean_ms()?, all.quantile_ms(0.95)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    fn wrote(written: u64) -> Vec<Connection> {
        vec![Connection {
            written,
            counters: TcpCounters {
                rtt: Span::from_millis(40),
                ..TcpCounters::default()
            },
            ..Connection::default()
        }]
    }

    #[test]
    fn write_times_are_between_the_looks_that_enclose_them() {
        let mut history = History::default();
        history.add(ms(0), wrote(0));
        history.add(ms(5), wrote(1_000));
        history.add(ms(10), wrote(1_000));
        history.add(ms(100), wrote(2_000));
        assert_eq!(history.written_at(500), Some(Time::from_nanos(2_500_000)));
        assert_eq!(history.written_at(1_000), Some(ms(5)));
        // Quiet from 5 to 95 ms as far as anyone knows.
        assert_eq!(
            history.written_at(1_500),
            Some(Time::from_nanos(97_500_000))
        );
        assert_eq!(history.written_at(2_001), None);
        // 1000 bytes after 25 - 5 = 20 ms, 1000 after 200 - 100 = 100 ms; the read at 300 ms is
        // outside.
        let reads = [(ms(25), 1_000), (ms(200), 2_000), (ms(300), 2_000)];
        let [median, p95] = history.app_delay_ms(&reads, ms(0), ms(250)).unwrap();
        assert!(
            (median - 20.0).abs() < 0.1 && (p95 - 100.0).abs() < 0.1,
            "{median} {p95}"
        );
        assert_eq!(history.app_delay_ms(&reads, ms(0), ms(10)), None);
        assert_eq!(history.rtt_ms(ms(0), ms(50)).map(|r| r[0]), Some(40.0));
    }

    #[test]
    fn a_send_buffer_that_holds_most_of_the_time_is_named() {
        let held = |buffer, busy| {
            let mut history = History::default();
            let mut seen = wrote(1);
            seen[0].counters.busy = Span::from_millis(busy);
            seen[0].counters.held_by_buffer = Span::from_millis(buffer);
            history.add(ms(1), seen);
            history.held_by_buffer()
        };
        assert_eq!([held(0, 0), held(50, 100)], [None; 2]);
        assert_eq!(held(60, 100), Some(60));
    }

    #[test]
    fn probes_beside_the_transfer_are_not_mistaken_for_it() {
        let mut history = History::default();
        let both = [wrote(10), wrote(5_000)].concat();
        history.add(ms(1), both);
        history.add(ms(2), Vec::new());
        assert_eq!(history.last().written, 5_000);
    }

    /// The kernel itself is the reference: it must report the bytes that the test writes.
    #[test]
    fn a_real_connection_shows_what_was_written() {
        let Ok(mut diagnosis) = Sockets::open() else {
            eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&[7; 50_000]).unwrap();
        let mut back = vec![0; 50_000];
        client.read_exact(&mut back).unwrap();
        let Ok(found) = connections(&mut diagnosis, port) else {
            eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
            return;
        };
        // Another test's connection may have the same port at another address of this machine.
        let peer = client.local_addr().unwrap().port();
        let ours: Vec<_> = found.iter().filter(|seen| seen.peer == peer).collect();
        let [seen] = ours[..] else {
            panic!("expected one connection to port {peer}: {found:?}");
        };
        assert_eq!(seen.written, 50_000);
        assert!(
            seen.counters.held_by_buffer <= seen.counters.busy,
            "{seen:?}"
        );
        assert!(
            !seen.counters.rtt.is_zero() && seen.counters.cwnd > 0 && !seen.congestion.is_empty(),
            "{seen:?}"
        );
    }
}
