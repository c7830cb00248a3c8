// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the in-band form runs over: `--carrier`.
use super::tcp::{Acceptor, RECEIVER, connected, listening};
use super::{Listening, Options, TURN, Target, certificate};
use crate::failure::Failure;
use alcc_carrier::tls::{Fingerprint, Identity, client_config};
use alcc_carrier::{CarrierSpec, Client, Error, Listener, Server};
use alcc_inband::carrier::{Carrier, Tcp};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What is asked for.
///
/// # Errors
/// [`Failure::Usage`]: there is no such carrier, or no TLS in it although a certificate is named.
pub(super) fn spec(options: &Options) -> Result<CarrierSpec, Failure> {
    let text = options.carrier.as_deref().unwrap_or("tcp");
    let spec: CarrierSpec = text
        .parse()
        .map_err(|why| Failure::usage(format!("--carrier {text}: {why}")))?;
    match certificate::named(options) {
        Some(option) if !spec.has_tls() => Err(Failure::usage(format!(
            "{option} with --carrier {spec}: there is no TLS in it; add tls"
        ))),
        _ => Ok(spec),
    }
}

fn failure(why: &Error) -> Failure {
    if why.is_usage() {
        Failure::usage(why)
    } else {
        Failure::failed(why)
    }
}

/// Connects, with all handshakes of the layers.
pub(super) fn connect(
    spec: &CarrierSpec,
    to: &Target,
    options: &Options,
) -> Result<Box<dyn Carrier>, Failure> {
    let target = alcc_carrier::Target {
        host: to.host.clone(),
        port: to.port,
    };
    let client = Client {
        trust: options.trust.clone(),
        patience: options.patience,
        under: options.under.clone(),
    };
    if spec.has_tls() {
        // What is wrong with a file is told before anybody is called.
        client_config(&options.trust, &[]).map_err(|why| failure(&why))?;
    }
    let made = match spec.base(&target).map_err(|why| failure(&why))? {
        None => spec.connect(&target, &client),
        Some(base) => {
            let remedy = if base.host == to.host && base.port == to.port {
                RECEIVER
            } else {
                "is the proxy of --carrier running?"
            };
            let base = Target {
                host: base.host,
                port: base.port,
            };
            let socket = connected(&base, options, remedy)?;
            let tcp = Tcp::new(socket).map_err(|why| {
                Failure::usage(format!("take over the connection to {base}: {why}"))
            })?;
            spec.connect_over(Box::new(tcp), &target, &client)
        }
    };
    made.map_err(|why| match &why {
        Error::Io { what, source } if spec.is_local() => {
            let found = match source.kind() {
                io::ErrorKind::NotFound => "no such socket",
                io::ErrorKind::ConnectionRefused => "nobody listens there",
                _ => return failure(&why),
            };
            Failure::failed(format!(
                "{what}: {found}: start 'alcc recv' with the same --carrier"
            ))
        }
        _ => failure(&why),
    })
}

/// Where senders come in.
pub(super) struct Door {
    bound: Bound,
    spec: Arc<CarrierSpec>,
    server: Arc<Server>,
}

enum Bound {
    Tcp(Acceptor),
    Path(Listener),
}

impl Door {
    pub(super) fn open(
        spec: CarrierSpec,
        at: SocketAddr,
        options: &Options,
    ) -> Result<Self, Failure> {
        let mut server = Server {
            patience: options.patience,
            ..Server::default()
        };
        spec.can_listen().map_err(|why| failure(&why))?;
        if spec.has_tls() {
            server.identity = Some(certificate::identity(options)?);
        }
        let bound = if spec.is_local() {
            let listener = spec.listen("", server.clone());
            Bound::Path(listener.map_err(|why| failure(&why))?)
        } else {
            Bound::Tcp(listening(at)?)
        };
        Ok(Self {
            bound,
            spec: Arc::new(spec),
            server: Arc::new(server),
        })
    }

    pub(super) fn address(&self) -> String {
        match &self.bound {
            Bound::Tcp(acceptor) => acceptor.address(),
            Bound::Path(listener) => listener.local(),
        }
    }

    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        self.server.identity.as_ref().map(Identity::fingerprint)
    }

    /// The next one, within about [`TURN`].
    pub(super) fn next(&mut self) -> io::Result<Option<Guest>> {
        let (below, peer): (Box<dyn Carrier>, String) = match &mut self.bound {
            Bound::Tcp(acceptor) => {
                let Some((socket, from)) = acceptor.next()? else {
                    return Ok(None);
                };
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                (Box::new(Tcp::new(socket)?), from.to_string())
            }
            Bound::Path(listener) => {
                let fd = PollFd::new(listener.fd(), PollFlags::POLLIN);
                let turn = PollTimeout::try_from(TURN).unwrap_or(PollTimeout::ZERO);
                match poll(&mut [fd], turn) {
                    Ok(0) | Err(nix::errno::Errno::EINTR) => return Ok(None),
                    Ok(_) => {}
                    Err(why) => return Err(why.into()),
                }
                match listener.accept() {
                    Ok(accepted) => accepted.into_parts(),
                    Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                    Err(why) => {
                        // No descriptor left, say: it stays in the queue.
                        std::thread::sleep(Duration::from_millis(20));
                        drop(why);
                        return Ok(None);
                    }
                }
            }
        };
        Ok(Some(Guest {
            below: Some(below),
            peer,
            spec: Arc::clone(&self.spec),
            server: Arc::clone(&self.server),
        }))
    }
}

/// A connection whose layers have not shaken hands.
pub(super) struct Guest {
    below: Option<Box<dyn Carrier>>,
    pub(super) peer: String,
    spec: Arc<CarrierSpec>,
    server: Arc<Server>,
}

impl Guest {
    /// Does it, waiting for the peer: in the flow's own thread.
    pub(super) fn handshake(&mut self) -> io::Result<Box<dyn Carrier>> {
        let below = self.below.take().ok_or(io::ErrorKind::NotConnected)?;
        self.spec
            .accept_over(below, &self.peer, &self.server)
            .map_err(io::Error::other)
    }
}
