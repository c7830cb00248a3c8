// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion of the kernel's packet counters to single packets, one acknowledgement after the other.
use alcc_cc::{Delivery, Kind, Packet, Pn, Tag};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;
use std::mem::take;

/// The kernel's state at one acknowledgement. Its counters are those after the acknowledgement, and before any packet
/// that it releases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckSample {
    /// Time of the acknowledgement.
    pub at: Time,
    /// RTT of the newest packet that it acknowledged, unless that one was sent twice.
    pub rtt: Option<Span>,
    /// Packets delivered in total; wraps.
    pub delivered: u32,
    /// Packets found lost in total, counting each transmission; wraps.
    pub lost: u32,
    /// Packets in flight.
    pub in_flight: u32,
}

/// The transmissions of a TCP whose kernel reports each acknowledgement.
///
/// Each transmission is delivered, found lost, or in flight. So the three counters add up to the number of
/// transmissions. The differences of two samples are the numbers of packets that were sent, arrived and were lost
/// between them. These are assumed to be the oldest ones. Above a hole that is wrong by the few packets after which the
/// kernel declares the hole lost, and right again from then on. The time of sending is that of the acknowledgement
/// before, which released the packets. The newest packet of a sample has an exact one, by its RTT.
///
/// A reading of a fast path covers tens of thousands of packets, most of which were sent at one known time. Such a run
/// is one record ([`Transmissions::begin_reading`]). Counters split it where they end, so totals stay exact.
#[derive(Clone, Debug)]
pub(crate) struct Transmissions {
    in_flight: VecDeque<Run>,
    /// Packets in `in_flight`.
    packets: u32,
    /// Maximum number of packets in a record.
    longest: u32,
    next_pn: Pn,
    last: AckSample,
    delivery: Delivery,
    returned: Vec<Packet>,
    lost: Vec<Packet>,
}

/// Number of packets of a reading up to which each has its own record: at 5 ms, 1.2 Gbit/s.
const SINGLE: u32 = 512;
/// Approximate number of records above that: twice the number of acknowledgements that the kernel remembers.
const RECORDS: u32 = 64;

/// Packets that were sent together. The record has the number of the last one, so all parts of it have different
/// numbers, and none is above the number reported to the algorithm.
#[derive(Clone, Copy, Debug)]
struct Run {
    packets: u32,
    record: Packet,
}

impl Run {
    /// Splits off the first `count` packets, which must be fewer than it has.
    fn split(&mut self, count: u32) -> Packet {
        let rest = self.packets - count;
        let len = self.record.len.get() / u64::from(self.packets) * u64::from(count);
        let first = Packet {
            pn: self.record.pn - u64::from(rest),
            len: Bytes::new(len),
            ..self.record
        };
        self.packets = rest;
        self.record.len = self.record.len.saturating_sub(first.len);
        first
    }
}

