// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the in-band form runs over: `--carrier`.
use crate::{CarrierSpec, Client, Error, Listener, Server};
use alcc_inband::carrier::{Carrier, Tcp};
use alcc_pipe::tcp::{self, Acceptor, REMEDY};
use alcc_pipe::tls::{Fingerprint, Identity, client_config};
use alcc_pipe::{Failure, Listening as _, MAX_WAIT, Options, Target};
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
    match options.certificate_option() {
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
    let client = Client {
        trust: options.trust.clone(),
        patience: options.connect_timeout,
        under: options.under.clone(),
    };
    if spec.has_tls() {
        // What is wrong with a file is told before anybody is called.
        client_config(&options.trust, &[])?;
    }
    let made = match spec.base(to).map_err(|why| failure(&why))? {
        None => spec.connect(to, &client),
        Some(base) => {
            let remedy = if base == *to {
                REMEDY
            } else {
                "is the proxy of --carrier running?"
            };
            let socket = tcp::connect(&base, options, remedy)?;
            let tcp = Tcp::new(socket).map_err(|why| {
                Failure::usage(format!("take over the connection to {base}: {why}"))
            })?;
            spec.connect_over(Box::new(tcp), to, &client)
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
pub(super) struct CarrierListener {
    bound: Bound,
    spec: Arc<CarrierSpec>,
    server: Arc<Server>,
}

enum Bound {
    Tcp(Acceptor),
    Path(Listener),
}

impl CarrierListener {
    pub(super) fn open(
        spec: CarrierSpec,
        at: SocketAddr,
        options: &Options,
    ) -> Result<Self, Failure> {
        let mut server = Server {
            patience: options.connect_timeout,
            ..Server::default()
        };
        spec.can_listen().map_err(|why| failure(&why))?;
        if spec.has_tls() {
            server.identity = Some(options.identity()?);
        }
        let bound = if spec.is_local() {
            let listener = spec.listen("", server.clone());
            Bound::Path(listener.map_err(|why| failure(&why))?)
        } else {
            Bound::Tcp(tcp::listen(at)?)
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

    /// The next one, within about [`MAX_WAIT`].
    pub(super) fn next(&mut self) -> io::Result<Option<PendingConnection>> {
        let (below, peer): (Box<dyn Carrier>, String) = match &mut self.bound {
            Bound::Tcp(acceptor) => {
                let Some((socket, from)) = acceptor.accept()? else {
                    return Ok(None);
                };
                let from = SocketAddr::new(from.ip().to_canonical(), from.port());
                (Box::new(Tcp::new(socket)?), from.to_string())
            }
            Bound::Path(listener) => {
                let fd = PollFd::new(listener.fd(), PollFlags::POLLIN);
                let limit = PollTimeout::try_from(MAX_WAIT).unwrap_or(PollTimeout::ZERO);
                match poll(&mut [fd], limit) {
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
        Ok(Some(PendingConnection {
            below: Some(below),
            peer,
            spec: Arc::clone(&self.spec),
            server: Arc::clone(&self.server),
        }))
    }
}

/// A connection whose layers have not shaken hands.
pub(super) struct PendingConnection {
    below: Option<Box<dyn Carrier>>,
    pub(super) peer: String,
    spec: Arc<CarrierSpec>,
    server: Arc<Server>,
}

impl PendingConnection {
    /// Does it, waiting for the peer: in the flow's own thread.
    pub(super) fn handshake(&mut self) -> io::Result<Box<dyn Carrier>> {
        let below = self.below.take().ok_or(io::ErrorKind::NotConnected)?;
        self.spec
            .accept_over(below, &self.peer, &self.server)
            .map_err(io::Error::other)
    }
}
