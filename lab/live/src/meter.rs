// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Throughput, delay and loss from the events at the bottleneck.
//!
//! The window begins with the first full-size packet that arrives at the bottleneck. So connection
//! set-up is outside, and the start-up of the congestion control inside. Memory depends on the
//! window's length, not on the number of packets.
use alcc_results::{Distribution, Row, Series, quantiles};
use alcc_units::{Bytes, Rate, Span, Time};

/// A packet of at least this size opens the window. A bare acknowledgement, a SYN or a request
/// never does. A data packet of TCP (1500 bytes) or QUIC (1228 and more) always does.
pub const FULL_SIZE: Bytes = Bytes::new(1_200);

/// Measures one flow at one bottleneck. Times of all calls are of one clock and do not go back.
pub struct Meter {
    window: Span,
    propagation: Span,
    bin: Span,
    start: Option<Time>,
    /// The flow's own first full-size packet.
    first: Option<Time>,
    arrived: u64,
    dropped: u64,
    bytes: Bytes,
    queueing: Distribution,
    bins: Vec<Bin>,
    /// Per millisecond of arrival since `start`: the earliest departure (since `start`) of a packet
    /// that arrived in it.
    earliest: Vec<Option<Span>>,
}

#[derive(Clone, Copy, Default)]
struct Bin {
    bytes: Bytes,
    packets: u64,
    queueing: Span,
}

/// Measurement of a [`Meter`] in its window.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Observed {
    /// Start of the window, on the meter's clock.
    pub started: Time,
    /// The flow's part of the window: with the window, or at its first full-size packet.
    pub flow_started: Time,
    /// IP bytes delivered in the window.
    pub delivered: Bytes,
    /// IP bytes of the delivery opportunities in the window.
    pub opportunities: Bytes,
    /// Delivered / window, Mbit/s.
    pub throughput_mbps: f64,
    /// Delivered / opportunities; `None` without opportunities.
    pub utilization: Option<f64>,
    /// Mean, median, 95th percentile of queueing, ms; `None` if nothing was delivered.
    pub queue_delay_ms: Option<[f64; 3]>,
    /// The same with propagation, ms.
    pub delay_ms: Option<[f64; 3]>,
    /// See [`Row::signal_delay_p95_ms`].
    pub signal_delay_p95_ms: Option<f64>,
    /// Lost on the path, in the queue or at random / entered it, in the window; `None` if nothing
    /// entered.
    pub loss: Option<f64>,
    /// For the plots; scheme, link and run are empty.
    pub series: Series,
}

impl Meter {
    /// A meter whose window is `window` long, for a path with this one-way `propagation`. Series
    /// have steps of `bin` (at least 1 ms).
    pub fn new(window: Span, propagation: Span, bin: Span) -> Self {
        let bin = bin.max(Span::from_millis(1));
        let bins = window.as_nanos().div_ceil(bin.as_nanos());
        let milliseconds = window.as_nanos().div_ceil(1_000_000);
        Self {
            window,
            propagation,
            bin,
            start: None,
            first: None,
            arrived: 0,
            dropped: 0,
            bytes: Bytes::ZERO,
            queueing: Distribution::new(),
            bins: vec![Bin::default(); bins as usize],
            earliest: vec![None; milliseconds as usize],
        }
    }

    /// Start of the window; `None` before the first full-size packet.
    pub fn started(&self) -> Option<Time> {
        self.start
    }

    /// The window begins at `at` if it has not begun. Another meter at the same bottleneck saw the
    /// first full-size packet.
    pub fn begin(&mut self, at: Time) {
        self.start.get_or_insert(at);
    }

    /// True once the window has passed.
    pub fn is_over(&self, now: Time) -> bool {
        self.start
            .is_some_and(|start| now.since(start) >= self.window)
    }

    /// Time from the start of the window to `at`; `None` outside the window.
    fn inside(&self, at: Time) -> Option<Span> {
        let start = self.start.filter(|start| *start <= at)?;
        Some(at.since(start)).filter(|age| *age < self.window)
    }

