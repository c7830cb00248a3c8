// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `alcc send` and `alcc recv` send through. A transport is one file here and one line in [`ALL`]: a blocking pipe of bytes with
//! a congestion control behind it.
//!
//! * Nothing blocks for longer than about [`TURN`]: what takes longer says so (`Ok(0)` room, `WouldBlock`) and is asked again, so that
//!   Ctrl-C and deadlines are noticed by one place, the caller.
//! * Nothing hides in a buffer: a transport takes from the application what it can send within some milliseconds, and no more.
//! * Whatever comes from a peer is untrusted: it gives an error, never a panic, and never more memory than what is bounded.
mod carried;
pub(crate) mod certificate;
mod inband;
mod quic;
mod tcp;
mod udp;

use crate::failure::Failure;
use alcc_carrier::tls::{Fingerprint, Trust};
use alcc_cc::{Registry, Spec};
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Longest time that a call of a transport waits for something, about.
pub(crate) const TURN: Duration = Duration::from_millis(200);
/// An answer gets so much time to be acknowledged: an outage or a full queue at the very end may last some seconds.
pub(crate) const FAREWELL: Duration = Duration::from_secs(10);
/// The largest piece that is written at once.
pub(crate) const PIECE: usize = 64 * 1024;
/// Where `alcc recv` listens unless it is told otherwise, for every transport.
pub(crate) const PORT: u16 = 9700;

/// All there are; the first is the default.
pub(crate) const ALL: &[&dyn Transport] = &[&tcp::Tcp, &inband::InBand, &udp::Udp, &quic::Quic];

/// Their names, and what they are, for the command line.
pub(crate) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(
        ALL.iter()
            .map(|t| PossibleValue::new(t.name()).help(t.summary())),
    )
}

/// The one of this name.
pub(crate) fn find(name: &str) -> Result<&'static dyn Transport, Failure> {
    let found = ALL.iter().find(|t| t.name() == name).copied();
    found.ok_or_else(|| {
        let known: Vec<_> = ALL.iter().map(|t| t.name()).collect();
        Failure::usage(format!(
            "no transport '{name}': there are {}",
            known.join(", ")
        ))
    })
}

/// What the options of the command line say, the same for all transports; what concerns only some is refused by the others in
/// [`Transport::plan`].
pub(crate) struct Options {
    /// The algorithm; `None`: none of ours was asked for.
    pub(crate) cc: Option<Spec>,
    /// Our own algorithms and those of plug-ins.
    pub(crate) registry: Registry,
    /// `auto` or a name.
    pub(crate) feedback: String,
    /// `auto` or a name.
    pub(crate) enforce: String,
    /// The kernel's algorithm below; `None`: what the system uses.
    pub(crate) under: Option<String>,
    /// Seed of the algorithm's generator. Flow number n gets its own.
    pub(crate) seed: u64,
    /// The address of ours to use.
    pub(crate) bind: Option<IpAddr>,
    /// What is not encrypted may cross a real network.
    pub(crate) insecure: bool,
    /// Whose certificate a sender accepts, where there is TLS.
    pub(crate) trust: Trust,
    /// The receiver's certificate and key, where there is TLS; `None`: made at the start.
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
    /// What in-band runs over, with its options; `None`: plain TCP.
    pub(crate) carrier: Option<String>,
    /// How long connecting may take.
    pub(crate) patience: Duration,
}

/// What a row says of how it was sent. It has to be known before a connection is made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    /// `cubic`, `alcc-verus-tcp`, `verus-udp`.
    pub(crate) scheme: String,
    /// The algorithm that decides: ours, or the kernel's.
    pub(crate) algorithm: String,
    /// Its options, without the name.
    pub(crate) options: String,
    /// `udp`, `quic`, `in-band`, `timestamps`, `kernel`.
    pub(crate) feedback: String,
    /// `native`, `queue`, `queue+pacing`, `kernel`.
    pub(crate) enforcement: String,
    /// The kernel's algorithm below ours, if there is one.
    pub(crate) under: Option<String>,
}

/// What a sender knows at the end. What it cannot know is `None`.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Stats {
    /// Round trip, ms.
    pub(crate) rtt_mean_ms: Option<f64>,
    /// The same: 95th percentile.
    pub(crate) rtt_p95_ms: Option<f64>,
    /// Packets sent again.
    pub(crate) retransmits: Option<u64>,
    /// Retransmission timeouts.
    pub(crate) timeouts: Option<u64>,
    /// Mean number of packets sent again in a row.
    pub(crate) rtx_burst: Option<f64>,
    /// How late the transport's timers were, 99th percentile.
    pub(crate) lateness_p99_ms: Option<f64>,
}

/// A way to carry bytes.
pub(crate) trait Transport: Sync {
    /// What a user types.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// What a sender with these options will be.
    ///
    /// # Errors
    /// [`Failure::Usage`]: an algorithm, feedback, enforcement or option that it cannot have, and what would be right.
    fn plan(&self, options: &Options) -> Result<Plan, Failure>;

    /// Opens flow number `flow` (from 0) to a receiver, within `options.patience`.
    ///
    /// # Errors
    /// One line: [`Failure::Failed`] if nobody answers, [`Failure::Usage`] if it is not allowed (not encrypted, no `--insecure`).
    fn connect(
        &self,
        to: &Target,
        options: &Options,
        flow: u32,
    ) -> Result<Box<dyn Outgoing>, Failure>;

    /// Waits for senders at this address.
    ///
    /// # Errors
    /// [`Failure::Usage`]: in use, not ours, not allowed.
    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure>;
}

