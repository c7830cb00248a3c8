// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SCReAMv2, as far as it applies to a byte stream: a reference window with a target for the
//! queueing delay. The text is draft-johansson-ccwg-rfc8298bis-screamv2. Its sections are "Reaction
//! to Delay, Packet Loss and ECN-CE" and "Reference Window Update".
//!
//! A queue of more than half of the target counts as marks that L4S would set, the more the nearer
//! the average is to the target. The window grows by a segment per round trip, and by a share of
//! itself that grows with the time since the last congestion. It grows slowly near the window of
//! the last congestion.
//!
//! | constant | value | source |
//! |---|---|---|
//! | target of the queueing delay | 60 ms | QDELAY_TARGET_LO |
//! | smallest window | 3000 bytes, at least 2 packets | MIN_REF_WND |
//! | left by a loss; by a mark | 0.7; 0.8 | BETA_LOSS; BETA_ECN |
//! | left by a queue of the target or more | 0.5 | section "Reaction to Delay", l4s_alpha_v / 2 |
//! | weight of a larger queueing delay, per round trip | 1/4; smaller ones count at once | QDELAY_AVG_G |
//! | between reactions | the smoothed RTT, at most 25 ms | VIRTUAL_RTT |
//! | growth by a share of the window | 2 % per round trip, in full 4 s after congestion | MUL_INCREASE_FACTOR; POST_CONGESTION_DELAY |
//! | near the last congestion | ((w - i) / i * 4)^2, 0.1 to 1 | section "Reference window increase" |
//! | the point of congestion is noted | every 250 ms | same |
//! | no growth beyond what was in flight | times 1.1, and a segment | MAX_BYTES_IN_FLIGHT_HEAD_ROOM |
//! | in flight; pace | 1.5 times the window; 1.5 windows per round trip | REF_WND_OVERHEAD; PACKET_PACING_HEADROOM |
//! | slowest pace | 50 kbit/s | RATE_PACE_MIN |
//! | memory of the smallest RTT | 10 minutes | RFC 6817, section 2.2 |
//!
//! **Differs from the draft**: the RTT stands for the one-way delay. There are no frames, so their
//! size is 1. The target for the media rate is the window per round trip. Marks are those of RFC
//! 3168, not of L4S. The target of the delay does not rise beside others. The segment of the path
//! takes the place of 1000 bytes. A timeout counts as a loss. Of the two head rooms in the draft,
//! 1.1 and 2, the smaller one applies.
//!
//! **Known weakness**: it begins with two packets and has no slow start, so it fills a fast path
//! only after many round trips. Beside a flow that fills the queue it yields down to its smallest
//! window.
use alcc_cc::parts::{MAX_PACING_RATE, MAX_WINDOW, WindowedMin, rto};
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Event, Instance, LossBatch,
    Needs, Options, Path, Rto, RttView,
};
use alcc_units::{Bytes, Rate, Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "scream",
    summary: "SCReAMv2's window for a byte stream: a target of 60 ms for the queueing delay",
    profiles: Cow::Borrowed(&[]),
    options: &[],
    build: Build::Function(build),
};

const TARGET: f64 = 0.06;
const MIN_REF_WND: f64 = 3000.0;
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
const AVG_G: f64 = 0.25;
const VIRTUAL_RTT: Span = Span::from_millis(25);
const MUL_INCREASE: f64 = 0.02;
const POST_CONGESTION: f64 = 4.0;
const INFLECTION_EVERY: Span = Span::from_millis(250);
const HEAD_ROOM: f64 = 1.1;
const OVERHEAD: f64 = 1.5;
const PACING_HEAD_ROOM: f64 = 1.5;
const MIN_PACE: Rate = Rate::bps(50_000);
const MEMORY: Span = Span::from_secs(600);

#[derive(Clone)]
struct Scream {
    mss: Bytes,
    /// The reference window, bytes.
    window: f64,
    inflection: f64,
    inflection_at: Option<Time>,
    /// Average queueing delay, seconds.
    queue_avg: f64,
    queue_avg_at: Option<Time>,
    congestion_at: Option<Time>,
    started: Time,
    least_rtt: WindowedMin<Span>,
    rtt: RttView,
    /// Maximum bytes in flight in this round trip, and in the one before.
    most: [f64; 2],
}

fn build(_: &Options<'_>) -> Built {
    Ok(Instance::new(Scream::new()))
}

impl Scream {
    fn new() -> Self {
        Self {
            mss: Bytes::new(1448),
            window: MIN_REF_WND,
            inflection: 1.0,
            inflection_at: None,
            queue_avg: 0.0,
            queue_avg_at: None,
            congestion_at: None,
            started: Time::ZERO,
            least_rtt: WindowedMin::new(),
            rtt: RttView::default(),
            most: [0.0; 2],
        }
    }

