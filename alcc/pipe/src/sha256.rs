// SPDX-License-Identifier: Apache-2.0 OR MIT
use ring::digest::{Context, SHA256};
use std::fmt;

/// SHA-256, by the library that TLS uses anyway.
#[derive(Clone)]
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sha256 {
    /// Does not print the state, which may depend on a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sha256")
    }
}

impl Sha256 {
    /// The state before the first byte.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all bytes.
    pub fn finalize(self) -> [u8; 32] {
        let mut digest = [0; 32];
        digest.copy_from_slice(self.0.finish().as_ref());
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_copies_go_on_as_the_whole() {
        let digest = |pieces: &[&[u8]]| {
            let mut hash = Sha256::default();
            for piece in pieces {
                hash.update(piece);
            }
            hash.finalize()
        };
        assert_eq!(digest(&[b"ab", b"", b"c"]), digest(&[b"abc"]));
        // printf '' | sha256sum
        assert_eq!(digest(&[])[..4], [0xe3, 0xb0, 0xc4, 0x42]);
        let mut one = Sha256::new();
        one.update(b"a");
        let mut other = one.clone();
        one.update(b"bc");
        other.update(b"x");
        assert_eq!(one.finalize(), digest(&[b"abc"]));
        assert_eq!(other.finalize(), digest(&[b"ax"]));
    }
}
