// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CUBIC as in Linux, with integers only; time in 1/1024 s as in the kernel.
use crate::parts::{AckRatio, Credit, Growth, UNLIMITED, Window, segments};
use crate::{AckBatch, Cx, Event, Packet, Path, Pn};
use alcc_units::{Span, Time};

/// 1024 times C.
const C: u128 = 410;
/// The parameters in which the kernels differ.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Generation {
    /// 1024 times the factor of the decrease.
    beta: u64,
    /// Acknowledged windows in Reno's clock: 8 * (1024 + beta) / 3 / (1024 - beta), as the kernel
    /// computes it.
    reno_scale: u64,
    /// Before the first loss: the window grows by one packet per this many, always or at least.
    first_period: (u64, bool),
    /// ACKs are counted, with a ratio of segments of at most this many sixteenths; `None`: segments
    /// are counted.
    max_ratio: Option<u64>,
    /// Limit of growth above the old window: packets per second of minimum RTT, per round trip.
    growth_per_rtt: Option<u64>,
    min_period: u64,
    /// HyStart's threshold: part of the smallest RTT by which a round's may exceed it. `None`: no HyStart.
    hystart: Option<u64>,
    /// A spurious loss is undone to the window of the loss before, converged.
    undo_to_last: bool,
}

impl Generation {
    /// Linux since 4.1.
    pub(super) const LINUX: Self = Self {
        beta: 717,
        reno_scale: 15,
        first_period: (20, false),
        max_ratio: None,
        growth_per_rtt: None,
        min_period: 2,
        hystart: Some(8),
        undo_to_last: false,
    };
    /// Linux 2.6.29 to 3.19.
    pub(super) const LINUX_3_16: Self = Self {
        max_ratio: Some(512),
        min_period: 1,
        hystart: Some(16),
        ..Self::LINUX
    };
    /// Linux 2.6.24: CUBIC 2.1.
    pub(super) const LINUX_2_6_24: Self = Self {
        beta: 819,
        reno_scale: 23,
        first_period: (50, true),
        max_ratio: Some(u64::MAX),
        growth_per_rtt: Some(160),
        hystart: None,
        undo_to_last: true,
        ..Self::LINUX_3_16
    };

    fn is_old(&self) -> bool {
        self.max_ratio.is_some()
    }
}

/// HyStart: smallest window, samples per round, spacing of a train, bounds of the delay threshold.
const HYSTART_WINDOW: f64 = 16.0;
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_SPACING: Span = Span::from_millis(2);
const HYSTART_DELAY: (Span, Span) = (Span::from_millis(4), Span::from_millis(16));

const MAX_CWND: u64 = UNLIMITED as u64;

#[derive(Clone)]
struct HyStart {
    on: bool,
    round_start: Time,
    /// The last packet sent before the round; `None`: there was none.
    round_end: Option<Pn>,
    last_ack: Time,
    samples: u32,
    least: Span,
}

/// CUBIC's rule for a window, in integers.
#[derive(Clone)]
pub struct Cubic {
    g: &'static Generation,
    credit: Credit,
    ratio: AckRatio,
    /// The window grows by one packet per this many acknowledged.
    period: u64,
    last_max: u64,
    last_window: u64,
    last_update: Time,
    origin: u64,
    k: u64,
    epoch: Option<Time>,
    acked: u64,
    reno: u64,
    min_rtt: Option<Span>,
    hystart: HyStart,
}

const SECOND: u64 = 1_000_000_000;

/// A span in units of 1/1024 s.
fn ticks(span: Span) -> u64 {
    // In two parts that fit into 64 bits, because a division of 128 bits is slow.
    let (seconds, rest) = (span.as_nanos() / SECOND, span.as_nanos() % SECOND);
    seconds * 1024 + rest * 1024 / SECOND
}

/// Time from a loss until the window is back `packets` higher, in 1/1024 s.
fn cube_root_period(packets: u64) -> u64 {
    let x = (1u128 << 40) / C * u128::from(packets);
    libm::round(libm::cbrt(x as f64)) as u64
}

impl Cubic {
    pub(super) fn new(g: &'static Generation, hystart: bool) -> Self {
        let hystart = HyStart {
            on: hystart && g.hystart.is_some(),
            round_start: Time::ZERO,
            round_end: None,
            last_ack: Time::ZERO,
            samples: 0,
            least: Span::MAX,
        };
        Self {
            g,
            credit: Credit::default(),
            ratio: AckRatio::DELAYED,
            period: 1,
            last_max: 0,
            last_window: 0,
            last_update: Time::ZERO,
            origin: 0,
            k: 0,
            epoch: None,
            acked: 0,
            reno: 0,
            min_rtt: None,
            hystart,
        }
    }

