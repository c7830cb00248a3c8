// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs: in one go, and in steps.
use crate::arguments::{self, count, number};
use crate::controller::{EXTERNAL, External};
use crate::errors::{Wrong, guarded, scenario, simulation};
use crate::options::{self, Asked, Opened};
use crate::table::Table;
use alcc_cc::Instance;
use alcc_results::scenario::Resolved;
use alcc_results::simulated::Simulated;
use alcc_results::{About, InputFile, SIMULATED};
use alcc_sim::{FlowStatus, Probe, Report};
use alcc_units::{Bytes, Span, Time, positive, want_number};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Ends the registered simulations from another thread, because only the main thread gets Ctrl-C.
#[pyclass(frozen, module = "alcc._alcc")]
pub(crate) struct Stop(Arc<AtomicBool>);

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Checks for Ctrl-C and for errors of controllers periodically.
struct Watch {
    wrong: Wrong,
    stop: Option<Arc<AtomicBool>>,
}

impl Probe for Watch {
    fn is_enabled(&self) -> bool {
        false
    }

    fn progress(&mut self, _now: Time, _end: Time) -> bool {
        if !self.wrong.is() {
            let looked = Python::attach(|py| {
                py.check_signals()?;
                if self
                    .stop
                    .as_ref()
                    .is_some_and(|s| s.load(Ordering::Relaxed))
                {
                    return Err(PyKeyboardInterrupt::new_err(()));
                }
                // Others want to run too, also while a controller in Python keeps the lock.
                py.detach(|| ());
                Ok(())
            });
            if let Err(error) = looked {
                self.wrong.put(error);
            }
        }
        !self.wrong.is()
    }
}

/// Results of a simulation.
#[pyclass(frozen, name = "Result", module = "alcc")]
pub(crate) struct PyResult_ {
    about: About,
    simulated: Simulated,
    report: Report,
}

/// The object of `to_json()`.
#[derive(serde::Serialize)]
struct Printed<'a> {
    about: &'a About,
    #[serde(flatten)]
    simulated: &'a Simulated,
}

#[pymethods]
impl PyResult_ {
    /// Metadata: version, build, arguments, seed, and the SHA-256 of the input files.
    #[getter]
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loaded(py, &self.about)
    }

    /// One row per flow; the fields and units of `alcc-lab sim --json`, a column for each.
    #[getter]
    fn flows(&self) -> PyResult<Table> {
        Table::of_rows(&self.simulated.flows)
    }

    /// The time series, if `series` was given: a row per flow and sample.
    #[getter]
    fn series(&self) -> PyResult<Option<Table>> {
        let has = self.report.flows.iter().any(|f| !f.series.is_empty());
        has.then(|| Table::of_series(&self.report)).transpose()
    }

    /// The rows as dictionaries. Fields that only some rows have are there if they have a value.
    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loaded(py, &self.simulated.flows)
    }

    /// Values of several flows together, and of the links: `summary` of `alcc-lab sim --json`.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loaded(py, &self.simulated.summary)
    }

    /// The object that `alcc-lab sim --json` prints.
    fn to_json(&self) -> PyResult<String> {
        json(&Printed {
            about: &self.about,
            simulated: &self.simulated,
        })
    }

    /// A matplotlib figure: throughput and delay over time with `series`, else a point per flow.
    fn plot<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("alcc._plot")?.call_method1("plot", (slf,))
    }

    fn __repr__(&self) -> String {
        let rows: Vec<String> = self
            .simulated
            .flows
            .iter()
            .map(|row| {
                let mbps = row.throughput_mbps.unwrap_or_default();
                let delay = row
                    .delay_mean_ms
                    .map_or_else(String::new, |d| format!(", {d:.1} ms"));
                format!("{} {mbps:.3} Mbit/s{delay}", row.scheme)
            })
            .collect();
        format!("<alcc.Result {}>", rows.join("; "))
    }
}

fn json<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(simulation)
}

fn loaded<'py, T: serde::Serialize>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json(value)?,))
}

