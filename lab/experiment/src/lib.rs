// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments as files: a scenario, what is varied, and what is expected of the results.
//!
//! | module | what it does |
//! |---|---|
//! | [`definition`] | `experiment.toml`: what it may say |
//! | [`plan`] | the cells of the sweep, and the runs of each cell |
//! | [`run`] | the runs: simulated, or of real programs |
//! | [`seconds`] | what is kept of a flow's single seconds |
//! | [`judge`] | the values of cells, the expectations, the verdict |
//! | [`each`] | expectations about each cell, and their tables |
//! | [`channel`] | figures of a trace alone |
//! | [`picture`] | the figures |
//! | [`profile_picture`] | learned delay profiles |
//! | [`page`] | the site: an index, and a page for each experiment |
//! | [`results`] | the stored results with the checksums of their inputs, and their page |
//! | [`board`] | every algorithm everywhere, and the default that follows |
//! | [`applications`] | the stored figures of real applications, and their page |
//! | [`table`] | the data as CSV and as Parquet |
//! | [`sweep`] | an experiment from options, with nothing to judge |
//! | [`worst`] | a search over drawn scenarios |
//! | [`catalogue`] | the experiments that the program carries |
#![forbid(unsafe_code)]

pub mod applications;
pub mod board;
mod bounds;
mod by_number;
pub mod catalogue;
pub mod channel;
pub mod definition;
mod distribution_picture;
pub mod each;
pub mod judge;
pub mod page;
pub mod picture;
pub mod plan;
mod population_picture;
pub mod profile_picture;
pub mod results;
pub mod run;
pub mod seconds;
mod seconds_picture;
mod signs;
pub mod stored;
pub mod sweep;
pub mod table;
pub mod worst;

pub use definition::Definition;
pub use judge::{Judgement, Verdict};
pub use plan::Plan;
pub use run::Run;
