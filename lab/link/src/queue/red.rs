// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RED (Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! ToN 1(4), 1993).
//!
//! RED keeps a moving average of the queue in bytes. Between two thresholds an arriving packet is
//! dropped with a probability that grows with the average. Drops are spread evenly over the
//! arrivals. Above the upper threshold all are dropped.
//!
//! | constant | value | where |
//! |---|---|---|
//! | min, max, p | 375000 B, 1125000 B, 10 % | Zaki et al., "Adaptive Congestion Control for Unpredictable Cellular Networks" (Verus), SIGCOMM 2015, section 6.2 |
//! | weight | 0.002 | Floyd and Jacobson's own simulations |
//! | gentle | off | Floyd's recommendation of 2000; not in the paper |
//! | idle | 1 ms | one packet of 1500 bytes at 12 Mbit/s; the paper wants the time of a typical small packet on the link |
//! | packet size that has the probability as it is | 1500 B | section 4: p × size / maximum size |
//!
//! `profile=cs244` is the queue of the CS244 report on Verus (Zhang and Dutz, 2017). It differs in
//! two things. Its counter is reset by every packet let through, so that drops are not spread. An
//! empty queue decays the average 800 times a millisecond. The rest is the same: the three
//! thresholds, the weight, and the probability scaled by size / 1500. Everything is dropped above
//! max, and the actual queue has no limit.
//!
//! Between the thresholds a packet that may be marked (ECT) is marked instead of dropped (RFC 3168,
//! section 5). From the upper threshold on it is dropped like the others, because overload has to
//! be dropped (RFC 3168, section 7; RFC 7567, section 4.2.1).
//!
//! The paper has two definitions of the count since the last drop. This one is that of its section
//! 7: packets let through since. So gaps are uniform from 1 to 1/p. Its pseudo-code counts the
//! arriving packet too, which ends them at 1/p - 1.
use super::droptail::Droptail;
use super::{ECN, Enqueue, Queue, QueueKind, Queued, ecn};
use crate::{DropReason, Packet};
use alcc_units::{Bytes, OptionDoc, Rng, Span, Time};

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "red",
    summary: "RED: random early detection on the average queue in bytes (Floyd and Jacobson 1993)",
    overtaking: false,
    options: &[
        OptionDoc {
            name: "profile",
            default: "paper",
            help: "paper; cs244: spacing=no,idle=1.25us, what the link of the CS244 report on Verus did",
        },
        OptionDoc {
            name: "min",
            default: "375000",
            help: "average queue in bytes from which packets may be dropped, 1 or more",
        },
        OptionDoc {
            name: "max",
            default: "1125000",
            help: "average queue in bytes from which all are dropped, above min",
        },
        OptionDoc {
            name: "p",
            default: "0.1",
            help: "drop probability at max for a packet of 1500 bytes, 0 to 1",
        },
        OptionDoc {
            name: "weight",
            default: "0.002",
            help: "weight of the current queue in the average, 1e-9 to 1",
        },
        OptionDoc {
            name: "gentle",
            default: "no",
            help: "yes: above max the probability rises from p to 1 at twice max, instead of at once",
        },
        OptionDoc {
            name: "spacing",
            default: "yes",
            help: "no: every arrival is drawn independently, so drops are not spread evenly (no with profile=cs244)",
        },
        OptionDoc {
            name: "idle",
            default: "1ms",
            help: "while the queue is empty, the average decays as if a packet left at this interval, 1us to 10s (1.25us with profile=cs244)",
        },
        OptionDoc {
            name: "bytes",
            default: "unlimited",
            help: "maximum queued IP bytes, 1 or more",
        },
        OptionDoc {
            name: "packets",
            default: "unlimited",
            help: "maximum queued packets, 1 to 1000000000",
        },
        ECN,
    ],
    build: |options| {
        let any = Bytes::new(1)..=Bytes::MAX;
        let min = options.bytes("min", Bytes::new(375_000), any.clone())?;
        let max = options.bytes("max", Bytes::new(1_125_000), any.clone())?;
        if min >= max {
            let wrong = if options.text("max").is_some() {
                "max"
            } else {
                "min"
            };
            return Err(options.wrong(
                wrong,
                format!("min below max: they are {} and {}", min.get(), max.get()),
            ));
        }
        let us = Span::from_micros(1);
        let (spacing, idle) = match options.choice("profile", &["paper", "cs244"])? {
            "cs244" => (["no", "yes"], Span::from_nanos(1250)),
            _ => (["yes", "no"], Span::from_millis(1)),
        };
        Ok(Box::new(Red {
            line: Droptail::new(
                options.bytes("bytes", Bytes::MAX, any)?,
                options.whole("packets", u64::MAX, 1..=1_000_000_000)?,
            ),
            min: min.get() as f64,
            max: max.get() as f64,
            p: options.share("p", 0.1, 0.0..=1.0)?,
            weight: options.real("weight", 0.002, 1e-9..=1.0)?,
            gentle: options.choice("gentle", &["no", "yes"])? == "yes",
            spacing: options.choice("spacing", &spacing)? == "yes",
            idle: options.span("idle", idle, us..=Span::from_secs(10))?,
            ecn: ecn(options)?,
            average: 0.0,
            count: 0,
            empty_since: Time::ZERO,
        }))
    },
};