/// The sender's end of a flow. `write` takes what it can within about [`TURN`] (`WouldBlock` if that is nothing); any other error is the
/// end of the flow and says why. `flush` does nothing.
pub(crate) trait Outgoing: Write + Send {
    /// Waits, at most [`TURN`], until something can be written without waiting, and says how much is best written at once: what can be
    /// sent within some 5 ms, at least two packets, at most [`PIECE`]. 0: not yet. What is written is stamped with the time after this returns.
    ///
    /// # Errors
    /// Why the flow has ended.
    fn room(&mut self) -> io::Result<usize>;

    /// Nothing more will be written. Asked again until it says true: the receiver has everything.
    ///
    /// # Errors
    /// Why the flow has ended. `WouldBlock` is none: `Ok(false)`.
    fn finish(&mut self) -> io::Result<bool>;

    /// Reads what the receiver answers after the end, as `read` does; `None`: this transport has no way back.
    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>>;

    /// Another number whenever the receiver's end has acknowledged something: what was written may lie in a deep buffer for long. `None`:
    /// nothing lies long here.
    fn acknowledged(&self) -> Option<u64> {
        None
    }

    /// So far.
    fn stats(&mut self) -> Stats;
}

/// The receiver's end of a flow. `read` waits at most [`TURN`] (then `WouldBlock`); 0 is the sender's orderly end, and an end that
/// is not orderly is an error.
pub(crate) trait Incoming: Read + Send {
    /// Who sends, for people.
    fn peer(&self) -> String;

    /// Writes an answer of some hundred bytes after the sender's end; false: this transport has no way back.
    ///
    /// # Errors
    /// Why it cannot.
    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool>;
}

/// Where senders are waited for.
pub(crate) trait Listening: Send {
    /// For people: `0.0.0.0:9700`.
    fn address(&self) -> String;

    /// Of the certificate that it shows, where there is TLS.
    fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }

    /// The next flow; `None`: nobody came within about [`TURN`]. Handshakes have to be done elsewhere or be bounded: a stranger that
    /// says nothing must not keep others out.
    ///
    /// # Errors
    /// Nobody will come any more.
    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>>;
}

/// Where a sender sends to: a host with a port. What it means is the transport's affair (a carrier may want a path).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// Name, IPv4 or IPv6 address without brackets.
    pub(crate) host: String,
    /// 0: as `--port` says.
    pub(crate) port: u16,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "'{text}' is no receiver: write host, host:port, 192.0.2.1:9700 or [2001:db8::1]:9700"
            )
        };
        let whole = |host: &str| Self {
            host: host.to_owned(),
            port: 0,
        };
        if text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(bad());
        }
        if text.parse::<std::net::Ipv6Addr>().is_ok() {
            return Ok(whole(text));
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (host, port) = rest.split_once(']').ok_or_else(bad)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| bad())?;
            let port = match port {
                "" => 0,
                port => port
                    .strip_prefix(':')
                    .and_then(|p| p.parse().ok())
                    .filter(|p| *p > 0)
                    .ok_or_else(bad)?,
            };
            return Ok(Self {
                host: host.to_owned(),
                port,
            });
        }
        match text.rsplit_once(':') {
            None => Ok(whole(text)),
            Some((host, port)) if !host.is_empty() && !host.contains(':') => {
                let port: u16 = port.parse().map_err(|_| bad())?;
                if port == 0 {
                    return Err(bad());
                }
                Ok(Self {
                    host: host.to_owned(),
                    port,
                })
            }
            Some(_) => Err(bad()),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Target {
    /// Its addresses, at least one, of the family of `bind` if that is given.
    ///
    /// # Errors
    /// [`Failure::Usage`] with what the resolver says.
    pub(crate) fn resolve(&self, bind: Option<IpAddr>) -> Result<Vec<SocketAddr>, Failure> {
        let all = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|e| {
                Failure::usage(format!(
                    "look up {}: {e}: check the name, or give an address",
                    self.host
                ))
            })?;
        let fits = |a: &SocketAddr| bind.is_none_or(|b| b.is_ipv4() == a.is_ipv4());
        let found: Vec<_> = all.filter(fits).collect();
        if found.is_empty() {
            return Err(Failure::usage(format!(
                "look up {}: it has no address of the family of --bind",
                self.host
            )));
        }
        Ok(found)
    }
}

/// The algorithm in a row's words.
pub(crate) fn described(scheme: String, spec: &Spec) -> Plan {
    Plan {
        scheme,
        algorithm: spec.name.clone(),
        options: spec.options_text(),
        ..Plan::default()
    }
}

/// What would block, or was interrupted, is asked again.
pub(crate) fn later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock)
        || (error.kind() == TimedOut && error.raw_os_error().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_hosts_with_or_without_port() {
        for (text, host, port) in [
            ("example.net", "example.net", 0),
            ("192.0.2.1:5", "192.0.2.1", 5),
            ("2001:db8::1", "2001:db8::1", 0),
            ("[2001:db8::1]", "2001:db8::1", 0),
            ("[::1]:9", "::1", 9),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.host.as_str(), target.port), (host, port), "{text}");
        }
        for bad in [
            "", "a b", ":5", "a:0", "a:99999", "[::1", "[::1]5", "[x]:5", "a:b:c",
        ] {
            let why = bad.parse::<Target>().unwrap_err();
            assert!(why.contains("is no receiver"), "{bad}: {why}");
        }
    }

    #[test]
    fn names_are_unique_and_an_unknown_one_is_answered_with_those_there_are() {
        for (i, t) in ALL.iter().enumerate() {
            assert!(ALL[..i].iter().all(|other| other.name() != t.name()));
            assert!(!t.summary().is_empty());
        }
        let why = find("pigeon").err().unwrap().to_string();
        assert!(why.contains("there are tcp"), "{why}");
    }
}
