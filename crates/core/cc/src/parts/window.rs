// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the loss-based algorithms have in common: slow start, one reduction per loss episode, timeouts, undoing a mistake,
//! and resuming after a pause. An algorithm adds how the window grows and how much of it a loss leaves: [`Growth`].
use super::{restart_window, rto, segments, window_bytes, window_used};
use crate::{
    AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Packet, Path, Pn, Recovery,
    RecoveryEnd, Rto, RttView, Sent, Source, Spurious, Stack, Tag,
};
use alcc_units::{Bytes, Span};

/// Initial window, packets (RFC 6928).
pub const INITIAL_WINDOW: f64 = 10.0;
/// Smallest slow start threshold, packets (RFC 5681, eq. 4).
pub const SMALLEST_THRESHOLD: f64 = 2.0;
/// The threshold before anything is known, and what no window exceeds, packets.
pub const UNLIMITED: f64 = 1e9;

/// A congestion window, in packets.
#[derive(Clone, Debug)]
pub struct Window {
    /// Congestion window, at least 1.
    pub cwnd: f64,
    /// Slow start threshold.
    pub threshold: f64,
    /// Segment size.
    pub mss: Bytes,
    /// The host's RTT estimate as of the last acknowledgement.
    pub rtt: RttView,
    /// Newest transmission number.
    pub sent: Pn,
}

impl Window {
    /// Grows by a packet per acknowledged segment up to the threshold; returns the segments that it left over.
    pub fn slow_start(&mut self, segments: f64) -> f64 {
        let fast = segments.min((self.threshold - self.cwnd).max(0.0));
        self.cwnd += fast;
        segments - fast
    }

    /// True below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.threshold
    }
}

