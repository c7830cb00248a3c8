// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of connections, for `alcc top` and for the search for uncontrolled connections.
use crate::bypass::ByReason;
use crate::event::{Event, Subscriber};
use crate::map::{self, SLOT_LEN, SLOTS, SLOTS_COUNT, TAKEN, TAKEN_LEN, get_text, put_text, set};
use crate::segment::Segment;
use crate::sharing;
use alcc_units::{Bytes, Rate, Span, Time};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The state of a connection's control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The algorithm is in control.
    Controlled,
    /// Switched off by `alcc ctl`: plain TCP.
    Off,
    /// The runtime of its process failed: plain TCP.
    Failed,
}

/// The identity of a connection, known when it is taken under control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The process.
    pub pid: u32,
    /// Its number within the process.
    pub id: u64,
    /// The kernel's number of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// Time at which it was taken under control.
    pub started: Time,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// True if the program opened it, false if it accepted it.
    pub outbound: bool,
    /// The algorithm with its options.
    pub algorithm: String,
    /// The source of acknowledgements.
    pub feedback: String,
    /// The enforcement of the limit.
    pub enforcement: String,
}

/// The state of a connection at its last reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The state of its control.
    pub state: State,
    /// True if nothing is in flight, so that it is read again only after its next write.
    pub resting: bool,
    /// Number of the last command of `alcc ctl` that it applied.
    pub generation: u64,
    /// Time of this status.
    pub updated: Time,
    /// The kernel's congestion window, segments.
    pub cwnd: u64,
    /// The kernel's slow-start threshold, segments; `None` if it has not been set.
    pub ssthresh: Option<u64>,
    /// Segment size.
    pub mss: Bytes,
    /// The algorithm's window; `None` if it has none.
    pub window: Option<Bytes>,
    /// Bytes written and not acknowledged.
    pub in_flight: Bytes,
    /// Newest RTT sample.
    pub rtt: Span,
    /// Smoothed RTT.
    pub smoothed: Span,
    /// Smallest RTT.
    pub min_rtt: Span,
    /// The algorithm's pacing rate; `None` if it has none.
    pub pacing: Option<Rate>,
    /// The kernel's estimate of the delivery rate.
    pub delivery: Rate,
    /// Bytes that passed under control.
    pub bytes: u64,
    /// Bytes that bypassed the algorithm.
    pub bypassed: ByReason,
    /// Number of writes that were refused or cut short.
    pub gate_closed: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
}

impl Status {
    /// RTT above the smallest: the queueing delay.
    pub fn queueing(&self) -> Span {
        self.rtt.saturating_sub(self.min_rtt)
    }

    /// One word for tables and metrics: `sending`, `idle`, `off` or `failed`.
    pub fn word(&self) -> &'static str {
        match (self.state, self.resting) {
            (State::Off, _) => "off",
            (State::Failed, _) => "failed",
            (State::Controlled, true) => "idle",
            (State::Controlled, false) => "sending",
        }
    }
}

/// A connection in the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusRecord {
    /// Its identity.
    pub who: Identity,
    /// Its status.
    pub now: Status,
}

/// A connection's place in the table. Dropping it in the process that took it frees the place.
pub(crate) struct Slot {
    segment: Arc<Segment>,
    index: usize,
    owner: u64,
    /// Bytes that passed, under all algorithms together.
    bytes: Bytes,
    gate_closed: u64,
    bypassed: ByReason,
}

const ADDRESS: usize = 2;

