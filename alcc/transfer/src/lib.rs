// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The format that `alcc send` writes into a byte stream, and the checks of `alcc recv`.
//! [`sending`] and [`receiving`] drive a flow over any transport. The rest has no I/O and no clock.
//! Invalid input from a peer gives an error, never a panic, and needs a fixed amount of memory.
//!
//! ```text
//! stream:  header (64) · block · block · ... · trailer
//! header:  "alccsend" · version 1 · kind · flow (2) · flows (2) · 0 (2) · size (8) · session (16) · clock (16) · 0 (8)
//! block:   length (4, 1 to 65536) · time of the write, ns (8) · content
//! trailer: 0 (4) · time, ns (8) · bytes of content in all (8) · SHA-256 of the content (32)
//! answer:  "alccdone" · version 1 · verdict · 0 (6) · bytes (8) · ns from first to last (8) · end, ns (8)
//!          · app delay median, ns (8) · 95th percentile, ns (8) · SHA-256 as received (32)
//! ```
//!
//! Numbers are big-endian; an unknown number has all bits set. Kind 0 is made-up content
//! ([`Writer::made_up`]), which the receiver compares with its own instead of hashing it; the hash
//! is zero. Kind 1 is a file. Version 2 has the position in the file in the place of the last
//! zeros: see [`resuming`] and `docs/formats.md`.
#![forbid(unsafe_code)]

mod answer;
mod clock;
mod counter;
mod header;
mod keeping;
mod made_up;
mod progress;
mod reader;
pub mod receiving;
pub mod resuming;
pub mod sending;
mod sessions;
mod writer;

pub use answer::{Answer, Verdict};
pub use clock::{clock_digest, new_session};
pub use counter::Counter;
pub use header::{Header, Kind};
pub use keeping::room;
pub use progress::Progress;
pub use reader::{Reader, Sink, Wrong};
pub use sessions::Sessions;
pub use writer::Writer;

/// Largest content of a block, bytes.
pub const BLOCK: usize = 64 * 1024;
/// Length of the header, bytes.
pub const HEADER: usize = 64;
/// Length of a block's header, bytes.
pub const BLOCK_PREFIX: usize = 12;
/// Length of the trailer, bytes.
pub const TRAILER: usize = BLOCK_PREFIX + 8 + 32;
/// Length of the answer, bytes.
pub const ANSWER: usize = 88;

const VERSION: u8 = 1;
/// Version of flows that continue after another connection was cut.
const RESUMING: u8 = 2;
/// The encoding of an unknown number.
const UNKNOWN: u64 = u64::MAX;

/// Callback for each piece of content that passes: number of bytes, and the time by
/// `CLOCK_MONOTONIC`, ns.
pub type Passed<'a> = dyn Fn(u64, u64) + Send + Sync + 'a;

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reader of fields from bytes of a fixed length; zero beyond the end.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut into = [0; N];
        if let Some((front, rest)) = self.0.split_first_chunk::<N>() {
            into = *front;
            self.0 = rest;
        }
        into
    }

    fn byte(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.bytes())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }

    fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes())
    }

    fn maybe(&mut self) -> Option<u64> {
        Some(self.u64()).filter(|n| *n != UNKNOWN)
    }
}
