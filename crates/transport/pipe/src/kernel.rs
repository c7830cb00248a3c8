// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel has: congestion controls of its TCP.
use crate::Failure;

fn setting(file: &str) -> std::io::Result<String> {
    std::fs::read_to_string(format!("/proc/sys/net/ipv4/{file}"))
}

/// Checks that the kernel has this congestion control.
///
/// # Errors
/// [`Failure::Usage`] with those it has.
pub fn check_under(name: &str) -> Result<(), Failure> {
    let available = setting("tcp_available_congestion_control").unwrap_or_default();
    if available.is_empty() || available.split_whitespace().any(|a| a == name) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "congestion control '{name}': this kernel has {}; another may need its module loaded",
        available.trim()
    )))
}

/// The kernel's control of this name. Where it has none but `alcc bpf load` has added the same
/// algorithm, that one; else the name itself, for [`check_under`] to refuse.
pub fn own_or_loaded(name: &str) -> String {
    let available = setting("tcp_available_congestion_control").unwrap_or_default();
    choose(name, &available)
}

fn choose(name: &str, available: &str) -> String {
    let has = |wanted: &str| available.split_whitespace().any(|a| a == wanted);
    let loaded = format!("alcc_{name}");
    if !has(name) && has(&loaded) {
        loaded
    } else {
        name.to_owned()
    }
}

/// The congestion control that the kernel takes when nobody says otherwise.
pub fn default_under() -> String {
    setting("tcp_congestion_control")
        .map_or_else(|_| "kernel".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_comes_first() {
        assert_eq!(choose("bic", "reno cubic"), "bic", "to be refused by name");
        assert_eq!(choose("bic", "reno alcc_bic cubic"), "alcc_bic");
        assert_eq!(choose("bic", "reno alcc_bic bic"), "bic");
    }
}
