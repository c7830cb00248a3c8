// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::median::median;
use std::time::Instant;

const ROUNDS: usize = 5;

/// A name and what is timed: the same number of packets for everybody.
pub(crate) type Case<'a> = (String, Box<dyn Fn() + 'a>);

/// Runs all of them in turns and prints the median cost of a packet, with its ratio to the first
/// one's.
pub(crate) fn table(title: &str, packets: u64, cases: &[Case<'_>]) {
    println!("per_ack: {title}, ns per packet, median of {ROUNDS} (min, max), ratio to the first");
    let mut costs = vec![Vec::new(); cases.len()];
    // The first round warms up.
    for round in 0..=ROUNDS {
        for ((_, run), costs) in cases.iter().zip(&mut costs) {
            let began = Instant::now();
            run();
            if round > 0 {
                costs.push(began.elapsed().as_nanos() as f64 / packets as f64);
            }
        }
    }
    let first = costs.first().map_or(f64::NAN, |c| median(c));
    for ((name, _), costs) in cases.iter().zip(&costs) {
        let (min, max) = costs.iter().fold((f64::INFINITY, 0.0f64), |(lo, hi), c| {
            (lo.min(*c), hi.max(*c))
        });
        let cost = median(costs);
        println!(
            "  {name:18} {cost:8.0} ({min:.0}, {max:.0}) {:7.2}",
            cost / first
        );
    }
}
