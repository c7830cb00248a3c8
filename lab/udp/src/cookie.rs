// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cookies for protocols over datagrams. A peer that returns a cookie receives at its claimed
//! address, and the listener needs no state for the check.
use alcc_units::{Span, Time};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::net::{IpAddr, SocketAddr};

/// Maximum age of a cookie.
const MAX_AGE: Span = Span::from_secs(10);
/// Time for which a key signs, and then verifies again: no cookie is older than its key.
const KEY_LIFE: Span = Span::from_secs(60);

/// Length of a cookie.
pub const COOKIE: usize = 24;

/// A cookie.
pub type Cookie = [u8; COOKIE];

/// A key: sixty-four random bytes, a block of SHA-256.
pub type Key = [u8; 64];

/// Issuer and verifier of cookies. A cookie begins with the time of issue in nanoseconds of the
/// listener's clock (8 bytes), followed by the first 16 bytes of an HMAC-SHA256 of that time, the
/// address, the port and the sender's connection id.
pub struct Issuer {
    key: Key,
    before: Key,
    since: Time,
}

impl Issuer {
    /// An issuer with two keys; the second one only verifies.
    pub const fn new(now: Time, key: Key, before: Key) -> Self {
        Self {
            key,
            before,
            since: now,
        }
    }

    /// True if it is time for [`Issuer::rotate`].
    pub fn is_stale(&self, now: Time) -> bool {
        now.since(self.since) >= KEY_LIFE
    }

    /// Signs with this key from now on. The key before the current one no longer verifies.
    pub fn rotate(&mut self, now: Time, key: Key) {
        self.before = std::mem::replace(&mut self.key, key);
        self.since = now;
    }

    /// The cookie for a sender at `from` with this connection id.
    pub fn issue(&self, now: Time, from: SocketAddr, id: u64) -> Cookie {
        let mut cookie = [0; COOKIE];
        let (time, proof) = cookie.split_at_mut(8);
        time.copy_from_slice(&now.as_nanos().to_be_bytes());
        let made = mac(&self.key, now, from, id).finalize().into_bytes();
        proof.copy_from_slice(&made[..COOKIE - 8]);
        cookie
    }

    /// True if the cookie was issued here for this sender, and is not too old.
    pub fn verify(&self, now: Time, from: SocketAddr, id: u64, cookie: &Cookie) -> bool {
        let Some((time, proof)) = cookie.split_first_chunk::<8>() else {
            return false;
        };
        let made = Time::from_nanos(u64::from_be_bytes(*time));
        if made > now || now.since(made) > MAX_AGE {
            return false;
        }
        // Compares in constant time.
        let by = |key| {
            mac(key, made, from, id)
                .verify_truncated_left(proof)
                .is_ok()
        };
        by(&self.key) || by(&self.before)
    }
}

/// A random number that cannot be guessed: the id of a new connection.
///
/// # Errors
/// The system provides no random numbers.
pub fn unguessable() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

fn mac(key: &Key, at: Time, from: SocketAddr, id: u64) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new(key.into());
    mac.update(&at.as_nanos().to_be_bytes());
    match from.ip() {
        IpAddr::V4(ip) => mac.update(&ip.to_ipv6_mapped().octets()),
        IpAddr::V6(ip) => mac.update(&ip.octets()),
    }
    mac.update(&from.port().to_be_bytes());
    mac.update(&id.to_be_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::ZERO + Span::from_secs(s)
    }

    #[test]
    fn a_cookie_is_for_one_address_one_id_and_ten_seconds() {
        let issuer = Issuer::new(at(100), [1; 64], [2; 64]);
        let from: SocketAddr = "192.0.2.1:5000".parse().unwrap();
        let cookie = issuer.issue(at(100), from, 7);
        assert!(issuer.verify(at(100), from, 7, &cookie));
        assert!(issuer.verify(at(110), from, 7, &cookie));
        assert!(!issuer.verify(at(111), from, 7, &cookie), "too old");
        assert!(!issuer.verify(at(99), from, 7, &cookie), "from the future");
        assert!(!issuer.verify(at(101), from, 8, &cookie));
        for other in ["192.0.2.2:5000", "192.0.2.1:5001", "[2001:db8::1]:5000"] {
            assert!(!issuer.verify(at(101), other.parse().unwrap(), 7, &cookie));
        }
        for i in 0..COOKIE {
            let mut forged = cookie;
            forged[i] ^= 1;
            assert!(!issuer.verify(at(105), from, 7, &forged), "byte {i}");
        }
        assert!(!issuer.verify(at(105), from, 7, &[0; COOKIE]));
    }

    #[test]
    fn a_cookie_outlives_one_change_of_keys_and_not_two() {
        let mut issuer = Issuer::new(at(0), [1; 64], [2; 64]);
        let from: SocketAddr = "[::1]:9".parse().unwrap();
        assert!(!issuer.is_stale(at(59)) && issuer.is_stale(at(60)));
        let cookie = issuer.issue(at(59), from, 1);
        issuer.rotate(at(60), [3; 64]);
        assert!(issuer.verify(at(61), from, 1, &cookie));
        assert!(issuer.verify(at(61), from, 1, &issuer.issue(at(61), from, 1)));
        issuer.rotate(at(62), [4; 64]);
        assert!(!issuer.verify(at(63), from, 1, &cookie));
    }
}
