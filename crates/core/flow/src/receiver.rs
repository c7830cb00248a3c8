// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving end of a flow: puts the stream together and says what has arrived.
use crate::Range;
use crate::ranges::RangeSet;
use crate::rules::{AckRule, Form, Rules};
use crate::wire::{Ack, Arrival, RANGES, Transmit};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;

/// Gaps that are kept in mind; what would make more is refused, as if it had been lost.
const MOST_GAPS: usize = 8192;
/// Ranges of transmission numbers that are kept in mind.
const MOST_NUMBERS: usize = 256;
/// Arrivals of which the sender has not heard; those of the acknowledgement before are told once more, in case it was lost.
const MOST_ARRIVALS: usize = 128;

/// The window of Linux's default receive buffer.
const DEFAULT_WINDOW: u64 = 65_535;

/// Receives one flow, without I/O. What comes in is untrusted; memory is bounded.
#[derive(Clone, Debug)]
pub struct Receiver {
    form: Form,
    acks: AckRule,
    timestamps: bool,
    mss: u64,
    /// The stream is complete up to here.
    complete: u64,
    /// What has arrived beyond.
    early: RangeSet,
    /// Those ranges of it that changed last, the newest first: what an acknowledgement tells.
    recent: [Range; RANGES],
    /// Datagrams: transmission numbers that have arrived.
    numbers: RangeSet,
    /// Below, all count as arrived.
    floor: u64,
    /// When they arrived, if the rules want it: first those that the last acknowledgement told for the second time, then those that it told
    /// for the first time, then what came since.
    arrivals: Option<VecDeque<Arrival>>,
    told: (usize, usize),
    duplicate: Option<Range>,
    /// Payload that arrived marked.
    marked: u64,
    /// Packets since the last acknowledgement, and ever.
    pending: u64,
    seen: u64,
    due: Option<Time>,
    urgent: bool,
    echo: Time,
    acked: u64,
    space: Space,
    scratch: Vec<Range>,
}

/// The receive window and how it grows: twice what arrives in a round trip, more while that grows (Linux's dynamic right-sizing).
#[derive(Clone, Debug)]
struct Space {
    window: u64,
    /// It opens up to here by itself, two segments for one that arrives in order (tcp_grow_window).
    opens: u64,
    most: u64,
    /// Nothing beyond has been permitted.
    edge: u64,
    /// Up to here the application has read; `None`: it reads everything at once.
    read: Option<u64>,
    /// What arrived in the last round trip that counted, where this one began, and when.
    lately: u64,
    from: u64,
    since: Time,
    rtt: Option<Span>,
    /// Without time stamps: a window ends here, and when it began.
    mark: (u64, Time),
}

impl Space {
    fn measure(&mut self, now: Time, complete: u64, mss: u64) {
        if self.window < self.opens {
            self.window = (self.window + 2 * mss).min(self.opens);
        }
        let Some(rtt) = self.rtt else { return };
        if now.since(self.since) < rtt {
            return;
        }
        let got = complete - self.from;
        if got > self.lately {
            let double = got.saturating_mul(2).saturating_add(16 * mss);
            let growth = u128::from(double) * u128::from(got - self.lately);
            let growth = (growth / u128::from(self.lately.max(1))).saturating_mul(2);
            let wanted = u128::from(double).saturating_add(growth);
            let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
            self.window = self.window.max(wanted).min(self.most);
            self.lately = got;
        }
        self.from = complete;
        self.since = now;
    }

    /// Without time stamps a round trip is what a window takes, or less (Linux's tcp_rcv_rtt_measure).
    fn time_window(&mut self, now: Time, complete: u64) {
        if complete < self.mark.0 {
            return;
        }
        if self.mark.1 > Time::ZERO {
            let sample = now.since(self.mark.1);
            self.rtt = Some(self.rtt.map_or(sample, |rtt| rtt.min(sample)));
        }
        self.mark = (complete.saturating_add(self.window), now);
    }

    /// What may be sent beyond `complete`. What was permitted once stays so.
    fn offer(&mut self, complete: u64) -> u64 {
        let unread = self.read.map_or(0, |read| complete - read);
        let edge = complete.saturating_add(self.window.saturating_sub(unread));
        self.edge = self.edge.max(edge);
        self.edge - complete
    }
}

