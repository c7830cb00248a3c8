// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The acceptor: accepts connections and passes each to the loop that has the fewest.
use crate::stats::Stats;
use crate::worker::{ClientPlace, Inbox, Shared};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

const INBOX: Token = Token(usize::MAX);
/// Pause of accepting when descriptors or memory have run out; clients wait in the kernel's
/// backlog.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The same after the loops have been requested to close silent connections.
const ROOM_PAUSE: Duration = Duration::from_millis(50);

/// Handle that ends a proxy, from any thread.
pub struct Stopper {
    /// Time by which the connections must have finished.
    deadline: Mutex<Option<Instant>>,
    waker: mio::Waker,
    loops: Vec<Arc<Inbox>>,
    shared: Arc<Shared>,
}

impl Stopper {
    /// Stops listening, waits for the connections to finish, and resets those that remain after
    /// `grace`. A second call may shorten the time.
    pub fn stop(&self, grace: Duration) {
        let until = Instant::now() + grace;
        let mut deadline = self.lock();
        let again = deadline.is_some();
        *deadline = Some(deadline.map_or(until, |at| at.min(until)));
        if again {
            self.stop_loops(until);
        }
        // This fails only if the acceptor is gone.
        drop(self.waker.wake());
    }

    /// Number of connections that have not finished.
    pub fn open(&self) -> u64 {
        self.shared.stats.open.load(Ordering::Relaxed)
    }

    fn stop_loops(&self, deadline: Instant) {
        self.loops.iter().for_each(|l| l.stop(deadline));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        alcc_sys::lock(&self.deadline)
    }
}

pub(crate) struct Acceptor {
    poll: Poll,
    listeners: Vec<TcpListener>,
    /// True for listeners that may have a client waiting.
    waiting: Vec<bool>,
    stopper: Arc<Stopper>,
    shared: Arc<Shared>,
    /// Limit of connections, so that descriptors for the connections to the server remain.
    max_connections: u64,
    paused: Option<Instant>,
}

impl Acceptor {
    pub(crate) fn new(
        listeners: Vec<std::net::TcpListener>,
        shared: Arc<Shared>,
        loops: Vec<Arc<Inbox>>,
        max_connections: u64,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listeners: Vec<_> = listeners.into_iter().map(TcpListener::from_std).collect();
        for (i, listener) in listeners.iter_mut().enumerate() {
            poll.registry()
                .register(listener, Token(i), Interest::READABLE)?;
        }
        let stopper = Arc::new(Stopper {
            deadline: Mutex::new(None),
            waker: mio::Waker::new(poll.registry(), INBOX)?,
            loops,
            shared: Arc::clone(&shared),
        });
        Ok(Self {
            poll,
            waiting: vec![false; listeners.len()],
            listeners,
            stopper,
            shared,
            max_connections,
            paused: None,
        })
    }

    pub(crate) fn stopper(&self) -> Arc<Stopper> {
        Arc::clone(&self.stopper)
    }

    /// Runs until it is stopped; connections in the backlog at that time are still accepted. Then
    /// it stops the loops.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        loop {
            let timeout = self
                .paused
                .map(|at| at.saturating_duration_since(Instant::now()));
            match self.poll.poll(&mut events, timeout) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                if let Some(waiting) = self.waiting.get_mut(event.token().0) {
                    *waiting = true;
                }
            }
            if self.paused.is_some_and(|at| at <= Instant::now()) {
                self.paused = None;
            }
            for i in 0..self.listeners.len() {
                self.accept(i);
            }
            let stop = *self.stopper.lock();
            if let Some(deadline) = stop {
                self.stopper.stop_loops(deadline);
                return Ok(());
            }
        }
    }

    fn accept(&mut self, i: usize) {
        while self.waiting[i] && self.paused.is_none() {
            if self.shared.stats.open.load(Ordering::Relaxed) >= self.max_connections {
                self.stopper.loops.iter().for_each(|l| l.make_room());
                self.pause(ROOM_PAUSE);
                return;
            }
            match self.listeners[i].accept() {
                Ok((stream, peer)) => {
                    let place = ClientPlace::take(&self.shared, peer.ip());
                    self.hand_over(stream, place);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.waiting[i] = false,
                Err(e) if is_shortage(&e) => self.pause(ACCEPT_PAUSE),
                // The client failed before it was accepted; by accept(2) the loop continues.
                Err(_) => {}
            }
        }
    }

    fn pause(&mut self, pause: Duration) {
        Stats::one(&self.shared.stats.accept_pauses);
        self.paused = Some(Instant::now() + pause);
    }

    fn hand_over(&self, stream: TcpStream, place: ClientPlace) {
        self.shared.stats.opened();
        let least = self
            .stopper
            .loops
            .iter()
            .min_by_key(|l| l.load.load(Ordering::Relaxed));
        if let Some(inbox) = least {
            inbox.hand_over(stream, place);
        }
    }
}

fn is_shortage(e: &io::Error) -> bool {
    matches!(
        e.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
