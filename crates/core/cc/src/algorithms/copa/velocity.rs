// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How fast the window moves, and which way.
use alcc_units::Time;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    Up,
    Down,
}

/// Section 2.1: how fast the window moves.
#[derive(Clone, Debug)]
pub(super) struct Velocity {
    pub(super) v: f64,
    pub(super) way: Option<Way>,
    /// Periods in this direction.
    pub(super) same: u32,
    pub(super) since: Time,
    /// Window at the begin of the period.
    pub(super) window: f64,
    /// Verdicts up minus verdicts down in this period.
    pub(super) balance: i64,
}

impl Velocity {
    pub(super) fn new(now: Time, window: f64) -> Self {
        Self {
            v: 1.0,
            way: None,
            same: 0,
            since: now,
            window,
            balance: 0,
        }
    }

    pub(super) fn restart_period(&mut self, now: Time, window: f64) {
        (self.since, self.window, self.balance) = (now, window, 0);
    }

    /// An acknowledgement wants the window to go `way`.
    pub(super) fn vote(&mut self, way: Way) {
        self.balance += if way == Way::Up { 1 } else { -1 };
    }

    /// A period ended (genericCC): votes for the present way double the velocity, others turn the way; so does a draw. The
    /// first way is up.
    pub(super) fn period_by_votes(&mut self) {
        let down = self.way == Some(Way::Down);
        if self.balance * if down { -1 } else { 1 } > 0 {
            self.v = (self.v * 2.0).min(1e9);
        } else {
            self.v = 1.0;
            self.way = Some(if down { Way::Up } else { Way::Down });
        }
    }

    /// A period ended that went `way`.
    pub(super) fn period(&mut self, way: Way, hold: u32) {
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
