// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A controller above TCP that waits for a processor: its program sends hardly less than without it.
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowReport, FlowSpec, Scenario, Timing, run};
use alcc_units::{Bytes, Rate, Span};

/// On 12 Mbit/s and 20 ms, where each reading is late by `ms` to one and a half times that.
fn late(flow: &str, ms: u64) -> FlowReport {
    let timing = Timing {
        lateness: Span::from_millis(ms),
        jitter: Span::from_millis(ms / 2),
        ..Timing::default()
    };
    let queue = QueueSpec::droptail(Bytes::new(2_000_000));
    let rate = RateSpec::Fixed(Rate::mbps(12));
    let mut scenario = Scenario::dumbbell(rate, Span::from_millis(20), queue);
    scenario.flows = FlowSpec::parse(flow, &alcc_zoo::registry(), timing).unwrap();
    scenario.duration = Span::from_secs(30);
    run(&scenario).unwrap().flows.remove(0)
}

/// Utilization by plain TCP is 1. So late no window of an algorithm lasts until the next reading.
#[test]
fn a_late_reading_holds_nothing_back() {
    for (ms, least) in [(150, 0.9), (300, 0.9), (1000, 0.75)] {
        for cc in ["budget", "copa", "verus", "sprout", "vegas"] {
            let utilization = late(&format!("{cc}/over=cubic"), ms).utilization.unwrap();
            assert!(utilization > least, "{cc}, {ms} ms late: {utilization}");
        }
    }
}

/// A delay of readings that the algorithm tolerates must not release control. Plain TCP has 0.7 s
/// of queue here.
#[test]
fn a_reading_that_is_a_little_late_is_still_the_algorithms() {
    for (cc, ms) in [("budget", 20), ("budget", 50), ("copa", 20), ("verus", 50)] {
        let flow = late(&format!("{cc}/over=cubic"), ms);
        let (utilization, queue) = (flow.utilization.unwrap(), flow.queue_delay.mean);
        let seen = format!("{cc}, {ms} ms late: {utilization}, {queue}");
        assert!(utilization > 0.85, "{seen}");
        assert!(queue < Span::from_millis(120), "{seen}");
    }
}

/// A window that is asked for is never exceeded: 40 packets in 300 ms and a round trip of 20 at
/// least are 1.5 Mbit/s.
#[test]
fn a_fixed_window_stays_one() {
    let utilization = late("fixed:window=40/over=cubic", 300).utilization.unwrap();
    assert!((0.08..1.5 / 12.0).contains(&utilization), "{utilization}");
}
