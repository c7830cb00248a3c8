// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copa: a window that aims at a few packets of the flow in the queue. Arun and Balakrishnan, NSDI
//! 2018.
//!
//! The queueing delay is the standing RTT (the smallest RTT of the last half smoothed RTT) minus
//! the smallest RTT of the last ten seconds. The target rate is 1/(delta * queueing delay); every
//! acknowledgement moves the window towards it by v/(delta * window) packets. The velocity v
//! doubles while the direction holds. The queue empties every few round trips, which keeps the
//! minimum correct.
//!
//! | constant | `tuned` | `paper` | source |
//! |---|---|---|---|
//! | delta, 1/packets | 0.18 | 0.5 | section 2 |
//! | mode | fixed | auto | section 2.2 |
//! | minimum RTT | of common drains (`parts::Drains`) | 10 s | section 2.1 |
//! | a drain leaves, of the bandwidth-delay product | 0.75 | – | as Verus's |
//! | nearly empty: above the minimum RTT, at most | a tenth of it | – | as section 2.2 |
//! | "far above the target", times 1/delta | 5 | – | a lower one is within the limit cycle |
//! | standing RTT over | srtt/2, ACK period, at most srtt | srtt/2 | section 2.1 |
//! | periods before v doubles | 3 | 3 | section 2.1 |
//! | pacing | 2 w / standing RTT | same | section 2.1 |
//! | initial, smallest window | 10, 2 packets | same | genericCC |
//! | queueing that counts as none | 0.5 ms | – | what interrupts and scheduling of a host add |
//! | a longer route: a jump of the RTT that lasts and that no drain shortens | 10 ms and 3 times the gap | – | as Budget's (`parts::Route`) |
//! | persistent loss: in two round trips in a row | 8 % | – | RFC 8083: 10 % of a link at 10 % |
//!
//! `original` (genericCC with `auto:0.5`) and `mvfst` are frozen forms of the laboratory
//! (`lab/zoo/src/forms`), with their constants.
//!
//! **Differs from the paper** (all profiles): v is at most delta * w. So one packet moves the
//! window by one packet at most. The window grows only if it limited the sender. More than 30 %
//! loss takes 30 % off the window (genericCC). For `tuned` see also [`settings::Settings::TUNED`].
//!
//! **Known weakness**: an error e of the queueing delay limits the rate to 1/(delta * e) (Arun et
//! al., SIGCOMM 2022). After ten seconds `paper` takes a path whose queue never empties for a
//! longer one. `tuned` does so if other flows keep the queue. `auto` takes a drop of capacity for a
//! competitor.
mod controller;
mod settings;
pub(crate) mod shared;
#[cfg(test)]
mod tests;
pub(crate) mod velocity;

use crate::{Algorithm, Build, Built, Instance, OptionDoc, Options, SpecError};
use alcc_units::Span;
use settings::Settings;
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "copa",
    summary: "Copa: keeps a few packets of its own in the queue, by delay alone",
    profiles: Cow::Borrowed(&["tuned", "paper"]),
    options: &[
        OptionDoc {
            name: "floor",
            default: "of the profile",
            help: "queueing delay that is treated as zero, 0s to 10ms; not of original and mvfst",
        },
        OPTIONS[0],
        OPTIONS[1],
    ],
    build: Build::Function(build),
};

/// The options of all forms.
pub const OPTIONS: &[OptionDoc] = &[
    OptionDoc {
        name: "delta",
        default: "of the profile",
        help: "1/target number of packets in the queue, 0.001 to 1",
    },
    OptionDoc {
        name: "mode",
        default: "of the profile",
        help: "default: delta as it is; auto: more packets while others fill the buffer",
    },
];

/// Delta and whether it is automatic, from the options of all forms, with these defaults.
///
/// # Errors
/// [`SpecError::Value`] for a value that is out of range.
pub fn asked(options: &Options<'_>, delta: f64, auto: bool) -> Result<(f64, bool), SpecError> {
    let delta = options.real("delta", delta, 0.001..=1.0)?;
    let auto = match options.text("mode") {
        Some(_) => options.choice("mode", &["default", "auto"])? == "auto",
        None => auto,
    };
    Ok((delta, auto))
}

pub(crate) const TABLES: &[&[crate::constants::Constant]] =
    &[settings::TABLE, shared::TABLE, controller::TABLE];

fn build(options: &Options<'_>) -> Built {
    let living = match options.profile() {
        "paper" => Settings::PAPER,
        _ => Settings::TUNED,
    };
    let (delta, auto) = asked(options, living.delta, living.auto)?;
    let floor = options.span("floor", living.floor, Span::ZERO..=Span::from_millis(10))?;
    Ok(Instance::new(controller::Copa::new(Settings {
        delta,
        auto,
        floor,
        // Up to the floor a queue may stand: what is below it shows in drains alone.
        drains: living.drains || !floor.is_zero(),
        ..living
    })))
}
