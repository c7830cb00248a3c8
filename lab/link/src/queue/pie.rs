// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PIE (Pan, Natarajan, Baker, White: RFC 8033, 2017).
//!
//! Every `update` a controller changes the drop probability, by the difference of the queueing delay from its target,
//! and by the change of the delay. Arriving packets are dropped with that probability. A burst after an idle time is
//! not dropped.
//!
//! | constant | value | where |
//! |---|---|---|
//! | target (QDELAY_REF) | 15 ms | section 4.2 |
//! | update (T_UPDATE) | 15 ms | section 4.2 |
//! | alpha, beta | 0.125 Hz, 1.25 Hz | section 4.2 |
//! | scaling of both by the probability | table `TUNING` | section 4.2 |
//! | decay of the probability while nothing waits | 0.98 for each update | section 4.2 |
//! | burst (MAX_BURST) | 150 ms | section 4.4 |
//! | no drop below half the target and 20 %, or below two packets of 1500 bytes | | section 4.1 |
//! | no drop before 0.85 and none let through from 8.5, of the probabilities summed up since the last drop | | section 5.4 |
//! | packets that may be marked (ECT) are marked instead of dropped up to a probability of | 10 % | section 5.1 |
//! | largest step from 10 % on | 2 % | section 5.5 |
//!
//! The delay is measured with timestamps: that of the last departed packet, or 0 if it left an empty queue. The RFC's
//! alternative is length over departure rate (section 5.2), which takes the silence of a cellular link for a low rate.
//!
//! Differs from the RFC: it is always active; section 5.3 is optional, and Linux omits it, too. Its limits are as for
//! `droptail`.
use super::droptail::{BYTES, Droptail, PACKETS};
use super::{ECN, Enqueue, Queue, QueueKind, Queued, ecn};
use crate::{DropReason, Packet};
use alcc_units::{Bytes, OptionDoc, Rng, Span, Time};

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "pie",
    summary: "PIE: drops at arrival with a probability that controls the delay to a target (RFC 8033)",
    overtaking: false,
    options: &[
        OptionDoc {
            name: "target",
            default: "15ms",
            help: "target queueing delay, 1us to 10s",
        },
        OptionDoc {
            name: "update",
            default: "15ms",
            help: "interval of adjustments of the probability, 1ms to 10s",
        },
        OptionDoc {
            name: "alpha",
            default: "0.125",
            help: "weight in 1/s of the distance from the target, 0 to 100",
        },
        OptionDoc {
            name: "beta",
            default: "1.25",
            help: "weight in 1/s of the change since the last update, 0 to 100",
        },
        OptionDoc {
            name: "burst",
            default: "150ms",
            help: "time without drops after an idle period, 0s to 100s",
        },
        ECN,
        BYTES,
        PACKETS,
    ],
    build: |options| {
        let (ms, us) = (Span::from_millis(1), Span::from_micros(1));
        let burst = Span::from_millis(150);
        let burst = options.span("burst", burst, Span::ZERO..=Span::from_secs(100))?;
        Ok(Box::new(Pie {
            line: Droptail::built(options)?,
            target: options.span("target", ms * 15, us..=Span::from_secs(10))?,
            update: options.span("update", ms * 15, ms..=Span::from_secs(10))?,
            alpha: options.real("alpha", 0.125, 0.0..=100.0)?,
            beta: options.real("beta", 1.25, 0.0..=100.0)?,
            max_burst: burst,
            burst,
            ecn: ecn(options)?,
            updated: Time::ZERO,
            probability: 0.0,
            summed: 0.0,
            delay: Span::ZERO,
            old_delay: Span::ZERO,
        }))
    },
};

/// Divisors of alpha and beta below each probability, because a small one must not jump.
const TUNING: [(f64, f64); 6] = [
    (0.000_001, 2048.0),
    (0.000_01, 512.0),
    (0.000_1, 128.0),
    (0.001, 32.0),
    (0.01, 8.0),
    (0.1, 2.0),
];
const DECAY: f64 = 0.98;
const LARGE: f64 = 0.1;
const MAX_STEP: f64 = 0.02;
const CALM: f64 = 0.2;
const TWO_PACKETS: Bytes = Bytes::new(2 * 1500);
const NO_DROP_BELOW: f64 = 0.85;
const DROP_FROM: f64 = 8.5;
/// Probability above which packets are dropped instead of marked.
const MAX_MARKED: f64 = 0.1;
/// Maximum number of missed updates that are made up for after a silence; at 15 ms those of 25 minutes. By then the
/// probability is constant, or nearly so.
const MAX_CATCH_UP: u64 = 100_000;

#[derive(Clone, Debug)]
struct Pie {
    line: Droptail,
    target: Span,
    update: Span,
    alpha: f64,
    beta: f64,
    max_burst: Span,
    /// Remaining time of the burst allowance, in which nothing is dropped.
    burst: Span,
    ecn: bool,
    /// Time of the last update: a multiple of `update`.
    updated: Time,
    probability: f64,
    /// Sum of the drop probabilities of the packets since the last drop.
    summed: f64,
    /// Queueing delay of the last departed packet.
    delay: Span,
    /// The same at the last update.
    old_delay: Span,
}

