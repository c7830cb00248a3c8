// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sprout-EWMA (the same paper, section 5.3): Sprout with a moving mean of the arrivals per tick,
//! weight 1/8, in place of the Bayesian filter. There is no caution, no outages and no highest
//! rate; sender, feedback and profiles are those of Sprout.
//!
//! **Known weakness**: as Sprout's, but it overshoots where Sprout is cautious.
use crate::forms::sprout::original;
use alcc_cc::parts::sprout::{Inference, living};
use alcc_cc::{Algorithm, Build, Built, OptionDoc, Options};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "sprout-ewma",
    summary: "Sprout-EWMA: sends what arrives in 100 ms at the recent mean rate",
    profiles: Cow::Borrowed(&["tuned", "paper", "original"]),
    options: &[OptionDoc {
        name: "delay",
        default: "100ms; tuned 60ms",
        help: "target time for sent data to leave the queue (tuned: beyond the RTT), 10ms to 1s",
    }],
    build: Build::Function(build),
};

fn build(options: &Options<'_>) -> Built {
    match options.profile() {
        "original" => original(Inference::Mean, options),
        _ => living(Inference::Mean, options),
    }
}
