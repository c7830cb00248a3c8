// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a download costs the sender's processor, by every way to control it: figure 14 of the ALCC
//! paper. `cargo bench -p alcc-lab --bench forms`, after `alcc bpf load`: plain Cubic, the native
//! form, in-band, the gate, the window in the kernel and the algorithm in the kernel, all at the same
//! time, each on an emulated link of its own.
//!
//! `ALCC_BENCH_ROUNDS`, `ALCC_BENCH_SECONDS`: how often, how long; `ALCC_BENCH_LINK`: a rate, a trace
//! file or `synth:NAME`; `ALCC_BENCH_ALGORITHMS`.
#[path = "support/median.rs"]
mod median;
mod support;

use alcc_lab::{Experiment, Link, Measured, PathDefaults, Scheme, live};
use alcc_units::Span;
use median::median;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use support::{Result, World, number};

/// The paper's: average CPU of the application, beside that of the native form.
const WITH_MODULE: &str = "1.5 to 2";
const WITHOUT_MODULE: &str = "1.11";

/// A way to send with an algorithm: what it is called, what is typed, what the paper has beside it.
fn forms(algorithm: &str) -> [(&'static str, String, &'static str); 6] {
    [
        ("plain Cubic", "cubic".to_owned(), "-"),
        ("native, datagrams", format!("{algorithm}-udp"), "1"),
        (
            "in-band",
            format!("alcc-{algorithm}-inband"),
            WITHOUT_MODULE,
        ),
        ("gate", format!("alcc-{algorithm}/over=cubic"), WITH_MODULE),
        (
            "window in the kernel",
            format!("alcc-{algorithm}/enforce=bpf"),
            "-",
        ),
        ("all in the kernel", format!("alcc_{algorithm}"), "-"),
    ]
}

/// Per cent of a core, wake-ups per second and Mbit/s of a form, in each round.
#[derive(Default)]
struct Seen {
    percent: Vec<f64>,
    wakeups: Vec<f64>,
    mbps: Vec<f64>,
}

fn take(seen: &mut [Seen], schemes: &[Scheme], measured: &Measured) -> Result<()> {
    for ((seen, scheme), row) in seen.iter_mut().zip(schemes).zip(&measured.rows) {
        if let Some(why) = &row.error {
            return Err(format!("{}: {why}", scheme.name).into());
        }
        let known = (row.throughput_mbps.zip(row.cpu_s_per_gbit))
            .zip(measured.wakeups_per_s.get(&scheme.name));
        let ((mbps, cost), wakeups) = known.ok_or("no /proc/*/schedstat")?;
        seen.percent.push(cost * mbps / 10.0);
        seen.wakeups.push(*wakeups);
        seen.mbps.push(mbps);
    }
    Ok(())
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
        let forms = forms(algorithm);
        let schemes: Vec<Scheme> = (forms.iter())
            .map(|(_, typed, _)| typed.parse())
            .collect::<std::result::Result<_, _>>()?;
        let mut seen: Vec<Seen> = forms.iter().map(|_| Seen::default()).collect();
        for run in 1..=rounds {
            let experiment = Experiment {
                link: &link,
                shared: None,
                crowd: None,
                schemes: &schemes,
                duration: Span::from_secs(seconds),
                run: run as u32,
                tools: world.tools(),
                log: None,
            };
            let measured = live::run(&experiment, &AtomicBool::new(false), &mut |_| {})?;
            measured.notes.iter().for_each(|note| println!("  {note}"));
            take(&mut seen, &schemes, &measured)?;
        }
        println!(
            "forms: {algorithm} on {}, {rounds} x {seconds} s; the sender's processes, user and system",
            link.describe()
        );
        println!(
            "  form                  % of a core (min, max)   to native   paper's      wake-ups/s   Mbit/s"
        );
        let native = median(&seen[1].percent);
        for ((name, _, paper), seen) in forms.iter().zip(&seen) {
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
