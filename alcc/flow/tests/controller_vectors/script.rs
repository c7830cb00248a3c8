// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flows whose path follows `scripts.txt`, whatever the algorithm allows. A few events then reach states that a link
//! reaches late or never: a large window, a queue of others at the moment of a drain, an exact number of losses.
//!
//! This host decides on the events and on the controller's part in them, and the recorder writes them down. The tests
//! of the kernel's forms have another one, `replay.rs`: it reads the written events, has no path, and repeats them to
//! any controller.
use super::START;
use super::recorder::{Host, Recorder, lines};
use alcc_cc::feed::Delivery;
use alcc_cc::{Acked, Feed, Instance, Kind, Packet, Path, Rto, Sent, Source};
use alcc_flow::RttEstimator;
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;

const SCRIPTS: &str = include_str!("scripts.txt");
const MSS: Bytes = Bytes::new(1448);

/// A flow of `scripts.txt`.
pub(super) struct Case {
    pub(super) spec: &'static str,
    pub(super) host: Host,
    parts: Vec<Part>,
}

#[derive(Clone, Copy)]
enum Part {
    /// Nothing leaves.
    Pause(Span),
    Records(Records),
}

/// Records that leave at equal intervals.
#[derive(Clone, Copy)]
struct Records {
    count: u64,
    every: Span,
    len: Bytes,
    round_trip: Span,
    /// The application holds the sender back, not the window.
    idle: bool,
    /// The last one of this many packets is lost; 0: none is.
    lose: u64,
    /// Bound on the error of the round trips.
    error: Span,
}

/// Reads all flows.
pub(super) fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in SCRIPTS.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] | ["#", ..] => {}
            ["case", spec, host] => cases.push(Case {
                spec,
                host: Host::named(host),
                parts: Vec::new(),
            }),
            _ => {
                let (times, rest) = match line.split_once("x ") {
                    Some((times, rest)) => (times.parse().expect("times"), rest),
                    None => (1, line),
                };
                let parts: Vec<Part> = rest.split('|').map(part).collect();
                let case = cases.last_mut().expect("a case before its parts");
                case.parts.extend(parts.repeat(times));
            }
        }
    }
    cases
}

fn number(word: &str) -> u64 {
    word.parse().expect("a whole number")
}

fn millis(word: &str) -> Span {
    Span::from_millis_f64(word.parse().expect("milliseconds"))
}

fn part(text: &str) -> Part {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [count, every, segments, round_trip, rest @ ..] = &words[..] else {
        assert_eq!((words.len(), words[0]), (2, "pause"), "{text}");
        return Part::Pause(millis(words[1]));
    };
    let (mut idle, mut lose, mut error) = (false, 0, Span::ZERO);
    match rest {
        [] => {}
        ["idle"] => idle = true,
        ["lose", of] => lose = number(of),
        ["error", by] => error = millis(by),
        _ => panic!("{text}"),
    }
    Part::Records(Records {
        count: number(count),
        every: millis(every),
        len: MSS * number(segments),
        round_trip: millis(round_trip),
        idle,
        lose,
        error,
    })
}

/// On its way.
struct Record {
    packet: Packet,
    back: Time,
    idle: bool,
    lost: bool,
    error: Span,
}

struct Flow {
    feed: Feed,
    delivery: Delivery,
    rtt: RttEstimator,
    sent: u64,
    in_flight: Bytes,
    under_way: VecDeque<Record>,
    heard: Time,
    /// Losses are repaired when a packet sent from then on is acknowledged.
    repairing: Option<Time>,
    /// Timeouts since the last acknowledgement.
    expired: u32,
}

impl Flow {
    /// Acknowledges what is back until `to`, and runs the timers of the algorithm.
    fn until(&mut self, to: Time) {
        loop {
            let back = self.under_way.iter().find(|r| !r.lost).map(|r| r.back);
            let next = back.into_iter().chain(self.feed.next_timer()).min();
            let Some(next) = next.filter(|at| *at <= to) else {
                break;
            };
            self.feed.advance(next);
            if back == Some(next) {
                self.arrive(next);
            }
            self.feed.run_timer();
        }
        self.feed.advance(to);
    }

