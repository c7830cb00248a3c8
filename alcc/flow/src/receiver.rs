// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving end of a flow: reassembly and acknowledgements.
use crate::Range;
use crate::ranges::RangeSet;
use crate::rules::{AckRule, AckSemantics, Rules};
use crate::wire::{Ack, Arrival, RANGES, Transmit};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;

/// Bound on out-of-order ranges. Data that would need more is dropped.
const MAX_GAPS: usize = 8192;
/// Bound on ranges of packet numbers.
const MAX_PACKET_RANGES: usize = 256;
/// Bound on unreported receive times. Each is reported twice, in case an ACK is lost.
const MAX_ARRIVALS: usize = 128;

/// Window of Linux's default receive buffer.
const DEFAULT_WINDOW: u64 = 65_535;

/// Receives one flow, without I/O. Input is untrusted; memory is bounded.
#[derive(Clone, Debug)]
pub struct Receiver {
    ack_semantics: AckSemantics,
    acks: AckRule,
    timestamps: bool,
    mss: u64,
    /// Position before which everything has arrived (RCV.NXT).
    cumulative_ack: u64,
    /// Ranges above the cumulative ACK.
    out_of_order: RangeSet,
    /// The ranges that changed last, newest first: the SACK blocks.
    recent: [Range; RANGES],
    /// Datagrams: packet numbers received.
    packet_ranges: RangeSet,
    /// Packet numbers below this count as received.
    floor: u64,
    /// Receive times, if the rules require them. In order: reported twice, reported once, new.
    arrivals: Option<VecDeque<Arrival>>,
    reported: (usize, usize),
    duplicate: Option<Range>,
    /// Payload received with an ECN mark, bytes.
    marked: u64,
    /// Packets since the last ACK.
    pending: u64,
    /// ACKs that are sent at once, the next ones.
    quick: u64,
    due: Option<Time>,
    ack_now: bool,
    echo: Time,
    last_ack_sent: u64,
    window: ReceiveWindow,
    scratch: Vec<Range>,
}

/// The receive window. Its bound grows to twice the data that arrives per round trip, and faster while
/// that increases (Linux's dynamic right-sizing).
#[derive(Clone, Debug)]
struct ReceiveWindow {
    size: u64,
    /// It opens to this size, two segments per segment in order (tcp_grow_window). Linux also opens it for segments
    /// behind a gap.
    bound: u64,
    max: u64,
    /// The right edge advertised so far.
    right_edge: u64,
    /// Position up to which the application has read; `None`: it reads everything at once.
    read: Option<u64>,
    /// Bytes in the last round trip that counted; position and time at which the current one began.
    last_round: u64,
    round_start: u64,
    round_began: Time,
    rtt: Option<Span>,
    /// Without time stamps: the end of the window being timed, and its start.
    rtt_probe: (u64, Time),
}

impl ReceiveWindow {
    /// Grows the window; true if the segment opens it.
    fn auto_tune(&mut self, now: Time, cumulative_ack: u64, mss: u64) -> bool {
        let opens = self.size < self.bound;
        if opens {
            self.size = (self.size + 2 * mss).min(self.bound);
        }
        if self
            .rtt
            .is_some_and(|rtt| now.since(self.round_began) >= rtt)
        {
            self.end_round(now, cumulative_ack, mss);
        }
        opens
    }

    /// Ends a round trip.
    #[cold]
    fn end_round(&mut self, now: Time, cumulative_ack: u64, mss: u64) {
        let got = cumulative_ack - self.round_start;
        if got > self.last_round {
            let double = got.saturating_mul(2).saturating_add(16 * mss);
            let growth = u128::from(double) * u128::from(got - self.last_round);
            let growth = (growth / u128::from(self.last_round.max(1))).saturating_mul(2);
            let wanted = u128::from(double).saturating_add(growth);
            let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
            self.bound = self.bound.max(wanted).min(self.max);
            self.last_round = got;
        }
        self.round_start = cumulative_ack;
        self.round_began = now;
    }