impl Transmissions {
    /// Starts at packet number `first`. The sending times of the packets in flight are unknown.
    pub(crate) fn new(now: Time, first: &AckSample) -> Self {
        Self {
            in_flight: VecDeque::new(),
            packets: 0,
            longest: 1,
            next_pn: 0,
            last: *first,
            delivery: Delivery::new(now),
            returned: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Packets in flight.
    pub(crate) fn len(&self) -> u32 {
        self.packets
    }

    /// Announces `count` packets that will be reported as sent until the next call, in records of at most
    /// [`Transmissions::longest`] packets. With `each`, every packet has its own record, whatever that costs.
    pub(crate) fn begin_reading(&mut self, count: u32, each: bool) {
        self.longest = if each || count <= SINGLE {
            1
        } else {
            count.div_ceil(RECORDS)
        };
    }

    /// Maximum number of packets in one record.
    pub(crate) fn longest(&self) -> u32 {
        self.longest
    }

    /// Total number of transmissions as the kernel counts them; wraps.
    pub(crate) fn total(&self) -> u32 {
        let ended = self.last.delivered.wrapping_add(self.last.lost);
        ended.wrapping_add(self.len())
    }

    /// The last sample.
    pub(crate) fn last(&self) -> &AckSample {
        &self.last
    }

    /// Number of the next packet.
    pub(crate) fn next_pn(&self) -> Pn {
        self.next_pn
    }

    /// The oldest record in flight.
    pub(crate) fn oldest(&self) -> Option<&Packet> {
        self.in_flight.front().map(|run| &run.record)
    }

    /// Total delivered since the start, with the state for stamps.
    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Packets delivered by the last sample, oldest first.
    pub(crate) fn returned(&self) -> &[Packet] {
        &self.returned
    }

    /// Packets lost by the last sample, oldest first.
    pub(crate) fn lost(&self) -> &[Packet] {
        &self.lost
    }

    /// Number of packets that must have been sent before `sample` and are not recorded yet.
    pub(crate) fn sent_before(&self, sample: &AckSample) -> u32 {
        let (delivered, lost) = self.ended(sample);
        let total = u64::from(sample.in_flight) + u64::from(delivered) + u64::from(lost);
        u32::try_from(total.saturating_sub(self.len().into())).unwrap_or(u32::MAX)
    }

    /// Packets delivered and lost since the last sample.
    fn ended(&self, sample: &AckSample) -> (u32, u32) {
        let since = |now: u32, before: u32| now.wrapping_sub(before).cast_signed().max(0);
        (
            since(sample.delivered, self.last.delivered).cast_unsigned(),
            since(sample.lost, self.last.lost).cast_unsigned(),
        )
    }

    /// Records `count` packets of `mss` bytes sent at `at`: one record, with the number of the last.
    pub(crate) fn sent(
        &mut self,
        at: Time,
        (packets, mss): (u32, Bytes),
        app_limited: bool,
        tag: Tag,
    ) {
        if packets == 0 {
            return;
        }
        if self.in_flight.is_empty() {
            self.delivery.begin_flight(at);
        }
        self.packets = self.packets.saturating_add(packets);
        self.next_pn += u64::from(packets);
        let record = Packet {
            pn: self.next_pn - 1,
            len: mss * u64::from(packets),
            sent_at: at,
            tag,
            stamp: (self.delivery).stamp(mss * u64::from(self.packets), app_limited),
            rtt: None,
            kind: Kind::New,
        };
        self.in_flight.push_back(Run { packets, record });
    }

    /// Removes the oldest `count` packets, in as few records as possible.
    fn take(&mut self, mut count: u32, mut to: impl FnMut(Packet)) {
        while count > 0
            && let Some(oldest) = self.in_flight.front_mut()
        {
            let taken = oldest.packets.min(count);
            if taken < oldest.packets {
                to(oldest.split(taken));
            } else {
                to(oldest.record);
                self.in_flight.pop_front();
            }
            self.packets -= taken;
            count -= taken;
        }
    }

    /// Takes the next sample. All packets sent before it must have been recorded ([`Transmissions::sent_before`]).
    pub(crate) fn sampled(&mut self, sample: &AckSample) {
        let (delivered, lost) = self.ended(sample);
        let (mut gone, mut arrived) = (take(&mut self.lost), take(&mut self.returned));
        gone.clear();
        arrived.clear();
        self.take(lost, |packet| gone.push(packet));
        // Only the newest packet was measured, so it gets a record of its own.
        let delivered = delivered.min(self.packets);
        self.take(delivered.saturating_sub(1), |packet| arrived.push(packet));
        self.take(delivered.min(1), |packet| arrived.push(packet));
        (self.lost, self.returned) = (gone, arrived);
        // A probe that the kernel sends again counts twice until it arrives.
        self.take(self.packets.saturating_sub(sample.in_flight), drop);
        if let (Some(newest), Some(rtt)) = (self.returned.last_mut(), sample.rtt) {
            newest.rtt = Some(rtt);
            newest.sent_at = Time::ZERO + sample.at.since(Time::ZERO + rtt);
        }
        for packet in &self.returned {
            self.delivery.arrived(sample.at, packet);
        }
        self.last = *sample;
    }

    /// Removes all packets as delivered.
    pub(crate) fn clear(&mut self) {
        self.in_flight = VecDeque::new();
        self.packets = 0;
        self.returned = Vec::new();
        self.lost = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: Bytes = Bytes::new(1448);

    fn ms(at: u64) -> Time {
        Time::from_millis(at)
    }

    fn sample(at: u64, delivered: u32, lost: u32, in_flight: u32) -> AckSample {
        AckSample {
            at: ms(at),
            rtt: Some(Span::from_millis(40)),
            delivered,
            lost,
            in_flight,
        }
    }

    /// Ten packets, sent a millisecond apart.
    fn ten() -> Transmissions {
        let mut t = Transmissions::new(ms(0), &sample(0, 100, 7, 0));
        for n in 0..10 {
            t.sent(ms(n), (1, MSS), false, Tag(n));
        }
        t
    }

    fn numbers(packets: &[Packet]) -> Vec<Pn> {
        packets.iter().map(|p| p.pn).collect()
    }

    #[test]
    fn differences_of_counters_are_packets() {
        let mut t = ten();
        assert_eq!((t.len(), t.total()), (10, 117));
        // Two were delivered, and three more had been sent before.
        let next = sample(43, 102, 7, 11);
        assert_eq!(t.sent_before(&next), 3);
        (0..3).for_each(|n| t.sent(ms(40), (1, MSS), false, Tag(10 + n)));
        t.sampled(&next);
        assert_eq!((numbers(t.returned()), t.len()), (vec![0, 1], 11));
        let newest = t.returned()[1];
        assert_eq!((newest.sent_at, newest.rtt), (ms(3), next.rtt));
        assert_eq!(t.returned()[0].rtt, None, "only the newest was measured");
        assert_eq!(t.delivery().total(), MSS * 2);
    }

    #[test]
    fn above_a_hole_the_numbers_are_right_again_with_the_loss() {
        let mut t = ten();
        // The first is missing: three above it are SACKed, and then it is called lost.
        for n in 1..=2 {
            t.sampled(&sample(40 + u64::from(n), 100 + n, 7, 10 - n));
        }
        t.sampled(&sample(43, 103, 8, 6));
        assert_eq!((t.lost().len(), t.len()), (1, 6));
        assert_eq!(t.oldest().map(|p| p.pn), Some(4));
    }

    #[test]
    fn a_timeout_loses_all_and_its_mistake_costs_nothing() {
        let mut t = ten();
        t.sampled(&sample(300, 100, 17, 0));
        assert_eq!((numbers(t.lost()).len(), t.len()), (10, 0));
        // They had arrived, so as many more must have been sent.
        let late = sample(310, 110, 17, 0);
        assert_eq!(t.sent_before(&late), 10);
    }

    #[test]
    fn a_probe_that_was_counted_twice_leaves_nothing_behind() {
        let mut t = ten();
        t.sent(ms(60), (1, MSS), false, Tag(10));
        // Original and probe end together, with one delivery.
        t.sampled(&sample(100, 110, 7, 0));
        assert_eq!((t.returned().len(), t.len()), (10, 0));
    }

    #[test]
    fn few_packets_of_a_reading_are_single_and_many_are_few_records() {
        let records = |count, each| {
            let mut t = Transmissions::new(ms(0), &sample(0, 0, 0, 0));
            t.begin_reading(count, each);
            count.div_ceil(t.longest())
        };
        assert_eq!(records(SINGLE, false), SINGLE);
        assert!(records(SINGLE + 1, false) <= RECORDS);
        assert!(records(1 << 16, false) <= RECORDS);
        assert_eq!(
            records(1 << 16, true),
            1 << 16,
            "a receiver module wants each"
        );
    }

    /// Each packet of these records: its number, bytes, departure, and RTT if it was measured.
    fn each(records: &[Packet]) -> Vec<(Pn, Bytes, Time, Option<Span>)> {
        let packets = |r: &Packet| {
            let n = r.len.get() / MSS.get();
            let (last, sent_at, rtt) = (r.pn, r.sent_at, r.rtt);
            assert!(rtt.is_none() || n == 1, "a measured packet is alone");
            (0..n).rev().map(move |k| (last - k, MSS, sent_at, rtt))
        };
        records.iter().flat_map(packets).collect()
    }

    proptest! {
        /// For each step: the number of packets sent before its acknowledgement, delivered and lost; then whether an
        /// RTT was measured, and the number of probes counted twice.
        #[test]
        fn records_of_many_packets_equal_records_of_single_ones(
            longest in 2u32..200,
            steps in prop::collection::vec((0u32..500, 0u32..400, 0u32..40, any::<bool>(), 0u32..3), 1..60),
        ) {
            let first = AckSample { delivered: u32::MAX - 50, ..sample(0, 0, 9, 0) };
            let mut single = Transmissions::new(ms(0), &first);
            let mut runs = Transmissions::new(ms(0), &first);
            runs.longest = longest;
            let (mut told, mut ended) = (0u64, 0u64);
            for (n, (leave, delivered, lost, measured, twice)) in steps.into_iter().enumerate() {
                let (left_at, at) = (ms(100 * n as u64 + 50), ms(100 * n as u64 + 100));
                for t in [&mut single, &mut runs] {
                    let mut count = leave;
                    while count > 0 {
                        let packets = count.min(t.longest());
                        t.sent(left_at, (packets, MSS), false, Tag::default());
                        count -= packets;
                    }
                }
                told += u64::from(leave);
                let lost = lost.min(single.len());
                let delivered = delivered.min(single.len() - lost);
                let twice = twice.min(single.len() - lost - delivered);
                let next = AckSample {
                    at,
                    rtt: measured.then(|| Span::from_millis(70)),
                    delivered: single.last.delivered.wrapping_add(delivered),
                    lost: single.last.lost.wrapping_add(lost),
                    in_flight: single.len() - lost - delivered - twice,
                };
                prop_assert_eq!(single.sent_before(&next), runs.sent_before(&next));
                single.sampled(&next);
                runs.sampled(&next);
                ended += u64::from(delivered + lost + twice);
                prop_assert_eq!(u64::from(runs.len()), told - ended);
                let inside: u32 = runs.in_flight.iter().map(|run| run.packets).sum();
                prop_assert_eq!(inside, runs.len());
                prop_assert_eq!((single.len(), single.total()), (runs.len(), runs.total()));
                prop_assert_eq!(each(single.returned()), each(runs.returned()));
                prop_assert_eq!(each(runs.returned()).len(), delivered as usize);
                prop_assert_eq!(each(single.lost()), each(runs.lost()));
                prop_assert_eq!(each(runs.lost()).len(), lost as usize);
                prop_assert_eq!(single.delivery().total(), runs.delivery().total());
                let rate = |t: &Transmissions| t.delivery().rate(t.returned());
                prop_assert_eq!(rate(&single), rate(&runs));
                let flight = |t: &Transmissions| each(&t.in_flight.iter().map(|r| r.record).collect::<Vec<_>>());
                prop_assert_eq!(flight(&single), flight(&runs));
            }
        }
    }
}
