// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two sessions, two links and two clocks.
use alcc_link::{Dir, Direction, DirectionSpec, Ecn, Outcome, Packet, QueueSpec, RateSpec};
use alcc_record::results::Recorded;
use alcc_record::session::{Phase, Role, Session};
use alcc_record::{Load, Mode, Plan, arrivals, wire};
use alcc_trace::Trace;
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::HashMap;

pub(crate) fn plan(mode: Mode, seconds: u64) -> Plan {
    Plan {
        mode,
        duration: Span::from_secs(seconds),
        warm_up: Span::from_secs(3),
        size: 1472,
        overhead: 28,
        down: Load::Saturate,
        up: Load::Saturate,
        limit: Rate::mbps(1000),
    }
}

/// 20 ms and 2,000,000 bytes of queue before a trace.
pub(crate) fn link(trace: &Trace) -> DirectionSpec {
    DirectionSpec {
        rate: RateSpec::Trace(trace.clone()),
        queue: "droptail:bytes=2000000".parse::<QueueSpec>().unwrap(),
        delay: Span::from_millis(20),
        ..DirectionSpec::default()
    }
}

/// A clock: what it shows at true time zero, and how many parts per million it is fast.
#[derive(Clone, Copy)]
struct Clock(u64, f64);

impl Clock {
    fn at(self, now: Time) -> Time {
        let ns = now.as_nanos();
        Time::from_nanos(self.0 + ns.wrapping_add_signed((ns as f64 * self.1 * 1e-6) as i64))
    }

    /// Never earlier than the true time at which it shows `shown`.
    fn when(self, shown: Time) -> Time {
        if shown == Time::MAX {
            return shown;
        }
        let ns = shown.as_nanos().saturating_sub(self.0) as f64 / (1.0 + self.1 * 1e-6);
        Time::from_nanos(ns as u64 + 2)
    }
}

pub(crate) struct World {
    pub(crate) client: Session,
    pub(crate) listener: Session,
    links: [Direction; 2],
    clocks: [Clock; 2],
    packets: HashMap<u64, Vec<u8>>,
    next_id: u64,
    now: Time,
    /// Ends that are dead.
    silent: [bool; 2],
}

impl World {
    pub(crate) fn new(plan: Plan, down: DirectionSpec, up: DirectionSpec) -> Self {
        let clocks = [Clock(7_000_000_000, 0.0), Clock(7_000_000_000, 0.0)];
        let at = clocks[0].at(Time::ZERO);
        Self {
            client: Session::new(Role::Client, 5, plan.clone(), at),
            listener: Session::new(Role::Listener, 5, plan, at),
            links: [
                Direction::new(&down, Dir::Down, 1),
                Direction::new(&up, Dir::Up, 2),
            ],
            clocks,
            packets: HashMap::new(),
            next_id: 0,
            now: Time::ZERO,
            silent: [false; 2],
        }
    }

    /// The listener's clock is ahead and fast.
    pub(crate) fn clocks(&mut self, ahead: u64, ppm: f64) {
        self.clocks[1] = Clock(7_000_000_000 + ahead, ppm);
        let plan = self.listener.plan().clone();
        self.listener = Session::new(Role::Listener, 5, plan, self.listener_clock(self.now));
    }

