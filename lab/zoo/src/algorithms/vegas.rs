// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vegas: a window that keeps two to four packets of the flow in the queue. Brakmo, O'Malley and
//! Peterson, SIGCOMM 1994, in the form of Linux (`tcp_vegas`).
//!
//! The smallest RTT ever is taken for that of the empty path. Once per round trip, it is compared
//! with the smallest RTT of the round, which gives the number of packets of the window in the
//! queue. The window shrinks by a packet if there are too many, and grows by one if there are too
//! few; slow start ends when the queue begins to form. A loss is handled as in Reno.
//!
//! | constant | value | source |
//! |---|---|---|
//! | alpha, beta: fewest and most packets in the queue | 2, 4 packets | tcp_vegas |
//! | gamma: packets in the queue that end slow start | 1 packet | tcp_vegas |
//! | samples without which a round is Reno's | 3 | tcp_vegas: delayed acknowledgements |
//! | after a round, smallest window; threshold | 2 packets; 3/4 of the window | tcp_vegas; tcp_current_ssthresh |
//! | initial window; decrease | 10 packets; 1/2 | RFC 6928; RFC 5681, eq. 4 |
//!
//! **Differs from the paper** (as Linux does): packets in the queue are w (RTT - base)/base instead
//! of w (RTT - base)/RTT. The RTT is the smallest of the round. Slow start doubles in every round,
//! not in every other. There is no early retransmission. **Differs from Linux**: the window grows
//! only if it limited the sender. Samples count per packet, not per acknowledgement. After a
//! timeout the delay counts at once, not when all is repaired.
//!
//! **Known weakness**: the base RTT may be from a moment without jitter on a radio link, or the
//! path may have become longer since. Jitter is then taken for a queue, and the flow starves.
//! Beside Reno or Cubic, and with traffic in the other direction, it yields.
use alcc_cc::parts::{Growth, LossBased, MIN_SSTHRESH, Window, segments};
use alcc_cc::{AckBatch, Algorithm, Build, Built, Cx, Event, Instance, Options, Packet, Pn};
use alcc_units::Span;
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "vegas",
    summary: "Vegas: keeps two to four packets of its own in the queue, by delay",
    profiles: Cow::Borrowed(&[]),
    options: &[],
    build: Build::Function(build),
};

alcc_cc::constants! { VEGAS:
    /// Fewest packets of this flow in the queue.
    ALPHA: f64 = 2.0;
    /// Most packets of this flow in the queue.
    BETA: f64 = 4.0;
    /// Packets in the queue that end slow start.
    GAMMA: f64 = 1.0;
    /// A round with fewer samples is handled as Reno's: all may be delayed acknowledgements.
    SAMPLES: u32 = 3;
}

#[derive(Clone, Default)]
struct Vegas {
    /// Acknowledged segments not yet used for Reno's growth.
    credit: f64,
    base: Option<Span>,
    /// Smallest RTT and samples of this round; it ends when a packet sent after `round_end` is
    /// acknowledged.
    least: Option<Span>,
    samples: u32,
    round_end: Pn,
    /// Packets in the queue at the end of the last round, for plots.
    queued: f64,
    /// True between a loss and its repair, in which delay does not count.
    repairing: bool,
    /// True if the window limited the sender.
    used: bool,
    /// The packet that ended the last round, whose effect is complete.
    decided: Option<Pn>,
}

fn build(_: &Options<'_>) -> Built {
    Ok(Instance::new(LossBased::new(Vegas::default())))
}

impl Vegas {
    fn begin_round(&mut self, w: &Window) {
        (self.round_end, self.samples, self.least) = (w.sent, 0, None);
    }

    fn sample(&mut self, rtt: Span) {
        let rtt = rtt.max(Span::from_micros(1));
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        self.samples = self.samples.saturating_add(1);
    }

