// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sprout (Winstein, Sivaraman, Balakrishnan, NSDI 2013): the receiver infers the distribution of
//! the link's rate from what arrives in each 20 ms, and forecasts what the link will deliver at
//! least, with 95 % confidence; the sender has under way what will be through within 100 ms. No
//! reaction to loss, no RTT in the control law.
//!
//! | constant | value | source |
//! |---|---|---|
//! | tick | 20 ms | paper, program |
//! | rates | 0 and 256 bins up to 1000 packets/s | program |
//! | noise of the rate | 200 packets/s per square root of a second | paper, program |
//! | end of outages | 1 per second | paper, program |
//! | forecast | 8 ticks, 5 % quantile | paper, program |
//! | counts per tick in the tables | 0 to 29 | program |
//! | what is sent is through within | 5 ticks | paper, program |
//! | heartbeat | 50 ms; `tuned` 20 ms | program |
//! | reordering | 10 ms | paper, program |
//!
//! **Differs from the paper**: `original`, frozen in `original.rs`, is the authors' program with
//! the row of its transition for outages (not a mixture), its normal distribution by table, counts
//! rounded to whole packets of 1400 bytes, a queue estimate that subtracts the cumulative forecast
//! at each tick, and packets reckoned 50 bytes longer than they are. `paper` does without these,
//! but keeps the outage row: the published results have it. `tuned` counts bytes, knows no fastest
//! rate (a count stands for twice the bytes when the rate reaches the end of the bins), and paces.
//!
//! **Known weakness**: its window is a few ticks' worth, so a longer path starves it (`original`
//! gives 100 Mbit/s at 40 ms a fifth, at 100 ms a twentieth), and what it does not send it does not
//! see: it takes its own rate for the link's.
mod arrivals;
mod belief;
mod learner;
mod model;
mod original;
mod outlook;
mod receiver;
mod sender;
mod settings;
#[cfg(test)]
mod tests;
mod wire;

use crate::{Algorithm, Build, Controller, Options, SpecError};
pub(super) use settings::PROFILES;
use settings::{Asked, Inference, OPTIONS, Settings};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "sprout",
    summary: "Sprout: sends what a cautious forecast says the link will take within 100 ms",
    profiles: PROFILES,
    options: OPTIONS,
    build: Build::Function(build),
};

fn build(options: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    form(Inference::Filter, options)
}

/// Sprout-EWMA.
pub(super) fn build_ewma(options: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    form(Inference::Mean, options)
}

fn form(how: Inference, options: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    let settings = match options.profile() {
        "original" => {
            let asked = Asked::published(how, options)?;
            return Ok(Box::new(original::Original::new(asked)));
        }
        "paper" => Settings::paper(how, options)?,
        _ => Settings::tuned(how, options)?,
    };
    Ok(Box::new(sender::Sprout::new(settings)))
}