impl Pie {
    /// Makes up for the missed updates. Their inputs do not change between two calls.
    fn catch_up(&mut self, now: Time) {
        let missed = now.since(self.updated).as_nanos() / self.update.as_nanos();
        if missed == 0 {
            return;
        }
        self.updated += self.update * missed;
        for _ in 0..missed.min(MAX_CATCH_UP) {
            let before = (self.probability, self.burst, self.old_delay);
            self.adjust();
            if before == (self.probability, self.burst, self.old_delay) {
                break;
            }
        }
    }

    /// One update (sections 4.2, 4.4 and 5.5).
    fn adjust(&mut self) {
        let (delay, old) = (self.delay.as_secs_f64(), self.old_delay.as_secs_f64());
        let divisor = TUNING
            .iter()
            .find(|(below, _)| self.probability < *below)
            .map_or(1.0, |(_, divisor)| *divisor);
        let mut step = (self.alpha * (delay - self.target.as_secs_f64())
            + self.beta * (delay - old))
            / divisor;
        if self.probability >= LARGE {
            step = step.min(MAX_STEP);
        }
        self.probability += step;
        if self.delay.is_zero() && self.old_delay.is_zero() {
            self.probability *= DECAY;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.burst = self.burst.saturating_sub(self.update);
        if self.probability == 0.0 && self.calm(self.delay) && self.calm(self.old_delay) {
            self.burst = self.max_burst;
        }
        self.old_delay = self.delay;
    }

    fn calm(&self, delay: Span) -> bool {
        delay < self.target / 2
    }

    /// True if an arriving packet is to be dropped (sections 4.1 and 5.4).
    fn drops(&mut self, rng: &mut Rng) -> bool {
        if !self.burst.is_zero()
            || (self.calm(self.old_delay) && self.probability < CALM)
            || self.line.bytes() <= TWO_PACKETS
        {
            return false;
        }
        if self.probability == 0.0 {
            self.summed = 0.0;
        }
        self.summed += self.probability;
        self.summed >= NO_DROP_BELOW && (self.summed >= DROP_FROM || rng.chance(self.probability))
    }
}

impl Queue for Pie {
    fn enqueue(
        &mut self,
        now: Time,
        mut packet: Packet,
        rng: &mut Rng,
        _: &mut Vec<Packet>,
    ) -> Enqueue {
        self.catch_up(now);
        let answer = if !self.line.fits(&packet) {
            Enqueue::Refused(DropReason::Overflow)
        } else if !self.drops(rng) {
            return self.line.push(now, packet);
        } else if self.ecn && self.probability <= MAX_MARKED && packet.mark() {
            self.line.push(now, packet)
        } else {
            Enqueue::Refused(DropReason::Aqm)
        };
        self.summed = 0.0;
        answer
    }