    /// Measures the RTT without time stamps: the time for a window is an upper bound (Linux's
    /// tcp_rcv_rtt_measure).
    fn sample_rtt_by_window(&mut self, now: Time, cumulative_ack: u64) {
        if cumulative_ack < self.rtt_probe.0 {
            return;
        }
        if self.rtt_probe.1 > Time::ZERO {
            let sample = now.since(self.rtt_probe.1);
            self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt.min(sample)));
        }
        self.rtt_probe = (cumulative_ack.saturating_add(self.size), now);
    }

    /// The window to advertise. The right edge never moves back.
    fn advertise(&mut self, cumulative_ack: u64) -> u64 {
        let unread = self.read.map_or(0, |read| cumulative_ack - read);
        let edge = cumulative_ack.saturating_add(self.size.saturating_sub(unread));
        self.right_edge = self.right_edge.max(edge);
        self.right_edge - cumulative_ack
    }
}

impl Receiver {
    /// A receiver with these rules. Its application reads everything at once until
    /// [`Receiver::read`] is called.
    pub fn new(rules: &Rules) -> Self {
        let (first, most) = (rules.window.0.get(), rules.window.1.get());
        Self {
            ack_semantics: rules.ack_semantics,
            acks: rules.acks,
            timestamps: rules.timestamps,
            mss: rules.mss.get().max(1),
            cumulative_ack: 0,
            out_of_order: RangeSet::default(),
            recent: [Range::default(); RANGES],
            packet_ranges: RangeSet::default(),
            floor: 0,
            arrivals: rules.arrivals.then(VecDeque::new),
            reported: (0, 0),
            duplicate: None,
            marked: 0,
            pending: 0,
            quick: rules.acks.quick,
            due: None,
            ack_now: false,
            echo: Time::ZERO,
            last_ack_sent: 0,
            window: ReceiveWindow {
                size: first,
                bound: DEFAULT_WINDOW.min(most).max(first),
                max: most,
                right_edge: first,
                read: None,
                last_round: first.min(10 * rules.mss.get()).max(1),
                round_start: 0,
                round_began: Time::ZERO,
                rtt: None,
                rtt_probe: (0, Time::ZERO),
            },
            scratch: Vec::new(),
        }
    }

    /// Replaces the ACK rule.
    #[must_use]
    pub fn acknowledging(mut self, acks: AckRule) -> Self {
        self.acks = acks;
        self.quick = acks.quick;
        self
    }

    /// The cumulative ACK.
    #[inline]
    pub fn cumulative_ack(&self) -> u64 {
        self.cumulative_ack
    }

    /// Notes that the application has read up to `position`, and reads no further until the next
    /// call. From now on unread data reduces the window.
    pub fn read(&mut self, now: Time, position: u64) {
        let before = self.window.read.unwrap_or(self.cumulative_ack);
        let position = position.clamp(before.min(self.cumulative_ack), self.cumulative_ack);
        self.window.read = Some(position);
        // A zero window opens, so the sender must be informed.
        let (offered, edge) = (
            self.window.right_edge - self.cumulative_ack,
            self.window.right_edge,
        );
        if offered < self.mss && self.window.advertise(self.cumulative_ack) >= 2 * self.mss {
            self.ack_now = true;
            self.due = self.due.or(Some(now));
        } else {
            self.window.right_edge = edge;
        }
    }

