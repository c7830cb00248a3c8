// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much may leave while losses are repaired. Counted in segments, as the kernel does.
use crate::rules::Shape;

/// Leads what is in flight from where it was at the loss to the window that the algorithm publishes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shaper {
    shape: Shape,
    /// The window before the loss.
    before: u64,
    delivered: u64,
    out: u64,
    /// Rate halving: an acknowledgement has been counted.
    odd: bool,
    window: u64,
}

/// What an acknowledgement says to a [`Shaper`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    /// Segments that arrived.
    pub(crate) delivered: u64,
    /// In flight now.
    pub(crate) flight: u64,
    /// The window to be reached.
    pub(crate) target: u64,
    /// The stream is complete further than before.
    pub(crate) advanced: bool,
    /// It disclosed losses.
    pub(crate) lost: bool,
}

impl Shaper {
    /// An episode begins under a window of `before` segments. [`Shape::AtOnce`] needs none.
    pub(crate) fn new(shape: Shape, before: u64) -> Self {
        Self {
            shape,
            before: before.max(1),
            delivered: 0,
            out: 0,
            odd: false,
            window: before.max(1),
        }
    }

    /// May be in flight.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// A segment leaves.
    pub(crate) fn sent(&mut self) {
        self.out += 1;
    }

    pub(crate) fn heard(&mut self, ack: &Heard) {
        match self.shape {
            Shape::AtOnce => self.window = ack.target,
            Shape::Prr { bis } => self.proportional(ack, bis),
            Shape::RateHalving => self.halve(ack),
        }
    }

    fn proportional(&mut self, ack: &Heard, bis: bool) {
        if ack.delivered == 0 {
            return;
        }
        self.delivered += ack.delivered;
        let count = if ack.flight > ack.target {
            let due = u128::from(self.delivered) * u128::from(ack.target);
            let due = u64::try_from(due.div_ceil(u128::from(self.before))).unwrap_or(u64::MAX);
            due.saturating_sub(self.out)
        } else {
            let owed = self.delivered.saturating_sub(self.out);
            let limit = if !bis {
                // RFC 6937: the slow start bound.
                owed.max(ack.delivered) + 1
            } else if ack.advanced && !ack.lost {
                // All that is known to be lost has been repaired so far: slow start.
                owed.max(ack.delivered) + 1
            } else {
                owed.max(ack.delivered)
            };
            limit.min(ack.target - ack.flight)
        };
        // The first retransmission is not held back.
        self.window = ack.flight + count.max(u64::from(self.out == 0));
    }

    fn halve(&mut self, ack: &Heard) {
        if ack.delivered > 0 {
            if self.odd && self.window > ack.target {
                self.window -= 1;
            }
            self.odd = !self.odd;
        }
        self.window = self.window.min(ack.flight + 1).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One lost, one segment per acknowledgement arrives; who sends what it may.
    fn sends(shape: Shape, window: u64, target: u64, acks: u64) -> Vec<u64> {
        let mut shaper = Shaper::new(shape, window);
        let mut flight = window - 1;
        let mut at = Vec::new();
        for n in 1..=acks {
            flight -= 1;
            shaper.heard(&Heard {
                delivered: 1,
                flight,
                target,
                ..Heard::default()
            });
            while flight < shaper.window() {
                shaper.sent();
                flight += 1;
                at.push(n);
            }
        }
        at
    }

    #[test]
    fn proportional_from_ten_to_five_sends_at_every_other() {
        for bis in [true, false] {
            // As long as more is in flight than shall be: ceil(n * 5 / 10) have left after n arrivals.
            let mut shaper = Shaper::new(Shape::Prr { bis }, 10);
            let mut at = Vec::new();
            for n in 1..=9 {
                shaper.heard(&Heard {
                    delivered: 1,
                    flight: 6,
                    target: 5,
                    ..Heard::default()
                });
                if shaper.window() > 6 {
                    shaper.sent();
                    at.push(n);
                }
            }
            assert_eq!(at, [1, 3, 5, 7, 9]);
            // One of ten is lost: at the seventh arrival 9 - 7 + 3 = 5 are in flight, so from there one leaves for each that arrives.
            assert_eq!(sends(Shape::Prr { bis }, 10, 5, 10), [1, 3, 5, 8, 9, 10]);
        }
    }

    #[test]
    fn below_the_target_it_grows_by_one_more_than_arrives_when_all_goes_well() {
        // 4 in flight under a target of 10, nothing owed: two arrived, so two leave, or three in slow start.
        let heard = |advanced, lost| {
            let mut shaper = Shaper::new(Shape::Prr { bis: true }, 20);
            shaper.sent();
            shaper.heard(&Heard {
                delivered: 2,
                flight: 4,
                target: 10,
                advanced,
                lost,
            });
            shaper.window() - 4
        };
        assert_eq!(
            [heard(false, false), heard(true, true), heard(true, false)],
            [2, 2, 3]
        );
    }

    #[test]
    fn what_falls_below_the_target_by_bursts_of_loss_is_made_up() {
        // RFC 6937, section 3.1: after heavy loss sends what arrives, never more than the target.
        let mut shaper = Shaper::new(Shape::Prr { bis: true }, 100);
        let mut flight = 10;
        for _ in 0..40 {
            flight -= 1;
            shaper.heard(&Heard {
                delivered: 1,
                flight,
                target: 70,
                advanced: true,
                lost: false,
            });
            while flight < shaper.window() {
                shaper.sent();
                flight += 1;
            }
            assert!(flight <= 70);
        }
        assert_eq!(flight, 50, "one more per acknowledgement");
    }

    #[test]
    fn rate_halving_sends_for_every_second_and_never_bursts() {
        assert_eq!(sends(Shape::RateHalving, 10, 5, 8), [1, 3, 5, 7]);
        let mut shaper = Shaper::new(Shape::RateHalving, 10);
        shaper.heard(&Heard {
            delivered: 6,
            flight: 2,
            target: 5,
            ..Heard::default()
        });
        assert_eq!(shaper.window(), 3);
    }
}
