// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scoreboard: segments in stream order, packets in sending order.
use alcc_cc::{Delivery, Kind, Packet, Pn, Stamp, Tag};
use alcc_units::{Bytes, Time};
use std::collections::VecDeque;

/// Index of a segment in stream order.
pub(crate) type SegmentIndex = u64;

/// State of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Its newest transmission is in flight.
    InFlight,
    /// It has arrived, above the cumulative ACK.
    Arrived,
    /// Its newest transmission is lost.
    Lost,
}

/// A segment with its newest transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) len: u32,
    pub(crate) state: State,
    /// True if it was sent more than once.
    pub(crate) retransmitted: bool,
    pub(crate) pn: Pn,
    pub(crate) sent_at: Time,
    tag: Tag,
    stamp: Stamp,
}

impl Segment {
    pub(crate) const fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// The packet as the algorithm gets it.
    pub(crate) fn packet(&self) -> Packet {
        Packet {
            pn: self.pn,
            len: Bytes::new(u64::from(self.len)),
            sent_at: self.sent_at,
            tag: self.tag,
            stamp: self.stamp,
            rtt: None,
            kind: if self.retransmitted {
                Kind::Retransmit
            } else {
                Kind::New
            },
        }
    }
}

/// Amortised O(1) per transmission. Memory shrinks with the packets in flight.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    segments: VecDeque<Segment>,
    first: SegmentIndex,
    /// The segment of each packet from `first_pn` on.
    order: VecDeque<SegmentIndex>,
    first_pn: Pn,
    /// Packets below this number have been examined: they arrived, were lost, or were retransmitted.
    cursor: Pn,
    /// Lost segments that await retransmission, ascending.
    retransmit_queue: VecDeque<SegmentIndex>,
    in_flight: u64,
    packets_in_flight: u64,
    arrived: u64,
    delivery: Delivery,
    /// Packets from this number on are kept after a retransmission, so that a late arrival is recognised.
    keep_from: Pn,
}

/// Upper bound of remembered packets, whatever a peer sends.
const MAX_REMEMBERED: usize = 1 << 18;

/// Shrinks a ring buffer, which cycles through all of its memory even with few entries. In nearly all calls there is
/// nothing to do.
#[inline(always)]
fn shrink<T>(ring: &mut VecDeque<T>) {
    if ring.capacity() > 8 && ring.len() < ring.capacity() / 8 {
        ring.shrink_to((ring.len() * 2).max(4));
    }
}