// Words of a slot after its sequence. Those before STATUS are written once.
const OWNER: usize = 0;
const NUMBER: usize = 1;
const COOKIE: usize = 2;
const STARTED: usize = 3;
const LOCAL: usize = 4;
const REMOTE: usize = LOCAL + ADDRESS;
const PORTS: usize = REMOTE + ADDRESS;
const FEEDBACK: usize = PORTS + 1;
const ENFORCEMENT: usize = FEEDBACK + NAME_LEN;
const NAME_LEN: usize = 2;
const ALGORITHM: usize = ENFORCEMENT + NAME_LEN;
const ALGORITHM_LEN: usize = 6;
const STATUS: usize = ALGORITHM + ALGORITHM_LEN;
const NUMBERS: usize = 16;
// The words of a status that change without a reading, and those that may be absent.
const STATE: usize = STATUS;
const GENERATION: usize = STATUS + 1;
const UPDATED: usize = STATUS + 2;
const SSTHRESH: usize = STATUS + 4;
const WINDOW: usize = STATUS + 6;
const PACING: usize = STATUS + 11;
const BYTES: usize = STATUS + 13;
const GATE_CLOSED: usize = STATUS + 14;
/// Bit of the first word: the connection is idle.
const RESTING: u64 = 1;
/// Number of words that identify a connection: both addresses, and the triple that controls it.
pub(crate) const NAMED_LEN: usize = STATUS - LOCAL;
/// Number of the first of them, which contain both addresses.
pub(crate) const ENDS_LEN: usize = FEEDBACK - LOCAL;
const BYPASSED: usize = STATUS + NUMBERS;
const FIELDS: usize = SLOT_LEN - 1;
const _: () = assert!(BYPASSED + ByReason::LEN <= FIELDS);

impl Slot {
    /// Takes a free slot. `None` if the table is full, or there is no memory for more of it. The
    /// connection is then counted as not shown.
    pub(crate) fn take(segment: &Arc<Segment>, who: &Identity) -> Option<Self> {
        let Some(index) = claim(segment) else {
            segment
                .map()
                .word(map::NOT_SHOWN)
                .fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // The same number twice in a process would need two connections at the same nanosecond.
        let owner = u64::from(who.pid) << 32 | (who.started.as_nanos() & 0xFFFF_FFFF);
        let slot = Self {
            segment: Arc::clone(segment),
            index,
            owner,
            bytes: Bytes::ZERO,
            gate_closed: 0,
            bypassed: ByReason::default(),
        };
        slot.identify(who);
        Some(slot)
    }

    /// Its index in the table.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    fn words(&self) -> &[std::sync::atomic::AtomicU64] {
        words(&self.segment, self.index)
    }

    /// True if the slot is still ours: a supervisor that took us for dead may have freed it.
    fn is_ours(&self) -> bool {
        self.words()[1 + OWNER].load(Ordering::Relaxed) == self.owner
    }

    fn identify(&self, who: &Identity) {
        map::publish(self.words(), |w| {
            set(&w[OWNER], self.owner);
            set(&w[NUMBER], who.id << 1 | u64::from(who.outbound));
            set(&w[COOKIE], who.cookie);
            set(&w[STARTED], who.started.as_nanos());
            for (at, end) in [(LOCAL, who.local), (REMOTE, who.remote)] {
                let bits = match end.ip() {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(v6) => v6.to_bits(),
                };
                set(&w[at], (bits >> 64) as u64);
                set(&w[at + 1], bits as u64);
            }
            let ports = u64::from(who.local.port()) << 16 | u64::from(who.remote.port());
            set(&w[PORTS], ports);
            put_text(&w[FEEDBACK..][..NAME_LEN], &who.feedback);
            put_text(&w[ENFORCEMENT..][..NAME_LEN], &who.enforcement);
            put_text(&w[ALGORITHM..][..ALGORITHM_LEN], &who.algorithm);
            w[STATUS..].iter().for_each(|word| set(word, 0));
            set(&w[STATE], RESTING);
            for absent in [SSTHRESH, WINDOW, PACING] {
                set(&w[absent], u64::MAX);
            }
        });
    }
}

