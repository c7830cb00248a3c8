// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who shows a cookie again receives at the address that it claims to have: until then a listener remembers nothing and sends
//! nothing that is longer than what came.
use crate::wire::COOKIE;
use alcc_units::{Span, Time};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

/// A cookie is good for so long.
const LIFE: Span = Span::from_secs(10);

#[derive(Default)]
pub(crate) struct Baker(RandomState, RandomState);

impl Baker {
    pub(crate) fn bake(&self, now: Time, from: SocketAddr, id: u64) -> [u8; COOKIE] {
        let key = (now, from, id);
        let mut cookie = [0; COOKIE];
        let parts = [now.as_nanos(), self.0.hash_one(key), self.1.hash_one(key)];
        for (to, part) in cookie.chunks_exact_mut(8).zip(parts) {
            to.copy_from_slice(&part.to_be_bytes());
        }
        cookie
    }

    pub(crate) fn knows(
        &self,
        now: Time,
        from: SocketAddr,
        id: u64,
        cookie: &[u8; COOKIE],
    ) -> bool {
        let Some((time, _)) = cookie.split_first_chunk::<8>() else {
            return false;
        };
        let made = Time::from_nanos(u64::from_be_bytes(*time));
        made <= now && now.since(made) <= LIFE && self.bake(made, from, id) == *cookie
    }
}

/// A number that nobody can guess.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}