/// Metadata of a simulation with these arguments. Input files are hashed now, because they may change
/// later.
fn about(
    py: Python<'_>,
    resolved: &Resolved,
    scenario: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
    opened: &Opened,
) -> PyResult<About> {
    let mut arguments = Vec::new();
    if let Some(scenario) = scenario {
        arguments.push(scenario.repr()?.to_string());
    }
    for (name, value) in options.into_iter().flatten() {
        arguments.push(format!("{name}={}", value.repr()?));
    }
    let hashlib = py.import("hashlib")?;
    let hashed = |path: PathBuf| -> PyResult<InputFile> {
        let sha256 = match std::fs::read(&path) {
            Ok(bytes) => (hashlib.call_method1("sha256", (PyBytes::new(py, &bytes),))?)
                .call_method0("hexdigest")?
                .extract()?,
            Err(_) => String::new(),
        };
        let path = path.display().to_string();
        Ok(InputFile { path, sha256 })
    };
    static BUILD: PyOnceLock<String> = PyOnceLock::new();
    let build = BUILD.get_or_try_init(py, || {
        let own: PathBuf = py.import("alcc._alcc")?.getattr("__file__")?.extract()?;
        Ok::<_, PyErr>(alcc_files::build_id(&own).unwrap_or_default())
    })?;
    Ok(About {
        program: format!("alcc {}", env!("CARGO_PKG_VERSION")),
        build: build.clone(),
        command: format!("alcc.simulate({})", arguments.join(", ")),
        mode: SIMULATED.to_owned(),
        link: resolved.link.clone(),
        seed: resolved.scenario.seed,
        // A synthetic trace has no file.
        files: (opened.take().into_iter())
            .filter(|path| path.is_file())
            .map(hashed)
            .collect::<PyResult<_>>()?,
        ..About::default()
    })
}

/// Runs `work` without Python's lock, or with it if controllers need it all the time anyway.
fn run<T: Send>(
    py: Python<'_>,
    in_python: bool,
    wrong: &Wrong,
    work: impl FnOnce() -> Result<T, alcc_sim::SimError> + Send,
) -> PyResult<T> {
    let done = guarded(|| Ok(if in_python { work() } else { py.detach(work) }))?;
    match wrong.take() {
        Some(error) => Err(error),
        None => done.map_err(simulation),
    }
}

