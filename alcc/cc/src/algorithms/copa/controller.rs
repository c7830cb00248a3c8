// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The current form of Copa: `tuned` and `paper`.
use super::settings::Settings;
use super::shared::{
    Gauges, HeavyLoss, INITIAL, MIN_RTT_OVER, MIN_WINDOW, Mode, Rtts, SILENCE, allowance, needs,
    verdict,
};
use super::velocity::{Velocity, Way};
use crate::parts::{Drained, Drains, Policer, Route, WindowedMax, segments, window_used};
use crate::{AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Path, Rto};
use alcc_units::{Bytes, Span, Time};

constants! { COPA:
    /// Periods in one direction before the velocity doubles (section 2.1).
    HOLD: u32 = 3;
    /// At exactly the target the window grows.
    SLACK: f64 = 1e-12;
    /// Multiple of 1/delta from which a window is "far above the target".
    /// A lower one triggers within the ordinary limit cycle.
    OVERLOAD: f64 = 5.0;
    /// Packets that each ACK takes off the window far above the target.
    DRAIN_STEP: f64 = 0.5, of 2;
    /// Window during a drain, as a part of the bandwidth-delay product.
    DRAIN_GAIN: f64 = 0.75, of 4;
    /// The path is nearly empty if the RTT exceeds the minimum by at most this part.
    NEARLY_EMPTY: u64 = 10;
    /// Pacing credit, within two to ten packets.
    BURST: Span = Span::from_millis(1);
    /// Segments up to which a record has a step for each.
    /// A reading at 70 Gbit/s has 40,000 segments in some 64 records.
    EACH_SEGMENT: u64 = 64;
    /// Steps of a longer record.
    STEPS: u64 = 8;
    /// Time over which bunching of ACKs is remembered.
    BUNCHES_OVER: Span = Span::from_secs(1);
    /// Queueing delay that separates a longer route from a queue of others, as Budget's target delay.
    DELAY: Span = Span::from_millis(40);
    /// Required accuracy of RTTs: with a lower one, siblings' queue passes for a longer route.
    SURE: Span = Span::from_millis(1);
}

#[derive(Clone)]
pub(super) struct Copa {
    s: Settings,
    mss: Bytes,
    /// The window, in packets.
    window: f64,
    slow_start: bool,
    velocity: Velocity,
    rtts: Rtts,
    mode: Mode,
    losses: HeavyLoss,
    /// Longest recent gaps between ACKs.
    gaps: WindowedMax<Span>,
    last_ack: Option<Time>,
    stand_at_least: Span,
    /// Time of the last measured overload, and the window to which it may drain, in packets.
    overload: Option<(Time, f64)>,
    drains: Drains,
    /// Delivery rate when the drain began, packets per second.
    drained_rate: f64,
    route: Route,
    updated: bool,
    /// Only in `tuned`.
    policer: Option<Policer>,
}

impl Copa {
    pub(super) fn new(s: Settings) -> Self {
        Self {
            s,
            mss: Bytes::new(1448),
            window: INITIAL,
            slow_start: true,
            velocity: Velocity::new(Time::ZERO, INITIAL),
            rtts: Rtts {
                floor: s.floor,
                ..Rtts::default()
            },
            mode: Mode::new(s.auto, s.delta, s.max_queue),
            losses: HeavyLoss::default(),
            gaps: WindowedMax::new(),
            last_ack: None,
            stand_at_least: Span::ZERO,
            overload: None,
            drains: Drains::default(),
            drained_rate: 0.0,
            route: Route::default(),
            updated: false,
            policer: s.policer.then(Policer::default),
        }
    }

    /// Packets of this flow in the queue, estimated.
    fn queue(&self) -> f64 {
        self.rtts.queue(self.window, self.rtts.standing())
    }

    /// The rate that the window yields, packets per second.
    fn rate(&self) -> f64 {
        // After a change of path the smoothed RTT may still be that of the old path.
        let base = self.drains.base().as_secs_f64();
        self.window / self.rtts.smoothed.max(base)
    }

    /// Uses the minimum RTT of the drains.
    fn take_base(&mut self, now: Time) {
        self.rtts.minimum.clear();
        let base = self.drains.base();
        self.rtts.minimum.insert(now, base, Span::MAX);
    }

