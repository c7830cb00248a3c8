// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Certificates for tests, by OpenSSL.
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a key and a certificate that is signed by it, both PEM. `more`: further words for
/// `openssl req`.
pub(crate) fn certificate(certificate: &Path, key: &Path, name: &str, more: &[&str]) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "30"])
        .args(["-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-subj", &format!("/CN={name}")])
        .args(more)
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(made.success());
}
