// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sending direction.
use super::{Ending, Session};
use crate::Error;
use crate::frame::{self, DATA_OVERHEAD, TAGGED_OVERHEAD, reason};
use crate::output::Output;
use alcc_units::{Bytes, Span, Time};

/// Largest payload of a frame. At this size the cost of headers is negligible. It must not be much larger, because a
/// frame must be complete before anything else can be sent.
const MAX_FRAME_PAYLOAD: u64 = 16 * 1024;
/// Maximum number of bytes of one call.
const MAX_OUTPUT: u64 = 256 * 1024;
/// Maximum time for which less than a segment waits for more data.
const MAX_COALESCE: Span = Span::from_millis(5);
/// Paced data is sent in bursts of at least this time, because a wake-up for each packet would cost too much.
const MIN_PACING_INTERVAL: Span = Span::from_millis(5);

/// Arguments of [`Session::output`].
pub(super) struct Offer<'a> {
    /// Bytes of the caller that follow the queue.
    pub(super) direct: &'a [u8],
    /// True if other bytes will follow soon, so that a partial segment is held back.
    pub(super) more: bool,
    /// The most bytes that this call may append.
    pub(super) max: u64,
}

/// True if `room` is the whole credit of the peer, with nothing in flight: no acknowledgement will extend it. Otherwise
/// a peer with a buffer smaller than a segment would wait forever.
fn is_all_there_is(room: u64, credit: u64, in_flight: Bytes) -> bool {
    room == credit && in_flight == Bytes::ZERO
}

impl Session {
    /// Takes bytes into the queue. Returns the number of bytes taken.
    ///
    /// # Errors
    /// The error that ended the session; [`Error::Closed`] after [`Session::close`].
    pub fn write(&mut self, now: Time, bytes: &[u8]) -> Result<usize, Error> {
        self.may_write()?;
        let free = self.settings.queue.saturating_sub(self.queue.len());
        let n = free.min(bytes.len());
        self.queue.extend(&bytes[..n]);
        if n > 0 {
            // A whole segment is sent as soon as the algorithm allows, and less than one if nothing is in flight.
            // Otherwise it waits for more until `queue_due`.
            let idle = |f: &alcc_flow::OverTcp| f.in_flight() == Bytes::ZERO;
            if self.queue.len() as u64 >= self.mss || self.flow.as_ref().is_some_and(idle) {
                self.flush_due = true;
            } else if self.queue_due.is_none() {
                self.queue_due = Some(now + MAX_COALESCE);
            }
        }
        Ok(n)
    }

    /// Makes the queue not wait for more data.
    pub fn flush(&mut self) {
        self.flush_due = !self.queue.is_empty();
    }

    /// Checks that data may be written.
    ///
    /// # Errors
    /// The errors of [`Session::write`].
    pub fn may_write(&self) -> Result<(), Error> {
        self.check()?;
        if self.is_ending() || self.carrier_closed {
            return Err(Error::Io(
                std::io::ErrorKind::BrokenPipe,
                "written after the end".to_owned(),
            ));
        }
        Ok(())
    }

    /// Ends writing. The queue is sent first.
    pub fn close(&mut self) {
        if self.ending == Ending::Open && self.error.is_none() {
            self.ending = Ending::Wanted;
            self.flush();
        }
    }

