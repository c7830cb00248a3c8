// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows whose packets may be marked instead of dropped (ECN, RFC 3168).
mod common;

use alcc_link::RateSpec;
use alcc_sim::{FlowReport, FlowSpec, Report, Timing, run};
use alcc_units::Rate;
use common::scenario;

fn through(queue: &str, flows: &[&str]) -> Report {
    let mut scenario = scenario(RateSpec::Fixed(Rate::mbps(12)), 30, flows);
    scenario.links[0].down.queue = queue.parse().unwrap();
    run(&scenario).unwrap()
}

fn one(queue: &str, flow: &str) -> FlowReport {
    through(queue, &[flow]).flows.remove(0)
}

#[test]
fn a_flow_that_may_be_marked_sees_marks_and_no_loss() {
    for queue in ["codel", "fq_codel", "pie", "red:min=15000,max=150000"] {
        for flow in ["cubic/ecn=on", "reno/ecn=on", "budget/over=cubic/ecn=on"] {
            // Reno's slow start takes PIE beyond the probability up to which it marks (RFC 8033,
            // section 5.1).
            if (queue, flow) == ("pie", "reno/ecn=on") {
                continue;
            }
            let with = one(queue, flow);
            let lost = (with.dropped, with.retransmits, with.timeouts);
            assert_eq!(lost, (0, 0, 0), "{flow} through {queue}");
            assert!(with.utilization.unwrap() > 0.8, "{flow} through {queue}");
        }
        let with = one(queue, "cubic/ecn=on");
        assert!(with.marked > 5, "{} marks by {queue}", with.marked);
        let without = one(queue, "cubic");
        assert_eq!(without.marked, 0, "{queue}");
        assert!(without.dropped > 5, "{} drops by {queue}", without.dropped);
        let off = one(
            &format!(
                "{queue}{}ecn=no",
                if queue.contains(':') { "," } else { ":" }
            ),
            "cubic/ecn=on",
        );
        assert_eq!((off.marked, off.dropped > 5), (0, true), "{queue}");
    }
}

/// A mark costs as much of the window as a loss: who may be marked gets its share, no more and no
/// less.
#[test]
fn marked_and_unmarked_share_the_link() {
    let flows = through("codel", &["cubic/ecn=on", "cubic"]).flows;
    let rates: Vec<f64> = flows.iter().map(|f| f.throughput.as_bps() as f64).collect();
    let share = rates[0] / (rates[0] + rates[1]);
    assert!((0.35..0.65).contains(&share), "{share}");
    assert_eq!((flows[0].dropped, flows[1].marked), (0, 0));
}

#[test]
fn who_does_not_react_to_marks_is_not_marked() {
    let parse = |text: &str| {
        let parsed = FlowSpec::parse(text, &alcc_zoo::registry(), Timing::default());
        parsed.map_err(|error| error.to_string())
    };
    for (flow, name) in [
        ("copa/ecn=on", "copa"),
        ("cubic/over=bbr/ecn=on", "bbr"),
        ("udp:rate=1mbit/ecn=on", "udp"),
    ] {
        let why = parse(flow).err().unwrap();
        assert!(
            why.contains(&format!("{name} does not react to marks")),
            "{why}"
        );
    }
    assert!(
        parse("cubic/ecn=2")
            .err()
            .unwrap()
            .contains("write ecn=on or ecn=off")
    );
    assert!(
        parse("2*copa/over=cubic/ecn=on")
            .unwrap()
            .iter()
            .all(|f| f.ecn)
    );
}
