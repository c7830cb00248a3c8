// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trace ring: the last readings of all processes of a run, for `alcc log`. It is written only while somebody reads
//! it: a reader renews a lease, and when that ends, writing ends.
use crate::map::{self, LEASE, TRACE, TRACE_COUNT, TRACE_ENTRY, TRACE_HEAD, set};
use crate::segment::Segment;
use alcc_units::{Bytes, Rate, Span, Time};
use std::io;
use std::sync::atomic::Ordering;

/// One reading of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEntry {
    /// When.
    pub at: Time,
    /// The process.
    pub pid: u32,
    /// The connection's number within it.
    pub id: u64,
    /// Stream position acknowledged.
    pub acked: u64,
    /// Written and not acknowledged.
    pub in_flight: Bytes,
    /// Written and not sent.
    pub unsent: Bytes,
    /// The algorithm's window; `None` if it has none.
    pub window: Option<Bytes>,
    /// The kernel's window, segments.
    pub cwnd: u64,
    /// The kernel's slow-start threshold, segments; `None` if it has not been set.
    pub ssthresh: Option<u64>,
    /// Segment size.
    pub mss: Bytes,
    /// Newest RTT sample.
    pub rtt: Span,
    /// Smallest RTT.
    pub min_rtt: Span,
    /// The algorithm's pacing rate; `None` if it has none.
    pub pacing: Option<Rate>,
    /// The kernel's estimate of the delivery rate.
    pub delivery: Rate,
}

/// True while somebody reads.
pub(crate) fn wanted(segment: &Segment, now: Time) -> bool {
    let lease = segment.map().word(LEASE).load(Ordering::Relaxed);
    lease > now.as_nanos()
}

/// Writes one reading. The place is ours by the counter; a writer that is a whole ring late garbles one entry, which its
/// reader sees by the sequence.
pub(crate) fn write(segment: &Segment, p: &TraceEntry) {
    let number = segment
        .map()
        .word(TRACE_HEAD)
        .fetch_add(1, Ordering::Relaxed);
    let at = TRACE + (number as usize % TRACE_COUNT) * TRACE_ENTRY;
    let limit = |value: Option<u64>| value.unwrap_or(u64::MAX);
    map::publish(segment.map().words(at, TRACE_ENTRY), |w| {
        let values = [
            // A place that nobody has written to yet is zero: no reading's mark is.
            number.wrapping_add(1),
            p.at.as_nanos(),
            u64::from(p.pid) << 32 | (p.id & 0xFFFF_FFFF),
            p.acked,
            p.in_flight.get(),
            p.unsent.get(),
            limit(p.window.map(Bytes::get)),
            p.cwnd,
            limit(p.ssthresh),
            p.mss.get(),
            p.rtt.as_nanos(),
            p.min_rtt.as_nanos(),
            limit(p.pacing.map(Rate::as_bps)),
            p.delivery.as_bps(),
        ];
        w.iter().zip(values).for_each(|(w, v)| set(w, v));
    });
}

/// Follows the readings of a run.
pub struct TraceReader<'a> {
    segment: &'a Segment,
    next: u64,
    lost: u64,
}

impl Segment {
    /// Follows the readings from now on.
    ///
    /// # Errors
    /// That there is no space for them.
    pub fn trace(&self) -> io::Result<TraceReader<'_>> {
        self.allocate_trace()?;
        Ok(TraceReader::new(self))
    }
}

impl<'a> TraceReader<'a> {
    /// From now on.
    fn new(segment: &'a Segment) -> Self {
        Self {
            segment,
            next: segment.map().word(TRACE_HEAD).load(Ordering::Acquire),
            lost: 0,
        }
    }

