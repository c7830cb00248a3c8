// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Controllers written in Python, and one whose window is set from outside.
use crate::arguments::{number, shown};
use crate::errors::{Wrong, error, said, scenario};
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Instance, LossBatch, Needs,
    OptionDoc, Options, Path, Rto,
};
use alcc_units::{Bytes, Rate, Span, Time};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Initial window until a controller sets another one: RFC 6928.
const FIRST_WINDOW: u64 = 10;
/// Bounds of a pacing rate, as `alcc_cc::Allowance` has them, bit/s.
const RATES: (f64, f64) = (8e3, 1e12);
const WANT: &str = "expected a window in bytes (a number from 0 on) or an alcc.Allowance";

/// Limits that a controller sets: the result of its methods.
///
/// window_bytes: bytes in flight must not exceed this; None for no window. rate_mbps: pacing rate;
/// None for no pacing. timer_s: simulated time at which on_timer(now_s) is to be called; None for
/// never.
#[pyclass(frozen, get_all, name = "Allowance", module = "alcc")]
pub(crate) struct PyAllowance {
    window_bytes: Option<f64>,
    rate_mbps: Option<f64>,
    timer_s: Option<f64>,
}

#[pymethods]
impl PyAllowance {
    #[new]
    #[pyo3(signature = (*, window_bytes=None, rate_mbps=None, timer_s=None))]
    fn new(
        window_bytes: Option<&Bound<'_, PyAny>>,
        rate_mbps: Option<&Bound<'_, PyAny>>,
        timer_s: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let read = |name, value: Option<&Bound<'_, PyAny>>| {
            value
                .map(|v| number(name, v, "a number or None"))
                .transpose()
        };
        Ok(Self {
            window_bytes: read("window_bytes", window_bytes)?,
            rate_mbps: read("rate_mbps", rate_mbps)?,
            timer_s: read("timer_s", timer_s)?,
        })
    }
}

/// The path as known when a flow starts.
#[pyclass(frozen, get_all, name = "Path", module = "alcc")]
pub(crate) struct PyPath {
    /// Simulated time, s.
    now_s: f64,
    /// Largest segment, bytes.
    mss_bytes: u64,
    /// Seed of the controller's random numbers.
    seed: u64,
}

/// Acknowledged packets.
#[pyclass(frozen, get_all, module = "alcc")]
pub(crate) struct Ack {
    /// Simulated time, s.
    now_s: f64,
    /// Payload acknowledged now, bytes.
    acked_bytes: u64,
    /// Round-trip time of the newest of these packets, ms; None if ambiguous.
    rtt_ms: Option<f64>,
    /// Smallest round-trip time so far, ms.
    min_rtt_ms: f64,
    /// Smoothed round-trip time (RFC 6298), ms.
    smoothed_rtt_ms: f64,
    /// Payload in flight, bytes.
    in_flight_bytes: u64,
    /// Payload delivered so far, bytes.
    delivered_bytes: u64,
    /// Delivery rate over the flight of the newest packet, Mbit/s.
    rate_mbps: Option<f64>,
    /// True if a round trip has just begun.
    round_start: bool,
    /// True if the window kept the sender from sending more.
    window_limited: bool,
    /// True if the sender is repairing losses.
    in_recovery: bool,
    /// Bytes that arrived with an ECN mark.
    marked_bytes: u64,
}

/// Lost packets.
#[pyclass(frozen, get_all, module = "alcc")]
pub(crate) struct Loss {
    /// Simulated time, s.
    now_s: f64,
    /// Payload lost, bytes.
    lost_bytes: u64,
    /// True for the first loss of an episode: reduce the window once for each episode.
    new_episode: bool,
    /// Payload in flight without the lost bytes, bytes.
    in_flight_bytes: u64,
}

/// Expiry of the retransmission timer.
#[pyclass(frozen, get_all, module = "alcc")]
pub(crate) struct Timeout {
    /// Simulated time, s.
    now_s: f64,
    /// 1 on the first expiry for the same data, then 2, 3, ...
    backoff: u32,
    /// Time since the last acknowledgement, s.
    silence_s: f64,
    /// Payload in flight, bytes.
    in_flight_bytes: u64,
}

fn seconds(time: Time) -> f64 {
    time.since(Time::ZERO).as_secs_f64()
}

/// A text that lives as long as the process, once for each: names of algorithms do.
fn interned(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(text) {
        return found;
    }
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    known.insert(text);
    text
}