const FULL_PACKET: f64 = 1500.0;

#[derive(Clone, Debug)]
struct Red {
    line: Droptail,
    min: f64,
    max: f64,
    p: f64,
    weight: f64,
    gentle: bool,
    spacing: bool,
    idle: Span,
    ecn: bool,
    /// Moving average of the queue, bytes.
    average: f64,
    /// Packets let through since the last drop, while the average was above `min`.
    count: u64,
    empty_since: Time,
}

impl Red {
    fn update_average(&mut self, now: Time) {
        if self.line.is_empty() {
            let missed =
                now.since(self.empty_since).as_nanos() as f64 / self.idle.as_nanos() as f64;
            self.average *= libm::pow(1.0 - self.weight, missed);
            // The decay up to now is included, whether or not the packet is taken.
            self.empty_since = now;
        } else {
            self.average += self.weight * (self.line.bytes().get() as f64 - self.average);
        }
    }

    /// Probability of dropping a packet of `len`; the paper's p_b, then p_a (section 4).
    fn probability(&self, len: Bytes) -> f64 {
        if self.average < self.min {
            return 0.0;
        }
        let full = if self.average < self.max {
            self.p * (self.average - self.min) / (self.max - self.min)
        } else if self.gentle && self.average < 2.0 * self.max {
            self.p + (1.0 - self.p) * (self.average - self.max) / self.max
        } else {
            return 1.0;
        };
        let single = full * len.get() as f64 / FULL_PACKET;
        if !self.spacing {
            return single;
        }
        let remaining = 1.0 - self.count as f64 * single;
        if remaining <= single {
            1.0
        } else {
            single / remaining
        }
    }
}

impl Queue for Red {
    fn enqueue(
        &mut self,
        now: Time,
        mut packet: Packet,
        rng: &mut Rng,
        _: &mut Vec<Packet>,
    ) -> Enqueue {
        self.update_average(now);
        if self.average < self.min {
            self.count = 0;
        } else if rng.chance(self.probability(packet.len)) {
            self.count = 0;
            if !(self.ecn && self.average < self.max && packet.mark()) {
                return Enqueue::Refused(DropReason::Aqm);
            }
        } else {
            self.count += 1;
        }
        self.line.push(now, packet)
    }

