// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The listener: all receiving ends behind one address, without clock and socket, with handshakes
//! and demultiplexing.
use crate::cookie::{Issuer, Key};
use crate::end::End;
use crate::incoming::Incoming;
use crate::wire::{COOKIE, Datagram, Reason};
use alcc_cc::Receiver as ReceiverModule;
use alcc_units::{Span, Time};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Time for which a closed [`Server`](crate::Server) still acknowledges retransmissions and repeats
/// answers.
pub const LINGER: Span = Span::from_secs(5);
/// Time for which the handshake of a closed connection opens no new one: longer than a cookie is
/// valid.
const REMEMBERED: Span = Span::from_secs(15);
/// Bound on remembered closed connections.
const MAX_REMEMBERED: usize = 4096;

/// Bytes of its stream that each connection may hold, however much others hold, so that none blocks
/// all others.
const SHARE: u64 = 64 << 10;

/// Source of random bytes that cannot be guessed.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;
/// Constructor of an algorithm's receiver module from its spec. `Ok(None)`: the algorithm has none. `Err(())`: the spec
/// is invalid or the algorithm unknown, and the listener refuses the connection with `Reason::Algorithm`.
pub type ReceiverModules =
    Box<dyn FnMut(&str) -> Result<Option<Box<dyn ReceiverModule>>, ()> + Send>;

/// Limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections from one address.
    pub per_address: usize,
    /// Limit of received unread bytes, holes included, of all connections together. Packets beyond
    /// it are dropped, except within 64 KiB of each connection. Memory of a connection: at most four
    /// times its unread bytes, or 256 KiB if that is more.
    pub unread: usize,
    /// Time of silence after which a connection has failed. A complete one whose application has
    /// gone acknowledges retransmissions for this time, unless the sender confirms.
    pub silence: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            per_address: 256,
            unread: 1 << 30,
            silence: Span::from_secs(120),
        }
    }
}

struct Entry {
    incoming: Incoming,
    from: SocketAddr,
    peer: u64,
    /// Its part of [`Listener::held`].
    held: usize,
    timer: Option<Time>,
    /// True if the application has accepted it.
    accepted: bool,
    /// Time of its removal, after the application has released it.
    released: Option<Time>,
}

/// All receiving ends behind one address.
pub struct Listener {
    entropy: Entropy,
    receiver_modules: ReceiverModules,
    limits: Limits,
    issuer: Issuer,
    entries: HashMap<u64, Entry>,
    /// Connections per address.
    per_address: HashMap<IpAddr, usize>,
    /// Bytes held for applications, as of the last count of each.
    held: usize,
    /// Ids of connections, also of recently closed ones, by address and id of the sender.
    greeted: HashMap<(SocketAddr, u64), u64>,
    gone: VecDeque<(Time, (SocketAddr, u64))>,
    timers: BTreeSet<(Time, u64)>,
    /// Connections that the application has not accepted yet.
    accepted: VecDeque<u64>,
    /// True if the next datagram has a CE mark.
    marked: bool,
    out: Vec<u8>,
}

fn key(entropy: &mut Entropy) -> Key {
    let mut key = [0; 64];
    entropy(&mut key);
    key
}

impl Listener {
    /// A listener without connections.
    pub fn new(
        now: Time,
        mut entropy: Entropy,
        receiver_modules: ReceiverModules,
        limits: Limits,
    ) -> Self {
        let issuer = Issuer::new(now, key(&mut entropy), key(&mut entropy));
        Self {
            entropy,
            receiver_modules,
            limits,
            issuer,
            entries: HashMap::new(),
            per_address: HashMap::new(),
            held: 0,
            greeted: HashMap::new(),
            gone: VecDeque::new(),
            timers: BTreeSet::new(),
            accepted: VecDeque::new(),
            marked: false,
            out: Vec::new(),
        }
    }

    /// The next new connection, with its peer's address.
    pub fn accept(&mut self) -> Option<(u64, SocketAddr)> {
        while let Some(id) = self.accepted.pop_front() {
            if let Some(entry) = self.entries.get_mut(&id) {
                entry.accepted = true;
                return Some((id, entry.from));
            }
        }
        None
    }

    /// A connection. Use [`Listener::read`] for reading from it.
    pub fn get(&mut self, id: u64) -> Option<&mut Incoming> {
        self.entries.get_mut(&id).map(|entry| &mut entry.incoming)
    }

