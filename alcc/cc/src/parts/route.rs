// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::Drains;
use alcc_units::{Span, Time};

constants! { ROUTE:
    /// Queueing of up to this part of the target delay counts as none.
    pub(crate) SAME: u64 = 10;
    /// A queue of this part of the target delay that stands before and after a drain belongs to others.
    pub(crate) STANDS: f64 = 0.75, of 4;
    /// Packets that siblings may leave in a drain.
    /// They leave two each, which are two at this flow's rate if shares are equal. More is not theirs.
    pub(crate) SIBLINGS: f64 = 5.0;
    /// An RTT that a drain changes by at most this counts as unchanged.
    pub(crate) FLAT: Span = Span::from_millis(3);
    /// Required accuracy of RTTs: with a lower one, siblings' queue passes for a longer route.
    SURE: Span = Span::from_millis(1);
    /// The rate has fallen if it is below this part of the rate at the last drain.
    FELL: f64 = 0.95, of 100;
    /// A jump exceeds this part of the target delay, plus a multiple of the gap between packets.
    JUMP: u64 = 4;
    /// That multiple of the gap.
    /// The queue of others grows more slowly.
    GAP: u64 = 3;
    /// A jump that lasts this long starts a drain at once.
    /// The smallest RTT of a second is then one of after it.
    LASTS: Span = Span::from_millis(1100);
    /// A flow that sends more than SIBLINGS in this part of the target delay has few siblings.
    FAST: u64 = 2;
}

/// Detection of a longer route, relative to a delay that the flow sets. On a longer route the window carries less than
/// the former rate, so the rate falls from drain to drain, and neither that nor the drains shorten the RTT. The queue
/// that siblings leave in a drain is not taken for a longer route, nor is one as long as that of other flows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// The mean rate when the last drain ended, packets per second.
    rate: f64,
    /// Sending time and RTT of the newest packet; zero before the first.
    newest: (Time, Span),
    /// Time of the RTT's last jump, the RTT before the first, and the middle between them: an RTT below that ends it.
    jumped: Option<(Time, Span, Span)>,
    /// The mean rate before the jump, which the longer route carries, too, and the time until which that is assumed;
    /// zero: it is not.
    before: f64,
    carried_until: Time,
}

impl Route {
    /// Takes a packet acknowledged outside of drains, at the mean rate `mean`. If the RTT before a jump was above
    /// `at_most`, the middle of the jump is computed from `at_most`, because the flow's own queue may shrink meanwhile.
    /// The RTT has an error of up to `error`.
    pub(crate) fn look(
        &mut self,
        now: Time,
        (sent_at, rtt): (Time, Span),
        at_most: Span,
        delay: Span,
        error: Span,
        mean: f64,
    ) {
        let (sent_before, was) = std::mem::replace(&mut self.newest, (sent_at, rtt));
        if let Some((_, from, _)) = self.jumped.filter(|(_, _, middle)| rtt < *middle) {
            // The delay of an outage or a queue has passed; the remaining delay may be the route's.
            let stays = rtt.saturating_sub(from);
            self.jumped = (stays > delay / JUMP).then(|| (now, from, from + stays / 2));
        }
        if was.is_zero() {
            return;
        }
        let rise = rtt.saturating_sub(was);
        if rise <= delay / JUMP + (sent_at.since(sent_before) + error) * GAP {
            return;
        }
        let Some((_, from, middle)) = self.jumped else {
            let from = was.min(at_most);
            self.jumped = Some((now, from, from + rise / 2));
            if self.carried_until == Time::ZERO {
                self.before = mean;
            }
            return;
        };
        // A route is longer in both directions: ACKs show it first, packets half a round trip later.
        let rise = rtt.saturating_sub(from);
        if rise > (middle - from) * 2 + delay / JUMP {
            self.jumped = Some((now, from, from + rise / 2));
        }
    }

    /// Rate of the shorter route, packets per second.
    pub(crate) fn before(&self) -> f64 {
        self.before
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.jumped.is_some()
    }

    /// True if the jump lasts: a drain has to show whether the route is longer.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.jumped.is_some_and(|(at, ..)| now.since(at) > LASTS)
    }

    /// Assumes the rate of the shorter route until the longer one is measured.
    pub(crate) fn carry(&mut self, until: Time) {
        self.carried_until = until;
    }

    pub(crate) fn pass(&mut self, now: Time) {
        if now >= self.carried_until {
            self.carried_until = Time::ZERO;
        }
    }

    pub(crate) fn carried(&self) -> f64 {
        if self.carried_until == Time::ZERO {
            return 0.0;
        }
        self.before
    }

    /// True if the drain that has ended shows a longer route. The mean rate is `rate`, and RTTs have an error of up to
    /// `error`. `lost`: nothing was acknowledged for long, so the remaining queue is unknown. With a rate of 0 only a
    /// jump shows a longer route.
    ///
    /// A jump is drained again if `lost`, and if a flow that is too fast to have many siblings has removed a queue but
    /// not the jump: the rate fell with it.
    pub(crate) fn is_longer(
        &mut self,
        now: Time,
        drains: &Drains,
        delay: Span,
        error: Span,
        lost: bool,
        rate: f64,
    ) -> bool {
        let fell = rate < std::mem::replace(&mut self.rate, rate) * FELL;
        let (before, residual) = (drains.before(), drains.residual());
        let flat = before.max(residual) <= before.min(residual) + FLAT + error;
        let siblings = Span::from_secs_f64(SIBLINGS / rate.max(1.0));
        let route = residual > siblings && residual <= delay.mul_f64(STANDS);
        let remains = siblings < delay / FAST && !flat;
        let lowest = drains.base() + residual;
        let jumped = self.jumped.take();
        self.jumped = jumped
            .filter(|(_, _, middle)| lost || remains && lowest >= *middle)
            .map(|(_, from, middle)| (now, from, middle));
        let jumped = jumped.is_some() && residual > delay / SAME + error;
        if !jumped {
            self.before = rate;
        }
        // With many siblings a flow is slow, and their queue would also be taken for a longer route.
        let alone = self.before * (delay / FAST).as_secs_f64() > SIBLINGS;
        let sure = error <= SURE;
        let certain = sure || alone && error * JUMP <= residual;
        flat && (jumped && certain || fell && route && sure) && !lost
    }
}
