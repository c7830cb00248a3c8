// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of both ends, and the check whether it is the same.
use alcc_pipe::{Failure, Sha256};

/// `CLOCK_MONOTONIC`, ns: the same in all processes of a machine.
pub(crate) fn now() -> u64 {
    alcc_sys::now().as_nanos()
}

/// A digest of `session` and of the identity of `CLOCK_MONOTONIC`: the boot of this machine, and
/// the time namespace. Two processes with the same digest have the same clock. Zero: unknown.
pub fn clock_digest(session: &[u8; 16]) -> [u8; 16] {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id");
    let namespace = std::fs::read_link("/proc/self/ns/time");
    let mut digest = [0; 16];
    if let Ok(boot) = boot {
        // A kernel without time namespaces has a single clock.
        let namespace = namespace.unwrap_or_default();
        let mut hash = Sha256::new();
        hash.update(session);
        hash.update(&boot);
        hash.update(namespace.as_os_str().as_encoded_bytes());
        digest.copy_from_slice(&hash.finalize()[..16]);
    }
    digest
}

/// A new session number, which cannot be guessed.
///
/// # Errors
/// [`Failure::Usage`]: the system provides no random numbers.
pub fn new_session() -> Result<[u8; 16], Failure> {
    alcc_sys::random().map_err(|e| Failure::usage(format!("read /dev/urandom: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_told_by_session_and_machine() {
        let (a, b) = (clock_digest(&[1; 16]), clock_digest(&[2; 16]));
        assert_eq!(a, clock_digest(&[1; 16]));
        assert_ne!(a, b, "nobody is recognised by it a second time");
        assert!(now() <= now());
    }
}
