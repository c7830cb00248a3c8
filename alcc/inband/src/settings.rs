// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a session is made with.
use alcc_cc::Spec;
use alcc_units::Span;

/// What one end wants. [`Settings::new`] has defaults for all but the algorithm.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The algorithm that decides about what this end sends.
    pub cc: Spec,
    /// Seed of its generator.
    pub seed: u64,
    /// Bytes of frames that fill a segment of what is below, 256 to 65,535.
    pub segment: usize,
    /// The peer may send so much that nobody has read, bytes.
    pub receive_buffer: usize,
    /// Bytes that [`crate::Session::write`] keeps.
    pub queue: usize,
    /// The peer has to say its preface within this time.
    pub handshake: Span,
    /// An answer that is due has to come within this time.
    pub silence: Span,
    /// The peer is asked to acknowledge no later than this after an arrival.
    pub ack_delay: Span,
}

impl Settings {
    /// Defaults: segments of 1400 bytes, 4 MiB to receive, 64 KiB to queue. The preface may take 10
    /// s, silence 120 s. Acknowledgements leave every 5 ms.
    pub fn new(cc: Spec) -> Self {
        Self {
            cc,
            seed: 1,
            segment: 1400,
            receive_buffer: 4 << 20,
            queue: 64 << 10,
            handshake: Span::from_secs(10),
            silence: Span::from_secs(120),
            ack_delay: Span::from_millis(5),
        }
    }
}
