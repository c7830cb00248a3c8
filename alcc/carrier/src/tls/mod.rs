// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tls`: TLS 1.3 over a stream.
mod stream;

pub use alcc_pipe::tls::{
    Fingerprint, Identity, Trust, Untrusted, client_config, explain, server_config,
};

use crate::Error;
use crate::Target;
use crate::spec::{Client, Server};
use crate::wait::{Deadline, DeadlineCarrier};
use alcc_inband::carrier::Carrier;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;

/// Size of a TLS record that fills a segment. The reader gets a record only when it is complete, so
/// a longer one would delay its first bytes by the bottleneck's time for the rest. The size is as
/// rustls counts it: with the header, without type and tag.
fn record(below: &dyn Carrier) -> Option<usize> {
    let most = below.segment().saturating_sub(1 + 16);
    (32..16_384).contains(&most).then_some(most)
}

fn broken(why: rustls::Error) -> Error {
    Error::Usage(format!("set TLS up: {why}"))
}

fn failed(what: String, why: io::Error) -> Error {
    let tls = why.get_ref().and_then(|e| e.downcast_ref());
    if let Some(tls) = tls {
        return Error::refused(what, explain(tls));
    }
    match why.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Error::refused(
            what,
            "it closed the connection in the handshake: it may not speak TLS",
        ),
        _ => Error::Io { what, source: why },
    }
}

pub(crate) fn connect(
    below: Box<dyn Carrier>,
    target: &Target,
    client: &Client,
    deadline: Deadline,
) -> Result<Box<dyn Carrier>, Error> {
    let name = ServerName::try_from(target.host.clone())
        .map_err(|_| Error::Usage(format!("'{}' is not a name for TLS", target.host)))?;
    let mut config = Arc::unwrap_or_clone(client_config(&client.trust, &[])?);
    config.max_fragment_size = record(&*below);
    let connection = rustls::ClientConnection::new(Arc::new(config), name).map_err(broken)?;
    let what = format!("make a TLS connection to {target}");
    stream::handshake(connection.into(), DeadlineCarrier::until(deadline, below))
        .map_err(|why| failed(what, why))
}

pub(crate) fn accept(
    below: Box<dyn Carrier>,
    peer: &str,
    server: &Server,
    deadline: Deadline,
) -> Result<Box<dyn Carrier>, Error> {
    let identity = server.identity.as_ref().ok_or_else(|| {
        Error::Usage("accept with carrier tls: there is no certificate".to_owned())
    })?;
    let mut config = Arc::unwrap_or_clone(server_config(identity, &[])?);
    config.max_fragment_size = record(&*below);
    let connection = rustls::ServerConnection::new(Arc::new(config)).map_err(broken)?;
    let what = format!("accept a TLS connection from {peer}");
    stream::handshake(connection.into(), DeadlineCarrier::until(deadline, below))
        .map_err(|why| failed(what, why))
}
