// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A carrier as it is typed, and the connections made from it.
use crate::tls::{self, Identity, Trust};
use crate::wait::Deadline;
use crate::{Error, tcp};
use alcc_inband::carrier::Carrier;
use alcc_pipe::Target;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Default limit for connecting and all handshakes together.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);
/// Names of carriers of earlier versions; the error says that they are gone.
const GONE: [&str; 3] = ["unix", "connect", "websocket"];

/// A carrier, which is what in-band streams run over (TCP or TLS), by its name, for help texts.
pub struct Row {
    /// The name as typed.
    pub name: &'static str,
    /// A one-line summary.
    pub summary: &'static str,
    spec: CarrierSpec,
}

static ALL: [Row; 2] = [
    Row {
        name: "tcp",
        summary: "a TCP connection; inside a VPN or a tunnel, too",
        spec: CarrierSpec::Tcp,
    },
    Row {
        name: "tls",
        summary: "TLS 1.3 over it",
        spec: CarrierSpec::Tls,
    },
];

/// All carriers, in the order in which they are shown.
pub fn rows() -> &'static [Row] {
    &ALL
}

/// Settings of the connecting end.
#[derive(Clone, Debug)]
pub struct Client {
    /// The certificates that TLS accepts.
    pub trust: Trust,
    /// Limit for connecting and all handshakes together.
    pub patience: Duration,
    /// The kernel's congestion control for the TCP connection below; `None`: the system's default.
    pub under: Option<String>,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            trust: Trust::System,
            patience: DEFAULT_TIMEOUT,
            under: None,
        }
    }
}

/// Settings of the listening end.
#[derive(Clone, Debug)]
pub struct Server {
    /// The certificate of TLS; required for TLS.
    pub identity: Option<Identity>,
    /// Limit for all handshakes of a connection together.
    pub patience: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            identity: None,
            patience: DEFAULT_TIMEOUT,
        }
    }
}

/// The byte stream below the in-band form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CarrierSpec {
    /// A TCP connection, also one inside a tunnel.
    #[default]
    Tcp,
    /// TLS 1.3 over TCP.
    Tls,
}

impl FromStr for CarrierSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if let Some(row) = ALL.iter().find(|row| row.name == text) {
            return Ok(row.spec);
        }
        let there_are = ALL.each_ref().map(|row| row.name).join(" and ");
        let gone = text
            .split('+')
            .map(|part| part.split(':').next().unwrap_or(part))
            .find(|name| GONE.contains(name));
        Err(Error::Usage(match gone {
            Some(name) => format!("carrier {name} was removed: there are {there_are}"),
            None => format!("no carrier '{text}': there are {there_are}"),
        }))
    }
}

impl fmt::Display for CarrierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        })
    }
}

fn checked(target: &Target) -> Result<(), Error> {
    if target.is_sound() {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "'{}' is not the name of a host",
        target.host
    )))
}

impl CarrierSpec {
    /// True if the carrier uses TLS: the listening end needs a certificate, the other end something
    /// to trust.
    pub fn has_tls(self) -> bool {
        self == Self::Tls
    }

    /// Connects, and does every handshake.
    ///
    /// # Errors
    /// One line about the step that failed.
    pub fn connect(self, target: &Target, client: &Client) -> Result<Box<dyn Carrier>, Error> {
        checked(target)?;
        let deadline = Deadline::after(client.patience);
        let below = tcp::dial(target, client, deadline)?;
        self.above(below, target, client, deadline)
    }

    /// Does the handshakes as [`Self::connect`] does, over a stream that already leads to the
    /// target.
    ///
    /// # Errors
    /// One line about the step that failed.
    pub fn connect_over(
        self,
        below: Box<dyn Carrier>,
        target: &Target,
        client: &Client,
    ) -> Result<Box<dyn Carrier>, Error> {
        checked(target)?;
        self.above(below, target, client, Deadline::after(client.patience))
    }

