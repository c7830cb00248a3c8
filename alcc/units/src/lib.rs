// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The units that every crate of this workspace uses, and a seeded generator.
//!
//! All are integers underneath, so that a computation gives the same bits on every platform.
//! Arithmetic saturates: no input can make it panic or wrap.
//!
//! | type | unit | range |
//! |---|---|---|
//! | [`Time`] | ns since an origin that the host chooses | 584 years |
//! | [`Span`] | ns | 584 years |
//! | [`Bytes`] | bytes | 2^64 - 1 |
//! | [`Rate`] | bit/s | 2^64 - 1 |
//!
//! The feature `row` adds [`row::Row`]: the fields and units of everything that is measured. [`Spec`] is the form
//! `name:option=value,...` in which people choose algorithms and queues.
#![forbid(unsafe_code)]

mod build_id;
mod bytes;
#[cfg(feature = "distribution")]
mod distribution;
mod numbers;
mod parse;
mod rate;
mod rng;
#[cfg(feature = "row")]
pub mod row;
mod spec;
mod system;
mod text;
mod time;

pub use build_id::build_id;
pub use bytes::Bytes;
#[cfg(feature = "distribution")]
pub use distribution::Distribution;
pub use numbers::{percentile, signed, sum};
pub use parse::{Quantity, UnitError, positive, want_number};
pub use rate::Rate;
pub use rng::Rng;
pub use spec::{OptionDoc, Options, Reader, Spec, SpecError, nearest};
pub use system::{read_bounded, reason};
pub use text::{is_printable, one_line};
pub use time::{Span, Time};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
