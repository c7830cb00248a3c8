// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams that are not encrypted stay where nobody else can read or write them, unless the user insists.
use nix::ifaddrs::getifaddrs;
use nix::sys::stat::stat;
use std::net::{IpAddr, Ipv4Addr};

/// May what is not encrypted be exchanged with this address (for a listener: at this address)? Yes if it is loopback, and anywhere in a
/// network namespace that was made for tests: one that is not process 1's. Who may not see process 1's has to be content with
/// namespaces whose every address is loopback, link-local or one that `alcc emulate` gives (100.64.0.0/10). A container's
/// process 1 lives in the container's own namespace: there the answer is no, as on the machine itself.
///
/// # Errors
/// What stands against it, as the end of a line.
pub fn permit(address: IpAddr) -> Result<(), String> {
    if address.to_canonical().is_loopback() || is_for_tests() {
        return Ok(());
    }
    Err(format!(
        "it is not encrypted, and {address} is neither loopback nor in a network namespace made for tests: \
         --insecure uses it in the clear nevertheless"
    ))
}

fn is_for_tests() -> bool {
    let namespace = |path: &str| stat(path).map(|s| (s.st_dev, s.st_ino)).ok();
    let own = namespace("/proc/thread-self/ns/net");
    match (own, namespace("/proc/1/ns/net")) {
        (None, _) => false,
        (own, Some(first)) => own != Some(first),
        (_, None) => has_only_emulated_addresses(),
    }
}

/// Every address here is one of those that lead nowhere but into an emulator.
fn has_only_emulated_addresses() -> bool {
    let Ok(interfaces) = getifaddrs() else {
        return false;
    };
    let mut emulated = false;
    for storage in interfaces.filter_map(|interface| interface.address) {
        if let Some(v4) = storage.as_sockaddr_in() {
            let ip = v4.ip();
            let ours = ip & Ipv4Addr::new(255, 192, 0, 0) == Ipv4Addr::new(100, 64, 0, 0);
            if !ours && !ip.is_loopback() && !ip.is_link_local() {
                return false;
            }
            emulated |= ours;
        } else if let Some(v6) = storage.as_sockaddr_in6() {
            let ip = v6.ip();
            if !ip.is_loopback() && !ip.is_unicast_link_local() {
                return false;
            }
        }
    }
    emulated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_in_all_its_forms() {
        for ip in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(permit(ip.parse().unwrap()), Ok(()), "{ip}");
        }
    }
}
