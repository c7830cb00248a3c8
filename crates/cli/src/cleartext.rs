// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams that are not encrypted stay where nobody else can read or write them, unless the user insists.
use std::net::IpAddr;

/// May what is not encrypted be exchanged with this address (for a listener: at this address)? Yes if it is loopback, and anywhere inside a
/// namespace that our emulator made for this program. `local`: the option that keeps a test on this machine.
///
/// # Errors
/// What stands against it and what would help, as the end of a line.
pub(crate) fn permit(address: IpAddr, local: &str) -> Result<(), String> {
    if address.to_canonical().is_loopback() || alcc_emu::is_emulated() {
        return Ok(());
    }
    Err(format!(
        "it is not encrypted, and {address} is neither loopback nor inside 'alcc emulate': \
         {local} tests on this machine, --insecure uses a real network in the clear"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_in_all_its_forms_and_nothing_else() {
        for ip in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(permit(ip.parse().unwrap(), "x"), Ok(()), "{ip}");
        }
        if !alcc_emu::is_emulated() {
            for ip in ["0.0.0.0", "::", "192.0.2.1", "100.64.0.1", "fe80::1"] {
                let why = permit(ip.parse().unwrap(), "--bind 127.0.0.1").unwrap_err();
                assert!(why.contains("--bind 127.0.0.1 tests"), "{why}");
            }
        }
    }
}