    /// Packets that return at one moment are acknowledged at once. Earlier ones that have not returned are lost.
    fn arrive(&mut self, now: Time) {
        let (mut acked, mut lost, mut idle) = (Vec::new(), Vec::new(), false);
        let mut rtt_error = Span::ZERO;
        let is_back = |r: &Record| !r.lost && r.back <= now;
        while let Some(last) = self.under_way.iter().position(is_back) {
            lost.extend(self.under_way.drain(..last).map(|r| r.packet));
            let record = self.under_way.pop_front().expect("it was found");
            (idle, rtt_error) = (record.idle, record.error);
            let rtt = Some(now.since(record.packet.sent_at));
            acked.push(Packet {
                rtt,
                ..record.packet
            });
        }
        for packet in &acked {
            self.rtt.sample(packet.rtt.unwrap_or_default());
            self.delivery.arrived(now, packet);
        }
        let ends = |since| acked.iter().any(|packet| packet.sent_at >= since);
        if self.repairing.is_some_and(ends) {
            self.repairing = None;
            self.feed.repaired(self.in_flight, self.rtt.view());
        }
        if !lost.is_empty() {
            self.in_flight -= lost.iter().map(|packet| packet.len).sum();
            let first = self.repairing.is_none();
            self.repairing.get_or_insert(now);
            let rtt = self.rtt.view();
            self.feed.lost(&lost, first, self.in_flight, rtt);
        }
        let window = self.feed.allowance().window;
        let in_flight_before = if idle || window == Bytes::MAX {
            self.in_flight
        } else {
            self.in_flight.max(window)
        };
        let limited = self.feed.limited();
        (limited.window, limited.app) = (!idle, idle);
        let bytes: Bytes = acked.iter().map(|packet| packet.len).sum();
        self.in_flight -= bytes;
        self.feed.acked(&Acked {
            packets: &acked,
            in_flight_before,
            in_flight: in_flight_before - bytes,
            delivery: &self.delivery,
            rtt: self.rtt.view(),
            rate: self.delivery.rate(&acked),
            in_recovery: self.repairing.is_some(),
            advanced: true,
            source: Source::Wire,
            rtt_error,
        });
        (self.heard, self.expired) = (now, 0);
    }

    fn expire(&mut self, now: Time) {
        let Some(oldest) = self.under_way.front().map(|r| r.packet) else {
            return;
        };
        self.expired += 1;
        self.feed.expired(&Rto {
            backoff: self.expired,
            oldest,
            in_flight: self.in_flight,
            silence: now.since(self.heard),
        });
        self.under_way.clear();
        (self.in_flight, self.repairing) = (Bytes::ZERO, None);
    }

    fn send(&mut self, now: Time, records: &Records, lost: bool) {
        let (len, in_flight_before) = (records.len, self.in_flight);
        if in_flight_before == Bytes::ZERO {
            // After a timeout it does not count as a pause.
            if self.expired == 0 {
                self.feed.resume(self.heard, self.rtt.view().smoothed);
            }
            self.delivery.begin_flight(now);
        }
        let (pn, kind, app_limited) = (self.sent, Kind::New, records.idle);
        let tag = self.feed.sent(&Sent {
            pn,
            len,
            in_flight_before,
            kind,
            app_limited,
        });
        self.sent += 1;
        self.in_flight += len;
        let packet = Packet {
            pn,
            len,
            sent_at: now,
            tag,
            stamp: self.delivery.stamp(self.in_flight, app_limited),
            rtt: None,
            kind,
        };
        // A shorter route overtakes nothing.
        let before = self.under_way.back().map_or(now, |record| record.back);
        self.under_way.push_back(Record {
            packet,
            back: before.max(now + records.round_trip),
            idle: records.idle,
            lost,
            error: records.error,
        });
    }
}

/// The flow.
pub(super) fn run(case: &Case) -> Vec<String> {
    let (cc, story) = Recorder::new(case.spec, case.host);
    let mut flow = Flow {
        feed: Feed::new(Instance::new(cc), START),
        delivery: Delivery::new(START),
        rtt: RttEstimator::default(),
        sent: 0,
        in_flight: Bytes::ZERO,
        under_way: VecDeque::new(),
        heard: START,
        repairing: None,
        expired: 0,
    };
    flow.feed.start(&Path {
        mss: MSS,
        rtt_hint: None,
        seed: 1,
    });
    let mut now = START;
    for part in &case.parts {
        let records = match part {
            Part::Pause(span) => {
                now += *span;
                continue;
            }
            Part::Records(records) => records,
        };
        for n in 1..=records.count {
            flow.until(now);
            let lost = records.lose > 0 && n.is_multiple_of(records.lose);
            flow.send(now, records, lost);
            now += records.every;
        }
        if records.lose == 1 {
            flow.until(now);
            flow.expire(now);
        }
    }
    let last = flow.under_way.back().map_or(now, |record| record.back);
    flow.until(last);
    drop(flow);
    lines(story)
}