    /// Sets the period of additive increase.
    #[inline(always)]
    fn update(&mut self, now: Time, w: u64, acked: u64) {
        self.acked = self.acked.saturating_add(acked);
        let recent = now.since(self.last_update) <= Span::from_nanos(1_000_000_000 / 32);
        if self.epoch.is_some() && self.last_window == w && recent {
            return;
        }
        let tick = self.last_update;
        self.last_update = now;
        // Within one tick and the same epoch only the Reno-friendly clock advances.
        if self.epoch.is_none() || tick != now || self.last_window != w {
            self.last_window = w;
            let epoch = *self.epoch.get_or_insert_with(|| {
                self.acked = acked;
                self.reno = w;
                if self.last_max <= w {
                    (self.k, self.origin) = (0, w);
                } else {
                    (self.k, self.origin) = (cube_root_period(self.last_max - w), self.last_max);
                }
                now
            });
            let t = ticks(now.since(epoch) + self.min_rtt.unwrap_or_default());
            let off = u128::from(t.abs_diff(self.k).min(1 << 28));
            let delta = u64::try_from((C * off * off * off) >> 40).unwrap_or(MAX_CWND);
            let target = if t < self.k {
                self.origin.saturating_sub(delta)
            } else {
                self.origin.saturating_add(delta)
            };
            self.period = if target > w {
                w / (target - w)
            } else {
                100 * w
            };
            if let (Some(growth), Some(rtt), true) =
                (self.g.growth_per_rtt, self.min_rtt, t >= self.k)
            {
                let least = u128::from(w) * 1_000_000_000 / u128::from(growth);
                let least = least / u128::from(rtt.as_nanos().max(1));
                self.period = self.period.max(least.min(u128::from(MAX_CWND)) as u64);
            }
            // Before the first loss the window must not grow slowly.
            if self.last_max == 0 {
                let (first, always) = self.g.first_period;
                self.period = if always {
                    first
                } else {
                    self.period.min(first)
                };
            }
        }
        let per_packet = (w * self.g.reno_scale / 8).max(1);
        let gained = self.acked / per_packet;
        self.acked -= gained * per_packet;
        self.reno = self.reno.saturating_add(gained).min(MAX_CWND);
        if self.reno > w {
            self.period = self.period.min(w / (self.reno - w));
        }
        if self.g.is_old() {
            self.period = self.ratio.period(self.period);
        }
        self.period = self.period.max(self.g.min_period);
    }

    fn hystart_round(&mut self, now: Time, sent: Pn) {
        let h = &mut self.hystart;
        (h.round_start, h.round_end, h.last_ack, h.samples, h.least) =
            (now, Some(sent), now, 0, Span::MAX);
    }

    /// The reason to end slow start, if there is one. A round begins with a flight whatever the window, so that its
    /// samples never contain the queue of their own flight.
    #[inline(never)]
    fn hystart_found(&mut self, now: Time, w: &Window, packet: &Packet) -> Option<&'static str> {
        let (pn, rtt) = (packet.pn, packet.rtt);
        if self.hystart.round_end.is_none_or(|end| pn > end) {
            self.hystart_round(now, w.sent);
        }
        let min_rtt = self.min_rtt.filter(|_| w.cwnd >= HYSTART_WINDOW)?;
        let h = &mut self.hystart;
        if now.since(h.last_ack) <= HYSTART_SPACING {
            h.last_ack = now;
            if now.since(h.round_start) > min_rtt / 2 {
                return Some("train");
            }
        }
        h.least = h.least.min(rtt.unwrap_or(Span::MAX));
        if h.samples < HYSTART_SAMPLES {
            h.samples += u32::from(rtt.is_some());
            return None;
        }
        let part = self.g.hystart.unwrap_or(8);
        let threshold = min_rtt + (min_rtt / part).clamp(HYSTART_DELAY.0, HYSTART_DELAY.1);
        (h.least > threshold && h.least != Span::MAX).then_some("delay")
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        // The queue drains shortly after a reduction: a minimum at that time would shift the curve.
        if self
            .epoch
            .is_none_or(|e| now.since(e) >= Span::from_secs(1))
            || self.min_rtt.is_none()
        {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |m| m.min(rtt)));
        }
    }
}

