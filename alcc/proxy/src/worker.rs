// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A loop: one thread that relays its share of the connections.
use crate::ProxyProtocol;
use crate::end::End;
use crate::route::Route;
use crate::session::{CLIENT, DriveContext, Outcome, SERVER, Session};
use crate::stats::Stats;
use alcc_observe::{Event, Segment};
use alcc_socket::own::Runtime;
use alcc_socket::{Selection, Socket, classify};
use alcc_sys::client_of;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token};
use slab::Slab;
use socket2::SockRef;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::mem::take;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Size of a read, and limit of the data that a direction keeps while the other side does not take it.
const SCRATCH: usize = 64 * 1024;
const EVENTS: usize = 1024;
const INBOX: Token = Token(usize::MAX);

/// Maximum time until the first byte of a connection, in either direction. Until then it only occupies a connection of
/// the server.
const FIRST_BYTE: Duration = Duration::from_secs(60);
/// Silence after which a connection may have to make room for others.
const MIN_SILENCE: Duration = Duration::from_secs(1);

/// The state that all loops share.
pub(crate) struct Shared {
    pub(crate) selection: Selection,
    /// The kernel's congestion control to select for connections to be controlled.
    pub(crate) under: Option<String>,
    pub(crate) route: Arc<Route>,
    pub(crate) stats: Stats,
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    pub(crate) connect_timeout: Duration,
    pub(crate) segment: Option<Arc<Segment>>,
    /// Maximum time of silence on a connection.
    pub(crate) idle: Duration,
    /// Number of connections of each client.
    pub(crate) clients: Mutex<HashMap<IpAddr, u64>>,
    /// Its limit.
    pub(crate) per_client: u64,
}

/// The place of one connection among those of its client. Dropping it frees the place.
pub(crate) struct ClientPlace {
    shared: Arc<Shared>,
    client: IpAddr,
}

impl ClientPlace {
    pub(crate) fn take(shared: &Arc<Shared>, address: IpAddr) -> Self {
        let client = client_of(address);
        *alcc_sys::lock(&shared.clients).entry(client).or_default() += 1;
        Self {
            shared: Arc::clone(shared),
            client,
        }
    }

