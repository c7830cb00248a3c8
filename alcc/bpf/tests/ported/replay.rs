// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replay of the events of `alcc/flow/tests/controller_vectors/vectors.json` to a controller. The page beside it
//! describes the format.
//!
//! The hosts that wrote the file, `script.rs` and `packets.rs` beside it, each have a path that determines the events.
//! This one has none: it must reach the same answers from the written events alone, as in Java.
use alcc_cc::feed::Delivery;
use alcc_cc::{
    Acked, Controller, Feed, Instance, Kind, LimitedBy, Packet, Path, Rto, RttView, Sent, Source,
    Stamp, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};

/// An event, or an answer: its name and its numbers.
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) values: Vec<i64>,
}

/// One flow.
pub(crate) struct Case {
    pub(crate) algorithm: String,
    /// Packets have numbers.
    pub(crate) numbered: bool,
    start: Time,
    pub(crate) told: Vec<Told>,
}

/// The value of a name in a line; a word without its quotes.
fn value<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line
        .split_once(&format!("\"{name}\": "))
        .expect("each case has it");
    let (value, _) = rest.split_once(',').expect("more follows");
    value.trim_matches('"')
}

/// The file has a line for each case, and one for each event.
pub(crate) fn cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if line.starts_with("{\"algorithm\"") {
            let start = value(line, "start").parse().expect("nanoseconds");
            cases.push(Case {
                algorithm: value(line, "algorithm").to_owned(),
                numbered: value(line, "host") == "packets",
                start: Time::from_nanos(start),
                told: Vec::new(),
            });
        } else if let Some(rest) = line.strip_prefix("[\"") {
            let (event, _) = rest.split_once(']').expect("a list");
            let (name, values) = event.split_once("\",").expect("numbers after its name");
            let values = values.split(',');
            cases
                .last_mut()
                .expect("a case before its events")
                .told
                .push(Told {
                    name: name.to_owned(),
                    values: values.map(|v| v.parse().expect("a number")).collect(),
                });
        }
    }
    cases
}

fn bytes(n: i64) -> Bytes {
    Bytes::new(n as u64)
}

fn nanos(n: i64) -> Span {
    Span::from_nanos(n as u64)
}

/// The RTT samples that an acknowledgement of several packets provides.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum RoundTrips {
    /// That of each packet, as the file does.
    All,
    /// That of the newest one, as the kernel does.
    Newest,
}

/// A flow that receives all events.
pub(crate) struct Replay {
    feed: Feed,
    start: Time,
    numbered: bool,
    hears: RoundTrips,
    sent: Vec<Packet>,
    rtt: RttView,
    rate: Option<Rate>,
    /// Nothing here depends on totals.
    delivery: Delivery,
}

impl Replay {
    pub(crate) fn new(cc: Instance, case: &Case, hears: RoundTrips) -> Self {
        Self {
            hears,
            feed: Feed::new(cc, case.start),
            start: case.start,
            numbered: case.numbered,
            sent: Vec::new(),
            rtt: RttView::default(),
            rate: None,
            delivery: Delivery::new(case.start),
        }
    }

    /// Those of an event: bytes, age, a third value, and a number where there are any.
    fn packets(&self, values: &[i64]) -> Vec<(Packet, i64)> {
        let each = if self.numbered { 4 } else { 3 };
        let packets = values.chunks_exact(each).map(|value| {
            let sent_at = self.feed.now() - nanos(value[1]);
            let known = value.get(3).map(|pn| self.sent[*pn as usize]);
            let packet = known.unwrap_or_else(|| Packet {
                pn: 0,
                len: bytes(value[0]),
                sent_at,
                tag: Tag::default(),
                stamp: Stamp::default(),
                rtt: None,
                kind: Kind::New,
            });
            assert_eq!((packet.len, packet.sent_at), (bytes(value[0]), sent_at));
            (packet, value[2])
        });
        packets.collect()
    }

    fn tagged(&self, values: &[i64]) -> Vec<Packet> {
        let tagged = |(packet, tag): (Packet, i64)| {
            let tag = Tag(tag as u64);
            Packet { tag, ..packet }
        };
        self.packets(values).into_iter().map(tagged).collect()
    }