    /// A packet came to the bottleneck, whatever became of it then.
    pub fn arrived(&mut self, at: Time, size: Bytes) {
        if size >= FULL_SIZE {
            self.first.get_or_insert(at);
            self.begin(at);
        }
        if self.inside(at).is_some() {
            self.arrived += 1;
        }
    }

    /// The path lost a packet before it came to the bottleneck.
    pub fn lost_before(&mut self, at: Time) {
        if self.inside(at).is_some() {
            self.arrived += 1;
            self.dropped += 1;
        }
    }

    /// The bottleneck dropped a packet, on arrival or later, or the path lost it behind.
    pub fn dropped(&mut self, at: Time) {
        if self.inside(at).is_some() {
            self.dropped += 1;
        }
    }

    /// The bottleneck passed a packet on at `at`, `queueing` after it had arrived.
    pub fn delivered(&mut self, at: Time, size: Bytes, queueing: Span) {
        let Some(age) = self.inside(at) else {
            return;
        };
        self.bytes += size;
        self.queueing.add(queueing, 1);
        let bin = &mut self.bins[(age.as_nanos() / self.bin.as_nanos()) as usize];
        bin.bytes += size;
        bin.packets += 1;
        bin.queueing += queueing;
        // A packet from before the window says nothing about a signal sent inside it.
        if queueing <= age {
            let arrived = age - queueing;
            let slot = &mut self.earliest[(arrived.as_nanos() / 1_000_000) as usize];
            *slot = Some(slot.map_or(age, |earlier| earlier.min(age)));
        }
    }

    /// Sums up. `opportunities` returns how many bytes the bottleneck could have passed on from one
    /// time up to (not including) another. It is [`Bytes::MAX`] without a limit. `None` if no
    /// full-size packet ever came.
    pub fn finish(&self, opportunities: impl Fn(Time, Time) -> Bytes) -> Option<Observed> {
        let start = self.start?;
        let offered = opportunities(start, start + self.window);
        let with_propagation = |ms: f64| ms + self.propagation.as_millis_f64();
        let queue_delay_ms = self
            .queueing
            .mean_ms()
            .zip(self.queueing.quantile_ms(0.5))
            .zip(self.queueing.quantile_ms(0.95))
            .map(|((mean, median), p95)| [mean, median, p95]);
        let mut series = Series {
            bin_s: self.bin.as_secs_f64(),
            delay_quantiles_ms: quantiles()
                .into_iter()
                .filter_map(|q| self.queueing.quantile_ms(q))
                .map(with_propagation)
                .collect(),
            ..Series::default()
        };
        let mut from = start;
        for bin in &self.bins {
            let to = (from + self.bin).min(start + self.window);
            let mbps = |bytes: Bytes| Rate::of(bytes, to.since(from)).as_mbps_f64();
            series.throughput_mbps.push(mbps(bin.bytes));
            if offered < Bytes::MAX {
                series.capacity_mbps.push(mbps(opportunities(from, to)));
            }
            let mean = (bin.packets > 0).then(|| bin.queueing.as_millis_f64() / bin.packets as f64);
            series.delay_ms.push(mean.map(with_propagation));
            from = to;
        }
        Some(Observed {
            started: start,
            flow_started: self.first.map_or(start, |first| first.max(start)),
            delivered: self.bytes,
            opportunities: offered,
            throughput_mbps: Rate::of(self.bytes, self.window).as_mbps_f64(),
            utilization: (offered > Bytes::ZERO && offered < Bytes::MAX)
                .then(|| self.bytes.packets(offered)),
            queue_delay_ms,
            delay_ms: queue_delay_ms.map(|all| all.map(with_propagation)),
            signal_delay_p95_ms: signal_delay_p95(&self.earliest).map(Span::as_millis_f64),
            loss: (self.arrived > 0).then(|| self.dropped as f64 / self.arrived as f64),
            series,
        })
    }
}

