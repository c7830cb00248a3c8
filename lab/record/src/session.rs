// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One end of a recording without I/O: packets and times are inputs and outputs.
//!
//! The client pings until the clocks are compared. The listener sets the time at which sending
//! begins. Both send and record the arrivals. While the queues drain, the client pings again, then
//! fetches the listener's record, and ends the session.
use crate::arrivals::{Arrival, Arrivals};
use crate::clock::{ClockFit, ClockSamples};
use crate::lateness::Lateness;
use crate::plan::Plan;
use crate::results::Recorded;
use crate::source::Source;
use crate::wire::{Body, PART_HEADER, Packet, SessionPacket};
use alcc_units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Interval of pings: while the clocks are compared, while waiting for other clients, and while
/// queues drain.
const PING_INTERVAL: Span = Span::from_millis(20);
const PING_INTERVAL_WAITING: Span = Span::from_millis(100);
const PING_INTERVAL_DRAINING: Span = Span::from_millis(50);
/// Number of answers after which the clocks are known; three, if that takes longer than
/// [`MAX_SYNC`].
const SYNC_ANSWERS: u32 = 25;
const MAX_SYNC: Span = Span::from_secs(3);
/// Interval of reports by an end without load; the second is used if nothing has arrived.
const REPORT_INTERVAL: Span = Span::from_millis(10);
const MAX_REPORT_INTERVAL: Span = Span::from_millis(100);
/// Maximum time between learning the start time and the start.
const MAX_START_DELAY: Span = Span::from_secs(90);
/// This many answers within this distance of the shortest round trip mean empty queues.
const DRAINED_ANSWERS: u32 = 10;
const DRAINED_RTT_MARGIN: Span = Span::from_millis(20);
/// Maximum time for draining, and for waiting for an answer at the end.
pub(crate) const MAX_DRAIN: Span = Span::from_secs(20);
/// Time of silence after which the other end counts as gone while nothing is being recorded.
pub(crate) const SILENCE_TIMEOUT: Span = Span::from_secs(20);
/// Maximum number of parts requested at once, and maximum time for an answer.
const MAX_REQUESTS: usize = 32;
const RETRY_INTERVAL: Span = Span::from_millis(500);
/// Maximum size of a recording, bytes.
const MAX_BYTES: usize = 256 << 20;
/// Maximum number of answers that wait to be sent.
const MAX_WAITING: usize = 256;

/// The role of an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The client, which requested the recording: receives `down`, sends `up`.
    Client,
    /// The listener.
    Listener,
}

/// The phase of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Comparing clocks, waiting for other clients.
    Sync,
    /// Sending and recording.
    Recording,
    /// The time is over; the queues drain.
    Draining,
    /// The client fetches the listener's record.
    Fetching,
    /// The session has ended.
    Done(End),
}

/// The end of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The recording is complete.
    Complete,
    /// The other end became silent; contains the time of its last packet.
    Silent(Time),
    /// The other end ended the session early.
    Left,
    /// We ended it.
    Stopped,
}

/// One end of a recording.
#[derive(Debug)]
pub struct Session {
    role: Role,
    id: u64,
    plan: Plan,
    phase: Phase,
    began: Time,
    last_received: Time,
    clock: ClockSamples,
    /// Sending and receiving time of the other end's newest packet.
    newest: (u64, u64),
    /// Client: number of answers to pings.
    answers: u32,
    /// Listener: true if the client knows the clocks.
    synced: bool,
    start: Option<Time>,
    source: Option<Source>,
    arrivals: Option<Arrivals>,
    reported: u64,
    lateness: Lateness,
    overrun: u64,
    /// Time of the next ping or report.
    tick: Time,
    quick: u32,
    replies: VecDeque<Body>,
    /// Listener: its encoded record, for the client.
    encoded: Option<Vec<u8>>,
    parts: Fetch,
    goodbyes: u32,
}

#[derive(Debug, Default)]
struct Fetch {
    parts: Option<u32>,
    have: BTreeMap<u32, Vec<u8>>,
    asked: BTreeMap<u32, Time>,
    missing: BTreeSet<u32>,
    progress: Time,
}

impl Session {
    /// A session agreed by both ends, at `now`.
    pub fn new(role: Role, id: u64, plan: Plan, now: Time) -> Self {
        Self {
            role,
            id,
            plan,
            phase: Phase::Sync,
            began: now,
            last_received: now,
            clock: ClockSamples::default(),
            newest: (0, 0),
            answers: 0,
            synced: false,
            start: None,
            source: None,
            arrivals: None,
            reported: 0,
            lateness: Lateness::default(),
            overrun: 0,
            tick: now,
            quick: 0,
            replies: VecDeque::new(),
            encoded: None,
            parts: Fetch::default(),
            goodbyes: 0,
        }
    }

