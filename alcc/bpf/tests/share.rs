// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's half chooses the same clients as everybody else.
use alcc_bpf as _;
use alcc_observe::{Share, client_of};
use alcc_units::Rng;
use std::net::{Ipv4Addr, Ipv6Addr};

unsafe extern "C" {
    fn alcc_host_client_of_v4(address: u32) -> u64;
    fn alcc_host_client_of_v6(first: u32, second: u32) -> u64;
    fn alcc_host_in_share(client: u64, salt: u64, per_mille: u16) -> i32;
}

#[test]
fn a_client_is_in_the_same_group_whoever_asks() {
    let mut rng = Rng::new(5);
    let mut chosen = 0;
    for n in 0..20_000u32 {
        let v4 = Ipv4Addr::from_bits(rng.next_u64() as u32);
        let v6 = Ipv6Addr::from_bits(u128::from(rng.next_u64()) << 64 | u128::from(n));
        let words = [v6.to_bits() >> 96, v6.to_bits() >> 64].map(|w| w as u32);
        // SAFETY: pure functions of numbers.
        let clients = unsafe {
            [
                alcc_host_client_of_v4(v4.to_bits()),
                alcc_host_client_of_v6(words[0], words[1]),
            ]
        };
        assert_eq!(clients, [client_of(v4.into()), client_of(v6.into())]);
        let text = ["10%", "0.5%", "50%@7", "100%", "99.9%@123456789012"][n as usize % 5];
        let share: Share = text.parse().unwrap();
        for client in clients {
            // SAFETY: as above.
            let has = unsafe { alcc_host_in_share(client, share.salt(), share.per_mille()) };
            assert_eq!(has != 0, share.has(client), "{v4} {v6} {text}");
            chosen += usize::from(has != 0);
        }
    }
    assert!((18_000..24_000).contains(&chosen), "{chosen}");
}
