// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion control algorithms written in C. A plug-in is a shared object that defines one
//! constant, `alcc_algorithm_v3` ([`abi::alcc_algorithm`]). It has a name, options and callbacks.
//! [`load`] turns it into an [`Algorithm`] like any other, which runs wherever a [`Registry`] is
//! used: simulator, runtime, conformance suite.
//!
//! A plug-in may have several algorithms, and profiles for existing algorithms.
//!
//! The results of a plug-in are checked: windows, rates, quotas and timers are clamped to the
//! ranges of the contract of [`Controller`]. Its accesses to the process's memory cannot be
//! checked, so a plug-in is trusted code.
//!
//! A plug-in is never unloaded.

pub mod abi;
mod adaptor;
mod error;
mod load;
mod mirror;
mod receiver;
mod table;

#[cfg(doc)]
use alcc_cc::{Algorithm, Controller, Registry};
pub use error::PluginError;
pub use load::{ENV, env_value, load, load_all, read_text, with_env, with_files};
