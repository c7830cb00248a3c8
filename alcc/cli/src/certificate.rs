// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of `alcc send` and `alcc recv` for certificates: the receiver's own, and those that the sender
//! trusts.
use crate::failure::Failure;
use alcc_pipe::tls::{Fingerprint, Trust};
use std::path::PathBuf;

/// Options of the sender.
#[derive(clap::Args)]
pub(crate) struct Trusting {
    /// SHA-256 fingerprint of the receiver's certificate, as 'alcc recv' prints it
    #[arg(long, value_name = "FINGERPRINT", conflicts_with_all = ["ca", "insecure"])]
    pin: Option<String>,
    /// PEM file of the authority that signed the receiver's certificate [default: the system's]
    #[arg(
        long,
        hide_short_help = true,
        value_name = "FILE",
        conflicts_with = "insecure"
    )]
    ca: Option<PathBuf>,
}

impl Trusting {
    /// With `--insecure` any receiver is accepted.
    pub(crate) fn trust(&self, insecure: bool) -> Result<Trust, Failure> {
        Ok(match (&self.pin, &self.ca) {
            (Some(pin), _) => {
                let pin: Fingerprint = pin
                    .parse()
                    .map_err(|why| Failure::usage(format!("--pin: {why}")))?;
                Trust::Pin(pin)
            }
            (None, Some(file)) => Trust::Ca(file.clone()),
            (None, None) if insecure => Trust::Anybody,
            (None, None) => Trust::System,
        })
    }
}

/// Options of the receiver.
#[derive(clap::Args)]
pub(crate) struct Showing {
    /// Certificate to present with TLS, PEM [default: a new, self-signed one]
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of --cert, PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl Showing {
    pub(crate) fn files(&self) -> Option<(PathBuf, PathBuf)> {
        self.cert.clone().zip(self.key.clone())
    }
}
