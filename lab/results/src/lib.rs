// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Results: rows of measurements, and what is computed from them.
//!
//! Rows have the same fields and units everywhere: JSON, CSV, reports and bindings. Nothing here
//! reads a file, a clock or a socket.
//!
//! | module | what it does |
//! |---|---|
//! | [`row`] | the fields of a measured flow |
//! | [`groups`] | repetitions, and their spread |
//! | [`mod@summary`] | Pareto fronts, means over links, one sentence |
//! | [`pairs`] | an algorithm over TCP compared with its native form |
//! | [`twins`] | simulated counterparts compared with real programs |
//! | [`tolerance`] | distances from a reference and their bounds |
//! | [`crowd`] | several flows as one row, and their fairness |
//! | [`samples`] | the time series of a simulated run |
//! | [`simulated`] | rows from the simulator's report |
//! | [`scenario`] | scenarios from options and TOML |
#![forbid(unsafe_code)]

pub mod crowd;
pub mod groups;
pub mod pairs;
mod profiles;
mod results;
pub mod row;
pub mod samples;
pub mod scenario;
mod series;
pub mod simulated;
pub mod summary;
pub mod tolerance;
pub mod twins;

pub use alcc_units::{Distribution, percentile, signed, sum};
pub use groups::{Group, Spread, mean_and_ci95};
pub use pairs::Pair;
pub use profiles::{DrawnProfile, FIGURES as PROFILE_FIGURES, Profiles};
pub use results::{About, InputFile, Results, metadata_of_csv};
pub use row::{Configured, EMULATED, Row, SIMULATED, csv};
pub use series::{Series, quantiles};
pub use summary::{Overall, Summary, summary};
pub use tolerance::{Compared, Tolerance};
pub use twins::Twin;
