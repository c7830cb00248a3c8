// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The common interface of TCP, UDP, QUIC and in-band: a stream of bytes under congestion control.
//! A transport is a crate that implements [`Transport`], and one row of a [`Table`].
//!
//! * No call blocks for longer than about [`MAX_WAIT`]. A call that would take longer reports that
//!   (`Ok(0)` room, `WouldBlock`) and is repeated. So one place, the caller, handles Ctrl-C and
//!   deadlines.
//! * Buffers are short: a transport takes only data that it can send within some milliseconds.
//! * All input from a peer is untrusted. Invalid input gives an error, never a panic, and memory is
//!   bounded.
#![forbid(unsafe_code)]

pub mod cleartext;
mod failure;
mod kernel;
mod sha256;
mod table;
pub mod tcp;
pub mod tls;

pub use alcc_sys::Target;
pub use failure::Failure;
pub use kernel::{Controls, check_under, default_under, own_or_loaded};
pub use sha256::Sha256;
pub use table::{About, Table, Takes, Tls, Under};

use alcc_cc::{Registry, Spec};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tls::{Fingerprint, Identity, Trust};

/// Approximate longest time that a call of a transport waits.
pub const MAX_WAIT: Duration = Duration::from_millis(200);
/// Maximum time for the acknowledgement of an answer: an outage at the very end may last some
/// seconds.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a write, bytes.
pub const MAX_WRITE: usize = 64 * 1024;
/// Default port of a receiver, for every transport.
pub const DEFAULT_PORT: u16 = 9700;

/// The addresses of a target, at least one, of the family of `bind` if that is given. Blocks on the
/// resolver.
///
/// # Errors
/// [`Failure::Usage`] with the resolver's error.
pub fn resolve(target: &Target, bind: Option<IpAddr>) -> Result<Vec<SocketAddr>, Failure> {
    let host = &target.host;
    let mut found = target.addresses().map_err(|e| {
        Failure::usage(format!(
            "look up {host}: {e}: check the name, or give an address"
        ))
    })?;
    found.retain(|a| bind.is_none_or(|b| b.is_ipv4() == a.is_ipv4()));
    if found.is_empty() {
        return Err(Failure::usage(format!(
            "look up {host}: it has no address of the family of --bind"
        )));
    }
    Ok(found)
}

/// The options of a user, the same for all transports. [`Table`] refuses those that the transport
/// does not take.
pub struct Options {
    /// The algorithm; `None`: that of the kernel or the stack.
    pub cc: Option<Spec>,
    /// The algorithms that can be named: our own and those of plug-ins.
    pub registry: Registry,
    /// The feedback: `auto` or a name.
    pub feedback: String,
    /// The enforcement: `auto` or a name.
    pub enforce: String,
    /// The kernel's or the stack's own algorithm; `None`: its default.
    pub under: Option<String>,
    /// Seed of the algorithm's random numbers. Flow number n gets its own.
    pub seed: u64,
    /// The local address to use.
    pub bind: Option<IpAddr>,
    /// True if unencrypted data may leave this machine.
    pub cleartext: bool,
    /// The certificates that a sender accepts, with TLS.
    pub trust: Trust,
    /// The receiver's certificate and key, with TLS; `None`: generated at the start.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The carrier of in-band, with its options; `None`: plain TCP.
    pub carrier: Option<String>,
    /// Maximum time for connecting.
    pub connect_timeout: Duration,
}

impl Options {
    /// Default options: every transport uses its own defaults.
    pub fn new(registry: Registry) -> Self {
        Self {
            cc: None,
            registry,
            feedback: "auto".to_owned(),
            enforce: "auto".to_owned(),
            under: None,
            seed: 1,
            bind: None,
            cleartext: false,
            trust: Trust::System,
            certificate: None,
            carrier: None,
            connect_timeout: Duration::from_secs(5),
        }
    }

    /// The given option that concerns certificates, if there is one.
    pub fn certificate_option(&self) -> Option<&'static str> {
        match self.trust {
            Trust::Pin(_) => Some("--pin"),
            Trust::Ca(_) => Some("--ca"),
            _ => self.certificate.as_ref().map(|_| "--cert"),
        }
    }

    /// The receiver's certificate: the given one, or a new one.
    ///
    /// # Errors
    /// [`Failure::Usage`]: a file cannot be used.
    pub fn identity(&self) -> Result<Identity, Failure> {
        match &self.certificate {
            Some((certificate, key)) => Identity::from_files(certificate, key),
            None => Identity::self_signed(&["alcc"]),
        }
    }

    /// The algorithm of a transport that needs one.
    ///
    /// # Errors
    /// [`Failure::Usage`] if there is none. [`Table::plan`] reports that earlier.
    pub fn algorithm(&self) -> Result<&Spec, Failure> {
        let none = || Failure::usage(format!("no algorithm: add --cc {}", alcc_cc::DEFAULT));
        self.cc.as_ref().ok_or_else(none)
    }
}

/// The description of a transfer in a result row. It is known before a connection is made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The scheme: `cubic`, `alcc-verus-tcp`, `verus-udp`.
    pub scheme: String,
    /// The algorithm in control: ours, or the kernel's.
    pub algorithm: String,
    /// Its options, without the name.
    pub options: String,
    /// The feedback: `udp`, `quic`, `in-band`, `timestamps`, `kernel`.
    pub feedback: String,
    /// The enforcement: `native`, `queue`, `queue+pacing`, `kernel`.
    pub enforcement: String,
    /// The kernel's algorithm below ours, if there is one.
    pub under: Option<String>,
}

