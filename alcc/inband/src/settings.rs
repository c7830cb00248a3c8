// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a session.
use alcc_cc::Spec;
use alcc_units::Span;

/// The settings of one end. [`Settings::new`] has defaults for all but the algorithm.
///
/// ```
/// use alcc_inband::Settings;
/// use alcc_units::Span;
///
/// let settings = Settings {
///     silence: Span::from_secs(30),
///     ..Settings::new("verus:r=4".parse()?)
/// };
/// assert_eq!(settings.queue, 65_536);
/// # Ok::<(), alcc_cc::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The algorithm that controls the data sent by this end.
    pub cc: Spec,
    /// Seed of the algorithm's random numbers.
    pub seed: u64,
    /// Size of a segment of the stream below, 256 to 65,535 bytes of frames.
    pub segment: usize,
    /// Limit of received data that was not read yet, bytes.
    pub receive_buffer: usize,
    /// Size of the queue of [`crate::Session::write`], bytes.
    pub queue: usize,
    /// Maximum time until the peer's preface.
    pub handshake: Span,
    /// Maximum time until an answer that is due.
    pub silence: Span,
    /// Maximum delay of acknowledgements that the peer is requested to keep.
    pub ack_delay: Span,
}

impl Settings {
    /// Defaults: segments of 1400 bytes, 4 MiB to receive, 64 KiB to queue. The preface may take 10
    /// s, silence 120 s. Acknowledgements are sent every 5 ms.
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
