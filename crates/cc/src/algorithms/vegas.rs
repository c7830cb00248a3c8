// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vegas: a window that keeps two to four packets of its own in the queue. Brakmo, O'Malley and Peterson, SIGCOMM 1994, in
//! the form of Linux (`tcp_vegas`).
//!
//! The smallest RTT ever is that of the empty path. Once per round trip, the smallest RTT of the round against it tells how
//! many packets of the window wait in the queue. Too many: one packet less; too few: one more; slow start ends when the
//! queue begins to form. On loss it is Reno.
//!
//! | constant | value | source |
//! |---|---|---|
//! | alpha, beta: fewest and most packets in the queue | 2, 4 packets | tcp_vegas |
//! | gamma: packets in the queue that end slow start | 1 packet | tcp_vegas |
//! | samples without which a round is Reno's | 3 | tcp_vegas: delayed acknowledgements |
//! | after a round, smallest window; threshold | 2 packets; 3/4 of the window | tcp_vegas; tcp_current_ssthresh |
//! | initial window; decrease | 10 packets; 1/2 | RFC 6928; RFC 5681, eq. 4 |
//!
//! **Differs from the paper** (as Linux does): packets in the queue are w (RTT - base)/base instead of w (RTT - base)/RTT;
//! the RTT is the smallest of the round; slow start doubles in every round, not in every other; there is no early
//! retransmission. **Differs from Linux**: the window does not grow unless it was what limited the sender; samples count per
//! packet, not per acknowledgement; after a timeout the delay counts at once, not when all is repaired.
//!
//! **Known weakness**: a base RTT caught in a quiet moment of a jittery radio link, or before the path became longer, makes
//! jitter look like a queue: it starves. Beside Reno or Cubic, and with traffic in the other direction, it yields.
use crate::parts::{restart_window, rto, segments, window_bytes, window_used};
use crate::{
    AckBatch, Algorithm, Allowance, Controller, Cx, Event, LossBatch, Needs, Options, Path, Pn,
    Recovery, Rto, RttView, Sent, SpecError, Spurious, Tag,
};
use alcc_units::{Bytes, Span};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "vegas",
    summary: "Vegas: two to four packets of its own in the queue, by delay",
    profiles: &[],
    options: &[],
    build,
};

const ALPHA: u64 = 2;
const BETA: u64 = 4;
const GAMMA: u64 = 1;
const INITIAL: u64 = 10;
const SMALLEST: u64 = 2;
/// Also the threshold before anything is known: no window reaches it.
const LARGEST: u64 = 1 << 30;
const SAMPLES: u32 = 3;

#[derive(Clone, Default)]
struct Vegas {
    mss: Bytes,
    /// Packets.
    window: u64,
    threshold: u64,
    /// Acknowledged segments not yet turned into Reno's growth.
    credit: u64,
    /// Between a loss and its repair the window holds still; after a timeout it grows.
    recovering: bool,
    base: Option<Span>,
    /// Smallest RTT and samples of this round; it ends when something sent after `round_end` is acknowledged.
    least: Option<Span>,
    samples: u32,
    round_end: Pn,
    sent: Pn,
    /// Packets in the queue at the end of the last round, for plots.
    queued: u64,
    undo: Option<(u64, u64)>,
    rtt: RttView,
}

fn build(_: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    Ok(Box::new(Vegas {
        window: INITIAL,
        threshold: LARGEST,
        ..Vegas::default()
    }))
}

impl Vegas {
    fn begin_round(&mut self) {
        (self.round_end, self.samples, self.least) = (self.sent, 0, None);
    }

    fn sample(&mut self, rtt: Span) {
        let rtt = rtt.max(Span::from_micros(1));
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        self.samples = self.samples.saturating_add(1);
    }

    /// Returns the segments that the threshold left over.
    fn slow_start(&mut self, segments: u64) -> u64 {
        let fast = segments.min(self.threshold.saturating_sub(self.window));
        self.window += fast;
        segments - fast
    }

    fn reno(&mut self, segments: u64) {
        self.credit += self.slow_start(segments);
        let gained = self.credit / self.window;
        self.credit %= self.window;
        self.window = (self.window + gained).min(LARGEST);
    }

    /// The paper's decision at the end of a round, with `segments` to grow by. Returns whether slow start ended.
    fn end_round(&mut self, segments: u64) -> bool {
        let (samples, least, w) = (self.samples, self.least, self.window);
        self.begin_round();
        let (Some(base), Some(least), SAMPLES..) = (self.base, least, samples) else {
            self.reno(segments);
            return false;
        };
        let (base, least) = (base.as_nanos() as f64, least.as_nanos() as f64);
        self.queued = (w as f64 * (least - base) / base) as u64;
        let slow = w < self.threshold;
        let ends = slow && self.queued > GAMMA;
        if ends {
            self.window = w.min((w as f64 * base / least) as u64 + 1);
            self.threshold = self.window;
        } else if slow {
            self.slow_start(segments);
        } else if self.queued > BETA {
            self.window = w.saturating_sub(1);
            self.threshold = self.threshold.min(self.window);
        } else if self.queued < ALPHA && segments > 0 {
            self.window = w + 1;
        }
        self.window = self.window.clamp(SMALLEST, LARGEST);
        self.threshold = self.threshold.max(self.window * 3 / 4);
        ends
    }

