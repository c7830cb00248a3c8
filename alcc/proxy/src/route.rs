// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The route to the server: its name and the addresses of that name.
use crate::Target;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Minimum time between two look-ups, so that a server that is down does not cause one for every
/// client.
const MIN_LOOKUP_INTERVAL: Duration = Duration::from_secs(1);

pub(crate) struct Route {
    target: Target,
    /// The proxy's own listen addresses, which are never used as server.
    own: Vec<SocketAddr>,
    addresses: Mutex<Arc<[SocketAddr]>>,
    /// Index of the address that answered last.
    last_good: AtomicUsize,
    looking_up: AtomicBool,
}

/// True if a connection to `server` would reach one of our own listeners.
pub(crate) fn reaches_one_of(listeners: &[SocketAddr], server: &SocketAddr) -> bool {
    listeners.iter().any(|own| {
        let every = own.ip().is_unspecified() && server.ip().is_loopback();
        own.port() == server.port() && (every || own.ip() == server.ip())
    })
}

impl Route {
    pub(crate) fn new(target: Target, addresses: Vec<SocketAddr>, own: Vec<SocketAddr>) -> Self {
        Self {
            target,
            own,
            addresses: Mutex::new(addresses.into()),
            last_good: AtomicUsize::new(0),
            looking_up: AtomicBool::new(false),
        }
    }

    /// All addresses, and the index of the one to try first.
    pub(crate) fn addresses(&self) -> (Arc<[SocketAddr]>, usize) {
        let addresses = Arc::clone(&alcc_sys::lock(&self.addresses));
        (addresses, self.last_good.load(Ordering::Relaxed))
    }

    pub(crate) fn answered(&self, index: usize) {
        self.last_good.store(index, Ordering::Relaxed);
    }

    /// Called if no address answered: looks the name up again, outside the loops, for later
    /// connections.
    pub(crate) fn failed(self: &Arc<Self>) {
        if self.target.is_literal() || self.looking_up.swap(true, Ordering::AcqRel) {
            return;
        }
        let route = Arc::clone(self);
        let spawned = std::thread::Builder::new()
            .name("resolver".to_owned())
            .spawn(move || {
                let mut found = route.target.addresses().unwrap_or_default();
                found.retain(|server| !reaches_one_of(&route.own, server));
                if !found.is_empty() {
                    *alcc_sys::lock(&route.addresses) = found.into();
                    route.last_good.store(0, Ordering::Relaxed);
                }
                std::thread::sleep(MIN_LOOKUP_INTERVAL);
                route.looking_up.store(false, Ordering::Release);
            });
        if spawned.is_err() {
            self.looking_up.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_name_is_looked_up_again_when_it_has_failed_and_an_address_is_not() {
        let stale: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let of = |to: &str| {
            let (to, stale) = (to.parse().unwrap(), vec![stale, stale]);
            Arc::new(Route::new(to, stale, Vec::new()))
        };
        let (name, literal) = (of("localhost:80"), of("192.0.2.1:80"));
        name.answered(1);
        assert_eq!(name.addresses().1, 1);
        name.failed();
        literal.failed();
        let deadline = Instant::now() + Duration::from_secs(20);
        while name.addresses().0.contains(&stale) {
            assert!(Instant::now() < deadline, "it is not looked up again");
            std::thread::sleep(Duration::from_millis(5));
        }
        let (found, first) = name.addresses();
        assert!(found.iter().all(|a| a.ip().is_loopback() && a.port() == 80));
        assert_eq!(first, 0);
        assert_eq!(literal.addresses().0.len(), 2);
    }

    #[test]
    fn a_name_that_has_become_the_proxys_own_leads_nowhere() {
        let stale: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let to = |own: &str| {
            let own = vec![own.parse().unwrap()];
            let route = Arc::new(Route::new(
                "localhost:80".parse().unwrap(),
                vec![stale],
                own,
            ));
            route.failed();
            let deadline = Instant::now() + Duration::from_secs(20);
            // It has been looked up when the next one may be.
            while route.looking_up.load(Ordering::Acquire) {
                assert!(Instant::now() < deadline);
                std::thread::sleep(Duration::from_millis(5));
            }
            route.addresses().0.to_vec()
        };
        for own in ["0.0.0.0:80", "[::]:80"] {
            assert_eq!(to(own), [stale], "{own}");
        }
        let own: SocketAddr = "127.0.0.1:80".parse().unwrap();
        assert!(!to("127.0.0.1:80").contains(&own));
        assert!(!to("127.0.0.1:81").contains(&stale));
    }
}
