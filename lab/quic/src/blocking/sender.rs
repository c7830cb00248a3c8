// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::{
    Error, NO_ERROR, Stack, close_endpoint, ended, refused, socket, transport, would_block,
};
use crate::{Congestion, Gauge, StackController, TimedRuntime};
use noq::crypto::rustls::QuicClientConfig;
use noq::{
    ClientConfig, Connection, Endpoint, EndpointConfig, PathId, ReadError, RecvStream, SendStream,
    StoppedError, VarInt, WriteError,
};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// Time at the current rate that the data kept ready for the controller covers.
const READY_TIME: Duration = Duration::from_millis(5);
/// Minimum of that data, and of the recommended size of a write, in packets.
const MIN_READY_PACKETS: u64 = 4;
const MIN_WRITE_PACKETS: u64 = 2;
/// Maximum size of one write, bytes.
const MAX_WRITE: u64 = 64 * 1024;
/// Send window if the controller does not publish its own.
const DEFAULT_SEND_WINDOW: u64 = 4 << 20;
/// Time after which a program that has not waited counts as application-limited.
const APP_LIMITED_AFTER: Duration = Duration::from_millis(100);
/// Buffer size for reading an answer, bytes.
const ANSWER_BUFFER: usize = 1024;

/// The sending end.
pub struct Sender {
    runtime: Stack,
    endpoint: Endpoint,
    connection: Connection,
    stream: SendStream,
    answers: RecvStream,
    gauge: Option<Arc<Gauge>>,
    /// Data taken from the program and not yet by the stack.
    staged: Vec<u8>,
    /// The received and unread part of the answer.
    answered: Vec<u8>,
    finished: bool,
    /// The stack's limit of buffered data.
    bound: u64,
    /// Time at which the program last had more data than the stack took.
    waited: Instant,
}

/// Statistics of the sender so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SenderStats {
    /// The stack's smoothed round-trip time.
    pub rtt: Duration,
    /// Packets sent.
    pub packets: u64,
    /// Packets lost, whose data was sent again.
    pub lost: u64,
    /// Number of timeouts; `None` if the controller is not ours.
    pub timeouts: Option<u64>,
    /// The current window, bytes.
    pub window: u64,
    /// Size of the largest packet, bytes of UDP payload.
    pub mtu: u16,
}

impl Sender {
    /// Connects on `stack` within `patience` to a [`super::Listener`] that `tls` trusts under the
    /// name `name`. `congestion` controls the sending.
    ///
    /// # Errors
    /// [`Error`] of one line.
    pub fn connect(
        stack: &Stack,
        to: SocketAddr,
        from: Option<IpAddr>,
        name: &str,
        tls: Arc<noq::rustls::ClientConfig>,
        congestion: &Arc<Congestion>,
        patience: Duration,
    ) -> Result<Self, Error> {
        let mut transport = transport();
        congestion.set(&mut transport);
        let gauge = Some(congestion.gauge());
        Self::with(stack, to, from, name, tls, (transport, gauge), patience)
    }

    /// The same with one of the stack's own controllers.
    ///
    /// # Errors
    /// The errors of [`Sender::connect`].
    pub fn connect_with(
        stack: &Stack,
        to: SocketAddr,
        from: Option<IpAddr>,
        name: &str,
        tls: Arc<noq::rustls::ClientConfig>,
        own: StackController,
        patience: Duration,
    ) -> Result<Self, Error> {
        let mut transport = transport();
        transport.congestion_controller_factory(Arc::new(own));
        Self::with(stack, to, from, name, tls, (transport, None), patience)
    }

