// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors as the exceptions of `alcc._errors`, and code that may panic.
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Simulations within the controllers of simulations: deeper ones would use up the stack.
const MAX_DEPTH: u32 = 8;

/// Maximum number of characters of a message. A longer one contains a value whose middle is left
/// out.
const MAX_MESSAGE: usize = 1000;

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The message as one line that fits on a screen, with the attempt at its start and the remedy at its
/// end.
#[pyfunction]
pub(crate) fn one_line(message: &str) -> String {
    let mut line = String::with_capacity(message.len());
    for c in message.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    shortened(line, MAX_MESSAGE)
}

/// The beginning and the end of a text of more than `most` characters.
pub(crate) fn shortened(text: String, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text;
    }
    let first: String = text.chars().take(most / 2).collect();
    let last: String = text.chars().skip(count - most / 2).collect();
    format!("{first} ... {last}")
}

/// Message of a foreign exception, with its type.
pub(crate) fn said(py: Python<'_>, cause: &PyErr) -> String {
    let kind = cause.get_type(py).name().map(|name| name.to_string());
    let text = cause.value(py).str().map(|text| text.to_string());
    let (kind, text) = (kind.unwrap_or_default(), text.unwrap_or_default());
    format!("{kind}: {text}")
}

/// The exception `class` of `alcc._errors`.
pub(crate) fn error(class: &str, message: impl std::fmt::Display) -> PyErr {
    Python::attach(|py| {
        let message = one_line(&message.to_string());
        let made = py
            .import("alcc._errors")
            .and_then(|module| module.getattr(class)?.call1((message,)));
        match made {
            Ok(error) => PyErr::from_value(error),
            Err(error) => error,
        }
    })
}

/// A `ScenarioError`.
pub(crate) fn scenario(message: impl std::fmt::Display) -> PyErr {
    error("ScenarioError", in_python(&message.to_string()))
}

/// The message with arguments in the place of the command line's options: `unit=kbit` for
/// `--unit kbit`. This package has no program.
fn in_python(message: &str) -> String {
    let message = message.replace("alcc-lab trace convert", "alcc.Trace.from_rates");
    let mut parts = message.split("--");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_lowercase() && c != '-');
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        if name.is_empty() || !text.ends_with([' ', '(']) {
            text.extend(["--", part]);
            continue;
        }
        text.push_str(&name.replace('-', "_"));
        match rest.strip_prefix(' ') {
            Some(value) => text.extend(["=", value]),
            None => text.push_str(rest),
        }
    }
    text
}

/// A `SimulationError`.
pub(crate) fn simulation(message: impl std::fmt::Display) -> PyErr {
    error("SimulationError", message)
}

/// Panics are kept for the exception, and not printed. This library has a standard library of its
/// own, so the hook is for no other code.
pub(crate) fn keep_panics() {
    std::panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let place = info
            .location()
            .map_or_else(String::new, |l| format!(" at {l}"));
        let said = format!("{}{place}", text.unwrap_or("a panic without words"));
        PANIC.with(|last| *last.borrow_mut() = Some(said));
    }));
}

/// Runs `work`. A panic becomes an `InternalError`.
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let depth = DEPTH.get();
    if depth >= MAX_DEPTH {
        return Err(simulation(format!(
            "simulate within a controller, {depth} deep: do not simulate in a controller's methods"
        )));
    }
    DEPTH.set(depth + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(depth);
    done.unwrap_or_else(|_| {
        let said = PANIC.with(|last| last.borrow_mut().take());
        let said = said.unwrap_or_default();
        Err(error(
            "InternalError",
            format!("a defect in alcc, please report it: {said}"),
        ))
    })
}

/// The first error in Python code during a simulation.
#[derive(Clone, Default)]
pub(crate) struct Wrong(Arc<(AtomicBool, Mutex<Option<PyErr>>)>);

impl Wrong {
    /// Keeps `error` if it is the first.
    pub(crate) fn put(&self, error: PyErr) {
        let mut slot = self.0.1.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(error);
        self.0.0.store(true, Ordering::Relaxed);
    }

    /// True if there is one.
    pub(crate) fn is(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    /// The error, if there is one.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0
            .1
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
