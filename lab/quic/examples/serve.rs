// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An endpoint whose connections send under Verus, and a client of it, in one process:
//!
//! ```console
//! $ cargo run -p alcc-quic --example serve
//! ```
use noq::rustls::{RootCertStore, pki_types::PrivatePkcs8KeyDer};
use noq::{ClientConfig, ServerConfig};
use std::error::Error;
use std::sync::Arc;

type Failure = Box<dyn Error + Send + Sync>;

pub(crate) fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run())
}

async fn run() -> Result<(), Failure> {
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(certificate.signing_key.serialize_der());
    let chain = vec![certificate.cert.der().clone()];
    let mut server_config = ServerConfig::with_single_cert(chain, key.into())?;

    let address = "127.0.0.1:0";
    // These lines, which docs/transfer.md shows, are all it takes.
    let verus = alcc_quic::congestion("verus:r=4")?;
    let mut transport = noq::TransportConfig::default();
    verus.set(&mut transport);
    server_config.transport_config(Arc::new(transport));
    let endpoint = noq::Endpoint::new(
        noq::EndpointConfig::default(),
        Some(server_config),
        std::net::UdpSocket::bind(address)?,
        Arc::new(alcc_quic::TimedRuntime::default()),
    )?;

    let address = endpoint.local_addr()?;
    let page = vec![b'.'; 2_000_000];
    let serve = tokio::spawn(async move {
        let connection = endpoint.accept().await.ok_or("closed")?.await?;
        let mut stream = connection.open_uni().await?;
        stream.write_all(&page).await?;
        stream.finish()?;
        stream.stopped().await?;
        Ok::<(), Failure>(())
    });

    // A client need know nothing of it.
    let mut roots = RootCertStore::empty();
    roots.add(certificate.cert.der().clone())?;
    let client = noq::Endpoint::client("127.0.0.1:0".parse()?)?;
    client.set_default_client_config(ClientConfig::with_root_certificates(Arc::new(roots))?);
    let connection = client.connect(address, "localhost")?.await?;
    let got = connection.accept_uni().await?.read_to_end(1 << 24).await?;
    serve.await??;
    println!(
        "{} bytes under {}, {:?}",
        got.len(),
        verus.spec(),
        verus.gauge()
    );
    Ok(())
}
