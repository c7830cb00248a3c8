// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's half bounds what is written ahead as `UnsentLimit` of alcc-socket does.
use alcc_bpf as _;

const MARK: u32 = 0x5A5;

unsafe extern "C" {
    fn alcc_host_unsent_is_own(limit: u32) -> i32;
    fn alcc_host_unsent_followed(is: u32, rate: u64) -> u32;
}

fn is_own(limit: u32) -> bool {
    // SAFETY: a pure function of numbers.
    unsafe { alcc_host_unsent_is_own(limit) != 0 }
}

/// KiB, at this rate in Mbit/s.
fn followed(kib: u32, mbps: u64) -> u32 {
    // SAFETY: as above.
    let limit = unsafe { alcc_host_unsent_followed(kib << 10 | MARK, mbps * 125_000) };
    assert!(is_own(limit), "{limit}");
    (limit ^ MARK) >> 10
}

#[test]
fn it_is_four_milliseconds_and_one_step_down_is_not_followed() {
    for (mbps, kib) in [(0, 16), (32, 16), (33, 32), (200, 128), (2000, 1024)] {
        assert_eq!(followed(16, mbps), kib, "{mbps} Mbit/s");
        assert_eq!(followed(4 * kib, mbps), kib, "{mbps} Mbit/s, from above");
    }
    assert_eq!(followed(128, 120), 128, "one step down");
    assert_eq!(followed(128, 40), 32);
    assert_eq!(followed(16, u64::MAX / 125_000), 1 << 20);
}

#[test]
fn a_programs_own_is_not_taken_for_ours() {
    let asked = (0..2000).map(|n| n * 1000).chain((0..32).map(|n| 1 << n));
    assert!(!asked.chain([MARK, u32::MAX]).any(is_own));
}