impl Scoreboard {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            segments: VecDeque::new(),
            first: 0,
            order: VecDeque::new(),
            first_pn: 0,
            cursor: 0,
            retransmit_queue: VecDeque::new(),
            in_flight: 0,
            packets_in_flight: 0,
            arrived: 0,
            delivery: Delivery::new(now),
            keep_from: Pn::MAX,
        }
    }

    /// Keeps retransmitted packets for a while, because acknowledgements name packet numbers.
    pub(crate) fn keep_replaced(&mut self) {
        self.keep_from = 0;
    }

    pub(crate) fn next_pn(&self) -> Pn {
        self.first_pn + self.order.len() as u64
    }

    /// Payload in flight, bytes.
    pub(crate) fn in_flight(&self) -> Bytes {
        Bytes::new(self.in_flight)
    }

    /// Packets in flight.
    pub(crate) fn packets_in_flight(&self) -> u64 {
        self.packets_in_flight
    }

    /// Segments that have arrived above a hole.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Lost segments that await retransmission.
    pub(crate) fn waiting(&self) -> u64 {
        let lost = |n: &&SegmentIndex| self.get(**n).is_some_and(|s| s.state == State::Lost);
        self.retransmit_queue.iter().filter(lost).count() as u64
    }

    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    /// Notes that the application has no more data to send.
    pub(crate) fn limit_by_app(&mut self) {
        self.delivery.limit_by_app(self.in_flight());
    }

    /// True if nothing is in flight or awaits retransmission.
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    pub(crate) fn front(&self) -> Option<&Segment> {
        self.segments.front()
    }

    pub(crate) fn back(&self) -> Option<(SegmentIndex, &Segment)> {
        let last = self.segments.back()?;
        Some((self.first + self.segments.len() as u64 - 1, last))
    }

    pub(crate) fn get(&self, index: SegmentIndex) -> Option<&Segment> {
        self.segments.get(index.checked_sub(self.first)? as usize)
    }

    fn get_mut(&mut self, index: SegmentIndex) -> Option<&mut Segment> {
        self.segments
            .get_mut(index.checked_sub(self.first)? as usize)
    }

    /// The segment that the packet carried.
    pub(crate) fn index_of(&self, pn: Pn) -> Option<SegmentIndex> {
        let index = pn.checked_sub(self.first_pn)?;
        self.order.get(index as usize).copied()
    }

    /// Index of the first segment that ends after `position`.
    pub(crate) fn index_at(&self, position: u64) -> SegmentIndex {
        self.first + self.segments.partition_point(|s| s.end() <= position) as u64
    }

    fn stamp(&mut self, now: Time, len: u64, app_limited: bool) -> Stamp {
        if self.packets_in_flight == 0 {
            self.delivery.begin_flight(now);
        }
        self.in_flight += len;
        self.packets_in_flight += 1;
        self.delivery.stamp(self.in_flight(), app_limited)
    }

    /// Sends new data.
    #[inline(always)]
    pub(crate) fn send(&mut self, now: Time, start: u64, len: u32, app_limited: bool, tag: Tag) {
        let stamp = self.stamp(now, u64::from(len), app_limited);
        let pn = self.next_pn();
        self.order
            .push_back(self.first + self.segments.len() as u64);
        self.segments.push_back(Segment {
            start,
            len,
            state: State::InFlight,
            retransmitted: false,
            pn,
            sent_at: now,
            tag,
            stamp,
        });
    }

    /// Retransmits a segment. If it was in flight, that transmission counts as lost.
    pub(crate) fn retransmit(
        &mut self,
        now: Time,
        index: SegmentIndex,
        app_limited: bool,
        tag: Tag,
    ) {
        let pn = self.next_pn();
        let Some(&segment) = self.get(index) else {
            return;
        };
        if segment.state == State::InFlight {
            self.in_flight -= u64::from(segment.len);
            self.packets_in_flight -= 1;
        }
        let stamp = self.stamp(now, u64::from(segment.len), app_limited);
        self.order.push_back(index);
        if let Some(segment) = self.get_mut(index) {
            segment.state = State::InFlight;
            segment.retransmitted = true;
            (segment.pn, segment.sent_at) = (pn, now);
            (segment.tag, segment.stamp) = (tag, stamp);
        }
    }

    /// The next segment to retransmit.
    #[inline]
    pub(crate) fn next_lost(&mut self) -> Option<SegmentIndex> {
        if self.retransmit_queue.is_empty() {
            return None;
        }
        self.first_lost()
    }

    #[cold]
    fn first_lost(&mut self) -> Option<SegmentIndex> {
        while let Some(&index) = self.retransmit_queue.front() {
            if self.get(index).is_some_and(|s| s.state == State::Lost) {
                return Some(index);
            }
            self.retransmit_queue.pop_front();
        }
        shrink(&mut self.retransmit_queue);
        None
    }

    /// Removes that segment from the queue.
    pub(crate) fn take_lost(&mut self) {
        self.retransmit_queue.pop_front();
        if self.retransmit_queue.is_empty() {
            shrink(&mut self.retransmit_queue);
        }
    }

    /// Marks a segment as arrived, by whichever transmission. Returns the packet for the algorithm,
    /// or `None` if it had arrived before.
    pub(crate) fn mark_arrived(&mut self, now: Time, index: SegmentIndex) -> Option<Packet> {
        let segment = self.get_mut(index)?;
        if segment.state == State::Arrived {
            return None;
        }
        let (was, len) = (segment.state, u64::from(segment.len));
        segment.state = State::Arrived;
        let packet = segment.packet();
        if was == State::InFlight {
            self.in_flight -= len;
            self.packets_in_flight -= 1;
        }
        self.arrived += 1;
        self.delivery.arrived(now, &packet);
        Some(packet)
    }

    /// Removes the oldest segment if the cumulative ACK covers it. Call until it returns `None`.
    pub(crate) fn pop_acked(&mut self, now: Time, cumulative_ack: u64) -> Option<Segment> {
        let front = self.segments.front()?;
        if front.end() > cumulative_ack {
            if front.start < cumulative_ack {
                self.trim(now, cumulative_ack);
            }
            return None;
        }
        let front = self.segments.pop_front()?;
        self.first += 1;
        if front.state == State::InFlight {
            self.in_flight -= u64::from(front.len);
            self.packets_in_flight -= 1;
        }
        if front.state == State::Arrived {
            self.arrived -= 1;
        } else {
            self.delivery.arrived(now, &front.packet());
        }
        Some(front)
    }

    /// Trims the acknowledged part of the oldest segment.
    #[cold]
    fn trim(&mut self, now: Time, cumulative_ack: u64) {
        let Some(front) = self.segments.front_mut() else {
            return;
        };
        let cut = cumulative_ack.saturating_sub(front.start);
        if cut == 0 {
            return;
        }
        front.start = cumulative_ack;
        front.len -= cut as u32;
        if front.state == State::InFlight {
            self.in_flight -= cut;
        }
        if front.state != State::Arrived {
            self.delivery.add(now, Bytes::new(cut));
        }
    }

    /// Datagrams: removes arrived segments at the front. Returns the new cumulative ACK.
    pub(crate) fn pop_arrived(&mut self) -> Option<u64> {
        let mut cumulative_ack = None;
        while let Some(front) = self.segments.front().filter(|s| s.state == State::Arrived) {
            cumulative_ack = Some(front.end());
            self.arrived -= 1;
            self.segments.pop_front();
            self.first += 1;
        }
        self.clean();
        cumulative_ack
    }

    /// Marks a segment in flight as lost. With `again` it awaits retransmission; otherwise it is
    /// given up.
    pub(crate) fn mark_lost(&mut self, index: SegmentIndex, again: bool) -> Option<Packet> {
        let segment = self.get_mut(index)?;
        if segment.state != State::InFlight {
            return None;
        }
        segment.state = if again { State::Lost } else { State::Arrived };
        let (packet, len) = (segment.packet(), u64::from(segment.len));
        self.in_flight -= len;
        self.packets_in_flight -= 1;
        if !again {
            self.arrived += 1;
            return Some(packet);
        }
        let at = match (self.retransmit_queue.front(), self.retransmit_queue.back()) {
            (_, Some(&last)) if last < index => self.retransmit_queue.len(),
            (Some(&first), _) if index < first => 0,
            _ => self.retransmit_queue.partition_point(|n| *n < index),
        };
        if self.retransmit_queue.get(at) != Some(&index) {
            self.retransmit_queue.insert(at, index);
        }
        Some(packet)
    }

    /// Undoes spurious losses: segments that await retransmission are in flight again.
    pub(crate) fn undo_losses(&mut self) {
        for index in std::mem::take(&mut self.retransmit_queue) {
            if let Some(segment) = self.get_mut(index)
                && segment.state == State::Lost
            {
                segment.state = State::InFlight;
                let len = u64::from(segment.len);
                self.in_flight += len;
                self.packets_in_flight += 1;
            }
        }
        self.cursor = self.first_pn;
    }

    /// Handles a receiver that has reneged (RFC 2018, section 8): only the cumulative ACK counts.
    pub(crate) fn renege(&mut self) {
        for index in 0..self.segments.len() {
            let segment = &mut self.segments[index];
            if segment.state == State::Arrived {
                segment.state = State::InFlight;
                let len = u64::from(segment.len);
                self.arrived -= 1;
                self.in_flight += len;
                self.packets_in_flight += 1;
            }
        }
        self.cursor = self.first_pn;
    }

    /// Packet number below which all have been examined for losses.
    pub(crate) fn examined(&self) -> Pn {
        self.cursor
    }

    /// The oldest packet in flight that has not been examined, with its segment.
    pub(crate) fn loss_candidate(&mut self) -> Option<(SegmentIndex, Segment)> {
        loop {
            let index = self.index_of(self.cursor)?;
            if let Some(segment) = self.get(index)
                && segment.pn == self.cursor
                && segment.state == State::InFlight
            {
                return Some((index, *segment));
            }
            self.cursor += 1;
        }
    }

    /// The oldest packet in flight.
    pub(crate) fn oldest(&mut self) -> Option<(SegmentIndex, Segment)> {
        self.loss_candidate().or_else(|| {
            self.cursor = self.first_pn;
            self.loss_candidate()
        })
    }

    /// Indices of all outstanding segments.
    pub(crate) fn indices(&self) -> std::ops::Range<SegmentIndex> {
        self.first..self.first + self.segments.len() as u64
    }

    /// Releases retransmitted packets below `pn`.
    pub(crate) fn forget_replaced(&mut self, pn: Pn) {
        self.keep_from = pn;
        self.clean();
    }

    /// Drops finished packets at the front.
    #[inline(always)]
    pub(crate) fn clean(&mut self) {
        while let Some(&index) = self.order.front() {
            let alive = self.get(index).is_some_and(|s| {
                s.state != State::Arrived
                    && (s.pn == self.first_pn || self.first_pn >= self.keep_from)
            });
            if alive && self.order.len() < MAX_REMEMBERED {
                break;
            }
            self.order.pop_front();
            self.first_pn += 1;
        }
        self.cursor = self.cursor.max(self.first_pn);
        shrink(&mut self.order);
        shrink(&mut self.segments);
    }

    /// Packet number below which none is outstanding.
    pub(crate) fn first_pn(&self) -> Pn {
        self.first_pn
    }

    /// Number of entries in memory, for testing the bound.
    pub(crate) fn remembered(&self) -> usize {
        self.segments.len() + self.order.len() + self.retransmit_queue.len()
    }
}
