// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compiled part of Python's module `alcc`: docs/python.md is its guide.
//!
//! Everything that can be said in Python is said there (`python/alcc`). This crate turns keyword
//! arguments into scenarios, runs them, and hands out rows by the Arrow PyCapsule interface.
mod arguments;
mod controller;
mod errors;
mod options;
mod run;
mod table;
mod trace;

use alcc_results::Row;
use alcc_results::scenario::ScenarioOptions;
use alcc_results::simulated::Simulated;
use pyo3::prelude::*;

/// The algorithms of alcc: a list of (name, description).
#[pyfunction]
fn algorithms() -> Vec<(&'static str, &'static str)> {
    let all = alcc_zoo::registry();
    all.iter().map(|a| (a.name, a.summary)).collect()
}

/// The names of the keyword arguments of a scenario.
#[pyfunction]
fn option_names() -> Vec<String> {
    let keys = ScenarioOptions::all_keys().into_iter();
    keys.map(|key| key.replace('-', "_")).collect()
}

/// The rows of an object as `alcc-lab sim --json` prints it, as a table.
#[pyfunction]
fn table_of_json(text: &str) -> PyResult<table::Table> {
    let read: Simulated = serde_json::from_str(text).map_err(|e| {
        errors::scenario(format!(
            "read rows: {e}: expected what 'alcc-lab sim --json' prints"
        ))
    })?;
    table::Table::of_rows(&read.flows)
}

/// The table of a failed run: one row with its arguments and its error.
#[pyfunction]
#[pyo3(signature = (*, link, flow, seed, error))]
fn table_of_error(link: String, flow: String, seed: u64, error: String) -> PyResult<table::Table> {
    table::Table::of_rows(&[Row {
        link,
        seed,
        run: 1,
        flow: Some(flow),
        error: Some(error),
        ..Row::default()
    }])
}

/// For the test that a panic becomes an exception.
#[pyfunction]
fn _panic(text: String) -> PyResult<()> {
    errors::guarded(|| panic!("{text}"))
}

#[pymodule]
fn _alcc(m: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::keep_panics();
    m.add_class::<controller::Ack>()?;
    m.add_class::<controller::Loss>()?;
    m.add_class::<controller::PyAllowance>()?;
    m.add_class::<controller::PyPath>()?;
    m.add_class::<controller::Timeout>()?;
    m.add_class::<run::PyFlowStatus>()?;
    m.add_class::<run::PyResult_>()?;
    m.add_class::<run::Simulation>()?;
    m.add_class::<run::Stop>()?;
    m.add_class::<table::Table>()?;
    m.add_class::<trace::Trace>()?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_function(wrap_pyfunction!(_panic, m)?)?;
    m.add_function(wrap_pyfunction!(algorithms, m)?)?;
    m.add_function(wrap_pyfunction!(errors::one_line, m)?)?;
    m.add_function(wrap_pyfunction!(option_names, m)?)?;
    m.add_function(wrap_pyfunction!(options::files_of, m)?)?;
    m.add_function(wrap_pyfunction!(run::simulate, m)?)?;
    m.add_function(wrap_pyfunction!(run::simulate_until, m)?)?;
    m.add_function(wrap_pyfunction!(table_of_error, m)?)?;
    m.add_function(wrap_pyfunction!(table_of_json, m)?)?;
    m.add_function(wrap_pyfunction!(trace::synthetic_traces, m)?)?;
    m.add_function(wrap_pyfunction!(trace::trace, m)?)
}
