// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event ring: the events of algorithms, for `alcc log` and `alcc run --log`.
use crate::event::{self, Subscriber};
use crate::map::{
    EVENTS, EVENTS_COUNT, EVENTS_HEAD, EVENTS_LEASE, EVENTS_LEN, get_text, text_words,
};
use crate::ring::{Reader, Record, Ring};
use crate::segment::Segment;
use crate::status;
use alcc_cc::{Event, RttView};
use alcc_units::{Span, Time};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) static RING: Ring = Ring {
    lease: EVENTS_LEASE,
    head: EVENTS_HEAD,
    at: EVENTS,
    len: EVENTS_LEN,
    count: EVENTS_COUNT,
};

/// An event of one connection's algorithm.
#[derive(Clone, PartialEq, Debug)]
pub struct EventEntry {
    /// Time of the event.
    pub at: Time,
    /// The process.
    pub pid: u32,
    /// The connection's number within the process.
    pub id: u64,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The algorithm with its options.
    pub algorithm: String,
    /// The event.
    pub event: Event<String>,
    /// Round-trip times that the connection knew at that time.
    pub rtt: RttView,
}

/// Reader of the events of a run.
pub type EventReader<'a> = Reader<'a, EventEntry>;

impl Segment {
    /// Reads the events from now on.
    ///
    /// # Errors
    /// There is no space for them.
    pub fn events(&self) -> io::Result<EventReader<'_>> {
        self.allocate(&RING)?;
        Ok(Reader::new(self, &RING))
    }
}

// Fields after the mark.
const AT: usize = 0;
const WHO: usize = 1;
const KIND: usize = 2;
const VALUES: usize = 3;
const RTTS: usize = 5;
const WORD: usize = 7;
const WORD_LEN: usize = 3;
const IDENTITY: usize = WORD + WORD_LEN;
const FIELDS: usize = IDENTITY + status::NAMED_LEN;
const _: () = assert!(FIELDS + 2 <= EVENTS_LEN);

/// Writes the events of a connection's algorithm while there is a reader. It is held by the algorithm's host, because
/// events come from within the algorithm.
pub(crate) struct Sink {
    pub(crate) segment: Arc<Segment>,
    /// The connection's place in the table, which identifies it.
    pub(crate) index: usize,
    pub(crate) pid: u32,
    pub(crate) id: u64,
}

impl Subscriber for Sink {
    fn on(&mut self, event: &event::Event<'_>) {
        let event::Event::Algorithm { at, event, rtt } = *event else {
            return;
        };
        if !RING.wanted(&self.segment, at) {
            return;
        }
        let (kind, word, values) = event.into_parts();
        let mut fields = [0; FIELDS];
        fields[AT] = at.as_nanos();
        fields[WHO] = u64::from(self.pid) << 32 | (self.id & 0xFFFF_FFFF);
        fields[KIND] = kind;
        fields[VALUES..][..2].copy_from_slice(&values.map(f64::to_bits));
        fields[RTTS..][..2].copy_from_slice(&[rtt.latest.as_nanos(), rtt.min.as_nanos()]);
        let word = text_words(word.unwrap_or_default());
        fields[WORD..IDENTITY]
            .iter_mut()
            .zip(word)
            .for_each(|(f, w)| *f = w);
        fields[IDENTITY..].copy_from_slice(&status::named(&self.segment, self.index));
        RING.write(&self.segment, fields);
    }
}

