// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rate reduction in recovery, counted in segments as in the kernel. Names as in RFC 6937.
use crate::rules::Reduction;

/// Brings the data in flight from its size at the loss down to the algorithm's window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateReduction {
    reduction: Reduction,
    /// The window before the loss (RecoverFS).
    recover_fs: u64,
    prr_delivered: u64,
    prr_out: u64,
    /// Rate halving: true if the previous ACK has not released a segment.
    odd: bool,
    window: u64,
}

/// The properties of an ACK that [`RateReduction`] uses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckSummary {
    /// Newly delivered segments.
    pub(crate) delivered: u64,
    /// Segments in flight.
    pub(crate) pipe: u64,
    /// The target window.
    pub(crate) ssthresh: u64,
    /// True if the cumulative ACK advanced.
    pub(crate) advanced: bool,
    /// True if the ACK revealed losses.
    pub(crate) lost: bool,
}

impl RateReduction {
    /// Starts recovery with a window of `before` segments.
    pub(crate) fn new(reduction: Reduction, before: u64) -> Self {
        Self {
            reduction,
            recover_fs: before.max(1),
            prr_delivered: 0,
            prr_out: 0,
            odd: false,
            window: before.max(1),
        }
    }

    /// Segments that may be in flight.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// Counts a sent segment.
    pub(crate) fn sent(&mut self) {
        self.prr_out += 1;
    }

    pub(crate) fn on_ack(&mut self, ack: &AckSummary) {
        match self.reduction {
            Reduction::Immediate => self.window = ack.ssthresh,
            Reduction::Prr { bis } => self.proportional(ack, bis),
            Reduction::RateHalving => self.rate_halving(ack),
        }
    }

    fn proportional(&mut self, ack: &AckSummary, bis: bool) {
        if ack.delivered == 0 {
            return;
        }
        self.prr_delivered += ack.delivered;
        let sndcnt = if ack.pipe > ack.ssthresh {
            let due = u128::from(self.prr_delivered) * u128::from(ack.ssthresh);
            let due = u64::try_from(due.div_ceil(u128::from(self.recover_fs))).unwrap_or(u64::MAX);
            due.saturating_sub(self.prr_out)
        } else {
            let owed = self.prr_delivered.saturating_sub(self.prr_out);
            let limit = if !bis {
                // RFC 6937: slow start reduction bound.
                owed.max(ack.delivered) + 1
            } else if ack.advanced && !ack.lost {
                // Everything known to be lost is repaired: slow start reduction bound.
                owed.max(ack.delivered) + 1
            } else {
                owed.max(ack.delivered)
            };
            limit.min(ack.ssthresh - ack.pipe)
        };
        // The first retransmission is sent at once.
        self.window = ack.pipe + sndcnt.max(u64::from(self.prr_out == 0));
    }

    fn rate_halving(&mut self, ack: &AckSummary) {
        if ack.delivered > 0 {
            if self.odd && self.window > ack.ssthresh {
                self.window -= 1;
            }
            self.odd = !self.odd;
        }
        self.window = self.window.min(ack.pipe + 1).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One segment is lost, then one is delivered per ACK. Returns the ACKs after which one was
    /// sent.
    fn sends(reduction: Reduction, window: u64, target: u64, acks: u64) -> Vec<u64> {
        let mut prr = RateReduction::new(reduction, window);
        let mut flight = window - 1;
        let mut at = Vec::new();
        for n in 1..=acks {
            flight -= 1;
            prr.on_ack(&AckSummary {
                delivered: 1,
                pipe: flight,
                ssthresh: target,
                ..AckSummary::default()
            });
            while flight < prr.window() {
                prr.sent();
                flight += 1;
                at.push(n);
            }
        }
        at
    }

    #[test]
    fn proportional_from_ten_to_five_sends_at_every_other() {
        for bis in [true, false] {
            // While more than ssthresh is in flight: ceil(n * 5 / 10) have been sent after n ACKs.
            let mut reduction = RateReduction::new(Reduction::Prr { bis }, 10);
            let mut at = Vec::new();
            for n in 1..=9 {
                reduction.on_ack(&AckSummary {
                    delivered: 1,
                    pipe: 6,
                    ssthresh: 5,
                    ..AckSummary::default()
                });
                if reduction.window() > 6 {
                    reduction.sent();
                    at.push(n);
                }
            }
            assert_eq!(at, [1, 3, 5, 7, 9]);
            // One of ten is lost. At the seventh ACK 9 - 7 + 3 = 5 are in flight: from there on one
            // is sent per ACK.
            assert_eq!(
                sends(Reduction::Prr { bis }, 10, 5, 10),
                [1, 3, 5, 8, 9, 10]
            );
        }
    }

    #[test]
    fn below_the_target_it_grows_by_one_more_than_arrives_when_all_goes_well() {
        // 4 in flight, ssthresh 10: two were delivered, so two are sent, or three in slow start.
        let on_ack = |advanced, lost| {
            let mut reduction = RateReduction::new(Reduction::Prr { bis: true }, 20);
            reduction.sent();
            reduction.on_ack(&AckSummary {
                delivered: 2,
                pipe: 4,
                ssthresh: 10,
                advanced,
                lost,
            });
            reduction.window() - 4
        };
        assert_eq!(
            [
                on_ack(false, false),
                on_ack(true, true),
                on_ack(true, false)
            ],
            [2, 2, 3]
        );
    }

    #[test]
    fn what_falls_below_the_target_by_bursts_of_loss_is_made_up() {
        // RFC 6937, section 3.1: after heavy loss one is sent per delivered segment, up to
        // ssthresh.
        let mut reduction = RateReduction::new(Reduction::Prr { bis: true }, 100);
        let mut flight = 10;
        for _ in 0..40 {
            flight -= 1;
            reduction.on_ack(&AckSummary {
                delivered: 1,
                pipe: flight,
                ssthresh: 70,
                advanced: true,
                lost: false,
            });
            while flight < reduction.window() {
                reduction.sent();
                flight += 1;
            }
            assert!(flight <= 70);
        }
        assert_eq!(flight, 50, "one more per acknowledgement");
    }

    #[test]
    fn rate_halving_sends_for_every_second_and_never_bursts() {
        assert_eq!(sends(Reduction::RateHalving, 10, 5, 8), [1, 3, 5, 7]);
        let mut reduction = RateReduction::new(Reduction::RateHalving, 10);
        reduction.on_ack(&AckSummary {
            delivered: 6,
            pipe: 2,
            ssthresh: 5,
            ..AckSummary::default()
        });
        assert_eq!(reduction.window(), 3);
    }
}
