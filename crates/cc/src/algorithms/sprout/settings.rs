// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles and options.
use super::model::Phi;
use crate::{OptionDoc, Options, SpecError};
use alcc_units::Span;

pub(crate) const PROFILES: &[&str] = &["tuned", "paper", "original"];

pub(super) const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "delay",
        default: "100ms",
        help: "what is sent should be through within this time, 20ms to 1s",
    },
    OptionDoc {
        name: "confidence",
        default: "95",
        help: "with this probability, per cent, 5 to 99",
    },
];

/// How the receiver half learns the rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inference {
    /// The Bayesian filter.
    Filter(Phi),
    /// A moving mean (Sprout-EWMA).
    Mean,
}

/// How it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counting {
    /// Whole packets of 1400 bytes.
    Program,
    /// Bytes.
    Exact,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Settings {
    pub(super) inference: Inference,
    pub(super) counting: Counting,
    pub(super) quantile: f64,
    /// What a count stands for grows with the rate.
    pub(super) any_rate: bool,
    /// The program's reckoning: each packet 50 bytes longer, and each tick takes off all that was forecast so far.
    pub(super) program: bool,
    /// What is sent should be through within so many ticks,
    pub(super) lookahead: f64,
    /// and the smallest RTT.
    pub(super) beyond_rtt: bool,
    /// Silence longer than this is broken.
    pub(super) heartbeat: Span,
    /// A tick's worth leaves over a tick, not at once.
    pub(super) paced: bool,
}

impl Settings {
    pub(super) fn read(
        inference: fn(Phi) -> Inference,
        options: &Options<'_>,
    ) -> Result<Self, SpecError> {
        let ms = Span::from_millis;
        let (original, tuned) = match options.profile() {
            "original" => (true, false),
            "paper" => (false, false),
            _ => (false, true),
        };
        let delay = options.span("delay", ms(100), ms(20)..=ms(1000))?;
        let inference = inference(if original { Phi::Table } else { Phi::Exact });
        let confidence = match inference {
            Inference::Filter(_) => options.real("confidence", 95.0, 5.0..=99.0)?,
            Inference::Mean => 50.0,
        };
        Ok(Self {
            inference,
            counting: if original {
                Counting::Program
            } else {
                Counting::Exact
            },
            quantile: 1.0 - confidence / 100.0,
            any_rate: tuned,
            program: original,
            lookahead: delay.as_secs_f64() / super::model::TICK,
            beyond_rtt: tuned,
            heartbeat: ms(if tuned { 20 } else { 50 }),
            paced: tuned,
        })
    }
}
