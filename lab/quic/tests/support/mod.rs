// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both ends for a test, with their TLS.
use alcc_quic::Congestion;
use alcc_quic::blocking::{Listener, Receiver, Sender, Stack};
use noq::rustls::pki_types::PrivatePkcs8KeyDer;
use noq::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto, version};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const NAME: &str = "localhost";

/// TLS settings of a server with a self-signed certificate, and of a client that trusts it.
pub(crate) fn tls() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).expect("a certificate");
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let certificate = made.cert.der().clone();
    let provider = Arc::new(crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13])
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .expect("a key that fits");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    server.alpn_protocols = vec![alcc_quic::blocking::ALPN.to_vec()];
    client.alpn_protocols = vec![alcc_quic::blocking::ALPN.to_vec()];
    (Arc::new(server), Arc::new(client))
}

/// The connection that comes.
#[allow(dead_code, reason = "others wait in their own way")]
pub(crate) fn accepted(listener: &mut Listener, patience: Duration) -> Receiver {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < patience, "nobody came");
        if let Some(receiver) = listener.accept(Duration::from_millis(100)).unwrap() {
            return receiver;
        }
    }
}

/// A connection under `cc`.
pub(crate) fn connected(
    to: SocketAddr,
    client: Arc<ClientConfig>,
    cc: &Arc<Congestion>,
    patience: Duration,
) -> Sender {
    let stack = Stack::start().unwrap();
    Sender::connect(&stack, to, None, NAME, client, cc, patience).unwrap()
}
