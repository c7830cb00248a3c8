// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of links whose capacity changes all the time.
//!
//! A trace is a list of *delivery opportunities*: moments at which the link could have delivered one packet of
//! [`OPPORTUNITY`] bytes. The file format is Mahimahi's: one line per opportunity, whole milliseconds since the start,
//! never decreasing; the last line is also the length of the trace, which then repeats from the start.
//!
//! Start with [`Trace`]; [`Trace::cursor`] is what a link model walks along.
#![forbid(unsafe_code)]

mod cursor;
mod error;
mod parse;
mod trace;

pub use cursor::Opportunities;
pub use error::TraceError;
pub use trace::{MAX_OPPORTUNITIES, OPPORTUNITY, Trace};