    /// The paper's decision at the end of a round, with `segments` to grow by; zero if the window
    /// may not. Returns whether slow start ended.
    fn end_round(&mut self, w: &mut Window, segments: f64) -> bool {
        let (samples, least, cwnd) = (self.samples, self.least, w.cwnd);
        self.begin_round(w);
        let (Some(base), Some(least), SAMPLES..) = (self.base, least, samples) else {
            self.reno(w, segments);
            return false;
        };
        let (base, least) = (base.as_nanos() as f64, least.as_nanos() as f64);
        self.queued = libm::trunc(cwnd * (least - base) / base);
        let slow = w.in_slow_start();
        let ends = slow && self.queued > GAMMA;
        if ends {
            w.cwnd = cwnd.min(libm::trunc(cwnd * base / least) + 1.0);
            w.ssthresh = w.cwnd;
        } else if slow {
            w.slow_start(segments);
        } else if self.queued > BETA {
            w.cwnd = cwnd - 1.0;
            w.ssthresh = w.ssthresh.min(w.cwnd);
        } else if self.queued < ALPHA && segments > 0.0 {
            w.cwnd = cwnd + 1.0;
        }
        w.cwnd = w.cwnd.max(MIN_SSTHRESH);
        w.ssthresh = w.ssthresh.max(libm::trunc(w.cwnd * 0.75));
        ends
    }

    fn reno(&mut self, w: &mut Window, segments: f64) {
        self.credit += w.slow_start(segments);
        w.cwnd += libm::trunc(self.credit / w.cwnd);
        self.credit %= w.cwnd;
    }
}

impl Growth for Vegas {
    fn on_ack(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, _ack: &AckBatch<'_>, used: bool) {
        self.used = used;
    }

    fn on_packet_acked(&mut self, cx: &mut Cx<'_>, w: &mut Window, packet: &Packet) {
        if let Some(rtt) = packet.rtt {
            self.sample(rtt);
        }
        if self.repairing || packet.pn <= self.round_end {
            return;
        }
        self.decided = Some(packet.pn);
        let n = if self.used {
            segments(packet.len, w.mss)
        } else {
            0
        };
        if self.end_round(w, n as f64) {
            let (why, window) = ("delay", w.cwnd);
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
        }
    }

    fn grow(&mut self, _cx: &mut Cx<'_>, w: &mut Window, packet: &Packet, segments: f64) {
        if self.decided != Some(packet.pn) {
            w.slow_start(segments);
        }
    }

    /// Done once per round, in `end_round`.
    fn congestion_avoidance(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, _segments: f64) {}

    fn ssthresh(&mut self, w: &Window, _flight: f64) -> f64 {
        self.repairing = true;
        self.credit = 0.0;
        libm::trunc(w.cwnd / 2.0)
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, w: &mut Window) {
        self.on_recovery_end(cx, w);
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, w: &mut Window) {
        self.repairing = false;
        self.begin_round(w);
    }

