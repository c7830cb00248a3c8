// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A pipe of bytes with a congestion control behind it: what TCP, UDP, QUIC and in-band have in
//! common. A transport is a crate that implements [`Transport`], and one row of a [`Table`].
//!
//! * No call blocks for longer than about [`MAX_WAIT`]. What takes longer says so (`Ok(0)` room,
//!   `WouldBlock`) and is asked again. So one place, the caller, notices Ctrl-C and deadlines.
//! * Nothing hides in a buffer: a transport takes what it can send within some milliseconds.
//! * Whatever comes from a peer is untrusted. It gives an error, never a panic, and never takes
//!   more memory than what is bounded.
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

/// Longest time that a call of a transport waits for something, about.
pub const MAX_WAIT: Duration = Duration::from_millis(200);
/// Time for an answer to be acknowledged: an outage at the very end may last some seconds.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest piece that is written at once.
pub const MAX_WRITE: usize = 64 * 1024;
/// Where a receiver listens unless it is told otherwise, for every transport.
pub const DEFAULT_PORT: u16 = 9700;

/// The addresses of a target, at least one, of the family of `bind` if that is given. Waits for the
/// resolver.
///
/// # Errors
/// [`Failure::Usage`] with what the resolver says.
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

/// What a user asks for, the same for all transports. [`Table`] refuses what a transport does not
/// take.
pub struct Options {
    /// The algorithm; `None`: the kernel or the stack decides.
    pub cc: Option<Spec>,
    /// Our own algorithms and those of plug-ins.
    pub registry: Registry,
    /// `auto` or a name.
    pub feedback: String,
    /// `auto` or a name.
    pub enforce: String,
    /// The kernel's or the stack's own algorithm; `None`: what it uses by itself.
    pub under: Option<String>,
    /// Seed of the algorithm's generator. Flow number n gets its own.
    pub seed: u64,
    /// The local address to use.
    pub bind: Option<IpAddr>,
    /// What is not encrypted may leave this machine.
    pub cleartext: bool,
    /// Whose certificate a sender accepts, where there is TLS.
    pub trust: Trust,
    /// The receiver's certificate and key, where there is TLS; `None`: made at the start.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What in-band runs over, with its options; `None`: plain TCP.
    pub carrier: Option<String>,
    /// How long connecting may take.
    pub connect_timeout: Duration,
}

impl Options {
    /// Nothing is asked for: every transport does what it does by itself.
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

    /// The option that says something about a certificate, if one does.
    pub fn certificate_option(&self) -> Option<&'static str> {
        match self.trust {
            Trust::Pin(_) => Some("--pin"),
            Trust::Ca(_) => Some("--ca"),
            _ => self.certificate.as_ref().map(|_| "--cert"),
        }
    }

    /// The receiver's certificate: the one that is named, or a new one.
    ///
    /// # Errors
    /// [`Failure::Usage`]: a file that cannot be used.
    pub fn identity(&self) -> Result<Identity, Failure> {
        match &self.certificate {
            Some((certificate, key)) => Identity::from_files(certificate, key),
            None => Identity::self_signed(&["alcc"]),
        }
    }

    /// The algorithm of a transport that needs one.
    ///
    /// # Errors
    /// [`Failure::Usage`]: there is none. [`Table::plan`] says so before.
    pub fn algorithm(&self) -> Result<&Spec, Failure> {
        let none = || Failure::usage(format!("no algorithm: add --cc {}", alcc_cc::DEFAULT));
        self.cc.as_ref().ok_or_else(none)
    }
}

/// What a row says of how it was sent. It is known before a connection is made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// `cubic`, `alcc-verus-tcp`, `verus-udp`.
    pub scheme: String,
    /// The algorithm that decides: ours, or the kernel's.
    pub algorithm: String,
    /// Its options, without the name.
    pub options: String,
    /// `udp`, `quic`, `in-band`, `timestamps`, `kernel`.
    pub feedback: String,
    /// `native`, `queue`, `queue+pacing`, `kernel`.
    pub enforcement: String,
    /// The kernel's algorithm below ours, if there is one.
    pub under: Option<String>,
}

impl Plan {
    /// One of these algorithms, with the feedback and enforcement that the transport has by itself.
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

