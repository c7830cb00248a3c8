// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verus: Zaki, Pötsch, Chen, Subramanian, Görg, "Adaptive Congestion Control for Unpredictable Cellular Networks",
//! SIGCOMM 2015, and the authors' program (repository yzaki/verus, June 2017).
//!
//! Verus learns which delay each sending window causes (the delay profile, a point per acknowledged packet, a curve
//! through them every second). Every 5 ms it moves the delay it is willing to have by a millisecond or two, reads the
//! window off the curve, and releases what equation 5 says is missing in the network.
//!
//! The constants stand in `settings.rs`, by profile: `original` is the program, `paper` the text, `tuned` (the default)
//! ours. One file per concern: `profile.rs` points, `fit.rs` and `curve.rs` the curve and its inverse, `estimator.rs` the
//! delay estimator and equations 2 to 5, this file the events.
//!
//! # Differs from the paper
//!
//! * All profiles: time is monotonic; what is in flight is the host's count and never forgotten; the release of an epoch
//!   replaces what the last one left; the RTT that a packet is filed under is kept at the sender; loss detection, its
//!   timers and retransmission are the host's. Application-limited packets do not enter the profile. A packet record of
//!   several segments counts as that many packets for windows and budgets, and as one delay sample.
//! * `original`: with the program's own deviations (500 ms slow start, no growth limit, upward drift in empty epochs,
//!   a stiff curve, everything forgotten when a delay cannot be mapped).
//! * `tuned`: slow start ends before the queue that is still to come passes R; a sample above `R × D_min` cuts at once;
//!   in flight is bounded by W and by what the measured delivery rate brings home within `R × D_min`; empty epochs hold;
//!   jitter near D_min does not count as a rising delay; a delay that cannot be mapped holds the window near the largest
//!   one known; a curve that the path contradicts (D_est far above what is seen) is learned anew in a slow start that
//!   keeps D_min; a longer route is noticed.
//!
//! # Known weakness
//!
//! The standing queue is a multiple of the base delay, so that long paths get long queues and very short ones too little
//! to fill a jittery link: with r=2 at 40 ms `tuned` leaves up to half of a bursty channel unused (the program less).
//! Outages of a second fill the network for a round trip whatever the window is. Two flows of unlike base delay do not share fairly.
mod curve;
mod estimator;
mod fit;
mod profile;
mod settings;
#[cfg(test)]
mod tests;

use crate::{
    AckBatch, Algorithm, Allowance, Controller, Cx, Event, LossBatch, Needs, OptionDoc, Options,
    Packet, Path, Pn, RecoveryEnd, Rto, Sent, SpecError, Spurious, Tag,
};
use alcc_units::{Bytes, Span, Time};
use curve::Curve;
use estimator::{EpochEnd, Estimator, epochs_in, plausible, release_exact, release_whole};
use profile::Points;
use settings::{Empty, Settings};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "verus",
    summary: "Verus (SIGCOMM 2015): learns the delay of each window, holds the delay below r times the smallest",
    profiles: &["tuned", "paper", "original"],
    options: &[
        OptionDoc {
            name: "r",
            default: "6",
            help: "tolerated ratio of the largest to the smallest delay, 1.5 to 20",
        },
        OptionDoc {
            name: "epoch",
            default: "5ms",
            help: "time between decisions, 1ms to 50ms",
        },
        OptionDoc {
            name: "empty_epoch",
            default: "hold (tuned), increase (others)",
            help: "an epoch without acknowledgement: 'increase' probes upwards as the program does, 'hold' changes nothing",
        },
    ],
    build,
};

/// In slow start after a loss, the program leaves only with more than this window, packets.
const LEAVE_SLOW_START_ABOVE: f64 = 20.0;
/// A slow start ended by loss: slots from the lost packet's label on are forgotten, but never below this.
const FORGET_FROM: u32 = 100;
/// In flight is never capped below this many packets (`tuned`).
const CAP_FLOOR: f64 = 4.0;
/// A packet with at most this many in flight sees the route and not our queue (`tuned`).
const CLEAN_FLIGHT: f64 = 2.0;
/// How fast the rate of the cap falls to a lower sample, per epoch (`tuned`).
const RATE_FALL: f64 = 0.1;

/// A queue this much longer than the one seen contradicts nothing, ms (`tuned`).
const STALE_FLOOR: f64 = 10.0;

