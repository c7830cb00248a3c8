// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The trace ring: the last readings of all processes of a run, for `alcc log` and `alcc trial`.
use crate::event::{Event, Subscriber};
use crate::futex;
use crate::map::{LEASE, LEFT_COUNT, TRACE, TRACE_COUNT, TRACE_ENTRY, TRACE_HEAD};
use crate::ring::{Reader, Record, Ring};
use crate::segment::Segment;
use crate::status;
use alcc_flow::TcpProgress;
use alcc_units::{Bytes, Rate, Span, Time};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One reading of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEntry {
    /// Time of the reading.
    pub at: Time,
    /// The process.
    pub pid: u32,
    /// The connection's number within the process.
    pub id: u64,
    /// Number of the peer as a client: [`crate::client_of`].
    pub client: u64,
    /// Stream position acknowledged.
    pub acked: u64,
    /// Bytes written and not acknowledged, by the kernel's count: including those of a write in
    /// progress.
    pub in_flight: Bytes,
    /// Bytes written and not sent.
    pub unsent: Bytes,
    /// The algorithm's window; `None` if it has none.
    pub window: Option<Bytes>,
    /// The kernel's window, segments.
    pub cwnd: u64,
    /// The kernel's slow-start threshold, segments; `None` if it has not been set.
    pub ssthresh: Option<u64>,
    /// Segment size.
    pub mss: Bytes,
    /// Newest RTT sample of the algorithm; if the connection is not paced, it counts from the write.
    pub rtt: Span,
    /// The kernel's smoothed RTT, which does not include the time in the send buffer.
    pub smoothed: Span,
    /// Smallest RTT.
    pub min_rtt: Span,
    /// The algorithm's pacing rate; `None` if it has none.
    pub pacing: Option<Rate>,
    /// The kernel's estimate of the delivery rate.
    pub delivery: Rate,
    /// Segments retransmitted so far.
    pub retransmits: u64,
    /// True if the program has more data, because its last write was short or refused.
    pub has_more: bool,
}

/// A connection that its program has closed, with its last counters. While bytes are in flight, the
/// kernel still sends, and reports it under these addresses and this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftEntry {
    /// Time of the close.
    pub at: Time,
    /// The process.
    pub pid: u32,
    /// The connection's number within the process.
    pub id: u64,
    /// Number of the peer as a client: [`crate::client_of`].
    pub client: u64,
    /// The kernel's number of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// Stream position acknowledged.
    pub acked: u64,
    /// Bytes written and not acknowledged.
    pub in_flight: Bytes,
    /// Segment size.
    pub mss: Bytes,
    /// Segments retransmitted so far.
    pub retransmits: u64,
}

/// A record of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Traced {
    /// A reading.
    Reading(TraceEntry),
    /// The last record of a connection, at its close.
    Left(LeftEntry),
}

pub(crate) static RING: Ring = Ring {
    lease: LEASE,
    head: TRACE_HEAD,
    at: TRACE,
    len: TRACE_ENTRY,
    count: TRACE_COUNT,
};

/// Bit in the time of a record: it is a close, not a reading.
const LEFT: u64 = 1 << 63;
/// Bit in the bytes in flight: the program has more data.
const MORE: u64 = 1 << 63;
/// Number of fields of a record.
const FIELDS: usize = 16;
const CLIENT: usize = 13;
/// Position of the cookie in the record of a close.
const COOKIE: usize = 2;
const NAMES: usize = 3;
const COUNTERS: usize = NAMES + status::ENDS_LEN;
const _: () = assert!(FIELDS + 2 <= TRACE_ENTRY && COUNTERS + 4 <= CLIENT);

/// Writes the readings of a connection while there is a reader.
pub(crate) struct Trace {
    pub(crate) segment: Arc<Segment>,
    pub(crate) pid: u32,
    pub(crate) id: u64,
    pub(crate) client: u64,
    /// The connection's place in the table, which identifies it while it is open.
    pub(crate) place: Option<u32>,
}

impl Trace {
    pub(crate) fn is_read(&self, at: Time) -> bool {
        RING.wanted(&self.segment, at)
    }

    fn who(&self) -> u64 {
        u64::from(self.pid) << 32 | (self.id & 0xFFFF_FFFF)
    }