/// Mahimahi's signal delay (Winstein et al., NSDI 2013; the throughput graph of its tools): the
/// smallest (departure - t) over packets that arrived at or after t. It has a value for every
/// millisecond t from the first to the last arrival of a delivered packet. Its 95th percentile is
/// the sorted value number floor(0.95 n), counted from 0.
fn signal_delay_p95(earliest: &[Option<Span>]) -> Option<Span> {
    let first = earliest.iter().position(Option::is_some)?;
    let mut next: Option<Span> = None;
    let mut delays: Vec<Span> = Vec::new();
    for (ms, departure) in earliest.iter().enumerate().skip(first).rev() {
        next = match (*departure, next) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if let Some(departure) = next {
            delays.push(departure - Span::from_millis(ms as u64));
        }
    }
    delays.sort_unstable();
    delays.get(delays.len() * 95 / 100).copied()
}

impl Observed {
    /// Writes the figures into a row.
    pub fn fill(&self, row: &mut Row) {
        row.started_s = Some(self.flow_started.as_secs_f64());
        row.throughput_mbps = Some(self.throughput_mbps);
        row.utilization = self.utilization;
        [row.delay_mean_ms, row.delay_median_ms, row.delay_p95_ms] = some_each(self.delay_ms);
        [
            row.queue_delay_mean_ms,
            row.queue_delay_median_ms,
            row.queue_delay_p95_ms,
        ] = some_each(self.queue_delay_ms);
        row.signal_delay_p95_ms = self.signal_delay_p95_ms;
        row.loss = self.loss;
    }
}