/// The options of a class, once for each set of them.
fn interned_docs(docs: Vec<OptionDoc>) -> &'static [OptionDoc] {
    static KNOWN: Mutex<Vec<&'static [OptionDoc]>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |a: &OptionDoc, b: &OptionDoc| a.name == b.name && a.default == b.default;
    let equal = |found: &&&[OptionDoc]| {
        found.len() == docs.len() && found.iter().zip(&docs).all(|(a, b)| same(a, b))
    };
    if let Some(found) = known.iter().find(equal) {
        return found;
    }
    let docs: &'static [OptionDoc] = Box::leak(docs.into_boxed_slice());
    known.push(docs);
    docs
}

/// Name, default as text, default.
type Parameter = (String, String, Py<PyAny>);

/// A Python class as an algorithm called `name`. Its constructor's parameters are its options.
pub(crate) fn algorithm(
    name: &str,
    class: &Bound<'_, PyAny>,
    wrong: &Wrong,
) -> PyResult<Algorithm> {
    let py = class.py();
    let found = py
        .import("alcc._controller")?
        .call_method1("options", (class,))?;
    let (parameters, paced, ecn): (Vec<Parameter>, bool, bool) = found.extract()?;
    let docs = parameters.iter().map(|(name, text, _)| OptionDoc {
        name: interned(name),
        default: interned(text),
        help: "a parameter of the class",
    });
    let docs = docs.collect();
    let class = Arc::new(Class {
        name: class.getattr("__qualname__")?.extract()?,
        class: class.clone().unbind(),
        needs: Needs {
            paced,
            ecn,
            ..Needs::default()
        },
    });
    let made = AssertUnwindSafe((class, parameters, wrong.clone()));
    let build = move |options: &Options<'_>| -> Built {
        let whole = &made;
        let (class, parameters, wrong) = &whole.0;
        Python::attach(|py| {
            let arguments = PyDict::new(py);
            for (name, _, default) in parameters {
                let Some(text) = options.text(name) else {
                    continue;
                };
                let read = py.import("alcc._controller").and_then(|module| {
                    let value = module.call_method1("read", (default, text))?;
                    arguments.set_item(name, value)
                });
                read.map_err(|e| options.wrong(name, e.value(py).to_string()))?;
            }
            Ok(Instance::new(PyController {
                class: class.clone(),
                arguments: Arc::new(arguments.unbind()),
                live: None,
                wrong: wrong.clone(),
                allowance: Allowance::window(Bytes::new(FIRST_WINDOW * 1448)),
                timer: None,
                mss: Bytes::new(1448),
                now: Time::ZERO,
            }))
        })
    };
    Ok(Algorithm {
        name: interned(name),
        summary: "a class of Python",
        profiles: Cow::Borrowed(&[]),
        options: interned_docs(docs),
        build: Build::Loaded {
            file: "python".into(),
            build: Arc::new(build),
        },
    })
}

/// State that all controllers of a class share.
struct Class {
    name: String,
    class: Py<PyAny>,
    needs: Needs,
}

/// An instance and its methods.
struct Live {
    object: Py<PyAny>,
    on_ack: Py<PyAny>,
    on_loss: Option<Py<PyAny>>,
    on_timeout: Option<Py<PyAny>>,
    on_timer: Option<Py<PyAny>>,
}

impl Live {
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let method = |name: &str| object.getattr_opt(name).map(|m| m.map(Bound::unbind));
        Ok(Self {
            on_ack: object.getattr("on_ack")?.unbind(),
            on_loss: method("on_loss")?,
            on_timeout: method("on_timeout")?,
            on_timer: method("on_timer")?,
            object: object.clone().unbind(),
        })
    }
}

/// A controller whose methods are those of a Python object.
struct PyController {
    class: Arc<Class>,
    arguments: Arc<Py<PyDict>>,
    live: Option<Live>,
    wrong: Wrong,
    allowance: Allowance,
    timer: Option<Time>,
    mss: Bytes,
    /// Simulated time of the last call.
    now: Time,
}

impl PyController {
    /// Processes the result of a method. The first error ends the simulation; nothing is called
    /// after it.
    fn told(&mut self, py: Python<'_>, method: &str, now: Time, answer: PyResult<Py<PyAny>>) {
        let answer = answer.map_err(|cause| self.raised(py, method, now, cause));
        let done = answer.and_then(|answer| {
            self.take(answer.bind(py), now)
                .map_err(|found| self.failed(method, now, &format!("it answered {found}: {WANT}")))
        });
        if let Err(error) = done {
            self.wrong.put(error);
        }
    }

    fn failed(&self, method: &str, now: Time, what: &str) -> PyErr {
        let message = format!("controller {}.{method} at {now}: {what}", self.class.name);
        error("ControllerError", message)
    }

    fn raised(&self, py: Python<'_>, method: &str, now: Time, cause: PyErr) -> PyErr {
        // The user's wish, and no fault of the controller.
        if cause.is_instance_of::<PyKeyboardInterrupt>(py) {
            return cause;
        }
        let error = self.failed(method, now, &format!("it raised {}", said(py, &cause)));
        error.set_cause(py, Some(cause));
        error
    }