    fn dequeue(&mut self, now: Time, _: &mut Vec<Packet>) -> Option<Queued> {
        let queued = self.line.pop()?;
        if self.line.is_empty() {
            self.empty_since = now;
        }
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
    use alcc_units::{Options, Spec};

    fn red(average: f64, count: u64, gentle: bool, spacing: bool) -> Red {
        Red {
            line: Droptail::new(Bytes::MAX, u64::MAX),
            min: 3000.0,
            max: 9000.0,
            p: 0.1,
            weight: 0.5,
            gentle,
            spacing,
            idle: Span::from_millis(1),
            ecn: true,
            average,
            count,
            empty_since: Time::ZERO,
        }
    }

    #[test]
    fn probability_by_hand() {
        // (average, count, gentle, spacing, length) -> probability
        let full = Bytes::new(1500);
        let half = Bytes::new(750);
        for (average, count, gentle, spacing, len, want) in [
            (2999.0, 50, false, true, full, 0.0),
            (3000.0, 0, false, true, full, 0.0),
            // halfway: 0.1 * 3000 / 6000
            (6000.0, 0, false, true, full, 0.05),
            (6000.0, 0, false, true, half, 0.025),
            // 0.05 / (1 - 10 * 0.05); the 20th packet is certain
            (6000.0, 10, false, true, full, 0.1),
            (6000.0, 10, false, false, full, 0.05),
            (6000.0, 19, false, true, full, 1.0),
            (6000.0, 400, false, true, full, 1.0),
            (9000.0, 0, false, true, full, 1.0),
            (9000.0, 0, true, true, full, 0.1),
            // halfway from 9000 to 18000: 0.1 + 0.9 / 2
            (13500.0, 0, true, true, full, 0.55),
            (18000.0, 0, true, true, full, 1.0),
        ] {
            let got = red(average, count, gentle, spacing).probability(len);
            assert!((got - want).abs() < 1e-12, "{average} {count}: {got}");
        }
    }

    #[test]
    fn the_average_follows_the_queue_and_decays_while_it_is_empty() {
        let mut red = red(0.0, 0, false, true);
        let mut rng = Rng::new(1);
        let packet = Packet {
            id: 0,
            flow: 0,
            len: Bytes::new(1000),
            ecn: Ecn::NotEct,
        };
        let mut averages = Vec::new();
        for _ in 0..4 {
            assert_eq!(
                red.enqueue(Time::ZERO, packet, &mut rng, &mut Vec::new()),
                Enqueue::Taken
            );
            averages.push(red.average);
        }
        // queue found: 0, 1000, 2000, 3000; weight 1/2
        assert_eq!(averages, [0.0, 500.0, 1250.0, 2125.0]);
        for _ in 0..4 {
            red.dequeue(Time::from_millis(7), &mut Vec::new());
        }
        // empty from 7 to 10 ms: three packets' worth of halving
        red.update_average(Time::from_millis(10));
        assert!((red.average - 2125.0 / 8.0).abs() < 1e-9);
    }

    #[test]
    fn drops_are_spread_evenly() {
        // At a constant average of 6000 the gap between drops is uniform on 1..=20: mean 10.5.
        let mut red = red(6000.0, 0, false, true);
        red.weight = 1e-9;
        let mut rng = Rng::new(3);
        let mut drops = Vec::new();
        for id in 0..100_000 {
            red.line.push(Time::ZERO, packet_of(1500));
            let answer = red.enqueue(Time::ZERO, packet_of(1500), &mut rng, &mut Vec::new());
            if answer != Enqueue::Taken {
                drops.push(id);
            }
            while red.line.pop().is_some() {}
            red.average = 6000.0;
        }
        let gaps: Vec<i32> = drops.windows(2).map(|w| w[1] - w[0]).collect();
        let mean = f64::from(gaps.iter().sum::<i32>()) / gaps.len() as f64;
        assert_eq!(gaps.iter().max(), Some(&20));
        assert_eq!(gaps.iter().min(), Some(&1));
        // standard error of the mean: 5.8 / sqrt(9500) = 0.06
        assert!((mean - 10.5).abs() < 0.3, "{mean}");
    }

    fn packet_of(len: u64) -> Packet {
        Packet {
            id: 0,
            flow: 0,
            len: Bytes::new(len),
            ecn: Ecn::NotEct,
        }
    }

    #[test]
    fn thresholds_the_wrong_way_round_are_refused() {
        let spec: Spec = "red:min=9000,max=3000".parse().unwrap();
        let options = Options::new("queue", &spec, QUEUE.options, &[]).unwrap();
        assert_eq!(
            (QUEUE.build)(&options).unwrap_err().to_string(),
            "queue red: max=3000: expected min below max: they are 9000 and 3000"
        );
    }
}