    fn sample(&mut self, now: Time, sent_at: Time, rtt: Span) {
        let steady = !self.slow_start && !self.drains.draining();
        if self.s.longer_route && steady && self.stand_at_least <= SURE {
            let (rate, error) = (self.rate(), self.stand_at_least);
            self.route
                .look(now, (sent_at, rtt), Span::MAX, DELAY, error, rate);
        }
        self.rtts.smooth(rtt);
        let smoothed = self.rtts.smoothed();
        if self.s.drains {
            let nearly = (self.drains.base() / NEARLY_EMPTY).max(self.s.floor);
            self.drains
                .sample(now, rtt, self.stand_at_least, nearly, nearly);
            self.take_base(now);
        } else {
            self.rtts.minimum.insert(now, rtt, MIN_RTT_OVER);
        }
        let mut stand = (smoothed / 2).max(self.s.floor);
        if self.s.ack_aggregation {
            let bunch = self.gaps.get().unwrap_or_default();
            stand = stand.max(bunch.min(smoothed)).max(self.stand_at_least);
        }
        self.rtts.standing.insert(now, rtt, stand.min(MIN_RTT_OVER));
        self.mode.sample(now, rtt, &self.rtts, MIN_RTT_OVER);
    }

    fn leave_slow_start(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        if self.s.exit_drain {
            let target = self.rtts.target_window(self.mode.delta);
            let window = (self.window - self.queue()).max(target.min(self.window));
            // The measurement is a round trip old. At that time half of the current window was in
            // flight.
            self.window = (window / 2.0).max(MIN_WINDOW);
        }
        self.slow_start = false;
        // The minimum may include the queue of other flows.
        self.drains.doubt();
        self.overload = Some((cx.now, self.window));
        self.velocity = Velocity::new(cx.now, self.window);
        let event = Event::SlowStartExit {
            why,
            window: self.window,
        };
        cx.log.event(cx.now, event);
    }

    /// One step of the window for `n` acknowledged segments, as long as the window is not read in
    /// between.
    fn step(&mut self, cx: &mut Cx<'_>, n: u64, may_grow: bool) {
        #[expect(clippy::cast_precision_loss, reason = "segments of one record")]
        let n = n as f64;
        self.updated = true;
        let delta = self.mode.delta;
        let way = verdict(self.queue(), delta, SLACK);
        if self.slow_start && way == Way::Up {
            if may_grow {
                self.window += n;
            }
            return;
        }
        if self.slow_start {
            self.leave_slow_start(cx, "queue above target");
        }
        self.velocity
            .advance(cx.now, self.window, self.rtts.standing(), way, HOLD);
        // Up to the floor no queueing stops the growth, so a fast start would go far beyond it.
        if self.rtts.is_below_floor(self.window, delta) {
            self.velocity.calm();
        }
        let mut step = n * self.velocity.step(delta * self.window);
        let overload = way == Way::Down && self.queue() > OVERLOAD / delta;
        if overload && self.s.overload_drain {
            step = step.max((n * DRAIN_STEP).min(self.window - self.drained_to(cx.now)));
        }
        self.window = way.moved(self.window, step, may_grow);
    }

    /// The window at which the drain of an overload ends. A change takes effect after a round trip,
    /// so the value holds for one.
    fn drained_to(&mut self, now: Time) -> f64 {
        let round = self.rtts.smoothed();
        let measured = self.overload.filter(|(at, _)| now.since(*at) < round);
        let to = self.window - self.queue() + 1.0 / self.mode.delta;
        self.overload.insert(measured.unwrap_or((now, to))).1
    }

    /// Handles the acknowledgement of a packet sent at `sent_at`. True in a drain, which sets the
    /// window itself.
    fn drain(&mut self, cx: &mut Cx<'_>, sent_at: Time) -> bool {
        let path = |c: &Self| c.drained_rate * c.drains.base().as_secs_f64();
        let every = u64::from(!self.route.is_due(cx.now));
        let may = !self.slow_start && (every == 0 || !self.route.is_in_doubt());
        match self.drains.step(cx.now, sent_at, may, every) {
            Some(Drained::Begins) => {
                self.drained_rate = self.rate();
                cx.log.event(cx.now, Event::Mode { to: "drain" });
            }
            Some(Drained::Ends) => {
                self.look_for_a_longer_route(cx.now);
                self.window = path(self).max(MIN_WINDOW);
                self.velocity = Velocity::new(cx.now, self.window);
                // The queue measured now dates from before the drain.
                self.overload = Some((cx.now, self.window));
                cx.log.event(cx.now, Event::Mode { to: "default" });
            }
            Some(Drained::Again) | None => {}
        }
        if self.drains.draining() {
            self.window = (path(self) * DRAIN_GAIN).max(MIN_WINDOW);
        }
        self.drains.draining()
    }

