// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sprout (Winstein, Sivaraman, Balakrishnan, NSDI 2013). The receiver counts arrivals per 20 ms,
//! infers the distribution of the link's rate from them, and forecasts the amount that the link
//! will deliver with 95 % confidence. The sender keeps in flight the amount that will be delivered
//! within 100 ms. There is no reaction to loss, and no RTT in the control law.
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
//! **Differs from the paper**: `original` (`lab/zoo/src/forms`) is the authors' program. It has the
//! row of its transition for outages (not a mixture), and its normal distribution by table. Counts
//! are rounded to whole packets of 1400 bytes. The queue estimate subtracts the cumulative forecast
//! at each tick. Packets count as 50 bytes longer than they are. `paper` does without these, but
//! keeps the outage row: the published results have it. `tuned` counts bytes, and paces. It has no
//! highest rate: a count stands for twice the bytes when the rate reaches the end of the bins.
//!
//! **Known weakness**: its window is the data of a few ticks, too little for a longer path. Of 100
//! Mbit/s `original` uses a fifth at 40 ms, and a twentieth at 100 ms. It cannot measure capacity
//! that it does not use, so it takes its own rate for the link's.
mod arrivals;
mod belief;
pub(crate) mod learner;
pub(crate) mod model;
pub(crate) mod outlook;
pub(crate) mod receiver;
mod sender;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod wire;

use crate::{Algorithm, Build, Built, Instance, Options};
use settings::{Inference, OPTIONS, PROFILES, Settings};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "sprout",
    summary: "Sprout: sends what the link will deliver within 100 ms by a cautious forecast",
    profiles: Cow::Borrowed(PROFILES),
    options: OPTIONS,
    build: Build::Function(build),
};

fn build(options: &Options<'_>) -> Built {
    living(Inference::Filter, options)
}

/// `tuned` or `paper`, with this inference.
///
/// # Errors
/// A [`SpecError`](alcc_units::SpecError) for a value that is out of range.
pub fn living(how: Inference, options: &Options<'_>) -> Built {
    let settings = match options.profile() {
        "paper" => Settings::paper(how, options)?,
        _ => Settings::tuned(how, options)?,
    };
    Ok(Instance::with_receiver(sender::Sprout::new(settings)))
}
