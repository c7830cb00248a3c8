// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_observe::trial::Reading;

/// A reading, with its connection and client.
pub(super) struct Seen {
    pub(super) connection: (u32, u64),
    pub(super) client: u64,
    pub(super) reading: Reading,
    /// True for the last reading of the connection.
    pub(super) is_last: bool,
}
