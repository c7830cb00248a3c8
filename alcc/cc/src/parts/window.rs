// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The common part of the loss-based algorithms: slow start, one reduction per recovery episode, timeouts, undo, and
//! restart after idle. An algorithm adds its window growth and its ssthresh: [`Growth`].
use super::{pacing_rate, restart_window, rto, segments, window_bytes, window_used};
use crate::{
    AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Packet, Path, Pn, Recovery,
    RecoveryEnd, Rto, RttView, Sent, Source, Spurious, Tag,
};
use alcc_units::{Bytes, Span};
use std::cell::Cell;

constants! { GROWTH:
    /// Minimum ssthresh, packets (RFC 5681, eq. 4).
    pub MIN_SSTHRESH: f64 = 2.0;
}
/// Initial window, packets (RFC 6928).
pub const INITIAL_WINDOW: f64 = 10.0;
/// The initial ssthresh, and the upper bound of a window, packets.
pub const UNLIMITED: f64 = 1e9;

/// A congestion window, in packets.
#[derive(Clone, Debug)]
pub struct Window {
    /// Congestion window, at least 1.
    pub cwnd: f64,
    /// Slow start threshold.
    pub ssthresh: f64,
    /// Segment size.
    pub mss: Bytes,
    /// The host's RTT estimate as of the last acknowledgement.
    pub rtt: RttView,
    /// Newest packet number.
    pub sent: Pn,
    /// Segments sent in total; a packet number may cover several.
    pub sent_segments: u64,
}

impl Window {
    /// Grows by a packet per acknowledged segment up to ssthresh; returns the remaining segments.
    pub fn slow_start(&mut self, segments: f64) -> f64 {
        let fast = segments.min((self.ssthresh - self.cwnd).max(0.0));
        self.cwnd += fast;
        segments - fast
    }

    /// True below ssthresh.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// Window growth of a loss-based algorithm, and its reduction after a loss. Each reduction keeps a clone for an undo.
pub trait Growth: Clone + Send + 'static {
    /// True if there is a [`Growth::pace`].
    const PACED: bool = false;

