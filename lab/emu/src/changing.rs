// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One direction of a link whose description can be replaced while packets are inside.
//!
//! The models are made for a schedule that is known at the start. On a change a new model replaces
//! the old one. Packets that have left the old bottleneck continue unchanged. Packets in its queue
//! are moved to the new queue, in the same order. Packets on the way to it arrive at their old
//! time, or earlier if the new delay is shorter. Random loss towards the inside is drawn again for
//! both.
use alcc_link::{Dir, Direction, DirectionSpec, Outcome, Packet};
use alcc_units::{Bytes, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// A time after which no packet is inside a model any more: 30 years.
const FAR: Span = Span::from_secs(1_000_000_000);

pub(crate) struct Changing {
    dir: Dir,
    seed: u64,
    model: Direction,
    since: Time,
    /// Former models, each with its period of use and the packets that it still carries.
    before: Vec<Former>,
    /// Arrival times at the former bottleneck of packets that waited there.
    arrived: BTreeMap<u64, Time>,
    scratch: Vec<Outcome>,
}

struct Former {
    model: Direction,
    from: Time,
    to: Time,
    carries: BTreeSet<u64>,
}

impl Changing {
    pub(crate) fn new(dir: Dir, model: Direction, seed: u64) -> Self {
        Self {
            dir,
            seed,
            model,
            since: Time::ZERO,
            before: Vec::new(),
            arrived: BTreeMap::new(),
            scratch: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, now: Time, packet: Packet, out: &mut Vec<Outcome>) {
        let from = out.len();
        self.model.push(now, packet, out);
        self.remember(from, out);
    }

    pub(crate) fn advance(&mut self, now: Time, out: &mut Vec<Outcome>) {
        for former in self.before.iter_mut().filter(|f| !f.carries.is_empty()) {
            former.model.advance(now, &mut self.scratch);
            for outcome in self.scratch.drain(..) {
                if former.carries.contains(&packet(&outcome).id) {
                    if matches!(outcome, Outcome::Delivered { .. } | Outcome::Dropped { .. }) {
                        former.carries.remove(&packet(&outcome).id);
                    }
                    out.push(outcome);
                }
            }
        }
        let from = out.len();
        self.model.advance(now, out);
        self.remember(from, out);
    }

    pub(crate) fn next_event(&self) -> Option<Time> {
        let former = self.before.iter().filter(|f| !f.carries.is_empty());
        let former = former.filter_map(|f| f.model.next_event()).min();
        former.into_iter().chain(self.model.next_event()).min()
    }

    /// The bytes that the bottlenecks offered, each in its period of use.
    pub(crate) fn opportunity_bytes(&self, from: Time, to: Time) -> Bytes {
        let formers = self.before.iter().map(|f| (&f.model, f.from, f.to));
        let all = formers.chain([(&self.model, self.since, Time::MAX)]);
        let offered = all.filter(|(_, begin, end)| *begin < to && from < *end);
        let offered =
            offered.map(|(m, begin, end)| m.opportunity_bytes(from.max(begin), to.min(end)).get());
        Bytes::new(offered.fold(0, u64::saturating_add))
    }

    /// Replaces the description of the direction from now on.
    pub(crate) fn change(&mut self, now: Time, spec: &DirectionSpec, out: &mut Vec<Outcome>) {
        self.advance(now, out);
        // The fate of the packets inside shows their positions.
        let mut later = Vec::new();
        self.model.clone().advance(now + FAR, &mut later);
        let mut arriving = BTreeMap::new();
        let (mut waiting, mut carries) = (Vec::new(), BTreeSet::new());
        let mut seen = BTreeSet::new();
        for outcome in &later {
            let packet = *packet(outcome);
            let first = seen.insert(packet.id);
            match outcome {
                Outcome::Arrived { at, .. } => {
                    arriving.insert(packet.id, (*at, packet));
                }
                Outcome::Departed { arrived, .. } if first => {
                    waiting.push(packet);
                    self.arrived.entry(packet.id).or_insert(*arrived);
                }
                // The old queue would have dropped it, but the new one may not.
                Outcome::Dropped { .. } if first => waiting.push(packet),
                Outcome::Delivered { .. } if first => {
                    carries.insert(packet.id);
                }
                _ => {}
            }
        }
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let new = Direction::new(spec, self.dir, self.seed);
        let model = std::mem::replace(&mut self.model, new);
        let from = std::mem::replace(&mut self.since, now);
        self.before.push(Former {
            model,
            from,
            to: now,
            carries,
        });
        // If the delay comes first, they are pushed in the past, so that they arrive at the right
        // time.
        let ahead = match self.dir {
            Dir::Down => spec.delay,
            Dir::Up => Span::ZERO,
        };
        let mut again: Vec<(Time, Packet)> = waiting.iter().map(|p| (now, *p)).collect();
        let mut on_their_way: Vec<_> = arriving.into_values().collect();
        on_their_way.sort_by_key(|(at, packet)| (*at, packet.id));
        again.extend(on_their_way);
        let known = out.len();
        for (arrives, packet) in again {
            self.model.push((arrives - ahead).min(now), packet, out);
        }
        self.model.advance(now, out);
        // Their arrivals have been reported before.
        let waited: BTreeSet<u64> = waiting.iter().map(|p| p.id).collect();
        let mut index = 0;
        out.retain(|outcome| {
            index += 1;
            let again =
                matches!(outcome, Outcome::Arrived { packet, .. } if waited.contains(&packet.id));
            index <= known || !again
        });
        self.remember(known, out);
    }

    /// A packet that was moved keeps its first arrival time.
    fn remember(&mut self, from: usize, out: &mut [Outcome]) {
        if self.arrived.is_empty() {
            return;
        }
        for outcome in &mut out[from..] {
            let id = packet(outcome).id;
            match outcome {
                Outcome::Departed { arrived, .. } => {
                    if let Some(first) = self.arrived.get(&id) {
                        *arrived = *first;
                    }
                }
                Outcome::Delivered {
                    arrived,
                    queue_delay,
                    ..
                } => {
                    if let Some(first) = self.arrived.remove(&id) {
                        *queue_delay += arrived.since(first);
                        *arrived = first;
                    }
                }
                Outcome::Dropped { .. } => {
                    self.arrived.remove(&id);
                }
                Outcome::Arrived { .. } | Outcome::Repeated { .. } => {}
            }
        }
    }
}

const fn packet(outcome: &Outcome) -> &Packet {
    match outcome {
        Outcome::Arrived { packet, .. }
        | Outcome::Departed { packet, .. }
        | Outcome::Delivered { packet, .. }
        | Outcome::Repeated { packet, .. }
        | Outcome::Dropped { packet, .. } => packet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_link::{Ecn, RateSpec};
    use alcc_units::Rate;

    /// 1 Mbit/s carries 1250 bytes in 10 ms.
    fn spec(mbps: u64, delay_ms: u64) -> DirectionSpec {
        DirectionSpec {
            rate: RateSpec::Fixed(Rate::mbps(mbps)),
            delay: Span::from_millis(delay_ms),
            ..DirectionSpec::default()
        }
    }

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn deliveries(out: &[Outcome]) -> Vec<(u64, u64, u64)> {
        let of = |outcome: &Outcome| match outcome {
            Outcome::Delivered {
                at,
                packet,
                queue_delay,
                ..
            } => Some((
                packet.id,
                at.since(Time::ZERO).as_nanos() / 1_000_000,
                queue_delay.as_nanos() / 1_000_000,
            )),
            _ => None,
        };
        out.iter().filter_map(of).collect()
    }

    fn run(dir: Dir) -> Vec<Outcome> {
        let mut link = Changing::new(dir, Direction::new(&spec(1, 20), dir, 1), 1);
        let mut out = Vec::new();
        for id in 0..6 {
            let packet = Packet {
                id,
                flow: 0,
                len: Bytes::new(1250),
                ecn: Ecn::default(),
            };
            link.push(at(0), packet, &mut out);
        }
        link.change(at(35), &spec(10, 20), &mut out);
        link.advance(at(1000), &mut out);
        assert_eq!(link.next_event(), None);
        out
    }

    #[test]
    fn what_waits_is_carried_at_the_new_rate() {
        // Towards the inside they reach the bottleneck at 20 ms. At 30 ms one is through. At 35 ms
        // the other five are begun anew, 1 ms each.
        let expected = [
            (0, 30, 10),
            (1, 36, 16),
            (2, 37, 17),
            (3, 38, 18),
            (4, 39, 19),
            (5, 40, 20),
        ];
        assert_eq!(deliveries(&run(Dir::Down)), expected);
        // From the inside the bottleneck comes first: three are through at 35 ms and travel on.
        let expected = [
            (0, 30, 10),
            (1, 40, 20),
            (2, 50, 30),
            (3, 56, 36),
            (4, 57, 37),
            (5, 58, 38),
        ];
        assert_eq!(deliveries(&run(Dir::Up)), expected);
    }

    #[test]
    fn every_packet_arrives_once() {
        for dir in Dir::BOTH {
            let out = run(dir);
            let arrived = out.iter().filter(|o| matches!(o, Outcome::Arrived { .. }));
            assert_eq!(arrived.count(), 6, "{dir:?}");
        }
    }

    #[test]
    fn on_the_way_to_the_bottleneck_the_old_delay_counts() {
        let mut link = Changing::new(Dir::Down, Direction::new(&spec(1, 20), Dir::Down, 1), 1);
        let mut out = Vec::new();
        let packet = Packet {
            id: 7,
            flow: 0,
            len: Bytes::new(1250),
            ecn: Ecn::default(),
        };
        link.push(at(30), packet, &mut out);
        link.change(at(40), &spec(10, 50), &mut out);
        link.advance(at(1000), &mut out);
        // 50 ms at the bottleneck, and 1 ms there.
        assert_eq!(deliveries(&out), [(7, 51, 1)]);
        let offered = link.opportunity_bytes(at(0), at(100));
        // 40 ms of 1 Mbit/s and 60 ms of 10 Mbit/s.
        assert_eq!(offered, Bytes::new(5_000 + 75_000));
    }
}