impl Receiver {
    /// A receiver that keeps these rules. Its application takes everything at once until [`Receiver::read`] is called.
    pub fn new(rules: &Rules) -> Self {
        let (first, most) = (rules.window.0.get(), rules.window.1.get());
        Self {
            form: rules.form,
            acks: rules.acks,
            timestamps: rules.timestamps,
            mss: rules.mss.get().max(1),
            complete: 0,
            early: RangeSet::default(),
            recent: [Range::default(); RANGES],
            numbers: RangeSet::default(),
            floor: 0,
            arrivals: rules.arrivals.then(VecDeque::new),
            told: (0, 0),
            duplicate: None,
            marked: 0,
            pending: 0,
            seen: 0,
            due: None,
            urgent: false,
            echo: Time::ZERO,
            acked: 0,
            space: Space {
                window: first,
                opens: DEFAULT_WINDOW.min(most),
                most,
                edge: first,
                read: None,
                lately: first.min(10 * rules.mss.get()).max(1),
                from: 0,
                since: Time::ZERO,
                rtt: None,
                mark: (0, Time::ZERO),
            },
            scratch: Vec::new(),
        }
    }

    /// Acknowledges otherwise than its rules say.
    #[must_use]
    pub fn acknowledging(mut self, acks: AckRule) -> Self {
        self.acks = acks;
        self
    }

    /// The stream is complete up to here.
    pub fn complete(&self) -> u64 {
        self.complete
    }

    /// The application has taken the stream up to `position`, and takes nothing more until the next call. From now on what it leaves counts
    /// against the receive window.
    pub fn read(&mut self, now: Time, position: u64) {
        let before = self.space.read.unwrap_or(self.complete);
        let position = position.clamp(before.min(self.complete), self.complete);
        self.space.read = Some(position);
        // A window that was shut opens: the sender has to hear of it.
        let (offered, edge) = (self.space.edge - self.complete, self.space.edge);
        if offered < self.mss && self.space.offer(self.complete) >= 2 * self.mss {
            self.urgent = true;
            self.due = self.due.or(Some(now));
        } else {
            self.space.edge = edge;
        }
    }

    /// When [`Receiver::poll_ack`] wants to be called.
    pub fn next_timer(&self) -> Option<Time> {
        self.due
    }

    /// That transmission has arrived before. Of very old ones it is assumed.
    pub fn has_arrived(&self, pn: u64) -> bool {
        pn < self.floor || self.numbers.covers(&Range::new(pn, pn.saturating_add(1)))
    }

    /// Transmissions that have arrived, the highest first: for an encoding with more places than [`Ack::ranges`].
    pub fn numbers(&self) -> impl Iterator<Item = Range> {
        self.numbers.descending()
    }

    /// When packets arrived, for the acknowledgement that [`Receiver::poll_ack`] has just made: those since the last one, and those
    /// that the last one told.
    pub fn arrivals(&self) -> impl Iterator<Item = &Arrival> {
        self.arrivals.iter().flatten()
    }

    /// The next [`Receiver::poll_ack`] shall make one.
    pub fn hurry(&mut self) {
        self.urgent = true;
    }

    /// [`Receiver::on_data`] would take it: it lies within the window.
    pub fn permits(&self, data: &Transmit) -> bool {
        !self.refuses(data)
    }

    /// Nobody permitted it, or there is no place: it is as if it had been lost.
    fn refuses(&self, data: &Transmit) -> bool {
        let end = data.end();
        let gap = data.start > self.complete && self.early.len() >= MOST_GAPS;
        data.len > 0
            && end > self.complete
            && (end > self.space.edge || (gap && !self.early.covers(&Range::new(data.start, end))))
    }

    /// The packet that arrives next was marked on its way (ECN): its sender hears of it at once (RFC 9000, section 13.2.1).
    pub fn on_mark(&mut self, len: Bytes) {
        self.marked = self.marked.saturating_add(len.get());
        self.urgent = true;
    }

    /// A packet arrives. Afterwards [`Receiver::poll_ack`] may have something to say.
    pub fn on_data(&mut self, now: Time, data: &Transmit) {
        self.seen += 1;
        self.pending += 1;
        let before = self.complete;
        if data.len == 0 || data.end() == u64::MAX {
            self.urgent = true;
        }
        let ordered = match self.form {
            Form::Stream => data.start == self.complete,
            Form::Datagrams { reliable: true } if self.refuses(data) => {
                self.urgent = true;
                return;
            }
            Form::Datagrams { .. } => self.number(now, data.pn),
        };
        if self.timestamps || !matches!(self.form, Form::Stream) {
            self.time(now, data);
        }
        self.place(data);
        if !ordered || !self.early.is_empty() || self.pending >= self.acks.every {
            self.urgent = true;
        }
        if self.seen <= self.acks.quick {
            self.urgent = true;
        }
        if !self.urgent {
            self.due = self.due.or(Some(now + self.acks.delay));
        }
        if self.complete > before {
            if !self.timestamps {
                self.space.time_window(now, self.complete);
            }
            self.space.measure(now, self.complete, self.mss);
        }
    }

