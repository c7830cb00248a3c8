// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events that algorithms report, for logs, and for tests instead of private fields.
use alcc_units::Time;
use std::fmt;

/// An event of an algorithm for readers of its log. `S` is the type of its words: constants from an
/// algorithm, strings from a log.
///
/// ```
/// use alcc_cc::Event;
///
/// let event = Event::Decrease { why: "loss", from: 40.0, to: 28.0 };
/// assert_eq!(event.name(), "window_reduced");
/// assert_eq!(event.to_string(), "window reduced for loss");
/// assert_eq!(Event::from_parts(event.into_parts()), Some(event));
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Event<S = &'static str> {
    /// Slow start ended, with this window in packets.
    SlowStartExit {
        /// The reason.
        why: S,
        /// Window after the exit, in packets.
        window: f64,
    },
    /// Slow start began again.
    SlowStartRestart {
        /// The reason.
        why: S,
    },
    /// The window was reduced for a loss.
    Decrease {
        /// The reason.
        why: S,
        /// Window before, in packets.
        from: f64,
        /// Window after, in packets.
        to: f64,
    },
    /// The algorithm changed its mode.
    Mode {
        /// The new mode.
        to: S,
    },
    /// Verus fitted its delay profile.
    ProfileFitted {
        /// Points used.
        points: u32,
        /// Largest window among them, in packets.
        largest: u32,
    },
}

/// An event as numbers and a word, for logs in shared memory: kind, word, values.
pub type EventParts<S> = (u64, Option<S>, [f64; 2]);

impl<S> Event<S> {
    /// The name of the event in every log.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SlowStartExit { .. } => "slow_start_ended",
            Self::SlowStartRestart { .. } => "slow_start_restarted",
            Self::Decrease { .. } => "window_reduced",
            Self::Mode { .. } => "mode_changed",
            Self::ProfileFitted { .. } => "profile_fitted",
        }
    }

    /// The word of the event, with the name of its field.
    pub fn word(&self) -> Option<(&'static str, &S)> {
        match self {
            Self::SlowStartExit { why, .. }
            | Self::SlowStartRestart { why }
            | Self::Decrease { why, .. } => Some(("why", why)),
            Self::Mode { to } => Some(("mode", to)),
            Self::ProfileFitted { .. } => None,
        }
    }

    /// The numbers of the event, with names that end in the unit.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, f64)> + use<S> {
        let values = match *self {
            Self::SlowStartExit { window, .. } => [Some(("cwnd_packets", window)), None],
            Self::SlowStartRestart { .. } | Self::Mode { .. } => [None, None],
            Self::Decrease { from, to, .. } => [
                Some(("cwnd_before_packets", from)),
                Some(("cwnd_packets", to)),
            ],
            Self::ProfileFitted { points, largest } => [
                Some(("points", points.into())),
                Some(("largest_cwnd_packets", largest.into())),
            ],
        };
        values.into_iter().flatten()
    }

    /// The event as parts, for a log without text of arbitrary length.
    pub fn into_parts(self) -> EventParts<S> {
        match self {
            Self::SlowStartExit { why, window } => (1, Some(why), [window, 0.0]),
            Self::SlowStartRestart { why } => (2, Some(why), [0.0; 2]),
            Self::Decrease { why, from, to } => (3, Some(why), [from, to]),
            Self::Mode { to } => (4, Some(to), [0.0; 2]),
            Self::ProfileFitted { points, largest } => (5, None, [points.into(), largest.into()]),
        }
    }

    /// The inverse of [`Event::into_parts`]; `None` for parts that it does not make.
    pub fn from_parts((kind, word, [a, b]): EventParts<S>) -> Option<Self> {
        let word = || word;
        Some(match kind {
            1 => Self::SlowStartExit {
                why: word()?,
                window: a,
            },
            2 => Self::SlowStartRestart { why: word()? },
            3 => Self::Decrease {
                why: word()?,
                from: a,
                to: b,
            },
            4 => Self::Mode { to: word()? },
            5 => Self::ProfileFitted {
                points: a as u32,
                largest: b as u32,
            },
            _ => return None,
        })
    }
}

/// The event in words: "slow start ended by delay".
impl<S: fmt::Display> fmt::Display for Event<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SlowStartExit { why, .. } => write!(f, "slow start ended by {why}"),
            Self::SlowStartRestart { why } => write!(f, "slow start began again after {why}"),
            Self::Decrease { why, .. } => write!(f, "window reduced for {why}"),
            Self::Mode { to } => write!(f, "mode {to}"),
            Self::ProfileFitted { .. } => f.write_str("delay profile fitted"),
        }
    }
}

/// Receives events.
///
/// ```
/// use alcc_cc::{Event, EventSink};
/// use alcc_units::Time;
///
/// let mut log: Vec<(Time, Event)> = Vec::new();
/// log.event(Time::ZERO, Event::Mode { to: "competitive" });
/// assert_eq!(log[0].1.to_string(), "mode competitive");
/// ```
pub trait EventSink {
    /// Receives an event that happened at `now`.
    fn event(&mut self, now: Time, event: Event);
}

/// Discards events.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_survives_being_taken_apart() {
        let events = [
            Event::SlowStartExit {
                why: "delay",
                window: 43.5,
            },
            Event::SlowStartRestart { why: "timeout" },
            Event::Decrease {
                why: "loss",
                from: 40.0,
                to: 20.0,
            },
            Event::Mode { to: "probe-rtt" },
            Event::ProfileFitted {
                points: 30,
                largest: 55,
            },
        ];
        for event in events {
            assert_eq!(Event::from_parts(event.into_parts()), Some(event));
        }
        assert_eq!(Event::from_parts((0, Some("x"), [0.0; 2])), None);
        assert_eq!(Event::from_parts((4, None::<&str>, [0.0; 2])), None);
        assert_eq!(events[0].to_string(), "slow start ended by delay");
        let values: Vec<_> = events[2].values().collect();
        assert_eq!(
            values,
            [("cwnd_before_packets", 40.0), ("cwnd_packets", 20.0)]
        );
    }
}
