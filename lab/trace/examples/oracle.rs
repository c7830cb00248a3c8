// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bound for `lab/notes/budget.md`: the best result of a sender that knows the channel's statistics.
//!
//! ```console
//! $ cargo run --release -p alcc-trace --example oracle -- traces/*/*
//! ```
//!
//! In each millisecond the sender keeps as much in flight as the link serves in the next round trip
//! with a given probability. It learns of every opportunity one round trip later, used or not. With
//! knowledge of the next round trip itself it would use all of it and never wait. This one knows
//! its distribution: that of the most similar moments of the same recording, except those within
//! two seconds. Moments are similar if they have nearly the same number of opportunities in the
//! last 40, 120, 400 and 1000 ms.
#![expect(clippy::disallowed_macros, reason = "a program, not the library")]

use alcc_trace::Trace;
use alcc_units::Time;
use std::process::ExitCode;

/// The smallest round trip, ms; half of it is the way to the receiver.
const RTT: usize = 40;
/// Length of the measurement, ms.
const DURATION: usize = 60_000;
/// The features of a moment: opportunities in the last 40, 120, ... ms.
const PAST: [usize; 4] = [40, 120, 400, 1000];
/// Number of similar moments for a prediction.
const NEIGHBOURS: usize = 100;
/// Distance of the moments that are compared, ms, which reduces their number.
const STEP: usize = 5;
const NEAR: usize = 2000;
const QUANTILES: [f64; 9] = [0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99];

/// Utilization in per cent, then mean and 95th percentile of the one-way delay in ms.
type Figures = [f64; 3];

/// The opportunities of a recording: `before[t]` of them are before millisecond `t`.
struct Channel {
    before: Vec<u32>,
}

impl Channel {
    fn of(trace: &Trace) -> Self {
        let opportunities = trace.cursor();
        let count = |ms: usize| opportunities.count_before(Time::from_millis(ms as u64)) as u32;
        let before = (0..=DURATION + RTT).map(count).collect();
        Self { before }
    }

    fn count(&self, from: usize, to: usize) -> u32 {
        self.before[to] - self.before[from]
    }

    /// The features at `now`. The variance of a count grows with it, so square roots are compared.
    fn past(&self, now: usize) -> [f32; PAST.len()] {
        PAST.map(|ms| (self.count(now.saturating_sub(ms), now) as f32).sqrt())
    }

    /// For each `STEP` the sorted opportunities of the next round trip and one ms at similar
    /// moments.
    fn futures(&self) -> Vec<Vec<u32>> {
        let known: Vec<_> = (0..DURATION).step_by(STEP).map(|t| self.past(t)).collect();
        let distance = |a: &[f32; PAST.len()], b: &[f32; PAST.len()]| -> f32 {
            a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let similar = |now: usize| {
            let mut others: Vec<(f32, usize)> = (0..known.len())
                .filter(|other| other.abs_diff(now) * STEP > NEAR)
                .map(|other| (distance(&known[now], &known[other]), other * STEP))
                .collect();
            others.select_nth_unstable_by(NEIGHBOURS, |a, b| a.0.total_cmp(&b.0));
            let mut next: Vec<u32> = others[..NEIGHBOURS]
                .iter()
                .map(|(_, at)| self.count(*at, at + RTT + 1))
                .collect();
            next.sort_unstable();
            next
        };
        (0..known.len()).map(similar).collect()
    }

    /// In flight is this quantile of what the next round trip offers.
    fn run(&self, futures: &[Vec<u32>], quantile: f64) -> Option<Figures> {
        let index = (NEIGHBOURS as f64 * quantile) as usize;
        let (mut sent, mut served) = (0_usize, 0_usize);
        let mut entered: Vec<u32> = Vec::new();
        let mut served_before = vec![0_usize; DURATION + 1];
        let mut delays: Vec<u32> = Vec::new();
        for now in 0..DURATION {
            let heard = now.saturating_sub(RTT);
            let window = futures[heard / STEP][index].max(1) as usize;
            let in_flight = sent - served_before[heard];
            for _ in in_flight..window {
                entered.push(now as u32);
                sent += 1;
            }
            let offered = self.count(now, now + 1) as usize;
            for _ in 0..offered.min(sent - served) {
                delays.push(now as u32 - entered[served]);
                served += 1;
            }
            served_before[now + 1] = served;
        }
        delays.sort_unstable();
        let way = RTT as f64 / 2.0;
        let mean = delays.iter().map(|d| f64::from(*d)).sum::<f64>() / delays.len() as f64;
        let p95 = *delays.get(delays.len() * 95 / 100)?;
        Some([
            100.0 * served as f64 / f64::from(self.count(0, DURATION)),
            mean + way,
            f64::from(p95) + way,
        ])
    }
}

fn main() -> ExitCode {
    let mut sums = [[0.0; 3]; QUANTILES.len()];
    let mut links = 0.0;
    for file in std::env::args().skip(1) {
        let trace = match std::fs::read(&file).map(|text| Trace::parse(&text)) {
            Ok(Ok(trace)) => trace,
            Ok(Err(e)) => {
                eprintln!("left out: {file}: {e}");
                continue;
            }
            Err(e) => {
                eprintln!("read {file}: {e}");
                return ExitCode::from(2);
            }
        };
        let channel = Channel::of(&trace);
        let futures = channel.futures();
        links += 1.0;
        for (sum, quantile) in sums.iter_mut().zip(QUANTILES) {
            let figures = channel.run(&futures, quantile).unwrap_or_default();
            for (sum, figure) in sum.iter_mut().zip(figures) {
                *sum += figure;
            }
        }
    }
    println!("| in flight: quantile of the next RTT | utilization % | mean ms | p95 ms |");
    println!("|---|---|---|---|");
    for (quantile, [utilization, mean, p95]) in QUANTILES.iter().zip(sums) {
        println!(
            "| {quantile} | {:.1} | {:.0} | {:.0} |",
            utilization / links,
            mean / links,
            p95 / links
        );
    }
    ExitCode::SUCCESS
}
