// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of one flow and its transitions: slow start, loss phase, epoch, refit, in the paper's order.
use super::company::Company;
use super::curve::Curve;
use super::epochs::Epochs;
use super::estimator::{EpochEnd, Estimator, Verdict, plausible};
use super::profile::Points;
use super::release::{epochs_in, lacking, packets, release_exact, whole_packets};
use super::settings::{DECREASE, ExitAt, POINT_WEIGHT, Settings};
use super::{MIN_DELAY, fit, profile};
use crate::parts::{Policer, pacing_rate};
use crate::{Cx, Event, Packet, Pn};
use alcc_units::{Bytes, Rate, Span, Time};

constants! { VERUS:
    /// Lowest slot that is forgotten from the lost packet's label on, if loss ends a slow start.
    pub(super) FORGET_FROM: u32 = 100;
    /// Smallest cap on packets in flight (`tuned`).
    CAP_FLOOR: f64 = 4.0;
    /// Speed at which the rate of the cap falls to a lower sample, per epoch (`tuned`).
    RATE_FALL: f64 = 0.1, of 10;
    /// Time during which the ceiling after a loss grows by one packet per round trip.
    /// (`tuned`, and the next: both as in H-TCP.)
    CEILING_CALM: Span = Span::from_secs(1);
    /// Packets that each later second without a loss adds to that growth.
    /// Flows that lost at the same time grow alike, whatever their rates.
    CEILING_STEP: f64 = 10.0;
    /// Pacing rate, as a multiple of W per D_est (`tuned`; as in Linux).
    /// Bursts of an epoch are spread, and the clock of acknowledgements rules.
    PACING_GAIN: f64 = 2.0;
    /// A queue longer by at most this than the measured one is no contradiction, ms (`tuned`).
    STALE_FLOOR: f64 = 10.0, of 1000;
    /// Smallest floor, packets (`tuned`).
    /// A single segment in flight waits for a delayed acknowledgement, and its delay would be learned as the path's.
    MIN_FLOOR: f64 = 2.0;
    /// Largest floor, packets (`tuned`).
    /// It is a share of a wide path, and little beside a window alone on it.
    MAX_FLOOR: f64 = 50.0;
    /// Largest step of the floor, as a share of the window; at least one packet.
    FLOOR_STEP: f64 = 0.0625, of 16;
    /// An epoch longer than requested by this factor counts with its real length (`tuned`).
    LATE: f64 = 1.5, of 2;
}

/// The loss phase: the profile is frozen, and acknowledgements add 1/W.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repair {
    /// The last packet sent before the phase.
    pub(super) point: Pn,
    /// Slow start was left by delay, so the ratio branch is disabled.
    pub(super) frozen: bool,
}

/// The upper bound of the window after a loss, in packets, and the time of the loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ceiling {
    pub(super) window: f64,
    pub(super) lost_at: Time,
}

/// State before the last reduction, in packets, which is restored if the loss was spurious.
#[derive(Clone, Copy, Debug)]
pub(super) struct BeforeLoss {
    window: f64,
    ceiling: Option<Ceiling>,
    floor: f64,
}

