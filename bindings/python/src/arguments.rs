// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Arguments of a wrong type: which, what was found, what would be right.
use crate::errors::{scenario, shortened};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyFloat, PyInt, PyString};
use std::path::PathBuf;

/// Characters of a value in a message.
const MAX_SHOWN: usize = 60;

/// A value in a message.
pub(crate) fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(
        |_| "an object".to_owned(),
        |text| shortened(text.to_string(), MAX_SHOWN),
    )
}

/// `name` is not what it should be.
pub(crate) fn wrong(name: &str, value: &Bound<'_, PyAny>, want: &str) -> PyErr {
    let found = value.get_type().name();
    let found = found.map_or_else(|_| "unknown".to_owned(), |n| n.to_string());
    scenario(format!(
        "{name}: found a value of type {found}, expected {want}"
    ))
}

/// A text.
pub(crate) fn text(name: &str, value: &Bound<'_, PyAny>, want: &str) -> PyResult<String> {
    if !value.is_instance_of::<PyString>() {
        return Err(wrong(name, value, want));
    }
    value.extract().map_err(|_| {
        // Half of a surrogate pair, which no encoding knows.
        scenario(format!(
            "{name}: found a text that is not Unicode, expected {want}"
        ))
    })
}

/// A text, a number or a length of time as it would be typed; `None`: it is none of these.
pub(crate) fn written(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if value.is_instance_of::<PyBool>() {
        return Ok(None);
    }
    if value.is_instance_of::<PyString>() {
        return text(name, value, "a text").map(Some);
    }
    if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        long(name, value)?;
        return Ok(Some(value.str()?.to_string()));
    }
    if let Ok(span) = value.cast::<PyDelta>() {
        let seconds: f64 = span.call_method0("total_seconds")?.extract()?;
        return Ok(Some(format!("{seconds}s")));
    }
    // NumPy's integers are not of type int.
    Ok(value
        .extract::<i128>()
        .ok()
        .map(|number| number.to_string()))
}

/// The name of a file.
pub(crate) fn path(name: &str, value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let read = value.extract();
    read.map_err(|_| wrong(name, value, "the name of a file, a text or a path"))
}

/// A number.
pub(crate) fn number(name: &str, value: &Bound<'_, PyAny>, want: &str) -> PyResult<f64> {
    if value.is_instance_of::<PyString>() {
        return Err(wrong(name, value, want));
    }
    value.extract().map_err(|_| match long(name, value) {
        Ok(()) => wrong(name, value, want),
        Err(error) => error,
    })
}

/// Refuses a whole number that is too long to be written out.
pub(crate) fn long(name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if !value.is_instance_of::<PyInt>() || value.extract::<i128>().is_ok() {
        return Ok(());
    }
    let bits: u64 = value.call_method0("bit_length")?.extract()?;
    Err(scenario(format!(
        "{name}: found a whole number of {bits} bits, expected one of at most 64"
    )))
}

/// A whole number from 0 on; `None`: it is another one.
pub(crate) fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    long(name, value)?;
    if value.is_instance_of::<PyInt>() {
        return Ok(value.extract().ok());
    }
    // NumPy's integers are not of type int.
    let read = value.extract::<i128>();
    let read = read.map_err(|_| wrong(name, value, "a whole number from 0 on"))?;
    Ok(read.try_into().ok())
}