    /// Reads from a connection; `None`: no such connection. Afterwards [`Listener::poll`] may have
    /// to announce that a zero window has opened.
    pub fn read(&mut self, now: Time, id: u64, out: &mut [u8]) -> Option<usize> {
        let incoming = &mut self.entries.get_mut(&id)?.incoming;
        let n = incoming.read(now, out);
        let opened = n > 0 && incoming.next_timer().is_some_and(|at| at <= now);
        self.count(id);
        if opened {
            // Otherwise the blocked sender would learn it only from its window probe, a second
            // later or more.
            self.due(now, id);
        }
        Some(n)
    }

    /// Number of connections, including those whose applications have gone.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no connections.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Notes that the next datagram has a CE mark.
    pub fn on_mark(&mut self) {
        self.marked = true;
    }

    /// A datagram arrived at `at`. Immediate answers go to `send`; the rest comes from
    /// [`Listener::poll`].
    pub fn on_datagram(
        &mut self,
        now: Time,
        at: Time,
        from: SocketAddr,
        bytes: &[u8],
        send: &mut dyn FnMut(SocketAddr, &[u8]),
    ) {
        let marked = std::mem::take(&mut self.marked);
        let Ok(datagram) = Datagram::read(bytes) else {
            return;
        };
        match datagram {
            Datagram::Hello { id, cookie, spec } => {
                self.on_hello(now, from, id, &cookie, spec, send);
            }
            Datagram::Data { id, data } => match self.entries.get_mut(&id) {
                Some(entry) if entry.from == from => {
                    let (more, ahead) = entry.incoming.grows(&data);
                    if more > 0
                        && ahead > SHARE
                        && self.held.saturating_add(more) > self.limits.unread
                    {
                        return;
                    }
                    if marked {
                        entry.incoming.on_mark(data.payload.len());
                    }
                    entry.incoming.on_data(at, &data);
                    if entry.incoming.is_crowded() {
                        self.out.clear();
                        if entry.incoming.poll(now, &mut self.out) {
                            send(from, &self.out);
                        }
                    }
                    self.count(id);
                    self.due(now, id);
                }
                // A different sender with an id that it may have seen on the path.
                Some(_) => {}
                None => self.say(from, &Datagram::Unknown { id }, send),
            },
            Datagram::Close { id, reason } => {
                if let Some(entry) = self.entries.get_mut(&id).filter(|e| e.from == from) {
                    entry.incoming.on_close(reason);
                    self.due(now, id);
                }
            }
            // These are for senders only.
            Datagram::Retry { .. }
            | Datagram::Accept { .. }
            | Datagram::Ack { .. }
            | Datagram::Unknown { .. }
            | Datagram::Answer { .. } => {}
        }
    }