    /// Number of bytes in the queue.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    fn overhead(&self) -> u64 {
        match self.header_len {
            None => DATA_OVERHEAD as u64,
            Some(tag) => (TAGGED_OVERHEAD + usize::from(tag)) as u64,
        }
    }

    /// Maximum payload of a frame.
    fn max_frame(&self) -> u64 {
        if self.header_len.is_some() {
            self.mss
        } else {
            MAX_FRAME_PAYLOAD
        }
    }

    /// Payload that may be sent now, with an empty queue, bytes.
    pub fn room(&mut self, now: Time) -> usize {
        let Some(flow) = &self.flow else { return 0 };
        if self.error.is_some() || flow.is_blocked() {
            return 0;
        }
        let all = Bytes::new(MAX_OUTPUT);
        let room = flow.allows(all, flow.in_flight(), Bytes::ZERO).get();
        let credit = self.credit.saturating_sub(flow.written());
        let in_flight = flow.in_flight();
        let room = room.min(credit).min(self.pace(now));
        let small_buffer = is_all_there_is(room, credit, in_flight) && room > self.overhead();
        if room < self.mss && !small_buffer {
            // A writer waits: runs the algorithm's timers and then reads its allowance again.
            let (mss, flow) = (Bytes::new(self.mss), self.flow.as_mut());
            if let Some(flow) = flow {
                flow.room(now, mss, flow.in_flight(), Bytes::ZERO);
            }
            return 0;
        }
        let frames = room.div_ceil(self.max_frame());
        let free = room.saturating_sub(frames * self.overhead());
        free.saturating_sub(self.queue.len() as u64) as usize
    }

    /// Bytes that the pacer allows now.
    fn pace(&mut self, now: Time) -> u64 {
        let Some(flow) = &self.flow else { return 0 };
        let allowance = flow.allowance();
        let Some(rate) = allowance.rate else {
            return u64::MAX;
        };
        // A sender that had more data and is late, because it waited for a processor, sends the data that its rate
        // allowed meanwhile.
        let waited = self.backlogged_at.map_or(Span::ZERO, |at| now.since(at));
        let span = MIN_PACING_INTERVAL.max(waited);
        // With less than a segment, nothing would ever be sent: each call before a whole segment is due starts the wait
        // again.
        let burst = allowance.burst.max(rate.bytes_in(span));
        let burst = burst.max(Bytes::new(self.mss));
        let credit = self.pacer.credit(now, rate, burst).get();
        if credit >= self.mss {
            return credit;
        }
        // The wait is not for a single segment if the rate allows more.
        let wanted = rate.bytes_in(MIN_PACING_INTERVAL / 2).get().max(self.mss) - credit;
        self.paced_until = Some(now + rate.time_for(Bytes::new(wanted)).max(Span::from_micros(50)));
        0
    }

    /// Encodes frames of waiting data as allowed. Returns the number of bytes taken from `offer.direct`.
    pub(super) fn data(&mut self, now: Time, offer: &Offer<'_>, out: &mut Output) -> usize {
        let available = (self.queue.len() + offer.direct.len()) as u64;
        if self.queue_due.is_some_and(|due| due <= now) {
            self.queue_due = None;
            self.flush_due = true;
        }
        let ripe =
            !offer.direct.is_empty() || available >= self.mss || self.flush_due && !offer.more;
        let mut taken = 0;
        if available > 0 && ripe {
            taken = self.frames(now, offer, out);
        }
        if self.queue.is_empty() {
            self.queue_due = None;
            self.flush_due = false;
            if self.queue.capacity() > 4096 {
                self.queue = std::collections::VecDeque::new();
            }
        }
        if self.ending == Ending::Wanted && self.queue.is_empty() && taken == offer.direct.len() {
            self.end(now, out);
        }
        taken
    }

    fn end(&mut self, now: Time, out: &mut Output) {
        let Some(flow) = &mut self.flow else { return };
        let before = out.bytes.len();
        frame::encode_close(&mut out.bytes, flow.written() as u32, reason::END, "");
        let len = (out.bytes.len() - before) as u64;
        if flow.in_flight() == Bytes::ZERO {
            self.busy_since = now;
        }
        flow.wrote(now, Bytes::new(len));
        self.ending = Ending::Sent(flow.written() - len, flow.written());
    }

    /// Bytes of frames that may be sent now after `ahead` bytes of the same write. `None` if nothing may be sent at
    /// all.
    fn sendable(&mut self, now: Time, offer: &Offer<'_>, ahead: usize) -> Option<u64> {
        let (overhead, max_frame) = (self.overhead(), self.max_frame());
        let paced = self.pace(now);
        let flow = self.flow.as_mut().filter(|flow| !flow.is_blocked())?;
        let available = (self.queue.len() + offer.direct.len()) as u64;
        let wanted = available + available.div_ceil(max_frame - overhead) * overhead;
        let allowed = flow
            .room(now, Bytes::new(wanted), flow.in_flight(), Bytes::ZERO)
            .get();
        let credit = self.credit.saturating_sub(flow.written());
        if flow.in_flight() == Bytes::ZERO {
            self.busy_since = now;
        }
        if paced < wanted.min(allowed) {
            flow.paced(now);
        }
        let mut room = allowed
            .min(paced)
            .min(credit)
            .min(MAX_OUTPUT)
            .min(offer.max);
        if offer.more && wanted >= self.mss {
            room = room.min(wanted - wanted % self.mss);
        }
        if room < wanted && !(room < self.mss && is_all_there_is(room, credit, flow.in_flight())) {
            // Rounds down to whole segments, counting the preceding bytes of the same write.
            room -= room % self.mss;
            let ahead = ahead as u64 % self.mss;
            room = room.saturating_sub(if room > self.mss { ahead } else { 0 });
        }
        Some(room)
    }

    fn frames(&mut self, now: Time, offer: &Offer<'_>, out: &mut Output) -> usize {
        let (overhead, max_frame) = (self.overhead(), self.max_frame());
        let Some(mut room) = self.sendable(now, offer, out.len()) else {
            return 0;
        };
        let Some(flow) = &mut self.flow else { return 0 };
        let mut taken = 0;
        let mut remaining = (self.queue.len() + offer.direct.len()) as u64;
        let mut framed = 0;
        let position = flow.written();
        while remaining > 0 && room > overhead {
            let payload = remaining.min(max_frame - overhead).min(room - overhead);
            let len = payload + overhead;
            let mut tag = [0; 16];
            let mut tagged: &[u8] = &[];
            if let Some(need) = self.header_len {
                let more = remaining > payload && room > len + overhead || offer.more && room > len;
                let header = flow.wrote_framed(now, Bytes::new(len), more);
                let n = header.len().min(usize::from(need));
                tag[..n].copy_from_slice(&header[..n]);
                tagged = &tag[..usize::from(need)];
            }
            let sequence = (position + framed) as u32;
            frame::encode_data(&mut out.bytes, sequence, tagged, payload as usize);
            let own = self.queue.len().min(payload as usize);
            out.bytes.extend(self.queue.drain(..own));
            let rest = payload as usize - own;
            out.direct(taken..taken + rest);
            taken += rest;
            remaining -= payload;
            room -= len;
            framed += len;
            self.stats.sent += payload;
        }
        if self.header_len.is_none() && framed > 0 {
            flow.wrote(now, Bytes::new(framed));
        }
        self.pacer.spend(Bytes::new(framed));
        self.backlogged_at = (remaining > 0).then_some(now);
        taken
    }
}
