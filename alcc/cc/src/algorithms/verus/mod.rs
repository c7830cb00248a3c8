// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verus: Zaki, Pötsch, Chen, Subramanian, Görg, "Adaptive Congestion Control for Unpredictable Cellular Networks",
//! SIGCOMM 2015. The second source is the authors' program (repository yzaki/verus, June 2017).
//!
//! Verus learns the delay that each sending window causes: the delay profile. Each acknowledged packet adds a point,
//! and once a second a curve is fitted. Every 5 ms Verus changes the target delay by a millisecond or two, reads the
//! window off the curve, and releases the number of packets that equation 5 gives.
//!
//! The constants are in `settings.rs`: `paper` follows the text, `tuned` (the default) is this project's form.
//! `original`, the authors' program, is frozen in `lab/zoo/src/forms`. Each concern has a file. `profile.rs` has the
//! points, `fit.rs` and `curve.rs` the curve and its inverse. `estimator.rs` has equations 2 to 4, `release.rs`
//! equation 5. `machine.rs` has the state and its phases, this file the host's events.
//!
//! # Differs from the paper
//!
//! * All profiles: time is monotonic. The release of an epoch replaces the remainder of the last one. The window that a
//!   packet is recorded under is kept at the sender. Loss detection, its timers and retransmission are the host's; for
//!   `original` over datagrams they follow the program's rules. Application-limited packets do not enter the profile. A
//!   packet record of several segments counts as that many packets for windows and budgets, and as one delay sample.
//! * `paper` where the text is silent: α, M and the weights of `settings.rs` are the program's. After slow start ended
//!   by delay, the first branch of equation 4 is disabled until the loss phase ends. A delay that the curve does not
//!   reach starts slow start again. Both are as in the program. A window is at most the profile's last point, 39,999
//!   packets. Eq. 6 never raises W. Only the first loss of a loss phase reduces W. The phase ends with the
//!   acknowledgement of a packet that was sent after the reduction and whose label is at most W. The delay of the
//!   reordering timer is the smoothed RTT when the gap is found; the timer also decides when slow start has met a loss.
//! * `original` has the program's own deviations. These are slow start of 500 ms, no growth limit, upward drift in
//!   empty epochs, and a stiff curve. It resets its profile when a delay cannot be mapped, and forgets packets in
//!   flight at a timeout, and when a loss ends slow start.
//! * `tuned`: the release of an epoch is paced at twice W in D_est. A reduction for a spurious loss is undone. Slow
//!   start ends before the queue that is still building passes R. A sample above `R × D_min` reduces D_est at once. The
//!   data in flight is limited by W, and by what the measured delivery rate delivers within `R × D_min`. Empty epochs
//!   change nothing. Jitter near D_min does not count as a rising delay. For a delay that cannot be mapped the window
//!   stays near the largest one known. If the path contradicts the curve (D_est is far above the measured delay), the
//!   curve is learned again in a slow start that keeps D_min. Epochs count with their actual length on a host with many
//!   flows. A flow that knows too few windows for a curve enters slow start again, while `paper` starts from nothing,
//!   as the program does. `company.rs` has the rules for other flows and for losses.
//!
//! # Known weakness
//!
//! The standing queue is a multiple of the base delay: long paths get long queues, and very short ones a queue too
//! short to fill a link with jitter. With r=2 at 40 ms `tuned` leaves up to half of a bursty channel unused (the
//! program less). Flows with different base delays do not share fairly, because the longer path tolerates the longer
//! queue. Drains cost a path of 200 ms 4 points of throughput and one of 300 ms 5 to 10. A competitor that never yields
//! is taken for a longer path after ten seconds. After an outage of a second the network is full for a round trip,
//! whatever the window is.
mod company;
pub(crate) mod curve;
pub(crate) mod epochs;
pub(crate) mod estimator;
pub(crate) mod fit;
mod machine;
pub(crate) mod profile;
pub(crate) mod release;
mod settings;
#[cfg(test)]
mod tests;

use crate::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Instance, LossBatch, Needs,
    OptionDoc, Options, Path, RecoveryEnd, Rto, Sent, SpecError, Spurious, Tag,
};
use alcc_units::{Bytes, Span, Time};
use machine::FORGET_FROM;
pub use machine::Verus;
use profile::ProfilePoint;
use settings::Settings;
use std::borrow::Cow;