    /// The role of this end.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The session's number, in every packet.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The agreed plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The current phase.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Listener: true if this client is ready to begin.
    pub const fn is_waiting(&self) -> bool {
        self.synced && self.start.is_none()
    }

    /// Time of the last packet from the other end.
    pub const fn last_received(&self) -> Time {
        self.last_received
    }

    /// The relation to the other end's clock, as far as it is known.
    pub fn clock(&self) -> Option<ClockFit> {
        self.clock.fit()
    }

    /// The arrivals so far.
    pub const fn arrivals(&self) -> Option<&Arrivals> {
        self.arrivals.as_ref()
    }

    /// The elapsed share of the time, 0 to 1.
    pub fn progress(&self, now: Time) -> f64 {
        let all = self.plan.warm_up + self.plan.duration;
        self.start
            .map_or(0.0, |start| {
                now.since(start).as_secs_f64() / all.as_secs_f64()
            })
            .min(1.0)
    }

    /// Listener: sets the start of sending to `at`; a client that learns it late begins at once.
    pub fn start(&mut self, at: Time, now: Time) {
        if self.start.is_some() {
            return;
        }
        self.start = Some(at);
        let from = at + self.plan.warm_up;
        let to = from + self.plan.duration;
        let load = match self.role {
            Role::Client => self.plan.up,
            Role::Listener => self.plan.down,
        };
        self.source = Some(Source::new(&self.plan, load, at.max(now), to));
        self.arrivals = Some(Arrivals::new(from, to, self.plan.ip_len()));
        self.phase = Phase::Recording;
        self.tick = at.max(now);
    }

    /// Ends the session from this side: the next packets report that.
    pub fn stop(&mut self) {
        if !matches!(self.phase, Phase::Done(_)) {
            self.phase = Phase::Done(End::Stopped);
        }
    }

    /// Number of packets that the socket has lost on arrival since the session began.
    pub(crate) fn overrun(&mut self, packets: u32) {
        self.overrun = u64::from(packets);
    }

    /// Ends the session without informing the other end.
    pub(crate) fn lose(&mut self, end: End) {
        if !matches!(self.phase, Phase::Done(_)) {
            self.phase = Phase::Done(end);
            self.goodbyes = 3;
        }
    }