    fn segment(&self) -> f64 {
        self.mss.get().max(1) as f64
    }

    fn least_window(&self) -> f64 {
        MIN_REF_WND.max(2.0 * self.segment())
    }

    fn average(&mut self, now: Time, queue: f64) {
        let due = (self.queue_avg_at).is_none_or(|at| now.since(at) >= self.rtt.smoothed);
        if due {
            self.queue_avg = if queue < self.queue_avg {
                queue
            } else {
                AVG_G * queue + (1.0 - AVG_G) * self.queue_avg
            };
            self.queue_avg_at = Some(now);
        }
    }

    /// The factor of a reduction by losses, marks and a queue (seconds). `None`: there is none, or
    /// it would be too soon after the last.
    fn factor(&self, now: Time, lost: bool, marked: bool, queue: f64) -> Option<f64> {
        let pause = self.rtt.smoothed.min(VIRTUAL_RTT);
        if self.congestion_at.is_some_and(|at| now.since(at) < pause) {
            return None;
        }
        let half = TARGET / 2.0;
        if !lost && !marked && queue <= half {
            return None;
        }
        let mut factor = 1.0;
        if lost {
            factor *= BETA_LOSS;
        }
        if marked {
            factor *= BETA_ECN;
        }
        if queue > half {
            factor *= 1.0 - ((self.queue_avg - half) / half).clamp(0.0, 1.0) / 2.0;
        }
        Some(factor)
    }

    fn congestion(&mut self, cx: &mut Cx<'_>, lost: bool, marked: bool, queue: f64) {
        let Some(factor) = self.factor(cx.now, lost, marked, queue) else {
            return;
        };
        let due = |at: Time| cx.now.since(at) > INFLECTION_EVERY;
        if self.inflection_at.is_none_or(due) {
            self.inflection_at = Some(cx.now);
            self.inflection = self.window;
        }
        let from = self.window / self.segment();
        self.window = (self.window * factor).max(self.least_window());
        self.congestion_at = Some(cx.now);
        let to = self.window / self.segment();
        if to < from {
            let why = match (lost, marked) {
                (true, _) => "loss",
                (false, true) => "mark",
                (false, false) => "delay",
            };
            cx.log.event(cx.now, Event::Decrease { why, from, to });
        }
    }

    /// The growth of the window for `acked` bytes.
    fn increment(&self, now: Time, acked: f64) -> f64 {
        let since = now.since(self.congestion_at.unwrap_or(self.started));
        let calm = (since.as_secs_f64() / POST_CONGESTION).clamp(0.0, 1.0);
        let short = (self.rtt.smoothed.as_secs_f64() / VIRTUAL_RTT.as_secs_f64()).min(1.0);
        let off = (self.window - self.inflection) / self.inflection.max(1.0) * 4.0;
        let near = (off * off).clamp(0.1, 1.0);
        let share = MUL_INCREASE * self.window / self.segment();
        acked * self.segment() / self.window * short * short * near * (1.0 + share * calm * near)
    }

    fn grow(&mut self, now: Time, acked: f64) {
        let window = self.window + self.increment(now, acked);
        let most = self.most[0].max(self.most[1]);
        if window <= self.segment() + most * HEAD_ROOM {
            self.window = window.min(MAX_WINDOW.get() as f64 / OVERHEAD);
        }
    }
}

