// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two ends and a path between them, in virtual time.
use alcc_cc::Spec;
use alcc_cc::conformance::Checked;
use alcc_udp::{End, Limits, Listener, Outgoing, Setup, wire::Datagram};
use alcc_units::{Rng, Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

pub(crate) const SENDER: &str = "192.0.2.1:4000";
pub(crate) const RECEIVER: &str = "192.0.2.9:9700";

/// The effects of a path on datagrams.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    pub(crate) corrupt: f64,
    /// Maximum additional delay of each.
    pub(crate) jitter: Span,
    pub(crate) delay: Span,
    /// Nothing passes in these times.
    pub(crate) outages: Vec<(Time, Time)>,
    /// Time for sending a datagram of 1400 bytes.
    pub(crate) gap: Span,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            jitter: Span::ZERO,
            delay: Span::from_millis(20),
            outages: Vec::new(),
            gap: Span::from_millis(1),
        }
    }
}

type Parcel = (Time, u64, bool, Vec<u8>);

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) faults: Faults,
    pub(crate) rng: Rng,
    order: u64,
    way: BinaryHeap<Reverse<Parcel>>,
    free: Time,
    pub(crate) outgoing: Outgoing,
    pub(crate) listener: Listener,
    pub(crate) accepted: Option<u64>,
    pub(crate) sent: Vec<u8>,
    pub(crate) written: usize,
    pub(crate) got: Vec<u8>,
    /// Datagrams that the sender put on the way.
    pub(crate) seen: Vec<Vec<u8>>,
    pub(crate) most: usize,
    /// The application neither writes nor finishes.
    pub(crate) idle: bool,
}

pub(crate) fn entropy(seed: u64) -> alcc_udp::Entropy {
    let mut rng = Rng::new(seed);
    Box::new(move |bytes| bytes.fill_with(|| rng.next_u64() as u8))
}

pub(crate) fn receiver_modules() -> alcc_udp::ReceiverModules {
    Box::new(|spec| {
        let spec: Spec = spec.parse().map_err(drop)?;
        let cc = Checked::registry(&alcc_zoo::registry())
            .build(&spec)
            .map_err(drop)?;
        Ok(cc.receiver())
    })
}