fn build(options: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    let mut settings = match options.profile() {
        "original" => Settings::ORIGINAL,
        "paper" => Settings::PAPER,
        _ => Settings::TUNED,
    };
    settings.ratio = options.real("r", settings.ratio, 1.5..=20.0)?;
    settings.epoch = options.span(
        "epoch",
        settings.epoch,
        Span::from_millis(1)..=Span::from_millis(50),
    )?;
    if options.text("empty_epoch").is_some() {
        settings.empty = match options.choice("empty_epoch", &["increase", "hold"])? {
            "hold" => Empty::Hold,
            _ => Empty::Increase,
        };
    }
    Ok(Box::new(Verus::new(settings)))
}

/// The loss phase: the profile is frozen, acknowledgements add 1/W.
#[derive(Clone, Copy, Debug)]
struct Repair {
    /// Last packet sent when it began.
    point: Pn,
    /// Slow start was left by delay: the ratio branch waits.
    frozen: bool,
}

#[derive(Clone)]
struct Verus {
    settings: Settings,
    mss: Bytes,
    /// Origin of the epoch grid.
    started: Time,
    next_epoch: Time,
    /// Last time something was acknowledged.
    heard: Time,
    slow_start: bool,
    repair: Option<Repair>,
    estimator: Estimator,
    points: Points,
    curve: Option<Curve>,
    /// The curve's node divisor.
    divisor: u32,
    refit_at: Time,
    /// Slots to forget at the first fit.
    forget_from: Option<u32>,
    /// Target window W, packets.
    window: f64,
    /// Fraction of a packet that equation 5 still owes.
    credit: f64,
    quota: Bytes,
    in_flight: Bytes,
    /// Newest packet sent, and the first of this session (a restart begins a new one).
    newest: Pn,
    session: Pn,
    /// The last proportional cut: nothing sent before it may cut again.
    cut_point: Option<Pn>,
    may_cut: bool,
    /// Delivery rate for the cap, packets per ms; 0 before the first sample.
    rate: f64,
    newest_rate: f64,
    /// Since when the path has been much faster than the curve says.
    contradicted: Option<Time>,
    /// Slow start was entered again for a new profile.
    relearning: bool,
    /// The application or the peer was the limit since the last epoch.
    idle_sender: bool,
}

