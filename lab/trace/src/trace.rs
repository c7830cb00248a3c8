// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{Opportunities, TraceError};
use alcc_units::{Bytes, Rate, Span};
use std::sync::Arc;

/// Size of an opportunity, bytes: what one line of a trace can carry.
pub const OPPORTUNITY: Bytes = Bytes::new(1500);

/// Maximum number of opportunities in a trace (128 MiB of memory; 300 s at 1.3 Gbit/s).
pub const MAX_OPPORTUNITIES: usize = 1 << 25;

/// Delivery opportunities in whole milliseconds since the start: never decreasing, at least one,
/// the last one after 0. A clone shares the memory.
///
/// ```
/// use alcc_trace::Trace;
/// use alcc_units::{Rate, Span};
///
/// let trace = Trace::new(vec![1, 1, 2, 5])?; // four packets in 5 ms, again and again
/// assert_eq!(trace.period(), Span::from_millis(5));
/// assert_eq!(trace.mean_rate(), Rate::bps(9_600_000));
/// # Ok::<(), alcc_trace::TraceError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// The vector as passed, because a copy would double the memory.
    opportunities: Arc<Vec<u32>>,
}

impl Trace {
    /// A trace of these times, in milliseconds. Errors contain the index + 1 as the line.
    pub fn new(opportunities: Vec<u32>) -> Result<Self, TraceError> {
        let Some(&last) = opportunities.last() else {
            return Err(TraceError::Empty);
        };
        if let Some(at) = opportunities.windows(2).position(|w| w[1] < w[0]) {
            return Err(TraceError::GoesBack {
                line: at as u64 + 2,
                before: opportunities[at],
                found: opportunities[at + 1],
            });
        }
        let line = opportunities.len() as u64;
        if last == 0 {
            return Err(TraceError::NoLength { line });
        }
        if opportunities.len() > MAX_OPPORTUNITIES {
            return Err(TraceError::TooLong { line });
        }
        Ok(Self {
            opportunities: Arc::new(opportunities),
        })
    }

    /// A trace with evenly spread opportunities, exact to half an opportunity per second. It is one
    /// second long, or as long as one opportunity takes if that is longer. `None` if one
    /// opportunity takes longer than 2^32 ms or a second holds more than [`MAX_OPPORTUNITIES`]. A
    /// link of fixed rate needs no trace; this is for interfaces that take only traces.
    pub fn constant(rate: Rate) -> Option<Self> {
        let bits = OPPORTUNITY.get() * 8;
        if rate.as_bps() < bits {
            let ms = (bits * 1000).checked_div(rate.as_bps())?;
            return Self::new(vec![u32::try_from(ms).ok()?]).ok();
        }
        let count = rate.as_bps().saturating_add(bits / 2) / bits;
        if count > MAX_OPPORTUNITIES as u64 {
            return None;
        }
        Self::new((1..=count).map(|n| (n * 1000 / count) as u32).collect()).ok()
    }

    /// The times of the opportunities, in milliseconds.
    pub fn opportunities(&self) -> &[u32] {
        &self.opportunities
    }

    /// Number of opportunities in a period; at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a trace is never empty")]
    pub fn len(&self) -> usize {
        self.opportunities.len()
    }

    /// The time after which the trace repeats: that of its last opportunity.
    pub fn period(&self) -> Span {
        Span::from_millis(u64::from(self.period_ms()))
    }

    pub(crate) fn period_ms(&self) -> u32 {
        self.opportunities[self.opportunities.len() - 1]
    }

    /// The bytes that the opportunities of one period carry.
    pub fn capacity(&self) -> Bytes {
        OPPORTUNITY * self.len() as u64
    }

    /// Capacity per time, over a whole period.
    pub fn mean_rate(&self) -> Rate {
        Rate::of(self.capacity(), self.period())
    }

    /// Iterates over the opportunities from the first, forever.
    pub fn cursor(&self) -> Opportunities {
        Opportunities::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_rate_is_capacity_over_period() {
        // 4 opportunities of 1500 bytes in 12 ms: 48,000 bit / 0.012 s = 4 Mbit/s
        let trace = Trace::new(vec![3, 3, 9, 12]).unwrap();
        assert_eq!(trace.period(), Span::from_millis(12));
        assert_eq!(trace.mean_rate(), Rate::mbps(4));
        assert_eq!(trace.capacity(), Bytes::new(6000));
    }

    #[test]
    fn refuses_what_has_no_meaning() {
        assert!(matches!(Trace::new(vec![]), Err(TraceError::Empty)));
        assert!(matches!(
            Trace::new(vec![0, 0]),
            Err(TraceError::NoLength { line: 2 })
        ));
        assert!(matches!(
            Trace::new(vec![1, 5, 4]),
            Err(TraceError::GoesBack {
                line: 3,
                before: 5,
                found: 4
            })
        ));
    }

    #[test]
    fn constant_has_the_rate_asked_for() {
        for mbps in [1, 12, 100] {
            let trace = Trace::constant(Rate::mbps(mbps)).unwrap();
            let off = trace.mean_rate().as_mbps_f64() - mbps as f64;
            assert!(off.abs() <= 0.006, "{mbps}: off by {off}");
        }
        // 1 kbit/s: one opportunity of 12,000 bit takes 12 s
        assert_eq!(
            Trace::constant(Rate::bps(1000)).unwrap().opportunities(),
            [12_000]
        );
        assert_eq!(Trace::constant(Rate::ZERO), None);
        assert_eq!(Trace::constant(Rate::MAX), None);
    }
}
