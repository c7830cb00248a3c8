// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Usage errors and failures of the environment: a line that helps, the right exit status, never a
//! panic.
#[path = "../../../../alcc/cli/tests/support/built.rs"]
mod built;
#[path = "../../../../alcc/bpf/tests/support/mod.rs"]
#[allow(dead_code, reason = "only the lock and the names are used")]
mod controls;
mod disk;
#[path = "../../../../alcc/cli/tests/support/port.rs"]
mod port;
mod streams;
#[path = "../../../../alcc/cli/tests/support/wait.rs"]
mod wait;
mod words;
mod wrong;
