// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cost of Sprout's inference: the receiver module's tick (evolve, observe, forecast, report) at
//! several rates, compared with the receiver module of Sprout-EWMA, which keeps a mean; and the
//! cost of the tables, once per process. `ALCC_BENCH_TICKS` sets the number of ticks.
#![expect(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "a bench prints, and measures time"
)]

use alcc_cc::{Header, Receiver, Registry, Spec};
use alcc_units::{Bytes, Rng, Span, Time};
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

const TICK: Span = Span::from_millis(20);
const MSS: Bytes = Bytes::new(1440);
/// Asked for each tick.
const BOUND: Duration = Duration::from_micros(100);

fn half(spec: &str) -> Result<Box<dyn Receiver>, Box<dyn Error>> {
    let spec: Spec = spec.parse()?;
    let cc = Registry::builtin().build(&spec)?;
    Ok(cc.receiver().ok_or("no receiver module")?)
}

/// The time of each tick, ascending: packets by chance around `mean` per tick, and an outage of a
/// second now and then.
fn ticks(half: &mut dyn Receiver, mean: u64, ticks: u64) -> Vec<Duration> {
    let mut rng = Rng::new(7);
    let mut pn = 0;
    let mut times = Vec::with_capacity(ticks as usize);
    for tick in 0..ticks {
        let begin = Time::from_millis(1) + TICK * tick;
        let packets = if tick % 500 < 450 {
            rng.below(2 * mean + 1)
        } else {
            0
        };
        for _ in 0..packets.max(u64::from(tick == 0)) {
            half.on_packet(begin, pn, MSS, &Header::EMPTY);
            pn += 1;
        }
        let end = begin + TICK;
        let started = Instant::now();
        half.on_timer(end);
        black_box(half.report(end));
        times.push(started.elapsed());
    }
    times.sort_unstable();
    times
}

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::var("ALCC_BENCH_TICKS").ok();
    let count: u64 = count.map_or(Ok(20_000), |n| n.parse())?;
    let started = Instant::now();
    half("sprout:profile=original")?;
    half("sprout")?;
    println!(
        "tables of both kinds, once per process: {:.1?}",
        started.elapsed()
    );
    println!(
        "{:28} {:>10} {:>10} {:>10}   asked: {BOUND:?}",
        "a tick of 20 ms", "median", "p99", "max"
    );
    for (spec, mean) in [
        ("sprout", 1),
        ("sprout", 10),
        ("sprout", 40),
        ("sprout", 1000),
        ("sprout:profile=original", 10),
        ("sprout-ewma", 10),
    ] {
        let times = ticks(half(spec)?.as_mut(), mean, count.max(1));
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        println!(
            "{:28} {:>10.1?} {:>10.1?} {:>10.1?}",
            format!("{spec}, {mean} packets"),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
    Ok(())
}
