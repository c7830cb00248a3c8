// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::competition::{SIBLINGS, STANDS};
use crate::parts::Drains;
use alcc_units::Span;

/// The RTT before a drain and the least in it are the same if the second is lower or higher by no
/// more than this.
const LOWER: Span = Span::from_millis(2);
const HIGHER: Span = Span::from_millis(3);
/// The rate has fallen if it is no more than this part of what it was at the last drain.
const FELL: f64 = 0.95;

/// Whether the route became longer. Its window then carries less than the rate, so the rate falls
/// from drain to drain; and neither that nor the drains shorten the RTT. What siblings leave in a
/// drain is no longer route, nor is what stands as a queue of others would.
#[derive(Clone, Default)]
pub(super) struct Route {
    /// The mean rate when the last drain ended, packets per second.
    rate: f64,
}

impl Route {
    /// A drain has ended; the mean rate is `rate`. `unsure`: what the drain left is not known well, but
    /// the next drain compares its rate with this one.
    pub(super) fn is_longer(
        &mut self,
        drains: &Drains,
        delay: Span,
        unsure: bool,
        rate: f64,
    ) -> bool {
        let fell = rate < std::mem::replace(&mut self.rate, rate) * FELL;
        let (before, left) = (drains.before(), drains.left());
        let flat = before <= left + LOWER && left <= before + HIGHER;
        let siblings = Span::from_secs_f64(SIBLINGS / rate.max(1.0));
        let route = left > siblings && left <= delay.mul_f64(STANDS);
        fell && flat && route && !unsure
    }
}
