// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ROCCET: CUBIC that also reads the RTT, made for the deep buffers of 5G. Prause and Akselrod, TCP
//! ROCCET, arXiv:2510.25281; parameters of the authors' Linux module (tcp_roccet).
//!
//! The relative RTT, its excess over the smallest, is averaged. Slow start ends when that average
//! is above its bound and acknowledgements no longer come faster. Later the average above its bound
//! is a congestion event, if more was sent than came back. After five seconds without a smaller
//! RTT, the window is halved for a while, so that the path is measured with less queue.
//!
//! | constant | value | source |
//! |---|---|---|
//! | weight of the newest relative RTT | 0.2 per acknowledgement | module, ROCCET_ALPHA |
//! | bound of the average | 1, and the last change of the RTT | module, sr_rtt_upper_bound; paper, section on jitter |
//! | acknowledgements come faster | by more than 10 segments per 100 ms | module, ack_rate_diff_ss |
//! | slow start leaves; after a timeout | 1/2; 2/3, 10 packets at least | module, launch |
//! | looked at every; sent beyond what came back | 5 RTTs; 1 % of the window | module, orbiter |
//! | an event leaves; then no growth for | 717/1024; 100 ms | tcp_cubic; module |
//! | smallest RTT looked for after; for | 5 s; an RTT, at least 200 ms, then as long with the old window | module, RTT_PROBE |
//! | window meanwhile | 1/2, 1/3 if it was not what limited, 10 packets at least | module |
//! | curve of growth | `cubic` of Linux without HyStart | paper, section on ORBITER |
//!
//! **Differs from the module**: RTTs count per acknowledged packet, and sent and received count in
//! packets. While probing for the smallest RTT, a loss reduces the small window, not the old one,
//! and the old window is not restored then. Acknowledgements left over from slow start are not
//! carried over.
//!
//! **Known weakness**: its bound is twice the smallest RTT, so a path of 100 ms keeps 100 ms of
//! queue. While other flows fill the buffer the smallest RTT includes their queue, and the bound
//! rises with it.
use alcc_cc::parts::cubic::{Curve, curve};
use alcc_cc::parts::{Growth, LossBased, Window, segments};
use alcc_cc::{AckBatch, Algorithm, Build, Built, Cx, Event, Instance, Options, Packet, Path};
use alcc_units::{Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "roccet",
    summary: "ROCCET: CUBIC that also reads the RTT, for 5G",
    profiles: Cow::Borrowed(&[]),
    options: &[],
    build: Build::Function(build),
};

const WEIGHT: f64 = 0.2;
const BOUND: f64 = 1.0;
const FASTER: f64 = 10.0;
const RATE_SPAN: Span = Span::from_millis(100);
const IDLE: Span = Span::from_secs(2);
const LEAST: f64 = 10.0;
const LOOK_RTTS: u64 = 5;
const DRAIN: Span = Span::from_millis(100);
const PROBE_EVERY: Span = Span::from_secs(5);
const PROBE: Span = Span::from_millis(200);

/// Number of acknowledgements in this span of time, and in the two before.
#[derive(Clone, Copy, Default)]
struct AckRate {
    since: Option<Time>,
    counting: f64,
    last: f64,
    before: f64,
}

impl AckRate {
    fn add(&mut self, now: Time, segments: f64) {
        let since = *self.since.get_or_insert(now);
        let passed = now.since(since);
        if passed >= IDLE {
            *self = Self::default();
        } else if passed >= RATE_SPAN {
            *self = Self {
                since: Some(now),
                counting: segments,
                last: self.counting,
                before: self.last,
            };
        } else {
            self.counting += segments;
        }
    }

    fn is_rising(&self) -> bool {
        self.last - self.before > FASTER
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    /// The authors' LAUNCH; true for the first one of the flow, false for one after a timeout.
    Launch(bool),
    /// ORBITER.
    Orbiter,
    /// After an event: the window does not grow until this time.
    Drain(Time),
    /// Probes for a smaller RTT until this time, then refills for this long; the old window.
    Probe(Time, Span, f64),
    Refill(Time),
}

#[derive(Clone)]
struct Roccet {
    curve: Curve,
    state: State,
    least: Option<Span>,
    /// Time of the next probe for the smallest RTT.
    probe_at: Time,
    latest: Span,
    before: Span,
    /// Averaged relative RTT.
    relative: f64,
    rate: AckRate,
    /// True if the window has limited the flow before.
    was_limited: bool,
    /// Time of the next check of the average; the data sent and delivered at the last check.
    look_at: Time,
    sent: u64,
    received: f64,
    received_then: f64,
}

fn build(_: &Options<'_>) -> Built {
    Ok(Instance::new(LossBased::new(Roccet::new())))
}

impl Roccet {
    fn new() -> Self {
        Self {
            curve: curve(),
            state: State::Launch(true),
            least: None,
            probe_at: Time::MAX,
            latest: Span::ZERO,
            before: Span::ZERO,
            relative: 0.0,
            rate: AckRate::default(),
            was_limited: false,
            look_at: Time::ZERO,
            sent: 0,
            received: 0.0,
            received_then: 0.0,
        }
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        let rtt = rtt.max(Span::from_micros(1));
        if self.least.is_none_or(|least| rtt < least) {
            self.least = Some(rtt);
            self.probe_at = now + PROBE_EVERY;
        }
        (self.before, self.latest) = (self.latest, rtt);
        self.relative = (1.0 - WEIGHT) * self.relative + WEIGHT * self.above(rtt);
    }

