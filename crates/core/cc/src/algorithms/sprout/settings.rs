// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles and options.
use super::model::Phi;
use crate::{OptionDoc, Options, SpecError};
use alcc_units::Span;

pub(crate) const PROFILES: &[&str] = &["tuned", "paper", "original"];

pub(super) const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "delay",
        default: "100ms; tuned 30ms",
        help: "what is sent should be through within this time (tuned: beyond 1.75 RTT), 10ms to 1s",
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
    /// so many of the smallest RTT,
    pub(super) per_rtt: f64,
    /// and so many ticks more on a link that gives nothing for sure, half as many if it gives a packet per tick for sure, ...
    pub(super) unsure: f64,
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
        let inference = inference(if original { Phi::Table } else { Phi::Exact });
        let confidence = match inference {
            Inference::Filter(_) => options.real("confidence", 95.0, 5.0..=99.0)?,
            Inference::Mean => 50.0,
        };
        let (delay, per_rtt, unsure) = match (tuned, inference) {
            (false, _) => (100, 0.0, 0.0),
            (true, Inference::Filter(_)) => (30, 1.75, 4.0),
            (true, Inference::Mean) => (60, 1.0, 0.0),
        };
        let delay = options.span("delay", ms(delay), ms(10)..=ms(1000))?;
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
            per_rtt,
            unsure,
            heartbeat: ms(if tuned { 20 } else { 50 }),
            paced: tuned,
        })
    }
}
