// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `verus:profile=original`: the authors' program (repository yzaki/verus, June 2017).
//!
//! Frozen: it exists for reproducing published figures, so it is changed only if it differs from the program.
//! `lab/notes/truth.md` compares the two. It shares with the current form only the code of the paper's formulas:
//! points, curve fit, equation 5.
//!
//! | constant | value | unit |
//! |---|---|---|
//! | epoch (option `epoch`) | 5 | ms |
//! | R (option `r`) | 6 | – |
//! | α of equation 2, weight of the old | 0.2 | – |
//! | weight of the old point, of the old RTT | 0.875 | – |
//! | δ1 down, δ2 up (options `delta1`, `delta2`) | 1, 2 | ms |
//! | M | 0.7 | – |
//! | refit (option `refit`) | 1 | s |
//! | ρ of the fit | 2 | – |
//! | slow start ends at an RTT above | 500 | ms |
//! | first window | 1 | packets |
//!
//! **Differs from the program**: the budget that its two threads sometimes count twice in slow
//! start is counted once. A full socket buffer is no loss.
mod estimator;
#[cfg(test)]
mod tests;

use alcc_cc::parts::verus::{
    Asked, Curve, DIVISOR, Epochs, LARGEST, OPTIONS, Points, ProfilePoint, epochs_in, fit, label,
    label_of, lacking, nodes, packets, plausible, release_whole,
};
use alcc_cc::{
    AckBatch, Allowance, Build, Controller, Cx, Event, Form, Instance, LossBatch, Needs, Packet,
    Path, Pn, RecoveryEnd, Rto, Sent, Tag,
};
use alcc_units::{Bytes, Span, Time};
use estimator::Estimator;

pub(crate) const ORIGINAL: Form = Form {
    profile: "original",
    options: OPTIONS,
    build: Build::Function(|options| {
        let asked = Asked::PUBLISHED.read(options)?;
        Ok(Instance::new(Original::new(asked)))
    }),
};

const POINT_WEIGHT: f64 = 0.875;
const DECREASE: f64 = 0.7;
const RHO: f64 = 2.0;
const SLOW_START_EXIT_MS: f64 = 500.0;
/// After a loss, the program leaves slow start only with more than this window, packets.
const LEAVE_SLOW_START_ABOVE: f64 = 20.0;
/// A loss that ends slow start forgets the slots from its label on, but never below this one.
const FORGET_FROM: u32 = 100;

/// The loss phase: the profile is frozen, ACKs add 1/W.
#[derive(Clone, Copy, Debug)]
struct Repair {
    /// True if slow start was left by delay, so that the ratio branch is disabled.
    frozen: bool,
}

#[derive(Clone)]
pub(crate) struct Original {
    settings: Asked,
    mss: Bytes,
    epochs: Epochs,
    slow_start: bool,
    repair: Option<Repair>,
    estimator: Estimator,
    points: Points,
    curve: Option<Curve>,
    /// The curve's node divisor. Once lowered it stays low until a restart.
    divisor: u32,
    refit_at: Time,
    /// Slots to forget at the first fit.
    forget_from: Option<u32>,
    /// Target window W, packets.
    window: f64,
    quota: Bytes,
    /// The program's own count. It forgets, so it can only be lower than the host's.
    in_flight: Bytes,
    /// Newest packet sent, and the first of this session (a restart begins a new one).
    newest: Pn,
    session: Pn,
    /// ACKs and losses of earlier packets than this are ignored.
    forgotten: Pn,
}

impl Original {
    pub(super) fn new(settings: Asked) -> Self {
        Self {
            settings,
            mss: Bytes::new(1),
            epochs: Epochs::new(settings.epoch),
            slow_start: true,
            repair: None,
            estimator: Estimator::default(),
            points: Points::default(),
            curve: None,
            divisor: DIVISOR,
            refit_at: Time::ZERO,
            forget_from: None,
            window: 1.0,
            quota: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            newest: 0,
            session: 0,
            forgotten: 0,
        }
    }

    fn packets(&self, bytes: Bytes) -> u64 {
        packets(bytes, self.mss)
    }

    /// Delay of a window by the curve, or by the raw table before the first curve. At least D_min.
    fn delay_of(&self, window: f64) -> f64 {
        let delay = match &self.curve {
            Some(curve) => curve.delay(window),
            None => self.points.delay_at(window as u32).unwrap_or(0.0),
        };
        delay.max(self.estimator.min_rtt())
    }

