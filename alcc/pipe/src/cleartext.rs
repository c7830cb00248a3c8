// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unencrypted data is allowed only where no other host can read or write it, unless the user
//! insists.
use crate::Failure;
use std::net::IpAddr;

/// Checks whether unencrypted data may be exchanged with this address (for a listener: at this
/// address). It may on loopback, and if it is `allowed`. `local` is the option that keeps a test on
/// this machine, `what` the beginning of the message.
///
/// # Errors
/// [`Failure::Usage`] with the reason and the remedy.
pub fn permit(address: IpAddr, allowed: bool, what: &str, local: &str) -> Result<(), Failure> {
    if allowed || address.to_canonical().is_loopback() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{what}: it is not encrypted, and {address} is neither loopback nor inside 'alcc-lab emulate': \
         use {local} to test on this machine, or --insecure to cross a real network unencrypted"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_in_all_its_forms_and_nothing_else() {
        for ip in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(permit(ip.parse().unwrap(), false, "", "x").is_ok(), "{ip}");
        }
        for ip in ["0.0.0.0", "::", "192.0.2.1", "100.64.0.1", "fe80::1"] {
            let permit = |allowed| permit(ip.parse().unwrap(), allowed, "", "--bind 127.0.0.1");
            let why = permit(false).unwrap_err().to_string();
            assert!(why.contains("use --bind 127.0.0.1 to test"), "{why}");
            assert!(permit(true).is_ok());
        }
    }
}