/// A time such as "20ms", not zero.
pub(crate) fn span(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Span> {
    let text = arguments::written(name, value)?;
    let text = text.ok_or_else(|| arguments::wrong(name, value, "a time such as \"20ms\""))?;
    let read = positive(&text);
    read.map_err(|e| scenario(format!("{name}: {}", want_number(&e.to_string()))))
}

fn series(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Span>> {
    value.map(|value| span("series", value)).transpose()
}

/// Simulate flows over one link or a chain of links; the same arguments give the same result.
///
/// scenario: a TOML file; keyword arguments override it. They have the names of its keys, which are
/// the options of `alcc-lab sim` without the dashes: link, flow, rtt, queue, duration, seed and so
/// on. A flow is a text such as "cubic@5s-30s" or a class of controllers. algorithms: further
/// classes, by name or as a list, for texts such as "2*mine:gain=0.5/rtt=80ms". series: interval of
/// the samples of the time series, such as "100ms".
///
/// Raises ScenarioError for invalid arguments, ControllerError for a controller that fails,
/// SimulationError for a run that would not end.
#[pyfunction]
#[pyo3(signature = (scenario=None, *, series=None, algorithms=None, **options))]
pub(crate) fn simulate(
    py: Python<'_>,
    scenario: Option<&Bound<'_, PyAny>>,
    series: Option<&Bound<'_, PyAny>>,
    algorithms: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyResult_> {
    simulated(py, scenario, series, algorithms, options, None)
}

/// As simulate(), until `stop` is set: then it raises KeyboardInterrupt.
#[pyfunction]
#[pyo3(signature = (stop, /, scenario=None, *, series=None, algorithms=None, **options))]
pub(crate) fn simulate_until(
    py: Python<'_>,
    stop: &Bound<'_, Stop>,
    scenario: Option<&Bound<'_, PyAny>>,
    series: Option<&Bound<'_, PyAny>>,
    algorithms: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<PyResult_> {
    let stop = Some(stop.get().0.clone());
    simulated(py, scenario, series, algorithms, options, stop)
}

fn simulated(
    py: Python<'_>,
    scenario: Option<&Bound<'_, PyAny>>,
    series: Option<&Bound<'_, PyAny>>,
    algorithms: Option<&Bound<'_, PyAny>>,
    options: Option<&Bound<'_, PyDict>>,
    stop: Option<Arc<AtomicBool>>,
) -> PyResult<PyResult_> {
    let (wrong, opened) = (Wrong::default(), Opened::default());
    let Asked {
        mut resolved,
        in_python,
    } = options::read(scenario, options, algorithms, &wrong, &opened)?;
    if resolved
        .scenario
        .flows
        .iter()
        .any(|f| f.algorithm == EXTERNAL)
    {
        return Err(crate::errors::scenario(
            "flow: 'external' has a window that is set between steps: use alcc.Simulation",
        ));
    }
    let about = about(py, &resolved, scenario, options, &opened)?;
    resolved.scenario.series = self::series(series)?;
    let mut watch = Watch {
        wrong: wrong.clone(),
        stop,
    };
    // Controllers go from thread to thread but are not shared: the scenario moves in and out.
    let (report, resolved) = run(py, in_python, &wrong, move || {
        let report = alcc_sim::run_with(&resolved.scenario, &mut watch)?;
        Ok((report, resolved))
    })?;
    let simulated = Simulated::of(&resolved, &report);
    Ok(PyResult_ {
        about,
        simulated,
        report,
    })
}

/// State of a flow during a simulation. Counters are since its start.
#[pyclass(frozen, get_all, name = "FlowStatus", module = "alcc")]
pub(crate) struct PyFlowStatus {
    /// The algorithm's window, bytes; None if it has none.
    window_bytes: Option<u64>,
    /// The simulated kernel's window, segments; None for a native sender.
    kernel_cwnd: Option<f64>,
    /// Payload in flight, bytes.
    in_flight_bytes: u64,
    /// The sender's last round-trip time, ms.
    rtt_ms: Option<f64>,
    /// IP bytes that the bottleneck delivered.
    delivered_bytes: u64,
    /// Payload that reached the receiving application, bytes.
    goodput_bytes: u64,
    /// Payload that the sender knows to have arrived, bytes.
    acked_bytes: u64,
    /// Packets that the sender has found lost.
    lost: u64,
    /// Packets sent.
    sent: u64,
    /// Packets lost on the path.
    dropped: u64,
    /// Retransmitted segments.
    retransmits: u64,
}

impl From<&FlowStatus> for PyFlowStatus {
    fn from(status: &FlowStatus) -> Self {
        Self {
            window_bytes: status.window.map(Bytes::get),
            kernel_cwnd: status.kernel_cwnd,
            in_flight_bytes: status.in_flight.get(),
            rtt_ms: status.rtt.map(Span::as_millis_f64),
            delivered_bytes: status.delivered.get(),
            goodput_bytes: status.goodput_bytes.get(),
            acked_bytes: status.acked.get(),
            lost: status.lost,
            sent: status.sent,
            dropped: status.dropped,
            retransmits: status.retransmits,
        }
    }
}

struct Running {
    simulation: alcc_sim::Simulation<Watch>,
    resolved: Resolved,
    about: About,
    /// After an error nothing more can be done with it.
    failed: bool,
}

/// A simulation that runs step by step. Its arguments are those of simulate().
///
/// The window of a flow called "external" is set between steps by set_window().
#[pyclass(frozen, module = "alcc")]
pub(crate) struct Simulation {
    running: Mutex<Running>,
    windows: Vec<Option<Arc<AtomicU64>>>,
    in_python: bool,
    wrong: Wrong,
}

impl Simulation {
    /// Never waits, because waiting with Python's lock would deadlock.
    fn lock(&self) -> PyResult<MutexGuard<'_, Running>> {
        let running = match self.running.try_lock() {
            Ok(running) => running,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(simulation(
                    "simulate: this simulation is taking a step already: one at a time",
                ));
            }
        };
        if running.failed {
            return Err(simulation(
                "simulate: this simulation has failed before: begin a new one",
            ));
        }
        Ok(running)
    }

    fn until(&self, py: Python<'_>, to: impl FnOnce(Time) -> Time + Send) -> PyResult<bool> {
        let mut running = self.lock()?;
        let inner = &mut *running;
        let to = to(inner.simulation.now());
        let simulation = &mut inner.simulation;
        let done = run(py, self.in_python, &self.wrong, move || {
            simulation.run_until(to)
        });
        inner.failed = done.is_err();
        done?;
        Ok(!inner.simulation.is_over())
    }
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (scenario=None, *, series=None, algorithms=None, **options))]
    fn new(
        py: Python<'_>,
        scenario: Option<&Bound<'_, PyAny>>,
        series: Option<&Bound<'_, PyAny>>,
        algorithms: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let (wrong, opened) = (Wrong::default(), Opened::default());
        let Asked {
            mut resolved,
            in_python,
        } = options::read(scenario, options, algorithms, &wrong, &opened)?;
        let about = about(py, &resolved, scenario, options, &opened)?;
        resolved.scenario.series = self::series(series)?;
        let mut windows = Vec::new();
        for flow in &mut resolved.scenario.flows {
            windows.push((flow.algorithm == EXTERNAL).then(|| {
                let external = External::default();
                let window = external.window.clone();
                flow.controller = Instance::new(external);
                window
            }));
        }
        let watch = Watch {
            wrong: wrong.clone(),
            stop: None,
        };
        let simulation = guarded(|| {
            let simulation = alcc_sim::Simulation::with_probe(&resolved.scenario, watch);
            simulation.map_err(crate::errors::simulation)
        })?;
        let running = Mutex::new(Running {
            simulation,
            resolved,
            about,
            failed: false,
        });
        Ok(Self {
            running,
            windows,
            in_python,
            wrong,
        })
    }

    /// Simulated time since the start, s.
    #[getter]
    fn now_s(&self) -> PyResult<f64> {
        Ok(self
            .lock()?
            .simulation
            .now()
            .since(Time::ZERO)
            .as_secs_f64())
    }

    /// End of the measured window, s, as far as it is known.
    #[getter]
    fn end_s(&self) -> PyResult<f64> {
        Ok(self
            .lock()?
            .simulation
            .end()
            .since(Time::ZERO)
            .as_secs_f64())
    }

    /// True after the end of the window: nothing more will happen.
    #[getter]
    fn is_over(&self) -> PyResult<bool> {
        Ok(self.lock()?.simulation.is_over())
    }

    /// Advances by `span`, such as "20ms". Returns False when the simulation is over.
    fn step(&self, py: Python<'_>, span: &Bound<'_, PyAny>) -> PyResult<bool> {
        // With none the caller's loop would never end.
        let span = self::span("step", span)?;
        self.until(py, |now| now + span)
    }

    /// Advances to `time_s`, simulated time in s. Returns False when the simulation is over.
    fn run_until(&self, py: Python<'_>, time_s: &Bound<'_, PyAny>) -> PyResult<bool> {
        let time_s = number("run_until", time_s, "seconds from 0 on")?;
        if time_s.is_nan() || time_s < 0.0 {
            return Err(scenario(format!(
                "run_until: {time_s:?} is not a time: expected seconds from 0 on"
            )));
        }
        self.until(py, |_| Time::ZERO + Span::from_secs_f64(time_s))
    }

    /// Runs to the end.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        self.until(py, |_| Time::MAX).map(drop)
    }

    /// State of flow number `number`, from 0.
    #[pyo3(signature = (number = None), text_signature = "($self, number=0)")]
    fn flow(&self, number: Option<&Bound<'_, PyAny>>) -> PyResult<PyFlowStatus> {
        Ok((&self.status(number)?).into())
    }

    /// The algorithm's own values for plots, by name.
    #[pyo3(signature = (number = None), text_signature = "($self, number=0)")]
    fn gauges<'py>(
        &self,
        py: Python<'py>,
        number: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let gauges = PyDict::new(py);
        for (name, value) in self.status(number)?.gauges {
            gauges.set_item(name, value)?;
        }
        Ok(gauges)
    }

    /// Sets the window of flow number `number`, which is called "external": bytes. Less than a
    /// segment is a segment. It applies from the next acknowledgement on.
    #[pyo3(signature = (window_bytes, number = None), text_signature = "($self, window_bytes, number=0)")]
    fn set_window(
        &self,
        window_bytes: &Bound<'_, PyAny>,
        number: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let number = self.number(number)?;
        let window = &self.windows[number];
        let Some(window) = window else {
            return Err(scenario(format!(
                "set_window: flow {number} has an algorithm: call the flow \"external\""
            )));
        };
        let want = "bytes, a number from 0 on";
        let window_bytes = arguments::number("set_window", window_bytes, want)?;
        if !(window_bytes.is_finite() && window_bytes >= 0.0) {
            return Err(scenario(format!(
                "set_window: {window_bytes:?}: expected {want}"
            )));
        }
        window.store((window_bytes as u64).max(1), Ordering::Relaxed);
        Ok(())
    }

    /// Results of the window so far.
    fn result(&self) -> PyResult<PyResult_> {
        let mut running = self.lock()?;
        let report = running.simulation.report();
        let simulated = Simulated::of(&running.resolved, &report);
        Ok(PyResult_ {
            about: running.about.clone(),
            simulated,
            report,
        })
    }
}

impl Simulation {
    /// The number of an existing flow; the default is the first.
    fn number(&self, given: Option<&Bound<'_, PyAny>>) -> PyResult<usize> {
        let Some(given) = given else { return Ok(0) };
        let number = count("flow", given)?.and_then(|n| usize::try_from(n).ok());
        number.filter(|n| *n < self.windows.len()).ok_or_else(|| {
            let last = self.windows.len() - 1;
            scenario(format!("flow {given}: there are flows 0 to {last}"))
        })
    }

    fn status(&self, number: Option<&Bound<'_, PyAny>>) -> PyResult<FlowStatus> {
        let number = self.number(number)?;
        let mut running = self.lock()?;
        let status = guarded(|| Ok(running.simulation.flow(number)))?;
        // It asked a controller for its gauges.
        if let Some(error) = self.wrong.take() {
            running.failed = true;
            return Err(error);
        }
        status.ok_or_else(|| simulation(format!("flow {number}: it has no state")))
    }
}
