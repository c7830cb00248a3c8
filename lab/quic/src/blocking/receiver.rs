// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::{Error, NO_ERROR, Stack, close_endpoint, socket, transport, would_block};
use crate::TimedRuntime;
use noq::crypto::rustls::QuicServerConfig;
use noq::{
    Connection, Endpoint, EndpointConfig, Incoming, PathId, RecvStream, SendStream, ServerConfig,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// Maximum number of concurrent handshakes; further clients are refused.
const MAX_HANDSHAKES: usize = 64;
/// Number of concurrent handshakes from which on clients have to prove their address first (Retry).
const MAX_UNVALIDATED: usize = 16;
/// Maximum duration of a handshake, up to the first byte of the stream.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections that wait to be accepted.
const MAX_BACKLOG: usize = 64;
/// An unacknowledged answer is retransmitted while the sender sends anything, and for this time
/// after its last packet, because an outage at the very end may last some seconds; for `MAX_WAIT`
/// in total.
const MAX_SILENCE: Duration = Duration::from_secs(10);
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Interval of checking that.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// A sender that has acknowledged the answer closes the connection. If the sender's
/// CONNECTION_CLOSE is lost, nothing else comes. So the receiver closes after this time and this
/// many round trips (RFC 9000, section 10.2: three PTO).
const MIN_CLOSE_WAIT: Duration = Duration::from_millis(500);
const MIN_CLOSE_WAIT_RTTS: u32 = 9;

/// Listener for senders.
pub struct Listener {
    runtime: Stack,
    endpoint: Endpoint,
    ready: mpsc::Receiver<Receiver>,
}

impl Listener {
    /// Listens at `at` with the certificate of `tls`.
    ///
    /// # Errors
    /// [`Error`] of one line.
    pub fn bind(at: SocketAddr, tls: Arc<noq::rustls::ServerConfig>) -> Result<Self, Error> {
        let local = |why: &dyn std::fmt::Display| Error::Local(at, why.to_string());
        let runtime = Stack::start().map_err(|e| local(&e))?;
        let within = runtime.clone();
        let _inside = within.enter();
        let tls = QuicServerConfig::try_from(tls).map_err(|e| local(&e))?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(transport()));
        let socket = socket(at).map_err(|e| local(&e))?;
        let endpoint = Endpoint::new(
            EndpointConfig::default(),
            Some(config),
            socket,
            Arc::new(TimedRuntime::default()),
        )
        .map_err(|e| local(&e))?;
        let (accepted, ready) = mpsc::channel(MAX_BACKLOG);
        runtime.spawn(welcome(endpoint.clone(), accepted, runtime.clone()));
        Ok(Self {
            runtime,
            endpoint,
            ready,
        })
    }

    /// The listen address.
    ///
    /// # Errors
    /// The error of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// The next sender; `None`: there was none within `patience`.
    ///
    /// # Errors
    /// The listener is broken: no further sender can connect.
    pub fn accept(&mut self, patience: Duration) -> io::Result<Option<Receiver>> {
        let runtime = self.runtime.clone();
        let next = self.ready.recv();
        match runtime.block_on(async { timeout(patience, next).await }) {
            Err(_) => Ok(None),
            Ok(Some(receiver)) => Ok(Some(receiver)),
            Ok(None) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.endpoint.close(NO_ERROR, b"");
        close_endpoint(&self.runtime, &self.endpoint);
    }
}

/// Accepts connections; handshakes run concurrently.
async fn welcome(endpoint: Endpoint, accepted: mpsc::Sender<Receiver>, runtime: Stack) {
    let places = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    while let Some(incoming) = endpoint.accept().await {
        if accepted.is_closed() {
            return;
        }
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            incoming.refuse();
            continue;
        };
        let crowded = places.available_permits() < MAX_HANDSHAKES - MAX_UNVALIDATED;
        if crowded && !incoming.remote_address_validated() {
            // The client repeats its packet with the token.
            incoming.retry().ok();
            continue;
        }
        let (accepted, runtime) = (accepted.clone(), runtime.clone());
        tokio::spawn(async move {
            // An error of one client does not matter.
            if let Ok(Some(receiver)) = timeout(HANDSHAKE_TIMEOUT, greet(incoming, runtime)).await {
                accepted.send(receiver).await.ok();
            }
            drop(place);
        });
    }
}

async fn greet(incoming: Incoming, runtime: Stack) -> Option<Receiver> {
    let peer = incoming.remote_address();
    let connection = incoming.await.ok()?;
    let (answers, stream) = connection.accept_bi().await.ok()?;
    Some(Receiver {
        runtime,
        connection,
        stream,
        answers,
        peer,
        answered: false,
    })
}

/// The receiving end.
pub struct Receiver {
    runtime: Stack,
    connection: Connection,
    stream: RecvStream,
    answers: SendStream,
    peer: SocketAddr,
    answered: bool,
}

impl Receiver {
    /// The sender's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Reads; 0 is the sender's orderly end. `WouldBlock`: no data within `patience`.
    ///
    /// # Errors
    /// The reason why the connection has ended.
    pub fn read(&mut self, into: &mut [u8], patience: Duration) -> io::Result<usize> {
        let read = self.stream.read(into);
        match self
            .runtime
            .block_on(async { timeout(patience, read).await })
        {
            Err(_) => Err(would_block()),
            Ok(Ok(n)) => Ok(n.unwrap_or(0)),
            Ok(Err(why)) => Err(why.into()),
        }
    }

    /// Writes the whole answer within `patience`.
    ///
    /// # Errors
    /// The reason why the connection has ended, or `TimedOut`.
    pub fn answer(&mut self, bytes: &[u8], patience: Duration) -> io::Result<()> {
        let write = self.answers.write_all(bytes);
        let written = self
            .runtime
            .block_on(async { timeout(patience, write).await });
        match written {
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(done) => done.map_err(io::Error::other)?,
        }
        self.answered = true;
        self.answers.finish().map_err(io::Error::other)
    }
}

impl Receiver {
    /// Waits until the sender has the answer and has closed the connection. If this end closed
    /// first, the sender might miss the last acknowledgement, or the end itself.
    async fn wait_for_close(&self) {
        let began = Instant::now();
        let (mut heard, mut last) = (0, began);
        let mut acknowledged = std::pin::pin!(self.answers.stopped());
        // A lost connection also ends the wait.
        while timeout(POLL_INTERVAL, acknowledged.as_mut()).await.is_err() {
            let came = self.connection.stats().udp_rx.datagrams;
            if came != heard {
                (heard, last) = (came, Instant::now());
            }
            if last.elapsed() > MAX_SILENCE || began.elapsed() > MAX_WAIT {
                return;
            }
        }
        let rtt = self.connection.rtt(PathId::ZERO).unwrap_or_default();
        let long = MIN_CLOSE_WAIT.max(rtt * MIN_CLOSE_WAIT_RTTS);
        timeout(long, self.connection.closed()).await.ok();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if self.answered && Handle::try_current().is_err() {
            self.runtime.block_on(self.wait_for_close());
        }
        self.connection.close(NO_ERROR, b"");
    }
}