    /// The flow starts. [`Path::seed`] is the seed of its random numbers, if it uses any.
    fn on_start(&mut self, _cx: &mut Cx<'_>, _w: &Window, _path: &Path) {}

    /// Called for each ACK, before its packets. `used`: the window limited the sender.
    fn on_ack(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, _ack: &AckBatch<'_>, _used: bool) {}

    /// Called for each acknowledged packet before the window grows, also while it may not grow.
    fn on_packet_acked(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, _packet: &Packet) {}

    /// Grows the window for acknowledged segments.
    fn grow(&mut self, cx: &mut Cx<'_>, w: &mut Window, _packet: &Packet, segments: f64) {
        let rest = w.slow_start(segments);
        if rest > 0.0 {
            self.congestion_avoidance(cx, w, rest);
        }
    }

    /// Congestion avoidance for `segments` beyond slow start.
    fn congestion_avoidance(&mut self, cx: &mut Cx<'_>, w: &mut Window, segments: f64);

    /// The new ssthresh after a loss. `flight`: packets in flight, at most the window.
    fn ssthresh(&mut self, w: &Window, flight: f64) -> f64;

    /// The new ssthresh after CE marks; `None`: as after a loss.
    fn after_marks(&mut self, _w: &Window, _flight: f64) -> Option<f64> {
        None
    }

    /// Pacing rate, packets per second; `None`: not paced.
    fn pace(&self, _w: &Window) -> Option<f64> {
        None
    }

    /// The window during recovery: at most ssthresh.
    fn recovery_cwnd(&self, w: &Window) -> f64 {
        w.ssthresh
    }

    /// A timeout: the window is one packet now. Called after [`Growth::ssthresh`], which only a
    /// first timeout calls.
    fn on_rto(&mut self, _cx: &mut Cx<'_>, _w: &mut Window) {}

    /// Recovery has ended.
    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _w: &mut Window) {}

    /// The window after an undo; `cwnd` was the window before the reduction.
    fn undo_cwnd(&self, cwnd: f64) -> f64 {
        cwnd
    }

    /// Undoes the last reduction; `before` is the state before it.
    fn undo(&mut self, _before: Self) {}

    /// Sending restarts after `idle`; `restarted`: the window was reduced for it.
    fn on_idle_restart(
        &mut self,
        _cx: &mut Cx<'_>,
        _w: &mut Window,
        _idle: Span,
        _restarted: bool,
    ) {
    }

    /// Reports values for plots, besides window and ssthresh.
    fn gauges(&self, _put: &mut dyn FnMut(&'static str, f64)) {}
}

/// The count of an ACK for window growth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// The segments that it acknowledges.
    Segments,
    /// Its segments in slow start, then one.
    SegmentsThenOne,
    /// One. Over TCP a reading of the counters that covers several ACKs also counts once.
    One,
}

/// The parameters that depend on the kernel's version.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kernel {
    /// Initial window, packets.
    pub initial: f64,
    /// The counting of ACKs.
    pub counting: Counting,
    /// Slow start includes ssthresh itself and goes one packet beyond.
    pub at_ssthresh: bool,
    /// After idle the window restarts at the initial window, instead of halving per RTO.
    pub restarts: bool,
    /// A loss halves what was in flight (RFC 5681), not the window.
    pub halves_flight: bool,
}

impl Kernel {
    /// Linux since 4.1; initial window of RFC 6928.
    pub const LINUX: Self = Self {
        initial: INITIAL_WINDOW,
        counting: Counting::Segments,
        at_ssthresh: false,
        restarts: false,
        halves_flight: false,
    };
    /// Linux 3.16, the kernel of the Verus paper. Slow start counts segments since 3.13.
    pub const LINUX_3_16: Self = Self {
        counting: Counting::SegmentsThenOne,
        at_ssthresh: true,
        ..Self::LINUX
    };
    /// Linux 2.6.24, the kernel of the HSDPA paper; initial window of RFC 3390 for the segments of Ethernet.
    pub const LINUX_2_6_24: Self = Self {
        initial: 3.0,
        counting: Counting::One,
        ..Self::LINUX_3_16
    };
    /// NewReno of Windows 7: initial window of RFC 2581 (from memory), restart after idle (RFC
    /// 5681, section 4.1).
    pub const WINDOWS_7: Self = Self {
        initial: 2.0,
        restarts: true,
        halves_flight: true,
        ..Self::LINUX
    };

    /// True if an ACK counts once in congestion avoidance.
    pub fn counts_ones(&self) -> bool {
        self.counting != Counting::Segments
    }
}

/// A controller made of a [`Growth`].
#[derive(Clone)]
pub struct LossBased<G> {
    kernel: Kernel,
    w: Window,
    growth: G,
    /// True in fast recovery, in which the window stays; after a timeout it grows.
    recovering: bool,
    /// Packets from this number on were sent after the last reduction: only their CE marks count.
    reduced_before: Pn,
    /// Window, ssthresh and growth before the last reduction.
    undo: Option<(f64, f64, G)>,
    /// The window and its bytes at the last conversion, because they are read several times per change.
    counted: Cell<(f64, Bytes)>,
}

/// A window that equals no other.
const NOT_COUNTED: (f64, Bytes) = (f64::NAN, Bytes::ZERO);

impl<G: Growth> LossBased<G> {
    /// With the initial window of RFC 6928.
    pub fn new(growth: G) -> Self {
        Self::starting_at(INITIAL_WINDOW, growth)
    }

    /// With an initial window in packets.
    pub fn starting_at(initial: f64, growth: G) -> Self {
        Self::of(
            Kernel {
                initial,
                ..Kernel::LINUX
            },
            growth,
        )
    }

    /// With the parameters of a kernel.
    pub fn of(kernel: Kernel, growth: G) -> Self {
        let cwnd = kernel.initial;
        Self {
            kernel,
            w: Window {
                cwnd,
                ssthresh: UNLIMITED,
                mss: Bytes::new(1448),
                rtt: RttView::default(),
                sent: 0,
                sent_segments: 0,
            },
            growth,
            recovering: false,
            reduced_before: 0,
            undo: None,
            counted: Cell::new(NOT_COUNTED),
        }
    }

    /// The window in bytes.
    #[inline]
    fn window(&self) -> Bytes {
        let (cwnd, bytes) = self.counted.get();
        if cwnd == self.w.cwnd {
            return bytes;
        }
        self.count()
    }

    #[cold]
    fn count(&self) -> Bytes {
        let bytes = window_bytes(self.w.cwnd, self.w.mss);
        self.counted.set((self.w.cwnd, bytes));
        bytes
    }

    fn reduce(&mut self, in_flight: Bytes, marks: bool) {
        self.undo = Some((self.w.cwnd, self.w.ssthresh, self.growth.clone()));
        // The flight may exceed a window that has just been reduced.
        let flight = in_flight.packets(self.w.mss).min(self.w.cwnd);
        let own = marks.then(|| self.growth.after_marks(&self.w, flight));
        let ssthresh = own.flatten();
        let ssthresh = ssthresh.unwrap_or_else(|| self.growth.ssthresh(&self.w, flight));
        self.w.ssthresh = ssthresh.max(MIN_SSTHRESH);
        self.reduced_before = self.w.sent + 1;
    }

    /// A CE mark counts as a loss, once per window of data, without recovery (RFC 3168, section
    /// 6.1.2). True if the window was reduced.
    #[inline]
    fn on_ecn_mark(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) -> bool {
        ack.marked > Bytes::ZERO && self.reduce_for_marks(cx, ack)
    }

    #[cold]
    fn reduce_for_marks(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) -> bool {
        let fresh = ack
            .acked
            .last()
            .is_some_and(|p| p.pn >= self.reduced_before);
        if self.recovering || !fresh {
            return false;
        }
        let (from, slow_start) = (self.w.cwnd, self.w.in_slow_start());
        self.reduce(ack.in_flight_before, true);
        self.undo = None;
        self.w.cwnd = self.w.ssthresh.min(from);
        self.growth.on_recovery_end(cx, &mut self.w);
        self.decreased(cx, "mark", from, slow_start);
        true
    }

    /// Grows the window by ACKs that count once beyond slow start.
    #[inline(never)]
    fn grow_by_ones(&mut self, cx: &mut Cx<'_>, acked: &[Packet]) {
        let w = &mut self.w;
        let below = |w: &Window| w.cwnd < w.ssthresh + f64::from(self.kernel.at_ssthresh);
        if !below(w) {
            self.growth.congestion_avoidance(cx, w, 1.0);
        } else if self.kernel.counting == Counting::One {
            w.cwnd += 1.0;
        } else {
            let n: u64 = acked.iter().map(|p| segments(p.len, w.mss)).sum();
            let most = w.ssthresh + f64::from(self.kernel.at_ssthresh);
            w.cwnd = (w.cwnd + n as f64).min(most);
        }
        w.cwnd = w.cwnd.min(UNLIMITED);
    }

    #[inline]
    fn repaired(&mut self, cx: &mut Cx<'_>) {
        if self.recovering {
            self.recovering = false;
            self.growth.on_recovery_end(cx, &mut self.w);
        }
    }

    /// Reports a reduction from `from`, in slow start or not.
    fn decreased(&self, cx: &mut Cx<'_>, why: &'static str, from: f64, slow_start: bool) {
        let to = self.w.cwnd;
        if slow_start {
            let window = to;
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
        }
        cx.log.event(cx.now, Event::Decrease { why, from, to });
    }
}

impl<G: Growth> Controller for LossBased<G> {
    fn needs(&self) -> Needs {
        Needs {
            recovery: Recovery::Prr,
            stream: true,
            ecn: true,
            paced: G::PACED,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.w.mss = path.mss;
        self.counted.set(NOT_COUNTED);
        self.growth.on_start(cx, &self.w, path);
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.w.mss = mss;
        self.counted.set(NOT_COUNTED);
    }

    fn on_sent(&mut self, _cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.w.sent = sent.pn;
        self.w.sent_segments += segments(sent.len, self.w.mss);
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.w.rtt = ack.rtt;
        if !ack.in_recovery {
            self.repaired(cx);
        }
        let reduced = self.on_ecn_mark(cx, ack);
        let window = self.window();
        // On the wire a kernel continues slow start up to twice the packets in flight, regardless of other limits
        // (tcp_is_cwnd_limited).
        let opening = self.w.in_slow_start()
            && ack.source == Source::Wire
            && ack.in_flight_before * 2 > window;
        let used = ack.advanced && !reduced && (opening || window_used(ack, window));
        let (slow_start, ssthresh) = (self.w.in_slow_start(), self.w.ssthresh);
        self.growth.on_ack(cx, &mut self.w, ack, used);
        for packet in ack.acked {
            self.growth.on_packet_acked(cx, &mut self.w, packet);
            if used && !self.recovering && !self.kernel.counts_ones() {
                let n = segments(packet.len, self.w.mss) as f64;
                self.growth.grow(cx, &mut self.w, packet, n);
                self.w.cwnd = self.w.cwnd.min(UNLIMITED);
            }
        }
        if used && !self.recovering && self.kernel.counts_ones() {
            self.grow_by_ones(cx, ack.acked);
        }
        // An algorithm with its own exit from slow start sets the threshold, and reports the reason.
        if slow_start && !self.w.in_slow_start() && self.w.ssthresh == ssthresh {
            let (why, window) = ("ssthresh", self.w.cwnd);
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if !loss.new_episode {
            return;
        }
        let (from, slow_start) = (self.w.cwnd, self.w.in_slow_start());
        self.reduce(
            loss.in_flight + loss.lost.iter().map(|p| p.len).sum(),
            false,
        );
        self.w.cwnd = self.growth.recovery_cwnd(&self.w).max(1.0);
        self.recovering = true;
        self.decreased(cx, "loss", from, slow_start);
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let from = self.w.cwnd;
        // Only the first timeout for the same data carries information about the path.
        if rto.backoff <= 1 {
            self.reduce(rto.in_flight, false);
        }
        self.w.cwnd = 1.0;
        self.recovering = false;
        self.growth.on_rto(cx, &mut self.w);
        self.decreased(cx, "timeout", from, false);
        cx.log
            .event(cx.now, Event::SlowStartRestart { why: "timeout" });
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        if let Some((cwnd, ssthresh, growth)) = self.undo.take() {
            self.w.cwnd = self.w.cwnd.max(self.growth.undo_cwnd(cwnd));
            self.w.ssthresh = ssthresh;
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
            self.w.ssthresh = self.w.ssthresh.max(0.75 * self.w.cwnd);
            let initial = self.kernel.initial;
            self.w.cwnd = if self.kernel.restarts {
                self.w.cwnd.min(initial)
            } else {
                restart_window(self.w.cwnd, initial, idle, timeout)
            };
        }
        self.growth
            .on_idle_restart(cx, &mut self.w, idle, restarted);
    }

    fn allowance(&self) -> Allowance {
        let rate = self.growth.pace(&self.w);
        Allowance {
            rate: rate.map(|packets| pacing_rate(packets, self.w.mss)),
            burst: rate.map_or(Bytes::ZERO, |_| self.w.mss * 2),
            ..Allowance::window(self.window())
        }
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.w.cwnd);
        put("ssthresh", self.w.ssthresh);
        self.growth.gauges(put);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, MSS};
    use crate::{Cx, Discard, LimitedBy, Packet};
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
        for (spec, factor) in [("reno", 0.5), ("cubic", 717.0 / 1024.0)] {
            let mut b = Bench::of(spec);
            assert!(b.cc.needs().ecn, "{spec}");
            let before = b.window();
            let rtt = Some(b.rtt);
            let flight: Vec<Packet> = (0..4).map(|_| b.packet(b.now, rtt)).collect();
            arrive(&mut b, &flight[0], MSS);
            let reduced = b.window();
            assert_eq!(reduced, (before * factor).floor(), "{spec}");
            // Sent before the reduction: does not count.
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

    #[test]
    fn the_window_in_bytes_follows_the_segment_size_and_the_window() {
        let mut b = Bench::of("reno");
        let bytes = |b: &Bench| b.cc.allowance().window.get();
        // Ten packets of 1000 bytes.
        assert_eq!(bytes(&b), 10_000);
        let (now, log) = (b.now, &mut Discard);
        b.cc.on_mtu(&mut Cx { now, log }, Bytes::new(500));
        assert_eq!(bytes(&b), 5_000);
        b.timeout(1);
        assert_eq!(bytes(&b), 500);
    }
}