    /// As [`Self::new`], for a transport without TCP: `verus-udp`, `verus-udp:r=4`.
    pub fn native(spec: &Spec, about: &About) -> Self {
        let options = spec.options_text();
        let colon = if options.is_empty() { "" } else { ":" };
        let scheme = format!("{}{}{colon}{options}", spec.name, about.suffix);
        Self::new(scheme, spec, about)
    }
}

/// What a sender knows at the end. What it cannot know is `None`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// Round trip, ms.
    pub rtt_mean_ms: Option<f64>,
    /// The same: 95th percentile.
    pub rtt_p95_ms: Option<f64>,
    /// Packets sent again.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Mean number of packets sent again in a row.
    pub rtx_burst: Option<f64>,
    /// How late the transport's timers were, 99th percentile.
    pub lateness_p99_ms: Option<f64>,
}

/// A way to carry bytes.
pub trait Transport: Sync {
    /// Its row of the table.
    fn about(&self) -> About;

    /// What a sender with these options will be. [`Table::plan`] has checked what `about` says.
    ///
    /// # Errors
    /// [`Failure::Usage`]: what else it cannot have, and what would be right.
    fn plan(&self, options: &Options) -> Result<Plan, Failure>;

    /// What all flows of a sender have in common; nothing is sent yet.
    ///
    /// # Errors
    /// [`Failure::Usage`]: as [`Transport::plan`].
    fn dialer<'a>(&self, options: &'a Options) -> Result<Box<dyn Dialer + 'a>, Failure>;

    /// Waits for senders at this address. [`Table::listen`] has checked what `about` says.
    ///
    /// # Errors
    /// [`Failure::Usage`]: in use, not of this machine, not allowed.
    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure>;
}

/// Opens flows, each from its own thread.
pub trait Dialer: Sync {
    /// Opens flow number `flow` (from 0) to a receiver, within `connect_timeout`.
    ///
    /// # Errors
    /// One line: [`Failure::Failed`] if nobody answers, [`Failure::Usage`] if it is not allowed.
    fn connect(&self, to: &Target, flow: u32) -> Result<Box<dyn Outgoing>, Failure>;
}

/// The sender's end of a flow. `write` takes what it can within about [`MAX_WAIT`] (`WouldBlock` if
/// that is nothing). Any other error is the end of the flow and says why. `flush` does nothing.
pub trait Outgoing: Write + Send {
    /// Waits, at most [`MAX_WAIT`], until something can be written without waiting. Says how much
    /// is best written at once. That is what can be sent within some 5 ms, at least two packets, at
    /// most [`MAX_WRITE`]. 0: not yet. What is written is stamped with the time after this returns.
    ///
    /// # Errors
    /// Why the flow has ended.
    fn room(&mut self) -> io::Result<usize>;

    /// Nothing more will be written. Asked again until it says true: the receiver has everything.
    ///
    /// # Errors
    /// Why the flow has ended. `WouldBlock` is none: `Ok(false)`.
    fn finish(&mut self) -> io::Result<bool>;

    /// Reads what the receiver answers after the end, as `read` does; `None`: this transport has no
    /// way back.
    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>>;

    /// Another number whenever the receiver's end has acknowledged something: what was written may
    /// lie in a deep buffer for long. `None`: nothing lies long here.
    fn acknowledged(&self) -> Option<u64> {
        None
    }

    /// So far.
    fn stats(&mut self) -> Stats;
}

/// The receiver's end of a flow. `read` waits at most [`MAX_WAIT`] (then `WouldBlock`). 0 is the
/// sender's orderly end. An end that is not orderly is an error.
pub trait Incoming: Read + Send {
    /// The sender's address, for people to read.
    fn peer(&self) -> String;

    /// Writes an answer of some hundred bytes after the sender's end; false: this transport has no
    /// way back.
    ///
    /// # Errors
    /// Why it cannot.
    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool>;
}

/// Where senders are waited for.
pub trait Listening: Send {
    /// For people: `0.0.0.0:9700`.
    fn address(&self) -> String;

    /// Fingerprint of the certificate that it shows, where there is TLS.
    fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    /// The next flow; `None`: nobody came within about [`MAX_WAIT`]. Handshakes happen elsewhere or
    /// are bounded: a stranger that says nothing must not keep others out.
    ///
    /// # Errors
    /// No further sender will come.
    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>>;
}

/// What would block, or was interrupted, is tried again.
pub fn would_block(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
        || (error.kind() == TimedOut && error.raw_os_error().is_none())
}