impl Plan {
    /// A plan for one of these algorithms, with the default feedback and enforcement of the
    /// transport.
    pub fn new(scheme: String, spec: &Spec, about: &About) -> Self {
        Self {
            scheme,
            algorithm: spec.name.clone(),
            options: spec.options_text(),
            feedback: about.feedback.to_owned(),
            enforcement: about.enforcement.to_owned(),
            under: None,
        }
    }

    /// As [`Self::new`], for a transport without TCP: the scheme is called `verus-udp` or `verus-udp:r=4`.
    pub fn native(spec: &Spec, about: &About) -> Self {
        let options = spec.options_text();
        let colon = if options.is_empty() { "" } else { ":" };
        let scheme = format!("{}{}{colon}{options}", spec.name, about.suffix);
        Self::new(scheme, spec, about)
    }
}

/// Statistics of a sender at the end. Values that it cannot know are `None`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// Mean round-trip time, ms.
    pub rtt_mean_ms: Option<f64>,
    /// The 95th percentile of the round-trip time, ms.
    pub rtt_p95_ms: Option<f64>,
    /// Packets sent again.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Mean number of packets sent again in a row.
    pub rtx_burst: Option<f64>,
    /// Lateness of the transport's timers, 99th percentile, ms.
    pub lateness_p99_ms: Option<f64>,
}

/// A transport: a way to carry bytes.
pub trait Transport: Sync {
    /// Its row of the table.
    fn about(&self) -> About;

    /// The plan of a sender with these options. [`Table::plan`] has checked the restrictions of
    /// `about`.
    ///
    /// # Errors
    /// [`Failure::Usage`] for other restrictions, with the remedy.
    fn plan(&self, options: &Options) -> Result<Plan, Failure>;

    /// Prepares the common part of all flows of a sender; nothing is sent yet.
    ///
    /// # Errors
    /// [`Failure::Usage`], as in [`Transport::plan`].
    fn dialer<'a>(&self, options: &'a Options) -> Result<Box<dyn Dialer + 'a>, Failure>;

    /// Listens for senders at this address. [`Table::listen`] has checked the restrictions of
    /// `about`.
    ///
    /// # Errors
    /// [`Failure::Usage`]: the address is in use, not of this machine, or not allowed.
    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure>;
}

/// Opens flows, each from its own thread.
pub trait Dialer: Sync {
    /// Opens flow number `flow` (from 0) to a receiver, within `connect_timeout`.
    ///
    /// # Errors
    /// One line: [`Failure::Failed`] if the peer does not answer, [`Failure::Usage`] if it is not
    /// allowed.
    fn connect(&self, to: &Target, flow: u32) -> Result<Box<dyn Outgoing>, Failure>;
}

/// The sender's end of a flow. `write` takes as many bytes as possible within about [`MAX_WAIT`]
/// (`WouldBlock` if none). Any other error is the end of the flow and contains the reason. `flush`
/// does nothing.
pub trait Outgoing: Write + Send {
    /// Waits, at most [`MAX_WAIT`], until data can be written without waiting. Returns the best
    /// size of a write: the amount that can be sent within some 5 ms, at least two packets, at most
    /// [`MAX_WRITE`]. 0: not yet. The caller stamps the data with the time after this returns.
    ///
    /// # Errors
    /// The reason why the flow has ended.
    fn room(&mut self) -> io::Result<usize>;

    /// Ends writing. Call it until it returns true: the receiver has everything.
    ///
    /// # Errors
    /// The reason why the flow has ended. Instead of `WouldBlock` it returns `Ok(false)`.
    fn finish(&mut self) -> io::Result<bool>;

    /// Reads the receiver's answer after the end, as `read` does; `None`: this transport has no
    /// return path.
    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>>;

    /// A number that changes whenever the receiver acknowledges data, because written data may stay
    /// in a deep buffer for long. `None`: this transport has no such buffer.
    fn acknowledged(&self) -> Option<u64> {
        None
    }

    /// The statistics so far.
    fn stats(&mut self) -> Stats;
}

/// The receiver's end of a flow. `read` waits at most [`MAX_WAIT`] (then `WouldBlock`). 0 is the
/// sender's orderly end. An end that is not orderly is an error.
pub trait Incoming: Read + Send {
    /// The sender's address, for people.
    fn peer(&self) -> String;

    /// Writes an answer of some hundred bytes after the sender's end; false: this transport has no
    /// return path.
    ///
    /// # Errors
    /// The reason why it cannot be written.
    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool>;
}

/// A listener for senders.
pub trait Listening: Send {
    /// Its address, for people: `0.0.0.0:9700`.
    fn address(&self) -> String;

    /// Fingerprint of its certificate, with TLS.
    fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    /// The next flow; `None`: there was none within about [`MAX_WAIT`]. Handshakes are done
    /// elsewhere or are bounded, so that a silent peer does not delay others.
    ///
    /// # Errors
    /// The listener is broken: no further sender can connect.
    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>>;
}

/// True for errors after which the call is repeated: it would block, or was interrupted.
pub fn would_block(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
        || (error.kind() == TimedOut && error.raw_os_error().is_none())
}