impl Verus {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            mss: Bytes::new(1),
            started: Time::ZERO,
            next_epoch: Time::ZERO,
            heard: Time::ZERO,
            slow_start: true,
            repair: None,
            estimator: Estimator::new(&settings),
            points: Points::default(),
            curve: None,
            divisor: fit::DIVISOR,
            refit_at: Time::ZERO,
            forget_from: None,
            window: settings.start_window,
            credit: 0.0,
            quota: Bytes::ZERO,
            in_flight: Bytes::ZERO,
            newest: 0,
            session: 0,
            cut_point: None,
            may_cut: true,
            rate: 0.0,
            newest_rate: 0.0,
            contradicted: None,
            relearning: false,
            idle_sender: false,
        }
    }

    /// Packets that these bytes are, the last one perhaps short.
    fn packets(&self, bytes: Bytes) -> u64 {
        bytes.get().div_ceil(self.mss.get().max(1))
    }

    /// The target in whole packets, as packets are labelled.
    fn label(&self) -> u32 {
        self.window.clamp(1.0, f64::from(profile::LARGEST)) as u32
    }

    fn label_of(packet: &Packet) -> u32 {
        (packet.tag.0.min(u64::from(profile::LARGEST)) as u32).max(1)
    }

    /// Delay of a window by the curve, or by the raw table before the first curve; never below D_min.
    fn delay_of(&self, window: f64) -> f64 {
        let delay = match &self.curve {
            Some(curve) => curve.delay(window),
            None => self.points.delay_at(window as u32).unwrap_or(0.0),
        };
        delay.max(self.estimator.d_min)
    }

    /// W for D_est; `None` if the profile does not reach it and the program would start over.
    fn window_for_estimate(&self) -> Option<f64> {
        let d = self.estimator.d_est;
        let Some(curve) = &self.curve else {
            return Some(f64::from(self.points.window_for(d)));
        };
        let found = curve.window_for(d).map(f64::from);
        if self.settings.restart_unmappable {
            return found;
        }
        // Beyond the data the curve is a guess: go a little further than known, and learn.
        let known = f64::from(curve.largest().max(self.points.largest()));
        let most = known + (known / 8.0).max(2.0);
        Some(found.map_or(most, |w| w.min(most)))
    }

    fn restart(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        let mut points = std::mem::take(&mut self.points);
        points.clear();
        *self = Self {
            mss: self.mss,
            started: self.started,
            next_epoch: self.next_epoch,
            heard: cx.now,
            in_flight: self.in_flight,
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
        if std::mem::take(&mut self.relearning) {
            // What was known beyond belongs to a slower path.
            self.points.forget_from(self.label().saturating_add(1));
        }
        self.refit_at = cx.now;
        self.estimator.forget_epoch();
        cx.log.event(
            cx.now,
            Event::SlowStartExit {
                why,
                window: self.window.floor(),
            },
        );
    }

    /// A sample in slow start was long: the window that caused it is known, what it did since is still to come.
    fn leave_by_delay(&mut self, cx: &mut Cx<'_>, packet: &Packet, delay: f64) {
        let label = f64::from(Self::label_of(packet));
        if self.settings.careful {
            // The label's delay is bearable: stay there. What is in flight beyond it drains first.
            self.window = label;
            self.estimator.d_est = delay.max(self.estimator.d_min);
        } else {
            self.window = (self.settings.decrease * label).max(1.0);
            self.estimator.d_est = self.delay_of(self.window);
            self.repair = Some(Repair {
                point: self.newest,
                frozen: true,
            });
        }
        self.leave_slow_start(cx, "delay");
    }

    /// Equation 6.
    fn reduce(&mut self, cx: &mut Cx<'_>, why: &'static str, label: u32) {
        let from = self.window;
        let reduced = self.settings.decrease * f64::from(label);
        self.window = from.min(reduced).max(1.0);
        self.estimator.d_est = self.delay_of(self.window);
        self.repair = Some(Repair {
            point: self.newest,
            frozen: false,
        });
        let event = Event::Decrease {
            why,
            from: from.floor(),
            to: self.window.floor(),
        };
        cx.log.event(cx.now, event);
    }

    fn acknowledged(&mut self, cx: &mut Cx<'_>, packet: &Packet, usable: bool) {
        let label = Self::label_of(packet);
        let count = self.packets(packet.len).max(1) as f64;
        let delay = packet
            .rtt
            .map(Span::as_millis_f64)
            .filter(|ms| plausible(*ms));
        if self.slow_start
            && let Some(ms) = delay
            && ms > self.settings.exit_rtt(self.estimator.d_min)
        {
            self.leave_by_delay(cx, packet, ms);
        }
        if let Some(repair) = self.repair {
            let past = !self.settings.recovery_point || packet.pn > repair.point;
            if past && f64::from(label) <= self.window {
                self.repair = None;
                self.estimator.forget_epoch();
            }
        }
        if let Some(ms) = delay {
            self.estimator.sample(ms, &self.settings);
            if self.settings.careful && packet.stamp.in_flight.packets(self.mss) <= CLEAN_FLIGHT {
                self.estimator.clean_sample(ms);
            }
        }
        if self.repair.is_some() {
            self.window += count / self.window;
            let delay = self.delay_of(self.window);
            self.estimator.d_est = self.estimator.d_est.min(delay);
        } else if let Some(ms) = delay.filter(|_| usable && !packet.stamp.app_limited) {
            let weight = if self.relearning {
                0.0
            } else {
                self.settings.point_weight
            };
            self.points.update(label, ms, weight);
        }
        if self.cut_point.is_none_or(|point| packet.pn > point) {
            self.may_cut = true;
        }
        if self.slow_start {
            let used = self.window <= 2.0 * packet.stamp.in_flight.packets(self.mss);
            if used || !self.settings.careful {
                self.window = (self.window + count).min(f64::from(profile::LARGEST));
            }
        }
    }

    /// In slow start: as much as the window lacks.
    fn refill(&mut self) {
        let lacking = self.window - self.in_flight.packets(self.mss);
        self.quota = self.mss.mul_f64(lacking.max(0.0).floor());
    }

    fn fit_if_due(&mut self, cx: &mut Cx<'_>) -> bool {
        if cx.now < self.refit_at {
            return true;
        }
        self.refit_at = cx.now + self.settings.refit;
        if let Some(from) = self.forget_from.take() {
            self.points.forget_from(from);
        }
        let from = if self.settings.sticky_divisor {
            self.divisor
        } else {
            fit::DIVISOR
        };
        let found = fit::nodes(self.points.largest(), from);
        let curve =
            found.and_then(|(_, nodes)| fit::fit(self.points.iter(), nodes, self.settings.rho));
        let (Some((divisor, _)), Some(curve)) = (found, curve) else {
            if self.settings.restart_unmappable {
                self.restart(cx, "too few points for a profile");
                return false;
            }
            return true;
        };
        self.divisor = divisor;
        cx.log.event(
            cx.now,
            Event::ProfileFitted {
                points: self.points.len(),
                largest: curve.largest(),
            },
        );
        self.curve = Some(curve);
        true
    }

    fn epoch(&mut self, cx: &mut Cx<'_>) {
        let in_flight = self.packets(self.in_flight);
        let silence = cx.now.since(self.heard).as_millis_f64();
        if self.newest_rate > self.rate {
            self.rate = self.newest_rate;
        } else {
            self.rate += RATE_FALL * (self.newest_rate - self.rate);
        }
        if self.slow_start {
            self.refill();
            return;
        }
        if !self.fit_if_due(cx) {
            return;
        }
        if self.contradicted(cx) {
            self.contradicted = None;
            self.slow_start = true;
            self.relearning = true;
            cx.log.event(cx.now, Event::Mode { to: "relearn" });
            self.refill();
            return;
        }
        let end = EpochEnd {
            silence,
            in_flight,
            frozen: self.repair.is_some_and(|repair| repair.frozen),
            no_increase: self.settings.careful && std::mem::take(&mut self.idle_sender),
            may_cut: self.may_cut,
        };
        let verdict = if self.settings.careful && in_flight == 0 {
            estimator::Verdict::default()
        } else {
            self.estimator.epoch(&end, &self.settings)
        };
        if verdict.cut {
            self.may_cut = false;
            self.cut_point = Some(self.newest);
        }
        let Some(window) = self.window_for_estimate() else {
            self.restart(cx, "the profile does not reach the delay");
            return;
        };
        self.window = window.max(1.0);
        self.quota = if verdict.suppress {
            Bytes::ZERO
        } else {
            self.release(in_flight)
        };
    }

    /// Whether the curve is out of date: D_est far above what the path does, for two round trips on end.
    fn contradicted(&mut self, cx: &Cx<'_>) -> bool {
        let (Some(factor), Some(seen)) = (self.settings.stale, self.estimator.newest()) else {
            return false;
        };
        let d_min = self.estimator.d_min;
        let calm = seen < self.settings.exit_rtt(d_min)
            && self.estimator.d_est - d_min > factor * (seen - d_min) + STALE_FLOOR
            && !self.idle_sender;
        if !calm || self.repair.is_some() {
            self.contradicted = None;
            return false;
        }
        let since = *self.contradicted.get_or_insert(cx.now);
        cx.now.since(since).as_millis_f64() > 2.0 * self.estimator.rtt()
    }

    /// Equation 5.
    fn release(&mut self, in_flight: u64) -> Bytes {
        let epochs = epochs_in(self.estimator.rtt(), self.settings.epoch.as_millis_f64());
        if self.settings.whole_packets {
            return self.mss * release_whole(self.window as u64, in_flight, epochs);
        }
        let exact = release_exact(self.window, in_flight as f64, epochs) + self.credit;
        let whole = exact.floor();
        self.credit = (exact - whole).clamp(0.0, 1.0);
        self.mss.mul_f64(whole)
    }

    /// The bound on what is in flight, packets.
    fn cap(&self) -> Option<f64> {
        let by_window = self.settings.flight_cap.map(|factor| factor * self.window);
        let by_rate = (self.settings.rate_cap && self.rate > 0.0 && !self.slow_start)
            .then_some(self.rate * self.settings.ratio * self.estimator.d_min);
        let cap = by_window.into_iter().chain(by_rate).reduce(f64::min)?;
        Some(cap.max(CAP_FLOOR))
    }

    fn next_on_grid(&self, now: Time) -> Time {
        let epoch = self.settings.epoch.as_nanos().max(1);
        let passed = now.since(self.started).as_nanos() / epoch;
        self.started + self.settings.epoch * (passed + 1)
    }
}

