// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the whole controller.
#[allow(dead_code, reason = "other forms use the rest (lab/zoo)")]
pub(super) mod bench;
#[allow(dead_code, reason = "other forms use the rest (lab/zoo)")]
pub(super) mod bottleneck;
mod events;
mod queue;