    /// Time stamps: what to echo, and the round-trip time.
    fn time(&mut self, now: Time, data: &Transmit) {
        // The oldest segment that is not acknowledged yet decides (RFC 7323, section 4.3).
        if data.start <= self.acked || !matches!(self.form, Form::Stream) {
            self.echo = self.echo.max(data.sent_at);
        }
        if data.echo > Time::ZERO && data.len > 0 {
            let sample = now.since(data.echo);
            let smoothed = self.space.rtt.map_or(sample, |rtt| {
                if sample < rtt {
                    sample
                } else {
                    rtt.mul_f64(0.875) + sample / 8
                }
            });
            self.space.rtt = Some(smoothed);
        }
    }

    /// Notes the number of a datagram; true if it is the one that was expected.
    fn number(&mut self, now: Time, pn: u64) -> bool {
        self.scratch.clear();
        if pn == u64::MAX || pn < self.floor {
            return false;
        }
        let expected = self.numbers.descending().next().map_or(0, |r| r.end);
        let range = Range::new(pn, pn + 1);
        let merged = self.numbers.insert(range, &mut self.scratch);
        self.remember(merged);
        while self.numbers.len() > MOST_NUMBERS {
            self.floor = self.numbers.forget_first().map_or(self.floor, |r| r.end);
        }
        if let Some(arrivals) = self.arrivals.as_mut().filter(|_| !self.scratch.is_empty()) {
            arrivals.push_back(Arrival { pn, at: now });
            self.urgent |= arrivals.len() - self.told.0 - self.told.1 >= MOST_ARRIVALS;
            if arrivals.len() > 4 * MOST_ARRIVALS {
                // Nobody asks for acknowledgements.
                arrivals.clear();
                self.told = (0, 0);
            }
        }
        pn == expected
    }

    /// Puts the data where it belongs.
    fn place(&mut self, data: &Transmit) {
        let stream = self.form == Form::Stream;
        let end = data.end();
        if data.len == 0 || end == u64::MAX {
            return;
        }
        if self.form == (Form::Datagrams { reliable: false }) {
            // There is no order: the application gets whatever comes, once.
            if !self.scratch.is_empty() {
                self.complete = self.complete.saturating_add(data.len);
            }
            return;
        }
        if end <= self.complete {
            self.twice(Range::new(data.start, end));
            return;
        }
        if stream && end > self.space.edge {
            // Nobody permitted it.
            self.urgent = true;
            return;
        }
        if data.start <= self.complete {
            self.complete = end;
            // What waited behind the gap follows.
            while let Some(next) = self.early.first().filter(|r| r.start <= self.complete) {
                self.complete = self.complete.max(next.end);
                self.early.forget_first();
                self.urgent = true;
            }
            self.early.forget_below(self.complete);
            return;
        }
        let range = Range::new(data.start, end);
        if self.early.covers(&range) {
            self.twice(range);
        } else if self.early.len() < MOST_GAPS {
            self.scratch.clear();
            let merged = self.early.insert(range, &mut self.scratch);
            if stream {
                self.remember(merged);
            }
        }
    }

    fn twice(&mut self, range: Range) {
        self.urgent = true;
        self.duplicate = Some(range);
    }

    /// That range changed last.
    fn remember(&mut self, changed: Range) {
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

    /// The acknowledgement to send, if it is time for one.
    pub fn poll_ack(&mut self, now: Time) -> Option<Ack> {
        if !self.urgent && self.due.is_none_or(|due| due > now) {
            return None;
        }
        self.urgent = false;
        self.pending = 0;
        self.due = None;
        self.acked = self.complete;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.drain(..self.told.0);
            self.told = (self.told.1, arrivals.len() - self.told.1);
        }
        let stream = self.form == Form::Stream;
        let mut ack = Ack::default();
        ack.complete = self.complete;
        ack.window = Bytes::new(self.space.offer(self.complete));
        ack.echo = self.echo;
        ack.sent_at = now;
        ack.marked = self.marked;
        ack.duplicate = self.duplicate.take().filter(|_| stream);
        // Time stamps leave room for three blocks, one of which may tell of a duplicate.
        let places =
            RANGES - usize::from(stream && self.timestamps) - usize::from(ack.duplicate.is_some());
        let bound = if stream { self.complete } else { 0 };
        for range in self.recent.iter().take(places) {
            if range.end > bound {
                ack.push(Range::new(range.start.max(bound), range.end));
            }
        }
        Some(ack)
    }

    /// How many things are remembered, for a bound on memory.
    pub fn remembered(&self) -> usize {
        self.early.len() + self.numbers.len() + self.arrivals.as_ref().map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{DATAGRAMS, LINUX, WINDOWS_7};
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

    /// A receiver beyond its quick acknowledgements: 16 segments have arrived.
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
        assert_eq!(r.poll_ack(at(20)).unwrap().complete, 18 * MSS);
        assert_eq!(r.next_timer(), None);
        r.on_data(at(30), &segment(18, 0));
        assert_eq!(r.poll_ack(at(69)), None);
        assert_eq!(r.poll_ack(at(70)).unwrap().complete, 19 * MSS);
    }

