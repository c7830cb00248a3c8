// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of a download for the sender, for every form of control: figure 14 of the ALCC paper.
//! `cargo bench -p alcc-live --bench forms`, after `alcc bpf load`: plain Cubic, the native form,
//! in-band, the gate, the window in the kernel and the algorithm in the kernel, all at the same
//! time, each on its own emulated link.
//!
//! `ALCC_BENCH_ROUNDS`: number of rounds; `ALCC_BENCH_SECONDS`: length of each, s;
//! `ALCC_BENCH_LINK`: a rate, a trace file or `synth:NAME`; `ALCC_BENCH_ALGORITHMS`: the
//! algorithms.
#[path = "support/median.rs"]
mod median;
mod support;

use alcc_live::forms::{self, FORMS, NATIVE};
use alcc_live::{Link, PathDefaults};
use alcc_units::Span;
use median::median;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use support::{Result, World, number};

/// Per cent of a core, wake-ups per second and Mbit/s of a form, in each round.
#[derive(Default)]
struct Seen {
    percent: Vec<f64>,
    wakeups: Vec<f64>,
    mbps: Vec<f64>,
}

fn main() -> Result<()> {
    let rounds = number("ALCC_BENCH_ROUNDS", 3)?;
    let seconds = number("ALCC_BENCH_SECONDS", 20)?;
    let link = std::env::var("ALCC_BENCH_LINK").unwrap_or_else(|_| "12mbit".to_owned());
    let algorithms =
        std::env::var("ALCC_BENCH_ALGORITHMS").unwrap_or_else(|_| "copa,verus".to_owned());
    let world = World::new(1)?;
    let link = Link::open_in(Path::new(&link), &PathDefaults::default())?;
    for algorithm in algorithms.split(',') {
        let mut seen: Vec<Seen> = FORMS.iter().map(|_| Seen::default()).collect();
        for run in 1..=rounds {
            let (span, stop) = (Span::from_secs(seconds), AtomicBool::new(false));
            let run = run as u32;
            let (costs, notes) = forms::run(algorithm, &link, span, run, world.tools(), &stop)?;
            notes.iter().for_each(|note| println!("  {note}"));
            for (seen, cost) in seen.iter_mut().zip(&costs) {
                seen.percent.push(cost.percent);
                seen.wakeups.push(cost.wakeups_per_s);
                seen.mbps.push(cost.mbps);
            }
        }
        println!(
            "forms: {algorithm} on {}, {rounds} x {seconds} s; the sender's processes, user and system",
            link.describe()
        );
        println!(
            "  form                  % of a core (min, max)   to native   paper's      wake-ups/s   Mbit/s"
        );
        let native = median(&seen[NATIVE].percent);
        for (form, seen) in FORMS.iter().zip(&seen) {
            let (name, paper) = (form.title, form.published);
            let (min, max) = (seen.percent.iter())
                .fold((f64::INFINITY, 0.0f64), |(a, b), v| (a.min(*v), b.max(*v)));
            let percent = median(&seen.percent);
            println!(
                "  {name:20} {percent:8.2} ({min:5.2}, {max:5.2}) {:13.2}   {paper:10} {:12.0} {:8.2}",
                percent / native,
                median(&seen.wakeups),
                median(&seen.mbps)
            );
        }
    }
    println!(
        "  paper's: figure 14, without the module as in-band and with the module as the gate; asked: the window in the kernel no more than the gate"
    );
    Ok(())
}
