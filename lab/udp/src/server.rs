// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receivers over a socket: any number of flows in one event loop.
use crate::client::Cadence;
use crate::end::End;
use crate::hub::{Engine, Hub};
use crate::incoming::Incoming;
use crate::listener::{LINGER, Limits, Listener, ReceiverModules};
use crate::port::Port;
use alcc_sys::now;
use alcc_units::{Span, Time};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Maximum time between two iterations, unless much arrives. Each ACK reports its delay.
pub(crate) const MAX_PAUSE: Span = Span::from_millis(5);

struct Receiving {
    port: Port,
    listener: Listener,
    cadence: Cadence,
    /// Time after which no ACK is sent any more.
    stop: Option<Time>,
}

impl Receiving {
    fn flush(&mut self, now: Time) {
        let mut sender = self.port.sender();
        self.listener
            .poll(now, &mut |to, bytes| sender.send(to, bytes));
        sender.flush();
    }
}

impl Engine for Receiving {
    fn run(&mut self, now: Time) -> bool {
        let listener = &mut self.listener;
        let came = self.port.receive(&mut |sender, came| {
            let (at, from) = (came.at, came.from);
            if came.marked {
                listener.on_mark();
            }
            listener.on_datagram(now.max(at), at, from, came.bytes, &mut |to, bytes| {
                sender.send(to, bytes);
            });
        });
        self.flush(alcc_sys::now());
        self.cadence.on_iteration(now, came as u64);
        came > 0
    }

    fn next(&self) -> Option<Time> {
        // A stop time in the past is no reason to run, because handles may outlive it.
        let stop = self.stop.filter(|stop| *stop > now());
        [self.listener.next_timer(), stop]
            .into_iter()
            .flatten()
            .min()
    }

    fn pause(&self) -> Span {
        self.cadence.pause()
    }

    fn is_punctual(&self) -> bool {
        // The sender waits for the reports of a receiver module, fifty a second.
        true
    }

    fn late(&mut self, _: Span) {}

    fn is_idle(&self) -> bool {
        self.listener.is_empty() || self.stop.is_some_and(|stop| stop <= now())
    }
}

/// Server that accepts flows. After a drop it acknowledges for some seconds, then ends.
pub struct Server {
    hub: Arc<Hub<Receiving>>,
    address: SocketAddr,
}

impl Server {
    /// A server that receives at this socket.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(
        socket: UdpSocket,
        receiver_modules: ReceiverModules,
        limits: Limits,
    ) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let fd = socket.try_clone()?.into();
        // Without random numbers there is no protection, so this fails.
        getrandom::fill(&mut [0; 8]).map_err(io::Error::from)?;
        let entropy = Box::new(|bytes: &mut [u8]| {
            if getrandom::fill(bytes).is_err() {
                bytes.fill(0);
            }
        });
        let engine = Receiving {
            port: Port::new(socket)?,
            listener: Listener::new(now(), entropy, receiver_modules, limits),
            cadence: Cadence::new(MAX_PAUSE),
            stop: None,
        };
        let hub = Hub::start(engine, fd)?;
        Ok(Self { hub, address })
    }

    /// The listen address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for the next flow.
    pub fn accept(&self, most: Span) -> Option<Arrived> {
        let (id, from) = self.hub.wait(most, |engine| engine.listener.accept())?;
        Some(Arrived {
            hub: self.hub.clone(),
            id,
            from,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hub.with(|engine| {
            let now = now();
            engine.stop = Some(now + LINGER);
            engine.listener.refuse(now);
            engine.flush(now);
        });
        self.hub.close();
        // The process may end after this, so senders must be informed now, or within a bounded
        // time, that everything has arrived.
        self.hub
            .wait(LINGER, |engine| engine.listener.is_empty().then_some(()));
    }
}

/// The receiving end of a flow. Dropping it before the end informs the sender of the abort.
pub struct Arrived {
    hub: Arc<Hub<Receiving>>,
    id: u64,
    from: SocketAddr,
}

impl Arrived {
    /// The sender's address.
    pub fn peer(&self) -> SocketAddr {
        self.from
    }

    /// Waits for data to read. `Ok(None)`: none came; `Ok(Some(0))`: the end.
    ///
    /// # Errors
    /// An abort or silence of the sender.
    pub fn read(&self, into: &mut [u8], most: Span) -> io::Result<Option<usize>> {
        let id = self.id;
        let read = self.hub.wait(most, |engine| {
            let now = now();
            match engine.listener.read(now, id, into) {
                None => Some(Err(failed(&End::Aborted))),
                Some(0) => ended(engine.listener.get(id)?),
                Some(n) => {
                    if engine.listener.next_timer().is_some_and(|at| at <= now) {
                        engine.flush(now);
                    }
                    Some(Ok(n))
                }
            }
        });
        read.transpose()
    }

    /// Sends an answer to the sending application after the end: at most 128 bytes. It is repeated
    /// until received, also after this handle is dropped, for a bounded time.
    pub fn answer(&self, bytes: &[u8]) {
        let id = self.id;
        self.hub.with(|engine| {
            let now = now();
            if let Some(incoming) = engine.listener.get(id) {
                incoming.answer(now, bytes);
                engine.listener.due(now, id);
                engine.flush(now);
            }
        });
    }
}

fn ended(incoming: &Incoming) -> Option<io::Result<usize>> {
    if incoming.is_read() {
        return Some(Ok(0));
    }
    // Everything before the end has been read.
    incoming.ended().map(|end| Err(failed(end)))
}

fn failed(end: &End) -> io::Error {
    let kind = match end {
        End::Silent(_) | End::NoAnswer(_) => io::ErrorKind::ConnectionAborted,
        End::Violation(_) => io::ErrorKind::InvalidData,
        _ => io::ErrorKind::ConnectionReset,
    };
    io::Error::new(kind, end.clone())
}

impl Drop for Arrived {
    fn drop(&mut self) {
        let id = self.id;
        self.hub.with(|engine| {
            let now = now();
            engine.listener.release(now, id);
            engine.flush(now);
        });
    }
}
