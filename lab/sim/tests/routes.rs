// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A route that becomes longer or shorter while a flow runs, and a path that loses for good: what
//! algorithms that steer by delay do then.
mod common;

use alcc_link::{Changes, RateSpec, Step};
use alcc_sim::{FlowReport, run};
use alcc_units::{Rate, Span, Time};

/// Mbit/s.
const LINK: u64 = 20;
const CHANGE: u64 = 20;

/// One flow whose path changes at 20 s.
fn changed(flow: &str, rtt: u64, queue: u64, step: Step) -> FlowReport {
    let rate = RateSpec::Fixed(Rate::mbps(LINK));
    let mut scenario = common::scenario(rate, CHANGE + 15, &[flow]);
    let link = &mut scenario.links[0];
    link.down.queue = format!("droptail:bytes={queue}").parse().unwrap();
    let half = Span::from_millis(rtt) / 2;
    (link.down.delay, link.up.delay) = (half, half);
    let at = Time::from_millis(CHANGE * 1000);
    link.down.changes = Changes::of(vec![Step { at, ..step }]);
    link.up.changes = Changes::of(vec![Step {
        at,
        delay: step.delay,
        ..Step::default()
    }]);
    run(&scenario).unwrap().flows.remove(0)
}

/// The part of the link from `after` whole seconds after the change on, for ten seconds.
fn used(flow: &FlowReport, after: u64) -> f64 {
    let from = (CHANGE + after) as usize;
    let bytes: u64 = flow.seconds.iter().skip(from).take(10).sum();
    bytes as f64 * 8.0 / (10.0 * LINK as f64 * 1e6)
}

#[test]
fn another_route_is_used_within_three_seconds_or_ten_round_trips() {
    let mut slow = Vec::new();
    for flow in ["budget", "copa", "verus"] {
        for (from, to) in [
            (30, 330),
            (30, 100),
            (100, 134),
            (30, 65),
            (130, 30),
            (100, 30),
        ] {
            let delay = Some(Span::from_millis(to) / 2);
            let seen = changed(
                flow,
                from,
                500_000,
                Step {
                    delay,
                    ..Step::default()
                },
            );
            let used = used(&seen, 3.max(to.div_ceil(100)));
            if used < 0.9 {
                slow.push(format!("{flow}, {from} to {to} ms: {used:.3} of the link"));
            }
        }
    }
    assert!(slow.is_empty(), "{slow:#?}");
}

/// RFC 8083's breaker would be ten times TCP: 28, 20, 16 and 12 % of this link.
#[test]
fn persistent_loss_is_backed_off_from() {
    let mut flooding = Vec::new();
    for flow in ["budget", "copa", "verus"] {
        for (loss, most) in [(0.1, 0.75), (0.2, 0.4), (0.3, 0.16), (0.5, 0.12)] {
            let step = Step {
                loss: Some(loss),
                ..Step::default()
            };
            let sent = used(&changed(flow, 80, 200_000, step), 5) / (1.0 - loss);
            if sent > most {
                flooding.push(format!(
                    "{flow}, {loss}: {sent:.3} of the link, at most {most}"
                ));
            }
        }
    }
    assert!(flooding.is_empty(), "{flooding:#?}");
}