    fn restart(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        let mut points = std::mem::take(&mut self.points);
        points.clear();
        self.epochs.on_ack(cx.now);
        *self = Self {
            mss: self.mss,
            epochs: self.epochs,
            newest: self.newest,
            session: self.newest + 1,
            points,
            ..Self::new(self.settings)
        };
        self.refill();
        cx.log.event(cx.now, Event::SlowStartRestart { why });
    }

    fn leave_slow_start(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        self.slow_start = false;
        self.refit_at = cx.now;
        self.estimator.forget_epoch();
        let window = self.window.floor();
        cx.log.event(cx.now, Event::SlowStartExit { why, window });
    }

    /// Equation 6, for the label of the lost packet.
    fn reduce(&mut self, cx: &mut Cx<'_>, label: u32) {
        let from = self.window;
        self.window = from.min(DECREASE * f64::from(label)).max(1.0);
        self.estimator.d_est = self.delay_of(self.window);
        self.repair = Some(Repair { frozen: false });
        let event = Event::Decrease {
            why: "loss",
            from: from.floor(),
            to: self.window.floor(),
        };
        cx.log.event(cx.now, event);
    }

    /// Takes nothing to be in flight any more, and ignores what comes of it.
    fn forget_flight(&mut self) {
        self.forgotten = self.newest + 1;
        self.in_flight = Bytes::ZERO;
    }

    /// Takes these losses off what is in flight; the first one that counts.
    fn first_lost<'a>(&mut self, loss: &LossBatch<'a>) -> Option<&'a Packet> {
        let from = self.session.max(self.forgotten);
        let mut counted = loss.lost.iter().filter(|p| p.pn >= from);
        let len = counted.clone().map(|p| p.len).sum();
        self.in_flight = self.in_flight.saturating_sub(len).min(loss.in_flight);
        counted.next()
    }

    fn acknowledged(&mut self, cx: &mut Cx<'_>, packet: &Packet, usable: bool) {
        let label = label_of(packet);
        let count = self.packets(packet.len).max(1) as f64;
        let delay = packet
            .rtt
            .map(Span::as_millis_f64)
            .filter(|ms| plausible(*ms));
        if self.slow_start && delay.is_some_and(|ms| ms > SLOW_START_EXIT_MS) {
            self.window = (DECREASE * f64::from(label)).max(1.0);
            self.estimator.d_est = self.delay_of(self.window);
            self.repair = Some(Repair { frozen: true });
            self.leave_slow_start(cx, "delay");
        }
        if self.repair.is_some() && f64::from(label) <= self.window {
            self.repair = None;
            self.estimator.forget_epoch();
        }
        if packet.pn < self.forgotten {
            return;
        }
        self.in_flight = self.in_flight.saturating_sub(packet.len);
        if let Some(ms) = delay {
            self.estimator.sample(ms);
        }
        if self.repair.is_some() {
            self.window += count / self.window;
            let delay = self.delay_of(self.window);
            self.estimator.d_est = self.estimator.d_est.min(delay);
        } else if let Some(ms) = delay.filter(|_| usable && !packet.stamp.app_limited) {
            self.points.update(label, ms, POINT_WEIGHT);
        }
        if self.slow_start {
            self.window = (self.window + count).min(f64::from(LARGEST));
        }
    }

    /// In slow start: as much as the window lacks.
    fn refill(&mut self) {
        self.quota = lacking(self.window, self.in_flight, self.mss);
    }

    fn fit_if_due(&mut self, cx: &mut Cx<'_>) -> bool {
        if cx.now < self.refit_at {
            return true;
        }
        self.refit_at = cx.now + self.settings.refit;
        if let Some(from) = self.forget_from.take() {
            self.points.forget_from(from);
        }
        let found = nodes(self.points.largest(), self.divisor);
        let curve = found.and_then(|(_, nodes)| fit(self.points.iter(), nodes, RHO));
        let (Some((divisor, _)), Some(curve)) = (found, curve) else {
            self.restart(cx, "too few points for a profile");
            return false;
        };
        self.divisor = divisor;
        let event = Event::ProfileFitted {
            points: self.points.count(),
            largest: curve.largest(),
        };
        cx.log.event(cx.now, event);
        self.curve = Some(curve);
        true
    }

    fn epoch(&mut self, cx: &mut Cx<'_>) {
        if self.slow_start {
            self.refill();
            return;
        }
        if !self.fit_if_due(cx) {
            return;
        }
        let in_flight = self.packets(self.in_flight);
        let silence = self.epochs.silence(cx.now);
        let frozen = self.repair.is_some_and(|repair| repair.frozen);
        let suppress = self
            .estimator
            .epoch(silence, in_flight, frozen, &self.settings);
        let d_est = self.estimator.d_est;
        let window = match &self.curve {
            Some(curve) => curve.window_for(d_est),
            None => Some(self.points.window_for(d_est)),
        };
        let Some(window) = window else {
            self.restart(cx, "the profile does not reach the delay");
            return;
        };
        self.window = f64::from(window).max(1.0);
        self.quota = if suppress {
            Bytes::ZERO
        } else {
            let epoch = self.settings.epoch.as_millis_f64();
            let epochs = epochs_in(self.estimator.smoothed_rtt(), epoch);
            self.mss * release_whole(self.window as u64, in_flight, epochs)
        };
    }
}