impl Growth for Cubic {
    fn on_start(&mut self, cx: &mut Cx<'_>, w: &Window, _path: &Path) {
        self.hystart_round(cx.now, w.sent);
        // The first packet begins a round. Otherwise each round would begin a packet later than the one before.
        self.hystart.round_end = self.hystart.round_end.filter(|sent| *sent > 0);
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, w: &mut Window, ack: &AckBatch<'_>, _used: bool) {
        if let Some(most) = self.g.max_ratio.filter(|_| !ack.in_recovery) {
            let n: u64 = ack.acked.iter().map(|p| segments(p.len, w.mss)).sum();
            self.ratio.add(n, most);
        }
    }

    #[inline(always)]
    fn on_packet_acked(&mut self, cx: &mut Cx<'_>, w: &mut Window, packet: &Packet) {
        if let Some(rtt) = packet.rtt {
            self.sample(cx.now, rtt);
        }
        if self.hystart.on
            && w.in_slow_start()
            && let Some(why) = self.hystart_found(cx.now, w, packet)
        {
            w.ssthresh = w.cwnd;
            let window = w.cwnd;
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
        }
    }

    #[inline(always)]
    fn congestion_avoidance(&mut self, cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        // These are whole numbers of packets, so the conversion loses nothing.
        let (window, acked) = (w.cwnd as u64, segments as u64);
        self.update(cx.now, window, acked);
        let grown = if self.g.is_old() {
            self.credit.add_one(self.period)
        } else {
            self.credit.add(acked, self.period)
        };
        w.cwnd = (window + grown) as f64;
    }

    fn undo_cwnd(&self, cwnd: f64) -> f64 {
        if self.g.undo_to_last {
            self.last_max as f64
        } else {
            cwnd
        }
    }

    fn ssthresh(&mut self, w: &Window, _flight: f64) -> f64 {
        let w = w.cwnd as u64;
        self.last_max = if w < self.last_max {
            w * (1024 + self.g.beta) / 2048
        } else {
            w
        };
        self.epoch = None;
        self.credit.clear();
        (w * self.g.beta / 1024) as f64
    }

