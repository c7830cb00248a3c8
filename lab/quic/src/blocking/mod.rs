// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection with one stream as a blocking byte stream.
//!
//! The stack runs on a thread of its own ([`Stack`]). Only the stack's own buffer is between the
//! program and the congestion controller, and it is kept short ([`Sender::room`]).
mod receiver;
mod sender;

pub use receiver::{Listener, Receiver};
pub use sender::{Sender, SenderStats};

use noq::rustls;
use noq::{ConnectionError, Endpoint, TransportConfig, VarInt};
use socket2::SockRef;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

/// The application protocol; this crate is at both ends.
pub const ALPN: &[u8] = b"alcc";

/// Limit of a receiver's window. A receiver that reads at once need not limit the sender, but the
/// stack ends a connection when a stream has more than 1024 gaps ("too many gaps in stream
/// buffer"). With less than this in flight there are fewer, even if every second packet of 1200
/// bytes is lost.
const RECEIVE_WINDOW: u32 = 2_300_000;
const SOCKET_BUFFER: usize = 4 << 20;
/// Idle timeout: a shorter outage does not end a connection.
const MAX_IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// The error code of an end that has finished, or wants no more data.
const NO_ERROR: VarInt = VarInt::from_u32(0);
/// Time for sending CONNECTION_CLOSE before the thread or the process may end.
const CLOSE_TIME: Duration = Duration::from_millis(20);

/// Error of a connection that could not be established.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The error is at this end.
    #[error("QUIC at {0}: {1}")]
    Local(SocketAddr, String),
    /// The other end does not respond correctly.
    #[error("connect to {0} by QUIC: {1}")]
    Remote(SocketAddr, String),
}

/// The thread on which the stack runs for all clones of this value. It ends with the last of them.
#[derive(Clone)]
pub struct Stack(Arc<Thread>);

struct Thread {
    handle: Handle,
    /// Dropping it ends the thread.
    _alive: oneshot::Sender<()>,
}

impl Stack {
    /// Starts the thread.
    ///
    /// # Errors
    /// The error of the system if it cannot start a thread or has no descriptors.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (alive, ended) = oneshot::channel::<()>();
        let builder = std::thread::Builder::new().name("quic".to_owned());
        alcc_sys::spawn(builder, move || {
            runtime.block_on(async {
                ended.await.ok();
                sleep(CLOSE_TIME).await;
            });
        })?;
        Ok(Self(Arc::new(Thread {
            handle,
            _alive: alive,
        })))
    }
}

impl Deref for Stack {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.0.handle
    }
}

/// A socket with buffers for a thread that does not run for some milliseconds. The system may give
/// less.
fn socket(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    SockRef::from(&socket)
        .set_recv_buffer_size(SOCKET_BUFFER)
        .ok();
    SockRef::from(&socket)
        .set_send_buffer_size(SOCKET_BUFFER)
        .ok();
    Ok(socket)
}

/// Waits until the closed connections of an endpoint have sent their close.
fn close_endpoint(runtime: &Handle, endpoint: &Endpoint) {
    if Handle::try_current().is_err() {
        let said = async { timeout(CLOSE_TIME, endpoint.wait_all_draining()).await };
        // The answer is not used.
        runtime.block_on(said).ok();
    }
}

/// Settings of both ends.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(RECEIVE_WINDOW.into());
    transport.receive_window(RECEIVE_WINDOW.into());
    transport.max_concurrent_uni_streams(0u8.into());
    transport.max_concurrent_bidi_streams(1u8.into());
    transport.keep_alive_interval(Some(Duration::from_secs(10)));
    let idle = u32::try_from(MAX_IDLE_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    transport.max_idle_timeout(Some(VarInt::from_u32(idle).into()));
    transport
}

/// The error in words, with a kind that shows which end closed the connection.
fn ended(why: &ConnectionError) -> io::Error {
    let kind = match why {
        ConnectionError::TimedOut => io::ErrorKind::TimedOut,
        ConnectionError::Reset | ConnectionError::ApplicationClosed(_) => {
            io::ErrorKind::ConnectionReset
        }
        _ => io::ErrorKind::ConnectionAborted,
    };
    io::Error::new(kind, why.to_string())
}

/// The reason of a failed handshake, with the text of the check that refused the certificate.
fn refused(why: &ConnectionError) -> String {
    if let ConnectionError::TransportError(error) = why
        && let Some(crypto) = &error.crypto
        && let Some(rustls::Error::InvalidCertificate(why)) = crypto.downcast_ref()
    {
        return match why {
            rustls::CertificateError::Other(other) => other.0.to_string(),
            other => format!("its certificate is not accepted: {other:?}"),
        };
    }
    why.to_string()
}

/// The error for "not yet".
fn would_block() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}
