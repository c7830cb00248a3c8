// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::settings::{Settings, SlowStart};
use super::velocity::{Velocity, Way};
use crate::parts::{WindowedMax, WindowedMin, pacing_rate, segments, window_bytes, window_used};
use crate::{AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Packet, Path, Rto};
use alcc_units::{Bytes, Span, Time};

/// Packets.
const INITIAL: f64 = 10.0;
const SMALLEST: f64 = 2.0;
const LARGEST: f64 = 1e9;
/// Weight of a sample in the smoothed RTT (genericCC).
const SMOOTHING: f64 = 1.0 / 16.0;
const MINIMUM_OVER: Span = Span::from_secs(10);
/// genericCC holds the window still until twice the initial window, less one, has been acknowledged.
const GENERICCC_PROBES: u64 = 19;
/// A silence after which what was learned is old.
const SILENCE: Span = Span::from_secs(2);
/// Heavy loss: fraction, packets needed to judge, factor.
const LOSS: (f64, u64, f64) = (0.3, 20, 0.7);
/// Round trips over which a competitor's queue must persist (section 2.2).
const COMPETITOR_RTTS: u64 = 4;
/// Pacing credit of profile `tuned`, within two to ten packets.
const BURST: Span = Span::from_millis(1);
/// Bunching of acknowledgements is remembered for so long.
const BUNCHES_OVER: Span = Span::from_secs(1);

#[derive(Clone)]
pub(super) struct Copa {
    s: Settings,
    mss: Bytes,
    /// Packets.
    window: f64,
    /// Current delta, 1/packets.
    delta: f64,
    slow_start: bool,
    velocity: Velocity,
    /// Seconds; zero before the first sample.
    srtt: f64,
    latest: Span,
    minimum: WindowedMin<Span>,
    standing: WindowedMin<Span>,
    /// Extremes over four round trips, for the mode.
    low: WindowedMin<Span>,
    high: WindowedMax<Span>,
    competitive: bool,
    delta_changed: Time,
    /// `None`: never.
    delta_halved: Option<Time>,
    lossy: bool,
    /// Longest recent gaps between acknowledgements.
    gaps: WindowedMax<Span>,
    last_ack: Option<Time>,
    stand_at_least: Span,
    /// The queue is known not to have been empty.
    loaded: bool,
    acked: u64,
    doubled: Option<Time>,
    lost: u64,
    seen: u64,
    loss_checked: Time,
    updated: bool,
}

impl Copa {
    pub(super) fn new(s: Settings) -> Self {
        Self {
            s,
            mss: Bytes::new(1448),
            window: INITIAL,
            delta: s.delta,
            slow_start: true,
            velocity: Velocity::new(Time::ZERO, INITIAL),
            srtt: 0.0,
            latest: Span::ZERO,
            minimum: WindowedMin::new(),
            standing: WindowedMin::new(),
            low: WindowedMin::new(),
            high: WindowedMax::new(),
            competitive: false,
            delta_changed: Time::ZERO,
            delta_halved: None,
            lossy: false,
            gaps: WindowedMax::new(),
            last_ack: None,
            stand_at_least: Span::ZERO,
            loaded: false,
            acked: 0,
            doubled: None,
            lost: 0,
            seen: 0,
            loss_checked: Time::ZERO,
            updated: false,
        }
    }

    fn minimum(&self) -> Span {
        self.minimum.get().unwrap_or_default()
    }

    fn standing(&self) -> Span {
        self.standing.get().unwrap_or_default()
    }

    /// Packets of ours in the queue: window * queueing delay / RTT.
    fn queue(&self) -> f64 {
        let standing = self.standing().as_secs_f64();
        if standing <= 0.0 {
            return 0.0;
        }
        let now = if self.s.latest {
            self.latest
        } else {
            self.standing()
        };
        self.window * (now - self.minimum()).as_secs_f64() / standing
    }

    /// Window at which the queue is as wanted.
    fn target_window(&self) -> f64 {
        let queueing = (self.standing() - self.minimum()).as_secs_f64();
        if queueing <= 0.0 {
            LARGEST
        } else {
            self.standing().as_secs_f64() / (self.delta * queueing)
        }
    }

    fn verdict(&self) -> Way {
        let (queue, wanted) = (self.queue(), 1.0 / self.delta);
        // Rounding must not decide at the target itself.
        let slack = if self.s.strict { -1e-12 } else { 1e-12 } * wanted;
        if queue <= wanted + slack {
            Way::Up
        } else {
            Way::Down
        }
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        let r = rtt.as_secs_f64();
        self.srtt = if self.srtt == 0.0 {
            r
        } else {
            self.srtt + (r - self.srtt) * SMOOTHING
        };
        self.latest = rtt;
        let srtt = Span::from_secs_f64(self.srtt);
        let over = if self.s.long_minimum {
            MINIMUM_OVER.max(self.minimum() * 20)
        } else {
            MINIMUM_OVER
        };
        let keep = self.s.keep_floor && (self.loaded || self.competitive);
        self.minimum
            .insert(now, rtt, if keep { Span::MAX } else { over });
        let mut stand = srtt / 2;
        if self.s.bunches {
            let bunch = self.gaps.get().unwrap_or_default();
            stand = stand.max(bunch.min(srtt)).max(self.stand_at_least);
        }
        self.standing.insert(now, rtt, stand.min(over));
        let memory = (srtt * COMPETITOR_RTTS).min(over);
        self.low.insert(now, rtt, memory);
        self.high.insert(now, rtt, memory);
    }