    /// The relative excess of this RTT over the smallest.
    fn above(&self, rtt: Span) -> f64 {
        let least = self.least.unwrap_or(rtt);
        rtt.saturating_sub(least).as_secs_f64() / least.as_secs_f64().max(1e-6)
    }

    fn bound(&self) -> f64 {
        let jitter = self.latest.max(self.before) - self.latest.min(self.before);
        let least = self.least.unwrap_or(self.latest).as_secs_f64().max(1e-6);
        BOUND + jitter.as_secs_f64() / least
    }

    fn sent_more_than_received(&self, w: &Window) -> bool {
        let sent = w.sent_segments.saturating_sub(self.sent) as f64;
        sent > self.received - self.received_then + w.cwnd / 100.0
    }

    fn end_launch(&mut self, cx: &mut Cx<'_>, w: &mut Window, first: bool) {
        let factor = if first { 1.0 / 2.0 } else { 2.0 / 3.0 };
        w.cwnd = (w.cwnd * factor).max(LEAST.min(w.cwnd));
        w.ssthresh = w.cwnd;
        let (why, window) = ("delay", w.cwnd);
        cx.log.event(cx.now, Event::SlowStartExit { why, window });
        self.state = State::Drain(cx.now + DRAIN);
    }

    fn launch(&mut self, cx: &mut Cx<'_>, w: &mut Window, used: bool, first: bool) {
        let full = self.relative > BOUND && !self.rate.is_rising();
        if full || !used && self.was_limited {
            self.end_launch(cx, w, first);
        } else if !w.in_slow_start() {
            self.state = State::Orbiter;
        }
        self.was_limited |= used;
    }

    fn orbit(&mut self, cx: &mut Cx<'_>, w: &mut Window, used: bool) {
        if cx.now > self.probe_at {
            let span = self.latest.max(PROBE);
            self.state = State::Probe(cx.now + span, span, w.cwnd);
            let part = if used { 2.0 } else { 3.0 };
            w.cwnd = (w.cwnd / part).max(LEAST.min(w.cwnd));
            w.ssthresh = w.cwnd;
            self.least = None;
            cx.log.event(cx.now, Event::Mode { to: "probe RTT" });
            return;
        }
        if cx.now <= self.look_at {
            return;
        }
        let congested = self.relative > self.bound() && self.sent_more_than_received(w);
        self.look_at = cx.now + self.latest * LOOK_RTTS;
        (self.sent, self.received_then) = (w.sent_segments, self.received);
        if congested {
            let from = w.cwnd;
            w.ssthresh = self.curve.ssthresh(w, w.cwnd);
            w.cwnd = w.ssthresh;
            let (why, to) = ("delay", w.cwnd);
            cx.log.event(cx.now, Event::Decrease { why, from, to });
            cx.log.event(cx.now, Event::Mode { to: "drain" });
            self.state = State::Drain(cx.now + DRAIN);
        }
    }
}

impl Growth for Roccet {
    fn on_start(&mut self, cx: &mut Cx<'_>, w: &Window, path: &Path) {
        self.curve.on_start(cx, w, path);
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, w: &mut Window, ack: &AckBatch<'_>, used: bool) {
        self.curve.on_ack(cx, w, ack, used);
        for packet in ack.acked {
            if let Some(rtt) = packet.rtt {
                self.sample(cx.now, rtt);
            }
        }
        let count = ack.acked.iter().map(|p| segments(p.len, w.mss));
        let segments = count.sum::<u64>() as f64;
        self.received += segments;
        self.rate.add(cx.now, segments);
        match self.state {
            State::Launch(first) => self.launch(cx, w, used, first),
            State::Orbiter => self.orbit(cx, w, used),
            State::Drain(until) if cx.now >= until => self.state = State::Orbiter,
            State::Probe(until, span, window) if cx.now >= until => {
                w.cwnd = w.cwnd.max(window);
                w.ssthresh = w.cwnd;
                self.state = State::Refill(cx.now + span);
            }
            State::Refill(until) if cx.now >= until => {
                self.probe_at = cx.now + PROBE_EVERY;
                self.state = State::Orbiter;
            }
            _ => {}
        }
    }