    fn above(
        self,
        below: Box<dyn Carrier>,
        target: &Target,
        client: &Client,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error> {
        match self {
            Self::Tcp => Ok(below),
            Self::Tls => tls::connect(below, target, client, deadline),
        }
    }

    /// Does the handshakes as [`Accepted::handshake`] does, over a stream that came from `peer`.
    ///
    /// # Errors
    /// One line about the peer's actual protocol.
    pub fn accept_over(
        self,
        below: Box<dyn Carrier>,
        peer: &str,
        server: &Server,
    ) -> Result<Box<dyn Carrier>, Error> {
        match self {
            Self::Tcp => Ok(below),
            Self::Tls => tls::accept(below, peer, server, Deadline::after(server.patience)),
        }
    }

    /// Listens at `ADDRESS:PORT` or `:PORT`.
    ///
    /// # Errors
    /// The address cannot be used, or TLS lacks a certificate.
    pub fn listen(self, at: &str, server: Server) -> Result<Listener, Error> {
        if self.has_tls() && server.identity.is_none() {
            return Err(Error::Usage(
                "listen with carrier tls: there is no certificate".to_owned(),
            ));
        }
        Ok(Listener {
            bound: tcp::bind(at)?,
            carrier: self,
            server: Arc::new(server),
        })
    }
}

/// A listening socket.
pub struct Listener {
    bound: TcpListener,
    carrier: CarrierSpec,
    server: Arc<Server>,
}

impl Listener {
    /// Accepts a connection, or returns `WouldBlock`: wait for [`Self::fd`]. It does no handshake,
    /// so that a silent peer delays nobody.
    ///
    /// # Errors
    /// The errors of accept(2).
    pub fn accept(&self) -> io::Result<Accepted> {
        let (stream, peer) = self.bound.accept()?;
        Ok(Accepted {
            stream: tcp::ready(stream)?,
            peer: peer.to_string(),
            carrier: self.carrier,
            server: Arc::clone(&self.server),
        })
    }

    /// The listen address with its port.
    pub fn local(&self) -> String {
        self.bound
            .local_addr()
            .map_or_else(|_| "?".to_owned(), |at| at.to_string())
    }

    /// The listening descriptor: readable while a connection waits to be accepted.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bound.as_fd()
    }
}

/// A connection whose handshake is still to be done.
pub struct Accepted {
    stream: Box<dyn Carrier>,
    peer: String,
    carrier: CarrierSpec,
    server: Arc<Server>,
}

impl Accepted {
    /// The peer's address.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Does every handshake. This may take [`Server::patience`], so call it in a thread of the
    /// connection's own.
    ///
    /// # Errors
    /// One line about the peer's actual protocol.
    pub fn handshake(self) -> Result<Box<dyn Carrier>, Error> {
        self.carrier
            .accept_over(self.stream, &self.peer, &self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_are_read_and_print_as_typed() {
        for row in rows() {
            let carrier: CarrierSpec = row.name.parse().unwrap();
            assert_eq!(carrier.to_string(), row.name);
            assert_eq!(carrier.has_tls(), row.name == "tls");
        }
    }

    #[test]
    fn nonsense_and_removed_options_are_refused_in_a_line() {
        for (text, said) in [
            ("", "no carrier '': there are tcp and tls"),
            ("tsl", "no carrier 'tsl': there are tcp and tls"),
            ("tcp:x", "no carrier 'tcp:x': there are tcp and tls"),
            ("tls+tls", "no carrier 'tls+tls'"),
            (
                "websocket+tls",
                "carrier websocket was removed: there are tcp and tls",
            ),
            ("tls+connect:proxy=a:1", "carrier connect was removed"),
            ("unix:/run/a", "carrier unix was removed"),
        ] {
            let why = text.parse::<CarrierSpec>().unwrap_err();
            assert!(why.is_usage(), "{why}");
            let why = why.to_string();
            assert!(why.contains(said) && !why.contains('\n'), "{text}: {why}");
        }
        for host in ["a\r\nX: y", "", "a b"] {
            let target = Target {
                host: host.to_owned(),
                port: 80,
            };
            let made = CarrierSpec::default().connect(&target, &Client::default());
            assert!(made.is_err_and(|why| why.is_usage()), "{host:?}");
        }
    }
}