    /// Section 2.2: is somebody else filling the buffer? Then more packets of ours, as Reno would.
    fn adapt(&mut self, cx: &mut Cx<'_>) {
        let (Some(low), Some(high), true) = (self.low.get(), self.high.get(), self.s.auto) else {
            return;
        };
        let minimum = self.minimum();
        let nearly_empty = minimum + (high - minimum).mul_f64(0.1);
        let competitive = low >= nearly_empty && low > minimum;
        if competitive != self.competitive {
            self.competitive = competitive;
            cx.log.event(
                cx.now,
                Event::Mode {
                    to: if competitive {
                        "competitive"
                    } else {
                        "default"
                    },
                },
            );
        }
        let round_passed = cx.now.since(self.delta_changed) >= self.standing();
        if !competitive {
            self.delta = self.s.delta;
        } else if self.lossy {
            self.delta = (self.delta * 2.0).min(self.s.delta);
            (self.delta_changed, self.delta_halved) = (cx.now, Some(cx.now));
        } else if round_passed {
            self.delta = (1.0 / (1.0 / self.delta + 1.0)).max(1.0 / self.s.largest_queue);
            self.delta_changed = cx.now;
        }
        self.lossy = false;
    }

    /// One acknowledged segment in slow start. False once it is over.
    fn slow_step(&mut self, cx: &mut Cx<'_>, way: Way) -> bool {
        let why = "queue above target";
        match self.s.slow_start {
            SlowStart::PerPacket if way == Way::Up => {
                self.window += 1.0;
                return true;
            }
            SlowStart::GenericCc => {
                if self.acked < GENERICCC_PROBES {
                    return true;
                }
                self.window += 1.0;
                if self.window < self.target_window() {
                    return true;
                }
            }
            SlowStart::Steps if way == Way::Up => {
                let srtt = Span::from_secs_f64(self.srtt);
                match self.doubled {
                    Some(at) if cx.now.since(at) > srtt => {
                        self.window *= 2.0;
                        self.doubled = Some(cx.now);
                    }
                    None => self.doubled = Some(cx.now),
                    Some(_) => {}
                }
                return true;
            }
            SlowStart::PerPacket | SlowStart::Steps => {}
        }
        if self.s.exit_drain {
            self.window = (self.window - self.queue())
                .max(self.target_window().min(self.window))
                .max(SMALLEST);
        }
        self.slow_start = false;
        self.velocity = Velocity::new(cx.now, self.window);
        cx.log.event(
            cx.now,
            Event::SlowStartExit {
                why,
                window: self.window,
            },
        );
        false
    }

    /// One acknowledged segment.
    fn step(&mut self, cx: &mut Cx<'_>, may_grow: bool) {
        self.acked += 1;
        self.updated = true;
        let way = self.verdict();
        if self.slow_start {
            if !may_grow && way == Way::Up {
                return;
            }
            if self.slow_step(cx, way) {
                return;
            }
        }
        let lasted = cx.now.since(self.velocity.since);
        if self.s.majority {
            if lasted > self.latest {
                self.velocity.period_by_votes();
                self.velocity.restart_period(cx.now, self.window);
            }
            self.velocity.vote(way);
        } else if lasted >= self.standing() {
            let up = self.window > self.velocity.window;
            self.velocity
                .period(if up { Way::Up } else { Way::Down }, self.s.hold);
            self.velocity.restart_period(cx.now, self.window);
        }
        if self.s.reversal && self.velocity.v > 1.0 && self.velocity.way != Some(way) {
            (self.velocity.v, self.velocity.same, self.velocity.way) = (1.0, 0, Some(way));
            self.velocity.restart_period(cx.now, self.window);
        }
        let most = (self.delta * self.window).max(1.0);
        if self.velocity.v > most {
            self.velocity.v = if self.s.halve {
                (self.velocity.v / 2.0).max(1.0)
            } else {
                most
            };
        }
        let mut step = self.velocity.v / (self.delta * self.window);
        let overload = way == Way::Down && self.queue() > self.s.overload / self.delta;
        if overload && self.s.overload_drain {
            step = step.max(self.s.drain_step);
        }
        // Known to stand in a queue from an overload until the next nearly empty moment.
        self.loaded = if overload {
            true
        } else {
            self.loaded && way == Way::Down
        };
        match way {
            Way::Up if may_grow => self.window = (self.window + step).min(LARGEST),
            Way::Up => {}
            Way::Down => self.window = (self.window - step).max(SMALLEST),
        }
    }

