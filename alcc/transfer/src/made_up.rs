// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Content that both ends can generate. A block is a part of a long random text, at a position that
//! follows from the block's number. So lost, duplicated or reordered data is detected without a
//! hash.
use crate::{BLOCK, BLOCK_PREFIX};
use alcc_units::Rng;

/// Number of positions at which a block may begin.
const PLACES: usize = 128 * 1024;
/// Distance of two blocks; coprime to the number of positions.
const STEP: u64 = 4_099;
const SEED: u64 = 0xA1CC;

/// The whole text, with room for a block's header.
pub(crate) fn text() -> Vec<u8> {
    let mut rng = Rng::new(SEED);
    let words = (PLACES + BLOCK_PREFIX + BLOCK).div_ceil(8);
    (0..words)
        .flat_map(|_| rng.next_u64().to_le_bytes())
        .collect()
}

/// Position in the text at which block `number` begins, its header included.
pub(crate) fn place(number: u64) -> usize {
    // The result is below PLACES, so it fits.
    (number.wrapping_mul(STEP) % PLACES as u64) as usize
}
