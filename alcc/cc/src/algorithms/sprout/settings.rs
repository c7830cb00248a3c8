// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles and options of Sprout.
use crate::{OptionDoc, Options, SpecError};
use alcc_units::Span;

pub(crate) const PROFILES: &[&str] = &["tuned", "paper"];

/// The options of all forms.
pub const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "delay",
        default: "100ms; tuned 30ms",
        help: "target time for sent data to leave the queue (tuned: beyond 1.75 RTT), 10ms to 1s",
    },
    OptionDoc {
        name: "confidence",
        default: "95",
        help: "probability of the forecast, per cent, 5 to 99",
    },
];

/// The estimator of the receiver module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inference {
    /// The Bayesian filter.
    Filter,
    /// A moving mean (Sprout-EWMA).
    Mean,
}

/// The options that a user can set, in all forms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Asked {
    /// The estimator of the rate.
    pub inference: Inference,
    /// Probability that the forecast is too high.
    pub quantile: f64,
    /// Number of ticks within which sent data should be delivered.
    pub lookahead: f64,
}

impl Asked {
    fn read(inference: Inference, delay: u64, options: &Options<'_>) -> Result<Self, SpecError> {
        let ms = Span::from_millis;
        let confidence = match inference {
            Inference::Filter => options.real("confidence", 95.0, 5.0..=99.0)?,
            Inference::Mean => 50.0,
        };
        let delay = options.span("delay", ms(delay), ms(10)..=ms(1000))?;
        Ok(Self {
            inference,
            quantile: 1.0 - confidence / 100.0,
            lookahead: delay.as_secs_f64() / super::model::TICK,
        })
    }

    /// The options, with the lookahead of the paper and of the program as default.
    pub fn published(inference: Inference, options: &Options<'_>) -> Result<Self, SpecError> {
        Self::read(inference, 100, options)
    }
}

/// Settings of the current form: `tuned` and `paper`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Settings {
    pub(super) asked: Asked,
    /// The unit of a count grows with the rate.
    pub(super) any_rate: bool,
    /// Number of minimum RTTs added to the lookahead.
    pub(super) per_rtt: f64,
    /// Number of ticks added to the lookahead on a link that guarantees nothing; half as many if it
    /// guarantees a packet per tick, and so on.
    pub(super) caution: f64,
    /// Longest silence before a heartbeat is sent.
    pub(super) heartbeat: Span,
    /// The bytes of a tick are spread over the tick.
    pub(super) paced: bool,
    /// Detects a policer: packets are lost without queueing, and sending less loses less. The rate
    /// is then limited to the delivered rate.
    pub(super) policer: bool,
}

impl Settings {
    pub(super) fn paper(inference: Inference, options: &Options<'_>) -> Result<Self, SpecError> {
        Ok(Self {
            asked: Asked::published(inference, options)?,
            any_rate: false,
            per_rtt: 0.0,
            caution: 0.0,
            heartbeat: Span::from_millis(50),
            paced: false,
            policer: false,
        })
    }

    pub(super) fn tuned(inference: Inference, options: &Options<'_>) -> Result<Self, SpecError> {
        let (delay, per_rtt, caution) = match inference {
            Inference::Filter => (30, 1.75, 4.0),
            Inference::Mean => (60, 1.0, 0.0),
        };
        Ok(Self {
            asked: Asked::read(inference, delay, options)?,
            any_rate: true,
            per_rtt,
            caution,
            heartbeat: Span::from_millis(20),
            paced: true,
            policer: true,
        })
    }
}
