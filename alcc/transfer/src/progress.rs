// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_pipe::Sha256;

/// The beginning of a file: its length, and the state of its hash.
#[derive(Clone, Default)]
pub struct Progress {
    bytes: u64,
    hash: Sha256,
}

impl Progress {
    pub(crate) fn new(bytes: u64, hash: Sha256) -> Self {
        Self { bytes, hash }
    }

    /// Length of the beginning, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Extends the beginning by this content.
    pub fn add(&mut self, content: &[u8]) {
        self.bytes += content.len() as u64;
        self.hash.update(content);
    }

    /// The SHA-256 of the beginning.
    pub fn sum(self) -> [u8; 32] {
        self.hash.finalize()
    }

    pub(crate) fn into_hash(self) -> Sha256 {
        self.hash
    }
}