impl Controller for Scream {
    fn needs(&self) -> Needs {
        Needs {
            paced: true,
            ecn: true,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.window = self.least_window();
        self.started = cx.now;
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
        self.window = self.window.max(self.least_window());
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.rtt = ack.rtt;
        let in_flight = ack.in_flight_before.get() as f64;
        if ack.round_start {
            self.most = [0.0, self.most[0]];
        }
        self.most[0] = self.most[0].max(in_flight);
        let newest = ack.acked.iter().rev().find_map(|p| p.rtt);
        for rtt in ack.acked.iter().filter_map(|p| p.rtt) {
            self.least_rtt.insert(cx.now, rtt, MEMORY);
        }
        let queue = newest
            .zip(self.least_rtt.get())
            .map_or(0.0, |(rtt, least)| rtt.saturating_sub(least).as_secs_f64());
        self.average(cx.now, queue);
        self.congestion(cx, false, ack.marked > Bytes::ZERO, queue);
        let acked: u64 = ack.acked.iter().map(|p| p.len.get()).sum();
        self.grow(cx.now, acked.saturating_sub(ack.marked.get()) as f64);
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, _loss: &LossBatch<'_>) {
        self.congestion(cx, true, false, 0.0);
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        self.congestion(cx, true, false, 0.0);
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, idle: Span) {
        // The earlier data in flight is out of date.
        if idle >= rto(&self.rtt) {
            self.most = [0.0; 2];
        }
    }

    fn allowance(&self) -> Allowance {
        let window = Bytes::new((self.window * OVERHEAD) as u64).max(self.mss);
        let rate = (!self.rtt.smoothed.is_zero()).then(|| {
            let bytes = self.window * PACING_HEAD_ROOM / self.rtt.smoothed.as_secs_f64();
            Rate::bps_f64(bytes * 8.0).clamp(MIN_PACE, MAX_PACING_RATE)
        });
        Allowance {
            rate,
            burst: self.mss * 2,
            ..Allowance::window(window)
        }
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.window / self.segment());
        put("queue_ms", self.queue_avg * 1e3);
        let least = self.least_rtt.get().unwrap_or_default();
        put("rtt_min_ms", least.as_millis_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// 100 packets of 1000 bytes, RTT 100 ms.
    fn scream() -> Scream {
        Scream {
            mss: Bytes::new(1000),
            window: 100e3,
            rtt: RttView {
                smoothed: Span::from_millis(100),
                ..RttView::default()
            },
            ..Scream::new()
        }
    }

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn the_queue_counts_from_half_of_its_target() {
        let mut s = scream();
        let factor = |s: &Scream, lost, marked, queue| s.factor(at(1000), lost, marked, queue);
        assert_eq!(factor(&s, false, false, 0.03), None);
        assert_eq!(factor(&s, true, false, 0.0), Some(0.7));
        assert_eq!(factor(&s, false, true, 0.0), Some(0.8));
        for (average, expected) in [(0.02, 1.0), (0.045, 0.75), (0.06, 0.5), (0.2, 0.5)] {
            s.queue_avg = average;
            let factor = factor(&s, false, false, 0.05).unwrap();
            assert!((factor - expected).abs() < 1e-9, "{average}: {factor}");
        }
        // Not within 25 ms of the last time.
        s.congestion_at = Some(at(980));
        assert_eq!(factor(&s, true, false, 0.0), None);
        s.congestion_at = Some(at(975));
        assert_eq!(factor(&s, true, false, 0.0), Some(0.7));
    }

    #[test]
    fn a_queue_counts_slowly_when_it_grows_and_at_once_when_it_shrinks() {
        let mut s = scream();
        for (ms, queue, expected) in [
            (0, 0.04, 0.01),
            (50, 0.04, 0.01), // Not yet a round trip.
            (100, 0.04, 0.0175),
            (200, 0.005, 0.005),
        ] {
            s.average(at(ms), queue);
            assert!(
                (s.queue_avg - expected).abs() < 1e-9,
                "at {ms}: {}",
                s.queue_avg
            );
        }
    }

    #[test]
    fn growth_near_and_far_from_the_last_congestion() {
        let mut s = scream();
        // A window of data acknowledged. Nothing ever happened: a segment, and 2 % of 100 in full
        // after four seconds.
        let grown = |s: &Scream, ms| s.increment(at(ms), 100e3) / 1000.0;
        assert!((grown(&s, 0) - 1.0).abs() < 1e-9);
        assert!((grown(&s, 4000) - 3.0).abs() < 1e-9);
        // At the point of congestion: a tenth. A tenth away: (0.1 / 1 * 4)^2 = 0.16 of 1 + 2 *
        // 0.16.
        s.inflection = 100e3;
        assert!((grown(&s, 4000) - 0.1 * 1.2).abs() < 1e-9);
        s.window = 90e3;
        let expected = 100.0 / 90.0 * 0.16 * (1.0 + 1.8 * 0.16);
        assert!((grown(&s, 4000) - expected).abs() < 1e-9);
        // Half of the virtual RTT: a quarter.
        (s.window, s.inflection) = (100e3, 1.0);
        s.rtt.smoothed = Span::from_micros(12_500);
        assert!((grown(&s, 0) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn the_window_does_not_grow_far_beyond_what_was_in_flight() {
        let mut s = scream();
        s.most = [90e3, 40e3];
        s.grow(at(0), 1000.0);
        assert_eq!(s.window, 100e3);
        s.most = [91e3, 40e3];
        s.grow(at(0), 1000.0);
        assert!(s.window > 100e3);
    }

    #[test]
    fn it_begins_with_two_packets_and_half_more_in_flight() {
        let mut b = Bench::of("scream");
        assert_eq!(b.cc.allowance().window, Bytes::new(4500));
        b.lose_one();
        assert_eq!(b.cc.allowance().window, Bytes::new(4500));
        b.recovered();
        b.round();
        assert!(b.cc.allowance().window > Bytes::new(4500));
    }
}
