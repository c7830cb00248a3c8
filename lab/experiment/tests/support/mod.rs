// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All algorithms, and all runs of an experiment, for the pages of tables.
use alcc_experiment::run::{Runner, Side};
use alcc_experiment::{Definition, Plan, Run};
use alcc_results::scenario::Files;
use std::sync::atomic::AtomicBool;

/// All its runs, in order.
pub(crate) fn runs(definition: &Definition, files: &(dyn Files + Sync)) -> Vec<Run> {
    let runner = Runner {
        registry: &alcc_zoo::registry(),
        files,
        version: "",
        workers: 2,
        stop: &AtomicBool::new(false),
        side: Side::Simulated,
    };
    let plan = Plan::new(definition).unwrap();
    runner.run(&plan, None, &mut |_| {}).unwrap()
}

/// Every algorithm of this project.
pub(crate) fn algorithms() -> Vec<String> {
    let registry = alcc_zoo::registry();
    registry.iter().map(|a| a.name.to_owned()).collect()
}
