// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CoDel (Nichols, Jacobson, McGregor, Iyengar: RFC 8289, 2018).
//!
//! CoDel measures the sojourn time of each packet at its departure. If all of them waited at least `target` for an
//! `interval`, there is a standing queue. Packets are then dropped from its head, at shrinking intervals, until one has
//! waited less. A packet that may be marked (ECT) is marked instead and passes (RFC 3168, section 5). Linux's
//! codel_dequeue does the same.
//!
//! | constant | value | where |
//! |---|---|---|
//! | target | 5 ms | section 4.4 |
//! | interval | 100 ms | section 4.3 |
//! | a queue of one packet is never a standing one | 1500 bytes | section 5.6 |
//! | memory of the last episode | 16 intervals | section 5.5 |
//!
//! Differs from the RFC: there is an optional limit as for `droptail`. Without it the queue is bounded by its control
//! alone. As in Linux, a dequeue that finds no packet does not end the time above target.
use super::droptail::{BYTES, Droptail, PACKETS};
use super::{ECN, Enqueue, Queue, QueueKind, Queued, ecn};
use crate::Packet;
use alcc_units::{Bytes, OptionDoc, Options, Rng, Span, SpecError, Time};

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "codel",
    summary: "CoDel: drops from the head while the queueing delay stays above a target (RFC 8289)",
    overtaking: false,
    options: &[TARGET, INTERVAL, ECN, BYTES, PACKETS],
    build: |options| {
        let line = Droptail::built(options)?;
        Ok(Box::new(Codel::built(line, options)?))
    },
};

pub(super) const TARGET: OptionDoc = OptionDoc {
    name: "target",
    default: "5ms",
    help: "acceptable standing queueing delay, 1us to 10s",
};

pub(super) const INTERVAL: OptionDoc = OptionDoc {
    name: "interval",
    default: "100ms",
    help: "time above target before the first drop, 1us to 100s",
};

/// With at most these bytes in the queue there is nothing to control.
const ONE_PACKET: Bytes = Bytes::new(1500);

#[derive(Clone, Debug)]
pub(super) struct Codel {
    line: Droptail,
    target: Span,
    interval: Span,
    ecn: bool,
    /// Time at which the wait will have been above target for an interval; `None` while it is below.
    drop_from: Option<Time>,
    dropping: bool,
    next_drop: Time,
    /// Number of drops in this episode, and the number with which it began.
    count: u64,
    last_count: u64,
}

impl Codel {
    /// CoDel with the options [`TARGET`] and [`INTERVAL`].
    pub(super) fn built(line: Droptail, options: &Options<'_>) -> Result<Self, SpecError> {
        let us = Span::from_micros(1);
        let (target, interval) = (Span::from_millis(5), Span::from_millis(100));
        let target = options.span(TARGET.name, target, us..=Span::from_secs(10))?;
        let interval = options.span(INTERVAL.name, interval, us..=Span::from_secs(100))?;
        Ok(Self {
            ecn: ecn(options)?,
            ..Self::new(line, target, interval)
        })
    }

    pub(super) const fn new(line: Droptail, target: Span, interval: Span) -> Self {
        Self {
            line,
            target,
            interval,
            ecn: true,
            drop_from: None,
            dropping: false,
            next_drop: Time::ZERO,
            count: 0,
            last_count: 0,
        }
    }

    /// Removes the first packet, regardless of the control.
    pub(super) fn discard(&mut self) -> Option<Queued> {
        self.line.pop()
    }

    /// The next packet and whether it may be dropped (RFC 8289, section 5.6). `beside`: bytes in other queues for the
    /// same link.
    fn next(&mut self, now: Time, beside: Bytes) -> Option<(Queued, bool)> {
        let Some(queued) = self.line.pop() else {
            self.drop_from = None;
            return None;
        };
        let waits = self.line.bytes() + beside;
        if now.since(queued.arrived) < self.target || waits <= ONE_PACKET {
            self.drop_from = None;
            return Some((queued, false));
        }
        let from = *self.drop_from.get_or_insert(now + self.interval);
        Some((queued, now >= from))
    }

    /// The next packet, with these bytes in other queues for the same link (section 5.5).
    pub(super) fn dequeue_beside(
        &mut self,
        now: Time,
        beside: Bytes,
        drops: &mut Vec<Packet>,
    ) -> Option<Queued> {
        if self.line.len() == 0 {
            // The time above target goes on, as in Linux. Otherwise a queue that runs empty between two packets would
            // never drop, however long each of them waits for the turns of other queues.
            self.dropping = false;
            return None;
        }
        let mut head = self.next(now, beside);
        if self.dropping {
            while let Some((mut queued, true)) = head
                && now >= self.next_drop
            {
                self.count += 1;
                if self.mark(&mut queued) {
                    self.next_drop = self.control_law(self.next_drop);
                    return Some(queued);
                }
                drops.push(queued.packet);
                head = self.next(now, beside);
                if let Some((_, true)) = head {
                    self.next_drop = self.control_law(self.next_drop);
                }
            }
            self.dropping = matches!(head, Some((_, true)));
        } else if let Some((mut queued, true)) = head {
            if self.mark(&mut queued) {
                head = Some((queued, true));
            } else {
                drops.push(queued.packet);
                head = self.next(now, beside);
            }
            self.dropping = true;
            // If the last episode is recent, continues at about the rate of drops that had brought the queue under
            // control.
            let fresh = self.count.saturating_sub(self.last_count);
            let recent = now.since(self.next_drop) < self.interval * 16;
            self.count = if fresh > 1 && recent { fresh } else { 1 };
            self.next_drop = self.control_law(now);
            self.last_count = self.count;
        }
        head.map(|(queued, _)| queued)
    }

