// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of the simulator: delivered segments per second of CPU, on the scenarios that ns-3 and
//! htsim were measured on.
//!
//! B: one link of 100 Mbit/s, RTT 40 ms, drop-tail of 333 packets both ways, N
//! `cubic:profile=linux` flows that start i/N s after the first, 60 s. A: the same between links of
//! 1 Gbit/s. C: B with a link that follows a trace of 100 Mbit/s. Each case runs in a process of
//! its own, for its memory. Rounds go over all cases, the least CPU time counts: another program
//! can only add to it.
//!
//! `ALCC_BENCH_ROUNDS` (3), `ALCC_BENCH_SECONDS` (60, simulated), `ALCC_BENCH_FLOW` (another
//! algorithm).
#![expect(clippy::disallowed_macros, reason = "a program, not the library")]

use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_sim::{LinkSpec, Scenario, run};
use alcc_trace::Trace;
use alcc_units::{Bytes, Rate, Span};
use std::error::Error;
use std::fs;
use std::process::Command;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const CASE: &str = "ALCC_BENCH_CASE";
const FLOW: &str = "cubic:profile=linux";
/// Scenario, flows; the first is what the others are compared with.
const CASES: [(&str, u64); 10] = [
    ("B", 1),
    ("B", 10),
    ("B", 100),
    ("B", 10_000),
    ("A", 1),
    ("A", 10),
    ("A", 100),
    ("C", 1),
    ("C", 10),
    ("C", 100),
];

fn number(variable: &str, default: u64) -> Result<u64> {
    match std::env::var(variable) {
        Err(_) => Ok(default),
        Ok(text) => Ok(text
            .parse()
            .map_err(|e| format!("{variable}={text}: {e}"))?),
    }
}

/// ns3.md's trace: 25,000 opportunities in 3 s.
fn trace() -> Result<Trace> {
    let three = (0..1000).flat_map(|k| {
        let k = 3 * k;
        [(8, k + 1), (8, k + 2), (9, k + 3)]
    });
    let lines = three.flat_map(|(times, ms)| std::iter::repeat_n(ms, times));
    Ok(Trace::new(lines.collect())?)
}

fn scenario(name: &str, flows: u64) -> Result<Scenario> {
    let flow = std::env::var("ALCC_BENCH_FLOW").unwrap_or_else(|_| FLOW.to_owned());
    let direction = |rate, delay| -> Result<DirectionSpec> {
        Ok(DirectionSpec {
            rate,
            queue: "droptail:packets=333".parse::<QueueSpec>()?,
            delay,
            ..DirectionSpec::default()
        })
    };
    let delay = Span::from_millis(20);
    let slow = direction(RateSpec::Fixed(Rate::mbps(100)), delay)?;
    let free = direction(RateSpec::Unlimited, delay)?;
    let mut fast = direction(RateSpec::Fixed(Rate::mbps(1000)), Span::ZERO)?;
    fast.queue = "droptail:packets=10000".parse()?;
    let fast = LinkSpec {
        down: fast.clone(),
        up: fast,
    };
    let mut scenario = match name {
        "C" => Scenario::one_link(direction(RateSpec::Trace(trace()?), delay)?, free),
        _ => Scenario::one_link(slow.clone(), slow),
    };
    if name == "A" {
        scenario.links.insert(0, fast.clone());
        scenario.links.push(fast);
    }
    scenario.duration = Span::from_secs(number("ALCC_BENCH_SECONDS", 60)?);
    let stagger = Span::from_secs(1) / flows;
    Ok(scenario.with(&format!("{flows}*{flow}/stagger={stagger}"))?)
}

/// Measurement of one process.
#[derive(Default)]
struct Case {
    segments: f64,
    dropped: f64,
    events: f64,
    jain: f64,
    cpu_s: f64,
    rss_kb: f64,
}

fn cpu_ns() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/schedstat")?;
    Ok(stat.split(' ').next().unwrap_or_default().parse()?)
}

fn peak_kb() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"));
    let number = line.and_then(|l| l.split_whitespace().nth(1));
    Ok(number.ok_or("no VmHWM in /proc/self/status")?.parse()?)
}

/// In the process of its own: runs it and prints the figures.
fn measure(case: &str) -> Result<()> {
    let (name, flows) = case
        .split_once(' ')
        .ok_or("a case is a name and a number")?;
    let scenario = scenario(name, flows.parse()?)?;
    let before = cpu_ns()?;
    let report = run(&scenario)?;
    let cpu = (cpu_ns()? - before) / 1e9;
    let delivered: Bytes = report.flows.iter().map(|f| f.delivered).sum();
    let segments: u64 = report.flows.iter().map(|f| f.packets).sum();
    let dropped: u64 = report.flows.iter().map(|f| f.dropped).sum();
    assert!(delivered > Bytes::ZERO, "nothing was delivered");
    println!(
        "{segments} {dropped} {} {} {cpu} {}",
        report.events,
        report.jain().unwrap_or(0.0),
        peak_kb()?
    );
    Ok(())
}

fn in_a_process(name: &str, flows: u64) -> Result<Case> {
    let out = Command::new(std::env::current_exe()?)
        .env(CASE, format!("{name} {flows}"))
        .output()?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        return Err(format!("{name} with {flows} flows: {said}").into());
    }
    let text = String::from_utf8(out.stdout)?;
    let numbers: Vec<f64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let [segments, dropped, events, jain, cpu_s, rss_kb] = numbers[..] else {
        return Err(format!("{name}: said {text}").into());
    };
    Ok(Case {
        segments,
        dropped,
        events,
        jain,
        cpu_s,
        rss_kb,
    })
}

fn main() -> Result<()> {
    if let Ok(case) = std::env::var(CASE) {
        return measure(&case);
    }
    let rounds = number("ALCC_BENCH_ROUNDS", 3)?;
    let seconds = number("ALCC_BENCH_SECONDS", 60)? as f64;
    let mut best: Vec<Option<Case>> = CASES.iter().map(|_| None).collect();
    for _ in 0..rounds {
        for ((name, flows), best) in CASES.iter().zip(&mut best) {
            let case = in_a_process(name, *flows)?;
            if best.as_ref().is_none_or(|b| case.cpu_s < b.cpu_s) {
                *best = Some(case);
            }
        }
    }
    println!(
        "speed: least of {rounds} runs of {seconds} s at 100 Mbit/s; A three links, B one link, C a trace"
    );
    println!(
        "    flows  segments   drops  Jain  events/seg  CPU s  Mseg/CPU s  sim s/CPU s  ns/seg  ratio to B 1  RSS MB"
    );
    let first = best[0].as_ref().map_or(f64::NAN, |c| c.cpu_s / c.segments);
    for ((name, flows), case) in CASES.iter().zip(&best) {
        let Some(c) = case else { continue };
        println!(
            "  {name} {flows:>5}  {:>8}  {:>6}  {:.2}  {:>10.2}  {:>5.3}  {:>10.2}  {:>11.0}  {:>6.0}  {:>12.2}  {:>6.1}",
            c.segments,
            c.dropped,
            c.jain,
            c.events / c.segments,
            c.cpu_s,
            c.segments / c.cpu_s / 1e6,
            seconds / c.cpu_s,
            c.cpu_s / c.segments * 1e9,
            c.cpu_s / c.segments / first,
            c.rss_kb / 1e3,
        );
    }
    Ok(())
}
