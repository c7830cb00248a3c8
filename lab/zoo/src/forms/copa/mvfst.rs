// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `copa:profile=mvfst`: Copa in Meta's QUIC.
//!
//! Frozen: it is changed only if it differs from that program. It shares the paper's arithmetic
//! ([`alcc_cc::parts::copa`]) and velocity with the current form.
//!
//! | constant | value | unit |
//! |---|---|---|
//! | delta (option `delta`) | 0.04 | 1/packets |
//! | mode (option `mode`) | default | – |
//! | minimum RTT over | 10 | s |
//! | standing RTT over | srtt/2 | – |
//! | periods before v doubles | 3 | – |
//! | the queueing delay is that of | the latest RTT | – |
//! | pacing | 2 w / srtt | – |
//! | slow start | w doubles once per srtt | – |
use alcc_cc::parts::copa::{
    Gauges, INITIAL, MIN_RTT_OVER, MIN_WINDOW, Mode, Rtts, SILENCE, Velocity, Way, allowance,
    needs, verdict,
};
use alcc_cc::parts::{segments, window_used};
use alcc_cc::{AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Path, Rto};
use alcc_units::{Bytes, Span, Time};

const HOLD: u32 = 3;
/// At exactly the target the window grows.
const SLACK: f64 = 1e-12;

#[derive(Clone)]
pub(super) struct Mvfst {
    /// Delta as configured.
    delta: f64,
    auto: bool,
    mss: Bytes,
    /// The window, in packets.
    window: f64,
    slow_start: bool,
    doubled: Option<Time>,
    velocity: Velocity,
    rtts: Rtts,
    mode: Mode,
    updated: bool,
}

impl Mvfst {
    pub(super) const DELTA: f64 = 0.04;
    pub(super) const AUTO: bool = false;

    pub(super) fn new(delta: f64, auto: bool) -> Self {
        Self {
            delta,
            auto,
            mss: Bytes::new(1448),
            window: INITIAL,
            slow_start: true,
            doubled: None,
            velocity: Velocity::new(Time::ZERO, INITIAL),
            rtts: Rtts::default(),
            mode: Mode::new(auto, delta, f64::MAX),
            updated: false,
        }
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        self.rtts.smooth(rtt);
        self.rtts.minimum.insert(now, rtt, MIN_RTT_OVER);
        let standing = (self.rtts.smoothed() / 2).min(MIN_RTT_OVER);
        self.rtts.standing.insert(now, rtt, standing);
        self.mode.sample(now, rtt, &self.rtts, MIN_RTT_OVER);
    }

    fn queue(&self) -> f64 {
        self.rtts.queue(self.window, self.rtts.latest)
    }

    /// One step for an acknowledged segment.
    fn step(&mut self, cx: &mut Cx<'_>, may_grow: bool) {
        self.updated = true;
        let way = verdict(self.queue(), self.mode.delta, SLACK);
        if self.slow_start && way == Way::Up {
            if !may_grow {
                return;
            }
            match self.doubled {
                Some(at) if cx.now.since(at) > self.rtts.smoothed() => {
                    self.window *= 2.0;
                    self.doubled = Some(cx.now);
                }
                None => self.doubled = Some(cx.now),
                Some(_) => {}
            }
            return;
        }
        if self.slow_start {
            self.slow_start = false;
            self.velocity = Velocity::new(cx.now, self.window);
            let event = Event::SlowStartExit {
                why: "queue above target",
                window: self.window,
            };
            cx.log.event(cx.now, event);
        }
        self.velocity
            .advance(cx.now, self.window, self.rtts.standing(), way, HOLD);
        let room = self.mode.delta * self.window;
        let step = self.velocity.step(room);
        self.window = way.moved(self.window, step, may_grow);
    }
}

impl Controller for Mvfst {
    fn needs(&self) -> Needs {
        needs()
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        *self = Self::new(self.delta, self.auto);
        self.mss = path.mss;
        self.velocity.since = cx.now;
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let may_grow = window_used(ack, self.allowance().window);
        for packet in ack.acked {
            if let Some(rtt) = packet.rtt.filter(|r| !r.is_zero()) {
                self.sample(cx.now, rtt);
            }
            if self.rtts.smoothed > 0.0 {
                if let Some(event) = self.mode.adapt(cx.now, &self.rtts) {
                    cx.log.event(cx.now, event);
                }
                for _ in 0..segments(packet.len, self.mss) {
                    self.step(cx, may_grow);
                }
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, _loss: &LossBatch<'_>) {
        self.mode.loss(cx.now, self.rtts.standing());
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let from = self.window;
        self.window = MIN_WINDOW;
        self.slow_start = true;
        self.velocity = Velocity::new(cx.now, self.window);
        if rto.silence >= SILENCE {
            self.rtts.forget_delays();
        }
        let (why, to) = ("timeout", self.window);
        cx.log.event(cx.now, Event::Decrease { why, from, to });
        cx.log.event(cx.now, Event::SlowStartRestart { why });
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        self.velocity = Velocity::new(cx.now, self.window);
    }

    fn release_memory(&mut self) {
        self.rtts.shrink();
        self.mode.shrink();
    }

    fn allowance(&self) -> Allowance {
        allowance(self.window, self.rtts.smoothed, self.updated, self.mss)
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
mod tests {
    use crate::testing::Bench;
    use alcc_units::Span;

    const MS: Span = Span::from_millis(1);

    #[test]
    fn mvfst_doubles_once_per_smoothed_rtt() {
        let mut b = Bench::of("copa:profile=mvfst");
        b.wait(MS * 100);
        b.ack(MS * 100);
        b.wait(MS * 100);
        b.ack(MS * 100);
        assert_eq!(b.window(), 10.0);
        b.wait(MS);
        b.ack(MS * 100);
        assert_eq!(b.window(), 20.0);
        b.timeout(1);
        assert_eq!(b.window(), 2.0);
    }
}
