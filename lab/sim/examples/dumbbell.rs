// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nine Cubic flows and one Copa on a dumbbell: `cargo run -p alcc-sim --example dumbbell`.
#![allow(clippy::disallowed_macros, reason = "a program, not the library")]
use alcc_link::RateSpec::Fixed;
use alcc_sim::{Scenario, run};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scenario = Scenario::dumbbell(Fixed("12mbit".parse()?), "40ms".parse()?, "red".parse()?)
        .with("9*cubic/stagger=1s")?
        .with("copa/rtt=80ms@20s-40s")?;
    for flow in run(&scenario)?.flows {
        println!("{} {} {}", flow.scheme, flow.throughput, flow.delay.mean);
    }
    Ok(())
}