/// Guard of every division by a delay, ms.
pub const MIN_DELAY: f64 = 1e-3;
/// Longer than any connection lasts, without overflow when it is added to a time.
const NEVER: Span = Span::from_secs(1_000_000_000);

pub(crate) const TABLES: &[&[crate::constants::Constant]] = &[
    settings::TABLE,
    machine::TABLE,
    company::TABLE,
    estimator::TABLE,
    fit::TABLE,
];

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "verus",
    summary: "Verus (SIGCOMM 2015): learns the delay of each window, holds the delay below r times the smallest",
    profiles: Cow::Borrowed(&["tuned", "paper"]),
    options: OPTIONS,
    build: Build::Function(build),
};

/// The options of all forms.
pub const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "r",
        default: "6",
        help: "tolerated ratio of the largest to the smallest delay, 1.5 to 20",
    },
    OptionDoc {
        name: "epoch",
        default: "10ms (tuned), 5ms (others)",
        help: "time between decisions, 1ms to 50ms",
    },
    OptionDoc {
        name: "empty_epoch",
        default: "hold (tuned), increase (others)",
        help: "epochs without acknowledgements: 'increase' raises the window as the original program does, 'hold' keeps it",
    },
    OptionDoc {
        name: "delta1",
        default: "1ms",
        help: "decrease of the target delay in an epoch whose delay has grown, 100us to 20ms",
    },
    OptionDoc {
        name: "delta2",
        default: "2ms",
        help: "its increase in other epochs, and its decrease beyond r, 100us to 20ms",
    },
    OptionDoc {
        name: "refit",
        default: "1s",
        help: "interval of fits of the delay profile, 50ms to 1min; 'never' keeps the first",
    },
];

/// The options that a user can set, in all forms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Asked {
    /// R: tolerated ratio of the largest to the smallest delay.
    pub ratio: f64,
    /// Time between decisions.
    pub epoch: Span,
    /// δ1 of equation 4, ms.
    pub down: f64,
    /// δ2, ms.
    pub up: f64,
    /// Interval from one curve to the next.
    pub refit: Span,
    /// True: an epoch without an ACK changes nothing. False: such an epoch probes upwards.
    pub hold_empty: bool,
}

impl Asked {
    /// The values of the paper and of the authors' program.
    pub const PUBLISHED: Self = Self::of(&Settings::PAPER);

    const fn of(settings: &Settings) -> Self {
        Self {
            ratio: settings.ratio,
            epoch: settings.epoch,
            down: settings.down,
            up: settings.up,
            refit: settings.refit,
            hold_empty: settings.hold_empty,
        }
    }

    /// Reads the options; the defaults are these values.
    ///
    /// # Errors
    /// [`SpecError::Value`] for a value that is out of range.
    pub fn read(self, options: &Options<'_>) -> Result<Self, SpecError> {
        let ratio = options.real("r", self.ratio, 1.5..=20.0)?;
        let allowed = Span::from_millis(1)..=Span::from_millis(50);
        let epoch = options.span("epoch", self.epoch, allowed)?;
        let hold_empty = match options.text("empty_epoch") {
            Some(_) => options.choice("empty_epoch", &["increase", "hold"])? == "hold",
            None => self.hold_empty,
        };
        let delta = |name, ms| {
            let allowed = Span::from_micros(100)..=Span::from_millis(20);
            let span = options.span(name, Span::from_millis_f64(ms), allowed)?;
            Ok::<_, SpecError>(span.as_millis_f64())
        };
        let (down, up) = (delta("delta1", self.down)?, delta("delta2", self.up)?);
        let refit = match options.text("refit") {
            Some("never") => NEVER,
            _ => {
                let allowed = Span::from_millis(50)..=Span::from_secs(60);
                options.span("refit", self.refit, allowed)?
            }
        };
        Ok(Self {
            ratio,
            epoch,
            down,
            up,
            refit,
            hold_empty,
        })
    }
}

fn build(options: &Options<'_>) -> Built {
    let settings = match options.profile() {
        "tuned" => Settings::TUNED,
        _ => Settings::PAPER,
    };
    let Asked {
        ratio,
        epoch,
        down,
        up,
        refit,
        hold_empty,
    } = Asked::of(&settings).read(options)?;
    Ok(Instance::new(Verus::new(Settings {
        ratio,
        epoch,
        down,
        up,
        refit,
        hold_empty,
        ..settings
    })))
}

