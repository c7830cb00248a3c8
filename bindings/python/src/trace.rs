// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of delivery opportunities.
use crate::errors::scenario;
use crate::table::Table;
use alcc_results::scenario::open_trace;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::fmt::Write as _;
use std::fs::File;

/// When a link can deliver a packet of 1500 bytes: milliseconds, from the start; it repeats.
///
/// Trace(milliseconds, name="trace"): one of your own. As a `link` it is the bottleneck.
#[pyclass(frozen, module = "alcc")]
pub(crate) struct Trace {
    name: String,
    trace: alcc_trace::Trace,
}

impl Trace {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// In the form of Mahimahi.
    pub(crate) fn text(&self) -> Vec<u8> {
        let mut text = String::new();
        for at in self.trace.opportunities() {
            let _ = writeln!(text, "{at}");
        }
        text.into_bytes()
    }
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (opportunities_ms, name = "trace"))]
    fn new(opportunities_ms: Vec<u32>, name: &str) -> PyResult<Self> {
        let trace = alcc_trace::Trace::new(opportunities_ms);
        let trace = trace.map_err(|e| scenario(format!("trace {name}: {e}")))?;
        Ok(Self {
            name: name.to_owned(),
            trace,
        })
    }

    /// Its name in rows.
    #[getter(name)]
    fn get_name(&self) -> &str {
        &self.name
    }

    /// After so long it begins again, s.
    #[getter]
    fn period_s(&self) -> f64 {
        self.trace.period().as_secs_f64()
    }

    /// Mean rate, Mbit/s.
    #[getter]
    fn mean_mbps(&self) -> f64 {
        self.trace.mean_rate().as_mbps_f64()
    }

    /// A table with the column time_ms.
    #[getter]
    fn opportunities(&self) -> PyResult<Table> {
        let times = self.trace.opportunities().iter();
        Table::of_integers("time_ms", times.map(|ms| u64::from(*ms)))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyType>, (Vec<u32>, String)) {
        let trace = slf.get();
        let times = trace.trace.opportunities().to_vec();
        (slf.get_type(), (times, trace.name.clone()))
    }

    fn __len__(&self) -> usize {
        self.trace.len()
    }

    fn __repr__(&self) -> String {
        let (mbps, period) = (self.mean_mbps(), self.period_s());
        format!("<alcc.Trace {}: {mbps:.3} Mbit/s, {period} s>", self.name)
    }
}

/// The trace in the file `name`, or the synthetic one of that name, generated with `seed`.
#[pyfunction]
#[pyo3(signature = (name, seed = 1))]
pub(crate) fn trace(name: &str, seed: u64) -> PyResult<Trace> {
    let found = open_trace(name, seed, || File::open(name)).map_err(scenario)?;
    Ok(Trace {
        name: found.name,
        trace: found.trace,
    })
}

/// The names of the synthetic traces.
#[pyfunction]
pub(crate) fn synthetic_traces() -> Vec<&'static str> {
    alcc_trace::SCENARIOS.iter().map(|s| s.name).collect()
}