impl Controller for Verus {
    fn needs(&self) -> Needs {
        Needs {
            per_packet_ack: true,
            feedback_period: self.settings.epoch / 2,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss.max(Bytes::new(1));
        self.started = cx.now;
        self.heard = cx.now;
        self.next_epoch = self.next_on_grid(cx.now);
        self.refill();
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        if sent.in_flight_before == Bytes::ZERO {
            // Silence is counted from here: before, there was nothing to hear.
            self.heard = cx.now;
        }
        if self.next_epoch <= cx.now {
            self.next_epoch = self.next_on_grid(cx.now);
        }
        self.in_flight = sent.in_flight_before + sent.len;
        self.quota = self.quota.saturating_sub(sent.len);
        self.newest = self.newest.max(sent.pn);
        Tag(u64::from(self.label()))
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.in_flight = ack.in_flight;
        self.heard = cx.now;
        self.idle_sender |= ack.limited.app || ack.limited.peer;
        if let Some(rate) = ack.rate {
            self.newest_rate = rate.as_bps() as f64 / 8e3 / self.mss.get() as f64;
        }
        for packet in ack.acked {
            if packet.pn >= self.session {
                self.acknowledged(cx, packet, !ack.limited.app);
            }
        }
        if self.slow_start {
            self.refill();
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.in_flight = loss.in_flight;
        let Some(lost) = loss
            .lost
            .first()
            .filter(|_| loss.new_episode && self.repair.is_none())
        else {
            if self.slow_start {
                self.refill();
            }
            return;
        };
        let label = Self::label_of(lost);
        self.reduce(cx, "loss", label);
        if self.slow_start {
            if self.settings.restart_unmappable && self.window.floor() <= LEAVE_SLOW_START_ABOVE {
                // The program stays: every acknowledgement then counts as in both phases.
                self.refill();
                return;
            }
            self.forget_from = Some(label.max(FORGET_FROM));
            self.leave_slow_start(cx, "loss");
        }
        self.quota = Bytes::ZERO;
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.in_flight = rto.in_flight;
        self.heard = cx.now;
        if self.settings.rto_to_floor && self.slow_start {
            if self.points.len() == 0 {
                self.restart(cx, "timeout before the first acknowledgement");
            } else {
                self.leave_slow_start(cx, "timeout");
            }
            return;
        }
        self.reduce(cx, "timeout", Self::label_of(&rto.oldest));
        if self.settings.rto_to_floor {
            self.estimator.d_est = self.estimator.d_min;
        }
        if self.slow_start {
            self.leave_slow_start(cx, "timeout");
        }
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        self.repair = None;
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.in_flight = end.in_flight;
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        // What was learned stays; what was measured last says nothing about now.
        self.heard = cx.now;
        self.in_flight = Bytes::ZERO;
        self.credit = 0.0;
        self.estimator.forget_recent();
        self.next_epoch = self.next_on_grid(cx.now);
        if self.settings.careful {
            self.window = self.window.min(2.0 * self.settings.start_window);
            self.estimator.d_est = self.delay_of(self.window);
        }
        self.refill();
    }

    fn on_path_change(&mut self, cx: &mut Cx<'_>, path: &Path) {
        let mss = path.mss.max(Bytes::new(1));
        if mss != self.mss {
            self.mss = mss;
            self.restart(cx, "another segment size");
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if cx.now >= self.next_epoch {
            self.next_epoch = self.next_on_grid(cx.now);
            self.epoch(cx);
        }
    }

    fn allowance(&self) -> Allowance {
        let window = match self.cap() {
            Some(cap) => self.mss.mul_f64(cap).max(self.mss),
            None => Bytes::MAX,
        };
        Allowance {
            quota: self.quota,
            ..Allowance::window(window)
        }
    }

    fn next_timer(&self) -> Option<Time> {
        // Nothing to hear and free to send: whoever sends winds the clock up again.
        let idle = self.in_flight == Bytes::ZERO && self.quota >= self.mss;
        (!idle).then_some(self.next_epoch)
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("d_est", self.estimator.d_est);
        put("d_min", self.estimator.d_min);
        put("d_max", self.estimator.d_max.unwrap_or(0.0));
        put("window", self.window);
        put("quota", self.quota.packets(self.mss));
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