/// A Verus flow.
#[derive(Clone)]
pub struct Verus {
    pub(super) settings: Settings,
    pub(super) mss: Bytes,
    pub(super) epochs: Epochs,
    /// End of the last epoch, and its actual length in ms: a host with many flows coalesces epochs.
    pub(super) epoch_at: Time,
    pub(super) lasted: f64,
    pub(super) slow_start: bool,
    pub(super) repair: Option<Repair>,
    pub(super) estimator: Estimator,
    pub(super) points: Points,
    pub(super) curve: Option<Curve>,
    pub(super) refit_at: Time,
    /// Points from this window on are removed at the first fit.
    pub(super) forget_from: Option<u32>,
    /// Target window W, packets.
    pub(super) window: f64,
    /// Fraction of a packet that equation 5 has not released yet.
    pub(super) credit: f64,
    pub(super) quota: Bytes,
    pub(super) in_flight: Bytes,
    /// Number of the newest packet sent, and of the first of this session (a restart begins a new one).
    pub(super) newest: Pn,
    pub(super) session: Pn,
    /// The last packet sent before the last proportional reduction: packets up to it cause no other.
    pub(super) cut_point: Option<Pn>,
    pub(super) may_cut: bool,
    /// Delivery rate for the cap, packets per ms; 0 before the first sample.
    pub(super) rate: f64,
    pub(super) newest_rate: f64,
    /// Bound on the error of the newest samples, ms.
    pub(super) error: f64,
    /// Time since which the path has been much faster than the curve predicts.
    pub(super) contradicted: Option<Time>,
    /// Upper bound after a loss, which grows until it no longer matters. It is needed because a buffer too short for
    /// the delays that the profile allows causes losses, but no delay.
    pub(super) ceiling: Option<Ceiling>,
    pub(super) before_loss: Option<BeforeLoss>,
    /// Lower bound of the window, packets, whatever the curve that was learned beside other flows gives. While the
    /// delay is tolerable, it grows by a packet per round trip up to `MAX_FLOOR`, so that a flow with a small share
    /// gets more.
    pub(super) floor: f64,
    /// True if slow start was entered again for a new profile.
    pub(super) relearning: bool,
    /// True if the application or the peer limited the sender since the last epoch.
    pub(super) idle_sender: bool,
    pub(super) company: Company,
    /// Only in `tuned`. Released on idle connections without a policer.
    pub(super) policer: Option<Box<Policer>>,
}