impl Original {
    /// As [`alcc_cc::parts::verus::Verus::profile`].
    pub(crate) fn profile(&self, put: &mut dyn FnMut(ProfilePoint)) {
        self.points.show(put);
        if let Some(curve) = &self.curve {
            curve.show(put);
        }
    }
}

impl Controller for Original {
    fn needs(&self) -> Needs {
        Needs {
            per_packet_ack: true,
            feedback_period: self.settings.epoch,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss.max(Bytes::new(1));
        self.epochs.start(cx.now);
        self.refill();
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.epochs.on_sent(cx.now, sent);
        self.in_flight = self.in_flight.min(sent.in_flight_before) + sent.len;
        self.quota = self.quota.saturating_sub(sent.len);
        self.newest = self.newest.max(sent.pn);
        Tag(label(self.window).into())
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.epochs.on_ack(cx.now);
        for packet in ack.acked {
            if packet.pn >= self.session {
                self.acknowledged(cx, packet, !ack.limited.app);
            }
        }
        self.in_flight = self.in_flight.min(ack.in_flight);
        if self.slow_start {
            self.refill();
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let Some(lost) = self.first_lost(loss).filter(|_| self.repair.is_none()) else {
            if self.slow_start {
                self.refill();
            }
            return;
        };
        let label = label_of(lost);
        self.reduce(cx, label);
        if self.slow_start {
            if self.window.floor() <= LEAVE_SLOW_START_ABOVE {
                // The program stays: every ACK then counts as in both phases.
                self.refill();
                return;
            }
            self.forget_from = Some(label.max(FORGET_FROM));
            self.forget_flight();
            self.leave_slow_start(cx, "loss");
        }
        self.quota = Bytes::ZERO;
    }

    /// In slow start it ends that and changes nothing else. Later it forgets what is in flight and
    /// puts D_est to D_min. Silence goes on counting from the last ACK.
    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        if !self.slow_start {
            self.forget_flight();
            self.estimator.d_est = self.estimator.d_min;
            let frozen = self.repair.is_some_and(|repair| repair.frozen);
            self.repair = Some(Repair { frozen });
        } else if self.points.count() == 0 {
            self.restart(cx, "timeout before the first acknowledgement");
        } else {
            self.leave_slow_start(cx, "timeout");
        }
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.in_flight = self.in_flight.min(end.in_flight);
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        self.epochs.resume(cx.now);
        self.in_flight = Bytes::ZERO;
        self.estimator.forget_recent();
        self.refill();
    }

    fn on_mtu(&mut self, cx: &mut Cx<'_>, mss: Bytes) {
        let (mss, was) = (mss.max(Bytes::new(1)), self.mss);
        self.mss = mss;
        if mss > was * 2 || was > mss * 2 {
            self.restart(cx, "another segment size");
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if self.epochs.end(cx.now) {
            self.epoch(cx);
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance {
            quota: self.quota,
            ..Allowance::window(Bytes::MAX)
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.epochs.timer(self.in_flight, self.quota, self.mss)
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("d_est", self.estimator.d_est);
        put("d_min", self.estimator.d_min);
        put("d_max", self.estimator.d_max.unwrap_or(0.0));
        put("window", self.window);
        put("quota", self.quota.packets(self.mss));
    }
}