    /// The client (0) or the listener (1) dies.
    pub(crate) fn silence(&mut self, end: usize) {
        self.silent[end] = true;
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    pub(crate) fn client_clock(&self, now: Time) -> Time {
        self.clocks[0].at(now)
    }

    pub(crate) fn listener_clock(&self, now: Time) -> Time {
        self.clocks[1].at(now)
    }

    /// Until both are done or this time is over.
    pub(crate) fn run(&mut self, until: Span) {
        let end = Time::ZERO + until;
        let mut out = Vec::new();
        while self.now < end {
            for dir in 0..2 {
                out.clear();
                self.links[dir].advance(self.now, &mut out);
                self.outcomes(dir, &out);
            }
            if self.listener.is_waiting() {
                let now = self.clocks[1].at(self.now);
                self.listener.start(now + Span::from_millis(300), now);
            }
            for end in (0..2).filter(|&end| !self.silent[end]).collect::<Vec<_>>() {
                self.send(end);
            }
            let over = |s: &Session| matches!(s.phase(), Phase::Done(_));
            let over = |end: usize, s: &Session| self.silent[end] || over(s);
            if over(0, &self.client) && over(1, &self.listener) {
                return;
            }
            let timers = [&self.client, &self.listener].map(|s| s);
            let mut next = end;
            for (n, session) in timers.into_iter().enumerate() {
                if self.silent[n] {
                    continue;
                }
                let shown = self.clocks[n].at(self.now);
                next = next.min(self.clocks[n].when(session.next_timer(shown)));
            }
            for link in &self.links {
                next = next.min(link.next_event().unwrap_or(Time::MAX));
            }
            self.now = next.max(self.now + Span::from_nanos(1));
        }
    }

    fn send(&mut self, end: usize) {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        loop {
            bytes.clear();
            let shown = self.clocks[end].at(self.now);
            let session = if end == 0 {
                &mut self.client
            } else {
                &mut self.listener
            };
            if !session.poll(shown, &mut bytes) {
                return;
            }
            let overhead = u64::from(session.plan().overhead);
            let packet = Packet {
                id: self.next_id,
                flow: 0,
                len: Bytes::new(bytes.len() as u64 + overhead),
                ecn: Ecn::NotEct,
            };
            self.next_id += 1;
            self.packets.insert(packet.id, bytes.clone());
            out.clear();
            // The client sends up.
            let dir = 1 - end;
            self.links[dir].push(self.now, packet, &mut out);
            self.outcomes(dir, &out);
        }
    }

    fn outcomes(&mut self, dir: usize, out: &[Outcome]) {
        for outcome in out {
            match outcome {
                Outcome::Dropped { packet, .. } => {
                    self.packets.remove(&packet.id);
                }
                Outcome::Delivered { at, packet, .. } => {
                    let bytes = self.packets.remove(&packet.id).expect("once");
                    let Some(wire::Packet::Session(inside)) = wire::Packet::decode(&bytes) else {
                        panic!("not a packet of a session");
                    };
                    // The client gets what goes down.
                    if self.silent[dir] {
                        continue;
                    }
                    let received = self.clocks[dir].at(*at);
                    let to = if dir == 0 {
                        &mut self.client
                    } else {
                        &mut self.listener
                    };
                    to.handle(received, inside);
                }
                _ => {}
            }
        }
    }

    fn result(&self, dir: usize) -> Recorded {
        if dir == 0 {
            self.client.recorded()
        } else {
            self.listener.recorded()
        }
    }

    /// The trace of a direction, and the true time of its zero.
    pub(crate) fn recorded(&self, dir: usize) -> (Trace, Time) {
        let recorded = self.result(dir);
        let zero = self.clocks[dir].when(recorded.from);
        let ip_len = self.client.plan().ip_len();
        let trace = arrivals::trace(&recorded.arrivals, recorded.from, ip_len).unwrap();
        (trace, zero)
    }

    /// Packets that were sent in a direction.
    pub(crate) fn sent(&self, dir: usize) -> u64 {
        self.result(1 - dir).sent
    }
}

/// Opportunities of each second from `zero` on of the repeated original, and of the recorded trace.
pub(crate) fn per_second(
    original: &Trace,
    zero: Time,
    recorded: &Trace,
    seconds: u64,
) -> Vec<(u64, u64)> {
    let cursor = original.cursor();
    // An opportunity at millisecond m is recorded at m + propagation of the up direction at the
    // most.
    let before = |at: Time| cursor.count_before(at);
    (0..seconds)
        .map(|n| {
            let from = zero + Span::from_secs(n);
            let want = before(from + Span::from_secs(1)) - before(from);
            let range = n * 1000..(n + 1) * 1000;
            let got = recorded.opportunities();
            let got = got.partition_point(|&o| u64::from(o) < range.end)
                - got.partition_point(|&o| u64::from(o) < range.start);
            (want, got as u64)
        })
        .collect()
}