impl Verus {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            mss: Bytes::new(1),
            epochs: Epochs::new(settings.epoch),
            epoch_at: Time::ZERO,
            lasted: 0.0,
            slow_start: true,
            repair: None,
            estimator: Estimator::new(),
            points: Points::default(),
            curve: None,
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
            error: 0.0,
            contradicted: None,
            ceiling: None,
            before_loss: None,
            floor: MIN_FLOOR,
            relearning: false,
            idle_sender: false,
            company: Company::default(),
            policer: None,
        }
    }

    /// The number of packets in these bytes.
    pub(super) fn packets(&self, bytes: Bytes) -> u64 {
        packets(bytes, self.mss)
    }

    /// Delay of a window from the curve, or from the raw table before the first curve; never below D_min.
    pub(super) fn delay_of(&self, window: f64) -> f64 {
        let delay = match &self.curve {
            Some(curve) => curve.delay(window),
            None => self.points.delay_at(window as u32).unwrap_or(0.0),
        };
        delay.max(self.estimator.min_rtt())
    }

    /// W for D_est; `None` if the curve does not reach it.
    pub(super) fn window_for_estimate(&self) -> Option<f64> {
        let d = self.estimator.d_est;
        let Some(curve) = &self.curve else {
            return Some(f64::from(self.points.window_for(d)));
        };
        let found = curve.window_for(d).map(f64::from);
        if !self.settings.company {
            return found.map(|w| w.min(f64::from(profile::LARGEST)));
        }
        // Beyond the data the curve is a guess, so the window goes a little beyond the known ones, and learns.
        let known = f64::from(curve.largest().max(self.points.largest()));
        let most = known + (known / 8.0).max(2.0);
        Some(found.map_or(most, |w| w.min(most)))
    }

    pub(super) fn restart(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        let mut points = std::mem::take(&mut self.points);
        points.clear();
        self.epochs.on_ack(cx.now);
        *self = Self {
            mss: self.mss,
            epochs: self.epochs,
            in_flight: self.in_flight,
            newest: self.newest,
            session: self.newest + 1,
            points,
            company: Company::at(cx.now),
            ..Self::new(self.settings)
        };
        self.refill();
        cx.log.event(cx.now, Event::SlowStartRestart { why });
    }

    pub(super) fn leave_slow_start(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        self.slow_start = false;
        if std::mem::take(&mut self.relearning) {
            // Points of larger windows belong to a slower path.
            self.points
                .forget_from(profile::label(self.window).saturating_add(1));
        } else {
            self.company.doubt();
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

    /// A sample in slow start was long. Its window is known; the effect of the packets sent since is still to come.
    pub(super) fn leave_by_delay(&mut self, cx: &mut Cx<'_>, packet: &Packet, delay: f64) {
        let label = f64::from(profile::label_of(packet));
        if matches!(self.settings.exit_at, ExitAt::Queue { .. }) {
            // The delay of the label is tolerable: the window stays there. The excess in flight drains first.
            self.window = label;
            self.estimator.d_est = delay.max(self.estimator.d_min);
        } else {
            self.window = (DECREASE * label).max(1.0);
            self.estimator.d_est = self.delay_of(self.window);
            self.repair = Some(Repair {
                point: self.newest,
                frozen: true,
            });
        }
        self.leave_slow_start(cx, "delay");
    }

    /// The window, limited by the ceiling. The ceiling grows by a packet per round trip, faster if nothing was lost for
    /// long, and faster on a longer path.
    fn under_ceiling(&mut self, window: f64) -> f64 {
        let Some(Ceiling {
            window: was,
            lost_at,
        }) = self.ceiling
        else {
            return window;
        };
        let long = self.settings.long(self.estimator.d_min);
        let calm = self.epoch_at.since(lost_at).saturating_sub(CEILING_CALM);
        let step = long * (1.0 + CEILING_STEP * calm.as_secs_f64());
        let grown = was + step / self.epochs_in_rtt() as f64;
        let forgotten = grown > f64::from(profile::LARGEST);
        self.ceiling = (!forgotten).then_some(Ceiling {
            window: grown,
            lost_at,
        });
        window.min(grown)
    }

    /// Updates the floor after an epoch, and returns it. A round trip of tolerable delay adds a packet; an intolerable
    /// one multiplies it by M. With unequal round trips, the rates that correspond to the floors grow alike.
    fn move_floor(&mut self, tolerable: Option<bool>) -> f64 {
        let epochs = self.epochs_in_rtt() as f64;
        let long = self.settings.long(self.estimator.d_min);
        let step = (long * long).min((self.window * FLOOR_STEP).max(1.0));
        self.floor = match tolerable {
            Some(true) => (self.floor + step / epochs).min(MAX_FLOOR * long),
            Some(false) => self.floor * (1.0 - (1.0 - DECREASE) / epochs),
            None => self.floor,
        };
        self.floor = self.floor.max(MIN_FLOOR);
        self.floor
    }

    /// Reduces the window (equation 6). `packet`: the lost one.
    pub(super) fn reduce(&mut self, cx: &mut Cx<'_>, why: &'static str, packet: &Packet) {
        let mut label = profile::label_of(packet);
        if self.settings.validate_app_limited {
            // A window that was not filled yet says nothing about the capacity of the path.
            let flight = self.packets(packet.stamp.in_flight).max(1);
            label = label.min(u32::try_from(flight).unwrap_or(u32::MAX));
        }
        let reduced = self.window_after_loss(cx.now, f64::from(label)).max(1.0);
        if self.settings.company {
            self.before_loss = Some(BeforeLoss {
                window: self.window,
                ceiling: self.ceiling,
                floor: self.floor,
            });
            self.ceiling = Some(Ceiling {
                window: reduced,
                lost_at: cx.now,
            });
            self.floor = self.floor.min(reduced).max(MIN_FLOOR);
            self.company.reduced = Some(self.newest);
        }
        let from = self.window;
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

    /// Undoes the last reduction, because its packets arrived after all.
    pub(super) fn undo(&mut self) {
        let Some(before) = self.before_loss.take() else {
            return;
        };
        self.window = self.window.max(before.window);
        self.floor = self.floor.max(before.floor);
        self.ceiling = before.ceiling;
        self.estimator.d_est = self.delay_of(self.window);
    }

    pub(super) fn acknowledged(&mut self, cx: &mut Cx<'_>, packet: &Packet, usable: bool) {
        let label = profile::label_of(packet);
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
        if let Some(repair) = self.repair
            && packet.pn > repair.point
            && f64::from(label) <= self.window
        {
            self.repair = None;
            self.estimator.forget_epoch();
        }
        if let Some((ms, rtt)) = delay.zip(packet.rtt) {
            self.estimator.sample(ms);
            if self.settings.company {
                self.company.loss_rate.delivered(count);
                self.see(cx, packet, rtt);
            }
        }
        if self.repair.is_some() {
            self.window += count / self.window;
            let delay = self.delay_of(self.window);
            self.estimator.d_est = self.estimator.d_est.min(delay);
        } else if let Some(ms) = delay.filter(|_| usable && !packet.stamp.app_limited) {
            let weight = if self.relearning { 0.0 } else { POINT_WEIGHT };
            self.points.update(label, ms, weight);
        }
        if self.cut_point.is_none_or(|point| packet.pn > point) {
            self.may_cut = true;
        }
        if self.slow_start {
            let used = self.window <= 2.0 * packet.stamp.in_flight.packets(self.mss);
            if used || !self.settings.validate_app_limited {
                self.window = (self.window + count).min(f64::from(profile::LARGEST));
            }
        }
    }

    /// In slow start: sets the quota to the part of the window that is not in flight.
    pub(super) fn refill(&mut self) {
        self.quota = lacking(self.window, self.in_flight, self.mss);
    }

    /// Fits the curve once a second. False if there are too few points for a first curve: slow start begins again.
    pub(super) fn fit_if_due(&mut self, cx: &mut Cx<'_>) -> bool {
        if cx.now < self.refit_at {
            return true;
        }
        self.refit_at = cx.now + self.settings.refit;
        if let Some(from) = self.forget_from.take() {
            self.points.forget_from(from);
        }
        let found = fit::nodes(self.points.largest(), fit::DIVISOR);
        let Some(curve) =
            found.and_then(|(_, nodes)| fit::fit(self.points.iter(), nodes, self.settings.rho))
        else {
            if self.curve.is_none() {
                self.start_again(cx);
            }
            return self.curve.is_some();
        };
        cx.log.event(
            cx.now,
            Event::ProfileFitted {
                points: self.points.count(),
                largest: curve.largest(),
            },
        );
        self.curve = Some(curve);
        true
    }

    /// Enters slow start again for a flow that knows too few windows: without a curve D_est would grow forever.
    fn start_again(&mut self, cx: &mut Cx<'_>) {
        let why = "too few windows known";
        if self.settings.company {
            self.slow_start = true;
            self.repair = None;
            self.ceiling = None;
            cx.log.event(cx.now, Event::SlowStartRestart { why });
            self.refill();
        } else {
            self.restart(cx, why);
        }
    }

    /// Epochs in a round trip, by the configured length or by the host's actual one.
    fn epochs_in_rtt(&self) -> u64 {
        let asked = self.settings.epoch.as_millis_f64();
        let late = self.settings.measured_epochs && self.lasted > LATE * asked;
        epochs_in(self.estimator.rtt(), if late { self.lasted } else { asked })
    }

    pub(super) fn epoch(&mut self, cx: &mut Cx<'_>) {
        self.lasted = cx.now.since(self.epoch_at).as_millis_f64();
        self.epoch_at = cx.now;
        let in_flight = self.packets(self.in_flight);
        let silence = self.epochs.silence(cx.now);
        if self.newest_rate > self.rate {
            self.rate = self.newest_rate;
        } else if !self.company.drains.draining() && self.company.hold.is_none() {
            self.rate += RATE_FALL * (self.newest_rate - self.rate);
        }
        if self.slow_start {
            self.refill();
            return;
        }
        if !self.fit_if_due(cx) {
            return;
        }
        if self.repair.is_some() && !self.settings.company {
            // In the paper equation 4 changes the delay "in the absence of losses": until the loss phase ends, only
            // acknowledgements change W.
            self.estimator.forget_epoch();
            self.estimator.d_est = self.delay_of(self.window);
            self.quota = self.release(in_flight);
            return;
        }
        if self.company.drains.draining() {
            self.contradicted = None;
            self.window = self.drained();
            // Only the limit of packets in flight applies, because equation 5 uses the long RTT of before.
            self.quota = Bytes::MAX;
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
            frozen: self.repair.is_some_and(|repair| repair.frozen),
            no_increase: self.settings.validate_app_limited
                && std::mem::take(&mut self.idle_sender),
            may_cut: self.may_cut,
            error: self.error,
            window: self.window / self.settings.long(self.estimator.d_min),
        };
        // An epoch with nothing in flight yields no information, unless this algorithm limits the sender: on a short
        // path everything arrives within the epoch.
        let wait = self.company.hold.is_some() || in_flight == 0 && end.no_increase;
        let verdict = if wait {
            Verdict::default()
        } else {
            self.estimator.epoch(&end, &self.settings)
        };
        if verdict.cut {
            self.may_cut = false;
            self.cut_point = Some(self.newest);
        }
        let Some(window) = self.window_for_estimate() else {
            return self.restart(cx, "the curve does not reach the delay");
        };
        let floor = if self.settings.company {
            self.move_floor(verdict.tolerable)
        } else {
            1.0
        };
        let window = self.under_ceiling(window).max(floor);
        self.window = window.max(self.company.carried);
        self.quota = self.release(in_flight);
        if self.company.hold.is_some() {
            self.quota = self.quota.min(self.refill_at_most());
        }
    }

    /// True if the curve is out of date: D_est far above the measured delay for two round trips in a row.
    pub(super) fn contradicted(&mut self, cx: &Cx<'_>) -> bool {
        let (Some(factor), Some(seen)) = (self.settings.stale, self.estimator.newest()) else {
            return false;
        };
        let d_min = self.estimator.d_min;
        let calm = seen < self.settings.exit_rtt(d_min)
            && self.estimator.d_est - d_min > factor * (seen - d_min) + STALE_FLOOR
            && !self.idle_sender
            && self
                .ceiling
                .is_none_or(|ceiling| self.window < ceiling.window);
        if !calm || self.repair.is_some() {
            self.contradicted = None;
            return false;
        }
        let since = *self.contradicted.get_or_insert(cx.now);
        cx.now.since(since).as_millis_f64() > 2.0 * self.estimator.rtt()
    }

    /// The release of an epoch by equation 5.
    pub(super) fn release(&mut self, in_flight: u64) -> Bytes {
        let epochs = self.epochs_in_rtt();
        let exact = release_exact(self.window, in_flight as f64, epochs);
        self.mss.mul_f64(whole_packets(exact, &mut self.credit))
    }

    /// The limit of packets in flight.
    pub(super) fn cap(&self) -> Option<f64> {
        if self.company.drains.draining() {
            return Some(self.window);
        }
        let by_window = self.settings.flight_cap.map(|factor| factor * self.window);
        let by_rate = (self.settings.rate_cap && self.rate > 0.0 && !self.slow_start).then(|| {
            self.rate * (self.estimator.d_min + self.settings.tolerated(self.estimator.d_min))
        });
        let cap = by_window.into_iter().chain(by_rate).reduce(f64::min)?;
        Some(cap.max(CAP_FLOOR))
    }

    /// The pacing rate, so that the release of an epoch is not a burst. Otherwise the place of a burst among those of
    /// others would decide whose packets a full buffer drops. The RTT of an outage says nothing about the rate that
    /// corresponds to W.
    pub(super) fn pace(&self) -> Option<Rate> {
        let over = self.estimator.rtt().min(self.estimator.d_est);
        let own = (self.settings.company && !self.slow_start && !self.company.drains.draining())
            .then(|| PACING_GAIN * 1e3 * self.window / over.max(MIN_DELAY))
            .map(|packets| pacing_rate(packets, self.mss));
        match &self.policer {
            Some(policer) => policer.within(own, self.mss),
            None => own,
        }
    }
}