    /// Applies a result; the error names the value.
    fn take(&mut self, answer: &Bound<'_, PyAny>, now: Time) -> Result<(), String> {
        let found = || shown(answer);
        let number = |value: f64| (value.is_finite() && value >= 0.0).then_some(value);
        if let Ok(allowance) = answer.cast::<PyAllowance>() {
            let allowance = allowance.get();
            let window = allowance
                .window_bytes
                .map(|w| number(w).ok_or(w))
                .transpose();
            let window = window.map_err(|w| format!("window_bytes={w:?}"))?;
            let rate = allowance.rate_mbps.map(|r| number(r).ok_or(r)).transpose();
            let rate = rate.map_err(|r| format!("rate_mbps={r:?}"))?;
            let timer = allowance.timer_s.map(|t| number(t).ok_or(t)).transpose();
            let timer = timer.map_err(|t| format!("timer_s={t:?}"))?;
            if let (Some(at), true) = (
                timer,
                self.live.as_ref().is_none_or(|l| l.on_timer.is_none()),
            ) {
                return Err(format!("timer_s={at:?}, but it has no method on_timer"));
            }
            self.allowance = Allowance {
                window: window.map_or(Bytes::MAX, |w| self.window(w)),
                rate: rate.map(|r| Rate::bps_f64((r * 1e6).clamp(RATES.0, RATES.1))),
                ..Allowance::UNLIMITED
            };
            let timer = timer.map(|t| Time::ZERO + Span::from_secs_f64(t));
            // One that is due already would be due again and again.
            self.timer = timer.filter(|at| *at > now);
            return Ok(());
        }
        // A string with a number in it is not a number, and neither is True.
        if answer.is_none() || answer.is_instance_of::<pyo3::types::PyBool>() {
            return Err(found());
        }
        let window = answer
            .extract::<f64>()
            .ok()
            .and_then(number)
            .ok_or_else(found)?;
        self.allowance = Allowance::window(self.window(window));
        self.timer = None;
        Ok(())
    }

    /// A window of at least one segment, because a smaller one would stop the flow for ever.
    fn window(&self, bytes: f64) -> Bytes {
        Bytes::new(bytes as u64).max(self.mss)
    }

    /// Passes on the dictionary `gauges`; a value of None is unknown.
    fn tell_gauges(
        &self,
        object: &Bound<'_, PyAny>,
        put: &mut dyn FnMut(&'static str, f64),
    ) -> PyResult<()> {
        let found = object.getattr_opt("gauges");
        let found = found.map_err(|cause| self.raised(object.py(), "gauges", self.now, cause))?;
        let Some(found) = found.filter(|found| !found.is_none()) else {
            return Ok(());
        };
        let wrong = |what: &str| {
            let what = format!("it has {what}: expected a dictionary of numbers by name");
            self.failed("gauges", self.now, &what)
        };
        let gauges = found.cast::<PyDict>();
        for (name, value) in gauges.map_err(|_| wrong(&shown(&found)))?.iter() {
            if value.is_none() {
                continue;
            }
            let (Ok(text), Ok(number)) = (name.cast::<PyString>(), value.extract()) else {
                return Err(wrong(&format!("{}: {}", shown(&name), shown(&value))));
            };
            put(interned(&text.to_string_lossy()), number);
        }
        Ok(())
    }

    /// Calls `method` if the object has it and nothing went wrong before.
    fn call<A: for<'py> IntoPyObject<'py>>(
        &mut self,
        name: &str,
        now: Time,
        method: impl FnOnce(&Live) -> Option<&Py<PyAny>>,
        argument: impl FnOnce() -> A,
    ) {
        if self.wrong.is() {
            return;
        }
        self.now = now;
        Python::attach(|py| {
            let method = self.live.as_ref().and_then(method);
            let Some(answer) = method.map(|method| method.call1(py, (argument(),))) else {
                return;
            };
            self.told(py, name, now, answer);
        });
    }
}

impl Controller for PyController {
    fn needs(&self) -> Needs {
        self.class.needs
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.allowance = Allowance::window(Bytes::new(FIRST_WINDOW * path.mss.get()));
        if self.wrong.is() {
            return;
        }
        let now = cx.now;
        self.now = now;
        Python::attach(|py| {
            let arguments = self.arguments.bind(py);
            let made = self.class.class.bind(py).call((), Some(arguments));
            match made.and_then(|object| Live::new(&object)) {
                Ok(live) => self.live = Some(live),
                Err(cause) => self.wrong.put(self.raised(py, "__init__", now, cause)),
            }
            let Some(live) = &self.live else { return };
            let on_start = live.object.bind(py).getattr_opt("on_start");
            let start = PyPath {
                now_s: seconds(now),
                mss_bytes: path.mss.get(),
                seed: path.seed,
            };
            let answer = on_start.and_then(|method| method.map(|m| m.call1((start,))).transpose());
            if let Some(answer) = answer.map(|a| a.map(Bound::unbind)).transpose() {
                self.told(py, "on_start", now, answer);
            }
        });
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.call(
            "on_ack",
            cx.now,
            |live| Some(&live.on_ack),
            || Ack {
                now_s: seconds(cx.now),
                acked_bytes: ack.acked.iter().map(|p| p.len.get()).sum(),
                rtt_ms: ack
                    .acked
                    .iter()
                    .rev()
                    .find_map(|p| p.rtt)
                    .map(Span::as_millis_f64),
                min_rtt_ms: ack.rtt.min.as_millis_f64(),
                smoothed_rtt_ms: ack.rtt.smoothed.as_millis_f64(),
                in_flight_bytes: ack.in_flight.get(),
                delivered_bytes: ack.delivered.get(),
                rate_mbps: ack.rate.map(Rate::as_mbps_f64),
                round_start: ack.round_start,
                window_limited: ack.limited.window,
                in_recovery: ack.in_recovery,
                marked_bytes: ack.marked.get(),
            },
        );
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.call(
            "on_loss",
            cx.now,
            |live| live.on_loss.as_ref(),
            || Loss {
                now_s: seconds(cx.now),
                lost_bytes: loss.lost.iter().map(|p| p.len.get()).sum(),
                new_episode: loss.new_episode,
                in_flight_bytes: loss.in_flight.get(),
            },
        );
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.call(
            "on_timeout",
            cx.now,
            |live| live.on_timeout.as_ref(),
            || Timeout {
                now_s: seconds(cx.now),
                backoff: rto.backoff,
                silence_s: rto.silence.as_secs_f64(),
                in_flight_bytes: rto.in_flight.get(),
            },
        );
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
        self.allowance.window = self.allowance.window.max(mss);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.timer = None;
        self.call(
            "on_timer",
            cx.now,
            |live| live.on_timer.as_ref(),
            || seconds(cx.now),
        );
    }

