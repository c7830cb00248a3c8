// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Content that both ends know. It is a block cut out of a long random text at a place that its
//! number gives. So what is lost, doubled or in another order is noticed without hashing it.
use crate::{BLOCK, BLOCK_PREFIX};
use alcc_units::Rng;

/// Where a block may begin: below this.
const PLACES: usize = 128 * 1024;
/// From one block to the next; shares no factor with the number of places.
const STEP: u64 = 4_099;
const SEED: u64 = 0xA1CC;

/// The whole text, with room for what stands before the content of a block.
pub(crate) fn text() -> Vec<u8> {
    let mut rng = Rng::new(SEED);
    let words = (PLACES + BLOCK_PREFIX + BLOCK).div_ceil(8);
    (0..words)
        .flat_map(|_| rng.next_u64().to_le_bytes())
        .collect()
}

/// Where in the text block number `number` begins, what stands before it included.
pub(crate) fn place(number: u64) -> usize {
    // Below PLACES, so it fits.
    (number.wrapping_mul(STEP) % PLACES as u64) as usize
}
