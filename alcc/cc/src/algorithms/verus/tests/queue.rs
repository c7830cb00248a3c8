// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The whole control loop over one bottleneck: the queue in equilibrium, its peak, and the unused
//! capacity.
use super::super::Verus;
use super::super::settings::Settings;
use super::bottleneck::{PATH, Setup, constant, opportunities, run, told};
use crate::{Event, Instance};
use alcc_units::{Rate, Span, Time};

/// As over kernel TCP: acknowledgements are read at a tick.
const OVER_TCP: Setup = Setup {
    tick: Some(Span::from_micros(2500)),
    ..PATH
};

fn tuned() -> Verus {
    Verus::new(Settings::TUNED)
}

#[test]
fn tuned_starts_below_the_ratio_and_stays_there() {
    for setup in [PATH, OVER_TCP] {
        for mbps in [1, 3, 12, 48, 100] {
            let outcome = constant(tuned(), setup, mbps);
            // R times the base delay as the sender sees it, with a packet's own transmission; 5 %
            // for what one round trip and one tick hide.
            let limit = 1.05 * 6.0 * (40.0 + 12.0 / mbps as f64);
            assert!(
                outcome.peak(3.0) < limit,
                "{mbps} Mbit/s: start-up peak {}",
                outcome.peak(3.0)
            );
            assert!(
                outcome.quantile(3.0, 0.95) < limit,
                "{mbps} Mbit/s: {}",
                outcome.quantile(3.0, 0.95)
            );
            assert!(
                outcome.utilization > 0.95,
                "{mbps} Mbit/s: {}",
                outcome.utilization
            );
        }
    }
}

#[test]
fn a_shallow_buffer_is_kept_busy_by_tuned() {
    // Buffers of 13 and 50 packets: a third of the base delay at 12 Mbit/s, and more than it.
    for (room, least) in [(13, 0.65), (50, 0.95)] {
        let outcome = constant(tuned(), Setup { room, ..PATH }, 12);
        let found = outcome.utilization;
        assert!(found > least, "{room} packets: {found}");
    }
}

#[test]
fn a_faster_path_is_learned_anew_instead_of_crept_up_to() {
    let rate = |second| Rate::mbps(if second < 10 { 1 } else { 40 });
    let setup = Setup {
        duration: Time::from_millis(20_000),
        ..PATH
    };
    let outcome = run(Instance::new(tuned()), setup, opportunities(rate));
    let relearned = outcome
        .story
        .iter()
        .find(|(_, e)| *e == Event::Mode { to: "relearn" });
    assert!(
        relearned.is_some_and(|(at, _)| at.as_millis_f64() < 10_500.0),
        "{relearned:?}"
    );
    assert!(outcome.utilization > 0.9, "{}", outcome.utilization);
}

/// The first four seconds on 12 Mbit/s, in whole packets.
#[test]
fn stories() {
    assert_eq!(
        told(tuned()),
        [
            "303 slow start ends by delay at 102",
            "310 fitted up to 105",
            "1310 fitted up to 203",
            "2310 fitted up to 203",
            "3000 Mode { to: \"drain\" }",
            "3166 Mode { to: \"hold\" }",
            "3310 fitted up to 203",
        ]
    );
}