pub(crate) fn listener(now: Time, seed: u64, limits: Limits) -> Listener {
    Listener::new(now, entropy(seed), receiver_modules(), limits)
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn outgoing(now: Time, algorithm: &Spec, says: &str, id: u64) -> Outgoing {
    let setup = Setup {
        cc: Checked::registry(&alcc_zoo::registry())
            .build(algorithm)
            .expect("an algorithm"),
        spec: says.to_owned(),
        id,
        seed: id,
        // Longer than a program waits: at 20 % loss in both directions all first datagrams of ten
        // seconds may be lost, which is not an error, and happened in one of 40 runs.
        patience: Span::from_secs(60),
        silence: Span::from_secs(120),
    };
    Outgoing::new(now, setup)
}

impl World {
    /// Makes the sender request another receiver module than its own.
    pub(crate) fn respec(&mut self, says: &str) {
        let cubic = "cubic".parse().expect("a spec");
        self.outgoing = outgoing(self.now, &cubic, says, 5);
    }

    pub(crate) fn new(algorithm: &str, len: usize, seed: u64, faults: Faults) -> Self {
        let spec: Spec = algorithm.parse().expect("a spec");
        let now = Time::from_millis(1000);
        let mut rng = Rng::new(seed);
        let outgoing = outgoing(now, &spec, algorithm, rng.next_u64());
        Self {
            now,
            faults,
            order: 0,
            way: BinaryHeap::new(),
            free: now,
            outgoing,
            listener: listener(now, seed ^ 1, Limits::default()),
            accepted: None,
            sent: (0..len).map(|_| rng.next_u64() as u8).collect(),
            written: 0,
            got: Vec::new(),
            seen: Vec::new(),
            most: 0,
            idle: false,
            rng,
        }
    }

    /// Puts a datagram on the way; `there`: to the receiver.
    pub(crate) fn put(&mut self, there: bool, bytes: &[u8]) {
        let faults = self.faults.clone();
        let cut = |at: Time| {
            faults
                .outages
                .iter()
                .any(|(from, to)| *from <= at && at < *to)
        };
        if there {
            self.seen.push(bytes.to_vec());
            self.free = self.free.max(self.now) + faults.gap * bytes.len() as u64 / 1400;
        }
        if self.rng.chance(faults.loss) || cut(self.now) {
            return;
        }
        let copies = 1 + u64::from(self.rng.chance(faults.duplicate));
        for _ in 0..copies {
            let mut bytes = bytes.to_vec();
            if self.rng.chance(faults.corrupt) {
                let at = self.rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.rng.below(8);
            }
            let late = Span::from_nanos(self.rng.below(faults.jitter.as_nanos().max(1)));
            let from = if there { self.free } else { self.now };
            self.order += 1;
            let at = from + faults.delay + late;
            self.way.push(Reverse((at, self.order, there, bytes)));
        }
    }

    /// Loses all packets in flight.
    pub(crate) fn lose(&mut self) {
        self.way.clear();
    }

    fn settle(&mut self) {
        let now = self.now;
        let mut out = Vec::new();
        loop {
            self.outgoing.set_more(!self.idle);
            if self.outgoing.is_open() && !self.idle {
                let remaining = &self.sent[self.written..];
                let room = self.outgoing.room().min(remaining.len());
                self.outgoing.set_more(!remaining.is_empty());
                self.written += self.outgoing.write(&remaining[..room]);
                if self.written == self.sent.len() {
                    self.outgoing.finish();
                }
            }
            out.clear();
            if !self.outgoing.poll(now, &mut out) {
                break;
            }
            assert!(out.len() <= 1400, "{}", out.len());
            self.put(true, &out);
        }
        let mut answers = Vec::new();
        self.listener
            .poll(now, &mut |_, bytes| answers.push(bytes.to_vec()));
        if let Some((id, _)) = self.listener.accept() {
            self.accepted.get_or_insert(id);
        }
        if let Some(id) = self.accepted {
            let mut buffer = [0; 5000];
            while let Some(n @ 1..) = self.listener.read(now, id, &mut buffer) {
                self.got.extend(&buffer[..n]);
            }
        }
        for answer in answers {
            self.put(false, &answer);
        }
        let remembered = self.listener.remembered() + self.outgoing.remembered();
        self.most = self.most.max(remembered);
    }

    /// Something happens; false if nothing ever will.
    pub(crate) fn step(&mut self) -> bool {
        self.settle();
        let arrives = self.way.peek().map(|Reverse((at, ..))| *at);
        let timers = [
            arrives,
            self.outgoing.next_timer(),
            self.listener.next_timer(),
        ];
        let Some(next) = timers.into_iter().flatten().min() else {
            return false;
        };
        self.now = self.now.max(next);
        let now = self.now;
        while let Some(Reverse((at, ..))) = self.way.peek()
            && *at <= now
        {
            let Some(Reverse((at, _, there, bytes))) = self.way.pop() else {
                break;
            };
            self.deliver(at, there, &bytes);
        }
        self.outgoing.on_timer(now);
        true
    }

    pub(crate) fn deliver(&mut self, at: Time, there: bool, bytes: &[u8]) {
        if there {
            let mut answers = Vec::new();
            let (now, from) = (self.now, address(SENDER));
            self.listener
                .on_datagram(now, at, from, bytes, &mut |_, a| answers.push(a.to_vec()));
            for answer in answers {
                assert!(answer.len() <= bytes.len() || !matches!(bytes.get(1), Some(1)));
                self.put(false, &answer);
            }
        } else if let Ok(datagram) = Datagram::read(bytes)
            && (id_of(bytes) == self.outgoing.id() || matches!(datagram, Datagram::Unknown { .. }))
        {
            self.outgoing.on_datagram(at, &datagram);
        }
    }

    /// Until the transfer is over or `until` has come: how the sender's end ended, if it did.
    pub(crate) fn run(&mut self, until: Time) -> Option<End> {
        while self.now < until && !self.outgoing.is_done() && self.outgoing.ended().is_none() {
            if !self.step() {
                break;
            }
        }
        self.settle();
        self.outgoing.ended().cloned()
    }
}

pub(crate) fn id_of(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[6..14].try_into().expect("fourteen bytes"))
}
