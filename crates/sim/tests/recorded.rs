// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The originals' algorithms on recorded links, within loose bounds around what the authors' programs gave on the same
//! links over a real network stack (60 s, minimum RTT 40 ms, drop-tail of 2,000,000 bytes). The recordings are not part of
//! the repository: `ALCC_TRACES` names a folder that holds them.
#![expect(clippy::disallowed_macros, reason = "a skipped test says so")]
mod common;

use alcc_link::RateSpec;
use alcc_sim::{FlowReport, run};
use alcc_trace::Trace;
use std::path::PathBuf;

fn recorded(name: &str) -> Option<Trace> {
    let folder = std::env::var_os("ALCC_TRACES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    let places = [folder.join("alcc").join(name), folder.join(name)];
    let Some(bytes) = places.iter().find_map(|place| std::fs::read(place).ok()) else {
        println!("skipped: no recorded traces");
        return None;
    };
    Some(Trace::parse(&bytes).unwrap())
}

fn on(name: &str, flow: &str) -> Option<FlowReport> {
    let trace = recorded(name)?;
    let scenario = common::scenario(RateSpec::Trace(trace), 60, &[flow]);
    Some(run(&scenario).unwrap().flows.remove(0))
}

/// Utilization in per cent and mean one-way delay in ms.
fn within(link: &str, flow: &str, share: std::ops::Range<f64>, delay: std::ops::Range<f64>) {
    let Some(got) = on(link, flow) else { return };
    let (u, d) = (
        got.utilization.unwrap() * 100.0,
        got.delay.mean.as_millis_f64(),
    );
    assert!(
        share.contains(&u),
        "{link} {flow}: utilization {u:.1} %, delay {d:.1} ms"
    );
    assert!(
        delay.contains(&d),
        "{link} {flow}: utilization {u:.1} %, delay {d:.1} ms"
    );
}

#[test]
fn verus_as_its_authors_wrote_it() {
    let flow = "verus:profile=original";
    // The program: 97 and 98 %, 146 and 152 ms; 99 and 100 %, 194 and 201 ms; 96 and 99 %, 170 and 174 ms.
    within("CampusWalk", flow, 92.0..100.0, 110.0..190.0);
    within("Corniche", flow, 85.0..100.0, 150.0..250.0);
    within("rapidGold", flow, 90.0..100.0, 125.0..220.0);
}

#[test]
fn copa_as_its_authors_wrote_it() {
    let flow = "copa:profile=original";
    // The program: 67 and 69 %, 35 ms; 73 and 75 %, 31 ms; 82 and 84 %, 27 ms; 40 and 43 %, 33 and 34 ms; 81 and 83 %, 26 ms.
    within("CampusWalk", flow, 60.0..82.0, 28.0..42.0);
    within("CityDrive", flow, 65.0..85.0, 26.0..38.0);
    within("Corniche", flow, 75.0..92.0, 23.0..34.0);
    within("highwayGold", flow, 30.0..58.0, 27.0..42.0);
    within("rapidGold", flow, 72.0..94.0, 22.0..34.0);
}

#[test]
fn plain_cubic_fills_the_buffer() {
    // Linux: 100 %, 1201 and 1444 ms; 100 %, 900 and 1024 ms.
    let flow = "fixed:window=1000000/over=cubic";
    within("CampusWalk", flow, 97.0..100.1, 900.0..1700.0);
    within("Corniche", flow, 97.0..100.1, 600.0..1300.0);
}

#[test]
fn bbr_as_in_the_kernel() {
    // Linux: 96 and 95 %, 141 and 138 ms; 98 %, 123 and 118; 98 and 97 %, 87 and 84; 95 and 97 %, 133 and 141; 96 %, 72 and 66.
    let flow = "bbr";
    within("CampusWalk", flow, 93.0..98.0, 120.0..162.0);
    within("CityDrive", flow, 96.0..100.0, 103.0..141.0);
    within("Corniche", flow, 95.0..100.0, 73.0..100.0);
    within("highwayGold", flow, 93.0..99.0, 116.0..157.0);
    within("rapidGold", flow, 93.0..98.0, 55.0..79.0);
}

#[test]
fn budget_has_the_throughput_of_bbr_at_half_its_delay() {
    // Linux's BBR: 96 and 95 %, 141 and 138 ms; 98 %, 118 and 123 ms; 98 and 97 %, 87 and 84; 95 and 97 %, 133 and 141; 96 %, 72 and 66.
    let flow = "budget";
    within("CampusWalk", flow, 95.0..100.0, 40.0..85.0);
    within("CityDrive", flow, 97.0..100.0, 40.0..80.0);
    within("Corniche", flow, 97.0..100.0, 40.0..72.0);
    within("highwayGold", flow, 95.0..100.0, 40.0..85.0);
    within("rapidGold", flow, 95.0..100.0, 40.0..72.0);
}
