// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A deterministic simulator of flows over links in a row.
//!
//! Describe a [`Scenario`], [`run`] it, read the [`Report`]; or go through it in steps with a
//! [`Simulation`]. The same scenario gives the same report, bit for bit. Time is an integer, events
//! of one instant have a fixed order, and all randomness comes from the scenario's seed.
//!
//! The path is the same code that the emulator runs (`alcc-link`). The algorithms are those of
//! `alcc-cc`. An algorithm over TCP is the same `alcc_flow::OverTcp` that the runtime uses, here
//! on top of a simulated kernel connection. To change what hosts do, start with the files in
//! `host/`; to change what is measured, with `meter.rs`.
#![forbid(unsafe_code)]

mod engine;
pub mod fairness;
mod flow;
mod flow_spec;
mod histogram;
mod host;
mod meter;
mod network;
mod probe;
mod processes;
mod receiver;
mod report;
mod scenario;
mod source;
mod timers;
mod traffic;

pub use alcc_flow::{Ack, FoundLost, LossSign, Range};
pub use engine::{Simulation, run, run_with};
pub use flow_spec::{
    FLOW_HELP, FlowError, FlowSpec, FlowText, Parts, TRANSPORTS, Transport, Under,
};
pub use histogram::Summary;
pub use host::over_tcp::{Kernel, Timing};
pub use network::LinkCounters;
pub use probe::{
    AlgorithmEvent, FlowState, LinkDir, PacketContent, PacketEvent, PacketStep, Probe,
};
pub use report::{FlowReport, FlowStatus, Gauge, LinkReport, Report, Sample};
pub use scenario::{LinkSpec, Scenario, SimError};
pub use source::Source;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
