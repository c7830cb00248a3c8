// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the whole controller.
pub(super) mod bench;
pub(super) mod bottleneck;
mod events;
mod queue;
