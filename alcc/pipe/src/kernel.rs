// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The congestion controls of the kernel's TCP.
use crate::Failure;
use std::fmt;
use std::io;

/// Congestion controls of the kernel's TCP, without modules that are not loaded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Controls(String);

impl Controls {
    /// The current list of the kernel.
    ///
    /// # Errors
    /// The list cannot be read, for example because /proc is not mounted. The error names the file.
    pub fn available() -> io::Result<Self> {
        const FILE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let list = std::fs::read_to_string(FILE)
            .map_err(|e| io::Error::new(e.kind(), format!("read {FILE}: {e}")))?;
        Ok(Self::listed(&list))
    }

    /// Parses the kernel's form of the list: names separated by spaces.
    pub fn listed(list: &str) -> Self {
        Self(list.trim().to_owned())
    }

    /// True if the kernel has this one.
    pub fn has(&self, name: &str) -> bool {
        self.0.split_whitespace().any(|known| known == name)
    }

    /// True if no control is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Controls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks that the kernel has this congestion control.
///
/// # Errors
/// [`Failure::Usage`] with the list of those that it has.
pub fn check_under(name: &str) -> Result<(), Failure> {
    let available = Controls::available().unwrap_or_default();
    if available.is_empty() || available.has(name) {
        return Ok(());
    }
    let help = match name.strip_prefix("alcc_") {
        Some(_) => "run 'alcc bpf load' first",
        None => "another may need its module loaded",
    };
    Err(Failure::usage(format!(
        "congestion control '{name}': this kernel has {available}; {help}"
    )))
}

/// The kernel's control of this name, or else the one that `alcc bpf load` has added for the same
/// algorithm. If there is none either, the name itself, which [`check_under`] refuses.
pub fn own_or_loaded(name: &str) -> String {
    choose(name, &Controls::available().unwrap_or_default())
}

fn choose(name: &str, available: &Controls) -> String {
    let loaded = format!("alcc_{name}");
    if !available.has(name) && available.has(&loaded) {
        loaded
    } else {
        name.to_owned()
    }
}

/// The kernel's default congestion control.
pub fn default_under() -> String {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control")
        .map_or_else(|_| "kernel".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_control_is_refused_with_what_helps() {
        let says = |name| check_under(name).unwrap_err().to_string();
        assert!(says("alcc_nosuch").ends_with("run 'alcc bpf load' first"));
        assert!(says("nosuch").ends_with("may need its module loaded"));
    }

    #[test]
    fn a_name_is_a_whole_word_of_the_list() {
        let controls = Controls::listed("reno cubic alcc_bic\n");
        assert!(controls.has("reno") && controls.has("alcc_bic"));
        assert!(!controls.has("bic") && !controls.has(""));
        assert_eq!(controls.to_string(), "reno cubic alcc_bic");
        assert!(Controls::listed("\n").is_empty() && !controls.is_empty());
    }

    #[test]
    fn the_kernels_own_comes_first() {
        let choose = |list| choose("bic", &Controls::listed(list));
        assert_eq!(choose("reno cubic"), "bic", "to be refused by name");
        assert_eq!(choose("reno alcc_bic cubic"), "alcc_bic");
        assert_eq!(choose("reno alcc_bic bic"), "bic");
    }
}