    /// A drain has ended: if it emptied a longer route, the window is set to carry the rate of the
    /// shorter one.
    fn look_for_a_longer_route(&mut self, now: Time) {
        let (rate, error) = (self.drained_rate, self.stand_at_least);
        if self.s.longer_route
            && self
                .route
                .is_longer(now, &self.drains, DELAY, error, false, rate)
            && error <= SURE
        {
            self.drains.rise(now);
            self.take_base(now);
            self.drained_rate = rate.max(self.route.before());
        }
    }

    /// Forgets the delays, which are those of another path, or old.
    fn forget_delays(&mut self, now: Time) {
        self.rtts.forget_delays();
        self.drains = Drains::default();
        self.drains.start(now);
        self.route = Route::default();
        self.overload = None;
    }

    fn weigh_losses(&mut self, cx: &mut Cx<'_>) {
        self.window = self
            .losses
            .weigh(cx, self.rtts.latest, self.window, self.s.persistent_loss);
    }
}

/// The number of segments of each step. It is above one only for large records, for which single
/// steps would cost more than they improve the result.
fn portions(n: u64) -> impl Iterator<Item = u64> {
    let steps = if n > EACH_SEGMENT { STEPS } else { n };
    (0..steps).map(move |i| (i + 1) * n / steps - i * n / steps)
}

impl Controller for Copa {
    fn needs(&self) -> Needs {
        needs()
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        *self = Self::new(self.s);
        self.mss = path.mss;
        self.velocity.since = cx.now;
        self.drains.start(cx.now);
        self.losses.checked = cx.now;
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        if let Some(last) = self.last_ack.filter(|last| *last < cx.now) {
            self.gaps.insert(cx.now, cx.now.since(last), BUNCHES_OVER);
        }
        self.last_ack = Some(cx.now);
        self.stand_at_least = ack.rtt_error;
        let may_grow = window_used(ack, self.allowance().window);
        if let Some(policer) = &mut self.policer {
            policer.on_ack(cx.now, ack, self.mss);
        }
        for packet in ack.acked {
            let n = segments(packet.len, self.mss);
            self.losses.arrived(n);
            self.weigh_losses(cx);
            if let Some(rtt) = packet.rtt.filter(|r| !r.is_zero()) {
                self.sample(cx.now, packet.sent_at, rtt);
            }
            if self.rtts.smoothed > 0.0 {
                if self.s.drains && self.drain(cx, packet.sent_at) {
                    continue;
                }
                if let Some(event) = self.mode.adapt(cx.now, &self.rtts) {
                    cx.log.event(cx.now, event);
                }
                let standing = self.rtts.standing();
                for n in portions(n) {
                    let before = self.window;
                    self.step(cx, n, may_grow);
                    // An unused window stays, and further steps at the same moment would equal the
                    // first.
                    if !may_grow && self.window == before && !standing.is_zero() {
                        break;
                    }
                }
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if let Some(policer) = &mut self.policer {
            policer.on_loss(cx.now, loss, self.mss);
        }
        self.losses.lost(loss, self.mss);
        self.mode.loss(cx.now, self.rtts.standing());
        if self.slow_start && self.s.exit_drain {
            self.leave_slow_start(cx, "loss");
        }
        self.weigh_losses(cx);
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let from = self.window;
        self.window = MIN_WINDOW;
        self.slow_start = true;
        self.velocity = Velocity::new(cx.now, self.window);
        if rto.silence >= SILENCE {
            self.forget_delays(cx.now);
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

    fn release_memory(&mut self) {
        self.rtts.shrink();
        self.drains.shrink();
        self.mode.shrink();
        self.gaps.shrink();
    }

    fn allowance(&self) -> Allowance {
        let per = self.rtts.standing().as_secs_f64();
        let mut allowance = allowance(self.window, per, self.updated, self.mss);
        if let Some(policer) = &self.policer {
            allowance.rate = policer.within(allowance.rate, self.mss);
        }
        if let Some(rate) = allowance.rate.filter(|_| self.s.ack_aggregation) {
            // The burst lets a host catch up that wakes a little late.
            allowance.burst = rate.bytes_in(BURST).clamp(self.mss * 2, self.mss * 10);
        }
        allowance
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        let state = Gauges {
            window: self.window,
            delta: self.mode.delta,
            velocity: self.velocity.v,
            queue: self.queue(),
            slow_start: self.slow_start,
        };
        self.rtts.gauges(&state, put);
    }
}

#[cfg(test)]
#[path = "vectors.rs"]
mod vectors;
