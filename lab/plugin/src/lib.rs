// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The laboratory's algorithms, and its forms of the product's, as one plug-in: `alcc run --plugin
//! libalcc_lab.so --cc c4 -- nginx`, `--cc verus:profile=original`.
//!
//! The adaptor between a Rust [`Controller`](alcc_cc::Controller) and the table of C functions is
//! one for all: `create` receives the algorithm and profile. All algorithms and forms of
//! [`alcc_zoo`] are here, because all of them work over TCP. Not carried: events for a log, and the
//! points of a delay profile. Nothing over TCP reads them of a plug-in.
//!
//! A panic ends in the callback that met it. From then on the connection has a window of ten
//! segments, as with a plug-in that has no memory for a copy.
mod algorithm;
mod create;
mod receiver;
mod tables;

use alcc_plugin::abi::{ALCC_PLUGIN_ABI, alcc_algorithm};
use std::ptr::null;

/// A table that other threads may read.
#[repr(transparent)]
pub struct Exported(alcc_algorithm);

// SAFETY: nothing writes to it, and its pointers are NULL.
unsafe impl Sync for Exported {}

/// Symbol that the loader looks up: it names the function that returns the tables.
#[allow(non_upper_case_globals, reason = "the name is that of the interface")]
#[unsafe(no_mangle)]
pub static alcc_algorithm_v3: Exported = Exported(alcc_algorithm {
    list: Some(tables::list),
    ..EMPTY
});

/// A table without anything.
const EMPTY: alcc_algorithm = alcc_algorithm {
    abi: ALCC_PLUGIN_ABI,
    size: size_of::<alcc_algorithm>() as u32,
    name: null(),
    summary: null(),
    options: null(),
    option_count: 0,
    gauge_names: null(),
    gauge_count: 0,
    profile_names: null(),
    profile_count: 0,
    create: None,
    clone: None,
    destroy: None,
    allowance: None,
    on_ack: None,
    needs: None,
    on_start: None,
    on_sent: None,
    on_loss: None,
    on_rto: None,
    on_spurious: None,
    on_recovery_end: None,
    on_idle_restart: None,
    on_mtu: None,
    on_timer: None,
    next_timer: None,
    gauges: None,
    release_memory: None,
    receiver: null(),
    list: None,
};