    /// Writes the last counters of the connection.
    fn write_close(&self, at: Time, tcp: &TcpProgress) {
        let Some(place) = self.place.map(|place| place as usize) else {
            return;
        };
        let mut fields = [0; FIELDS];
        fields[0] = at.as_nanos() | LEFT;
        fields[1] = self.who();
        fields[COOKIE] = status::cookie(&self.segment, place);
        let names = &status::named(&self.segment, place)[..status::ENDS_LEN];
        fields[NAMES..][..status::ENDS_LEN].copy_from_slice(names);
        let counters = [
            tcp.acked,
            tcp.in_buffer().get(),
            tcp.mss.get(),
            tcp.retransmits,
        ];
        fields[COUNTERS..][..4].copy_from_slice(&counters);
        fields[CLIENT] = self.client;
        RING.write(&self.segment, fields);
        if tcp.in_buffer() > Bytes::ZERO {
            futex::wake(self.segment.map().word(LEFT_COUNT));
        }
    }
}

impl Subscriber for Trace {
    fn on(&mut self, event: &Event<'_>) {
        match *event {
            Event::Reading(now) if self.is_read(now.at) => {
                let tcp = now.tcp;
                let in_flight = now.under_way.unwrap_or_else(|| tcp.in_buffer());
                let fields = [
                    now.at.as_nanos(),
                    self.who(),
                    tcp.acked,
                    in_flight.get() | if now.has_more { MORE } else { 0 },
                    tcp.unsent.get(),
                    now.allowance.window.get(),
                    now.cwnd,
                    now.ssthresh.unwrap_or(u64::MAX),
                    tcp.mss.get(),
                    now.rtt.latest.as_nanos(),
                    now.rtt.min.as_nanos(),
                    now.allowance.rate.unwrap_or(Rate::MAX).as_bps(),
                    now.delivery.as_bps(),
                    self.client,
                    tcp.retransmits,
                    tcp.smoothed_rtt.as_nanos(),
                ];
                RING.write(&self.segment, fields);
                if !now.is_alive && in_flight > Bytes::ZERO {
                    self.write_close(now.at, tcp);
                }
            }
            Event::Closing { at, tcp } if self.is_read(at) => self.write_close(at, tcp),
            Event::Closed => self.place = None,
            _ => {}
        }
    }
}

/// Waits for connections that are closed with bytes in flight, in any process of a run.
pub struct LeftBell<'a> {
    segment: &'a Segment,
    seen: u64,
}

impl LeftBell<'_> {
    /// Waits until one more is closed than at the end of the last call, at most `most`. It may
    /// return early.
    pub fn wait(&mut self, most: Duration) {
        let word = self.segment.map().word(LEFT_COUNT);
        self.seen = futex::wait(word, self.seen, most);
    }
}

/// Reader of the readings of a run.
pub type TraceReader<'a> = Reader<'a, Traced>;

impl Segment {
    /// Reads the readings from now on.
    ///
    /// # Errors
    /// There is no space for them.
    pub fn trace(&self) -> io::Result<TraceReader<'_>> {
        self.allocate(&RING)?;
        Ok(Reader::new(self, &RING))
    }

    /// A waiter for connections that are closed from now on.
    pub fn left_bell(&self) -> LeftBell<'_> {
        let seen = self.map().word(LEFT_COUNT).load(Ordering::Acquire);
        LeftBell {
            segment: self,
            seen,
        }
    }
}

impl Record for Traced {
    fn of(w: &[u64]) -> Option<Self> {
        Some(if w[0] & LEFT == 0 {
            Self::Reading(TraceEntry::of(w))
        } else {
            Self::Left(LeftEntry::of(w))
        })
    }
}

impl LeftEntry {
    fn of(w: &[u64]) -> Self {
        let (local, remote) = status::ends(&w[NAMES..]);
        Self {
            at: Time::from_nanos(w[0] & !LEFT),
            pid: (w[1] >> 32) as u32,
            id: w[1] & 0xFFFF_FFFF,
            client: w[CLIENT],
            cookie: w[COOKIE],
            local,
            remote,
            acked: w[COUNTERS],
            in_flight: Bytes::new(w[COUNTERS + 1]),
            mss: Bytes::new(w[COUNTERS + 2]),
            retransmits: w[COUNTERS + 3],
        }
    }
}

