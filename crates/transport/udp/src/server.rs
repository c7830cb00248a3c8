// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receiving ends over a socket: any number of flows in one loop.
use crate::client::Cadence;
use crate::end::End;
use crate::hub::{Engine, Hub};
use crate::incoming::Incoming;
use crate::listener::{Halves, LINGER, Limits, Listener};
use crate::port::Port;
use alcc_sys::now;
use alcc_units::{Span, Time};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// What has come is read and acknowledged so often at most, unless it is much. Each acknowledgement says for how long it held what.
pub(crate) const TURN: Span = Span::from_millis(5);

struct Receiving {
    port: Port,
    listener: Listener,
    cadence: Cadence,
    /// After this no acknowledgement is sent any more, whoever still waits for one.
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
    fn turn(&mut self, now: Time) -> bool {
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
        self.cadence.turned(now, came as u64);
        came > 0
    }

    fn next(&self) -> Option<Time> {
        // Once past it is no reason to turn the loop: handles may outlive it.
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
        // Reports of an algorithm's half, fifty a second: its sender waits for them.
        true
    }

    fn late(&mut self, _: Span) {}

    fn is_idle(&self) -> bool {
        self.listener.is_empty() || self.stop.is_some_and(|stop| stop <= now())
    }
}

/// Where senders are waited for. Dropped, it acknowledges for some seconds what senders have not heard of, and is gone.
pub struct Server {
    hub: Arc<Hub<Receiving>>,
    address: SocketAddr,
}

impl Server {
    /// Receives at this socket.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn new(socket: UdpSocket, halves: Halves, limits: Limits) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let fd = socket.try_clone()?.into();
        // Without entropy there is no protection: better no server.
        getrandom::fill(&mut [0; 8]).map_err(io::Error::from)?;
        let entropy = Box::new(|bytes: &mut [u8]| {
            if getrandom::fill(bytes).is_err() {
                bytes.fill(0);
            }
        });
        let engine = Receiving {
            port: Port::new(socket)?,
            listener: Listener::new(now(), entropy, halves, limits),
            cadence: Cadence::new(TURN),
            stop: None,
        };
        let hub = Hub::start(engine, fd)?;
        Ok(Self { hub, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits, at most so long, for the next flow.
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
        // The process may end after this: who has not heard that all has arrived hears it now, or within a bounded time.
        self.hub
            .wait(LINGER, |engine| engine.listener.is_empty().then_some(()));
    }
}

/// The receiving end of a flow. Dropped before its end, it tells the sender that it was given up.
pub struct Arrived {
    hub: Arc<Hub<Receiving>>,
    id: u64,
    from: SocketAddr,
}

impl Arrived {
    /// Who sends.
    pub fn peer(&self) -> SocketAddr {
        self.from
    }

    /// Waits, at most so long, for something to read. `Ok(None)`: nothing came; `Ok(Some(0))`: the end.
    ///
    /// # Errors
    /// An end that is none: the sender gave up, or is silent.
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

    /// Says something to the sending application, after the end: at most 128 bytes. It is repeated until it has been heard, also after
    /// this handle is gone, for a bounded time.
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
    // What has come before the end has been read.
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
