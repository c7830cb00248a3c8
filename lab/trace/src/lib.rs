// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of links with varying capacity.
//!
//! A trace is a list of *delivery opportunities*: moments at which the link could have delivered
//! one packet of [`OPPORTUNITY`] bytes. The file format is Mahimahi's. It has one line per
//! opportunity, in whole milliseconds since the start, never decreasing. The last line is also the
//! length of the trace, which then repeats from the start.
//!
//! Start with [`Trace`]; [`Trace::cursor`] iterates over it for a link model. [`Trace::stats`]
//! measures it, and [`scenario`] finds a synthetic one by name.
#![forbid(unsafe_code)]

mod calibration;
mod convert;
mod cursor;
mod edit;
mod error;
mod model;
mod parse;
mod predict;
mod rates;
mod scenario;
mod stats;
mod trace;

pub use calibration::{Agreement, Figure, compare};
pub use cursor::Opportunities;
pub use error::TraceError;
pub use model::{BLOCK, Gaps, Level, MAX_LENGTH, Model, Outages, Swing};
pub use parse::read_text;
pub use predict::{PredictionError, Predictions};
pub use rates::RatesForm;
pub use scenario::{SCENARIOS, Scenario, scenario};
pub use stats::{Bursts, Distribution, OUTAGE, Stats};
pub use trace::{MAX_OPPORTUNITIES, OPPORTUNITY, Trace};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
