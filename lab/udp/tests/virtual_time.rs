// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two ends in virtual time: the data arrives unchanged, whatever the path does, or the end reports
//! the reason.
#[expect(dead_code, reason = "each test uses its part")]
mod support;

use alcc_units::{Span, Time};
use proptest::prelude::*;
use support::{Faults, World};

fn at(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

#[test]
fn a_file_arrives_over_a_clean_path() {
    for algorithm in ["verus", "copa", "sprout", "cubic", "fixed:window=20"] {
        let mut world = World::new(algorithm, 700_000, 1, Faults::default());
        assert_eq!(world.run(at(60)), None, "{algorithm}");
        assert!(world.outgoing.is_done(), "{algorithm}");
        assert!(world.got == world.sent, "{algorithm}");
        assert_eq!(
            world.outgoing.sender().stats().retransmits,
            0,
            "{algorithm}"
        );
        // Half a second would be at the line rate of 1400 bytes per millisecond.
        assert!(world.now < at(9), "{algorithm}: {}", world.now);
    }
}

#[test]
fn heartbeats_under_way_do_not_hold_up_the_end() {
    let faults = Faults {
        loss: 0.122_301_006_651_639_58,
        duplicate: 0.148_706_817_260_993_55,
        corrupt: 0.048_322_312_820_581_11,
        jitter: Span::from_millis(41),
        ..Faults::default()
    };
    // With the first seed they did.
    for seed in [17_012_527_537_328_485_185, 1, 2, 3, 4] {
        let mut world = World::new("sprout", 147_888, seed, faults.clone());
        assert_eq!(world.run(at(100)), None, "{seed}");
        assert!(world.outgoing.is_done(), "{seed}");
        assert!(world.got == world.sent, "{seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn bytes_arrive_identical_over_any_path(
        seed: u64,
        len in 0usize..150_000,
        loss in 0.0..0.2f64,
        duplicate in 0.0..0.2f64,
        corrupt in 0.0..0.05f64,
        jitter in 0u64..60,
        algorithm in prop::sample::select(vec!["verus", "copa", "sprout", "cubic"]),
    ) {
        let faults = Faults { loss, duplicate, corrupt, jitter: Span::from_millis(jitter), ..Faults::default() };
        let mut world = World::new(algorithm, len, seed, faults);
        let end = world.run(at(3000));
        prop_assert_eq!(end, None, "at {}", world.now);
        prop_assert!(world.outgoing.is_done(), "not done at {}", world.now);
        prop_assert!(world.got == world.sent, "got {} of {}", world.got.len(), world.sent.len());
    }
}

#[test]
fn a_sender_that_has_nothing_to_say_for_ten_minutes_is_not_dead() {
    for algorithm in ["verus", "cubic", "sprout"] {
        let mut world = World::new(algorithm, 0, 3, Faults::default());
        world.idle = true;
        assert_eq!(world.run(at(600)), None, "{algorithm}");
        assert!(!world.outgoing.is_done());
        // One packet in twenty seconds would be 30 each way; an algorithm's own heartbeats are its
        // affair.
        if algorithm == "cubic" {
            assert!(world.seen.len() < 40, "{}", world.seen.len());
        }
        world.idle = false;
        assert_eq!(world.run(at(700)), None, "{algorithm}");
        assert!(world.outgoing.is_done(), "{algorithm}");
        let id = world.accepted.expect("a connection");
        assert!(
            world.listener.get(id).is_some_and(|i| i.is_read()),
            "{algorithm}"
        );
    }
}
