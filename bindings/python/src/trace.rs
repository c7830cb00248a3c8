// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of delivery opportunities.
use crate::arguments;
use crate::errors::scenario;
use crate::run::span;
use crate::table::Table;
use alcc_results::scenario::{open_trace, reason, why_not_read};
use alcc_trace::{RatesForm, TraceError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Times at which a link can deliver a packet of 1500 bytes, ms from the start; they repeat.
///
/// Trace(milliseconds, name="trace") makes a trace from a list. As `link` it is the bottleneck.
#[pyclass(frozen, module = "alcc")]
pub(crate) struct Trace {
    name: String,
    trace: alcc_trace::Trace,
}

impl Trace {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// From a file of rates.
    fn of_file(
        file: &Bound<'_, PyAny>,
        name: Option<&Bound<'_, PyAny>>,
        form: &RatesForm,
    ) -> PyResult<Self> {
        let want = "the name of a file, or two lists: seconds and mbps";
        let path: PathBuf =
            (file.extract()).map_err(|_| arguments::wrong("from_rates", file, want))?;
        let own = path.file_name().unwrap_or_default().to_string_lossy();
        let name = self::name(name, &own)?;
        let shown = path.display();
        let open =
            File::open(&path).map_err(|e| scenario(format!("open {shown}: {}", reason(&e))))?;
        let trace = file
            .py()
            .detach(|| alcc_trace::Trace::read_rates(open, form));
        let trace = trace.map_err(|e| scenario(format!("read {shown}: {}", why_not_read(&e))))?;
        Ok(Self { name, trace })
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
    #[pyo3(signature = (opportunities_ms, name = None), text_signature = "(opportunities_ms, name='trace')")]
    fn new(opportunities_ms: &Bound<'_, PyAny>, name: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let name = self::name(name, "trace")?;
        let times = opportunities_ms.extract();
        let times: Vec<u32> = times.map_err(|_| {
            scenario(format!(
                "trace {name}: opportunities_ms: found {}, expected a list of whole numbers from 0 to {}, in order",
                arguments::shown(opportunities_ms),
                u32::MAX
            ))
        })?;
        let trace = alcc_trace::Trace::new(times);
        let trace = trace.map_err(|e| of_list(&name, &e))?;
        Ok(Self { name, trace })
    }

    /// Makes a trace from throughput over time.
    ///
    /// from_rates(seconds, mbps, name="trace"): two lists. A rate holds until the next time, the
    /// last as long as the one before it.
    ///
    /// from_rates(file, name=..., column=..., unit=..., every=...): a file as `alcc-lab trace convert --from
    /// rates` reads it: columns are found by their names and units, and iperf3's JSON, sabre's JSON,
    /// NYU-METS, Irish 5G and logs of cake-autorate are known. column: name or number of the rate,
    /// or "time,rate". unit: of the rate, such as "kbit". every: how long each row holds, if rows
    /// have no time.
    #[classmethod]
    #[pyo3(
        signature = (seconds, mbps = None, name = None, *, column = None, unit = None, every = None),
        text_signature = "(seconds, mbps=None, name='trace', *, column=None, unit=None, every=None)"
    )]
    fn from_rates(
        _class: &Bound<'_, PyType>,
        seconds: &Bound<'_, PyAny>,
        mbps: Option<&Bound<'_, PyAny>>,
        name: Option<&Bound<'_, PyAny>>,
        column: Option<&Bound<'_, PyAny>>,
        unit: Option<&Bound<'_, PyAny>>,
        every: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let Some(mbps) = mbps else {
            let form = RatesForm {
                column: written("column", column, "the name or number of a column")?,
                unit: written("unit", unit, "a unit such as \"kbit\"")?,
                every: every.map(|every| span("every", every)).transpose()?,
            };
            return Self::of_file(seconds, name, &form);
        };
        for (argument, value) in [("column", column), ("unit", unit), ("every", every)] {
            if value.is_some() {
                return Err(scenario(format!(
                    "{argument}: it is for a file: leave it out with two lists"
                )));
            }
        }
        let name = self::name(name, "trace")?;
        let numbers = |what: &str, values: &Bound<'_, PyAny>| -> PyResult<Vec<f64>> {
            values.extract().map_err(|_| {
                scenario(format!(
                    "trace {name}: {what}: found {}, expected a list of numbers",
                    arguments::shown(values)
                ))
            })
        };
        let (seconds, mbps) = (numbers("seconds", seconds)?, numbers("mbps", mbps)?);
        if seconds.len() != mbps.len() {
            return Err(scenario(format!(
                "trace {name}: found {} times and {} rates: there must be as many",
                seconds.len(),
                mbps.len()
            )));
        }
        let trace = alcc_trace::Trace::from_steps(seconds.into_iter().zip(mbps));
        let trace = trace.map_err(|e| of_list(&name, &e))?;
        Ok(Self { name, trace })
    }

    /// Its name in rows.
    #[getter(name)]
    fn get_name(&self) -> &str {
        &self.name
    }

    /// Time after which the trace repeats, s.
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

/// Error for a trace that cannot be made of lists, which have no lines.
fn of_list(name: &str, error: &TraceError) -> PyErr {
    let why = match error {
        TraceError::GoesBack {
            line,
            before,
            found,
        } => format!(
            "position {line}: time goes back from {before} ms to {found} ms: sort the times"
        ),
        TraceError::BadField { line, found, want } => {
            format!("position {line}: '{found}' is not {want}")
        }
        TraceError::NoLength { line } => {
            format!("position {line}: the last time is 0 ms: it must end later than it starts")
        }
        TraceError::Empty => "it has no delivery opportunity: give one time at least".to_owned(),
        TraceError::TooLong { .. } => {
            "it has too many opportunities: make several of it".to_owned()
        }
        error => error.to_string(),
    };
    scenario(format!("trace {name}: {why}"))
}

/// A text or a number, if one is given.
fn written(name: &str, value: Option<&Bound<'_, PyAny>>, want: &str) -> PyResult<Option<String>> {
    let read = |value| {
        let text = arguments::written(name, value)?;
        text.ok_or_else(|| arguments::wrong(name, value, want))
    };
    value.map(read).transpose()
}

/// The name of a trace of the caller's own; `usual` if none is given.
fn name(given: Option<&Bound<'_, PyAny>>, usual: &str) -> PyResult<String> {
    let name = given.map(|name| arguments::text("name", name, "a text"));
    let name = name.unwrap_or_else(|| Ok(usual.to_owned()))?;
    if Path::new(&name).file_name().is_none() {
        return Err(scenario(format!(
            "name: '{name}' cannot be that of a trace: choose a word"
        )));
    }
    Ok(name)
}

/// The trace in the file `name`, or the synthetic one of that name, generated with `seed`.
#[pyfunction]
#[pyo3(signature = (name, seed = None), text_signature = "(name, seed=1)")]
pub(crate) fn trace(name: &Bound<'_, PyAny>, seed: Option<&Bound<'_, PyAny>>) -> PyResult<Trace> {
    let path = arguments::path("name", name)?;
    let name = path.display().to_string();
    let seed = match seed {
        None => 1,
        Some(seed) => arguments::count("seed", seed)?
            .ok_or_else(|| scenario(format!("seed: {seed}: expected a whole number from 0 on")))?,
    };
    let found = open_trace(&name, seed, || File::open(&path)).map_err(scenario)?;
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
