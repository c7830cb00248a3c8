// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments with real programs on emulated links, and their results.
//!
//! An experiment lets a sender and a receiver talk over an emulated link and yields one [`Row`] per
//! measured flow. Either an unmodified nginx and curl, watched from the outside, or one of this
//! project's transports between two threads. Rows have the same fields and units everywhere: JSON,
//! CSV, report.
//!
//! | module | what it does |
//! |---|---|
//! | [`meter`] | throughput, delay and loss from the events at the bottleneck |
//! | [`report`] | one self-contained HTML page |
//! | [`picture`] | throughput against delay, SVG |
//! | [`chart`], [`axis`] | every chart: curves, signs and areas on two axes, as SVG |
//! | [`live`] | runs the schemes at the same time, each on its own emulated link |
//! | [`applications`] | other real programs: FTP, a browser, video, a VPN |
//! | [`flows`] | the flows of one simulated run, for a figure |
//! | [`cells`] | the one loop over cells: what is stored is not repeated |
//! | [`simulated`] | the same rows from the simulator |
//! | [`truth`] | validation of the simulator with published figures |
//! | [`twin`] | simulated counterparts of emulated runs |
//! | [`pairs`] | an algorithm over TCP compared with its native form |
//! | [`capture`], [`qlog`] | a simulated run packet by packet, as pcap and as qlog |
//! | [`mdi`] | a random walk learned from another algorithm |
//! | [`board`] | score table, sentence and files of a comparison |
//! | [`sampler`] | samples of TCP connections from the outside |
//! | [`server`] | an nginx with its own configuration, plain or controlled |
//! | [`route`] | the kernel's congestion control per destination |
//! | [`forms`] | CPU cost of a download for the sender, for every form of control |
//! | [`cpu`] | CPU time of processes and of threads |
#![forbid(unsafe_code)]

pub mod applications;
pub mod axis;
pub mod board;
mod build;
pub mod capture;
pub mod cells;
pub mod chart;
mod client;
pub mod cpu;
mod error;
pub mod flows;
pub mod forms;
mod link;
pub mod live;
pub mod mdi;
pub mod meter;
pub mod pairs;
mod palette;
pub mod parallel;
pub mod picture;
mod program;
pub mod qlog;
pub mod report;
mod result_cache;
pub mod route;
pub mod sampler;
mod scheme;
pub mod server;
pub mod simulated;
mod tools;
mod transports;
pub mod truth;
pub mod twin;

pub use alcc_results::scenario::{parts, reason};
pub use alcc_results::{Distribution, Results, Row};
pub use build::build;
pub use error::LabError;
pub use link::{Link, Links, PathDefaults, Up};
pub use live::{Experiment, Measured, Times};
pub use meter::{Meter, Observed};
pub use result_cache::{hash_of_files, hash_of_text, input_files};
pub use scheme::{Scheme, Side, named_files};
pub use tools::Tools;
pub use transports::TRANSPORTS;
