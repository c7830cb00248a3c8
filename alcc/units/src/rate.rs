// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{Bytes, Span};
use std::fmt;

/// A data rate in bits per second.
///
/// ```
/// use alcc_units::{Bytes, Rate, Span};
///
/// let rate = Rate::of(Bytes::new(1500), Span::from_millis(1));
/// assert_eq!(rate.to_string(), "12mbit");
/// assert_eq!(rate.bytes_in(Span::from_secs(1)), Bytes::new(1_500_000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(u64);

impl Rate {
    /// Rate zero.
    pub const ZERO: Self = Self(0);
    /// "No limit", wherever a limit is expected.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate from bits per second.
    pub const fn bps(n: u64) -> Self {
        Self(n)
    }

    /// A rate from megabits (10^6 bits) per second.
    pub const fn mbps(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// Bits per second from a real number; negative and not-a-number give zero, too large
    /// saturates.
    pub fn bps_f64(n: f64) -> Self {
        Self(n as u64)
    }

    /// The rate of `bytes` in `span`; [`Rate::MAX`] if the span is empty.
    #[inline]
    pub fn of(bytes: Bytes, span: Span) -> Self {
        if span.is_zero() {
            return Self::MAX;
        }
        let bits = u128::from(bytes.get()) * 8 * 1_000_000_000 / u128::from(span.as_nanos());
        Self(u64::try_from(bits).unwrap_or(u64::MAX))
    }

    /// This rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// This rate in megabits per second.
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time that `bytes` take at this rate, rounded up; [`Span::MAX`] at rate zero.
    pub fn time_for(self, bytes: Bytes) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let ns = (u128::from(bytes.get()) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Span::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The number of whole bytes that pass in `span`.
    #[inline]
    pub fn bytes_in(self, span: Span) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(span.as_nanos()) / 8 / 1_000_000_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        if n != 0 && n.is_multiple_of(1_000_000_000) {
            write!(f, "{}gbit", n / 1_000_000_000)
        } else if n != 0 && n.is_multiple_of(1_000_000) {
            write!(f, "{}mbit", n / 1_000_000)
        } else if n != 0 && n.is_multiple_of(1_000) {
            write!(f, "{}kbit", n / 1_000)
        } else {
            write!(f, "{n}bit")
        }
    }
}