    /// Marks `queued` instead of dropping it, if that is possible.
    fn mark(&self, queued: &mut Queued) -> bool {
        self.ecn && queued.packet.mark()
    }

    /// The time of the drop after one at `at` (section 5.6).
    fn control_law(&self, at: Time) -> Time {
        at + control_gap(self.interval, self.count)
    }
}

/// The gap after the `count`-th drop: interval / sqrt(count).
fn control_gap(interval: Span, count: u64) -> Span {
    // A square root is exact to the last bit on every platform, while a reciprocal square root would not be.
    interval.mul_f64(1.0 / (count.max(1) as f64).sqrt())
}

impl Queue for Codel {
    fn enqueue(&mut self, now: Time, packet: Packet, _: &mut Rng, _: &mut Vec<Packet>) -> Enqueue {
        self.line.push(now, packet)
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<Packet>) -> Option<Queued> {
        self.dequeue_beside(now, Bytes::ZERO, drops)
    }

    fn len(&self) -> usize {
        self.line.len()
    }

    fn bytes(&self) -> Bytes {
        self.line.bytes()
    }

    fn duplicate(&self) -> Box<dyn Queue> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;

    #[test]
    fn gaps_shrink_with_the_square_root_of_the_count() {
        // 100 ms / sqrt(n), worked out by hand to the microsecond
        let gaps = [100_000, 70_710, 57_735, 50_000, 44_721];
        for (n, us) in (1..).zip(gaps) {
            assert_eq!(control_gap(Span::from_millis(100), n).as_micros(), us);
        }
        assert_eq!(
            control_gap(Span::from_millis(100), 100),
            Span::from_millis(10)
        );
    }

    /// A queue after four drops, at 105, 205, 276 and 334 ms, which then was short for a moment.
    fn after_an_episode() -> Codel {
        let refill = |codel: &mut Codel, arrived| {
            codel.line = Droptail::new(Bytes::MAX, u64::MAX);
            for id in 0..20 {
                let len = Bytes::new(1500);
                codel.line.push(
                    arrived,
                    Packet {
                        id,
                        flow: 0,
                        len,
                        ecn: Ecn::NotEct,
                    },
                );
            }
        };
        let mut codel = Codel::new(
            Droptail::new(Bytes::MAX, u64::MAX),
            Span::from_millis(5),
            Span::from_millis(100),
        );
        refill(&mut codel, Time::ZERO);
        for (ms, dropped) in [(5, 0), (105, 1), (205, 1), (275, 0), (276, 1), (334, 1)] {
            assert_eq!(drops_at(&mut codel, ms), dropped, "{ms}");
        }
        refill(&mut codel, Time::from_millis(340));
        assert_eq!(drops_at(&mut codel, 341), 0);
        codel
    }

    fn drops_at(codel: &mut Codel, ms: u64) -> usize {
        let mut drops = Vec::new();
        codel.dequeue(Time::from_millis(ms), &mut drops);
        drops.len()
    }

    /// A queue of FQ-CoDel with a packet every 10 ms, each of which waits 6 ms for other queues.
    #[test]
    fn a_turn_without_a_packet_does_not_end_the_time_above_target() {
        let line = Droptail::new(Bytes::MAX, u64::MAX);
        let mut codel = Codel::new(line, Span::from_millis(5), Span::from_millis(100));
        let mut drops = Vec::new();
        for ms in (10..=210).step_by(10) {
            let (len, ecn) = (Bytes::new(1500), Ecn::NotEct);
            let (id, flow) = (ms, 0);
            let packet = Packet { id, flow, len, ecn };
            codel.line.push(Time::from_millis(ms - 6), packet);
            for _ in 0..2 {
                codel.dequeue_beside(Time::from_millis(ms), Bytes::new(30_000), &mut drops);
            }
        }
        // above target from 10, and again from 120
        let dropped: Vec<u64> = drops.iter().map(|packet| packet.id).collect();
        assert_eq!(dropped, [110]);
    }

    #[test]
    fn a_recent_episode_is_gone_on_with() {
        // Above target at 346, for an interval at 446. Three drops were added last time: the next
        // comes 57.7 ms later.
        let mut codel = after_an_episode();
        let seen = [346, 445, 446, 503, 504].map(|ms| drops_at(&mut codel, ms));
        assert_eq!(seen, [0, 0, 1, 0, 1]);
    }

    #[test]
    fn an_episode_long_ago_is_forgotten() {
        // The next drop was due at 383.4 ms; 16 intervals later, at 1983.4, the pace begins anew
        // with 100 ms.
        let mut codel = after_an_episode();
        let seen = [1900, 2000, 2058, 2099, 2100].map(|ms| drops_at(&mut codel, ms));
        assert_eq!(seen, [0, 1, 0, 0, 1]);
    }
}