    /// More than 30 % lost is no accident.
    fn weigh_losses(&mut self, cx: &mut Cx<'_>) {
        let every = self.latest * self.s.loss_rounds;
        let (limit, enough, factor) = LOSS;
        if self.s.loss_rounds == 0
            || self.seen <= enough
            || cx.now.since(self.loss_checked) <= every
        {
            return;
        }
        if self.lost as f64 > limit * self.seen as f64 {
            let from = self.window;
            self.window = (from * factor).max(SMALLEST);
            cx.log.event(
                cx.now,
                Event::Decrease {
                    why: "heavy loss",
                    from,
                    to: self.window,
                },
            );
        }
        (self.lost, self.seen, self.loss_checked) = (0, 0, cx.now);
    }

    fn forget(&mut self, now: Time) {
        let mss = self.mss;
        *self = Self::new(self.s);
        self.mss = mss;
        self.velocity.since = now;
        self.loss_checked = now;
    }
}

impl Controller for Copa {
    fn needs(&self) -> Needs {
        Needs {
            per_packet_ack: true,
            paced: true,
            feedback_period: Span::from_millis(6),
            stack: self.s.stack,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.forget(cx.now);
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_route(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        // The old route's minimum says nothing about the new one.
        self.minimum.clear();
        self.standing.clear();
        self.low.clear();
        self.high.clear();
        self.loaded = false;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        if let Some(last) = self.last_ack.filter(|last| *last < cx.now) {
            self.gaps.insert(cx.now, cx.now.since(last), BUNCHES_OVER);
        }
        self.last_ack = Some(cx.now);
        self.stand_at_least = ack.rtt_error;
        let may_grow = if self.s.grow_unused {
            !(ack.limited.app || ack.limited.peer)
        } else {
            window_used(ack, self.allowance().window)
        };
        for packet in ack.acked {
            let n = segments(packet.len, self.mss);
            self.seen += n;
            self.weigh_losses(cx);
            if let Some(rtt) = packet.rtt.filter(|r| !r.is_zero()) {
                self.sample(cx.now, rtt);
            }
            if self.srtt > 0.0 {
                self.adapt(cx);
                for _ in 0..n {
                    self.step(cx, may_grow);
                }
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let n: u64 = loss
            .lost
            .iter()
            .map(|p: &Packet| segments(p.len, self.mss))
            .sum();
        self.lost += n;
        self.seen += n;
        // genericCC halves for every disclosed hole, the others once per round trip.
        let standing = self.standing();
        let again = |at| cx.now.since(at) >= standing;
        if self.s.majority || self.delta_halved.is_none_or(again) {
            self.lossy = true;
        }
        self.weigh_losses(cx);
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        if self.s.reset_on_silence {
            if rto.silence >= SILENCE {
                self.forget(cx.now);
            }
            return;
        }
        let from = self.window;
        self.window = SMALLEST;
        self.slow_start = true;
        self.velocity = Velocity::new(cx.now, self.window);
        if rto.silence >= SILENCE {
            self.minimum.clear();
            self.standing.clear();
            self.loaded = false;
        }
        cx.log.event(
            cx.now,
            Event::Decrease {
                why: "timeout",
                from,
                to: self.window,
            },
        );
        cx.log
            .event(cx.now, Event::SlowStartRestart { why: "timeout" });
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        self.velocity = Velocity::new(cx.now, self.window);
        self.last_ack = None;
    }

    fn on_rest(&mut self) {
        self.minimum.shrink();
        self.standing.shrink();
        self.low.shrink();
        self.high.shrink();
        self.gaps.shrink();
    }

    fn allowance(&self) -> Allowance {
        let per = if self.s.latest {
            self.srtt
        } else {
            self.standing().as_secs_f64()
        };
        let rate =
            (self.updated && per > 0.0).then(|| pacing_rate(2.0 * self.window / per, self.mss));
        // A host that wakes a little late must be able to catch up.
        let burst = rate.filter(|_| self.s.bunches).map_or(self.mss, |r| {
            r.bytes_in(BURST).clamp(self.mss * 2, self.mss * 10)
        });
        Allowance {
            window: window_bytes(self.window, self.mss),
            rate,
            burst,
            ..Allowance::UNLIMITED
        }
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.window);
        put("delta", self.delta);
        put("velocity", self.velocity.v);
        put("rtt_min_ms", self.minimum().as_millis_f64());
        put("rtt_standing_ms", self.standing().as_millis_f64());
        put("queue", self.queue());
        put("slow_start", f64::from(u8::from(self.slow_start)));
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
#[path = "vectors.rs"]
mod vectors;
