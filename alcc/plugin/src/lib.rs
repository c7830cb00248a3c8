// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion control algorithms written in C. A plug-in is a shared object that defines one
//! constant, `alcc_algorithm_v3` ([`abi::alcc_algorithm`]). That has a name, options and callbacks.
//! [`load`] turns it into an [`Algorithm`] like any other. So it runs wherever a [`Registry`] is
//! asked: simulator, runtime, conformance suite.
//!
//! A plug-in may have several algorithms, and profiles for algorithms that are there already.
//!
//! What a plug-in answers is not believed. Windows, rates, quotas and timers are held in the range
//! of the contract of [`Controller`]. What it does to the memory of the process cannot be checked:
//! a plug-in is trusted code.
//!
//! A plug-in that has been loaded stays loaded for the life of the process.

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