    fn dequeue(&mut self, now: Time, _: &mut Vec<Packet>) -> Option<Queued> {
        self.catch_up(now);
        let queued = self.line.pop()?;
        self.delay = if self.line.is_empty() {
            Span::ZERO
        } else {
            now.since(queued.arrived)
        };
        Some(queued)
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

    fn pie() -> Pie {
        Pie {
            line: Droptail::new(Bytes::MAX, u64::MAX),
            target: Span::from_millis(15),
            update: Span::from_millis(15),
            alpha: 0.125,
            beta: 1.25,
            max_burst: Span::from_millis(150),
            burst: Span::ZERO,
            ecn: true,
            updated: Time::ZERO,
            probability: 0.0,
            summed: 0.0,
            delay: Span::ZERO,
            old_delay: Span::ZERO,
        }
    }

    fn packet() -> Packet {
        Packet {
            id: 0,
            flow: 0,
            len: Bytes::new(1500),
            ecn: Ecn::NotEct,
        }
    }

    fn close(got: f64, want: f64) {
        assert!(
            (got - want).abs() <= 1e-12 * want.max(1e-6),
            "{got} for {want}"
        );
    }

    #[test]
    fn probabilities_by_hand() {
        // Delay 55 ms from nothing, then 55, 95, 95 and 15 ms. Step: 0.125 * (delay - 0.015) +
        // 1.25 * (delay - old), divided by the divisor of the probability before:
        //   p = 0       : (0.125 * 0.040 + 1.25 * 0.055) / 2048 = 0.07375 / 2048     -> 3.60107421875e-5
        //   p < 1e-4    : (0.125 * 0.040) / 128 = 0.005 / 128 = 3.90625e-5           -> 7.50732421875e-5
        //   p < 1e-4    : (0.125 * 0.080 + 1.25 * 0.040) / 128 = 0.06 / 128          -> 5.438232421875e-4
        //   p < 1e-3    : (0.125 * 0.080) / 32 = 3.125e-4                            -> 8.563232421875e-4
        //   p < 1e-3    : 1.25 * -0.080 / 32 = -3.125e-3                             -> 0
        let mut pie = pie();
        for (ms, want) in [
            (55, 3.60107421875e-5),
            (55, 7.50732421875e-5),
            (95, 5.438232421875e-4),
            (95, 8.563232421875e-4),
            (15, 0.0),
        ] {
            pie.delay = Span::from_millis(ms);
            pie.adjust();
            close(pie.probability, want);
        }
    }

    #[test]
    fn a_large_probability_grows_in_small_steps_and_decays_alone() {
        let mut pie = pie();
        // 0.125 * 0.485 + 1.25 * 0.5 would be 0.686
        pie.probability = 0.1;
        pie.delay = Span::from_millis(500);
        pie.adjust();
        close(pie.probability, 0.12);
        // falling is not limited: 0.125 * -0.015 + 1.25 * -0.5
        pie.probability = 0.7;
        pie.delay = Span::ZERO;
        pie.adjust();
        close(pie.probability, 0.7 - 0.001875 - 0.625);
        // the second zero in a row: minus alpha times target, halved below 10 %, then times 0.98
        pie.probability = 0.05;
        pie.adjust();
        close(pie.probability, (0.05 - 0.001875 / 2.0) * 0.98);
    }

    #[test]
    fn a_burst_passes_for_ten_updates() {
        let mut pie = pie();
        let mut rng = Rng::new(1);
        let mut drops = Vec::new();
        // quiet until 30 ms: two updates, the allowance is whole
        pie.catch_up(Time::from_millis(30));
        assert_eq!(pie.burst, Span::from_millis(150));
        // Then the queue stands for good, with a probability that drops everything: from 8.5 summed
        // up at the latest.
        for _ in 0..10 {
            pie.line.push(Time::ZERO, packet());
        }
        pie.delay = Span::from_secs(10);
        pie.old_delay = Span::from_secs(10);
        pie.probability = 1.0;
        // Ten updates, at 45 to 180 ms, use it up.
        let mut first = None;
        for ms in 31..300 {
            let now = Time::from_millis(ms);
            if pie.enqueue(now, packet(), &mut rng, &mut drops) != Enqueue::Taken {
                first = first.or(Some(ms));
            }
        }
        assert_eq!(first, Some(180));
    }

    #[test]
    fn drops_come_neither_at_once_nor_late() {
        // At 10 % eight packets pass until the sum reaches 0.85. Then it is random: the gap is 8 plus a geometric
        // number of mean 10. At a sum of 8.5, which is after 85 packets (86 if the sum is rounded down), the drop is
        // certain.
        let mut pie = pie();
        for _ in 0..10 {
            pie.line.push(Time::ZERO, packet());
        }
        pie.old_delay = Span::from_millis(20);
        pie.probability = 0.1;
        let mut rng = Rng::new(11);
        let mut gaps = Vec::new();
        let mut gap = 0_u32;
        for _ in 0..200_000 {
            gap += 1;
            if pie.drops(&mut rng) {
                pie.summed = 0.0;
                gaps.push(gap);
                gap = 0;
            }
        }
        let mean = f64::from(gaps.iter().sum::<u32>()) / gaps.len() as f64;
        assert_eq!(gaps.iter().min(), Some(&9));
        assert!(gaps.iter().all(|gap| *gap <= 86));
        // standard error 9.5 / sqrt(11000) = 0.09; the end at 85 takes 0.003 away
        assert!((mean - 18.0).abs() < 0.4, "{mean}");
    }

    #[test]
    fn little_or_calm_is_left_alone() {
        let mut pie = pie();
        let mut rng = Rng::new(1);
        pie.probability = 1.0;
        pie.summed = 8.0;
        pie.old_delay = Span::from_millis(20);
        for _ in 0..2 {
            pie.line.push(Time::ZERO, packet());
        }
        assert!(!pie.drops(&mut rng), "two packets");
        pie.line.push(Time::ZERO, packet());
        pie.old_delay = Span::from_millis(7);
        pie.probability = 0.19;
        assert!(!pie.drops(&mut rng), "below half the target");
        pie.probability = 0.5;
        assert!(pie.drops(&mut rng), "but not from 20 % on");
    }

    #[test]
    fn a_hundred_years_of_silence_take_no_time() {
        let mut pie = pie();
        pie.probability = 1.0;
        pie.catch_up(Time::from_millis(3_155_760_000_000));
        assert_eq!(pie.probability, 0.0);
        // a creep that would need 10^13 updates is given up
        pie.delay = Span::from_nanos(15_000_001);
        pie.old_delay = pie.delay;
        pie.catch_up(Time::from_millis(6_311_520_000_000));
        assert!(pie.probability < 1e-3);
    }
}