impl Record for EventEntry {
    fn of(w: &[u64]) -> Option<Self> {
        let word = get_text(&w[WORD..][..WORD_LEN]);
        let value = |n: usize| f64::from_bits(w[VALUES + n]);
        let (local, remote, algorithm) = status::names(&w[IDENTITY..FIELDS]);
        Some(Self {
            at: Time::from_nanos(w[AT]),
            pid: (w[WHO] >> 32) as u32,
            id: w[WHO] & 0xFFFF_FFFF,
            local,
            remote,
            algorithm,
            event: Event::from_parts((w[KIND], Some(word), [value(0), value(1)]))?,
            rtt: RttView {
                latest: Span::from_nanos(w[RTTS]),
                min: Span::from_nanos(w[RTTS + 1]),
                ..RttView::default()
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;
    use crate::status::Slot;
    use crate::status::tests::who;

    const REDUCED: Event = Event::Decrease {
        why: "loss",
        from: 43.5,
        to: 21.75,
    };
    const RTT: RttView = RttView {
        latest: Span::from_millis(48),
        smoothed: Span::ZERO,
        variance: Span::ZERO,
        min: Span::from_millis(40),
    };

    fn sink(segment: &Arc<Segment>, slot: &Slot) -> Sink {
        Sink {
            segment: Arc::clone(segment),
            index: slot.index(),
            pid: 7,
            id: 3,
        }
    }

    #[test]
    fn an_event_is_read_by_another_view_and_nothing_without_a_reader() {
        let scratch = Scratch::new();
        let (ours, theirs) = (Arc::new(scratch.create()), scratch.open());
        let mut slot = Slot::take(&ours, &who(3)).unwrap();
        let mut sink = sink(&ours, &slot);
        let at = Time::from_millis(5);
        let reduced = |at| event::Event::Algorithm {
            at,
            event: REDUCED,
            rtt: RTT,
        };
        let mode = |ms, to| event::Event::Algorithm {
            at: Time::from_millis(ms),
            event: Event::Mode { to },
            rtt: RttView::default(),
        };
        sink.on(&reduced(at));
        let mut reader = theirs.events().unwrap();
        reader.lease(Time::from_millis(6));
        sink.on(&reduced(at));
        slot.on(&event::Event::AlgorithmChanged(&event::Named {
            algorithm: "copa",
            feedback: "tcp-info",
            enforcement: "gate",
        }));
        sink.on(&mode(5, "competitive"));
        // The lease is over.
        sink.on(&mode(6, "default"));
        let mut got = Vec::new();
        reader.read(|e: &EventEntry| got.push(e.clone()));
        let expected = EventEntry {
            at,
            pid: 7,
            id: 3,
            local: who(3).local,
            remote: who(3).remote,
            algorithm: who(3).algorithm,
            event: Event::Decrease {
                why: "loss".to_owned(),
                from: 43.5,
                to: 21.75,
            },
            rtt: RTT,
        };
        assert_eq!((got.len(), &got[0]), (2, &expected));
        assert_eq!(got[1].algorithm, "copa");
        let to = "competitive".to_owned();
        assert_eq!(got[1].event, Event::Mode { to });
        assert_eq!(reader.lost(), 0);
    }

    /// Two writers without a reader do not wait, and the reader later counts the events it missed.
    #[test]
    fn a_full_ring_drops_the_oldest_and_counts() {
        let scratch = Scratch::new();
        let (ours, theirs) = (Arc::new(scratch.create()), scratch.open());
        let mut reader = theirs.events().unwrap();
        reader.lease(Time::MAX);
        let each = EVENTS_COUNT as u64;
        std::thread::scope(|scope| {
            for id in [1, 2] {
                let slot = Slot::take(&ours, &who(id)).unwrap();
                let mut sink = sink(&ours, &slot);
                scope.spawn(move || {
                    (0..each).for_each(|n| {
                        sink.on(&event::Event::Algorithm {
                            at: Time::from_nanos(n),
                            event: REDUCED,
                            rtt: RTT,
                        });
                    });
                    drop(slot);
                });
            }
        });
        let mut got = 0_u64;
        reader.read(|_: &EventEntry| got += 1);
        assert_eq!(got + reader.lost(), 2 * each);
        assert!(reader.lost() >= each, "{}", reader.lost());
        assert!(got > each / 2, "{got}");
    }
}
