// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The velocity and direction of the window (section 2.1).
use super::shared::{MAX_WINDOW, MIN_WINDOW};
use alcc_units::{Span, Time};

/// The direction in which the window moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It grows.
    Up,
    /// It shrinks.
    Down,
}

impl Way {
    /// The window after a step in this direction.
    pub fn moved(self, window: f64, step: f64, may_grow: bool) -> f64 {
        match self {
            Self::Up if may_grow => (window + step).min(MAX_WINDOW),
            Self::Up => window,
            Self::Down => (window - step).max(MIN_WINDOW),
        }
    }
}

/// The velocity of the window (section 2.1).
#[derive(Clone, Debug)]
pub struct Velocity {
    /// The velocity, in multiples of the basic step.
    pub v: f64,
    /// The direction.
    pub way: Option<Way>,
    /// Number of periods in this direction.
    pub same: u32,
    /// Start of the period.
    pub since: Time,
    /// Window at the start of the period.
    pub window: f64,
}

impl Velocity {
    /// The initial velocity, without a direction.
    pub fn new(now: Time, window: f64) -> Self {
        Self {
            v: 1.0,
            way: None,
            same: 0,
            since: now,
            window,
        }
    }

    /// Takes the verdict of one ACK that the window should go `way`. A period lasts a standing RTT;
    /// a verdict against the direction begins another.
    pub fn advance(&mut self, now: Time, window: f64, standing: Span, way: Way, hold: u32) {
        if now.since(self.since) >= standing {
            let up = window > self.window;
            self.period(if up { Way::Up } else { Way::Down }, hold);
            (self.since, self.window) = (now, window);
        }
        if self.v > 1.0 && self.way != Some(way) {
            *self = Self {
                way: Some(way),
                ..Self::new(now, window)
            };
        }
    }

    /// Resets the velocity to its initial value.
    pub fn calm(&mut self) {
        (self.v, self.same) = (1.0, 0);
    }

    /// The step of the window for one ACK, at most one packet; `room` is delta * window.
    pub fn step(&mut self, room: f64) -> f64 {
        self.v = self.v.min(room.max(1.0));
        self.v / room
    }

    /// Ends a period with direction `way`.
    pub fn period(&mut self, way: Way, hold: u32) {
        if self.way == Some(way) {
            self.same += 1;
            if self.same >= hold {
                self.v = (self.v * 2.0).min(1e9);
            }
        } else {
            (self.v, self.same, self.way) = (1.0, 0, Some(way));
        }
    }
}