/// A reading costs some twenty stores; the connection is locked meanwhile.
impl Subscriber for Slot {
    fn on(&mut self, event: &Event<'_>) {
        match *event {
            Event::Passed(more) => {
                self.bytes += more.bytes;
                self.gate_closed += more.gate_closed;
                self.bypassed += more.bypassed;
            }
            _ if !self.is_ours() => {}
            Event::Reading(now) => map::publish(self.words(), |w| {
                let values: [u64; NUMBERS] = [
                    State::Controlled.word() | u64::from(now.is_idle),
                    now.generation,
                    now.at.as_nanos(),
                    now.cwnd,
                    now.ssthresh.unwrap_or(u64::MAX),
                    now.tcp.mss.get(),
                    now.allowance.window.get(),
                    now.in_flight.get(),
                    now.rtt.latest.as_nanos(),
                    now.rtt.smoothed.as_nanos(),
                    now.rtt.min.as_nanos(),
                    now.allowance.rate.unwrap_or(Rate::MAX).as_bps(),
                    now.delivery.as_bps(),
                    self.bytes.get(),
                    self.gate_closed,
                    now.tcp.retransmits,
                ];
                let values = values.into_iter().chain(self.bypassed.words());
                w[STATUS..].iter().zip(values).for_each(|(w, v)| set(w, v));
            }),
            // The last reading stays unchanged.
            Event::StateChanged {
                at,
                state,
                generation,
            } => map::publish(self.words(), |w| {
                let resting = w[STATE].load(Ordering::Relaxed) & RESTING;
                set(&w[STATE], state.word() | resting);
                set(&w[GENERATION], generation);
                set(&w[UPDATED], at.as_nanos());
                set(&w[BYTES], self.bytes.get());
                set(&w[GATE_CLOSED], self.gate_closed);
                let bypassed = self.bypassed.words();
                (w[BYPASSED..].iter().zip(bypassed)).for_each(|(w, v)| set(w, v));
            }),
            Event::AlgorithmChanged(now) => map::publish(self.words(), |w| {
                put_text(&w[FEEDBACK..][..NAME_LEN], now.feedback);
                put_text(&w[ENFORCEMENT..][..NAME_LEN], now.enforcement);
                put_text(&w[ALGORITHM..][..ALGORITHM_LEN], now.algorithm);
            }),
            _ => {}
        }
    }
}

impl State {
    /// The bits of a state in the first word.
    fn word(self) -> u64 {
        let number = match self {
            Self::Controlled => 0,
            Self::Off => 1,
            Self::Failed => 2,
        };
        number << 1
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A child has a copy of its parent's slots, which it must not free.
        if self.owner >> 32 == u64::from(std::process::id()) && self.is_ours() {
            free(&self.segment, self.index);
        }
    }
}

fn words(segment: &Segment, index: usize) -> &[std::sync::atomic::AtomicU64] {
    segment.map().words(SLOTS + index * SLOT_LEN, SLOT_LEN)
}

/// Claims the lowest free slot, so that few pages are used.
fn claim(segment: &Segment) -> Option<usize> {
    for (i, word) in segment.map().words(TAKEN, TAKEN_LEN).iter().enumerate() {
        let mut taken = word.load(Ordering::Relaxed);
        while taken != u64::MAX {
            let bit = taken.trailing_ones();
            match word.compare_exchange_weak(
                taken,
                taken | 1 << bit,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    let index = i * 64 + bit as usize;
                    if segment.backed(SLOTS + index * SLOT_LEN, SLOT_LEN) {
                        return Some(index);
                    }
                    word.fetch_and(!(1 << bit), Ordering::Release);
                    return None;
                }
                Err(now) => taken = now,
            }
        }
    }
    None
}

/// Frees a slot. The owner is cleared first, because between a claim and the first record a slot
/// must not look like that of its last owner.
fn free(segment: &Segment, index: usize) {
    map::publish(words(segment, index), |w| set(&w[OWNER], 0));
    segment
        .map()
        .word(TAKEN + index / 64)
        .fetch_and(!(1 << (index % 64)), Ordering::Release);
}