impl Verus {
    /// Reports the learned delay of each window: points, then the curve through them.
    pub fn profile(&self, put: &mut dyn FnMut(ProfilePoint)) {
        self.points.show(put);
        if let Some(curve) = &self.curve {
            curve.show(put);
        }
    }
}

impl Controller for Verus {
    fn needs(&self) -> Needs {
        Needs {
            per_packet_ack: true,
            paced: self.settings.company,
            feedback_period: self.settings.epoch,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss.max(Bytes::new(1));
        self.epochs.start(cx.now);
        self.company.drains.start(cx.now);
        self.refill();
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.epochs.on_sent(cx.now, sent);
        self.in_flight = sent.in_flight_before + sent.len;
        self.quota = self.quota.saturating_sub(sent.len);
        self.newest = self.newest.max(sent.pn);
        let label = u64::from(profile::label(self.window));
        if self.settings.validate_app_limited {
            Tag(label.min(self.packets(self.in_flight).max(1)))
        } else {
            Tag(label)
        }
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.epochs.on_ack(cx.now);
        self.idle_sender |= ack.limited.app || ack.limited.peer;
        if let Some(rate) = ack.rate {
            self.newest_rate = rate.as_bps() as f64 / 8e3 / self.mss.get() as f64;
        }
        self.error = ack.rtt_error.as_millis_f64();
        if self.settings.policer {
            let policer = self.policer.get_or_insert_default();
            policer.on_ack(cx.now, ack, self.mss);
        }
        // A packet that waited for a window other than ours was not in flight under its label.
        let usable = !(ack.limited.app || self.settings.validate_app_limited && ack.limited.peer);
        for packet in ack.acked {
            if packet.pn >= self.session {
                self.acknowledged(cx, packet, usable);
            }
        }
        self.in_flight = ack.in_flight;
        if self.slow_start {
            self.refill();
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.in_flight = loss.in_flight;
        if self.settings.policer {
            let policer = self.policer.get_or_insert_default();
            policer.on_loss(cx.now, loss, self.mss);
        }
        let begins = self.begins(cx, loss);
        let Some(lost) = loss.lost.first().filter(|_| begins) else {
            if self.slow_start {
                self.refill();
            }
            return;
        };
        let label = profile::label_of(lost);
        self.reduce(cx, "loss", lost);
        if self.slow_start {
            self.forget_from = Some(label.max(FORGET_FROM));
            self.leave_slow_start(cx, "loss");
        }
        self.quota = Bytes::ZERO;
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.in_flight = rto.in_flight;
        self.epochs.on_ack(cx.now);
        self.before_loss = None;
        if !self.company.refilling(rto.oldest.pn) {
            self.reduce(cx, "timeout", &rto.oldest);
        }
        if self.slow_start {
            self.leave_slow_start(cx, "timeout");
        }
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        self.repair = None;
        self.undo();
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.in_flight = end.in_flight;
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        // The profile stays valid after a pause, while the last measurements do not.
        self.epochs.resume(cx.now);
        self.epoch_at = cx.now;
        self.in_flight = Bytes::ZERO;
        self.credit = 0.0;
        self.estimator.forget_recent();
        if self.settings.validate_app_limited {
            self.window = self.window.min(2.0 * self.settings.start_window);
            self.estimator.d_est = self.delay_of(self.window);
        }
        self.refill();
    }

    fn on_mtu(&mut self, cx: &mut Cx<'_>, mss: Bytes) {
        let (mss, was) = (mss.max(Bytes::new(1)), self.mss);
        self.mss = mss;
        // The curve is in packets. Path MTU discovery moves it by a fifth, which the next epochs
        // learn; beyond this it says nothing.
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
        let window = match self.cap() {
            Some(cap) => self.mss.mul_f64(cap).max(self.mss),
            None => Bytes::MAX,
        };
        Allowance {
            quota: self.quota,
            rate: self.pace(),
            ..Allowance::window(window)
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.epochs.timer(self.in_flight, self.quota, self.mss)
    }

    fn release_memory(&mut self) {
        self.company.shrink();
        let _ = self.policer.take_if(|policer| policer.is_free());
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("d_est", self.estimator.d_est);
        put("d_min", self.estimator.d_min);
        put("d_max", self.estimator.d_max.unwrap_or(0.0));
        put("window", self.window);
        put("quota", self.quota.packets(self.mss));
    }
}
