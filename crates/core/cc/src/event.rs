// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What algorithms say about themselves: tests read these stories instead of private fields.
use alcc_units::Time;

/// Something an algorithm did that a reader of its log wants to know.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Slow start ended, with this window in packets.
    SlowStartExit {
        /// What ended it.
        why: &'static str,
        /// Window after the exit, in packets.
        window: f64,
    },
    /// Slow start began again.
    SlowStartRestart {
        /// Why.
        why: &'static str,
    },
    /// The window was reduced for a loss.
    Decrease {
        /// Why.
        why: &'static str,
        /// Window before, in packets.
        from: f64,
        /// Window after, in packets.
        to: f64,
    },
    /// An algorithm with modes changed mode.
    Mode {
        /// The new mode.
        to: &'static str,
    },
    /// Verus fitted its delay profile.
    ProfileFitted {
        /// Points used.
        points: u32,
        /// Largest window among them, in packets.
        largest: u32,
    },
}

/// Receives events.
pub trait EventSink {
    /// Something happened at `now`.
    fn event(&mut self, now: Time, event: Event);
}

/// Throws events away.
#[derive(Clone, Copy, Debug, Default)]
pub struct Discard;

impl EventSink for Discard {
    fn event(&mut self, _now: Time, _event: Event) {}
}

impl EventSink for Vec<(Time, Event)> {
    fn event(&mut self, now: Time, event: Event) {
        self.push((now, event));
    }
}