fn taken(segment: &Segment) -> impl Iterator<Item = usize> {
    let bits = segment.map().words(TAKEN, TAKEN_LEN).iter().enumerate();
    bits.flat_map(|(i, word)| {
        let word = word.load(Ordering::Acquire);
        (0..64)
            .filter(move |bit| word >> bit & 1 == 1)
            .map(move |bit| i * 64 + bit)
    })
    .take(SLOTS_COUNT)
}

impl Segment {
    /// All connections in the table.
    pub fn connections(&self) -> Vec<StatusRecord> {
        taken(self)
            .filter_map(|index| map::snapshot(words(self, index)))
            .filter_map(|fields| record(&fields))
            .collect()
    }

    /// Number of connections without a place in the table.
    pub fn not_shown(&self) -> u64 {
        self.map().word(map::NOT_SHOWN).load(Ordering::Relaxed)
    }

    /// Frees the places of processes that have ended. Returns their number.
    pub fn reclaim(&self, alive: impl Fn(u32) -> bool) -> usize {
        let mut freed = 0;
        for index in taken(self) {
            let owner = words(self, index)[1 + OWNER].load(Ordering::Relaxed);
            if owner != 0 && !alive((owner >> 32) as u32) {
                free(self, index);
                freed += 1;
            }
        }
        freed + sharing::reclaim(self, alive)
    }
}

/// The words that identify the connection at this place, for its own process.
pub(crate) fn named(segment: &Segment, index: usize) -> [u64; NAMED_LEN] {
    let words = &words(segment, index)[1 + LOCAL..];
    std::array::from_fn(|i| words[i].load(Ordering::Relaxed))
}

/// The kernel's number of the socket of the connection at this place, for its own process.
pub(crate) fn cookie(segment: &Segment, index: usize) -> u64 {
    words(segment, index)[1 + COOKIE].load(Ordering::Relaxed)
}

/// Decodes those words: local address, peer's address, algorithm.
pub(crate) fn names(w: &[u64]) -> (SocketAddr, SocketAddr, String) {
    let (local, remote) = ends(w);
    let algorithm = get_text(&w[ALGORITHM - LOCAL..][..ALGORITHM_LEN]);
    (local, remote, algorithm)
}

/// Decodes the local and the peer's address from the first [`ENDS_LEN`] of those words.
pub(crate) fn ends(w: &[u64]) -> (SocketAddr, SocketAddr) {
    let ports = w[PORTS - LOCAL];
    let end = |at: usize, port: u64| {
        let (high, low) = (w[at - LOCAL], w[at - LOCAL + 1]);
        let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
        SocketAddr::new(IpAddr::V6(ip).to_canonical(), port as u16)
    };
    (end(LOCAL, ports >> 16), end(REMOTE, ports))
}

