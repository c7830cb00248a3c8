// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has been sent and is not settled: segments in the order of the stream, their transmissions in the order of sending.
use alcc_cc::{Delivery, Kind, Packet, Pn, Stamp, Tag};
use alcc_units::{Bytes, Time};
use std::collections::VecDeque;

/// Segments have numbers in the order of the stream.
pub(crate) type Number = u64;

/// What is known about a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Its newest transmission is under way.
    InFlight,
    /// It has arrived, in the middle of the stream.
    Arrived,
    /// Its newest transmission is lost.
    Lost,
}

/// A segment, with what belongs to its newest transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) len: u32,
    pub(crate) state: State,
    /// It was sent more than once.
    pub(crate) again: bool,
    pub(crate) pn: Pn,
    pub(crate) sent_at: Time,
    tag: Tag,
    stamp: Stamp,
}

impl Segment {
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// As an algorithm gets it back.
    pub(crate) fn packet(&self) -> Packet {
        Packet {
            pn: self.pn,
            len: Bytes::new(u64::from(self.len)),
            sent_at: self.sent_at,
            tag: self.tag,
            stamp: self.stamp,
            rtt: None,
            kind: if self.again {
                Kind::Retransmit
            } else {
                Kind::New
            },
        }
    }
}

/// Everything costs O(1) on average per transmission; memory follows what is under way, also when that becomes less.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    segments: VecDeque<Segment>,
    first: Number,
    /// For each transmission from `first_pn` on, the segment that it carried.
    order: VecDeque<Number>,
    first_pn: Pn,
    /// Transmissions below have been looked at: they arrived, were lost or were replaced.
    cursor: Pn,
    /// Lost and to be sent again, ascending.
    resend: VecDeque<Number>,
    in_flight: u64,
    flight: u64,
    arrived: u64,
    delivery: Delivery,
    /// Entries of replaced transmissions are kept from here on: a late arrival is recognised.
    keep_from: Pn,
}

/// No more transmissions than this are remembered, whatever a peer does.
const MOST_REMEMBERED: usize = 1 << 18;

fn shrink<T>(ring: &mut VecDeque<T>) {
    if ring.capacity() > 64 && ring.len() < ring.capacity() / 8 {
        ring.shrink_to(ring.len() * 2);
    }
}

