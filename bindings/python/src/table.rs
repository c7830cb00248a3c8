// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables by the Arrow PyCapsule interface: readers take the buffers as they are.
use crate::errors;
use alcc_results::row::{Kind, Value};
use alcc_results::{Row, samples};
use alcc_sim::Report;
use arrow_array::builder::{Float64Builder, StringBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, UInt64Array};
use arrow_schema::ArrowError;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A column while it is filled.
enum Column {
    Text(StringBuilder),
    Integer(UInt64Builder),
    Float(Float64Builder),
}

impl Column {
    /// `None` if the value is not a column.
    fn new(kind: Kind) -> Option<Self> {
        Some(match kind {
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Integer => Self::Integer(UInt64Builder::new()),
            Kind::Float => Self::Float(Float64Builder::new()),
            Kind::List => return None,
        })
    }

    /// A value of another kind is unknown.
    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Text(column), Value::Text(text)) => column.append_value(text),
            (Self::Integer(column), Value::Integer(n)) => column.append_value(n),
            (Self::Float(column), value) => column.append_option(value.number()),
            (Self::Text(column), _) => column.append_null(),
            (Self::Integer(column), _) => column.append_null(),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Text(mut column) => Arc::new(column.finish()),
            Self::Integer(mut column) => Arc::new(column.finish()),
            Self::Float(mut column) => Arc::new(column.finish()),
        }
    }
}

/// A table in Arrow's form.
///
/// `to_polars()`, `to_pandas()` and `to_pyarrow()` copy no numbers. Any other library that takes
/// Arrow data by the PyCapsule interface can read it, too.
#[pyclass(frozen, module = "alcc")]
pub(crate) struct Table(RecordBatch);

impl Table {
    fn new(columns: Vec<(&str, Column)>) -> PyResult<Self> {
        let columns = columns.into_iter();
        let columns = columns.map(|(name, column)| (name, column.finish(), true));
        RecordBatch::try_from_iter_with_nullable(columns)
            .map(Self)
            .map_err(|e| errors::error("InternalError", e))
    }

    /// The rows, with every field that can be a column.
    pub(crate) fn of_rows(rows: &[Row]) -> PyResult<Self> {
        let columns = Row::KINDS.iter();
        let columns = columns.filter_map(|(name, kind)| Some((*name, Column::new(*kind)?)));
        let mut columns: Vec<_> = columns.collect();
        for row in rows {
            let fields: BTreeMap<&str, Value<'_>> = row.fields().collect();
            for (name, column) in &mut columns {
                column.push(fields.get(name).copied().unwrap_or(Value::Unknown));
            }
        }
        Self::new(columns)
    }

    /// The time series.
    pub(crate) fn of_series(report: &Report) -> PyResult<Self> {
        let gauges = samples::gauges(report);
        let own = gauges.iter().map(|name| (*name, Kind::Float));
        let columns = samples::COLUMNS.iter().copied().chain(own);
        let columns = columns.filter_map(|(name, kind)| Some((name, Column::new(kind)?)));
        let mut columns: Vec<_> = columns.collect();
        for (number, flow) in report.flows.iter().enumerate() {
            for sample in &flow.series {
                let own = gauges.iter().map(|name| {
                    let gauge = samples::gauge(sample, name);
                    gauge.map_or(Value::Unknown, Value::Float)
                });
                let values = samples::values(number, flow, sample).into_iter().chain(own);
                for ((_, column), value) in columns.iter_mut().zip(values) {
                    column.push(value);
                }
            }
        }
        Self::new(columns)
    }

    /// One column of whole numbers.
    pub(crate) fn of_integers(name: &str, numbers: impl Iterator<Item = u64>) -> PyResult<Self> {
        let mut column = UInt64Builder::new();
        numbers.for_each(|n| column.append_value(n));
        Self::new(vec![(name, Column::Integer(column))])
    }
}

#[pymethods]
impl Table {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref());
        let schema = schema.map_err(|e| errors::error("InternalError", e))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer answer with its own schema.
        drop(requested_schema);
        let batches = [Ok::<_, ArrowError>(self.0.clone())];
        let batches = RecordBatchIterator::new(batches, self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.0.num_rows(), self.0.num_columns());
        format!("<alcc.Table of {rows} rows and {columns} columns>")
    }

    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.0.schema();
        schema.fields().iter().map(|f| f.name().clone()).collect()
    }

    /// The columns as lists, by name, for use without a data frame library.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        let schema = self.0.schema();
        for (field, array) in schema.fields().iter().zip(self.0.columns()) {
            let values = (0..array.len()).map(|row| cell(py, array, row));
            let values: Vec<_> = values.collect::<PyResult<_>>()?;
            columns.set_item(field.name(), values)?;
        }
        Ok(columns)
    }

    /// A polars.DataFrame over the same buffers.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        frame(slf, "to_polars")
    }

    /// A pandas.DataFrame with Arrow types over the same buffers.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        frame(slf, "to_pandas")
    }

    /// A pyarrow.Table over the same buffers.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        frame(slf, "to_pyarrow")
    }
}

fn cell<'py>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    if let Some(array) = array.as_any().downcast_ref::<Float64Array>() {
        return array.value(row).into_bound_py_any(py);
    }
    if let Some(array) = array.as_any().downcast_ref::<UInt64Array>() {
        return array.value(row).into_bound_py_any(py);
    }
    array.as_string::<i32>().value(row).into_bound_py_any(py)
}

fn frame<'py>(table: &Bound<'py, Table>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let frames = table.py().import("alcc._frames")?;
    frames.call_method1(name, (table,))
}