fn some_each(values: Option<[f64; 3]>) -> [Option<f64>; 3] {
    values.map_or([None; 3], |values| values.map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: Bytes = Bytes::new(1_500);

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    fn span(n: u64) -> Span {
        Span::from_millis(n)
    }

    /// A 12 Mbit/s link: one opportunity of 1500 bytes per ms.
    fn twelve_mbit(from: Time, to: Time) -> Bytes {
        Rate::mbps(12).bytes_in(to.since(from))
    }

    fn close(found: f64, want: f64) {
        assert!(
            (found - want).abs() <= want.abs() * 1e-3 + 1e-9,
            "{found} is not {want}"
        );
    }

    /// One packet in four is lost at random, before the bottleneck, and one of the others behind it.
    #[test]
    fn loss_counts_all_that_the_path_lost() {
        let mut meter = Meter::new(span(10), span(0), span(1));
        for at in 0..3 {
            meter.arrived(ms(at), FULL);
            meter.delivered(ms(at), FULL, span(0));
        }
        meter.lost_before(ms(1));
        meter.dropped(ms(2));
        close(meter.finish(twelve_mbit).unwrap().loss.unwrap(), 0.5);
    }

    #[test]
    fn hand_vector_of_four_packets() {
        // Window of 10 ms, propagation 20 ms. The SYN and the request at 2 and 45 ms do not open
        // it; the data packet at 100 does.
        let mut meter = Meter::new(span(10), span(20), span(5));
        meter.arrived(ms(2), Bytes::new(60));
        meter.delivered(ms(3), Bytes::new(60), span(1));
        assert_eq!(meter.started(), None);
        for (arrival, departure) in [
            (100, Some(101)),
            (100, Some(103)),
            (101, None),
            (102, Some(106)),
        ] {
            meter.arrived(ms(arrival), FULL);
            match departure {
                Some(at) => meter.delivered(ms(at), FULL, ms(at).since(ms(arrival))),
                None => meter.dropped(ms(arrival)),
            }
        }
        // Arrived inside, delivered after the window's end at 110 ms: an arrival, not a delivery.
        meter.arrived(ms(109), FULL);
        meter.delivered(ms(110), FULL, span(1));
        assert!(meter.is_over(ms(110)) && !meter.is_over(ms(109)));

        let seen = meter.finish(twelve_mbit).unwrap();
        assert_eq!(seen.started, ms(100));
        assert_eq!(seen.flow_started, ms(100));
        assert_eq!(seen.delivered, Bytes::new(4_500));
        assert_eq!(seen.opportunities, Bytes::new(15_000));
        // 4500 B * 8 / 10 ms = 3.6 Mbit/s, 30 % of 12.
        close(seen.throughput_mbps, 3.6);
        close(seen.utilization.unwrap(), 0.3);
        // One of five arrivals was dropped.
        close(seen.loss.unwrap(), 0.2);
        // Queueing 1, 3, 4 ms.
        let [mean, median, p95] = seen.queue_delay_ms.unwrap();
        close(mean, 8.0 / 3.0);
        close(median, 3.0);
        close(p95, 4.0);
        close(seen.delay_ms.unwrap()[2], 24.0);
        // Two bins of 5 ms: 2 packets (mean queueing 2 ms), 1 packet (4 ms).
        assert_eq!(seen.series.throughput_mbps, [4.8, 2.4]);
        assert_eq!(seen.series.capacity_mbps, [12.0, 12.0]);
        assert_eq!(seen.series.delay_ms, [Some(22.0), Some(24.0)]);
    }

    #[test]
    fn signal_delay_waits_for_the_next_packet_that_gets_through() {
        // Arrivals at 0 (departs 1), 4 (departs 20) and 5 (departs 9: it overtook). t = 0: 1. t =
        // 1, 2, 3: the next arrivals leave at 9 at the earliest: 8, 7, 6. t = 4: 5. t = 5: 4.
        // Sorted 1 4 5 6 7 8: floor(0.95 * 6) = 5 -> 8 ms.
        let mut meter = Meter::new(span(30), Span::ZERO, span(10));
        meter.arrived(ms(50), FULL);
        for (arrival, departure) in [(50, 51), (55, 59), (54, 70)] {
            meter.delivered(ms(departure), FULL, ms(departure).since(ms(arrival)));
        }
        let seen = meter.finish(twelve_mbit).unwrap();
        close(seen.signal_delay_p95_ms.unwrap(), 8.0);
    }

    #[test]
    fn nothing_is_not_zero() {
        let meter = Meter::new(span(10), span(20), span(5));
        assert_eq!(meter.finish(twelve_mbit), None);
        let mut all_lost = Meter::new(span(10), span(20), span(5));
        all_lost.arrived(ms(1), FULL);
        all_lost.dropped(ms(1));
        let seen = all_lost.finish(|_, _| Bytes::ZERO).unwrap();
        assert_eq!(
            (seen.delay_ms, seen.utilization, seen.loss),
            (None, None, Some(1.0))
        );
        let mut row = Row::default();
        seen.fill(&mut row);
        assert_eq!((row.throughput_mbps, row.delay_p95_ms), (Some(0.0), None));
    }

    #[test]
    fn a_window_that_is_no_multiple_of_the_bin_keeps_the_rate_of_its_last_bin() {
        let mut meter = Meter::new(span(7), Span::ZERO, span(5));
        meter.arrived(ms(0), FULL);
        meter.delivered(ms(6), FULL, span(6));
        let seen = meter.finish(twelve_mbit).unwrap();
        // 1500 B in the 2 ms that remain.
        assert_eq!(seen.series.throughput_mbps, [0.0, 6.0]);
        assert_eq!(seen.series.capacity_mbps, [12.0, 12.0]);
    }

    #[test]
    fn a_flow_that_comes_later_has_a_begin_of_its_own() {
        let mut meter = Meter::new(span(10), span(20), span(5));
        meter.begin(ms(100));
        meter.arrived(ms(101), Bytes::new(60));
        meter.arrived(ms(104), FULL);
        let seen = meter.finish(twelve_mbit).unwrap();
        assert_eq!((seen.started, seen.flow_started), (ms(100), ms(104)));
    }
}
