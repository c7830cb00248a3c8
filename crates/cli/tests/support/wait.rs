// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for what other threads and programs do. Long, so that a busy machine does not fail a test.
use std::time::{Duration, Instant};

/// Until `holds`; `what` is said if it never does.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
