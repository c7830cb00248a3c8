// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the receiver module with arbitrary packets from the network.
use crate::{Cx, Discard, Instance, Path, Receiver, Report};
use alcc_units::{Bytes, Rng, Span, Time};

/// Calls per sequence.
const CALLS: u64 = 400;

/// A random pause: mostly short, now and then days.
fn pause(rng: &mut Rng) -> Span {
    match rng.below(50) {
        0 => Span::from_secs(rng.below(100_000)),
        1..=3 => Span::from_millis(rng.below(3000)),
        4..=20 => Span::ZERO,
        _ => Span::from_micros(rng.below(15_000)),
    }
}

fn some_bytes(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(3) {
        0 => rng.below(40),
        _ => 16,
    };
    // Bytes that are mostly zero reach further than noise.
    let byte = |rng: &mut Rng| if rng.chance(0.5) { rng.next_u64() } else { 0 } as u8;
    (0..len).map(|_| byte(rng)).collect()
}

fn length(rng: &mut Rng) -> Bytes {
    Bytes::new(match rng.below(10) {
        0 => 0,
        1 => rng.next_u64(),
        2 => rng.below(200),
        _ => 1448,
    })
}

/// One call and the checks after it.
fn step(
    half: &mut dyn Receiver,
    now: Time,
    pn: &mut u64,
    rng: &mut Rng,
) -> Result<Option<Report>, String> {
    if rng.chance(0.3) {
        if half.next_timer().is_some_and(|at| at <= now) {
            half.on_timer(now);
            if let Some(at) = half.next_timer().filter(|at| *at <= now) {
                return Err(format!(
                    "after on_timer at {now} the half's next timer is at {at}"
                ));
            }
        }
    } else {
        *pn = if rng.chance(0.05) {
            rng.next_u64()
        } else {
            pn.wrapping_add(1)
        };
        let (len, header) = (length(rng), some_bytes(rng));
        half.on_packet(now, *pn, len, &header);
    }
    let report = half.report(now);
    if report.is_some() && half.report(now).is_some() {
        return Err("the same report twice".into());
    }
    Ok(report)
}

/// Runs a random sequence, passes the module's reports to the controller, and runs the sequence
/// again from a snapshot.
pub(super) fn check(fresh: &dyn Fn() -> Instance, seed: u64) -> Result<(), String> {
    let story = |snapshot: u64| -> Result<Vec<Option<Report>>, String> {
        let mut cc = fresh();
        let path = Path {
            mss: Bytes::new(1448),
            rtt_hint: None,
            seed,
        };
        let log = &mut Discard;
        let now = Time::ZERO;
        cc.on_start(&mut Cx { now, log }, &path);
        let (mut rng, mut now, mut pn) = (Rng::new(seed), now, 0);
        let Some(mut half) = cc.receiver() else {
            return Err("it needs a receiver half and has none".into());
        };
        let mut story = Vec::new();
        for call in 0..CALLS {
            now += pause(&mut rng);
            let report = step(half.as_mut(), now, &mut pn, &mut rng)
                .map_err(|why| format!("call {call}: {why}"))?;
            if let Some(report) = &report {
                cc.on_feedback(&mut Cx { now, log }, report);
            }
            if call == snapshot {
                half = half.clone();
            }
            story.push(report);
        }
        Ok(story)
    };
    let (once, again) = (story(CALLS)?, story(seed % CALLS)?);
    if once != again {
        return Err("the receiver half replayed says something else".into());
    }
    Ok(())
}
