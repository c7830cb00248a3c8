// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// A number of bytes.
///
/// ```
/// use alcc_units::Bytes;
///
/// let window: Bytes = "15k".parse()?;
/// assert_eq!(window, Bytes::new(15_000));
/// assert_eq!(window.packets(Bytes::new(1500)), 10.0);
/// assert_eq!(Bytes::ZERO - window, Bytes::ZERO); // saturates
/// # Ok::<(), alcc_units::UnitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(u64);

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// "No limit", wherever a limit is expected.
    pub const MAX: Self = Self(u64::MAX);

    /// A number of bytes.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `packets` times this size, rounded down; negative and not-a-number give zero, too large
    /// saturates.
    pub fn mul_f64(self, packets: f64) -> Self {
        Self((self.0 as f64 * packets) as u64)
    }

    /// `self - other`, zero if `other` is larger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The number of packets of `mss` in these bytes, with fraction; 0 if `mss` is 0.
    pub fn packets(self, mss: Self) -> f64 {
        if mss.0 == 0 {
            0.0
        } else {
            self.0 as f64 / mss.0 as f64
        }
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for Bytes {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        self.saturating_sub(rhs)
    }
}

impl SubAssign for Bytes {
    fn sub_assign(&mut self, rhs: Self) {
        *self = *self - rhs;
    }
}

impl Mul<u64> for Bytes {
    type Output = Self;
    fn mul(self, rhs: u64) -> Self {
        Self(self.0.saturating_mul(rhs))
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, |a, b| a + b)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}
