// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion of cumulative byte counters to packets.
use alcc_cc::{Delivery, Kind, Packet, Pn, Stamp, Tag};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;

/// Turns the counters of a TCP socket (bytes written, bytes acknowledged) into the per-packet
/// history that algorithms need.
///
/// A record is a run of whole segments of one write. Small writes have one segment each, large ones
/// several, so that the cost per write is bounded. Offsets are 64-bit stream positions. The ledger
/// holds the data that is written and not yet acknowledged. Beyond some thousand records small
/// writes share one, so that its memory is bounded whatever a program does.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    /// Written data that has neither arrived nor been lost, from `complete` on.
    records: VecDeque<Record>,
    written: u64,
    /// Position up to which the stream is cumulatively acknowledged.
    acked: u64,
    /// Position up to which the fate of the stream is known: it arrived, or it is lost. It is
    /// beyond `acked` while a hole is repaired.
    edge: u64,
    /// Position up to which the stream was sent, as of the last reading.
    sent: u64,
    /// Total delivered since the ledger began.
    delivery: Delivery,
    /// Bytes that were counted as arrived and later found lost. The next arrivals are not counted,
    /// up to this number.
    overcounted: u64,
    /// Lost bytes of packets whose fate is only partly known.
    owed: u64,
    acked_at: Time,
    /// End of the last packet whose fate is completely known: the start of the oldest record.
    complete: u64,
    next_pn: Pn,
    /// Number of the oldest record.
    first_pn: Pn,
    /// Packet numbers used by retransmissions since the newest record.
    skipped: u16,
    /// Position up to which records have ambiguous acknowledgement times.
    ambiguous_to: u64,
    /// Lost data that was not sent again yet: end and length.
    waiting: VecDeque<(u64, u64)>,
    /// Retransmitted data that is not acknowledged: the end, and the packet.
    again: Vec<(u64, Packet)>,
    /// Bytes in `waiting`.
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
    /// Time at which it was reached.
    pub at: Time,
}

/// A packet without its start and number, which follow from its neighbours.
#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    /// Total delivered when it was sent.
    delivered: u64,
    sent_at: Time,
    tag: Tag,
    /// Time since the last delivery, and age of the newest acknowledged packet, when it was sent.
    /// In µs, at most 71 min.
    since_delivered: u32,
    since_first: u32,
    /// Bytes in flight when it was sent, itself included; at most 4 GB.
    in_flight: u32,
    /// Retransmissions that were numbered between the record before and this one.
    skipped: u16,
    app_limited: bool,
}

impl Record {
    /// Sets the sending time to `at`, with this stamp.
    fn leaves(&mut self, at: Time, stamp: &Stamp) {
        self.sent_at = at;
        self.delivered = stamp.delivered.get();
        self.since_delivered = micros(at.since(stamp.delivered_at));
        self.since_first = micros(at.since(stamp.first_sent_at));
    }
}

/// Maximum number of records of one write.
const RECORDS_PER_WRITE: u64 = 32;
/// With more records than this, small records absorb the following writes. A record is small if it
/// is less than four such parts of the data in flight. The number of records then grows with the
/// logarithm of the data in flight.
const MAX_RECORDS: u64 = 8192;

fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1000).unwrap_or(u32::MAX)
}

fn before(at: Time, micros: u32) -> Time {
    Time::from_nanos(at.as_nanos().saturating_sub(u64::from(micros) * 1000))
}