    /// Updates the count of bytes that a connection holds.
    fn count(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            let held = entry.incoming.held();
            self.held = (self.held - entry.held).saturating_add(held);
            entry.held = held;
        }
    }

    fn say(
        &mut self,
        to: SocketAddr,
        datagram: &Datagram<'_>,
        send: &mut dyn FnMut(SocketAddr, &[u8]),
    ) {
        self.out.clear();
        datagram.write(&mut self.out);
        send(to, &self.out);
    }

    fn on_hello(
        &mut self,
        now: Time,
        from: SocketAddr,
        peer: u64,
        cookie: &[u8; COOKIE],
        spec: &str,
        send: &mut dyn FnMut(SocketAddr, &[u8]),
    ) {
        if self.issuer.is_stale(now) {
            let key = key(&mut self.entropy);
            self.issuer.rotate(now, key);
        }
        if !self.issuer.verify(now, from, peer, cookie) {
            let cookie = self.issuer.issue(now, from, peer);
            return self.say(from, &Datagram::Retry { id: peer, cookie }, send);
        }
        if let Some(&id) = self.greeted.get(&(from, peer)) {
            // A repetition, because the answer may have been lost. If the connection is closed,
            // there is no answer.
            if self.entries.contains_key(&id) {
                self.say(from, &Datagram::Accept { id: peer, peer: id }, send);
            }
            return;
        }
        let refuse = |reason| Datagram::Close { id: peer, reason };
        let near = self.per_address.get(&from.ip()).copied().unwrap_or(0);
        if self.entries.len() >= self.limits.connections || near >= self.limits.per_address {
            return self.say(from, &refuse(Reason::Full), send);
        }
        let Ok(receiver_module) = (self.receiver_modules)(spec) else {
            return self.say(from, &refuse(Reason::Algorithm), send);
        };
        let id = loop {
            let mut bytes = [0; 8];
            (self.entropy)(&mut bytes);
            let id = u64::from_be_bytes(bytes);
            if !self.entries.contains_key(&id) {
                break id;
            }
        };
        self.greeted.insert((from, peer), id);
        *self.per_address.entry(from.ip()).or_default() += 1;
        self.entries.insert(
            id,
            Entry {
                incoming: Incoming::new(now, peer, receiver_module, self.limits.silence),
                from,
                peer,
                held: 0,
                timer: None,
                accepted: false,
                released: None,
            },
        );
        self.due(now, id);
        self.accepted.push_back(id);
        self.say(from, &Datagram::Accept { id: peer, peer: id }, send);
    }

    /// Requests a call of [`Listener::poll`] for that connection.
    pub fn due(&mut self, now: Time, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            if let Some(at) = entry.timer.replace(now) {
                self.timers.remove(&(at, id));
            }
            self.timers.insert((now, id));
        }
    }

    /// The application has finished with a connection: missing data is given up, received data is
    /// acknowledged for a while.
    pub fn release(&mut self, now: Time, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.incoming.close();
            entry.incoming.discard();
            // As long as an outage of the sender may last. Otherwise it would take a complete
            // stream for a lost one.
            entry.released.get_or_insert(now + self.limits.silence);
            self.count(id);
            self.due(now, id);
        }
    }

    /// Time of the next call of [`Listener::poll`].
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Sends datagrams that are due. Call it after a batch of datagrams, and when
    /// [`Listener::next_timer`] is due.
    pub fn poll(&mut self, now: Time, send: &mut dyn FnMut(SocketAddr, &[u8])) {
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(entry) = self.entries.get_mut(&id) else {
                continue;
            };
            entry.timer = None;
            entry.incoming.on_timer(now);
            loop {
                self.out.clear();
                if !entry.incoming.poll(now, &mut self.out) {
                    break;
                }
                send(entry.from, &self.out);
            }
            // Half-received streams that were never accepted are dropped; complete ones are kept.
            let ended = entry.incoming.ended();
            let nobodys = entry.released.is_some()
                || !entry.accepted && ended.is_some_and(|end| *end != End::Done);
            let over = ended.is_some() && nobodys;
            if over || entry.released.is_some_and(|until| until <= now) {
                self.forget(now, id);
                continue;
            }
            let own = entry.incoming.next_timer();
            let next = [own, entry.released].into_iter().flatten().min();
            if let Some(next) = next {
                // Never reschedule for now: avoids a busy loop.
                let next = next.max(now + Span::from_nanos(1));
                entry.timer = Some(next);
                self.timers.insert((next, id));
            }
        }
    }

    fn forget(&mut self, now: Time, id: u64) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if !entry.accepted {
            self.accepted.retain(|other| *other != id);
        }
        self.held -= entry.held;
        if let Some(near) = self.per_address.get_mut(&entry.from.ip()) {
            *near -= 1;
            if *near == 0 {
                self.per_address.remove(&entry.from.ip());
            }
        }
        self.gone
            .push_back((now + REMEMBERED, (entry.from, entry.peer)));
        while let Some((until, who)) = self.gone.front().copied()
            && (until <= now || self.gone.len() > MAX_REMEMBERED)
        {
            self.gone.pop_front();
            self.greeted.remove(&who);
        }
    }

    /// The application accepts no more connections: unaccepted ones are released, new ones refused.
    pub fn refuse(&mut self, now: Time) {
        self.limits.connections = 0;
        while let Some((id, _)) = self.accept() {
            self.release(now, id);
        }
    }

    /// The end of a connection, if it has ended.
    pub fn ended(&self, id: u64) -> Option<&End> {
        self.entries
            .get(&id)
            .and_then(|entry| entry.incoming.ended())
    }

    /// Number of entries and bytes in memory, for testing the bound.
    pub fn remembered(&self) -> usize {
        let entries = self.entries.values().map(|e| e.incoming.remembered());
        entries.sum::<usize>() + self.greeted.len() + self.gone.len() + self.timers.len()
    }
}