    fn reduce(&mut self, cx: &mut Cx<'_>, why: &'static str, first: bool, to: Option<u64>) {
        let from = self.window;
        if first {
            self.undo = Some((from, self.threshold));
            self.threshold = (from / 2).max(2);
        }
        self.window = to.unwrap_or(self.threshold);
        self.credit = 0;
        let (from, to) = (from as f64, self.window as f64);
        cx.log.event(cx.now, Event::Decrease { why, from, to });
    }
}

impl Controller for Vegas {
    fn needs(&self) -> Needs {
        Needs {
            recovery: Recovery::Prr,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_path_change(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_sent(&mut self, _cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.sent = sent.pn;
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.rtt = ack.rtt;
        if self.recovering && !ack.in_recovery {
            self.recovering = false;
            self.begin_round();
        }
        let used = window_used(ack, window_bytes(self.window as f64, self.mss));
        for packet in ack.acked {
            if let Some(rtt) = packet.rtt {
                self.sample(rtt);
            }
            let n = u64::from(used && !self.recovering) * segments(packet.len, self.mss);
            if self.recovering || packet.pn <= self.round_end {
                self.slow_start(n);
            } else if self.end_round(n) {
                let (why, window) = ("delay", self.window as f64);
                cx.log.event(cx.now, Event::SlowStartExit { why, window });
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if loss.new_episode {
            self.reduce(cx, "loss", true, None);
            self.recovering = true;
        }
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.reduce(cx, "timeout", rto.backoff <= 1, Some(1));
        self.recovering = false;
        self.begin_round();
        let restart = Event::SlowStartRestart { why: "timeout" };
        cx.log.event(cx.now, restart);
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        if let Some((window, threshold)) = self.undo.take() {
            (self.window, self.threshold) = (self.window.max(window), threshold);
            self.recovering = false;
        }
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, idle: Span) {
        self.base = None;
        self.begin_round();
        self.threshold = self.threshold.max(self.window * 3 / 4);
        let window = self.window as f64;
        self.window = restart_window(window, INITIAL as f64, idle, rto(&self.rtt)) as u64;
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(window_bytes(self.window as f64, self.mss))
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.window as f64);
        put("ssthresh", self.threshold as f64);
        put("rtt_min_ms", self.base.unwrap_or_default().as_millis_f64());
        put("queue", self.queued as f64);
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// Base RTT 50 ms; a round of so many samples of `rtt` ms ends with the acknowledgement of one segment.
    fn round(window: u64, threshold: u64, rtt: u64, samples: u32) -> (u64, u64) {
        let mut c = Vegas::default();
        (c.window, c.threshold) = (window, threshold);
        c.sample(Span::from_millis(50));
        c.begin_round();
        (0..samples).for_each(|_| c.sample(Span::from_millis(rtt)));
        c.end_round(1);
        (c.window, c.threshold)
    }

    #[test]
    fn packets_in_the_queue_decide_once_per_round() {
        let after = [9, 10, 20, 24, 26].map(|w| round(w, 2, 60, 3).0);
        // w * 10/50, rounded down: 1, 2, 4, 4, 5. The threshold follows to 3/4.
        assert_eq!(after, [10, 10, 20, 24, 25]);
        assert_eq!(round(26, 26, 60, 3), (25, 25));
        assert_eq!(round(26, 2, 60, 3), (25, 18));
        assert_eq!(round(2, 2, 500, 3).0, 2);
        // In slow start 8 * 10/50 = 1 goes on; from 10 to 10 * 50/60 = 8, and one; from 40 to 40 * 50/200 = 10, and one.
        assert_eq!(round(8, LARGEST, 60, 3), (9, LARGEST));
        assert_eq!(round(10, LARGEST, 60, 3), (9, 9));
        assert_eq!(round(40, LARGEST, 200, 3), (11, 11));
        assert_eq!(round(8, 2, 500, 2), (8, 2)); // Two samples are too few: Reno.
        assert_eq!(round(8, LARGEST, 500, 2), (9, LARGEST));
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
        // From below a round still sees the queue of the last one: 22 * 5/100 = 1 is too little, 23 * 10/100 = 2 is not.
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
        let (now, log) = (b.now, &mut crate::Discard);
        b.cc.on_idle_restart(&mut Cx { now, log }, Span::from_millis(1));
        assert_eq!((b.gauge("rtt_min_ms"), b.window()), (0.0, 6.0));
    }
}
