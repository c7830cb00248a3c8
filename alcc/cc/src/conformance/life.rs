// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Situations of a whole connection, on the small model of a path: 12 Mbit/s, 40 ms.
use super::path::{FlowResult, Scenario, run};
use crate::{Instance, Spec};
use alcc_units::{Rate, Span, Time};

const RATE: Rate = Rate::mbps(12);
const RTT: Span = Span::from_millis(40);
/// Queue in packets: three bandwidth-delay products.
const QUEUE: usize = 120;
/// Minimum share of the slower of two equal flows.
const SIBLING: f64 = 0.15;
/// The same for published forms.
const PUBLISHED_SIBLING: f64 = 0.05;
/// Minimum use of a path with jitter of half of its RTT. Vegas, which takes jitter for queueing,
/// uses 0.41.
const JITTER: f64 = 0.35;
/// Maximum that may be in flight, as a multiple of the earlier maximum.
const UNPROVEN: f64 = 2.01;
/// The same for paced algorithms, which do not send it as one burst. BBR begins at 2.89 times the
/// product that it has measured.
const UNPROVEN_PACED: f64 = 3.2;

type Build<'a> = &'a dyn Fn() -> Instance;

const fn secs(n: u64) -> Time {
    Time::from_millis(n * 1000)
}

fn path(seconds: u64) -> Scenario {
    Scenario::constant(RATE, RTT, Span::from_secs(seconds))
}

/// The rate between two times, packets per second.
fn rate(flow: &FlowResult, from: u64, to: u64) -> f64 {
    (flow.packets(secs(from)) - flow.packets(secs(to))) as f64 / (to - from) as f64
}

fn one(scenario: &Scenario, build: Build<'_>) -> FlowResult {
    run(scenario, vec![build()]).remove(0)
}

fn at_least(
    what: &str,
    found: f64,
    least: f64,
    (scenario, spec, flows): (&Scenario, &Spec, usize),
) -> Result<(), String> {
    if found >= least {
        return Ok(());
    }
    let case = scenario.describe(spec, flows);
    Err(format!("{what}: {found:.3}, {least} is asked; {case}"))
}

/// Runs all checks of this file but [`longer_route`].
pub(super) fn check(build: Build<'_>, spec: &Spec, published: bool) -> Result<(), String> {
    let alone = rate(&one(&path(15), build), 5, 15);
    let least = if published {
        PUBLISHED_SIBLING
    } else {
        SIBLING
    };
    siblings(build, spec, least)?;
    let mut jitter = path(15);
    jitter.jitter = RTT / 2;
    let kept = rate(&one(&jitter, build), 5, 15) / alone;
    at_least(
        "jitter of half of the RTT keeps",
        kept,
        JITTER,
        (&jitter, spec, 1),
    )?;
    let mut taken_over = path(20);
    taken_over.standing = 400;
    let kept = rate(&one(&taken_over, build), 10, 20) / alone;
    at_least(
        "begun behind a full queue it keeps",
        kept,
        0.9,
        (&taken_over, spec, 1),
    )?;
    let mut slower = path(30);
    slower.other = Some((secs(10), Rate::mbps(3), RTT / 2));
    let used = rate(&one(&slower, build), 20, 30) / (alone / 4.0).min(250.0);
    at_least(
        "of a slower and shorter path it uses",
        used,
        0.5,
        (&slower, spec, 1),
    )?;
    little_to_send(build, spec, published)
}

fn siblings(build: Build<'_>, spec: &Spec, least: f64) -> Result<(), String> {
    let mut both = path(40);
    both.queue = QUEUE;
    let flows = run(&both, vec![build(), build()]);
    let [a, b] = [0, 1].map(|n| rate(&flows[n], 20, 40));
    let part = a.min(b) / (a + b).max(1.0);
    at_least("of two of a kind one gets", part, least, (&both, spec, 2))
}

/// Checks that an application of 2 Mbit/s gets this rate, and that its window does not grow without
/// limit.
fn little_to_send(build: Build<'_>, spec: &Spec, published: bool) -> Result<(), String> {
    let mut little = path(60);
    let offered = Rate::mbps(2);
    little.offered = Some(offered);
    let flow = one(&little, build);
    let asked = offered.as_bps() as f64 / (super::PACKET.get() * 8) as f64;
    let got = rate(&flow, 30, 60) / asked;
    at_least(
        "of 2 Mbit/s an application gets",
        got,
        0.98,
        (&little, spec, 1),
    )?;
    let paced = build().needs().paced || build().allowance().rate.is_some();
    let most = if paced { UNPROVEN_PACED } else { UNPROVEN };
    if flow.unproven > most && !published {
        return Err(format!(
            "{:.2} times what was ever in flight may be in flight: {most} is the most; {}",
            flow.unproven,
            little.describe(spec, 1)
        ));
    }
    Ok(())
}

/// The share of a path that is used after its RTT has doubled.
pub(super) fn longer_route(build: Build<'_>) -> f64 {
    let mut longer = path(40);
    longer.other = Some((secs(10), RATE, RTT * 2));
    rate(&one(&longer, build), 30, 40) / 1000.0
}
