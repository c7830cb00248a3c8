// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_observe::trial::Reading;

/// A reading, of which connection and client.
pub(super) struct Seen {
    pub(super) connection: (u32, u64),
    pub(super) client: u64,
    pub(super) reading: Reading,
    /// Of this connection there will be no other.
    pub(super) is_last: bool,
}
