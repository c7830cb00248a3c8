// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS 1.3 for QUIC and for streams: certificates and trust. It uses no sockets.
mod identity;
mod trust;

pub use identity::Identity;
pub use trust::{Fingerprint, Trust, Untrusted};

use crate::Failure;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ServerConfig};
use std::sync::Arc;

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Configuration of a listening end: its certificate, without session resumption. `alpn`: its
/// protocols, empty for none.
///
/// # Errors
/// The key does not belong to the certificate.
pub fn server_config(identity: &Identity, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, Failure> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(broken)?
        .with_no_client_auth()
        .with_single_cert(identity.chain().to_vec(), identity.key())
        .map_err(|why| Failure::Usage(format!("use the certificate with its key: {why}")))?;
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    // A connection is a single transfer, so tickets would be useless bytes.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Configuration of a connecting end: its trust. `alpn`: its protocols, empty for none.
///
/// # Errors
/// The certificates to trust cannot be read.
pub fn client_config(trust: &Trust, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, Failure> {
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

fn broken(why: rustls::Error) -> Failure {
    Failure::Usage(format!("set TLS up: {why}"))
}

/// The description of a handshake error; if it carries an [`Untrusted`], the description has the remedy.
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
