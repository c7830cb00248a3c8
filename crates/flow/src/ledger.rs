// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From cumulative byte counters to packets.
use alcc_cc::{Kind, Packet, Pn, Stamp, Tag};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;

/// Turns what a TCP socket knows (bytes written, bytes acknowledged) into the per-packet history that algorithms want.
///
/// A record is a run of whole segments of one write: one segment each for small writes, several for large ones, so that the
/// cost per write is bounded. Offsets are 64-bit stream positions. The ledger holds what is written and not yet
/// acknowledged; beyond some thousand records small writes share one, so its memory is bounded whatever a program does.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// What is written and neither arrived nor lost, from `complete` on.
    records: VecDeque<Record>,
    written: u64,
    /// Acknowledged cumulatively.
    acked: u64,
    /// Up to here it is known what became of the stream: it arrived, or it is lost. Beyond `acked` while a hole is repaired.
    edge: u64,
    /// Sent up to here, as of the last reading.
    left: u64,
    /// Arrived in total since we came.
    delivered: u64,
    /// Counted as arrived and then found lost: the next arrivals pay for it.
    overcounted: u64,
    /// Bytes that are lost, of packets whose fate is not known as a whole.
    owed: u64,
    delivered_at: Time,
    acked_at: Time,
    /// When the newest packet was sent that has been acknowledged, or the first one after a pause.
    first_sent_at: Time,
    /// End of the last packet whose fate is known as a whole: where the oldest record begins.
    complete: u64,
    next_pn: Pn,
    /// Number of the oldest record.
    first_pn: Pn,
    /// Numbers taken by retransmissions since the newest record.
    skipped: u16,
    /// Records that end at or before this offset have ambiguous acknowledgement times.
    ambiguous_to: u64,
    /// Lost and not sent again: end and length.
    waiting: VecDeque<(u64, u64)>,
    /// Sent again and not acknowledged, with where they end.
    again: Vec<(u64, Packet)>,
    /// The bytes of both.
    waiting_bytes: u64,
    again_bytes: u64,
    returned: Vec<Packet>,
    lost: Vec<Packet>,
}

/// The time at which the stream was acknowledged up to a position (Linux: a TX_ACK time stamp).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckStamp {
    /// Position in the stream.
    pub acked: u64,
    /// When it was reached.
    pub at: Time,
}

/// A packet, without what follows from its neighbours: its length (where the one before it ends) and its number.
#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    /// Delivered when it was sent.
    delivered: u64,
    sent_at: Time,
    tag: Tag,
    /// For how long nothing had been delivered then, and how old the newest acknowledged packet was; µs, at most 71 min.
    since_delivered: u32,
    since_first: u32,
    /// In flight with it, at most 4 GB.
    in_flight: u32,
    /// Retransmissions that were numbered between the record before and this one.
    skipped: u16,
    app_limited: bool,
}

/// No write is split into more records than this.
const RECORDS_PER_WRITE: u64 = 32;
/// With more records than this, a record of less than four such parts of what is in flight takes up what follows it: their number
/// then grows with the logarithm of what is in flight.
const MOST_RECORDS: u64 = 8192;

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1000).unwrap_or(u32::MAX)
}

fn before(at: Time, micros: u32) -> Time {
    Time::from_nanos(at.as_nanos().saturating_sub(u64::from(micros) * 1000))
}

impl Ledger {
    /// A ledger for a stream of which `written` bytes were written and `acked` acknowledged before we came.
    pub fn new(now: Time, written: u64, acked: u64) -> Self {
        let acked = acked.min(written);
        let mut ledger = Self {
            records: VecDeque::new(),
            written: acked,
            acked,
            edge: acked,
            left: acked,
            delivered: 0,
            overcounted: 0,
            owed: 0,
            delivered_at: now,
            acked_at: now,
            first_sent_at: now,
            complete: acked,
            next_pn: 0,
            first_pn: 0,
            skipped: 0,
            ambiguous_to: 0,
            waiting: VecDeque::new(),
            again: Vec::new(),
            waiting_bytes: 0,
            again_bytes: 0,
            returned: Vec::new(),
            lost: Vec::new(),
        };
        ledger.adopt(now, written);
        ledger
    }