    fn with(
        stack: &Stack,
        to: SocketAddr,
        from: Option<IpAddr>,
        name: &str,
        tls: Arc<noq::rustls::ClientConfig>,
        (mut transport, gauge): (noq::TransportConfig, Option<Arc<Gauge>>),
        patience: Duration,
    ) -> Result<Self, Error> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => [0; 4].into(),
            SocketAddr::V6(_) => [0; 16].into(),
        };
        let at = SocketAddr::new(from.unwrap_or(any), 0);
        let local = |why: &dyn std::fmt::Display| Error::Local(at, why.to_string());
        let remote = |why: &dyn std::fmt::Display| Error::Remote(to, why.to_string());
        let runtime = stack.clone();
        let _inside = stack.enter();
        transport.send_window(DEFAULT_SEND_WINDOW);
        let tls = QuicClientConfig::try_from(tls).map_err(|e| local(&e))?;
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        let socket = socket(at).map_err(|e| local(&e))?;
        let endpoint = Endpoint::new(
            EndpointConfig::default(),
            None,
            socket,
            Arc::new(TimedRuntime::default()),
        )
        .map_err(|e| local(&e))?;
        let connecting = endpoint
            .connect_with(config, to, name)
            .map_err(|e| remote(&e))?;
        let open = async {
            let connection = connecting.await.map_err(|e| remote(&refused(&e)))?;
            let streams = connection.open_bi().await.map_err(|e| remote(&e))?;
            Ok((connection, streams))
        };
        let opened = runtime.block_on(async { timeout(patience, open).await });
        let (connection, (stream, answers)) = opened.unwrap_or_else(|_| {
            Err(remote(&format_args!(
                "no answer within {} s: does 'alcc-lab recv --transport quic' run there?",
                patience.as_secs_f64()
            )))
        })?;
        Ok(Self {
            runtime,
            endpoint,
            connection,
            stream,
            answers,
            gauge,
            staged: Vec::new(),
            answered: Vec::new(),
            finished: false,
            bound: DEFAULT_SEND_WINDOW,
            waited: Instant::now(),
        })
    }

    /// Passes staged data to the stack, as far as that takes it within `patience`. True: all of it.
    fn hand_over(&mut self, patience: Duration) -> io::Result<bool> {
        self.limit_send_window();
        let runtime = self.runtime.clone();
        while !self.staged.is_empty() {
            let (stream, staged) = (&mut self.stream, &self.staged);
            let write = poll_fn(|cx| Pin::new(&mut *stream).poll_write(cx, staged));
            let taken = if patience.is_zero() {
                let mut write = std::pin::pin!(write);
                let once = poll_fn(|cx| {
                    Poll::Ready(match write.as_mut().poll(cx) {
                        Poll::Ready(taken) => Some(taken),
                        Poll::Pending => None,
                    })
                });
                runtime.block_on(once)
            } else {
                runtime.block_on(async { timeout(patience, write).await.ok() })
            };
            match taken {
                None => return Ok(false),
                Some(Ok(n)) => {
                    self.staged.drain(..n);
                }
                Some(Err(why)) => return Err(unwritten(why)),
            }
        }
        Ok(true)
    }

    fn backlogged(&self, backlogged: bool) {
        if let Some(gauge) = &self.gauge {
            gauge.set_backlogged(backlogged);
        }
    }

    /// Limits the stack's buffer to the data in flight, and the data that the controller may send
    /// next.
    fn limit_send_window(&mut self) {
        let Some(gauge) = &self.gauge else { return };
        let packet = u64::from(self.connection.max_datagram_size().unwrap_or(1200) as u16);
        let (in_flight, window) = (gauge.in_flight(), gauge.window());
        let due = window.saturating_sub(in_flight).min(MAX_WRITE);
        let some = at_rate(gauge, READY_TIME).max(MIN_READY_PACKETS * packet);
        let bound = in_flight + some.max(due + MIN_WRITE_PACKETS * packet);
        if bound != self.bound {
            self.bound = bound;
            self.connection.set_send_window(bound);
        }
    }

    /// Waits, at most `patience`, until the stack has taken earlier data. Returns the recommended
    /// size of the next write: the data sent in some 5 ms. 0: not yet.
    ///
    /// # Errors
    /// The reason why the connection has ended.
    pub fn room(&mut self, patience: Duration) -> io::Result<usize> {
        if !self.hand_over(Duration::ZERO)? {
            self.waited = Instant::now();
            self.backlogged(true);
            if !self.hand_over(patience)? {
                return Ok(0);
            }
        } else if self.waited.elapsed() > APP_LIMITED_AFTER {
            self.backlogged(false);
        }
        let packet = self.connection.max_datagram_size().unwrap_or(1200) as u64;
        let piece = match &self.gauge {
            Some(gauge) => at_rate(gauge, READY_TIME),
            None => MAX_WRITE / 4,
        };
        let piece = piece.clamp(MIN_WRITE_PACKETS * packet, MAX_WRITE);
        Ok(usize::try_from(piece).unwrap_or(usize::MAX))
    }

    /// Ends writing. True when the receiver has everything: all data is acknowledged, or the
    /// receiver answers, which it does after the end. Waits at most `patience`.
    ///
    /// # Errors
    /// The reason why the connection has ended.
    pub fn finish(&mut self, patience: Duration) -> io::Result<bool> {
        if !self.answered.is_empty() {
            return Ok(true);
        }
        if !self.hand_over(patience)? {
            return Ok(false);
        }
        if !self.finished {
            self.stream.finish().map_err(io::Error::other)?;
            self.finished = true;
        }
        let stopped = self.stream.stopped();
        let (answers, answered) = (&mut self.answers, &mut self.answered);
        let all = async {
            let mut answer = std::pin::pin!(answer_of(answers, answered));
            let mut stopped = std::pin::pin!(stopped);
            let mut read = false;
            poll_fn(|cx| {
                if !read && let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                    read = true;
                    // An end without an answer is no confirmation.
                    if answer.is_ok_and(|n| n > 0) {
                        return Poll::Ready(Ok(true));
                    }
                }
                stopped.as_mut().poll(cx).map(acknowledged)
            })
            .await
        };
        let bounded = self
            .runtime
            .block_on(async { timeout(patience, all).await });
        bounded.unwrap_or(Ok(false))
    }

    /// Reads the receiver's answer; 0 is its end. `WouldBlock`: no data within `patience`.
    ///
    /// # Errors
    /// The reason why the connection has ended.
    pub fn answer(&mut self, into: &mut [u8], patience: Duration) -> io::Result<usize> {
        if self.answered.is_empty() {
            let read = answer_of(&mut self.answers, &mut self.answered);
            match self
                .runtime
                .block_on(async { timeout(patience, read).await })
            {
                Err(_) => return Err(would_block()),
                Ok(read) => read?,
            };
        }
        let n = into.len().min(self.answered.len());
        into[..n].copy_from_slice(&self.answered[..n]);
        self.answered.drain(..n);
        Ok(n)
    }

    /// The statistics so far.
    pub fn stats(&self) -> SenderStats {
        let path = self.connection.path_stats(PathId::ZERO).unwrap_or_default();
        SenderStats {
            rtt: path.rtt,
            packets: path.sent_packets,
            lost: path.lost_packets,
            timeouts: self.gauge.as_ref().map(|gauge| gauge.timeouts()),
            window: path.cwnd,
            mtu: path.current_mtu,
        }
    }
}