    /// As in the kernel, a timeout resets the curve and the minimum RTT.
    fn on_rto(&mut self, cx: &mut Cx<'_>, w: &mut Window) {
        (self.last_max, self.epoch, self.min_rtt) = (0, None, None);
        self.credit.clear();
        self.ratio = AckRatio::DELAYED;
        self.hystart_round(cx.now, w.sent);
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, idle: Span, _restarted: bool) {
        self.epoch = self.epoch.map(|e| e + idle);
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("w_max", self.last_max as f64);
        put("cnt", self.period as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RttView;
    use crate::testing::Bench;
    use alcc_units::Bytes;

    fn at(cwnd: f64) -> Window {
        Window {
            cwnd,
            ssthresh: UNLIMITED,
            mss: Bytes::new(1000),
            rtt: RttView::default(),
            sent: 0,
            sent_segments: 0,
        }
    }

    #[test]
    fn reduction_and_fast_convergence() {
        let mut c = Cubic::new(&Generation::LINUX, false);
        assert_eq!((c.ssthresh(&at(100.0), 100.0), c.last_max), (70.0, 100));
        c.ssthresh(&at(80.0), 80.0);
        assert_eq!(c.last_max, 68);
    }

    #[test]
    fn reduction_and_fast_convergence_of_version_2_1() {
        let mut c = Cubic::new(&Generation::LINUX_2_6_24, true);
        // 100 * 819 / 1024 = 79.98; 80 * 1843 / 2048 = 71.99.
        assert_eq!((c.ssthresh(&at(100.0), 100.0), c.last_max), (79.0, 100));
        c.ssthresh(&at(80.0), 80.0);
        assert_eq!((c.last_max, c.undo_cwnd(80.0)), (71, 71.0));
        assert!(!c.hystart.on);
        let mut c = Cubic::new(&Generation::LINUX_3_16, true);
        assert_eq!((c.ssthresh(&at(100.0), 100.0), c.last_max), (70.0, 100));
        assert_eq!((c.undo_cwnd(100.0), c.hystart.on), (100.0, true));
    }

    #[test]
    fn seconds_until_the_old_window_is_back() {
        // (2^40 / 410 * packets)^(1/3) in 1/1024 s, 21 and 30 packets below: 100 after losing a
        // fifth, and three tenths.
        assert_eq!((cube_root_period(21), cube_root_period(30)), (3833, 4317));
    }

    #[test]
    fn before_a_loss_version_2_1_grows_by_one_per_fifty_and_others_per_twenty() {
        for (g, segments) in [
            (&Generation::LINUX_2_6_24, 50),
            (&Generation::LINUX_3_16, 20),
            (&Generation::LINUX, 20),
        ] {
            let mut c = Cubic::new(g, false);
            c.update(Time::from_millis(1), 200, 1);
            // Delayed acknowledgements: each stands for two segments.
            let acks = if g.is_old() { segments / 2 } else { segments };
            assert_eq!(c.period, acks);
        }
    }

    #[test]
    fn version_2_1_grows_by_16_packets_per_100_ms_at_most() {
        let period = |g| {
            let mut c = Cubic::new(g, false);
            c.ssthresh(&at(100.0), 100.0);
            c.ratio = AckRatio::of(16);
            c.min_rtt = Some(Span::from_millis(100));
            // Long after the old window was passed: the target is far above.
            c.update(Time::ZERO, 320, 1);
            c.acked = 0;
            c.last_window = 0;
            c.update(Time::from_millis(9_000), 320, 0);
            c.period
        };
        assert_eq!(period(&Generation::LINUX_2_6_24), 20);
        assert_eq!(period(&Generation::LINUX_3_16), 1);
        assert_eq!(period(&Generation::LINUX), 2);
    }

    #[test]
    fn periods_along_the_curve() {
        assert_eq!(cube_root_period(30), 4317);
        let mut c = Cubic::new(&Generation::LINUX, false);
        c.ssthresh(&at(100.0), 100.0);
        for (t, period) in [(0, 7000), (1, 4), (2, 2), (3, 2)] {
            // One acknowledgement only: Reno's clock stands still.
            c.update(Time::from_millis(t * 1000), 70, 1);
            assert_eq!(c.period, period, "at {t} s");
        }
    }

    #[test]
    fn a_grown_delay_ends_slow_start_before_a_loss() {
        let mut b = Bench::of("cubic");
        b.round();
        assert_eq!(b.window(), 20.0);
        b.rtt = Span::from_millis(120);
        b.round();
        // The ninth sample of the round decides: nine packets are slow start, the rest follows the cubic.
        assert!(b.window() < 32.0, "{}", b.window());
        assert!(b.gauge("ssthresh") < 32.0);
        let mut b = Bench::of("cubic:hystart=off");
        b.round();
        b.rtt = Span::from_millis(120);
        b.round();
        assert_eq!(b.window(), 40.0);
    }

    #[test]
    fn rounds_are_flights() {
        let mut bench = Bench::of("cubic");
        let mut c = Cubic::new(&Generation::LINUX, true);
        let mut w = at(10.0);
        let mut rounds = Vec::new();
        // Flights of 10, 20 and 40 packets; each acknowledgement is for one packet and sends two.
        w.sent = 9;
        for pn in 0..70 {
            let packet = bench.packet(Time::ZERO, None);
            c.hystart_found(Time::from_millis(pn), &w, &Packet { pn, ..packet });
            rounds.push(c.hystart.round_start);
            w.sent += 2;
        }
        rounds.dedup();
        assert_eq!(rounds, [0, 10, 30].map(Time::from_millis));
    }

    /// A path of 300 ms that takes 3 ms for a packet, so 100 packets fill it. Acknowledgements are
    /// too far apart for a train.
    #[test]
    fn the_queue_of_a_flight_does_not_end_slow_start() {
        let mut b = Bench::of("cubic");
        let mut flight = std::collections::VecDeque::new();
        let mut free = Time::ZERO;
        while b.gauge("ssthresh") >= UNLIMITED {
            while (flight.len() as f64) < b.window() {
                let packet = b.packet(b.now, None);
                free = (b.now + Span::from_millis(300)).max(free + Span::from_millis(3));
                flight.push_back((free, packet));
            }
            let (at, mut packet) = flight.pop_front().unwrap();
            b.wait(at.since(b.now));
            b.rtt = at.since(packet.sent_at);
            packet.rtt = Some(b.rtt);
            b.ack_batch(&[packet], crate::LimitedBy::default());
        }
        assert!(b.window() > 100.0, "{}", b.window());
    }

    #[test]
    fn a_timeout_forgets_the_curve() {
        let mut b = Bench::of("cubic");
        b.timeout(1);
        assert_eq!(
            (b.window(), b.gauge("ssthresh"), b.gauge("w_max")),
            (1.0, 7.0, 0.0)
        );
    }
}
