// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLS 1.3: certificates, and whom to believe. For QUIC and for streams; no sockets here.
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

/// What a listening end needs: its certificate, no sessions to resume. `alpn`: protocols that it
/// speaks, empty for none.
///
/// # Errors
/// Key and certificate do not belong together.
pub fn server_config(identity: &Identity, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, Failure> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(broken)?
        .with_no_client_auth()
        .with_single_cert(identity.chain().to_vec(), identity.key())
        .map_err(|why| Failure::Usage(format!("use the certificate with its key: {why}")))?;
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    // A connection is one transfer: tickets would only be bytes.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// What a connecting end needs: whom it trusts. `alpn`: protocols that it speaks, empty for none.
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