    /// Time at which [`Receiver::poll_ack`] is due.
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        self.due
    }

    /// True if the packet was received before, or is so old that this is assumed.
    pub fn has_arrived(&self, pn: u64) -> bool {
        pn < self.floor
            || self
                .packet_ranges
                .covers(&Range::new(pn, pn.saturating_add(1)))
    }

    /// Ranges of received packet numbers, highest first: for encodings with more room than
    /// [`Ack::ranges`].
    pub fn packet_ranges(&self) -> impl Iterator<Item = Range> {
        self.packet_ranges.descending()
    }

    /// Receive times for the ACK that [`Receiver::poll_ack`] has just returned: new ones, and those
    /// that the last one reported.
    pub fn arrivals(&self) -> impl Iterator<Item = &Arrival> {
        self.arrivals.iter().flatten()
    }

    /// Makes the next [`Receiver::poll_ack`] return an ACK.
    pub fn ack_now(&mut self) {
        self.ack_now = true;
    }

    /// True if the data lies within the window.
    pub fn accepts(&self, data: &Transmit) -> bool {
        !self.refuses(data)
    }

    /// True if the data lies outside the window, or would need one range too many.
    fn refuses(&self, data: &Transmit) -> bool {
        let end = data.end();
        let gap = data.start > self.cumulative_ack && self.out_of_order.len() >= MAX_GAPS;
        data.len > 0
            && end > self.cumulative_ack
            && (end > self.window.right_edge
                || (gap && !self.out_of_order.covers(&Range::new(data.start, end))))
    }

    /// Notes that the next packet has an ECN mark, so that it is acknowledged at once (RFC 9000,
    /// section 13.2.1).
    pub fn on_mark(&mut self, len: Bytes) {
        self.marked = self.marked.saturating_add(len.get());
        self.ack_now = true;
    }

    /// Receives a packet. Then call [`Receiver::poll_ack`].
    pub fn on_data(&mut self, now: Time, data: &Transmit) {
        self.pending += 1;
        let before = self.cumulative_ack;
        if data.len == 0 || data.end() == u64::MAX {
            self.ack_now = true;
        }
        let ordered = match self.ack_semantics {
            AckSemantics::ByteStream => data.start == self.cumulative_ack,
            AckSemantics::PacketNumbers { reliable: true } if self.refuses(data) => {
                self.ack_now = true;
                return;
            }
            AckSemantics::PacketNumbers { .. } => self.on_packet_number(now, data.pn),
        };
        if self.timestamps || !matches!(self.ack_semantics, AckSemantics::ByteStream) {
            self.on_timestamps(now, data);
        }
        self.insert(data);
        if self.cumulative_ack > before {
            if !self.timestamps {
                self.window.sample_rtt_by_window(now, self.cumulative_ack);
            }
            let opens = self.window.auto_tune(now, self.cumulative_ack, self.mss);
            // As Linux: an odd count, so the first quick ACKs are not used up while the window opens.
            if opens && self.acks.quick > 0 {
                self.quick |= 1;
            }
        }
        if !ordered
            || !self.out_of_order.is_empty()
            || self.pending >= self.acks.every
            || self.quick > 0
        {
            self.ack_now = true;
        }
        if !self.ack_now {
            self.due = self.due.or(Some(now + self.acks.delay));
        }
    }

    /// Handles time stamps: the one to echo, and an RTT sample.
    fn on_timestamps(&mut self, now: Time, data: &Transmit) {
        // The oldest unacknowledged segment determines the echo (RFC 7323, section 4.3).
        if data.start <= self.last_ack_sent
            || !matches!(self.ack_semantics, AckSemantics::ByteStream)
        {
            self.echo = self.echo.max(data.sent_at);
        }
        if data.echo > Time::ZERO && data.len > 0 {
            let sample = now.since(data.echo);
            let smoothed = self.window.rtt.map_or(sample, |rtt| {
                if sample < rtt {
                    sample
                } else {
                    rtt * 7 / 8 + sample / 8
                }
            });
            self.window.rtt = Some(smoothed);
        }
    }

    /// Records a packet number; true if it is the expected one.
    #[inline(never)]
    fn on_packet_number(&mut self, now: Time, pn: u64) -> bool {
        self.scratch.clear();
        if pn == u64::MAX || pn < self.floor {
            return false;
        }
        let expected = self.packet_ranges.descending().next().map_or(0, |r| r.end);
        let range = Range::new(pn, pn + 1);
        let merged = self.packet_ranges.insert(range, &mut self.scratch);
        self.report_first(merged);
        while self.packet_ranges.len() > MAX_PACKET_RANGES {
            self.floor = self
                .packet_ranges
                .forget_first()
                .map_or(self.floor, |r| r.end);
        }
        if let Some(arrivals) = self.arrivals.as_mut().filter(|_| !self.scratch.is_empty()) {
            arrivals.push_back(Arrival { pn, at: now });
            self.ack_now |= arrivals.len() - self.reported.0 - self.reported.1 >= MAX_ARRIVALS;
            if arrivals.len() > 4 * MAX_ARRIVALS {
                // The rules require no receive times.
                arrivals.clear();
                self.reported = (0, 0);
            }
        }
        pn == expected
    }

    /// Inserts data into the stream.
    fn insert(&mut self, data: &Transmit) {
        let stream = self.ack_semantics == AckSemantics::ByteStream;
        let end = data.end();
        if data.len == 0 || end == u64::MAX {
            return;
        }
        if self.ack_semantics == (AckSemantics::PacketNumbers { reliable: false }) {
            // Unordered delivery: the application gets each packet once.
            if !self.scratch.is_empty() {
                self.cumulative_ack = self.cumulative_ack.saturating_add(data.len);
            }
            return;
        }
        if end <= self.cumulative_ack {
            self.on_duplicate(Range::new(data.start, end));
            return;
        }
        if stream && end > self.window.right_edge {
            // Beyond the window.
            self.ack_now = true;
            return;
        }
        if data.start <= self.cumulative_ack {
            self.cumulative_ack = end;
            if !self.out_of_order.is_empty() {
                self.close_gap();
            }
            return;
        }
        self.insert_above(Range::new(data.start, end), stream);
    }

    /// Advances the cumulative ACK over the data that waited behind the hole.
    #[cold]
    fn close_gap(&mut self) {
        while let Some(next) = self
            .out_of_order
            .first()
            .filter(|r| r.start <= self.cumulative_ack)
        {
            self.cumulative_ack = self.cumulative_ack.max(next.end);
            self.out_of_order.forget_first();
            self.ack_now = true;
        }
        self.out_of_order.forget_below(self.cumulative_ack);
    }

    /// Inserts data above a hole.
    #[cold]
    fn insert_above(&mut self, range: Range, stream: bool) {
        if self.out_of_order.covers(&range) {
            self.on_duplicate(range);
        } else if self.out_of_order.len() < MAX_GAPS {
            self.scratch.clear();
            let merged = self.out_of_order.insert(range, &mut self.scratch);
            if stream {
                self.report_first(merged);
            }
        }
    }

    #[cold]
    fn on_duplicate(&mut self, range: Range) {
        self.ack_now = true;
        self.duplicate = Some(range);
    }

    /// Puts a range first in the next ACK.
    fn report_first(&mut self, changed: Range) {
        let mut kept = [Range::default(); RANGES];
        kept[0] = changed;
        let mut count = 1;
        for old in self.recent {
            if !old.is_empty() && !changed.covers(&old) && count < RANGES {
                kept[count] = old;
                count += 1;
            }
        }
        self.recent = kept;
    }

    /// The ACK to send, if one is due.
    pub fn poll_ack(&mut self, now: Time) -> Option<Ack> {
        self.is_ack_due(now).then(|| {
            let mut ack = Ack::default();
            self.write_ack(now, &mut ack);
            ack
        })
    }

    /// True if an ACK is due.
    #[inline]
    pub fn is_ack_due(&self, now: Time) -> bool {
        self.ack_now || self.due.is_some_and(|due| due <= now)
    }

    /// Writes the ACK that is due into `ack`, which is empty. This avoids copying an ACK, which is
    /// long.
    pub fn write_ack(&mut self, now: Time, ack: &mut Ack) {
        self.ack_now = false;
        self.pending = 0;
        self.quick = self.quick.saturating_sub(1);
        self.due = None;
        self.last_ack_sent = self.cumulative_ack;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.drain(..self.reported.0);
            self.reported = (self.reported.1, arrivals.len() - self.reported.1);
        }
        let stream = self.ack_semantics == AckSemantics::ByteStream;
        ack.cumulative_ack = self.cumulative_ack;
        ack.window = Bytes::new(self.window.advertise(self.cumulative_ack));
        ack.echo = self.echo;
        ack.sent_at = now;
        ack.marked = self.marked;
        let duplicate = self.duplicate.take().filter(|_| stream);
        if let Some(range) = duplicate {
            ack.push_duplicate(range);
        }
        // Time stamps leave room for three SACK blocks; a DSACK takes one of them.
        let places =
            RANGES - usize::from(stream && self.timestamps) - usize::from(duplicate.is_some());
        let bound = if stream { self.cumulative_ack } else { 0 };
        for range in self.recent.iter().take(places) {
            if range.end > bound {
                ack.push(Range::new(range.start.max(bound), range.end));
            }
        }
    }

    /// Number of entries in memory, for testing the bound.
    pub fn remembered(&self) -> usize {
        self.out_of_order.len()
            + self.packet_ranges.len()
            + self.arrivals.as_ref().map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{DATAGRAMS, LINUX, LINUX_3_16, WINDOWS_7};
    use alcc_cc::{Header, Kind};

    const MSS: u64 = 1448;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn segment(number: u64, sent_ms: u64) -> Transmit {
        Transmit {
            pn: number,
            start: number * MSS,
            len: MSS,
            kind: Kind::New,
            sent_at: at(sent_ms),
            echo: Time::ZERO,
            header: Header::EMPTY,
        }
    }

    /// A receiver past its quick ACKs: 16 segments have arrived.
    fn receiver() -> Receiver {
        let mut receiver = Receiver::new(&LINUX);
        for n in 0..16 {
            receiver.on_data(at(1), &segment(n, 0));
            assert!(receiver.poll_ack(at(1)).is_some(), "quick: {n}");
        }
        receiver
    }

    fn blocks(ack: &Ack) -> Vec<(u64, u64)> {
        let ranges = ack.ranges().iter();
        ranges.map(|r| (r.start / MSS, r.end / MSS)).collect()
    }

    #[test]
    fn every_second_segment_or_forty_milliseconds() {
        let mut r = receiver();
        r.on_data(at(10), &segment(16, 0));
        assert_eq!((r.poll_ack(at(10)), r.next_timer()), (None, Some(at(50))));
        r.on_data(at(20), &segment(17, 0));
        assert_eq!(r.poll_ack(at(20)).unwrap().cumulative_ack, 18 * MSS);
        assert_eq!(r.next_timer(), None);
        r.on_data(at(30), &segment(18, 0));
        assert_eq!(r.poll_ack(at(69)), None);
        assert_eq!(r.poll_ack(at(70)).unwrap().cumulative_ack, 19 * MSS);
    }

    #[test]
    fn a_segment_that_opens_the_window_is_acknowledged_at_once() {
        let mut r = receiver();
        let mut data = segment(16, 10);
        data.echo = at(10);
        r.on_data(at(20), &data);
        // 17 segments in 10 ms instead of the assumed ten: (2 * 17 + 16) (1 + 2 * 7 / 10) segments.
        assert_eq!((r.poll_ack(at(20)), r.window.bound), (None, 120 * MSS));
        // 65,535 bytes and 37 times two segments are 172,687 bytes, so the 38th reaches the bound.
        for n in 17..55 {
            assert!(r.window.size < 120 * MSS, "{n}");
            r.on_data(at(21), &segment(n, 20));
            assert!(r.poll_ack(at(21)).is_some(), "{n}");
        }
        assert_eq!(r.window.size, 120 * MSS);
        r.on_data(at(21), &segment(55, 20));
        assert_eq!(r.poll_ack(at(21)), None);
        r.on_data(at(21), &segment(56, 20));
        assert!(r.poll_ack(at(21)).is_some());
    }

    #[test]
    fn an_opening_window_does_not_use_up_the_first_quick_acknowledgements() {
        let mut r = Receiver::new(&LINUX_3_16);
        // 29,200 bytes and 12 times two segments are 63,952 bytes, so the 13th reaches 65,535; then 16 are left.
        for n in 0..13 + 16 {
            r.on_data(at(1), &segment(n, 0));
            assert!(r.poll_ack(at(1)).is_some(), "{n}");
        }
        r.on_data(at(1), &segment(29, 0));
        assert_eq!(r.poll_ack(at(1)), None);
    }

    #[test]
    fn a_hole_is_reported_at_once_with_the_newest_block_first_and_so_is_its_end() {
        let mut r = receiver();
        for n in [17, 19, 21, 23, 20] {
            r.on_data(at(10), &segment(n, 0));
            assert_eq!(r.poll_ack(at(10)).unwrap().cumulative_ack, 16 * MSS);
        }
        r.on_data(at(10), &segment(25, 0));
        let ack = r.poll_ack(at(10)).unwrap();
        // Segment 20 joined 19 and 21. Three blocks beside time stamps.
        assert_eq!(blocks(&ack), [(25, 26), (19, 22), (23, 24)]);
        r.on_data(at(11), &segment(16, 0));
        let ack = r.poll_ack(at(11)).unwrap();
        assert_eq!((ack.cumulative_ack, blocks(&ack).len()), (18 * MSS, 3));
        for n in [18, 22, 24] {
            r.on_data(at(12), &segment(n, 0));
            assert!(r.poll_ack(at(12)).is_some());
        }
        assert_eq!((r.cumulative_ack(), r.remembered()), (26 * MSS, 0));
    }

    #[test]
    fn duplicate_arrivals_are_reported() {
        let mut r = receiver();
        r.on_data(at(10), &segment(3, 0));
        let ack = r.poll_ack(at(10)).unwrap();
        assert_eq!(ack.duplicate(), Some(Range::new(3 * MSS, 4 * MSS)));
        assert!(ack.ranges().is_empty());
    }

    #[test]
    fn the_echo_is_that_of_the_oldest_segment_that_is_not_acknowledged() {
        let mut r = receiver();
        r.on_data(at(10), &segment(16, 100));
        r.on_data(at(11), &segment(17, 101));
        assert_eq!(r.poll_ack(at(11)).unwrap().echo, at(100));
        // Above a hole: the echo stays.
        r.on_data(at(12), &segment(19, 103));
        assert_eq!(r.poll_ack(at(12)).unwrap().echo, at(100));
        r.on_data(at(13), &segment(18, 150));
        assert_eq!(r.poll_ack(at(13)).unwrap().echo, at(150));
    }

    #[test]
    fn the_window_follows_what_arrives_and_shuts_when_nobody_reads() {
        let mut r = receiver();
        assert_eq!(r.window.advertise(r.cumulative_ack), 65_535);
        // 100 segments per round trip of 10 ms.
        for n in 0..400u64 {
            let mut data = segment(16 + n, 0);
            let now = at(20) + Span::from_micros(n * 100);
            data.echo = now - Span::from_millis(10);
            r.on_data(now, &data);
            r.poll_ack(now);
        }
        // Twice that with 16 segments, and more because it has grown from 17 segments: 216 (1 + 2 * 83 / 17).
        assert_eq!(r.window.bound / MSS, 2325);
        // The first round trip's bound is 120 segments; since the second, 299 segments have opened it.
        assert_eq!(r.window.advertise(r.cumulative_ack), (120 + 2 * 299) * MSS);
        // The application stops reading: the right edge stays.
        let (edge, from) = (r.window.right_edge, r.cumulative_ack / MSS);
        r.read(at(60), r.cumulative_ack());
        let mut now = at(60);
        for n in from..from + 4000 {
            now += Span::from_micros(100);
            r.on_data(now, &segment(n, 0));
            r.poll_ack(now);
        }
        assert!(r.cumulative_ack() <= edge.max(r.window.size + from * MSS));
        assert!(r.window.advertise(r.cumulative_ack()) < MSS);
        r.read(now, r.cumulative_ack());
        let ack = r.poll_ack(now).expect("an open window is reported");
        assert!(ack.window.get() > 100 * MSS);
    }

    #[test]
    fn without_time_stamps_a_window_measures_the_round_trip() {
        let mut r = Receiver::new(&WINDOWS_7);
        let mut number = 0;
        // A full window every 50 ms: 44 segments at first.
        for round in 1..6u64 {
            let edge = r.window.right_edge;
            while (number + 1) * WINDOWS_7.mss.get() <= edge {
                let mut data = segment(number, 0);
                (data.start, data.len) = (number * WINDOWS_7.mss.get(), WINDOWS_7.mss.get());
                r.on_data(at(50 * round), &data);
                r.poll_ack(at(50 * round));
                number += 1;
            }
        }
        assert_eq!(r.window.rtt, Some(Span::from_millis(50)));
        assert!(r.window.size > 4 * 65_535, "{}", r.window.size);
    }

    #[test]
    fn datagrams_are_acknowledged_by_number() {
        let mut r = Receiver::new(&DATAGRAMS).acknowledging(AckRule::EACH);
        for pn in [0, 1, 3, 4, 9] {
            r.on_data(at(5), &segment(pn, 1));
        }
        let ack = r.poll_ack(at(5)).unwrap();
        let got: Vec<_> = ack.ranges().iter().map(|r| (r.start, r.end)).collect();
        assert_eq!(got, [(9, 10), (3, 5), (0, 2)]);
        assert_eq!(ack.echo, at(1));
    }

    #[test]
    fn a_peer_cannot_make_its_memory_grow_without_bound() {
        let mut r = Receiver::new(&DATAGRAMS);
        for n in 0..40_000u64 {
            let data = Transmit {
                pn: n.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                start: 1 + 3 * n,
                len: 1,
                kind: Kind::New,
                sent_at: Time::MAX,
                echo: at(9),
                header: Header::EMPTY,
            };
            r.on_data(at(10), &data);
            assert!(r.remembered() <= MAX_GAPS + MAX_PACKET_RANGES);
        }
        let mut huge = segment(0, 0);
        (huge.start, huge.len, huge.pn) = (u64::MAX - 5, 100, u64::MAX);
        r.on_data(at(11), &huge);
        assert!(r.poll_ack(at(11)).is_some());
    }
}