    fn send(&mut self, values: &[i64]) {
        let [_, count, len, before, _, rest @ ..] = values else {
            panic!("{values:?}");
        };
        for i in 0..*count {
            let (len, in_flight_before) = (bytes(*len), bytes(before + i * len));
            let (pn, app_limited) = (self.sent.len() as u64, rest == [1]);
            let stamp = self.delivery.stamp(in_flight_before + len, app_limited);
            let kind = Kind::New;
            let tag = self.feed.sent(&Sent {
                pn,
                len,
                in_flight_before,
                kind,
                app_limited,
            });
            self.sent.push(Packet {
                pn,
                len,
                sent_at: self.feed.now(),
                tag,
                stamp,
                rtt: None,
                kind,
            });
        }
    }

    fn acknowledge(&mut self, values: &[i64]) {
        let by = values[3];
        let acked = self.packets(&values[5..]).into_iter();
        let mut acked: Vec<Packet> = acked
            .map(|(packet, rtt)| Packet {
                rtt: (rtt > 0).then(|| nanos(rtt)),
                ..packet
            })
            .collect();
        if self.hears == RoundTrips::Newest {
            let sampled = acked.iter_mut().rev().filter(|p| p.rtt.is_some());
            sampled.skip(1).for_each(|packet| packet.rtt = None);
        }
        *self.feed.limited() = LimitedBy {
            window: by & 1 > 0,
            quota: by & 2 > 0,
            pacer: by & 4 > 0,
            app: by & 8 > 0,
            peer: false,
        };
        self.feed.acked(&Acked {
            packets: &acked,
            in_flight_before: bytes(values[1]),
            in_flight: bytes(values[2]),
            delivery: &self.delivery,
            rtt: self.rtt,
            rate: self.rate,
            in_recovery: by & 16 > 0,
            advanced: !self.numbered || by & 32 > 0,
            source: Source::Wire,
            rtt_error: nanos(values[4]),
        });
    }

    pub(crate) fn tell(&mut self, told: &Told) {
        let values = &told.values[..];
        let now = self.feed.now() + nanos(values[0]);
        self.feed.advance(now);
        match told.name.as_str() {
            "start" => self.feed.start(&Path {
                mss: bytes(values[1]),
                rtt_hint: None,
                seed: values[2] as u64,
            }),
            "host" => {
                self.rtt = RttView {
                    latest: nanos(values[1]),
                    smoothed: nanos(values[2]),
                    variance: nanos(values[3]),
                    min: nanos(values[4]),
                };
                self.rate = (values[5] > 0).then(|| Rate::bps(values[5] as u64));
            }
            "sent" => self.send(values),
            "ack" => self.acknowledge(values),
            "loss" => {
                let lost = self.tagged(&values[3..]);
                let (first, in_flight) = (values[2] == 1, bytes(values[1]));
                self.feed.lost(&lost, first, in_flight, self.rtt);
            }
            "rto" => {
                let oldest = self.tagged(&values[4..])[0];
                self.feed.expired(&Rto {
                    backoff: values[1] as u32,
                    oldest,
                    in_flight: bytes(values[2]),
                    silence: nanos(values[3]),
                });
            }
            "recovered" => {
                self.feed.repaired(bytes(values[1]), self.rtt);
                self.feed.settle();
            }
            "idle" => assert!(self.feed.resume(now - nanos(values[1]), Span::ZERO)),
            // A form with timers of its own runs them when they are due.
            "timer" => self.feed.run_timer(),
            other => panic!("{other}"),
        }
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        self.feed.controller()
    }

    /// As the file has it: window, quota, rate, burst, timer.
    pub(crate) fn answer(&self) -> [i64; 5] {
        let limit = |bytes: Bytes| {
            if bytes == Bytes::MAX {
                -1
            } else {
                bytes.get() as i64
            }
        };
        let allowed = self.feed.allowance();
        let timer = self.feed.next_timer();
        [
            limit(allowed.window),
            limit(allowed.quota),
            allowed.rate.map_or(0, |rate| rate.as_bps() as i64),
            allowed.burst.get() as i64,
            timer.map_or(-1, |at| at.since(self.start).as_nanos() as i64),
        ]
    }
}