    /// A packet of this session has arrived at `received`.
    pub fn handle(&mut self, received: Time, packet: SessionPacket) {
        if packet.session != self.id || matches!(self.phase, Phase::Done(_)) {
            return;
        }
        let ours = received.as_nanos();
        self.last_received = self.last_received.max(received);
        if let Some(source) = &mut self.source {
            source.last_received(received);
        }
        // An echo of a time in the future is invalid.
        if packet.echo_sent != 0 && packet.echo_sent <= ours {
            self.clock.sent(packet.echo_sent, packet.echo_received);
        }
        self.clock.received(packet.sent, ours);
        self.newest = (packet.sent, ours);
        match packet.body {
            Body::Ping { synced } if self.role == Role::Listener => {
                self.synced |= synced;
                let start_at = self.start.map_or(0, Time::as_nanos);
                self.reply(Body::Pong { start_at });
            }
            Body::Pong { start_at } if self.role == Role::Client => {
                self.pong(received, start_at, packet.echo_sent);
            }
            Body::Data { seq, report } => {
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.add(Arrival {
                        seq,
                        sent: Time::from_nanos(packet.sent),
                        received,
                    });
                }
                self.report(received, packet.echo_sent, &report);
            }
            Body::Report(report) => self.report(received, packet.echo_sent, &report),
            Body::Get { part } if self.role == Role::Listener => self.get(received, part),
            Body::Part { part, parts, bytes } if self.role == Role::Client => {
                self.part(received, part, parts, bytes);
            }
            Body::Bye => {
                let over = self.role == Role::Listener && self.phase == Phase::Fetching;
                self.phase = Phase::Done(if over { End::Complete } else { End::Left });
            }
            _ => {}
        }
    }

    fn reply(&mut self, body: Body) {
        if self.replies.len() < MAX_WAITING {
            self.replies.push_back(body);
        }
    }

    fn report(&mut self, now: Time, echo: u64, report: &crate::wire::Report) {
        if let Some(source) = &mut self.source {
            source.report(now, now.since(Time::from_nanos(echo)), report);
        }
    }

    fn pong(&mut self, now: Time, start_at: u64, echo: u64) {
        match self.phase {
            Phase::Sync => {
                self.answers += 1;
                if start_at != 0
                    && let Some(fit) = self.clock.fit()
                {
                    let at = Time::from_nanos(fit.to_ours(start_at));
                    // A correct listener begins soon.
                    if at.since(now).max(now.since(at)) < MAX_START_DELAY {
                        self.start(at, now);
                    }
                }
            }
            Phase::Draining => {
                let round_trip = now.since(Time::from_nanos(echo));
                let least = self.clock.fit().map_or(0.0, |fit| fit.round_trip_ns);
                if round_trip.as_nanos() as f64 <= least + DRAINED_RTT_MARGIN.as_nanos() as f64 {
                    self.quick += 1;
                }
            }
            _ => {}
        }
    }

    /// Listener: prepares a part of its record, once the time is over.
    fn get(&mut self, now: Time, part: u32) {
        if self.phase == Phase::Recording && self.is_over(now) {
            self.phase = Phase::Draining;
        }
        if self.phase == Phase::Draining {
            self.phase = Phase::Fetching;
        }
        if self.phase != Phase::Fetching {
            return;
        }
        if self.encoded.is_none() {
            self.encoded = Some(self.recorded().encode());
        }
        let size = usize::from(self.plan.size) - PART_HEADER;
        let Some(encoded) = &self.encoded else { return };
        let parts = encoded.len().div_ceil(size) as u32;
        if part < parts {
            let from = part as usize * size;
            let bytes = encoded[from..encoded.len().min(from + size)].to_vec();
            self.reply(Body::Part { part, parts, bytes });
        }
    }

    fn part(&mut self, now: Time, part: u32, parts: u32, bytes: Vec<u8>) {
        let fetch = &mut self.parts;
        let size = usize::from(self.plan.size) - PART_HEADER;
        if self.phase != Phase::Fetching
            || fetch.parts.is_some_and(|known| known != parts)
            || parts as usize > MAX_BYTES / size
            || part >= parts
            || bytes.len() > size
        {
            return;
        }
        if fetch.parts.is_none() {
            fetch.parts = Some(parts);
            fetch.missing = (0..parts).collect();
        }
        fetch.asked.remove(&part);
        fetch.missing.remove(&part);
        fetch.progress = now;
        fetch.have.insert(part, bytes);
        if fetch.have.len() == parts as usize {
            self.phase = Phase::Done(End::Complete);
        }
    }

    fn is_over(&self, now: Time) -> bool {
        self.arrivals.as_ref().is_some_and(|a| now >= a.to)
    }

    /// Advances the phases that depend on time alone.
    fn advance(&mut self, now: Time) {
        let quiet = now.since(self.last_received);
        match self.phase {
            Phase::Sync if quiet >= SILENCE_TIMEOUT => {
                self.phase = Phase::Done(End::Silent(self.last_received));
            }
            Phase::Recording if self.is_over(now) => {
                self.phase = Phase::Draining;
                self.tick = now;
            }
            Phase::Draining => {
                let over = self.arrivals.as_ref().map_or(self.began, |a| a.to);
                let long = now.since(over) >= MAX_DRAIN;
                match self.role {
                    Role::Client
                        if self.quick >= DRAINED_ANSWERS || (long && quiet < MAX_DRAIN) =>
                    {
                        self.phase = Phase::Fetching;
                        self.parts.progress = now;
                    }
                    _ if quiet >= MAX_DRAIN && long => {
                        self.phase = Phase::Done(End::Silent(self.last_received));
                    }
                    _ => {}
                }
            }
            Phase::Fetching => {
                let last = match self.role {
                    Role::Client => self.parts.progress,
                    Role::Listener => self.last_received,
                };
                if now.since(last) >= SILENCE_TIMEOUT {
                    self.phase = Phase::Done(End::Silent(self.last_received));
                }
            }
            _ => {}
        }
    }

    /// Appends the next packet to send to `to`; false if none is due. Call it until it returns
    /// false.
    pub fn poll(&mut self, now: Time, to: &mut Vec<u8>) -> bool {
        self.advance(now);
        let Some((body, len)) = self.next_body(now) else {
            return false;
        };
        let (echo_sent, echo_received) = self.newest;
        let packet = Packet::Session(SessionPacket {
            session: self.id,
            sent: now.as_nanos(),
            echo_sent,
            echo_received,
            body,
        });
        packet.encode(to, len);
        true
    }

    fn next_body(&mut self, now: Time) -> Option<(Body, usize)> {
        if let Phase::Done(_) = self.phase {
            // Three times, because it is not acknowledged.
            self.goodbyes += 1;
            return (self.goodbyes <= 3).then_some((Body::Bye, 0));
        }
        if let Some(reply) = self.replies.pop_front() {
            return Some((reply, 0));
        }
        if self.phase == Phase::Recording {
            return self.load(now);
        }
        if self.role == Role::Listener {
            return None;
        }
        if self.phase == Phase::Fetching {
            return self.next_part(now).map(|part| (Body::Get { part }, 0));
        }
        if now < self.tick {
            return None;
        }
        let long = now.since(self.began) > MAX_SYNC;
        self.synced |= self.answers >= if long { 3 } else { SYNC_ANSWERS };
        self.tick = now
            + match self.phase {
                Phase::Draining => PING_INTERVAL_DRAINING,
                _ if self.synced && self.answers > 2 * SYNC_ANSWERS => PING_INTERVAL_WAITING,
                _ => PING_INTERVAL,
            };
        let synced = self.synced;
        Some((Body::Ping { synced }, 0))
    }

    fn load(&mut self, now: Time) -> Option<(Body, usize)> {
        let report = self.arrivals.as_ref()?.report();
        let source = self.source.as_mut()?;
        if let Some((seq, due)) = source.take(now) {
            self.lateness.add(now.since(due));
            self.reported = report.received;
            return Some((Body::Data { seq, report }, usize::from(self.plan.size)));
        }
        if !source.is_idle() || now < self.tick {
            return None;
        }
        let news = report.received != self.reported;
        self.reported = report.received;
        self.tick = now
            + if news {
                REPORT_INTERVAL
            } else {
                MAX_REPORT_INTERVAL
            };
        Some((Body::Report(report), 0))
    }

    /// The next part to request: first only part 0, which contains the number of parts.
    fn next_part(&mut self, now: Time) -> Option<u32> {
        let fetch = &mut self.parts;
        if fetch.parts.is_none() && fetch.asked.is_empty() {
            fetch.missing.insert(0);
        }
        let late = fetch
            .asked
            .iter()
            .filter(|(_, asked)| now.since(**asked) >= RETRY_INTERVAL);
        let late: Vec<u32> = late.map(|(&part, _)| part).collect();
        for part in late {
            fetch.asked.remove(&part);
            fetch.missing.insert(part);
        }
        if fetch.asked.len() >= MAX_REQUESTS {
            return None;
        }
        let next = fetch.missing.pop_first()?;
        fetch.asked.insert(next, now);
        Some(next)
    }

    /// Time of the next call of [`Session::poll`] without arrivals.
    pub fn next_timer(&self, now: Time) -> Time {
        if !self.replies.is_empty() {
            return now;
        }
        let soon = |span| now + span;
        match self.phase {
            Phase::Done(_) if self.goodbyes < 3 => now,
            Phase::Done(_) => Time::MAX,
            Phase::Recording => {
                let source = self.source.as_ref();
                let over = self.arrivals.as_ref().map_or(now, |a| a.to);
                let idle = source.is_none_or(Source::is_idle);
                let due = source.and_then(Source::due).unwrap_or(Time::MAX);
                let tick = if idle { self.tick } else { Time::MAX };
                due.min(over).min(tick)
            }
            Phase::Fetching => soon(PING_INTERVAL),
            Phase::Sync | Phase::Draining if self.role == Role::Client => self.tick,
            _ => soon(PING_INTERVAL_WAITING),
        }
    }

    /// The record of this end.
    pub fn recorded(&self) -> Recorded {
        let Some(arrivals) = &self.arrivals else {
            return Recorded::default();
        };
        let mut recorded = Recorded {
            from: arrivals.from,
            to: arrivals.to,
            received: arrivals.received(),
            copies: arrivals.copies,
            beyond: arrivals.beyond,
            overrun: self.overrun,
            arrivals: arrivals.kept.clone(),
            ..Recorded::default()
        };
        if let Some(source) = &self.source {
            recorded.sent = source.sent();
            recorded.skipped = source.skipped();
        }
        recorded.set_lateness(&self.lateness);
        recorded
    }

    /// Client: the listener's record, if all of it has arrived.
    pub fn fetched(&self) -> Option<Recorded> {
        let fetch = &self.parts;
        if fetch.have.len() != fetch.parts? as usize {
            return None;
        }
        let bytes: Vec<u8> = fetch.have.values().flatten().copied().collect();
        Recorded::decode(&bytes)
    }
}