impl Board {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            segments: VecDeque::new(),
            first: 0,
            order: VecDeque::new(),
            first_pn: 0,
            cursor: 0,
            resend: VecDeque::new(),
            in_flight: 0,
            flight: 0,
            arrived: 0,
            delivery: Delivery::new(now),
            keep_from: Pn::MAX,
        }
    }

    /// Replaced transmissions stay known for a while: acknowledgements name transmissions.
    pub(crate) fn keep_replaced(&mut self) {
        self.keep_from = 0;
    }

    pub(crate) fn next_pn(&self) -> Pn {
        self.first_pn + self.order.len() as u64
    }

    /// Payload under way.
    pub(crate) fn in_flight(&self) -> Bytes {
        Bytes::new(self.in_flight)
    }

    /// Packets under way.
    pub(crate) fn flight(&self) -> u64 {
        self.flight
    }

    /// Segments that have arrived beyond a gap.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Segments that are lost and wait to be sent again.
    pub(crate) fn waiting(&self) -> u64 {
        let lost = |n: &&Number| self.get(**n).is_some_and(|s| s.state == State::Lost);
        self.resend.iter().filter(lost).count() as u64
    }

    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// The application has no more to send.
    pub(crate) fn limit_by_app(&mut self) {
        self.delivery.limit_by_app(self.in_flight());
    }

    /// Neither under way nor waiting to be sent again: all is settled.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }

    pub(crate) fn back(&self) -> Option<(Number, &Segment)> {
        let last = self.segments.back()?;
        Some((self.first + self.segments.len() as u64 - 1, last))
    }

    pub(crate) fn get(&self, number: Number) -> Option<&Segment> {
        self.segments.get(number.checked_sub(self.first)? as usize)
    }

    fn get_mut(&mut self, number: Number) -> Option<&mut Segment> {
        self.segments
            .get_mut(number.checked_sub(self.first)? as usize)
    }

    /// The segment that transmission carried.
    pub(crate) fn number_of(&self, pn: Pn) -> Option<Number> {
        let index = pn.checked_sub(self.first_pn)?;
        self.order.get(index as usize).copied()
    }

    /// The number of the first segment that does not end before `position`.
    pub(crate) fn number_at(&self, position: u64) -> Number {
        self.first + self.segments.partition_point(|s| s.end() <= position) as u64
    }

    fn stamp(&mut self, now: Time, len: u64, app_limited: bool) -> Stamp {
        if self.flight == 0 {
            self.delivery.begin_flight(now);
        }
        self.in_flight += len;
        self.flight += 1;
        self.delivery.stamp(self.in_flight(), app_limited)
    }

    /// New data leaves.
    pub(crate) fn send(&mut self, now: Time, start: u64, len: u32, app_limited: bool, tag: Tag) {
        let stamp = self.stamp(now, u64::from(len), app_limited);
        let pn = self.next_pn();
        self.order
            .push_back(self.first + self.segments.len() as u64);
        self.segments.push_back(Segment {
            start,
            len,
            state: State::InFlight,
            again: false,
            pn,
            sent_at: now,
            tag,
            stamp,
        });
    }

    /// A segment leaves once more. One that is still under way counts as lost from now on.
    pub(crate) fn send_again(&mut self, now: Time, number: Number, app_limited: bool, tag: Tag) {
        let pn = self.next_pn();
        let Some(&segment) = self.get(number) else {
            return;
        };
        if segment.state == State::InFlight {
            self.in_flight -= u64::from(segment.len);
            self.flight -= 1;
        }
        let stamp = self.stamp(now, u64::from(segment.len), app_limited);
        self.order.push_back(number);
        if let Some(segment) = self.get_mut(number) {
            segment.state = State::InFlight;
            segment.again = true;
            (segment.pn, segment.sent_at) = (pn, now);
            (segment.tag, segment.stamp) = (tag, stamp);
        }
    }

    /// The next segment to be sent again.
    pub(crate) fn next_lost(&mut self) -> Option<Number> {
        while let Some(&number) = self.resend.front() {
            if self.get(number).is_some_and(|s| s.state == State::Lost) {
                return Some(number);
            }
            self.resend.pop_front();
        }
        shrink(&mut self.resend);
        None
    }

    /// That segment is about to be sent again.
    pub(crate) fn take_lost(&mut self) {
        self.resend.pop_front();
    }

    /// A segment has arrived, by its newest transmission or by an earlier one: what an algorithm hears of it. `None` if that
    /// was known.
    pub(crate) fn arrive(&mut self, now: Time, number: Number) -> Option<Packet> {
        let segment = self.get_mut(number)?;
        if segment.state == State::Arrived {
            return None;
        }
        let (was, len) = (segment.state, u64::from(segment.len));
        segment.state = State::Arrived;
        let packet = segment.packet();
        if was == State::InFlight {
            self.in_flight -= len;
            self.flight -= 1;
        }
        self.arrived += 1;
        self.delivery.arrived(now, &packet);
        Some(packet)
    }

    /// Settles the oldest segment if the stream is complete beyond it. Returns the segment, and what an algorithm hears if it had not
    /// arrived before. To be called until there is none.
    pub(crate) fn settle(&mut self, now: Time, complete: u64) -> Option<(Segment, Option<Packet>)> {
        if self.segments.front()?.end() > complete {
            self.trim(now, complete);
            return None;
        }
        let front = self.segments.pop_front()?;
        self.first += 1;
        let (len, known) = (u64::from(front.len), front.state == State::Arrived);
        self.arrived -= u64::from(known);
        if front.state == State::InFlight {
            self.in_flight -= len;
            self.flight -= 1;
        }
        let packet = (!known).then(|| front.packet());
        if let Some(packet) = &packet {
            self.delivery.arrived(now, packet);
        }
        Some((front, packet))
    }

    /// Cuts off what of the oldest segment has arrived.
    fn trim(&mut self, now: Time, complete: u64) {
        let Some(front) = self.segments.front_mut() else {
            return;
        };
        let cut = complete.saturating_sub(front.start);
        if cut == 0 {
            return;
        }
        front.start = complete;
        front.len -= cut as u32;
        if front.state == State::InFlight {
            self.in_flight -= cut;
        }
        if front.state != State::Arrived {
            self.delivery.add(now, Bytes::new(cut));
        }
    }

    /// Datagrams: settles what has arrived at the front. Returns up to where the stream is complete.
    pub(crate) fn settle_arrived(&mut self) -> Option<u64> {
        let mut complete = None;
        while let Some(front) = self.segments.front().filter(|s| s.state == State::Arrived) {
            complete = Some(front.end());
            self.arrived -= 1;
            self.segments.pop_front();
            self.first += 1;
        }
        self.clean();
        complete
    }

    /// A transmission under way is lost. With `again` its segment waits to be sent again; otherwise it is given up.
    pub(crate) fn lose(&mut self, number: Number, again: bool) -> Option<Packet> {
        let segment = self.get_mut(number)?;
        if segment.state != State::InFlight {
            return None;
        }
        segment.state = if again { State::Lost } else { State::Arrived };
        let (packet, len) = (segment.packet(), u64::from(segment.len));
        self.in_flight -= len;
        self.flight -= 1;
        if !again {
            self.arrived += 1;
            return Some(packet);
        }
        let at = match (self.resend.front(), self.resend.back()) {
            (_, Some(&last)) if last < number => self.resend.len(),
            (Some(&first), _) if number < first => 0,
            _ => self.resend.partition_point(|n| *n < number),
        };
        if self.resend.get(at) != Some(&number) {
            self.resend.insert(at, number);
        }
        Some(packet)
    }

    /// Nothing is lost after all: what waits to be sent again is under way.
    pub(crate) fn restore(&mut self) {
        for number in std::mem::take(&mut self.resend) {
            if let Some(segment) = self.get_mut(number)
                && segment.state == State::Lost
            {
                segment.state = State::InFlight;
                let len = u64::from(segment.len);
                self.in_flight += len;
                self.flight += 1;
            }
        }
        self.cursor = self.first_pn;
    }

    /// The receiver has thrown away what it had beyond the gap (RFC 2018, section 8): nothing but `complete` counts.
    pub(crate) fn renege(&mut self) {
        for index in 0..self.segments.len() {
            let segment = &mut self.segments[index];
            if segment.state == State::Arrived {
                segment.state = State::InFlight;
                let len = u64::from(segment.len);
                self.arrived -= 1;
                self.in_flight += len;
                self.flight += 1;
            }
        }
        self.cursor = self.first_pn;
    }

    /// The oldest transmission that is under way and not looked at, with its segment.
    pub(crate) fn candidate(&mut self) -> Option<(Number, Segment)> {
        loop {
            let number = self.number_of(self.cursor)?;
            if let Some(segment) = self.get(number)
                && segment.pn == self.cursor
                && segment.state == State::InFlight
            {
                return Some((number, *segment));
            }
            self.cursor += 1;
        }
    }

    /// The oldest transmission under way.
    pub(crate) fn oldest(&mut self) -> Option<(Number, Segment)> {
        self.candidate().or_else(|| {
            self.cursor = self.first_pn;
            self.candidate()
        })
    }

    /// All numbers of segments that are not settled.
    pub(crate) fn numbers(&self) -> std::ops::Range<Number> {
        self.first..self.first + self.segments.len() as u64
    }

    /// Replaced transmissions below `pn` are of no interest any more.
    pub(crate) fn forget_replaced(&mut self, pn: Pn) {
        self.keep_from = pn;
        self.clean();
    }

    /// Forgets transmissions at the front that are settled or replaced.
    pub(crate) fn clean(&mut self) {
        while let Some(&number) = self.order.front() {
            let alive = self.get(number).is_some_and(|s| {
                s.state != State::Arrived
                    && (s.pn == self.first_pn || self.first_pn >= self.keep_from)
            });
            if alive && self.order.len() < MOST_REMEMBERED {
                break;
            }
            self.order.pop_front();
            self.first_pn += 1;
        }
        self.cursor = self.cursor.max(self.first_pn);
        shrink(&mut self.order);
        shrink(&mut self.segments);
    }

    /// Below this transmission nothing is open.
    pub(crate) fn first_pn(&self) -> Pn {
        self.first_pn
    }

    /// How many things are remembered, for a bound on memory.
    pub(crate) fn remembered(&self) -> usize {
        self.segments.len() + self.order.len() + self.resend.len()
    }
}