impl TraceEntry {
    fn of(w: &[u64]) -> Self {
        let limit = |value: u64| (value != u64::MAX).then_some(value);
        Self {
            at: Time::from_nanos(w[0]),
            pid: (w[1] >> 32) as u32,
            id: w[1] & 0xFFFF_FFFF,
            acked: w[2],
            in_flight: Bytes::new(w[3] & !MORE),
            has_more: w[3] & MORE != 0,
            unsent: Bytes::new(w[4]),
            window: limit(w[5]).map(Bytes::new),
            cwnd: w[6],
            ssthresh: limit(w[7]),
            mss: Bytes::new(w[8]),
            rtt: Span::from_nanos(w[9]),
            min_rtt: Span::from_nanos(w[10]),
            pacing: limit(w[11]).map(Rate::bps),
            delivery: Rate::bps(w[12]),
            client: w[CLIENT],
            retransmits: w[14],
            smoothed: Span::from_nanos(w[15]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Reading;
    use crate::event::tests::{reading, tcp};
    use crate::segment::tests::Scratch;

    fn trace(segment: &Arc<Segment>, place: Option<u32>) -> Trace {
        Trace {
            segment: Arc::clone(segment),
            pid: 7,
            id: 3,
            client: 12,
            place,
        }
    }

    #[test]
    fn readings_come_in_order_and_what_was_too_fast_is_counted() {
        let scratch = Scratch::new();
        let (ours, theirs) = (Arc::new(scratch.create()), scratch.open());
        let mut reader = theirs.trace().unwrap();
        let mut writer = trace(&ours, None);
        let tcp = tcp();
        let mut write = |ms| {
            let at = Time::from_millis(ms);
            let has_more = ms % 2 == 1;
            let reading = Reading {
                at,
                has_more,
                ..reading(&tcp)
            };
            writer.on(&Event::Reading(&reading));
        };
        write(1);
        let many = TRACE_COUNT as u64 + 100;
        reader.lease(Time::from_millis(many));
        (0..10).for_each(&mut write);
        let mut got = Vec::new();
        reader.read(|p| got.push(*p));
        let entry = |ms| TraceEntry {
            at: Time::from_millis(ms),
            pid: 7,
            id: 3,
            client: 12,
            acked: 40_000,
            in_flight: Bytes::new(3000),
            unsent: Bytes::new(500),
            window: Some(Bytes::new(7 * 1448)),
            cwnd: 10,
            ssthresh: Some(6),
            mss: Bytes::new(1448),
            rtt: Span::from_millis(50),
            min_rtt: Span::from_millis(40),
            pacing: Some(Rate::mbps(7)),
            delivery: Rate::mbps(3),
            retransmits: 2,
            smoothed: Span::from_millis(44),
            has_more: ms % 2 == 1,
        };
        let expected: Vec<_> = (0..10).map(|ms| Traced::Reading(entry(ms))).collect();
        assert_eq!(got, expected, "the first was before the lease");
        // The last is after it.
        (0..=many).for_each(&mut write);
        got.clear();
        reader.read(|p| got.push(*p));
        assert_eq!((got.len(), reader.lost()), (TRACE_COUNT, 100));
        assert_eq!(got[0], Traced::Reading(entry(100)));
        reader.end();
        write(0);
        reader.read(|p| panic!("{p:?}"));
    }

    #[test]
    fn a_connection_that_is_left_has_its_names() {
        let scratch = Scratch::new();
        let (writer, reader) = (Arc::new(scratch.create()), scratch.open());
        let mut ring = reader.trace().unwrap();
        ring.lease(Time::MAX);
        let mut bell = reader.left_bell();
        let who = status::tests::who(3);
        let slot = status::Slot::take(&writer, &who).unwrap();
        let (at, tcp) = (Time::from_millis(9), tcp());
        let mut trace = trace(&writer, u32::try_from(slot.index()).ok());
        trace.on(&Event::Closing { at, tcp: &tcp });
        // The waiter returns at once.
        bell.wait(Duration::from_secs(600));
        let mut got = Vec::new();
        ring.read(|p| got.push(*p));
        let left = Traced::Left(LeftEntry {
            at,
            pid: 7,
            id: 3,
            client: 12,
            cookie: who.cookie,
            local: who.local,
            remote: who.remote,
            acked: 40_000,
            in_flight: Bytes::new(3000),
            mss: Bytes::new(1448),
            retransmits: 2,
        });
        assert_eq!(got, [left]);
        // Also if the peer takes nothing more, and not once the connection has lost its place.
        let dead = Reading {
            is_alive: false,
            ..reading(&tcp)
        };
        trace.on(&Event::Reading(&dead));
        trace.on(&Event::Closed);
        trace.on(&Event::Closing { at, tcp: &tcp });
        got.clear();
        ring.read(|p| got.push(*p));
        assert_eq!((got.len(), got[1]), (2, left));
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