    /// Bytes written and not acknowledged, as far as the ledger knows.
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(self.written - self.acked)
    }

    /// Bytes that are under way: neither arrived nor lost. What is lost is under way again once it is sent again.
    pub fn under_way(&self) -> Bytes {
        Bytes::new(self.written - self.edge + self.again_bytes)
    }

    /// Stream position up to which all is written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Stream position up to which all is acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// Number of the next packet.
    pub fn next_pn(&self) -> Pn {
        self.next_pn
    }

    /// Delivered in total since we came.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.delivered)
    }

    /// When something was last delivered.
    pub fn delivered_at(&self) -> Time {
        self.delivered_at
    }

    /// `len` bytes were written at `now`; `tag` is asked once per record, with its number, length and the bytes in
    /// flight before it.
    pub fn wrote(
        &mut self,
        now: Time,
        len: Bytes,
        mss: Bytes,
        app_limited: bool,
        mut tag: impl FnMut(Pn, Bytes, Bytes) -> Tag,
    ) {
        let mss = mss.get().max(1);
        let segments = len.get().div_ceil(mss);
        let step = segments.div_ceil(RECORDS_PER_WRITE).max(1) * mss;
        let mut left = len.get();
        while left > 0 {
            let len = left.min(step);
            left -= len;
            let before = self.under_way();
            if let Some(shared) = self.shared() {
                let pn = self.next_pn - 1 - u64::from(self.skipped);
                let tag = tag(pn, Bytes::new(len), before);
                let ambiguous = self.records[shared].end <= self.ambiguous_to;
                self.written = self.written.saturating_add(len);
                self.records[shared].tag = tag;
                self.records[shared].end = self.written;
                if ambiguous {
                    self.ambiguous_to = self.written;
                }
                continue;
            }
            let tag = tag(self.next_pn, Bytes::new(len), before);
            if before == Bytes::ZERO {
                (self.first_sent_at, self.delivered_at) = (now, now);
            }
            self.push(len, now, tag, app_limited);
        }
    }

    /// The record that takes up what is written, if there are too many.
    fn shared(&self) -> Option<usize> {
        let count = self.records.len();
        if (count as u64) < MOST_RECORDS {
            return None;
        }
        let last = count - 1;
        let len = self.records[last].end - self.records[last - 1].end;
        (len < 4 * self.in_flight().get() / MOST_RECORDS).then_some(last)
    }

    fn push(&mut self, len: u64, now: Time, tag: Tag, app_limited: bool) {
        let skipped = std::mem::take(&mut self.skipped);
        if self.records.is_empty() {
            self.first_pn = self.next_pn;
        }
        self.next_pn += 1;
        self.written = self.written.saturating_add(len);
        self.records.push_back(Record {
            end: self.written,
            delivered: self.delivered,
            sent_at: now,
            tag,
            since_delivered: micros(now.since(self.delivered_at)),
            since_first: micros(now.since(self.first_sent_at)),
            in_flight: u32::try_from(self.under_way().get()).unwrap_or(u32::MAX),
            skipped,
            app_limited,
        });
    }

    /// The kernel says that the stream is written up to `written`: bytes that went past us become one record without an
    /// RTT sample.
    pub fn adopt(&mut self, now: Time, written: u64) {
        if written > self.written {
            let len = written - self.written;
            self.push(len, now, Tag::default(), true);
            self.ambiguous_to = self.written;
        }
    }

    /// The kernel has sent the stream up to `position`. With `paced` what it had held back left evenly between `since` and `now`,
    /// not when it was written.
    pub fn left(&mut self, since: Time, now: Time, position: u64, paced: bool) {
        let from = self.left.max(self.complete);
        let held = position < self.written || self.held_since(since, from);
        self.left = position;
        if !(paced && held && position > from) {
            return;
        }
        let first = self.records.partition_point(|r| r.end <= from);
        let bytes = (position - from) as f64;
        for record in self.records.iter_mut().skip(first) {
            if record.end > position {
                break;
            }
            let share = (record.end - from) as f64 / bytes;
            let at = since + now.since(since).mul_f64(share);
            if at > record.sent_at {
                record.sent_at = at;
                record.delivered = self.delivered;
                record.since_delivered = micros(at.since(self.delivered_at));
                record.since_first = micros(at.since(self.first_sent_at));
            }
        }
    }

    /// Something beyond `from` had been written before `since`.
    fn held_since(&self, since: Time, from: u64) -> bool {
        let first = self.records.partition_point(|r| r.end <= from);
        self.records.get(first).is_some_and(|r| r.sent_at < since)
    }

    /// Something outstanding was sent again, nobody knows what: acknowledgement times say nothing about the path.
    pub fn mark_ambiguous(&mut self) {
        self.ambiguous_to = self.written;
    }

    /// The stream is acknowledged up to `acked`, some time after `since` and not later than `now`. Returns the packets
    /// covered, oldest first.
    ///
    /// Acknowledgement times between the two readings are taken to be evenly spread over the bytes; `floor` is the smallest
    /// RTT the path can have. So a sample is wrong by at most `now - since`.
    pub fn acknowledged(&mut self, since: Time, now: Time, acked: u64, floor: Span) -> &[Packet] {
        self.stamped(since, &[], now, acked, floor);
        &self.returned
    }

    /// As [`Ledger::acknowledged`], when some positions have the time of their acknowledgement, ascending: a packet that ends at
    /// one has an exact sample, others lie between their neighbours. Returns the bound on the error of the samples; the packets are in
    /// [`Ledger::returned`].
    pub fn stamped(
        &mut self,
        mut since: Time,
        stamps: &[AckStamp],
        now: Time,
        acked: u64,
        floor: Span,
    ) -> Span {
        self.returned.clear();
        self.lost.clear();
        let mut error = Span::ZERO;
        for stamp in stamps {
            let (before, at) = (self.returned.len(), stamp.at.max(since).min(now));
            self.advance(since, at, stamp.acked, floor);
            let exact = self.returned.len() == before + 1 && self.ends_here(stamp.acked);
            if self.returned.len() > before && !exact {
                error = error.max(at.since(since));
            }
            since = at;
        }
        let before = self.returned.len();
        self.advance(since, now, acked, floor);
        if self.returned.len() > before {
            error = error.max(now.since(since));
        }
        error
    }

    /// No packet is partly acknowledged at this position.
    pub(crate) fn ends_here(&self, position: u64) -> bool {
        self.records.is_empty() || self.complete == position
    }

    fn advance(&mut self, since: Time, at: Time, acked: u64, floor: Span) {
        let acked = acked.min(self.written);
        if acked <= self.acked {
            return;
        }
        self.acked = acked;
        self.acked_at = at;
        self.settle(at);
        if acked > self.edge {
            self.owed = 0;
            self.cover(since, at, acked, floor);
        }
    }

    /// What was lost has arrived, sent again or not.
    fn settle(&mut self, at: Time) {
        let (acked, before) = (self.acked, self.delivered);
        let (returned, delivered) = (&mut self.returned, &mut self.delivered);
        self.waiting.retain(|&(end, len)| {
            if end <= acked {
                *delivered += len;
                self.waiting_bytes -= len;
            }
            end > acked
        });
        self.again.retain(|(end, packet)| {
            if *end <= acked {
                *delivered += packet.len.get();
                self.again_bytes -= packet.len.get();
                returned.push(*packet);
            }
            *end > acked
        });
        if self.delivered > before {
            self.delivered_at = at;
        }
    }

    /// Beyond the cumulative acknowledgement `sacked` bytes have arrived, and `lost` bytes more are lost than was known. Which of them
    /// the kernel does not say: what is lost comes first, as its loss is learned from what arrived after it. With `at_least_one` the
    /// oldest packet is lost whatever its length. The packets are in [`Ledger::returned`] and [`Ledger::lost`].
    pub fn beyond(
        &mut self,
        since: Time,
        now: Time,
        (sacked, lost): (u64, u64),
        at_least_one: bool,
        floor: Span,
    ) {
        let oldest = self.records.front().map_or(self.complete, |r| r.end);
        self.owed += lost;
        let known = self.waiting_bytes + self.again_bytes + self.owed;
        let sent = self.left.clamp(self.acked, self.written);
        let known = self.acked.saturating_add(sacked.saturating_add(known));
        let mut edge = known.min(sent);
        if at_least_one && lost > 0 {
            self.owed = self.owed.max(oldest - self.complete);
            edge = edge.max(oldest);
        }
        if edge > self.edge {
            self.cover(since, now, edge, floor);
        }
        if known > sent {
            self.lose_again();
        }
        if !self.returned.is_sorted_by_key(|p| p.pn) {
            self.returned.sort_unstable_by_key(|p| p.pn);
        }
    }

    /// More is lost than was sent for the first time: it was lost again.
    fn lose_again(&mut self) {
        let mut lost = 0;
        for (end, packet) in &self.again {
            let len = packet.len.get();
            if self.owed == 0 || self.owed < len / 2 {
                break;
            }
            lost += 1;
            self.owed = self.owed.saturating_sub(len);
            self.waiting.push_back((*end, len));
            self.waiting_bytes += len;
            self.again_bytes -= len;
            self.lost.push(*packet);
        }
        self.again.drain(..lost);
        self.owed = 0;
    }

    /// The fate of what lies before `edge` is known: what is owed is lost, and the rest has arrived.
    fn cover(&mut self, since: Time, at: Time, edge: u64, floor: Span) {
        // Nothing can be acknowledged sooner than one smallest RTT after it was sent.
        let oldest = self.records.front().map_or(since, |r| r.sent_at + floor);
        let since = since.max(oldest).min(at);
        let (from, interval) = (self.edge, at.since(since));
        let bytes = (edge - from) as f64;
        let before = self.delivered;
        let paid = self.overcounted.min(edge - from);
        self.overcounted -= paid;
        self.delivered += edge - from - paid;
        while let Some(record) = self.records.front().filter(|r| r.end <= edge).copied() {
            let len = record.end - self.complete;
            let is_lost = self.owed > 0 && self.owed >= len / 2;
            let rtt = (!is_lost && record.end > self.ambiguous_to).then(|| {
                let share = record.end.saturating_sub(from) as f64 / bytes;
                let at = since + interval.mul_f64(share);
                at.since(record.sent_at).max(floor).max(Span::from_nanos(1))
            });
            let packet = self.packet(&record, rtt);
            self.complete = record.end;
            self.records.pop_front();
            let next = self.records.front().map_or(0, |r| r.skipped);
            self.first_pn += 1 + u64::from(next);
            if is_lost {
                self.owed = self.owed.saturating_sub(len);
                let taken = len.min(self.delivered - before);
                self.delivered -= taken;
                self.overcounted += len - taken;
                self.waiting.push_back((record.end, len));
                self.waiting_bytes += len;
                self.lost.push(packet);
            } else {
                self.returned.push(packet);
                self.first_sent_at = record.sent_at;
            }
        }
        self.edge = edge;
        if self.delivered > before {
            self.delivered_at = at;
        }
    }

    /// The oldest record, given back.
    fn packet(&self, record: &Record, rtt: Option<Span>) -> Packet {
        Packet {
            pn: self.first_pn,
            len: Bytes::new(record.end - self.complete),
            sent_at: record.sent_at,
            tag: record.tag,
            stamp: Stamp {
                delivered: Bytes::new(record.delivered),
                delivered_at: before(record.sent_at, record.since_delivered),
                first_sent_at: before(record.sent_at, record.since_first),
                in_flight: Bytes::new(record.in_flight.into()),
                app_limited: record.app_limited,
            },
            rtt,
            kind: Kind::New,
        }
    }

    /// The oldest packet that has not arrived.
    pub fn oldest(&self) -> Option<Packet> {
        let again = || self.again.first().map(|(_, packet)| *packet);
        let lost = self.lost.first().copied();
        let record = || self.records.front().map(|r| self.packet(r, None));
        lost.or_else(again).or_else(record)
    }

    /// The kernel has sent `segments` of `mss` again: the oldest of what is lost. `tag` is asked for each.
    pub fn sent_again(
        &mut self,
        now: Time,
        segments: u64,
        mss: Bytes,
        mut tag: impl FnMut(Pn, Bytes, Bytes) -> Tag,
    ) {
        let mut left = segments.saturating_mul(mss.get());
        while left > 0
            && let Some((end, len)) = self.waiting.pop_front()
        {
            left = left.saturating_sub(len);
            self.waiting_bytes -= len;
            let (pn, before) = (self.next_pn, self.under_way());
            if self.skipped < u16::MAX {
                self.next_pn += 1;
                self.skipped += 1;
            }
            let tag = tag(pn, Bytes::new(len), before);
            let stamp = Stamp {
                delivered: self.delivered(),
                delivered_at: self.delivered_at,
                first_sent_at: self.first_sent_at,
                in_flight: before + Bytes::new(len),
                app_limited: false,
            };
            let packet = Packet {
                pn,
                len: Bytes::new(len),
                sent_at: now,
                tag,
                stamp,
                rtt: None,
                kind: Kind::Retransmit,
            };
            self.again_bytes += len;
            self.again.push((end, packet));
        }
    }

    /// Shifts the RTT samples of the last reading so that their mean is `mean` seconds, each only as far as it lies between the
    /// readings.
    pub fn shift_rtt(&mut self, mean: f64, since: Time, now: Time, floor: Span) {
        let samples = self.returned.iter().filter_map(|p| p.rtt);
        let (sum, count) = samples.fold((0.0, 0u32), |(s, n), rtt| (s + rtt.as_secs_f64(), n + 1));
        if count == 0 {
            return;
        }
        let shift = mean - sum / f64::from(count);
        for packet in &mut self.returned {
            let Some(rtt) = &mut packet.rtt else { continue };
            let least = since.since(packet.sent_at).max(floor);
            let most = now.since(packet.sent_at).max(least);
            let shifted = (rtt.as_secs_f64() + shift).max(0.0);
            *rtt = Span::from_nanos((shifted * 1e9) as u64)
                .clamp(least, most)
                .max(Span::from_nanos(1));
        }
    }

    /// What the last readings found lost, oldest first.
    pub fn lost(&self) -> &[Packet] {
        &self.lost
    }

    /// What the last call of [`Ledger::acknowledged`] returned.
    pub fn returned(&self) -> &[Packet] {
        &self.returned
    }

    /// Gives the memory back: nothing is in flight, perhaps for long. [`Ledger::returned`] is empty afterwards.
    pub fn rest(&mut self) {
        self.records.shrink_to_fit();
        self.waiting = VecDeque::new();
        (self.again, self.returned, self.lost) = (Vec::new(), Vec::new(), Vec::new());
        (self.waiting_bytes, self.again_bytes) = (0, 0);
    }

    /// When the stream last advanced.
    pub fn acked_at(&self) -> Time {
        self.acked_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: Bytes = Bytes::new(1448);

    fn wrote(ledger: &mut Ledger, ms: u64, len: u64) {
        ledger.wrote(
            Time::from_millis(ms),
            Bytes::new(len),
            MSS,
            false,
            |pn, _, _| Tag(pn),
        );
    }

    #[test]
    fn acknowledgements_cover_whole_packets_and_fractions_wait() {
        // Acknowledgements that do not fall on packet boundaries: the original loses the fraction.
        let mut ledger = Ledger::new(Time::ZERO, 1000, 1000);
        wrote(&mut ledger, 0, 1448);
        wrote(&mut ledger, 0, 1448);
        let ends = |packets: &[Packet]| packets.iter().map(|p| p.tag.0).collect::<Vec<_>>();
        let at = |ms| (Time::from_millis(ms - 5), Time::from_millis(ms));
        let (a, b) = at(40);
        assert_eq!(ends(ledger.acknowledged(a, b, 2448, Span::ZERO)), [0]);
        let (a, b) = at(45);
        assert_eq!(ends(ledger.acknowledged(a, b, 3000, Span::ZERO)), []);
        let (a, b) = at(50);
        assert_eq!(ends(ledger.acknowledged(a, b, 3896, Span::ZERO)), [1]);
        assert_eq!(ledger.in_flight(), Bytes::ZERO);
    }

    #[test]
    fn small_writes_leave_nothing_in_flight() {
        // Twenty writes of 100 bytes: the original counts each as a packet of 1448 and leaks 19 of them.
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        (0..20).for_each(|_| wrote(&mut ledger, 0, 100));
        assert_eq!(
            ledger
                .acknowledged(Time::ZERO, Time::from_millis(40), 2000, Span::ZERO)
                .len(),
            20
        );
        assert_eq!(ledger.in_flight(), Bytes::ZERO);
    }

    #[test]
    fn rtt_samples_are_spread_over_the_reading_interval() {
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        wrote(&mut ledger, 10, 2 * 1448);
        let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
        let got = ledger.acknowledged(
            Time::from_millis(50),
            Time::from_millis(54),
            2 * 1448,
            Span::ZERO,
        );
        assert_eq!(got.iter().map(rtt).collect::<Vec<_>>(), [42.0, 44.0]);
    }

    #[test]
    fn a_sample_is_never_below_the_floor_and_repair_gives_none() {
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        wrote(&mut ledger, 0, 1448);
        let got = ledger.acknowledged(
            Time::ZERO,
            Time::from_millis(40),
            1448,
            Span::from_millis(41),
        );
        assert_eq!(got[0].rtt, Some(Span::from_millis(41)));
        wrote(&mut ledger, 50, 1448);
        ledger.mark_ambiguous();
        wrote(&mut ledger, 60, 1448);
        let got = ledger.acknowledged(
            Time::from_millis(300),
            Time::from_millis(301),
            3 * 1448,
            Span::ZERO,
        );
        assert_eq!(
            got.iter().map(|p| p.rtt.is_some()).collect::<Vec<_>>(),
            [false, true]
        );
    }

    fn stamps(list: &[(u64, u64)]) -> Vec<AckStamp> {
        list.iter()
            .map(|&(acked, ms)| AckStamp {
                acked,
                at: Time::from_millis(ms),
            })
            .collect()
    }

    #[test]
    fn a_packet_that_ends_at_a_stamp_has_its_time() {
        // Four packets sent at 10 ms; the reading at 60 ms brings the times of three positions, and the counter covers all.
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        wrote(&mut ledger, 10, 4 * 1448);
        let known = stamps(&[(1448, 51), (2896, 53), (4344, 58)]);
        let (since, now) = (Time::from_millis(50), Time::from_millis(60));
        let error = ledger.stamped(since, &known, now, 4344, Span::ZERO);
        let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
        assert_eq!(
            ledger.returned().iter().map(rtt).collect::<Vec<_>>(),
            [41.0, 43.0, 48.0]
        );
        assert_eq!(error, Span::ZERO);
        // The fourth is known by the counter alone: somewhere between two readings.
        let error = ledger.stamped(now, &[], Time::from_millis(64), 4 * 1448, Span::ZERO);
        assert_eq!(
            (rtt(&ledger.returned()[0]), error),
            (54.0, Span::from_millis(4))
        );
    }

    #[test]
    fn a_lost_stamp_is_covered_by_the_next() {
        // Two packets behind one stamp: the first lies half way, and the bound says so.
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        wrote(&mut ledger, 0, 2 * 1448);
        let error = ledger.stamped(
            Time::from_millis(40),
            &stamps(&[(2896, 44)]),
            Time::from_millis(50),
            2896,
            Span::ZERO,
        );
        let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
        assert_eq!(
            ledger.returned().iter().map(rtt).collect::<Vec<_>>(),
            [42.0, 44.0]
        );
        assert_eq!(error, Span::from_millis(4));
    }

    #[test]
    fn stamps_from_outside_the_interval_or_out_of_order_travel_no_time() {
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        wrote(&mut ledger, 30, 3 * 1448);
        // Before the last reading, after now, and one that goes back.
        let known = stamps(&[(1448, 5), (2896, 99), (1000, 45)]);
        let (since, now) = (Time::from_millis(50), Time::from_millis(60));
        ledger.stamped(since, &known, now, 3 * 1448, Span::ZERO);
        let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
        assert_eq!(
            ledger.returned().iter().map(rtt).collect::<Vec<_>>(),
            [20.0, 30.0, 30.0]
        );
        assert_eq!(ledger.in_flight(), Bytes::ZERO);
    }

    #[test]
    fn bytes_that_went_past_us_are_adopted() {
        let mut ledger = Ledger::new(Time::ZERO, 500, 100);
        assert_eq!(ledger.in_flight(), Bytes::new(400));
        ledger.adopt(Time::from_millis(1), 900);
        assert_eq!(ledger.in_flight(), Bytes::new(800));
        let got = ledger.acknowledged(Time::ZERO, Time::from_millis(40), 900, Span::ZERO);
        assert!(got.iter().all(|p| p.rtt.is_none()) && got.len() == 2);
    }

    #[test]
    fn nine_gigabytes_are_acknowledged_once_each() {
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        let (mut sent, mut back) = (0u64, 0u64);
        while sent < 9 << 30 {
            wrote(&mut ledger, 0, 64 << 20);
            sent += 64 << 20;
            back += ledger
                .acknowledged(Time::ZERO, Time::from_millis(1), sent, Span::ZERO)
                .iter()
                .map(|p| p.len.get())
                .sum::<u64>();
        }
        assert_eq!((back, ledger.in_flight()), (sent, Bytes::ZERO));
    }

    #[test]
    fn a_program_that_writes_byte_by_byte_does_not_fill_the_memory() {
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        let (mut back, mut pn) = (0, 0);
        for round in 1..=3u64 {
            for i in 0..1_000_000 {
                wrote(&mut ledger, i / 1000, 1);
            }
            assert!(ledger.records.len() < 4 * MOST_RECORDS as usize);
            assert!(size_of::<Record>() <= 48);
            // A third stays in flight.
            let acked = round * 1_000_000 - 333_333;
            let at = Time::from_millis(1000 + round);
            for packet in ledger.acknowledged(Time::ZERO, at, acked, Span::ZERO) {
                assert_eq!((packet.pn, packet.tag), (pn, Tag(pn)));
                (back, pn) = (back + packet.len.get(), pn + 1);
            }
            assert!(back <= acked && back + 333_333 > acked, "{back} of {acked}");
        }
    }

    fn pns(packets: &[Packet]) -> Vec<Pn> {
        packets.iter().map(|p| p.pn).collect()
    }

    /// Ten packets of which the kernel has sent `sent`.
    fn ten(sent: u64) -> Ledger {
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        (0..10).for_each(|_| wrote(&mut ledger, 0, 1448));
        ledger.left(Time::ZERO, Time::ZERO, sent * 1448, false);
        ledger
    }

    #[test]
    fn a_hole_is_lost_and_what_lies_beyond_it_has_arrived() {
        let (mut ledger, ms) = (ten(10), Time::from_millis);
        ledger.acknowledged(ms(35), ms(40), 2 * 1448, Span::ZERO);
        // Of the eight left three have arrived, and one is lost: the oldest.
        ledger.beyond(ms(35), ms(40), (3 * 1448, 1448), true, Span::ZERO);
        assert_eq!(
            (pns(ledger.lost()), pns(ledger.returned())),
            (vec![2], vec![0, 1, 3, 4, 5])
        );
        assert_eq!(ledger.under_way(), MSS * 4);
        assert_eq!(ledger.delivered(), MSS * 5);
        // It is sent again under a number of its own, and what is written then has the next.
        ledger.sent_again(ms(41), 1, MSS, |pn, _, before| {
            assert_eq!((pn, before), (10, MSS * 4));
            Tag(pn)
        });
        wrote(&mut ledger, 42, 1448);
        assert_eq!(ledger.under_way(), MSS * 6);
        // The repair acknowledges all that had arrived before it, too.
        let packets = ledger.acknowledged(ms(80), ms(85), 11 * 1448, Span::ZERO);
        assert_eq!(pns(packets), [10, 6, 7, 8, 9, 11]);
        assert_eq!((packets[0].kind, packets[0].rtt), (Kind::Retransmit, None));
        assert_eq!(
            (ledger.under_way(), ledger.delivered()),
            (Bytes::ZERO, MSS * 11)
        );
    }

    #[test]
    fn a_retransmission_can_be_lost_again() {
        let (mut ledger, ms) = (ten(10), Time::from_millis);
        ledger.stamped(ms(35), &[], ms(40), 0, Span::ZERO);
        ledger.beyond(ms(35), ms(40), (0, 10 * 1448), true, Span::ZERO);
        assert_eq!((ledger.lost().len(), ledger.under_way()), (10, Bytes::ZERO));
        ledger.sent_again(ms(41), 2, MSS, |pn, _, _| Tag(pn));
        ledger.stamped(ms(40), &[], ms(45), 0, Span::ZERO);
        ledger.beyond(ms(40), ms(45), (0, 1448), false, Span::ZERO);
        assert_eq!((pns(ledger.lost()), ledger.under_way()), (vec![10], MSS));
    }

    #[test]
    fn what_pacing_held_back_left_when_it_left() {
        // Four packets written at once, two of them sent by 10 ms, the others by 20 ms.
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        wrote(&mut ledger, 0, 4 * 1448);
        let ms = Time::from_millis;
        ledger.left(ms(0), ms(10), 2 * 1448, true);
        ledger.left(ms(10), ms(20), 4 * 1448, true);
        let packets = ledger.acknowledged(ms(60), ms(60), 4 * 1448, Span::ZERO);
        let sent: Vec<_> = packets.iter().map(|p| p.sent_at).collect();
        assert_eq!(sent, [ms(5), ms(10), ms(15), ms(20)]);
    }

    proptest! {
        /// A kernel that loses, repairs and repeats as it likes: every packet is given back once, as arrived or as lost,
        /// what is delivered never shrinks, and in the end it is all.
        #[test]
        fn losses_are_conserved(
            steps in prop::collection::vec((1u64..40_000, 0u64..8, 0u64..4, 0u64..8, 0u64..4), 1..120),
        ) {
            let mut ledger = Ledger::new(Time::ZERO, 0, 0);
            let (mut sent, mut back) = (Vec::new(), Vec::new());
            let (mut now, mut acked, mut written, mut delivered) = (Time::ZERO, 0u64, 0u64, Bytes::ZERO);
            for (write, sacked, lost, ack, again) in steps {
                let since = now;
                now += Span::from_millis(5);
                ledger.wrote(now, Bytes::new(write), MSS, false, |pn, _, _| { sent.push(pn); Tag(pn) });
                written += write;
                ledger.left(since, now, written, true);
                acked = (acked + ack * 1448).min(written);
                ledger.stamped(since, &[], now, acked, Span::ZERO);
                ledger.beyond(since, now, (sacked * 1448, lost * 1448), lost > 1, Span::ZERO);
                prop_assert!(ledger.returned().is_sorted_by_key(|p| p.pn));
                prop_assert!(ledger.delivered() >= delivered);
                delivered = ledger.delivered();
                for packet in ledger.returned().iter().chain(ledger.lost()) {
                    prop_assert_eq!(packet.tag, Tag(packet.pn));
                    prop_assert!(packet.stamp.delivered <= delivered);
                    back.push(packet.pn);
                }
                prop_assert!(ledger.under_way() <= ledger.in_flight());
                ledger.sent_again(now, again, MSS, |pn, _, _| { sent.push(pn); Tag(pn) });
            }
            for packet in ledger.acknowledged(now, now + Span::from_millis(5), written, Span::ZERO) {
                back.push(packet.pn);
            }
            back.sort_unstable();
            prop_assert_eq!(back, sent);
            prop_assert_eq!((ledger.under_way(), ledger.delivered()), (Bytes::ZERO, Bytes::new(written)));
        }

        /// Whatever is written and acknowledged in whatever steps: every byte comes back at most once, in order, never
        /// before it was sent, and what has not come back is in flight.
        #[test]
        fn bytes_are_conserved(steps in prop::collection::vec((0u64..200_000, 0u64..300_000, 0u64..50), 1..200)) {
            let mut ledger = Ledger::new(Time::ZERO, 0, 0);
            let (mut now, mut back, mut next_pn, mut acked) = (Time::ZERO, 0u64, 0, 0u64);
            for (write, ack, ms) in steps {
                let since = now;
                now += Span::from_millis(ms);
                ledger.wrote(now, Bytes::new(write), MSS, false, |pn, _, _| Tag(pn));
                acked += ack;
                for packet in ledger.acknowledged(since, now, acked, Span::ZERO) {
                    prop_assert_eq!(packet.pn, next_pn);
                    prop_assert_eq!(packet.tag, Tag(packet.pn));
                    prop_assert!(packet.rtt.unwrap() <= now.since(packet.sent_at).max(Span::from_nanos(1)));
                    next_pn += 1;
                    back += packet.len.get();
                }
                acked = acked.min(ledger.written());
                prop_assert_eq!(ledger.acked(), acked);
                prop_assert!(back <= acked && acked - back < 200_000);
                prop_assert_eq!(ledger.in_flight().get(), ledger.written() - acked);
            }
        }
    }
}
