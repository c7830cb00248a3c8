// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identity of the listening end.
use super::Fingerprint;
use crate::Failure;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A certificate with its chain and its key.
#[derive(Clone)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}

impl Identity {
    /// A new key with a self-signed certificate, to be pinned by its fingerprint.
    ///
    /// # Errors
    /// The system provides no random numbers, or a name is invalid in a certificate.
    pub fn self_signed(names: &[&str]) -> Result<Self, Failure> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|why| Failure::Usage(format!("create a certificate: {why}")))?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self {
            chain: vec![made.cert.der().clone()],
            key: Arc::new(key.into()),
        })
    }

    /// Reads PEM files: a certificate, optionally with its chain, and its key.
    ///
    /// # Errors
    /// The file and its error, or a key that does not belong to the certificate.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, Failure> {
        let chain = certificates(certificate)?;
        let found = PrivateKeyDer::from_pem_file(key).map_err(|why| {
            Failure::Usage(format!(
                "read the key {}: {}: it must be a PEM file with a private key",
                key.display(),
                words(&why)
            ))
        })?;
        let identity = Self {
            chain,
            key: Arc::new(found),
        };
        super::server_config(&identity, &[]).map_err(|why| {
            Failure::Usage(format!(
                "{why}: do {} and {} belong together?",
                certificate.display(),
                key.display()
            ))
        })?;
        Ok(identity)
    }

    /// SHA-256 of the certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.chain.first().map_or(&[][..], |leaf| leaf.as_ref()))
    }

    /// The chain, with the certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The private key.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

/// All certificates of a PEM file; at least one.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let wrong = |why: String| {
        Failure::Usage(format!(
            "read the certificate {}: {why}: it must be a PEM file",
            file.display()
        ))
    };
    let found = CertificateDer::pem_file_iter(file)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .map_err(|why| wrong(words(&why)))?;
    if found.is_empty() {
        return Err(wrong("it contains none".to_owned()));
    }
    Ok(found)
}

fn words(why: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error as Pem;
    match why {
        Pem::Io(why) if why.kind() == std::io::ErrorKind::NotFound => "no such file".to_owned(),
        Pem::Io(why) => why.to_string(),
        Pem::NoItemsFound => "it contains none".to_owned(),
        _ => "it is malformed".to_owned(),
    }
}