/// Reads more of an answer. Received data stays available even if the connection has ended since.
async fn answer_of(answers: &mut RecvStream, into: &mut Vec<u8>) -> io::Result<usize> {
    let mut piece = [0; ANSWER_BUFFER];
    let n = match answers.read(&mut piece).await {
        Ok(n) => n.unwrap_or(0),
        Err(ReadError::ConnectionLost(why)) => return Err(ended(&why)),
        Err(why) => return Err(why.into()),
    };
    into.extend_from_slice(&piece[..n]);
    Ok(n)
}

/// True if all data is acknowledged, derived from the end of the stream.
fn acknowledged(stopped: Result<Option<VarInt>, StoppedError>) -> io::Result<bool> {
    match stopped {
        Ok(None) => Ok(true),
        Ok(Some(code)) => Err(io::Error::new(
            io::ErrorKind::ConnectionReset,
            format!("the receiver stopped the transfer (code {code})"),
        )),
        Err(StoppedError::ConnectionLost(why)) => Err(ended(&why)),
        Err(why) => Err(why.into()),
    }
}

fn at_rate(gauge: &Gauge, span: Duration) -> u64 {
    let bits = gauge.delivery_rate() as f64 * span.as_secs_f64();
    (bits / 8.0) as u64
}

fn unwritten(why: WriteError) -> io::Error {
    match why {
        WriteError::ConnectionLost(why) => ended(&why),
        other => io::Error::new(io::ErrorKind::ConnectionReset, other.to_string()),
    }
}

impl io::Write for Sender {
    /// Takes a piece; the next one is taken when the stack has taken this one ([`Sender::room`]).
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.hand_over(Duration::ZERO)? {
            return Err(would_block());
        }
        let n = bytes.len().min(MAX_WRITE as usize);
        self.staged.extend_from_slice(&bytes[..n]);
        self.hand_over(Duration::ZERO)?;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.connection.close(NO_ERROR, b"");
        close_endpoint(&self.runtime, &self.endpoint);
    }
}