    fn undo(&mut self, _before: Self) {
        self.repairing = false;
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, w: &mut Window, _idle: Span, _restarted: bool) {
        self.base = None;
        self.begin_round(w);
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("rtt_min_ms", self.base.unwrap_or_default().as_millis_f64());
        put("queue", self.queued);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use alcc_cc::parts::UNLIMITED;

    /// Base RTT 50 ms; a round of `samples` samples of `rtt` ms ends with the ACK of one segment.
    fn round(window: f64, ssthresh: f64, rtt: u64, samples: u32) -> (f64, f64) {
        let mut c = Vegas::default();
        let mut w = Window {
            cwnd: window,
            ssthresh,
            mss: crate::testing::MSS,
            rtt: alcc_cc::RttView::default(),
            sent: 0,
            sent_segments: 0,
        };
        c.sample(Span::from_millis(50));
        c.begin_round(&w);
        (0..samples).for_each(|_| c.sample(Span::from_millis(rtt)));
        c.end_round(&mut w, 1.0);
        (w.cwnd, w.ssthresh)
    }

    /// A host may number its packets from 0. The first one is in slow start as all others are.
    #[test]
    fn the_first_packet_makes_the_window_grow() {
        let mut b = Bench::of("vegas");
        for pn in 0..3 {
            let sent_at = b.now - b.rtt;
            let packet = Packet {
                pn,
                ..b.packet(sent_at, Some(b.rtt))
            };
            let limited = alcc_cc::LimitedBy {
                window: true,
                ..alcc_cc::LimitedBy::default()
            };
            b.ack_batch(&[packet], limited);
        }
        assert_eq!(b.window(), 13.0);
    }

    #[test]
    fn packets_in_the_queue_decide_once_per_round() {
        let after = [9.0, 10.0, 20.0, 24.0, 26.0].map(|w| round(w, 2.0, 60, 3).0);
        // w * 10/50, rounded down: 1, 2, 4, 4, 5. The threshold follows to 3/4.
        assert_eq!(after, [10.0, 10.0, 20.0, 24.0, 25.0]);
        assert_eq!(round(26.0, 26.0, 60, 3), (25.0, 25.0));
        assert_eq!(round(26.0, 2.0, 60, 3), (25.0, 18.0));
        assert_eq!(round(2.0, 2.0, 500, 3).0, 2.0);
        // In slow start 8 * 10/50 = 1 goes on; from 10 to 10 * 50/60 = 8, and one; from 40 to 40 *
        // 50/200 = 10, and one.
        assert_eq!(round(8.0, UNLIMITED, 60, 3), (9.0, UNLIMITED));
        assert_eq!(round(10.0, UNLIMITED, 60, 3), (9.0, 9.0));
        assert_eq!(round(40.0, UNLIMITED, 200, 3), (11.0, 11.0));
        assert_eq!(round(8.0, 2.0, 500, 2), (8.0, 2.0)); // Two samples are too few: Reno.
        assert_eq!(round(8.0, UNLIMITED, 500, 2), (9.0, UNLIMITED));
    }

    #[test]
    fn it_settles_where_two_to_four_packets_wait() {
        let mut b = Bench::of("vegas");
        // A path of 100 ms that holds 20 packets; each more waits 5 ms.
        let settle = |b: &mut Bench| {
            for _ in 0..60 {
                b.rtt = Span::from_millis(100 + 5 * (b.window() as u64).saturating_sub(20));
                b.round();
            }
            b.window()
        };
        // From above, 25 * 25/100 = 6 is too much and 24 * 20/100 = 4 is not.
        assert_eq!((settle(&mut b), b.gauge("queue")), (24.0, 4.0));
        b.lose_one();
        assert_eq!(b.window(), 12.0);
        b.recovered();
        // From below a round still sees the queue of the last one: 22 * 5/100 = 1 is too little,
        // 23 * 10/100 = 2 is not.
        assert_eq!(settle(&mut b), 23.0);
    }

    #[test]
    fn a_timeout_is_renos_and_idle_time_forgets_the_base() {
        let mut b = Bench::of("vegas");
        b.timeout(1);
        assert_eq!((b.window(), b.gauge("ssthresh")), (1.0, 5.0));
        for expected in [2.0, 4.0, 5.0, 6.0] {
            b.round();
            assert_eq!(b.window(), expected);
        }
        let (now, log) = (b.now, &mut alcc_cc::Discard);
        b.cc.on_idle_restart(&mut Cx { now, log }, Span::from_millis(1));
        assert_eq!((b.gauge("rtt_min_ms"), b.window()), (0.0, 6.0));
    }

    #[test]
    fn a_mark_counts_as_a_loss() {
        let mut b = Bench::of("vegas");
        assert!(b.cc.needs().ecn);
        let before = b.window();
        b.marked = crate::testing::MSS;
        b.acks(1);
        assert_eq!(b.window(), before / 2.0);
    }
}
