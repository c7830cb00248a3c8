// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::parts::Drains;
use crate::parts::route::{SIBLINGS, STANDS};
use alcc_units::{Span, Time};

constants! { COMPETITION:
    /// After this number of consecutive drains that left the queue unchanged, others keep it.
    DRAINS: u32 = 4;
    /// Shortest time over which a rate is measured.
    SHORTEST: Span = Span::from_millis(100);
    /// If SIBLINGS take longer than this, in budgets, the flow is too slow to distinguish siblings.
    SLOW: f64 = 2.0;
    /// A queue counts as unchanged if a drain leaves more than this part of it.
    /// Siblings that drain take more away.
    AS_IT_WAS: f64 = 0.85, of 100;
    /// While this flow competes, a drain that leaves less shows no other flow.
    /// A part of the queue is its own.
    STILL: f64 = 0.3, of 100;
    /// While this flow competes, it drains at every multiple of this number of periods.
    EVERY: u64 = 4;
    /// Buffer size, in budgets, from which a buffer is deep.
    /// There others have taken most of the rate when the last of the drains comes, and a window of what is left
    /// would return too slowly.
    DEEP: f64 = 1.5, of 2;
    /// Shortest time between two cuts: BBR loses all the time and does not yield.
    APART: Span = Span::from_secs(2);
    /// Part of the competing window that remains after a loss, as Cubic's.
    BETA: f64 = 0.7, of 10;
    /// Largest growth of the window per round trip, as a part of it, at least one packet.
    /// A packet alone has no chance in a deep buffer, where round trips are long and Cubic grows by time; in a small one
    /// more leaves Cubic nothing.
    FASTEST: f64 = 0.03, of 100;
}

/// Detection of other flows that keep a queue that no drain empties, and the window that competes
/// with them. It grows by a packet per round trip, is reduced by a loss, and grows faster with time
/// from then on.
#[derive(Clone, Default)]
pub(super) struct Competition {
    /// The competing window, in packets.
    window: Option<f64>,
    /// Drains in a row that did not shorten the queue, since the last one that found no other flow.
    kept: u32,
    /// Mean delivery rate from drain to drain, packets per second. Each mean has half the weight of
    /// the next.
    rate: f64,
    /// The largest rate from drain to drain, of the drains in a row.
    best: f64,
    /// Packets delivered since the last drain.
    delivered: f64,
    drained_at: Time,
    began_at: Time,
    /// Time of the last reduction since the competition began. Siblings that are mistaken for other
    /// flows lose no packets, so before the first loss the window grows slowly.
    cut_at: Option<Time>,
}

impl Competition {
    pub(super) fn start(&mut self, now: Time) {
        self.drained_at = now;
    }

    /// The competing window in packets, while others keep the queue.
    pub(super) fn window(&self) -> Option<f64> {
        self.window
    }

    /// Interval of drains, in multiples of the period.
    pub(super) fn every(&self) -> u64 {
        if self.window.is_some() { EVERY } else { 1 }
    }

    /// True if the last drains may have met other flows: the queue that they left is then not taken
    /// for a longer route.
    pub(super) fn suspects(&self) -> bool {
        self.kept > 0
    }

    pub(super) fn delivered(&mut self, packets: f64) {
        self.delivered += packets;
    }

    /// A drain has ended. `lost`: nothing was acknowledged in it for long, so others were filling
    /// the queue again. Without competition the window would be `product` packets. Returns true if
    /// a competition begins or ends.
    pub(super) fn drained(
        &mut self,
        now: Time,
        drains: &Drains,
        delay: Span,
        lost: bool,
        product: f64,
    ) -> bool {
        let rate = self.delivered
            / now
                .since(self.drained_at)
                .as_secs_f64()
                .max(SHORTEST.as_secs_f64());
        self.rate = match self.rate {
            0.0 => rate,
            known => (known + rate) / 2.0,
        };
        (self.delivered, self.drained_at) = (0.0, now);
        let (before, residual) = (
            drains.before().as_secs_f64(),
            drains.residual().as_secs_f64(),
        );
        let (delay, siblings) = (delay.as_secs_f64(), SIBLINGS / self.rate.max(1.0));
        let stands = residual.min(before) > delay * STANDS;
        let shown = siblings <= delay * SLOW && residual > siblings && stands;
        let ends = self.window.is_some() && residual <= before * STILL;
        if lost || !shown || ends {
            (self.kept, self.best) = (0, 0.0);
            return self.window.take().is_some();
        }
        if residual <= before * AS_IT_WAS {
            return false;
        }
        self.kept += 1;
        self.best = self.best.max(rate);
        if self.kept < DRAINS || self.window.is_some() {
            return false;
        }
        let deep = residual > delay * DEEP;
        let rate = if deep {
            self.rate.max(self.best)
        } else {
            self.rate
        };
        let in_flight = rate * (drains.base().as_secs_f64() + residual);
        self.window = Some(in_flight.max(product));
        (self.began_at, self.cut_at) = (now, None);
        true
    }

    /// Grows the window: `packets` of a window in full use were acknowledged; `all` may be in
    /// flight.
    pub(super) fn grow(&mut self, now: Time, packets: f64, all: f64) {
        if let Some(window) = &mut self.window {
            let uncut = self.cut_at.map(|at| now.since(at).as_secs_f64());
            let fastest = (*window * FASTEST).max(1.0);
            let each = (1.0 + uncut.unwrap_or_default()).min(fastest);
            *window += each * packets / all.max(1.0);
        }
    }

    /// Reduces the window for a lost packet, unless it was sent before or shortly after the last
    /// reduction, or before the competition. `least` is the lower bound.
    pub(super) fn lost(&mut self, now: Time, sent_at: Time, least: f64) {
        let from = self.cut_at.unwrap_or(self.began_at);
        let soon = self.cut_at.is_some_and(|at| now.since(at) < APART);
        if let Some(window) = self.window.as_mut().filter(|_| sent_at >= from && !soon) {
            self.cut_at = Some(now);
            *window = (*window * BETA).max(least);
        }
    }
}
