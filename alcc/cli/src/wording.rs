// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers and remarks in words.
use crate::output::note;
use alcc_socket::Enforcement;

/// "1 connection", "2 connections".
pub(crate) fn count(n: u64, what: &str) -> String {
    let end = match (n, what.ends_with("ss")) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {what}{end}")
}

/// "12.3 MB".
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// "; the gate closed 3 times", for connections that the kernel does not limit. Empty if it limits all,
/// because there is no gate then.
pub(crate) fn gate(enforcement: &Enforcement, closed: u64) -> String {
    if enforcement.gate || closed > 0 {
        format!("; the gate closed {}", count(closed, "time"))
    } else {
        String::new()
    }
}

/// Notes the number of connections that were refused the requested congestion control, if any.
pub(crate) fn note_refused(connections: u64, under: &str) {
    if connections > 0 {
        note(format_args!(
            "alcc: {} kept the kernel's own congestion control: --under {under} was refused (not in net.ipv4.tcp_allowed_congestion_control?)",
            count(connections, "connection"),
        ));
    }
}

/// The reason and a fix.
pub(crate) fn hint(why: &str, remedy: Option<&str>) -> String {
    remedy.map_or_else(|| why.to_owned(), |remedy| format!("{why}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_and_many() {
        assert_eq!(count(1, "connection"), "1 connection");
        assert_eq!(count(0, "connection"), "0 connections");
        assert_eq!(count(2, "process"), "2 processes");
        assert_eq!(megabytes(15_340_000), "15.3 MB");
        assert_eq!(hint("a", None), "a");
        assert_eq!(hint("a", Some("b")), "a; b");
    }

    #[test]
    fn only_who_has_a_gate_hears_of_it() {
        let said = |enforcement: &str, closed| {
            let preloaded = alcc_socket::Deployment::Preloaded;
            gate(
                &Enforcement::choose(preloaded, enforcement).unwrap(),
                closed,
            )
        };
        assert_eq!(said("gate", 0), "; the gate closed 0 times");
        assert_eq!(said("bpf", 0), "");
        assert_eq!(said("pacing", 0), "");
        // Some of its connections were refused the requested control.
        assert_eq!(said("bpf", 1), "; the gate closed 1 time");
    }
}
