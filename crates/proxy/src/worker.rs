// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A loop: one thread that relays its share of the connections.
use crate::ProxyProtocol;
use crate::route::Route;
use crate::session::{CLIENT, End, Fate, SERVER, Session, Tools};
use crate::stats::Stats;
use alcc_socket::{Attached, Runtime, Waker};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Registry, Token};
use slab::Slab;
use socket2::SockRef;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::mem::take;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is read at once, and the most that a direction keeps while the other side does not take it.
const SCRATCH: usize = 64 * 1024;
const EVENTS: usize = 1024;
const MAIL: Token = Token(usize::MAX);

/// What all loops share.
pub(crate) struct Shared {
    pub(crate) runtime: Arc<Runtime<Bell>>,
    pub(crate) route: Arc<Route>,
    pub(crate) stats: Stats,
    pub(crate) proxy_protocol: Option<ProxyProtocol>,
    pub(crate) connect_timeout: Duration,
}

/// How others reach a loop.
pub(crate) struct Mailbox {
    letters: Mutex<Letters>,
    waker: mio::Waker,
    /// Connections of the loop, with those on their way to it.
    pub(crate) load: AtomicUsize,
}

#[derive(Default)]
struct Letters {
    accepted: Vec<TcpStream>,
    /// Tokens of ends that may be written to again.
    opened: Vec<Token>,
    stop: Option<Instant>,
    unread: bool,
}

impl Mailbox {
    fn post(&self, write: impl FnOnce(&mut Letters)) {
        let mut letters = self.lock();
        write(&mut letters);
        if !std::mem::replace(&mut letters.unread, true) {
            // It fails only if the loop is gone.
            drop(self.waker.wake());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hand_over(&self, stream: TcpStream) {
        self.load.fetch_add(1, Ordering::Relaxed);
        self.post(|letters| letters.accepted.push(stream));
    }

    /// Takes no more connections and ends with the last one; resets those left at `deadline`.
    pub(crate) fn stop(&self, deadline: Instant) {
        self.post(|letters| letters.stop = Some(deadline));
    }
}

/// Tells a loop that the algorithm allows more for one of its connections.
pub(crate) struct Bell {
    mailbox: Arc<Mailbox>,
    token: Token,
}

impl Waker for Bell {
    fn reaches(&self) -> bool {
        true
    }

    // A loop that was refused waits for `open`; the kernel's own readiness only makes it try once in vain.
    fn shut(&mut self) {}

    fn open(&mut self) {
        self.mailbox.post(|letters| letters.opened.push(self.token));
    }

    // A connection of ours has one descriptor.
    fn join(&mut self, _: Self) {}

    fn closed(&mut self, _: RawFd) {}
}

/// A connection to the server that is being made.
struct Attempt {
    addresses: Arc<[SocketAddr]>,
    first: usize,
    tried: usize,
    until: Instant,
}

struct Slot {
    session: Session,
    attempt: Option<Box<Attempt>>,
    /// In the list of those that have something to do.
    ready: bool,
}

pub(crate) struct Worker {
    poll: Poll,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
    slots: Slab<Slot>,
    ready: Vec<usize>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    scratch: Box<[u8]>,
    stop: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mailbox = Arc::new(Mailbox {
            letters: Mutex::default(),
            waker: mio::Waker::new(poll.registry(), MAIL)?,
            load: AtomicUsize::new(0),
        });
        Ok(Self {
            poll,
            mailbox,
            shared,
            slots: Slab::new(),
            ready: Vec::new(),
            timers: BinaryHeap::new(),
            scratch: vec![0; SCRATCH].into(),
            stop: None,
        })
    }

    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(&self.mailbox)
    }