    fn on_packet_acked(&mut self, cx: &mut Cx<'_>, w: &mut Window, packet: &Packet) {
        self.curve.on_packet_acked(cx, w, packet);
    }

    fn grow(&mut self, cx: &mut Cx<'_>, w: &mut Window, _packet: &Packet, segments: f64) {
        match self.state {
            State::Launch(_) => {
                w.slow_start(segments);
            }
            State::Orbiter if !self.sent_more_than_received(w) => {
                self.congestion_avoidance(cx, w, segments);
            }
            _ => {}
        }
    }

    fn congestion_avoidance(&mut self, cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        self.curve.congestion_avoidance(cx, w, segments);
    }

    /// A loss ends slow start without a reduction.
    fn ssthresh(&mut self, w: &Window, flight: f64) -> f64 {
        let launch = matches!(self.state, State::Launch(_));
        self.state = State::Orbiter;
        if launch {
            return w.cwnd;
        }
        self.curve.ssthresh(w, flight)
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, w: &mut Window) {
        self.curve.on_rto(cx, w);
        *self = Self {
            curve: self.curve.clone(),
            state: State::Launch(false),
            sent: w.sent_segments,
            look_at: cx.now,
            ..Self::new()
        };
    }

    fn undo_cwnd(&self, cwnd: f64) -> f64 {
        self.curve.undo_cwnd(cwnd)
    }

    fn undo(&mut self, before: Self) {
        self.curve.undo(before.curve);
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, w: &mut Window, idle: Span, restarted: bool) {
        self.curve.on_idle_restart(cx, w, idle, restarted);
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("relative_rtt", self.relative);
        put("rtt_min_ms", self.least.unwrap_or_default().as_millis_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    const MS: fn(u64) -> Span = Span::from_millis;

    #[test]
    fn the_relative_rtt_is_averaged() {
        let mut r = Roccet::new();
        for (rtt, relative) in [
            (50, 0.0),
            (100, 0.2), // 0.8 * 0 + 0.2 * 1.
            (150, 0.56),
            (50, 0.448),
        ] {
            r.sample(Time::ZERO, MS(rtt));
            assert!(
                (r.relative - relative).abs() < 1e-9,
                "{rtt}: {}",
                r.relative
            );
        }
        // The last change of 100 ms is twice the smallest.
        assert!((r.bound() - 3.0).abs() < 1e-9);
    }

    #[test]
    fn acknowledgements_come_faster_or_not() {
        let mut rate = AckRate::default();
        let mut at = |ms, n| {
            rate.add(Time::from_millis(ms), n);
            rate.is_rising()
        };
        assert!(!at(0, 20.0));
        assert!(at(100, 20.0)); // 20 after none.
        assert!(!at(200, 31.0)); // 20 after 20.
        assert!(at(300, 1.0)); // 31 after 20.
        assert!(!at(5000, 1.0)); // Idle: from the start.
    }

    #[test]
    fn slow_start_ends_by_the_rtt_and_leaves_half() {
        let mut b = Bench::of("roccet");
        b.rtt = MS(50);
        b.round();
        assert_eq!(b.window(), 20.0);
        // Four times the smallest RTT: an average of 0.2 * 3, then 0.8 * 0.6 + 0.6 = 1.08.
        b.ack(MS(200));
        assert_eq!(b.window(), 21.0);
        b.ack(MS(200));
        assert_eq!((b.window(), b.gauge("ssthresh")), (10.5, 10.5));
        // For 100 ms nothing grows.
        b.acks(10);
        assert_eq!(b.window(), 10.5);
    }

    #[test]
    fn a_loss_in_slow_start_takes_nothing_and_later_three_tenths() {
        let mut b = Bench::of("roccet");
        (0..3).for_each(|_| b.round());
        b.lose_one();
        assert_eq!(b.window(), 80.0);
        b.recovered();
        b.lose_one();
        assert_eq!(b.window(), 56.0);
        b.recovered();
        b.timeout(1);
        assert_eq!(b.window(), 1.0);
    }

    #[test]
    fn the_path_is_looked_at_every_five_seconds() {
        let mut b = Bench::of("roccet");
        (0..3).for_each(|_| b.round());
        b.lose_one();
        b.recovered();
        let mut windows = Vec::new();
        while b.now < Time::from_millis(5500) {
            b.round();
            windows.push(b.window());
        }
        let halved = windows.windows(2).position(|w| w[1] == w[0] / 2.0).unwrap();
        // The first RTT came after 100 ms. Two rounds of half, then the old window for as long.
        assert_eq!(halved, windows.len() - 5);
        let before = windows[halved];
        let (half, full) = (before / 2.0, before);
        assert_eq!(windows[halved..], [full, half, half, full, full]);
    }
}