impl Ledger {
    /// A ledger for a stream of which `written` bytes were written and `acked` acknowledged before
    /// it began.
    pub(crate) fn new(now: Time, written: u64, acked: u64) -> Self {
        let acked = acked.min(written);
        let mut ledger = Self {
            records: VecDeque::new(),
            written: acked,
            acked,
            edge: acked,
            sent: acked,
            delivery: Delivery::new(now),
            overcounted: 0,
            owed: 0,
            acked_at: now,
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

    /// Bytes written and not acknowledged, as far as recorded.
    pub(crate) fn in_flight(&self) -> Bytes {
        Bytes::new(self.written - self.acked)
    }

    /// Bytes in flight: neither arrived nor lost. Lost bytes are in flight again after their
    /// retransmission.
    pub(crate) fn under_way(&self) -> Bytes {
        // A retransmission counts in full until all of it is acknowledged.
        Bytes::new(self.written - self.edge + self.again_bytes).min(self.in_flight())
    }

    /// Position up to which the stream is written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Position up to which the stream is acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    /// Number of the next packet.
    pub(crate) fn next_pn(&self) -> Pn {
        self.next_pn
    }

    /// Total delivered since the ledger began, with the state for stamps.
    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Records `len` bytes written at `now`. `tag` is called once per record, with its number,
    /// length and the bytes in flight before it.
    pub(crate) fn wrote(
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
        let mut remaining = len.get();
        while remaining > 0 {
            let len = remaining.min(step);
            remaining -= len;
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
                self.delivery.begin_flight(now);
            }
            self.push(len, now, tag, app_limited);
        }
    }

    /// The record that new writes join, if there are too many records.
    fn shared(&self) -> Option<usize> {
        let count = self.records.len();
        if (count as u64) < MAX_RECORDS {
            return None;
        }
        let last = count - 1;
        let len = self.records[last].end - self.records[last - 1].end;
        (len < 4 * self.in_flight().get() / MAX_RECORDS).then_some(last)
    }

    fn push(&mut self, len: u64, now: Time, tag: Tag, app_limited: bool) {
        let skipped = std::mem::take(&mut self.skipped);
        if self.records.is_empty() {
            self.first_pn = self.next_pn;
        }
        self.next_pn += 1;
        self.written = self.written.saturating_add(len);
        let stamp = self.delivery.stamp(self.under_way(), app_limited);
        let mut record = Record {
            end: self.written,
            delivered: 0,
            sent_at: now,
            tag,
            since_delivered: 0,
            since_first: 0,
            in_flight: u32::try_from(stamp.in_flight.get()).unwrap_or(u32::MAX),
            skipped,
            app_limited,
        };
        record.leaves(now, &stamp);
        self.records.push_back(record);
    }

    /// Takes the kernel's position `written`. Bytes that bypassed the ledger become one record
    /// without an RTT sample.
    pub(crate) fn adopt(&mut self, now: Time, written: u64) {
        if written > self.written {
            let len = written - self.written;
            self.push(len, now, Tag::default(), true);
            self.ambiguous_to = self.written;
        }
    }

    /// Takes the position up to which the kernel has sent the stream. With `paced`, the sending
    /// times of data that the kernel had held back are spread evenly between `since` and `now`.
    pub(crate) fn sent(&mut self, since: Time, now: Time, position: u64, paced: bool) {
        let from = self.sent.max(self.complete);
        self.sent = position;
        if !paced || position <= from {
            return;
        }
        if position >= self.written && !self.held_since(since, from) {
            return;
        }
        let first = self.records.partition_point(|r| r.end <= from);
        let bytes = (position - from) as f64;
        let stamp = self.delivery.stamp(Bytes::ZERO, false);
        for record in self.records.iter_mut().skip(first) {
            if record.end > position {
                break;
            }
            let share = (record.end - from) as f64 / bytes;
            let at = since + now.since(since).mul_f64(share);
            if at > record.sent_at {
                record.leaves(at, &stamp);
            }
        }
    }

    /// True if data beyond `from` had been written before `since`.
    fn held_since(&self, since: Time, from: u64) -> bool {
        let first = self.records.partition_point(|r| r.end <= from);
        self.records.get(first).is_some_and(|r| r.sent_at < since)
    }

    /// Marks all acknowledgement times as ambiguous, because an unknown part of the outstanding
    /// data was retransmitted.
    pub(crate) fn mark_ambiguous(&mut self) {
        self.ambiguous_to = self.written;
    }

    /// Takes an acknowledgement of the stream up to `acked`, received between `since` and `now`.
    /// `stamps` has the times at which some positions were acknowledged, ascending. The
    /// acknowledged packets are in [`Ledger::returned`], oldest first. Returns the bound on the
    /// error of their RTT samples.
    ///
    /// A packet that ends at a stamp has an exact sample. Between stamps, acknowledgement times are
    /// assumed to be evenly spread over the bytes, so a sample is wrong by at most the time between
    /// them. `floor` is the smallest RTT that the path can have.
    pub(crate) fn stamped(
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

    /// True if no packet is partly acknowledged at this position.
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

    /// Counts lost data that has arrived, retransmitted or not.
    fn settle(&mut self, at: Time) {
        let (acked, mut arrived) = (self.acked, 0);
        let returned = &mut self.returned;
        self.waiting.retain(|&(end, len)| {
            if end <= acked {
                arrived += len;
                self.waiting_bytes -= len;
            }
            end > acked
        });
        self.again.retain(|(end, packet)| {
            if *end <= acked {
                arrived += packet.len.get();
                self.again_bytes -= packet.len.get();
                returned.push(*packet);
            }
            *end > acked
        });
        // A part of it may have been counted before its record was considered lost.
        arrived -= self.pay(arrived);
        if arrived > 0 {
            self.delivery.add(at, Bytes::new(arrived));
        }
    }

    /// The part of `arrived` that was counted already.
    fn pay(&mut self, arrived: u64) -> u64 {
        let paid = self.overcounted.min(arrived);
        self.overcounted -= paid;
        paid
    }

    /// Takes `sacked` bytes that have arrived beyond the cumulative acknowledgement, and `lost`
    /// bytes newly lost. The kernel does not report which. Lost bytes are assumed first, because
    /// later arrivals reveal a loss. With `at_least_one` the oldest packet is lost whatever its
    /// length. The packets are in [`Ledger::returned`] and [`Ledger::lost`].
    pub(crate) fn beyond(
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
        let sent = self.sent.clamp(self.acked, self.written);
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

    /// More is lost than was sent for the first time, so some retransmissions were lost.
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
            insert(&mut self.lost, *packet);
        }
        self.again.drain(..lost);
        self.owed = 0;
    }

    /// Decides the fate of the data before `edge`: the owed bytes are lost, and the rest has
    /// arrived.
    fn cover(&mut self, since: Time, at: Time, edge: u64, floor: Span) {
        // An acknowledgement comes at the earliest one smallest RTT after sending. While that is
        // unknown, all are assumed to come at the end: a sample may be too long, but a minimum is
        // never too short.
        let oldest = match self.records.front() {
            _ if floor.is_zero() => at,
            Some(record) => record.sent_at + floor,
            None => since,
        };
        let since = since.max(oldest).min(at);
        let (from, interval) = (self.edge, at.since(since));
        let bytes = (edge - from) as f64;
        let mut arrived = edge - from;
        arrived -= self.pay(arrived);
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
                let taken = len.min(arrived);
                arrived -= taken;
                self.overcounted += len - taken;
                self.waiting.push_back((record.end, len));
                self.waiting_bytes += len;
                insert(&mut self.lost, packet);
            } else {
                self.returned.push(packet);
                self.delivery.newest_sent_at(record.sent_at);
            }
        }
        self.edge = edge;
        if arrived > 0 {
            self.delivery.add(at, Bytes::new(arrived));
        }
    }

    /// The oldest record as a packet for the algorithm.
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
    pub(crate) fn oldest(&self) -> Option<Packet> {
        let again = || self.again.first().map(|(_, packet)| *packet);
        let lost = self.lost.first().copied();
        let record = || self.records.front().map(|r| self.packet(r, None));
        lost.or_else(again).or_else(record)
    }

    /// Takes a retransmission of `segments` of `mss`, beginning with the oldest lost data. `tag` is
    /// called for each.
    pub(crate) fn sent_again(
        &mut self,
        now: Time,
        segments: u64,
        mss: Bytes,
        mut tag: impl FnMut(Pn, Bytes, Bytes) -> Tag,
    ) {
        let mut remaining = segments.saturating_mul(mss.get());
        while remaining > 0
            && let Some((end, len)) = self.waiting.pop_front()
        {
            remaining = remaining.saturating_sub(len);
            self.waiting_bytes -= len;
            let (pn, before) = (self.next_pn, self.under_way());
            if self.skipped < u16::MAX {
                self.next_pn += 1;
                self.skipped += 1;
            }
            let tag = tag(pn, Bytes::new(len), before);
            let stamp = self.delivery.stamp(before + Bytes::new(len), false);
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

    /// Shifts the RTT samples of the last reading so that their mean is `mean` seconds. Each sample
    /// stays between the readings.
    pub(crate) fn shift_rtt(&mut self, mean: f64, since: Time, now: Time, floor: Span) {
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

    /// Packets that the last readings found lost, oldest first.
    pub(crate) fn lost(&self) -> &[Packet] {
        &self.lost
    }

    /// Packets that the last reading found arrived, oldest first.
    pub(crate) fn returned(&self) -> &[Packet] {
        &self.returned
    }

    /// Frees memory while nothing is in flight, perhaps for a long time. [`Ledger::returned`] is
    /// empty afterwards.
    pub(crate) fn release_memory(&mut self) {
        self.records.shrink_to_fit();
        self.waiting = VecDeque::new();
        (self.again, self.returned, self.lost) = (Vec::new(), Vec::new(), Vec::new());
        (self.waiting_bytes, self.again_bytes) = (0, 0);
    }

    /// Time at which the stream last advanced.
    pub(crate) fn acked_at(&self) -> Time {
        self.acked_at
    }
}

/// Inserts in the order of packet numbers, as a batch needs it: data lost again is older than data
/// just lost.
fn insert(lost: &mut Vec<Packet>, packet: Packet) {
    let at = lost.partition_point(|p| p.pn < packet.pn);
    lost.insert(at, packet);
}

#[cfg(test)]
mod tests;
