// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tls`: TLS 1.3. The certificates and whom to trust are for QUIC, too: [`server_config`] and [`client_config`] know no sockets.
mod identity;
mod stream;
mod trust;

pub use identity::Identity;
pub use trust::{Fingerprint, Trust, Untrusted};

use crate::Error;
use crate::registry::{Layer, Options};
use crate::spec::{Client, Server, Target};
use crate::wait::{Deadline, Waits};
use alcc_inband::carrier::Carrier;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::sync::Arc;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What a listening end needs: its certificate, no sessions to resume. `alpn`: protocols that it speaks, empty for none.
///
/// # Errors
/// Key and certificate do not belong together.
pub fn server_config(identity: &Identity, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(broken)?
        .with_no_client_auth()
        .with_single_cert(identity.chain().to_vec(), identity.key())
        .map_err(|why| Error::Usage(format!("use the certificate with its key: {why}")))?;
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    // A connection is one transfer: tickets would only be bytes.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// What a connecting end needs: whom it trusts. `alpn`: protocols that it speaks, empty for none.
///
/// # Errors
/// The certificates to trust cannot be read.
pub fn client_config(trust: &Trust, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, Error> {
    let provider = provider();
    let verifier = trust.verifier(&provider)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(broken)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// A record fills a segment: nothing of it can be read before all of it is there, so a longer one would make its first bytes
/// look late by as much as the bottleneck takes for the rest. As rustls counts: with the header, without type and tag.
fn record(below: &dyn Carrier) -> Option<usize> {
    let most = below.segment().saturating_sub(1 + 16);
    (32..16_384).contains(&most).then_some(most)
}

fn broken(why: rustls::Error) -> Error {
    Error::Usage(format!("set TLS up: {why}"))
}

/// The words for an error of a handshake; `Untrusted` says what to do.
pub fn explain(why: &rustls::Error) -> String {
    match why {
        rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) => {
            other.0.to_string()
        }
        rustls::Error::InvalidMessage(_) => "it does not speak TLS".to_owned(),
        rustls::Error::AlertReceived(rustls::AlertDescription::ProtocolVersion) => {
            "it does not speak TLS 1.3".to_owned()
        }
        rustls::Error::AlertReceived(alert) => format!("it refused the handshake: {alert:?}"),
        other => other.to_string(),
    }
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

pub(crate) struct Tls;

impl Layer for Tls {
    fn connect(
        &self,
        below: Box<dyn Carrier>,
        _: &Options,
        target: &Target,
        client: &Client,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error> {
        let name = ServerName::try_from(target.host.clone())
            .map_err(|_| Error::Usage(format!("'{}' is no name for TLS", target.host)))?;
        let mut config = Arc::unwrap_or_clone(client_config(&client.trust, &[])?);
        config.max_fragment_size = record(&*below);
        let connection = rustls::ClientConnection::new(Arc::new(config), name).map_err(broken)?;
        let what = format!("make a TLS connection to {target}");
        stream::handshake(connection.into(), Waits::until(deadline, below))
            .map_err(|why| failed(what, why))
    }

    fn accept(
        &self,
        below: Box<dyn Carrier>,
        _: &Options,
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
        let what = format!("take a TLS connection from {peer}");
        stream::handshake(connection.into(), Waits::until(deadline, below))
            .map_err(|why| failed(what, why))
    }
}
