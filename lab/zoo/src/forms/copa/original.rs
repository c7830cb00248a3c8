// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `copa:profile=original`: genericCC with `auto:0.5`.
//!
//! Frozen: it exists for reproducing published figures, so it is changed only if it differs from
//! the program. It shares the paper's arithmetic ([`alcc_cc::parts::copa`]) with the current form.
//!
//! | constant | value | unit |
//! |---|---|---|
//! | delta (option `delta`) | 0.5 | 1/packets |
//! | mode (option `mode`) | auto | – |
//! | minimum RTT over | 10 s or 20 minima | – |
//! | standing RTT over | srtt/2 | – |
//! | periods before v doubles | 1, by the majority of verdicts | – |
//! | ACKs before slow start moves | 19 | – |
//! | heavy loss is judged every | 2 | RTT |
use alcc_cc::parts::copa::{
    Gauges, HeavyLoss, INITIAL, MIN_RTT_OVER, Mode, Rtts, SILENCE, Way, allowance, needs, verdict,
};
use alcc_cc::parts::segments;
use alcc_cc::{AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Path, Rto};
use alcc_units::{Bytes, Span, Time};

/// genericCC holds the window still until twice the initial window, less one, has been
/// acknowledged.
const PROBES: u64 = 19;
const LOSS_ROUNDS: u64 = 2;
/// At exactly the target the window shrinks.
const SLACK: f64 = -1e-12;

/// The direction: that of the majority of the verdicts in a round trip.
#[derive(Clone, Debug)]
struct Votes {
    v: f64,
    way: Option<Way>,
    since: Time,
    /// Verdicts up minus verdicts down in this period.
    balance: i64,
}

impl Votes {
    fn new(now: Time) -> Self {
        Self {
            v: 1.0,
            way: None,
            since: now,
            balance: 0,
        }
    }

    /// Counts the verdict of an ACK that the window should go `way`.
    fn vote(&mut self, way: Way) {
        self.balance += if way == Way::Up { 1 } else { -1 };
    }

    /// Ends a period. A majority for the current direction doubles the velocity; another result, or
    /// a draw, reverses the direction. The first direction is up.
    fn period(&mut self, now: Time) {
        let down = self.way == Some(Way::Down);
        if self.balance * if down { -1 } else { 1 } > 0 {
            self.v = (self.v * 2.0).min(1e9);
        } else {
            self.v = 1.0;
            self.way = Some(if down { Way::Up } else { Way::Down });
        }
        (self.since, self.balance) = (now, 0);
    }
}

#[derive(Clone)]
pub(super) struct Original {
    /// Delta as configured.
    delta: f64,
    auto: bool,
    mss: Bytes,
    /// The window, in packets.
    window: f64,
    slow_start: bool,
    votes: Votes,
    rtts: Rtts,
    mode: Mode,
    losses: HeavyLoss,
    acked: u64,
}

impl Original {
    pub(super) const DELTA: f64 = 0.5;
    pub(super) const AUTO: bool = true;

    pub(super) fn new(delta: f64, auto: bool) -> Self {
        Self {
            delta,
            auto,
            mss: Bytes::new(1448),
            window: INITIAL,
            slow_start: true,
            votes: Votes::new(Time::ZERO),
            rtts: Rtts::default(),
            mode: Mode::new(auto, delta, f64::MAX),
            losses: HeavyLoss::default(),
            acked: 0,
        }
    }

    fn forget(&mut self, now: Time) {
        let mss = self.mss;
        *self = Self::new(self.delta, self.auto);
        self.mss = mss;
        self.votes.since = now;
        self.losses.checked = now;
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        self.rtts.smooth(rtt);
        let over = MIN_RTT_OVER.max(self.rtts.minimum() * 20);
        self.rtts.minimum.insert(now, rtt, over);
        let standing = (self.rtts.smoothed() / 2).min(over);
        self.rtts.standing.insert(now, rtt, standing);
        self.mode.sample(now, rtt, &self.rtts, over);
    }

    fn queue(&self) -> f64 {
        self.rtts.queue(self.window, self.rtts.standing())
    }

    /// One step for an acknowledged segment.
    fn step(&mut self, cx: &mut Cx<'_>, may_grow: bool) {
        self.acked += 1;
        let way = verdict(self.queue(), self.mode.delta, SLACK);
        if self.slow_start {
            if !may_grow && way == Way::Up || self.acked < PROBES {
                return;
            }
            self.window += 1.0;
            if self.window < self.rtts.target_window(self.mode.delta) {
                return;
            }
            self.slow_start = false;
            self.votes = Votes::new(cx.now);
            let event = Event::SlowStartExit {
                why: "queue above target",
                window: self.window,
            };
            cx.log.event(cx.now, event);
        }
        if cx.now.since(self.votes.since) > self.rtts.latest {
            self.votes.period(cx.now);
        }
        self.votes.vote(way);
        let room = self.mode.delta * self.window;
        if self.votes.v > room.max(1.0) {
            self.votes.v = (self.votes.v / 2.0).max(1.0);
        }
        let step = self.votes.v / room;
        self.window = way.moved(self.window, step, may_grow);
    }

