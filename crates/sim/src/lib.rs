// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A deterministic simulator of flows that share one bottleneck path.
//!
//! Describe a [`Scenario`], [`run`] it, read the [`Report`]. The same scenario gives the same report, bit for bit: time is
//! an integer, events of one instant have a fixed order, and all chance comes from the scenario's seed.
//!
//! The path is the same code that the emulator runs (`alcc-link`), the algorithms are those of `alcc-cc`, and an algorithm
//! above TCP is the same `alcc_flow::OverTcp` that the runtime uses, here on top of a simulated kernel connection.
//! To change what hosts do, start with the files in `host/`; to change what is measured, with `meter.rs`.
#![forbid(unsafe_code)]

mod engine;
mod host;
mod meter;
mod pacer;
mod queue;
mod receiver;
mod report;
mod scenario;
mod scoreboard;

pub use engine::run;
pub use host::over_tcp::Timing;
pub use host::tcp_window::TcpCc;
pub use meter::Summary;
pub use report::{FlowReport, Gauge, Report, Sample};
pub use scenario::{FlowError, FlowSpec, Scenario, Under};
