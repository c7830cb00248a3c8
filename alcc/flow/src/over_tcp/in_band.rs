// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Knowledge about a flow whose peer acknowledges by in-band frames, with exact times.
use crate::unheard::Unheard;
use alcc_units::{Span, Time};

#[derive(Debug)]
pub(super) struct InBand {
    /// The smallest RTT of a packet with an exact time. Interpolated samples are never below it.
    pub(super) exact_min_rtt: Option<Span>,
    pub(super) unheard: Unheard,
}

impl InBand {
    pub(super) fn new(now: Time) -> Self {
        Self {
            exact_min_rtt: None,
            unheard: Unheard::new(now),
        }
    }
}