    fn weigh_losses(&mut self, cx: &mut Cx<'_>) {
        let every = self.rtts.latest * LOSS_ROUNDS;
        self.window = self.losses.weigh(cx, every, self.window, 1.0);
    }
}

impl Controller for Original {
    fn needs(&self) -> Needs {
        Needs { ..needs() }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.forget(cx.now);
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        // Only a lack of data stops the growth, which genericCC never has.
        let may_grow = !(ack.limited.app || ack.limited.peer);
        for packet in ack.acked {
            let n = segments(packet.len, self.mss);
            self.losses.arrived(n);
            self.weigh_losses(cx);
            if let Some(rtt) = packet.rtt.filter(|r| !r.is_zero()) {
                self.sample(cx.now, rtt);
            }
            if self.rtts.smoothed > 0.0 {
                if let Some(event) = self.mode.adapt(cx.now, &self.rtts) {
                    cx.log.event(cx.now, event);
                }
                for _ in 0..n {
                    self.step(cx, may_grow);
                }
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.losses.lost(loss, self.mss);
        // Set for every detected hole.
        self.mode.lossy = true;
        self.weigh_losses(cx);
    }

    /// A silence of two seconds resets everything, a shorter one nothing.
    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        if rto.silence >= SILENCE {
            self.forget(cx.now);
        }
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        self.votes = Votes::new(cx.now);
    }

    fn release_memory(&mut self) {
        self.rtts.shrink();
        self.mode.shrink();
    }

    fn allowance(&self) -> Allowance {
        let per = self.rtts.standing().as_secs_f64();
        allowance(self.window, per, self.acked > 0, self.mss)
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        let state = Gauges {
            window: self.window,
            delta: self.mode.delta,
            velocity: self.votes.v,
            queue: self.queue(),
            slow_start: self.slow_start,
        };
        self.rtts.gauges(&state, put);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MSS};
    use alcc_cc::Discard;

    const MS: Span = Span::from_millis(1);

    /// Past slow start, with these RTTs known.
    fn steady(window: f64, minimum: u64, standing: u64) -> Original {
        let mut c = Original::new(Original::DELTA, Original::AUTO);
        c.mss = MSS;
        c.window = window;
        c.slow_start = false;
        c.rtts = Rtts::known(minimum, standing);
        c
    }

    fn step(c: &mut Original) -> f64 {
        let now = Time::ZERO;
        c.step(
            &mut Cx {
                now,
                log: &mut Discard,
            },
            true,
        );
        c.window
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn exactly_at_the_target_the_window_shrinks() {
        assert!(near(step(&mut steady(12.0, 50, 60)), 12.0 - 1.0 / 6.0));
    }

    #[test]
    fn velocity_is_halved_towards_its_bound() {
        let mut c = steady(20.0, 50, 50);
        (c.votes.v, c.votes.way) = (16.0, Some(Way::Up));
        assert!(near(step(&mut c), 20.8));
    }

    #[test]
    fn velocity_doubles_with_each_majority() {
        let mut v = Votes::new(Time::ZERO);
        let (up, down) = (Way::Up, Way::Down);
        let velocities = [up, up, up, up, up, up, down].map(|way| {
            v.vote(way);
            v.period(Time::ZERO);
            v.v
        });
        assert_eq!(velocities, [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1.0]);
    }

    #[test]
    fn genericcc_turns_at_a_draw() {
        let mut v = Votes::new(Time::ZERO);
        let mut ways = Vec::new();
        for votes in [&[Way::Down][..], &[Way::Down], &[Way::Up, Way::Down], &[]] {
            votes.iter().for_each(|way| v.vote(*way));
            v.period(Time::ZERO);
            ways.push((v.v, v.way.unwrap()));
        }
        let (up, down) = (Way::Up, Way::Down);
        assert_eq!(ways, [(1.0, down), (2.0, down), (1.0, up), (1.0, down)]);
    }

    #[test]
    fn genericcc_waits_for_nineteen_acknowledgements() {
        let mut b = Bench::of("copa:profile=original");
        b.wait(MS * 100);
        for _ in 0..18 {
            b.ack(MS * 100);
        }
        assert_eq!(b.window(), 10.0);
        b.ack(MS * 100);
        assert_eq!(b.window(), 11.0);
        b.ack(MS * 100);
        assert_eq!(b.window(), 12.0);
    }

    #[test]
    fn only_heavy_loss_shrinks_the_window() {
        for (lost, factor) in [(6, 1.0), (7, 0.7)] {
            let mut c = steady(100.0, 50, 60);
            (c.losses.lost, c.losses.seen) = (lost, 21);
            c.weigh_losses(&mut Cx {
                now: Time::from_millis(121),
                log: &mut Discard,
            });
            assert!(near(c.window, 100.0 * factor));
        }
    }
}
