// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Offset of the clock in a time namespace: its monotonic clock differs from the kernel's, which
//! BPF programs use (time_namespaces(7)).
use std::fs::{read_link, read_to_string};

/// Monotonic clock of this process minus that of the kernel, ns; zero if /proc is not accessible.
pub(super) fn ahead() -> i64 {
    let name = |of: &str| read_link(format!("/proc/self/ns/{of}")).ok();
    // The offsets are those of the namespace for children.
    let ours = name("time").filter(|time| name("time_for_children").as_ref() == Some(time));
    ours.and_then(|_| read_to_string("/proc/self/timens_offsets").ok())
        .and_then(|offsets| monotonic(&offsets))
        .unwrap_or(0)
}

/// Parses lines of the form "CLOCK SECONDS NANOSECONDS".
fn monotonic(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find(|l| l.starts_with("monotonic"))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_the_monotonic_clock_is_read() {
        let of = "monotonic       86400         5\nboottime           -10         0\n";
        assert_eq!(monotonic(of), Some(86_400_000_000_005));
        let back = "boottime 7 0\nmonotonic -3 999999999\n";
        assert_eq!(monotonic(back), Some(-2_000_000_001));
        for wrong in [
            "",
            "monotonic",
            "monotonic 1",
            "monotonic x 0",
            "boottime 1 2",
        ] {
            assert_eq!(monotonic(wrong), None, "{wrong}");
        }
    }
}