fn record(w: &[u64; FIELDS]) -> Option<StatusRecord> {
    if w[OWNER] == 0 {
        return None;
    }
    let (local, remote, algorithm) = names(&w[LOCAL..STATUS]);
    let limit = |value: u64| (value != u64::MAX).then_some(value);
    let s = &w[STATUS..];
    Some(StatusRecord {
        who: Identity {
            pid: (w[OWNER] >> 32) as u32,
            id: w[NUMBER] >> 1,
            cookie: w[COOKIE],
            started: Time::from_nanos(w[STARTED]),
            local,
            remote,
            outbound: w[NUMBER] & 1 == 1,
            algorithm,
            feedback: get_text(&w[FEEDBACK..][..NAME_LEN]),
            enforcement: get_text(&w[ENFORCEMENT..][..NAME_LEN]),
        },
        now: Status {
            state: match s[0] >> 1 {
                0 => State::Controlled,
                1 => State::Off,
                _ => State::Failed,
            },
            resting: s[0] & RESTING != 0,
            generation: s[1],
            updated: Time::from_nanos(s[2]),
            cwnd: s[3],
            ssthresh: limit(s[4]),
            mss: Bytes::new(s[5]),
            window: limit(s[6]).map(Bytes::new),
            in_flight: Bytes::new(s[7]),
            rtt: Span::from_nanos(s[8]),
            smoothed: Span::from_nanos(s[9]),
            min_rtt: Span::from_nanos(s[10]),
            pacing: limit(s[11]).map(Rate::bps),
            delivery: Rate::bps(s[12]),
            bytes: s[13],
            bypassed: ByReason::read(|i| w[BYPASSED + i]),
            gate_closed: s[14],
            retransmits: s[15],
        },
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::event::tests::{reading, tcp};
    use crate::event::{Passed, Reading};
    use crate::segment::tests::Scratch;
    use alcc_cc::Allowance;

    const COPA: crate::Named<'_> = crate::Named {
        algorithm: "copa",
        feedback: "kernel",
        enforcement: "kernel",
    };

    pub(crate) fn who(id: u64) -> Identity {
        Identity {
            pid: std::process::id(),
            id,
            cookie: 100 + id,
            started: Time::from_millis(5 + id),
            local: "192.0.2.1:443".parse().unwrap(),
            remote: "[2001:db8::7]:50000".parse().unwrap(),
            outbound: false,
            algorithm: "fixed:window=7".to_owned(),
            feedback: "timestamps".to_owned(),
            enforcement: "queue+pacing".to_owned(),
        }
    }

    #[test]
    fn what_is_written_is_read_by_another_view() {
        let scratch = Scratch::new();
        let (ours, theirs) = (Arc::new(scratch.create()), scratch.open());
        let mut slot = Slot::take(&ours, &who(1)).unwrap();
        let new = theirs.connections()[0].now;
        assert_eq!((new.ssthresh, new.window, new.pacing), (None, None, None));
        assert_eq!(new.word(), "idle", "nothing has been read");
        let bypassed = ByReason::of(crate::Bypass::NoWakeup, 17);
        let passed = Passed {
            bytes: Bytes::new(1 << 40),
            gate_closed: 12,
            bypassed,
            newly_bypassed: ByReason::default(),
        };
        slot.on(&Event::Passed(&passed));
        assert_eq!(theirs.connections()[0].now, new, "with the next reading");
        let tcp = tcp();
        slot.on(&Event::Reading(&reading(&tcp)));
        let read = Status {
            state: State::Controlled,
            resting: false,
            generation: 3,
            updated: Time::from_millis(9),
            cwnd: 10,
            ssthresh: Some(6),
            mss: Bytes::new(1448),
            window: Some(Bytes::new(7 * 1448)),
            in_flight: Bytes::new(1448),
            rtt: Span::from_millis(50),
            smoothed: Span::from_millis(45),
            min_rtt: Span::from_millis(40),
            pacing: Some(Rate::mbps(7)),
            delivery: Rate::mbps(3),
            bytes: 1 << 40,
            bypassed,
            gate_closed: 12,
            retransmits: 2,
        };
        let (who, now) = (who(1), read);
        assert_eq!(theirs.connections(), [StatusRecord { who, now }]);
        assert_eq!(read.queueing(), Span::from_millis(10));
        let unlimited = Reading {
            ssthresh: None,
            allowance: Allowance::UNLIMITED,
            is_idle: true,
            ..reading(&tcp)
        };
        slot.on(&Event::Reading(&unlimited));
        slot.on(&Event::Passed(&passed));
        slot.on(&Event::StateChanged {
            at: Time::from_millis(10),
            state: State::Failed,
            generation: 4,
        });
        let failed = Status {
            state: State::Failed,
            resting: true,
            generation: 4,
            updated: Time::from_millis(10),
            ssthresh: None,
            window: None,
            pacing: None,
            bytes: 2 << 40,
            bypassed: ByReason::of(crate::Bypass::NoWakeup, 34),
            gate_closed: 24,
            ..read
        };
        assert_eq!(theirs.connections()[0].now, failed);
        slot.on(&Event::AlgorithmChanged(&COPA));
        let who = &theirs.connections()[0].who;
        assert_eq!((&*who.algorithm, &*who.enforcement), ("copa", "kernel"));
        drop(slot);
        assert_eq!(theirs.connections(), []);
    }

    #[test]
    fn slots_are_given_back_and_those_of_the_dead_are_reclaimed() {
        let scratch = Scratch::new();
        let segment = Arc::new(scratch.create());
        for round in 0..3 {
            let slots: Vec<_> = (0..500)
                .map(|id| Slot::take(&segment, &who(id)).unwrap())
                .collect();
            assert_eq!(segment.connections().len(), 500, "{round}");
            assert!(slots.iter().all(|s| s.index < 500), "the lowest come first");
        }
        let dead = Identity {
            pid: u32::MAX - 1,
            ..who(3)
        };
        let mut theirs = Slot::take(&segment, &dead).unwrap();
        let ours = Slot::take(&segment, &who(4)).unwrap();
        let us = std::process::id();
        assert_eq!(segment.reclaim(|pid| pid == us), 1);
        assert_eq!(segment.connections().len(), 1);
        // Taken for dead by mistake: it writes no more into what may be another's.
        let other = Slot::take(&segment, &who(5)).unwrap();
        assert_eq!(other.index, theirs.index);
        theirs.on(&Event::Reading(&reading(&tcp())));
        theirs.on(&Event::AlgorithmChanged(&COPA));
        let kept = &segment.connections()[0];
        assert_eq!(
            (kept.now.cwnd, kept.who.algorithm.as_str()),
            (0, "fixed:window=7")
        );
        drop((ours, other));
    }

    /// A few dozen stores at each reading of each connection. Prints the cost; the bound is for a
    /// busy machine.
    #[test]
    fn an_update_is_cheap() {
        let scratch = Scratch::new();
        let segment = Arc::new(scratch.create());
        let mut slot = Slot::take(&segment, &who(1)).unwrap();
        let mut member = crate::groups::Member::new(&segment, 443, "verus");
        let tcp = tcp();
        let reading = reading(&tcp);
        let event = Event::Reading(&reading);
        let rounds = 200_000;
        let time = |subscriber: &mut dyn Subscriber| {
            let from = std::time::Instant::now();
            (0..rounds).for_each(|_| subscriber.on(&event));
            from.elapsed().as_nanos() / rounds
        };
        let (table, groups) = (time(&mut slot), time(&mut member));
        println!("a reading costs the table {table} ns, the groups {groups} ns");
        assert!(table < 5_000 && groups < 5_000);
    }

    #[test]
    fn a_full_table_counts_those_it_does_not_show() {
        let scratch = Scratch::new();
        let segment = Arc::new(scratch.create());
        segment
            .map()
            .words(TAKEN, TAKEN_LEN)
            .iter()
            .for_each(|w| set(w, u64::MAX));
        assert!(Slot::take(&segment, &who(1)).is_none());
        assert_eq!(segment.not_shown(), 1);
    }

    #[test]
    fn hostile_content_is_read_without_harm() {
        let scratch = Scratch::new();
        let segment = Arc::new(scratch.create());
        let mut rng = alcc_units::Rng::new(1);
        for _ in 0..20 {
            for at in 1..SLOTS + 200 * SLOT_LEN {
                set(segment.map().word(at), rng.next_u64());
            }
            for record in segment.connections() {
                assert!(!record.who.algorithm.contains('\u{1b}'));
            }
            segment.groups();
            segment.commands();
            segment.about();
            segment.failed();
            segment.reclaim(|pid| pid % 2 == 0);
        }
    }
}