/// How a loss-based window grows and what a loss leaves of it. A clone is kept with every reduction, in case it was a mistake.
pub trait Growth: Clone + Send + 'static {
    /// The flow begins.
    fn start(&mut self, _cx: &mut Cx<'_>, _w: &Window) {}

    /// Acknowledgements came; `used`: the window was what limited the sender. Before the packets.
    fn acknowledged(
        &mut self,
        _cx: &mut Cx<'_>,
        _w: &mut Window,
        _ack: &AckBatch<'_>,
        _used: bool,
    ) {
    }

    /// A packet arrived. Before the window grows, and also while it may not.
    fn arrived(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, _packet: &Packet) {}

    /// `segments` were acknowledged and may make the window grow.
    fn grow(&mut self, cx: &mut Cx<'_>, w: &mut Window, _packet: &Packet, segments: f64) {
        let rest = w.slow_start(segments);
        if rest > 0.0 {
            self.avoid(cx, w, rest);
        }
    }

    /// Congestion avoidance: `segments` beyond slow start.
    fn avoid(&mut self, cx: &mut Cx<'_>, w: &mut Window, segments: f64);

    /// Packets were lost with so many in flight, at most the window: the new threshold.
    fn reduce(&mut self, w: &Window, flight: f64) -> f64;

    /// The window while losses are repaired: at most the threshold.
    fn floor(&self, w: &Window) -> f64 {
        w.threshold
    }

    /// A timeout: the window is one packet now. After [`Growth::reduce`], which only a first timeout calls.
    fn timeout(&mut self, _cx: &mut Cx<'_>, _w: &mut Window) {}

    /// All is repaired.
    fn repaired(&mut self, _cx: &mut Cx<'_>, _w: &mut Window) {}

    /// The window to return to when the last reduction was a mistake; it was so many packets.
    fn undone(&self, cwnd: f64) -> f64 {
        cwnd
    }

    /// The last reduction was a mistake; this is what there was before it.
    fn undo(&mut self, _before: Self) {}

    /// Sending resumes after `idle`; `restarted`: so long that the window was taken back.
    fn idle(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, _idle: Span, _restarted: bool) {}

    /// For plots, besides the window and the threshold.
    fn gauges(&self, _put: &mut dyn FnMut(&'static str, f64)) {}
}

/// What an acknowledgement counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// The segments that it covers.
    Segments,
    /// In slow start its segments, then one.
    SegmentsThenOne,
    /// One. Above TCP, where several are read at once, they are one as well.
    One,
}

/// What a window owes to the age of its kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kernel {
    /// The stack that goes with it.
    pub stack: Stack,
    /// Initial window, packets.
    pub initial: f64,
    /// How acknowledgements make the window grow.
    pub counting: Counting,
    /// Slow start goes on at the threshold itself, and one packet beyond.
    pub at_threshold: bool,
    /// After a pause the window begins anew, instead of halving for each timeout that passed.
    pub restarts: bool,
}

impl Kernel {
    /// Since 4.1; initial window of RFC 6928.
    pub const LINUX: Self = Self {
        stack: Stack::Linux,
        initial: INITIAL_WINDOW,
        counting: Counting::Segments,
        at_threshold: false,
        restarts: false,
    };
    /// The kernel of the Verus paper. Slow start counts segments since 3.13.
    pub const LINUX_3_16: Self = Self {
        stack: Stack::Linux3_16,
        counting: Counting::SegmentsThenOne,
        at_threshold: true,
        ..Self::LINUX
    };
    /// The kernel of the HSDPA paper; initial window of RFC 3390 for the segments of Ethernet.
    pub const LINUX_2_6_24: Self = Self {
        stack: Stack::Linux2_6_24,
        initial: 3.0,
        counting: Counting::One,
        ..Self::LINUX_3_16
    };
    /// NewReno of Windows 7: initial window of RFC 2581 (from memory), and it restarts after a pause (RFC 5681, section 4.1).
    pub const WINDOWS_7: Self = Self {
        stack: Stack::Windows7,
        initial: 2.0,
        restarts: true,
        ..Self::LINUX
    };

    /// Does an acknowledgement count once in congestion avoidance?
    pub fn counts_ones(&self) -> bool {
        self.counting != Counting::Segments
    }
}

/// A controller out of a [`Growth`].
#[derive(Clone)]
pub struct LossBased<G> {
    kernel: Kernel,
    w: Window,
    growth: G,
    /// Between a loss and its repair the window holds still; after a timeout it grows.
    recovering: bool,
    /// Transmissions from this number on left after the last reduction: a mark on one of them is news.
    reduced_before: Pn,
    /// Window, threshold and growth before the last reduction.
    undo: Option<(f64, f64, G)>,
}

impl<G: Growth> LossBased<G> {
    /// With the initial window of RFC 6928.
    pub fn new(growth: G) -> Self {
        Self::starting_at(INITIAL_WINDOW, growth)
    }

    /// With an initial window of so many packets.
    pub fn starting_at(initial: f64, growth: G) -> Self {
        Self::of(
            Kernel {
                initial,
                ..Kernel::LINUX
            },
            growth,
        )
    }

    /// As that kernel has it.
    pub fn of(kernel: Kernel, growth: G) -> Self {
        let cwnd = kernel.initial;
        Self {
            kernel,
            w: Window {
                cwnd,
                threshold: UNLIMITED,
                mss: Bytes::new(1448),
                rtt: RttView::default(),
                sent: 0,
            },
            growth,
            recovering: false,
            reduced_before: 0,
            undo: None,
        }
    }

    fn reduce(&mut self, in_flight: Bytes) {
        self.undo = Some((self.w.cwnd, self.w.threshold, self.growth.clone()));
        // What is in flight may exceed a window that has just shrunk.
        let flight = in_flight.packets(self.w.mss).min(self.w.cwnd);
        self.w.threshold = self.growth.reduce(&self.w, flight).max(SMALLEST_THRESHOLD);
        self.reduced_before = self.w.sent + 1;
    }

    /// A mark counts as a loss, once for each window of data, and nothing has to be repaired (RFC 3168, section 6.1.2). True if the
    /// window was reduced.
    fn heed_mark(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) -> bool {
        let fresh = ack
            .acked
            .last()
            .is_some_and(|p| p.pn >= self.reduced_before);
        if ack.marked == Bytes::ZERO || self.recovering || !fresh {
            return false;
        }
        let from = self.w.cwnd;
        self.reduce(ack.in_flight_before);
        self.undo = None;
        self.w.cwnd = self.w.threshold.min(from);
        self.growth.repaired(cx, &mut self.w);
        decreased(cx, "mark", from, self.w.cwnd);
        true
    }

    /// An acknowledgement came, the window may grow, and beyond slow start it counts once.
    fn grow_by_ones(&mut self, cx: &mut Cx<'_>, acked: &[Packet]) {
        let w = &mut self.w;
        let below = |w: &Window| w.cwnd < w.threshold + f64::from(self.kernel.at_threshold);
        if !below(w) {
            self.growth.avoid(cx, w, 1.0);
        } else if self.kernel.counting == Counting::One {
            w.cwnd += 1.0;
        } else {
            let n: u64 = acked.iter().map(|p| segments(p.len, w.mss)).sum();
            let most = w.threshold + f64::from(self.kernel.at_threshold);
            w.cwnd = (w.cwnd + n as f64).min(most);
        }
        w.cwnd = w.cwnd.min(UNLIMITED);
    }

    fn repaired(&mut self, cx: &mut Cx<'_>) {
        if self.recovering {
            self.recovering = false;
            self.growth.repaired(cx, &mut self.w);
        }
    }
}

fn decreased(cx: &mut Cx<'_>, why: &'static str, from: f64, to: f64) {
    cx.log.event(cx.now, Event::Decrease { why, from, to });
}

impl<G: Growth> Controller for LossBased<G> {
    fn needs(&self) -> Needs {
        Needs {
            recovery: Recovery::Prr,
            stack: self.kernel.stack,
            ecn: true,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.w.mss = path.mss;
        self.growth.start(cx, &self.w);
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.w.mss = mss;
    }

    fn on_sent(&mut self, _cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.w.sent = sent.pn;
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.w.rtt = ack.rtt;
        if !ack.in_recovery {
            self.repaired(cx);
        }
        let reduced = self.heed_mark(cx, ack);
        let window = window_bytes(self.w.cwnd, self.w.mss);
        // On the wire a kernel lets slow start go on up to twice what is in flight, whatever limits it (tcp_is_cwnd_limited).
        let opening = self.w.in_slow_start()
            && ack.source == Source::Wire
            && ack.in_flight_before * 2 > window;
        let used = ack.advanced && !reduced && (opening || window_used(ack, window));
        self.growth.acknowledged(cx, &mut self.w, ack, used);
        for packet in ack.acked {
            self.growth.arrived(cx, &mut self.w, packet);
            if used && !self.recovering && !self.kernel.counts_ones() {
                let n = segments(packet.len, self.w.mss) as f64;
                self.growth.grow(cx, &mut self.w, packet, n);
                self.w.cwnd = self.w.cwnd.min(UNLIMITED);
            }
        }
        if used && !self.recovering && self.kernel.counts_ones() {
            self.grow_by_ones(cx, ack.acked);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if !loss.new_episode {
            return;
        }
        let from = self.w.cwnd;
        self.reduce(loss.in_flight + loss.lost.iter().map(|p| p.len).sum());
        self.w.cwnd = self.growth.floor(&self.w).max(1.0);
        self.recovering = true;
        decreased(cx, "loss", from, self.w.cwnd);
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let from = self.w.cwnd;
        // Only the first expiry for the same data tells something about the path.
        if rto.backoff <= 1 {
            self.reduce(rto.in_flight);
        }
        self.w.cwnd = 1.0;
        self.recovering = false;
        self.growth.timeout(cx, &mut self.w);
        decreased(cx, "timeout", from, 1.0);
        cx.log
            .event(cx.now, Event::SlowStartRestart { why: "timeout" });
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        if let Some((cwnd, threshold, growth)) = self.undo.take() {
            self.w.cwnd = self.w.cwnd.max(self.growth.undone(cwnd));
            self.w.threshold = threshold;
            self.growth.undo(growth);
            self.recovering = false;
        }
    }

    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, _end: &RecoveryEnd) {
        self.repaired(cx);
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        let timeout = rto(&self.w.rtt);
        let restarted = idle >= timeout;
        if restarted {
            self.w.threshold = self.w.threshold.max(0.75 * self.w.cwnd);
            let initial = self.kernel.initial;
            self.w.cwnd = if self.kernel.restarts {
                self.w.cwnd.min(initial)
            } else {
                restart_window(self.w.cwnd, initial, idle, timeout)
            };
        }
        self.growth.idle(cx, &mut self.w, idle, restarted);
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(window_bytes(self.w.cwnd, self.w.mss))
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.w.cwnd);
        put("ssthresh", self.w.threshold);
        self.growth.gauges(put);
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, MSS};
    use crate::{LimitedBy, Packet};
    use alcc_units::Bytes;

    fn arrive(b: &mut Bench, packet: &Packet, marked: Bytes) {
        let window = true;
        b.marked = marked;
        let limited = LimitedBy {
            window,
            ..LimitedBy::default()
        };
        b.ack_batch(&[*packet], limited);
    }

    #[test]
    fn marks_of_one_window_count_as_one_loss_without_anything_to_repair() {
        for (spec, left) in [("reno", 0.5), ("cubic", 717.0 / 1024.0), ("vegas", 0.5)] {
            let mut b = Bench::of(spec);
            assert!(b.cc.needs().ecn, "{spec}");
            let before = b.window();
            let rtt = Some(b.rtt);
            let flight: Vec<Packet> = (0..4).map(|_| b.packet(b.now, rtt)).collect();
            arrive(&mut b, &flight[0], MSS);
            let reduced = b.window();
            assert_eq!(reduced, (before * left).floor(), "{spec}");
            // Sent before the reduction: no news.
            arrive(&mut b, &flight[1], MSS);
            arrive(&mut b, &flight[3], MSS);
            assert!((reduced..reduced + 1.0).contains(&b.window()), "{spec}");
            let later = b.packet(b.now, rtt);
            arrive(&mut b, &later, Bytes::ZERO);
            assert!(b.window() >= reduced, "{spec}");
            let later = b.packet(b.now, rtt);
            arrive(&mut b, &later, MSS);
            assert!(b.window() < reduced, "{spec}");
        }
    }

    #[test]
    fn a_mark_behind_a_loss_is_the_same_congestion() {
        let mut b = Bench::of("reno");
        let rtt = Some(b.rtt);
        let flight: Vec<Packet> = (0..2).map(|_| b.packet(b.now, rtt)).collect();
        b.lose_one();
        let reduced = b.window();
        arrive(&mut b, &flight[0], MSS);
        b.recovered();
        arrive(&mut b, &flight[1], MSS);
        assert!(b.window() >= reduced);
    }
}
