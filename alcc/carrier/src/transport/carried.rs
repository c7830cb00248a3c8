// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The carrier of an in-band transfer: `--carrier`.
use crate::{CarrierSpec, Client, Error, Server};
use alcc_inband::carrier::{Carrier, Tcp};
use alcc_pipe::tcp::{self, Acceptor, REMEDY};
use alcc_pipe::tls::{Fingerprint, Identity, client_config};
use alcc_pipe::{Failure, Listening as _, Options, Target};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// The carrier that the options request.
///
/// # Errors
/// [`Failure::Usage`]: there is no such carrier, or a certificate is given for one without TLS.
pub(super) fn spec(options: &Options) -> Result<CarrierSpec, Failure> {
    let text = options.carrier.as_deref().unwrap_or("tcp");
    let spec: CarrierSpec = text
        .parse()
        .map_err(|why| Failure::usage(format!("--carrier {text}: {why}")))?;
    match options.certificate_option() {
        Some(option) if !spec.has_tls() => Err(Failure::usage(format!(
            "{option} with --carrier {spec}: it has no TLS; use --carrier tls"
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

/// Connects, with all handshakes.
pub(super) fn connect(
    spec: CarrierSpec,
    to: &Target,
    options: &Options,
) -> Result<Box<dyn Carrier>, Failure> {
    let client = Client {
        trust: options.trust.clone(),
        patience: options.connect_timeout,
        under: options.under.clone(),
    };
    if spec.has_tls() {
        // An error in a certificate's file is reported before connecting.
        client_config(&options.trust, &[])?;
    }
    let socket = tcp::connect(to, options, REMEDY)?;
    let tcp = Tcp::new(socket)
        .map_err(|why| Failure::usage(format!("take over the connection to {to}: {why}")))?;
    spec.connect_over(Box::new(tcp), to, &client)
        .map_err(|why| failure(&why))
}

/// The listener for senders.
pub(super) struct CarrierListener {
    bound: Acceptor,
    spec: CarrierSpec,
    server: Arc<Server>,
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
        if spec.has_tls() {
            server.identity = Some(options.identity()?);
        }
        Ok(Self {
            bound: tcp::listen(at)?,
            spec,
            server: Arc::new(server),
        })
    }

    pub(super) fn address(&self) -> String {
        self.bound.address()
    }

    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        self.server.identity.as_ref().map(Identity::fingerprint)
    }

    /// The next connection, within about [`alcc_pipe::MAX_WAIT`].
    pub(super) fn next(&mut self) -> io::Result<Option<PendingConnection>> {
        let Some((socket, from)) = self.bound.accept()? else {
            return Ok(None);
        };
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        Ok(Some(PendingConnection {
            below: Some(Box::new(Tcp::new(socket)?)),
            peer: from.to_string(),
            spec: self.spec,
            server: Arc::clone(&self.server),
        }))
    }
}

/// A connection whose handshake is still to be done.
pub(super) struct PendingConnection {
    below: Option<Box<dyn Carrier>>,
    pub(super) peer: String,
    spec: CarrierSpec,
    server: Arc<Server>,
}

impl PendingConnection {
    /// Does the handshake, blocking: call it in the flow's own thread.
    pub(super) fn handshake(&mut self) -> io::Result<Box<dyn Carrier>> {
        let below = self.below.take().ok_or(io::ErrorKind::NotConnected)?;
        self.spec
            .accept_over(below, &self.peer, &self.server)
            .map_err(io::Error::other)
    }
}