    /// Asks the processes to write until `until`.
    pub fn lease(&self, until: Time) {
        let lease = self.segment.map().word(LEASE);
        lease.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Nobody else reads: no more writing. (Others renew their lease within a second.)
    pub fn end(&self) {
        set(self.segment.map().word(LEASE), 0);
    }

    /// What was written since the last call, oldest first.
    pub fn read(&mut self, mut each: impl FnMut(&TraceEntry)) {
        let head = self.segment.map().word(TRACE_HEAD).load(Ordering::Acquire);
        let behind = head.wrapping_sub(self.next);
        if behind > TRACE_COUNT as u64 {
            let skipped = behind - TRACE_COUNT as u64;
            self.lost = self.lost.saturating_add(skipped);
            self.next = self.next.wrapping_add(skipped);
        }
        while self.next != head {
            let at = TRACE + (self.next as usize % TRACE_COUNT) * TRACE_ENTRY;
            let entry = map::snapshot::<14>(self.segment.map().words(at, TRACE_ENTRY));
            match entry {
                Some(w) if w[0] == self.next.wrapping_add(1) => each(&passed(&w)),
                // Its writer is in the middle of it: it will be there next time, or be given up when others follow.
                _ if head.wrapping_sub(self.next) <= 64 => return,
                _ => self.lost += 1,
            }
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Readings that came faster than they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

fn passed(w: &[u64; 14]) -> TraceEntry {
    let limit = |value: u64| (value != u64::MAX).then_some(value);
    TraceEntry {
        at: Time::from_nanos(w[1]),
        pid: (w[2] >> 32) as u32,
        id: w[2] & 0xFFFF_FFFF,
        acked: w[3],
        in_flight: Bytes::new(w[4]),
        unsent: Bytes::new(w[5]),
        window: limit(w[6]).map(Bytes::new),
        cwnd: w[7],
        ssthresh: limit(w[8]),
        mss: Bytes::new(w[9]),
        rtt: Span::from_nanos(w[10]),
        min_rtt: Span::from_nanos(w[11]),
        pacing: limit(w[12]).map(Rate::bps),
        delivery: Rate::bps(w[13]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;

    fn reading(id: u64) -> TraceEntry {
        TraceEntry {
            at: Time::from_millis(id),
            pid: 7,
            id,
            acked: 1,
            in_flight: Bytes::new(2),
            unsent: Bytes::new(3),
            window: None,
            cwnd: 5,
            ssthresh: Some(6),
            mss: Bytes::new(7),
            rtt: Span::from_micros(8),
            min_rtt: Span::from_micros(9),
            pacing: Some(Rate::bps(10)),
            delivery: Rate::bps(11),
        }
    }

    #[test]
    fn readings_come_in_order_and_what_was_too_fast_is_counted() {
        let scratch = Scratch::new();
        let (writer, reader) = (scratch.create(), scratch.open());
        let mut trace = reader.trace().unwrap();
        assert!(!wanted(&writer, Time::from_millis(1)));
        trace.lease(Time::from_millis(2));
        assert!(wanted(&writer, Time::from_millis(1)) && !wanted(&writer, Time::from_millis(2)));
        (0..10).for_each(|id| write(&writer, &reading(id)));
        let mut got = Vec::new();
        trace.read(|p| got.push(*p));
        assert_eq!(got, (0..10).map(reading).collect::<Vec<_>>());
        let many = TRACE_COUNT as u64 + 100;
        (0..many).for_each(|id| write(&writer, &reading(id)));
        got.clear();
        trace.read(|p| got.push(*p));
        assert_eq!((got.len(), trace.lost()), (TRACE_COUNT, 100));
        assert_eq!(got[0], reading(100));
        trace.end();
        assert!(!wanted(&writer, Time::ZERO));
    }

    #[test]
    fn a_place_that_is_taken_but_not_written_yet_is_no_reading() {
        let scratch = Scratch::new();
        let (writer, reader) = (scratch.create(), scratch.open());
        let mut trace = reader.trace().unwrap();
        writer
            .map()
            .word(TRACE_HEAD)
            .fetch_add(1, Ordering::Relaxed);
        trace.read(|p| panic!("{p:?}"));
    }
}
