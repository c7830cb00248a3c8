// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Integers throughout; time in 1/1024 s where the kernel has it so.
use crate::parts::{Growth, UNLIMITED, Window};
use crate::{Cx, Event, Packet, Pn};
use alcc_units::{Span, Time};

/// 1024 times C.
const C: u128 = 410;
/// 1024 times the factor of the decrease.
const BETA: u64 = 717;
/// Acknowledged windows in Reno's clock: 8 * (1024 + 717) / 3 / (1024 - 717), as the kernel computes it.
const RENO_SCALE: u64 = 15;
/// HyStart: smallest window, samples per round, spacing of a train, bounds of the delay threshold.
const HYSTART_WINDOW: f64 = 16.0;
const HYSTART_SAMPLES: u32 = 8;
const HYSTART_SPACING: Span = Span::from_millis(2);
const HYSTART_DELAY: (Span, Span) = (Span::from_millis(4), Span::from_millis(16));

const LARGEST: u64 = UNLIMITED as u64;

#[derive(Clone)]
struct HyStart {
    on: bool,
    round_start: Time,
    round_end: Pn,
    last_ack: Time,
    samples: u32,
    least: Span,
}

#[derive(Clone)]
pub(super) struct Cubic {
    credit: u64,
    /// One packet more per so many acknowledged.
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

/// 1/1024 s.
fn ticks(span: Span) -> u64 {
    (u128::from(span.as_nanos()) * 1024 / 1_000_000_000) as u64
}

/// Seconds after a loss at `packets` above the window until it is back, in 1/1024 s.
fn cube_root_period(packets: u64) -> u64 {
    let x = (1u128 << 40) / C * u128::from(packets);
    libm::round(libm::cbrt(x as f64)) as u64
}

impl Cubic {
    pub(super) fn new(hystart: bool) -> Self {
        let hystart = HyStart {
            on: hystart,
            round_start: Time::ZERO,
            round_end: 0,
            last_ack: Time::ZERO,
            samples: 0,
            least: Span::MAX,
        };
        Self {
            credit: 0,
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
    fn update(&mut self, now: Time, w: u64, acked: u64) {
        self.acked = self.acked.saturating_add(acked);
        let recent = now.since(self.last_update) <= Span::from_nanos(1_000_000_000 / 32);
        if self.epoch.is_some() && self.last_window == w && recent {
            return;
        }
        let tick = self.last_update;
        self.last_update = now;
        // Within one tick and the same epoch only Reno's clock runs.
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
            let delta = u64::try_from((C * off * off * off) >> 40).unwrap_or(LARGEST);
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
            // Without a loss yet, the first increases shall not be slow.
            if self.last_max == 0 {
                self.period = self.period.min(20);
            }
        }
        let per_packet = (w * RENO_SCALE / 8).max(1);
        let gained = self.acked / per_packet;
        self.acked -= gained * per_packet;
        self.reno = self.reno.saturating_add(gained).min(LARGEST);
        if self.reno > w {
            self.period = self.period.min(w / (self.reno - w));
        }
        self.period = self.period.max(2);
    }

    fn hystart_round(&mut self, now: Time, sent: Pn) {
        let h = &mut self.hystart;
        (h.round_start, h.round_end, h.last_ack, h.samples, h.least) =
            (now, sent, now, 0, Span::MAX);
    }

    /// Why slow start should end, if it should.
    fn hystart_found(&mut self, now: Time, sent: Pn, packet: &Packet) -> Option<&'static str> {
        let (pn, rtt) = (packet.pn, packet.rtt);
        let min_rtt = self.min_rtt?;
        if pn > self.hystart.round_end {
            self.hystart_round(now, sent);
        }
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
        let threshold = min_rtt + (min_rtt / 8).clamp(HYSTART_DELAY.0, HYSTART_DELAY.1);
        (h.least > threshold && h.least != Span::MAX).then_some("delay")
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        // Shortly after a reduction the queue drains: a minimum then would shift the curve.
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
    fn start(&mut self, cx: &mut Cx<'_>, w: &Window) {
        self.hystart_round(cx.now, w.sent);
    }

    fn arrived(&mut self, cx: &mut Cx<'_>, w: &mut Window, packet: &Packet) {
        if let Some(rtt) = packet.rtt {
            self.sample(cx.now, rtt);
        }
        if self.hystart.on
            && w.in_slow_start()
            && w.cwnd >= HYSTART_WINDOW
            && let Some(why) = self.hystart_found(cx.now, w.sent, packet)
        {
            w.threshold = w.cwnd;
            let window = w.cwnd;
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
        }
    }

    fn avoid(&mut self, cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        // Whole packets all along, so nothing is lost here.
        let (mut window, acked) = (w.cwnd as u64, segments as u64);
        self.update(cx.now, window, acked);
        // A credit gathered under a longer period is worth one packet at most.
        if self.credit >= self.period {
            self.credit = 0;
            window += 1;
        }
        self.credit += acked;
        window += self.credit / self.period;
        self.credit %= self.period;
        w.cwnd = window as f64;
    }

    fn reduce(&mut self, w: &Window, _flight: f64) -> f64 {
        let w = w.cwnd as u64;
        self.last_max = if w < self.last_max {
            w * (1024 + BETA) / 2048
        } else {
            w
        };
        self.epoch = None;
        self.credit = 0;
        (w * BETA / 1024) as f64
    }

    /// The kernel forgets the curve and the minimum RTT.
    fn timeout(&mut self, cx: &mut Cx<'_>, w: &mut Window) {
        (self.last_max, self.epoch, self.min_rtt, self.credit) = (0, None, None, 0);
        self.hystart_round(cx.now, w.sent);
    }

    fn idle(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, idle: Span, _restarted: bool) {
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
            threshold: UNLIMITED,
            mss: Bytes::new(1000),
            rtt: RttView::default(),
            sent: 0,
        }
    }

    #[test]
    fn reduction_and_fast_convergence() {
        let mut c = Cubic::new(false);
        assert_eq!((c.reduce(&at(100.0), 100.0), c.last_max), (70.0, 100));
        c.reduce(&at(80.0), 80.0);
        assert_eq!(c.last_max, 68);
    }

    #[test]
    fn periods_along_the_curve() {
        assert_eq!(cube_root_period(30), 4317);
        let mut c = Cubic::new(false);
        c.reduce(&at(100.0), 100.0);
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
        // The ninth sample of the round decides: nine packets grew it, the rest follows the cubic.
        assert!(b.window() < 32.0, "{}", b.window());
        assert!(b.gauge("ssthresh") < 32.0);
        let mut b = Bench::of("cubic:hystart=off");
        b.round();
        b.rtt = Span::from_millis(120);
        b.round();
        assert_eq!(b.window(), 40.0);
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
