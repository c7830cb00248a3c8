// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A share of the clients, by a hash of their addresses: a client is in it always or never.
use alcc_units::Rng;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A number for the client at an address. An IPv6 client can change the last 64 bits of its
/// address, so only the first 64 count.
pub fn client_of(address: IpAddr) -> u64 {
    let seed = match address.to_canonical() {
        IpAddr::V4(v4) => u64::from(v4.to_bits()) | 0xFFFF << 32,
        IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64,
    };
    Rng::new(seed).next_u64()
}

/// Some of the clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    per_mille: u16,
    salt: u64,
}

impl Share {
    /// Size of the share, in thousandths of the clients.
    pub fn per_mille(&self) -> u16 {
        self.per_mille
    }

    /// The number that selects one of the shares of this size.
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// Size of the share in per cent of the clients.
    pub fn percent(&self) -> f64 {
        f64::from(self.per_mille) / 10.0
    }

    /// A share of the same size that also depends on a secret, so that others cannot compute which
    /// clients are in it.
    #[must_use]
    pub fn salted(self, secret: u64) -> Self {
        let own = Rng::new(self.salt).next_u64();
        Self {
            salt: Rng::new(secret ^ own).next_u64(),
            ..self
        }
    }

    /// True if this client ([`client_of`]) is in it.
    pub fn has(&self, client: u64) -> bool {
        let salt = Rng::new(self.salt).next_u64();
        Rng::new(client ^ salt).below(1000) < u64::from(self.per_mille)
    }
}

/// Parses `10%`, `0.5%`, `10%@7`: the number after the `@` selects other clients.
impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("'{text}' is not a share of the clients: write 0.1% to 100%, such as 10%");
        let (percent, salt) = text.split_once('%').ok_or_else(bad)?;
        let salt = match salt.strip_prefix('@') {
            Some(salt) => salt.parse().map_err(|_| bad())?,
            None if salt.is_empty() => 0,
            None => return Err(bad()),
        };
        let per_mille = percent.parse::<f64>().map_err(|_| bad())? * 10.0;
        if !(1.0..=1000.0).contains(&per_mille.round()) {
            return Err(bad());
        }
        Ok(Self {
            per_mille: per_mille.round() as u16,
            salt,
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.percent())?;
        if self.salt != 0 {
            write!(f, "@{}", self.salt)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn share(text: &str) -> Share {
        text.parse().unwrap()
    }

    #[test]
    fn neighbours_are_spread_and_the_share_is_kept() {
        // One home network after the other: consecutive addresses must not be alike.
        for (text, wanted) in [("10%", 0.1), ("10%@7", 0.1), ("50%", 0.5), ("0.5%", 0.005)] {
            let share = share(text);
            let found = (0..100_000u32).filter(|n| {
                let address = Ipv4Addr::from_bits(0x0A00_0000 + n);
                share.has(client_of(address.into()))
            });
            let part = found.count() as f64 / 1e5;
            assert!((part - wanted).abs() < 0.004, "{text}: {part}");
        }
        let all = (0..1000u32).all(|n| share("100%").has(client_of(Ipv4Addr::from_bits(n).into())));
        assert!(all);
    }

    #[test]
    fn a_client_is_its_address_and_of_ipv6_its_network() {
        let of = |text: &str| client_of(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:3:4:5:6"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }

    #[test]
    fn another_salt_is_another_choice() {
        let chosen = |text: &str| -> Vec<bool> {
            let share = share(text);
            let clients = (0..500u32).map(|n| client_of(Ipv4Addr::from_bits(n).into()));
            clients.map(|client| share.has(client)).collect()
        };
        assert_eq!(chosen("30%"), chosen("30%"));
        assert_ne!(chosen("30%"), chosen("30%@1"));
        // A secret chooses anew, the same secret the same ones, and both numbers count.
        let salted = |text: &str, secret| chosen(&share(text).salted(secret).to_string());
        assert_eq!(salted("30%", 5), salted("30%", 5));
        assert_ne!(salted("30%", 5), salted("30%", 6));
        assert_ne!(salted("30%", 5), salted("30%@1", 5));
        assert_ne!(salted("30%", 0), chosen("30%"));
    }

    #[test]
    fn a_share_is_written_as_it_is_read() {
        for text in ["10%", "0.5%", "100%", "25%@99"] {
            assert_eq!(share(text).to_string(), text);
        }
        for bad in ["0%", "101%", "10", "x%", "10%7", "10%@x", "-5%", "nan%"] {
            let why = bad.parse::<Share>().unwrap_err();
            assert!(why.contains("such as 10%"), "{why}");
        }
    }
}
