// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm that takes over an established connection gets the same events as on a fresh one,
//! because the position in the stream says nothing about the path. Every registered algorithm is
//! driven over a small model of a link, from position zero and from a large one, and must allow the
//! same at every reading.
use alcc_cc::Spec;
use alcc_cc::conformance::Checked;
use alcc_flow::{OverTcp, TcpProgress};
use alcc_units::{Bytes, Span, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

const MSS: u64 = 1448;
const RTT: Span = Span::from_millis(40);
const BUFFER: u64 = 64 << 20;
const STEP: Span = Span::from_micros(500);

/// A kernel without a window of its own, above a link that serves a fixed number of bytes per
/// [`STEP`].
struct Path {
    over: OverTcp,
    now: Time,
    written: u64,
    sent: u64,
    acked: u64,
    link: u64,
    /// Round trip without a queue.
    rtt: Span,
    queue: VecDeque<u64>,
    acks: VecDeque<(Time, u64)>,
    credit: f64,
    served: u64,
}

impl Path {
    /// `cc` takes over a stream of which `acked` bytes are acknowledged and `flight` more are
    /// written.
    fn new(spec: &str, link: u64, rtt: Span, acked: u64, flight: u64) -> Self {
        let spec: Spec = spec.parse().unwrap();
        let cc = Checked::registry(&alcc_zoo::registry())
            .build(&spec)
            .unwrap();
        let now = Time::from_millis(100_000);
        let mut path = Self {
            over: OverTcp::new(cc, now, &progress(acked, acked + flight, 0, rtt), 1),
            now,
            written: acked + flight,
            sent: acked,
            acked,
            link,
            rtt,
            queue: VecDeque::new(),
            acks: VecDeque::new(),
            credit: 0.0,
            served: 0,
        };
        path.send(f64::MAX);
        path
    }

    fn send(&mut self, credit: f64) {
        self.credit = credit;
        while self.sent < self.written && self.credit >= 0.0 {
            let len = MSS.min(self.written - self.sent);
            self.sent += len;
            self.credit -= len as f64;
            self.queue.push_back(self.sent);
        }
    }

    /// The program writes until it is refused, or the send buffer is full.
    fn write(&mut self) {
        let offered = Bytes::new(1 << 20);
        while self.written - self.acked < BUFFER {
            let queued = Bytes::new(self.written - self.acked);
            let unsent = Bytes::new(self.written - self.sent);
            let room = (self.over).room(self.now, offered, queued, unsent);
            if room > Bytes::ZERO {
                self.over.wrote(self.now, room);
                self.written += room.get();
            }
            if room < offered {
                break;
            }
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        // The link.
        self.served = (self.served + self.link).min(self.link + 2 * MSS);
        while self.served >= MSS
            && let Some(end) = self.queue.pop_front()
        {
            self.served -= MSS;
            self.acks.push_back((self.now + self.rtt, end));
        }
        while let Some(&(at, end)) = self.acks.front().filter(|(at, _)| *at <= self.now) {
            assert!(at <= self.now);
            self.acked = end;
            self.acks.pop_front();
        }
        if self.over.deadline().is_some_and(|at| at <= self.now) {
            let unsent = self.written - self.sent;
            let tcp = progress(self.acked, self.written, unsent, self.rtt);
            self.over.progress(self.now, &tcp);
            let queued = Bytes::new(self.written - self.acked);
            if self.over.is_writable(queued, Bytes::new(unsent)) {
                self.over.unblock();
            }
        }
        if !self.over.is_blocked() {
            self.write();
        }
        let credit = match self.over.pacing_rate() {
            Some(rate) => {
                let more = rate.bytes_in(STEP).get();
                (self.credit + more as f64).min(more.max(2 * MSS) as f64)
            }
            None => f64::MAX,
        };
        self.send(credit);
    }
}

fn progress(acked: u64, written: u64, unsent: u64, min_rtt: Span) -> TcpProgress {
    TcpProgress {
        acked,
        written,
        unsent: Bytes::new(unsent),
        min_rtt,
        mss: Bytes::new(MSS),
        ..TcpProgress::default()
    }
}

fn names() -> Vec<&'static str> {
    alcc_zoo::registry().iter().map(|a| a.name).collect()
}

/// Bytes delivered in six seconds at 12 Mbit/s.
fn reached(name: &str, acked: u64, flight: u64) -> u64 {
    let mut path = Path::new(name, 750, RTT, acked, flight);
    path.write();
    for _ in 0..12_000 {
        path.step();
    }
    path.acked - acked
}

#[test]
fn a_takeover_reaches_what_a_start_reaches() {
    let mut wrong = Vec::new();
    for name in names() {
        let start = reached(name, 0, 0);
        // With an idle connection, and in the middle of what the one before had in flight.
        for flight in [0, 120_000] {
            let took = reached(name, 10_000_000, flight);
            let share = took as f64 / start as f64;
            if share < 0.95 {
                wrong.push(format!("{name}, {flight} in flight: {share:.2}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A closed gate opens again, with every algorithm and path: large windows at slow rates, small
/// ones at fast rates.
#[test]
fn no_flow_stalls() {
    let mut wrong = Vec::new();
    for name in names() {
        // 160 kbit/s, 1.6, 16 and 160 Mbit/s.
        for (link, rtt) in [
            (10, 40),
            (10, 1000),
            (100, 5),
            (100, 600),
            (1_000, 40),
            (10_000, 200),
        ] {
            let mut path = Path::new(name, link, Span::from_millis(rtt), 0, 0);
            path.write();
            let mut seconds = Vec::new();
            for _ in 0..10 {
                let before = path.acked;
                (0..2_000).for_each(|_| path.step());
                seconds.push(path.acked - before);
            }
            // The first seconds are round trips of the start; BBR's look at an empty path takes
            // less than a second more.
            if seconds[4..].windows(2).any(|two| two == [0, 0]) {
                wrong.push(format!(
                    "{name} at {link} B per step, {rtt} ms: {seconds:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_position_of_the_stream_says_nothing(
        which in 0..names().len(),
        base in 0u64..1 << 50,
        link in 60u64..5_000,
    ) {
        let name = names()[which];
        let (mut fresh, mut late) = (Path::new(name, link, RTT, 0, 0), Path::new(name, link, RTT, base, 0));
        fresh.write();
        late.write();
        for _ in 0..2_000 {
            fresh.step();
            late.step();
            prop_assert_eq!(fresh.written, late.written - base, "{} at {}", name, fresh.now);
            prop_assert_eq!(fresh.over.allowance(), late.over.allowance(), "{} at {}", name, fresh.now);
        }
    }
}