    /// Until it is told to stop.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        while !(self.stop.is_some() && self.slots.is_empty()) {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                let token = event.token();
                if token != MAIL
                    && let Some(slot) = self.slots.get_mut(token.0 / 2)
                {
                    slot.session.ends[token.0 % 2].happened(event);
                    self.ready(token.0 / 2);
                }
            }
            self.read_mail();
            self.ring_timers();
            for key in take(&mut self.ready) {
                self.turn(key);
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
        // The kernel counts whole milliseconds and would wake us just too early, again and again.
        Some(next.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    fn ready(&mut self, key: usize) {
        if let Some(slot) = self.slots.get_mut(key)
            && !std::mem::replace(&mut slot.ready, true)
        {
            self.ready.push(key);
        }
    }

    fn read_mail(&mut self) {
        let letters = take(&mut *self.mailbox.lock());
        for token in letters.opened {
            if let Some(slot) = self.slots.get_mut(token.0 / 2) {
                slot.session.ends[token.0 % 2].writable = true;
                self.ready(token.0 / 2);
            }
        }
        for stream in letters.accepted {
            if self.welcome(stream).is_none() {
                self.left();
            }
        }
        self.stop = self.stop.into_iter().chain(letters.stop).min();
    }

    fn ring_timers(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((at, key))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            self.ready(key);
        }
        if self.stop.is_some_and(|at| at <= now) {
            let left: Vec<_> = self.slots.iter().map(|(key, _)| key).collect();
            left.into_iter().for_each(|key| self.end(key, true));
        }
    }

    /// A client has come: the way to the server is sought.
    fn welcome(&mut self, mut client: TcpStream) -> Option<()> {
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
            reset(&client);
            return None;
        };
        register(self.poll.registry(), &mut server, key, SERVER).ok()?;
        self.timers.push(Reverse((attempt.until, key)));
        slot.insert(Slot {
            session: Session::new(
                End::new(client),
                End::new(server),
                header.unwrap_or_default(),
            ),
            attempt: Some(Box::new(attempt)),
            ready: false,
        });
        Some(())
    }

    fn unreachable(&self) {
        Stats::one(&self.shared.stats.connect_failed);
        self.shared.route.failed();
    }

    fn turn(&mut self, key: usize) {
        let Some(slot) = self.slots.get_mut(key) else {
            return;
        };
        slot.ready = false;
        if slot.attempt.is_some() && !self.connect(key) {
            return;
        }
        let slot = &mut self.slots[key];
        let mut tools = Tools {
            runtime: &self.shared.runtime,
            scratch: &mut self.scratch,
            moved: [0; 2],
        };
        let fate = slot.session.drive(&mut tools);
        for (total, moved) in self.shared.stats.bytes.iter().zip(tools.moved) {
            if moved > 0 {
                total.fetch_add(moved, Ordering::Relaxed);
            }
        }
        match fate {
            Fate::Wait => {}
            Fate::Again => self.ready(key),
            Fate::At(when) => self.timers.push(Reverse((when, key))),
            Fate::Done => self.end(key, false),
            Fate::Reset => self.end(key, true),
        }
    }

    /// Looks how far the connection to the server is; true once it is made.
    fn connect(&mut self, key: usize) -> bool {
        let slot = &mut self.slots[key];
        let Some(attempt) = &mut slot.attempt else {
            return true;
        };
        if slot.session.abandoned() {
            self.end(key, true);
            return false;
        }
        let server = &mut slot.session.ends[SERVER];
        let failed = server.is_broken() || Instant::now() >= attempt.until;
        if !failed {
            if !server.writable || server.stream.peer_addr().is_err() {
                return false;
            }
            self.shared.route.answered(attempt.index());
            slot.attempt = None;
            prepare(&server.stream);
            self.control(key);
            return true;
        }
        if let Some(stream) = attempt.next(self.shared.connect_timeout) {
            *server = End::new(stream);
            let registered = register(self.poll.registry(), &mut server.stream, key, SERVER);
            self.timers.push(Reverse((attempt.until, key)));
            if registered.is_ok() {
                return false;
            }
        }
        self.unreachable();
        self.end(key, true);
        false
    }

    /// Both ends are there: the runtime takes those that the selection covers.
    fn control(&mut self, key: usize) {
        let runtime = &self.shared.runtime;
        for (side, end) in self.slots[key].session.ends.iter_mut().enumerate() {
            if side == SERVER && !runtime.settings().selection.outbound {
                continue;
            }
            let bell = Bell {
                mailbox: Arc::clone(&self.mailbox),
                token: Token(key * 2 + side),
            };
            let attached = runtime.attach(end.stream.as_raw_fd(), Some(side == SERVER), bell);
            end.conn = match attached {
                Attached::Controlled(conn) => Some(conn),
                Attached::LeftAlone | Attached::TooEarly(_) => None,
            };
        }
    }

    fn end(&mut self, key: usize, reset: bool) {
        let slot = self.slots.remove(key);
        slot.session.release(&self.shared.runtime);
        if reset {
            Stats::one(&self.shared.stats.resets);
            slot.session.abort();
        }
        // The descriptors first: those who count connections count descriptors.
        drop(slot);
        self.left();
    }

    fn left(&self) {
        self.mailbox.load.fetch_sub(1, Ordering::Relaxed);
        self.shared.stats.closed();
    }
}

impl Attempt {
    /// Begins with the next address; `None` if there is none left.
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

/// What a relay wants of its sockets: no waiting for more data, which the ends have decided already, and to notice in the
/// end that an idle client is gone.
fn prepare(stream: &TcpStream) {
    // Refused only where the connection is broken already.
    drop(stream.set_nodelay(true));
    drop(SockRef::from(stream).set_keepalive(true));
}

fn reset(stream: &TcpStream) {
    drop(SockRef::from(stream).set_linger(Some(Duration::ZERO)));
}
