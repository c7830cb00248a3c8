// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the whole controller.
mod bottleneck;
mod events;
mod queue;
