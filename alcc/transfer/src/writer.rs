// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{BLOCK, BLOCK_PREFIX, Header, Kind, Progress, TRAILER, made_up};
use alcc_pipe::Sha256;

/// Encoder of the blocks of one flow, in its own buffer. The bytes that [`Writer::made_up`] and
/// [`Writer::file`] return are written unchanged.
pub struct Writer {
    buffer: Vec<u8>,
    hash: Option<Sha256>,
    bytes: u64,
    blocks: u64,
    /// The part of the text that the header of the last made-up block replaced, with its position.
    replaced: Option<(usize, [u8; BLOCK_PREFIX])>,
}

impl Writer {
    /// A writer for a flow with this header.
    pub fn new(header: &Header) -> Self {
        let file = header.kind == Kind::File;
        Self {
            buffer: if file {
                vec![0; BLOCK_PREFIX + BLOCK]
            } else {
                made_up::text()
            },
            hash: file.then(Sha256::new),
            bytes: 0,
            blocks: 0,
            replaced: None,
        }
    }

    /// A writer for the rest of a file, of which the receiver has the part `earlier`.
    pub fn after(header: &Header, earlier: Progress) -> Self {
        let mut writer = Self::new(header);
        writer.bytes = earlier.bytes();
        writer.hash = Some(earlier.into_hash());
        writer
    }

    /// Bytes of content so far, those of earlier connections included.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A block of `length` (1 to [`BLOCK`], cut to that) bytes of made-up content, written at
    /// `stamp` ns.
    pub fn made_up(&mut self, length: usize, stamp: u64) -> &[u8] {
        let length = length.clamp(1, BLOCK);
        if let Some((at, bytes)) = self.replaced.take() {
            self.buffer[at..at + BLOCK_PREFIX].copy_from_slice(&bytes);
        }
        let at = made_up::place(self.blocks);
        let mut replaced = [0; BLOCK_PREFIX];
        replaced.copy_from_slice(&self.buffer[at..at + BLOCK_PREFIX]);
        self.replaced = Some((at, replaced));
        self.finish(at, length, stamp)
    }

    /// Buffer for the content of the next block of a file; then call [`Writer::file`].
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.buffer[BLOCK_PREFIX..BLOCK_PREFIX + BLOCK]
    }

    /// A block of the first `length` (1 to [`BLOCK`], cut to that) bytes of [`Writer::space`],
    /// written at `stamp` ns.
    pub fn file(&mut self, length: usize, stamp: u64) -> &[u8] {
        let length = length.clamp(1, BLOCK);
        if let Some(hash) = &mut self.hash {
            hash.update(&self.buffer[BLOCK_PREFIX..BLOCK_PREFIX + length]);
        }
        self.finish(0, length, stamp)
    }

    fn finish(&mut self, at: usize, length: usize, stamp: u64) -> &[u8] {
        self.bytes += length as u64;
        self.blocks += 1;
        let block = &mut self.buffer[at..at + BLOCK_PREFIX + length];
        block[0..4].copy_from_slice(&(length as u32).to_be_bytes());
        block[4..12].copy_from_slice(&stamp.to_be_bytes());
        block
    }

    /// The trailer, and the hash in it.
    pub fn trailer(self, stamp: u64) -> ([u8; TRAILER], [u8; 32]) {
        let mut bytes = [0; TRAILER];
        let hash = self.hash.map_or([0; 32], Sha256::finalize);
        bytes[4..12].copy_from_slice(&stamp.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.bytes.to_be_bytes());
        bytes[20..52].copy_from_slice(&hash);
        (bytes, hash)
    }
}
