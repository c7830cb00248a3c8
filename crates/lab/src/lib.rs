// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments and what comes out of them.
//!
//! An experiment lets real programs (an unmodified nginx, curl) talk over an emulated link, watches from the outside, and
//! yields one [`Row`] per measured flow. Rows have the same fields and units everywhere: JSON, CSV, report.
//!
//! | module | what it does |
//! |---|---|
//! | [`row`] | the fields of a result and the JSON object |
//! | [`meter`] | from what happens at the bottleneck to throughput, delay and loss |
//! | [`report`] | one self-contained HTML page |
//! | [`sampler`] | TCP connections seen from the outside |
#![forbid(unsafe_code)]

mod distribution;
pub mod meter;
pub mod report;
pub mod row;
pub mod sampler;

pub use meter::{Meter, Observed};
pub use row::{Results, Row};
