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
    records: VecDeque<Record>,
    written: u64,
    acked: u64,
    /// Where the stream stood when we came: what is delivered counts from here, in stamps and in total.
    origin: u64,
    acked_at: Time,
    /// When the newest packet was sent that has been acknowledged, or the first one after a pause.
    first_sent_at: Time,
    /// End of the last packet that is acknowledged as a whole: where the oldest record begins.
    complete: u64,
    next_pn: Pn,
    /// Records that end at or before this offset have ambiguous acknowledgement times.
    ambiguous_to: u64,
    returned: Vec<Packet>,
}

/// The time at which the stream was acknowledged up to a position (Linux: a TX_ACK time stamp).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckStamp {
    /// Position in the stream.
    pub acked: u64,
    /// When it was reached.
    pub at: Time,
}

/// A packet, without what follows from its neighbours: its length (where the one before it ends), its number (they are
/// consecutive) and what was in flight with it.
#[derive(Clone, Copy, Debug)]
struct Record {
    end: u64,
    /// Acknowledged when it was written.
    acked: u64,
    sent_at: Time,
    /// For how long nothing had been acknowledged then, and how old the newest acknowledged packet was; µs, at most 71 min.
    since_acked: u32,
    since_first: u32,
    tag: Tag,
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
        let mut ledger = Self {
            records: VecDeque::new(),
            written: acked.min(written),
            acked: acked.min(written),
            origin: acked.min(written),
            acked_at: now,
            first_sent_at: now,
            complete: acked.min(written),
            next_pn: 0,
            ambiguous_to: 0,
            returned: Vec::new(),
        };
        ledger.adopt(now, written);
        ledger
    }

    /// Bytes written and not acknowledged, as far as the ledger knows.
    pub fn in_flight(&self) -> Bytes {
        Bytes::new(self.written - self.acked)
    }

    /// Stream position up to which all is written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Stream position up to which all is acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// Delivered in total since we came.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.acked - self.origin)
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
            let before = self.in_flight();
            if let Some(shared) = self.shared() {
                let tag = tag(self.next_pn - 1, Bytes::new(len), before);
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
            let acked_at = if before == Bytes::ZERO {
                self.first_sent_at = now;
                now
            } else {
                self.acked_at
            };
            self.push(len, now, acked_at, tag, app_limited);
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

    fn push(&mut self, len: u64, sent_at: Time, acked_at: Time, tag: Tag, app_limited: bool) {
        self.next_pn += 1;
        self.written = self.written.saturating_add(len);
        self.records.push_back(Record {
            end: self.written,
            acked: self.acked,
            sent_at,
            since_acked: micros(sent_at.since(acked_at)),
            since_first: micros(sent_at.since(self.first_sent_at)),
            tag,
            app_limited,
        });
    }

    /// The kernel says that the stream is written up to `written`: bytes that went past us become one record without an
    /// RTT sample.
    pub fn adopt(&mut self, now: Time, written: u64) {
        if written > self.written {
            let len = written - self.written;
            self.push(len, now, self.acked_at, Tag::default(), true);
            self.ambiguous_to = self.written;
        }
    }

    /// All that is outstanding may have waited behind a hole: its acknowledgement times say nothing about the path.
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
        // Nothing can be acknowledged sooner than one smallest RTT after it was sent.
        let oldest = self.records.front().map_or(since, |r| r.sent_at + floor);
        let since = since.max(oldest).min(at);
        let (from, interval) = (self.acked, at.since(since));
        let bytes = (acked - from) as f64;
        while let Some(record) = self.records.front().filter(|r| r.end <= acked).copied() {
            let rtt = (record.end > self.ambiguous_to).then(|| {
                let share = record.end.saturating_sub(from) as f64 / bytes;
                let at = since + interval.mul_f64(share);
                at.since(record.sent_at).max(floor).max(Span::from_nanos(1))
            });
            self.returned.push(Packet {
                pn: self.next_pn - self.records.len() as u64,
                len: Bytes::new(record.end - self.complete),
                sent_at: record.sent_at,
                tag: record.tag,
                stamp: Stamp {
                    delivered: Bytes::new(record.acked - self.origin),
                    delivered_at: before(record.sent_at, record.since_acked),
                    first_sent_at: before(record.sent_at, record.since_first),
                    in_flight: Bytes::new(record.end - record.acked),
                    app_limited: record.app_limited,
                },
                rtt,
                kind: Kind::New,
            });
            self.complete = record.end;
            self.first_sent_at = record.sent_at;
            self.records.pop_front();
        }
        self.acked = acked;
        self.acked_at = at;
    }

    /// What the last call of [`Ledger::acknowledged`] returned.
    pub fn returned(&self) -> &[Packet] {
        &self.returned
    }

    /// Gives the memory back: nothing is in flight, perhaps for long. [`Ledger::returned`] is empty afterwards.
    pub fn rest(&mut self) {
        self.records.shrink_to_fit();
        self.returned = Vec::new();
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

    proptest! {
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