    #[test]
    fn a_hole_is_told_at_once_with_the_newest_block_first_and_so_is_its_end() {
        let mut r = receiver();
        for n in [17, 19, 21, 23, 20] {
            r.on_data(at(10), &segment(n, 0));
            assert_eq!(r.poll_ack(at(10)).unwrap().complete, 16 * MSS);
        }
        r.on_data(at(10), &segment(25, 0));
        let ack = r.poll_ack(at(10)).unwrap();
        // 20 joined 19 and 21. Three places beside time stamps.
        assert_eq!(blocks(&ack), [(25, 26), (19, 22), (23, 24)]);
        r.on_data(at(11), &segment(16, 0));
        let ack = r.poll_ack(at(11)).unwrap();
        assert_eq!((ack.complete, blocks(&ack).len()), (18 * MSS, 3));
        for n in [18, 22, 24] {
            r.on_data(at(12), &segment(n, 0));
            assert!(r.poll_ack(at(12)).is_some());
        }
        assert_eq!((r.complete(), r.remembered()), (26 * MSS, 0));
    }

    #[test]
    fn what_arrives_twice_is_told() {
        let mut r = receiver();
        r.on_data(at(10), &segment(3, 0));
        let ack = r.poll_ack(at(10)).unwrap();
        assert_eq!(ack.duplicate, Some(Range::new(3 * MSS, 4 * MSS)));
        assert!(ack.ranges().is_empty());
    }

    #[test]
    fn the_echo_is_that_of_the_oldest_segment_that_is_not_acknowledged() {
        let mut r = receiver();
        r.on_data(at(10), &segment(16, 100));
        r.on_data(at(11), &segment(17, 101));
        assert_eq!(r.poll_ack(at(11)).unwrap().echo, at(100));
        // Beyond a hole: still the last in order.
        r.on_data(at(12), &segment(19, 103));
        assert_eq!(r.poll_ack(at(12)).unwrap().echo, at(100));
        r.on_data(at(13), &segment(18, 150));
        assert_eq!(r.poll_ack(at(13)).unwrap().echo, at(150));
    }

    #[test]
    fn the_window_follows_what_arrives_and_shuts_when_nobody_reads() {
        let mut r = receiver();
        assert_eq!(r.space.offer(r.complete), 65_535);
        // 100 segments per round trip of 10 ms.
        for n in 0..400u64 {
            let mut data = segment(16 + n, 0);
            let now = at(10) + Span::from_micros(n * 100);
            data.echo = now - Span::from_millis(10);
            r.on_data(now, &data);
            r.poll_ack(now);
        }
        let window = r.space.offer(r.complete);
        // Twice of it, and more because it has grown tenfold from the ten segments assumed: 2 * 144,800 * (1 + 2 * 9), about.
        assert!((3 << 20..6 << 20).contains(&window), "{window}");
        // The application stops reading: the edge does not move any more.
        let (edge, from) = (r.space.edge, r.complete / MSS);
        r.read(at(60), r.complete());
        let mut now = at(60);
        for n in from..from + 4000 {
            now += Span::from_micros(100);
            r.on_data(now, &segment(n, 0));
            r.poll_ack(now);
        }
        assert!(r.complete() <= edge.max(r.space.window + from * MSS));
        assert!(r.space.offer(r.complete()) < MSS);
        r.read(now, r.complete());
        let ack = r.poll_ack(now).expect("an open window is told");
        assert!(ack.window.get() > 100 * MSS);
    }

    #[test]
    fn without_time_stamps_a_window_measures_the_round_trip() {
        let mut r = Receiver::new(&WINDOWS_7);
        let mut number = 0;
        // A full window every 50 ms: 44 segments at first.
        for round in 1..6u64 {
            let edge = r.space.edge;
            while (number + 1) * WINDOWS_7.mss.get() <= edge {
                let mut data = segment(number, 0);
                (data.start, data.len) = (number * WINDOWS_7.mss.get(), WINDOWS_7.mss.get());
                r.on_data(at(50 * round), &data);
                r.poll_ack(at(50 * round));
                number += 1;
            }
        }
        assert_eq!(r.space.rtt, Some(Span::from_millis(50)));
        assert!(r.space.window > 4 * 65_535, "{}", r.space.window);
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
    fn nobody_can_make_it_remember_without_bound() {
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
            assert!(r.remembered() <= MOST_GAPS + MOST_NUMBERS);
        }
        let mut huge = segment(0, 0);
        (huge.start, huge.len, huge.pn) = (u64::MAX - 5, 100, u64::MAX);
        r.on_data(at(11), &huge);
        assert!(r.poll_ack(at(11)).is_some());
    }
}
