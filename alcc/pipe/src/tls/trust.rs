// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trust of the connecting end in the listening end's certificate.
use super::identity::certificates;
use crate::{Failure, Sha256};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// SHA-256 of a certificate (DER), as `openssl x509 -fingerprint -sha256` prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(super) fn of(der: &[u8]) -> Self {
        let mut hash = Sha256::new();
        hash.update(der);
        Self(hash.finalize())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = Failure;

    /// Parses 64 hexadecimal digits, with or without colons.
    fn from_str(text: &str) -> Result<Self, Failure> {
        let wrong = || {
            Failure::Usage(format!(
                "'{text}' is not a SHA-256 fingerprint: write 64 hexadecimal digits, as the listening end prints them"
            ))
        };
        let mut nibbles = Vec::with_capacity(64);
        for c in text.chars().filter(|&c| c != ':') {
            nibbles.push(c.to_digit(16).ok_or_else(wrong)?);
        }
        let mut bytes = [0; 32];
        if nibbles.len() != 64 {
            return Err(wrong());
        }
        for (byte, pair) in bytes.iter_mut().zip(nibbles.chunks(2)) {
            // Two hexadecimal digits are below 256.
            *byte = u8::try_from(pair[0] * 16 + pair[1]).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

/// The certificates that are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Certificates of an authority that this system trusts, with the right name.
    System,
    /// Certificates of an authority in this PEM file, with the right name.
    Ca(PathBuf),
    /// This certificate, whatever its name and issuer.
    Pin(Fingerprint),
    /// Any certificate: encrypted against eavesdropping, but the other end is not authenticated.
    Anybody,
}

/// The reason for refusing a certificate.
#[derive(Debug)]
pub struct Untrusted {
    found: Fingerprint,
    why: String,
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, why } = self;
        write!(
            f,
            "its certificate is {why}; its SHA-256 fingerprint is {found}: if that is what the other end printed, give --pin {found}, \
             or --ca FILE with the authority that signed it"
        )
    }
}

impl std::error::Error for Untrusted {}

impl Trust {
    pub(super) fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Failure> {
        let authorities = match self {
            Self::System => {
                let mut roots = RootCertStore::empty();
                // Certificates that cannot be read are ignored.
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                Some(roots)
            }
            Self::Ca(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(|why| {
                        Failure::Usage(format!("trust the authority in {}: {why}", file.display()))
                    })?;
                }
                Some(roots)
            }
            Self::Pin(_) | Self::Anybody => None,
        };
        let authorities = match authorities {
            // Then no certificate is trusted, which is an error only when one is checked.
            Some(roots) if roots.is_empty() => None,
            Some(roots) => Some(
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|why| Failure::Usage(format!("trust authorities: {why}")))?,
            ),
            None => None,
        };
        Ok(Arc::new(Verifier {
            trust: self.clone(),
            authorities,
            provider: Arc::clone(provider),
        }))
    }
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn judge(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), String> {
        match &self.trust {
            Trust::Anybody => Ok(()),
            Trust::Pin(pin) if *pin == Fingerprint::of(leaf) => Ok(()),
            Trust::Pin(_) => Err("not the one that --pin names".to_owned()),
            Trust::System | Trust::Ca(_) => {
                let by = match &self.trust {
                    Trust::Ca(file) => format!("the authority in {}", file.display()),
                    _ => "an authority that this system trusts".to_owned(),
                };
                let Some(authorities) = &self.authorities else {
                    return Err(format!("not signed by {by}: this system has none"));
                };
                let checked = authorities.verify_server_cert(leaf, intermediates, name, ocsp, now);
                checked.map(drop).map_err(|why| match why {
                    rustls::Error::InvalidCertificate(
                        CertificateError::UnknownIssuer | CertificateError::BadSignature,
                    ) => format!("not signed by {by}"),
                    rustls::Error::InvalidCertificate(
                        CertificateError::Expired | CertificateError::ExpiredContext { .. },
                    ) => "expired".to_owned(),
                    rustls::Error::InvalidCertificate(
                        CertificateError::NotValidForName
                        | CertificateError::NotValidForNameContext { .. },
                    ) => format!("not for the name '{}'", name.to_str()),
                    other => format!("refused ({other})"),
                })
            }
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.judge(leaf, intermediates, name, ocsp, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(why) => {
                let found = Fingerprint::of(leaf);
                let why: Arc<Untrusted> = Arc::new(Untrusted { found, why });
                Err(CertificateError::Other(OtherError(why)).into())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_of_openssl() {
        // echo -n abc | sha256sum
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let abc = Fingerprint::of(b"abc");
        assert_eq!(abc.to_string(), hex);
        let colons: Vec<String> = hex
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair).to_uppercase())
            .collect();
        assert_eq!(colons.join(":").parse::<Fingerprint>().unwrap(), abc);
        for wrong in [
            "",
            "ba",
            &hex[1..],
            &format!("{hex}0"),
            &hex.replace('b', "x"),
        ] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
