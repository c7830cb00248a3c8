// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for what other threads and programs do. Long, so that a busy machine does not fail a test.
#![allow(dead_code, reason = "each test file uses its part")]
use std::time::{Duration, Instant};

/// Until `holds`; `what` is said if it never does.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True if a program listens at this port in the network namespace of that process. It reads the kernel's
/// table, because a server for one connection only would accept a test connection.
pub(crate) fn listens(pid: u32, port: u16) -> bool {
    has_state(pid, port, "0A")
}

/// True if a client is connected there.
pub(crate) fn serves(pid: u32, port: u16) -> bool {
    has_state(pid, port, "01")
}

fn has_state(pid: u32, port: u16, state: &str) -> bool {
    let port = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        table.lines().any(|line| {
            let mut words = line.split_whitespace().skip(1);
            let local = words.next().unwrap_or_default();
            local.ends_with(&port) && words.nth(1) == Some(state)
        })
    })
}
