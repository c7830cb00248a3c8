// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Span;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Callback for round-trip times.
pub(crate) type Observer = Box<dyn Fn(Span) + Send + Sync>;

/// The published state of a running controller. All paths of a connection share it; the last update
/// applies.
#[derive(Default)]
pub struct Gauge {
    pub(crate) in_flight: AtomicU64,
    pub(crate) window: AtomicU64,
    pub(crate) rate: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) backlogged: AtomicBool,
    pub(crate) observer: Option<Observer>,
}

impl Gauge {
    /// Bytes in flight, packet headers included.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Maximum bytes in flight now.
    pub fn window(&self) -> u64 {
        self.window.load(Ordering::Relaxed)
    }

    /// The delivery rate of the last round trip (20 ms at least), bit/s; zero before.
    pub fn delivery_rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Sets whether the program has more data than the stack has taken. While it has, packets are
    /// not application-limited, even if the stack runs out of data for a moment.
    pub fn set_backlogged(&self, backlogged: bool) {
        self.backlogged.store(backlogged, Ordering::Relaxed);
    }

    /// Number of timeouts.
    pub fn timeouts(&self) -> u64 {
        self.timeouts.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Gauge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauge")
            .field("in_flight", &self.in_flight())
            .field("window", &self.window())
            .field("delivery_rate", &self.delivery_rate())
            .field("timeouts", &self.timeouts())
            .finish_non_exhaustive()
    }
}
