// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every algorithm has to keep, checked: call [`check`] from a test of your own crate.
mod path;
mod sender;

pub use path::{FlowResult, PACKET, Scenario, Service, capacity, run};