    fn allowance(&self) -> Allowance {
        self.allowance
    }

    fn next_timer(&self) -> Option<Time> {
        self.timer
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        let Some(live) = &self.live else { return };
        if self.wrong.is() {
            return;
        }
        Python::attach(|py| {
            if let Err(error) = self.tell_gauges(live.object.bind(py), put) {
                self.wrong.put(error);
            }
        });
    }
}

impl Clone for PyController {
    fn clone(&self) -> Self {
        Python::attach(|py| {
            let copy = |live: &Live| -> PyResult<Live> {
                let copied = py
                    .import("copy")?
                    .call_method1("deepcopy", (&live.object,))?;
                Live::new(&copied)
            };
            let live = self.live.as_ref().map(copy).transpose();
            let live = live.unwrap_or_else(|cause| {
                self.wrong
                    .put(self.raised(py, "__deepcopy__", self.now, cause));
                None
            });
            Self {
                class: self.class.clone(),
                arguments: self.arguments.clone(),
                live,
                wrong: self.wrong.clone(),
                allowance: self.allowance,
                timer: self.timer,
                mss: self.mss,
                now: self.now,
            }
        })
    }
}

/// Name of flows whose window is set by Simulation.set_window().
pub(crate) const EXTERNAL: &str = "external";

/// An algorithm whose window is set from outside; the real one is put in later.
pub(crate) fn external() -> Algorithm {
    Algorithm {
        name: EXTERNAL,
        summary: "a window that is set from outside",
        profiles: Cow::Borrowed(&[]),
        options: &[],
        build: Build::Function(|_| Ok(Instance::new(External::default()))),
    }
}

/// A controller whose window is set from outside.
#[derive(Clone, Default)]
pub(crate) struct External {
    /// Bytes; 0 until it is set.
    pub(crate) window: Arc<AtomicU64>,
    mss: u64,
}

impl Controller for External {
    fn on_start(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss.get();
        let first = FIRST_WINDOW * self.mss;
        let _ = self
            .window
            .compare_exchange(0, first, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

    fn allowance(&self) -> Allowance {
        let window = self.window.load(Ordering::Relaxed).max(self.mss).max(1);
        Allowance::window(Bytes::new(window))
    }
}

/// Refuses a name that is not the name of an algorithm.
pub(crate) fn check_name(name: &str) -> PyResult<()> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if !name.is_empty() && name.chars().all(fits) {
        return Ok(());
    }
    Err(scenario(format!(
        "controller '{name}': expected a name of lower-case letters, digits, '-' and '_': give one by algorithms={{\"name\": Class}}"
    )))
}