    fn is_too_many(&self) -> bool {
        let clients = alcc_sys::lock(&self.shared.clients);
        clients.get(&self.client).copied().unwrap_or(0) > self.shared.per_client
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let mut clients = alcc_sys::lock(&self.shared.clients);
        if let Some(open) = clients.get_mut(&self.client) {
            *open -= 1;
            if *open == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

/// Requests of other threads to a loop.
pub(crate) struct Inbox {
    messages: Mutex<Messages>,
    waker: mio::Waker,
    /// Number of connections of the loop, including those in the inbox.
    pub(crate) load: AtomicUsize,
}

#[derive(Default)]
struct Messages {
    accepted: Vec<(TcpStream, ClientPlace)>,
    /// True if other connections need places.
    make_room: bool,
    /// Tokens of ends that can be written to again.
    opened: Vec<Token>,
    stop: Option<Instant>,
    unread: bool,
}

impl Inbox {
    fn send(&self, write: impl FnOnce(&mut Messages)) {
        let mut messages = self.lock();
        write(&mut messages);
        if !std::mem::replace(&mut messages.unread, true) {
            // This fails only if the loop is gone.
            drop(self.waker.wake());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Messages> {
        alcc_sys::lock(&self.messages)
    }

    pub(crate) fn hand_over(&self, stream: TcpStream, place: ClientPlace) {
        self.load.fetch_add(1, Ordering::Relaxed);
        self.send(|messages| messages.accepted.push((stream, place)));
    }

    /// Closes the connections with the longest silence.
    pub(crate) fn make_room(&self) {
        self.send(|messages| messages.make_room = true);
    }

    /// Makes the loop accept no more connections, end with the last one, and reset those that remain at `deadline`.
    pub(crate) fn stop(&self, deadline: Instant) {
        self.send(|messages| messages.stop = Some(deadline));
    }
}

/// A pending connection to the server.
struct Attempt {
    addresses: Arc<[SocketAddr]>,
    first: usize,
    tried: usize,
    until: Instant,
}

struct Slot {
    session: Session,
    attempt: Option<Box<Attempt>>,
    /// True if it is in the list of sessions with work to do.
    ready: bool,
    /// True if both sides have ended, and a queue is still being drained.
    draining: bool,
    place: ClientPlace,
    /// Time at which data was last moved.
    last: Instant,
    /// True if data has been moved.
    moved: bool,
    /// Time of the next check for silence.
    look_at: Instant,
}

pub(crate) struct Worker {
    poll: Poll,
    inbox: Arc<Inbox>,
    shared: Arc<Shared>,
    /// The runtime whose thread drains the queues of this loop's connections.
    runtime: Arc<Runtime>,
    slots: Slab<Slot>,
    ready: Vec<usize>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    scratch: Box<[u8]>,
    stop: Option<Instant>,
    /// Time of the last wait for events.
    now: Instant,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, runtime: Arc<Runtime>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let inbox = Arc::new(Inbox {
            messages: Mutex::default(),
            waker: mio::Waker::new(poll.registry(), INBOX)?,
            load: AtomicUsize::new(0),
        });
        Ok(Self {
            poll,
            inbox,
            shared,
            runtime,
            slots: Slab::new(),
            ready: Vec::new(),
            timers: BinaryHeap::new(),
            scratch: vec![0; SCRATCH].into(),
            stop: None,
            now: Instant::now(),
        })
    }

    pub(crate) fn inbox(&self) -> Arc<Inbox> {
        Arc::clone(&self.inbox)
    }

    /// Runs the loop until it is stopped.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while !(self.stop.is_some() && self.slots.is_empty()) {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            self.now = Instant::now();
            for event in &events {
                let token = event.token();
                if token != INBOX
                    && let Some(slot) = self.slots.get_mut(token.0 / 2)
                {
                    slot.session.ends[token.0 % 2].on_event(event);
                    self.ready(token.0 / 2);
                }
            }
            self.read_inbox();
            self.run_timers();
            for key in take(&mut self.ready) {
                self.drive(key);
            }
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let next = timer.into_iter().chain(self.stop).min()?;
        // The kernel counts in milliseconds, and would otherwise wake us slightly too early, again and again.
        Some(next.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    fn ready(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key)
            && !std::mem::replace(&mut slot.ready, true)
        {
            self.ready.push(key);
        }
    }

    fn read_inbox(&mut self) {
        let messages = take(&mut *self.inbox.lock());
        for token in messages.opened {
            if let Some(slot) = self.slots.get_mut(token.0 / 2) {
                slot.session.ends[token.0 % 2].on_notice();
                self.ready(token.0 / 2);
            }
        }
        if messages.make_room {
            let many = self.slots.len().div_ceil(64);
            self.close_silent(None, MIN_SILENCE, many);
        }
        for (stream, place) in messages.accepted {
            if self.on_accepted(stream, place).is_none() {
                self.gone();
            }
        }
        self.stop = self.stop.into_iter().chain(messages.stop).min();
    }

    fn run_timers(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((at, key))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            self.ready(key);
        }
        if self.stop.is_some_and(|at| at <= now) {
            let keys: Vec<_> = self.slots.iter().map(|(key, _)| key).collect();
            keys.into_iter().for_each(|key| self.reset(key));
        }
    }

    /// Closes the `many` connections with the longest silence, of this client or of all, if they were silent for at
    /// least `silent`. Returns their number.
    fn close_silent(&mut self, client: Option<IpAddr>, silent: Duration, many: usize) -> usize {
        let of = |slot: &Slot| client.is_none_or(|client| slot.place.client == client);
        let quiet = |slot: &Slot| self.now.saturating_duration_since(slot.last) >= silent;
        let all = self
            .slots
            .iter()
            .filter(|(_, slot)| of(slot) && quiet(slot));
        let mut oldest: Vec<_> = all.map(|(key, slot)| (slot.last, key)).collect();
        if many > 0 && many < oldest.len() {
            oldest.select_nth_unstable(many - 1);
            oldest.truncate(many);
        }
        for (_, key) in &oldest {
            Stats::one(&self.shared.stats.silent);
            self.reset(*key);
        }
        oldest.len()
    }

    /// Handles a new client: starts the connection to the server.
    fn on_accepted(&mut self, mut client: TcpStream, place: ClientPlace) -> Option<()> {
        // Only the client's own connections make room, and only those of this loop, which are known here.
        if place.is_too_many() && self.close_silent(Some(place.client), Duration::ZERO, 1) == 0 {
            Stats::one(&self.shared.stats.turned_away);
            drop(SockRef::from(&client).set_linger(Some(Duration::ZERO)));
            return None;
        }
        let (peer, local) = (client.peer_addr().ok()?, client.local_addr().ok()?);
        prepare(&client);
        let (addresses, first) = self.shared.route.addresses();
        let mut attempt = Attempt {
            first,
            tried: 0,
            until: Instant::now(),
            addresses,
        };
        let server = attempt.next(self.shared.connect_timeout);
        let slot = self.slots.vacant_entry();
        let key = slot.key();
        register(self.poll.registry(), &mut client, key, CLIENT).ok()?;
        let header = self.shared.proxy_protocol.map(|v| v.header(peer, local));
        let Some(mut server) = server else {
            self.unreachable();
            // This fails on a connection that is broken already.
            drop(SockRef::from(&client).set_linger(Some(Duration::ZERO)));
            return None;
        };
        register(self.poll.registry(), &mut server, key, SERVER).ok()?;
        self.timers.push(Reverse((attempt.until, key)));
        let look_at = self.now + FIRST_BYTE.min(self.shared.idle);
        self.timers.push(Reverse((look_at, key)));
        slot.insert(Slot {
            session: Session::new(
                End::new(client),
                End::new(server),
                header.unwrap_or_default(),
            ),
            attempt: Some(Box::new(attempt)),
            ready: false,
            draining: false,
            place,
            last: self.now,
            moved: false,
            look_at,
        });
        Some(())
    }

    fn unreachable(&self) {
        Stats::one(&self.shared.stats.connect_failed);
        self.shared.route.failed();
    }

    fn drive(&mut self, key: usize) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        slot.ready = false;
        if slot.draining {
            if slot.session.is_drained() {
                self.on_removed(key);
            }
            return;
        }
        if slot.look_at <= self.now {
            let idle = self.shared.idle;
            let limit = if slot.moved {
                idle
            } else {
                FIRST_BYTE.min(idle)
            };
            slot.look_at = slot.last + limit;
            if slot.look_at <= self.now {
                Stats::one(&self.shared.stats.silent);
                return self.reset(key);
            }
            self.timers.push(Reverse((slot.look_at, key)));
        }
        if slot.attempt.is_some() && !self.connect(key) {
            return;
        }
        let slot = &mut self.slots[key];
        let mut cx = DriveContext {
            scratch: &mut self.scratch,
            moved: [0; 2],
        };
        let outcome = slot.session.drive(&mut cx);
        if cx.moved != [0; 2] {
            (slot.last, slot.moved) = (self.now, true);
        }
        for (total, moved) in self.shared.stats.bytes.iter().zip(cx.moved) {
            if moved > 0 {
                total.fetch_add(moved, Ordering::Relaxed);
            }
        }
        match outcome {
            Outcome::Wait => {}
            Outcome::Again => self.ready(key),
            Outcome::At(when) => self.timers.push(Reverse((when, key))),
            Outcome::Done => self.close(key),
            Outcome::Reset => self.reset(key),
        }
    }

    /// Checks the connection to the server; true once it is established.
    fn connect(&mut self, key: usize) -> bool {
        let slot = &mut self.slots[key];
        let Some(attempt) = &mut slot.attempt else {
            return true;
        };
        if slot.session.ends[CLIENT].reset {
            self.reset(key);
            return false;
        }
        let server = &mut slot.session.ends[SERVER];
        let mut failed = server.reset || Instant::now() >= attempt.until;
        if !failed {
            if !server.writable || server.stream().peer_addr().is_err() {
                return false;
            }
            failed = is_with_itself(server.stream());
        }
        if !failed {
            self.shared.route.answered(attempt.index());
            slot.attempt = None;
            prepare(server.stream());
            self.control(key);
            return true;
        }
        if let Some(stream) = attempt.next(self.shared.connect_timeout) {
            *server = End::new(stream);
            let registered = register(self.poll.registry(), server.stream(), key, SERVER);
            self.timers.push(Reverse((attempt.until, key)));
            if registered.is_ok() {
                return false;
            }
        }
        self.unreachable();
        self.reset(key);
        false
    }

    /// Both connections are established: the runtime takes those that the selection includes.
    fn control(&mut self, key: usize) {
        let Shared {
            selection, stats, ..
        } = &*self.shared;
        for (side, end) in self.slots[key].session.ends.iter_mut().enumerate() {
            let outbound = side == SERVER;
            if outbound && !selection.outbound {
                continue;
            }
            let fd = end.stream().as_raw_fd();
            let left_alone = match classify(fd, Some(outbound)) {
                Socket::Connected(peer) => selection.leaves_alone(&peer).map(Some),
                _ => Some(None),
            };
            if let Some(why) = left_alone {
                Stats::one(&stats.left_alone);
                if let (Some(segment), Some(why)) = (&self.shared.segment, why) {
                    segment.count(&Event::left_alone(why));
                }
                continue;
            }
            if let Some(under) = &self.shared.under
                && SockRef::from(&*end.stream())
                    .set_tcp_congestion(under.as_bytes())
                    .is_err()
            {
                Stats::one(&stats.under_refused);
            }
            let (inbox, token) = (Arc::clone(&self.inbox), Token(key * 2 + side));
            end.control(&self.runtime, move || {
                inbox.send(|messages| messages.opened.push(token));
            });
        }
    }

    /// Both sides have ended.
    fn close(&mut self, key: usize) {
        let slot = &mut self.slots[key];
        for end in &mut slot.session.ends {
            deregister(self.poll.registry(), end);
        }
        slot.draining = true;
        if slot.session.close() {
            self.on_removed(key);
        }
    }

    fn reset(&mut self, key: usize) {
        let slot = &mut self.slots[key];
        for end in slot.session.ends.iter_mut().filter(|_| !slot.draining) {
            deregister(self.poll.registry(), end);
        }
        Stats::one(&self.shared.stats.resets);
        slot.session.abort();
        self.on_removed(key);
    }

    fn on_removed(&mut self, key: usize) {
        let slot = self.slots.remove(key);
        if slot.session.ends.iter().any(End::failed) {
            Stats::one(&self.shared.stats.failures);
        }
        // The descriptors are closed first, because counting connections means counting descriptors.
        drop(slot);
        self.gone();
    }

    fn gone(&self) {
        self.inbox.load.fetch_sub(1, Ordering::Relaxed);
        self.shared.stats.closed();
    }
}

/// Removes an end from the registry. The runtime may close the descriptor after the connection is forgotten, so its
/// events must not be taken for those of another.
fn deregister(registry: &Registry, end: &mut End) {
    // This fails only for an end that was never registered.
    drop(registry.deregister(end.stream()));
}

impl Attempt {
    /// Starts a connection to the next address; `None` if there is none left.
    fn next(&mut self, timeout: Duration) -> Option<TcpStream> {
        while self.tried < self.addresses.len() {
            self.tried += 1;
            if let Ok(stream) = TcpStream::connect(self.addresses[self.index()]) {
                self.until = Instant::now() + timeout;
                return Some(stream);
            }
        }
        None
    }

    fn index(&self) -> usize {
        (self.first + self.tried - 1) % self.addresses.len()
    }
}

fn register(
    registry: &Registry,
    stream: &mut TcpStream,
    key: usize,
    side: usize,
) -> io::Result<()> {
    registry.register(
        stream,
        Token(key * 2 + side),
        Interest::READABLE | Interest::WRITABLE,
    )
}

/// True if the two ends of a connection are one socket. This happens if the kernel chooses the destination port, a
/// local one without a listener, for our end, too. The connection is closed with a reset, because otherwise the port
/// would be in use when the server starts.
fn is_with_itself(stream: &TcpStream) -> bool {
    let (local, peer) = (stream.local_addr().ok(), stream.peer_addr().ok());
    let one = local.is_some() && local == peer;
    if one {
        // This fails only on a connection that is broken already.
        drop(SockRef::from(stream).set_linger(Some(Duration::ZERO)));
    }
    one
}

/// Sets the options of a relayed socket. TCP_NODELAY, because the ends have already decided when to write. Keep-alive,
/// so that the relay notices when an idle client has gone. Urgent data inline, because otherwise a read would omit its
/// byte, which would be lost.
fn prepare(stream: &TcpStream) {
    // This fails only on a connection that is broken already.
    drop(stream.set_nodelay(true));
    drop(SockRef::from(stream).set_keepalive(true));
    drop(SockRef::from(stream).set_out_of_band_inline(true));
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};

    #[test]
    fn a_connection_with_itself_is_no_connection_to_a_server() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&any.into()).unwrap();
        socket.connect(&socket.local_addr().unwrap()).unwrap();
        assert!(is_with_itself(&TcpStream::from_std(socket.into())));
        let server = std::net::TcpListener::bind(any).unwrap();
        let client = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
        assert!(!is_with_itself(&TcpStream::from_std(client)));
    }
}
