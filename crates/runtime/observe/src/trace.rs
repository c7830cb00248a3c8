// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trace ring: the last readings of all processes of a run, for `alcc log`.
use crate::map::{LEASE, TRACE, TRACE_COUNT, TRACE_ENTRY, TRACE_HEAD};
use crate::ring::{Reader, Record, Ring};
use crate::segment::Segment;
use alcc_units::{Bytes, Rate, Span, Time};
use std::io;

/// One reading of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEntry {
    /// When.
    pub at: Time,
    /// The process.
    pub pid: u32,
    /// The connection's number within it.
    pub id: u64,
    /// The client at the other end: [`crate::client_of`].
    pub client: u64,
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
    /// Segments sent again so far.
    pub retransmits: u64,
}

pub(crate) static RING: Ring = Ring {
    lease: LEASE,
    head: TRACE_HEAD,
    at: TRACE,
    len: TRACE_ENTRY,
    count: TRACE_COUNT,
};

/// Writes one reading.
pub(crate) fn write(segment: &Segment, p: &TraceEntry) {
    let limit = |value: Option<u64>| value.unwrap_or(u64::MAX);
    let fields = [
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
        p.client,
        p.retransmits,
    ];
    RING.write(segment, fields);
}

/// Follows the readings of a run.
pub type TraceReader<'a> = Reader<'a, TraceEntry>;

impl Segment {
    /// Follows the readings from now on.
    ///
    /// # Errors
    /// That there is no space for them.
    pub fn trace(&self) -> io::Result<TraceReader<'_>> {
        self.allocate(&RING)?;
        Ok(Reader::new(self, &RING))
    }
}

impl Record for TraceEntry {
    fn of(w: &[u64]) -> Option<Self> {
        let limit = |value: u64| (value != u64::MAX).then_some(value);
        Some(Self {
            at: Time::from_nanos(w[0]),
            pid: (w[1] >> 32) as u32,
            id: w[1] & 0xFFFF_FFFF,
            acked: w[2],
            in_flight: Bytes::new(w[3]),
            unsent: Bytes::new(w[4]),
            window: limit(w[5]).map(Bytes::new),
            cwnd: w[6],
            ssthresh: limit(w[7]),
            mss: Bytes::new(w[8]),
            rtt: Span::from_nanos(w[9]),
            min_rtt: Span::from_nanos(w[10]),
            pacing: limit(w[11]).map(Rate::bps),
            delivery: Rate::bps(w[12]),
            client: w[13],
            retransmits: w[14],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;
    use std::sync::atomic::Ordering;

    fn reading(id: u64) -> TraceEntry {
        TraceEntry {
            at: Time::from_millis(id),
            pid: 7,
            id,
            client: 12,
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
            retransmits: 13,
        }
    }

    #[test]
    fn readings_come_in_order_and_what_was_too_fast_is_counted() {
        let scratch = Scratch::new();
        let (writer, reader) = (scratch.create(), scratch.open());
        let mut trace = reader.trace().unwrap();
        assert!(!RING.wanted(&writer, Time::from_millis(1)));
        trace.lease(Time::from_millis(2));
        assert!(
            RING.wanted(&writer, Time::from_millis(1))
                && !RING.wanted(&writer, Time::from_millis(2))
        );
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
        assert!(!RING.wanted(&writer, Time::ZERO));
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
