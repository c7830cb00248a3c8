// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bytes of a connection that went to the kernel without the algorithm's permission, by reason.
//! They are counted separately and never as bytes under control.
use crate::missed::KERNEL_OR_PROXY;
use std::ops::AddAssign;

/// The reason for which bytes of a controlled connection were not limited. Bytes that the library
/// does not see at all are [`Missed`](crate::Missed).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Bypass {
    /// A non-blocking write of a program without any known wait for room: if it were refused,
    /// nothing might wake the program to write again.
    NoWakeup,
    /// The rest of a blocking write with MSG_ZEROCOPY: the kernel counts such calls, so it is not
    /// divided.
    ZeroCopy,
    /// Bytes written after the kernel's congestion control was replaced by another.
    Replaced,
}

impl Bypass {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 3] = [Self::NoWakeup, Self::ZeroCopy, Self::Replaced];

    /// The word for metrics and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoWakeup => "no-wakeup",
            Self::ZeroCopy => "zero-copy",
            Self::Replaced => "replaced",
        }
    }

    /// A sentence for people.
    pub fn why(self) -> &'static str {
        match self {
            Self::NoWakeup => "it had not waited for buffer space in a way that the library sees",
            Self::ZeroCopy => "it waits in calls with MSG_ZEROCOPY, which must not be divided",
            Self::Replaced => "it has selected another congestion control, bypassing the library",
        }
    }

    /// The way to bring it under control.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::NoWakeup | Self::ZeroCopy => KERNEL_OR_PROXY,
            // The program would replace the kernel form, too.
            Self::Replaced => "put 'alcc proxy' in front of it",
        }
    }
}

/// A number for each reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByReason([u64; Bypass::ALL.len()]);

impl ByReason {
    /// Number of reasons: at most 16, see [`ByReason::newly`].
    pub(crate) const LEN: usize = Bypass::ALL.len();

    /// `n` for one reason, zero for the others.
    pub fn of(why: Bypass, n: u64) -> Self {
        let mut all = Self::default();
        all.0[why as usize] = n;
        all
    }

    /// The number for one reason.
    pub fn get(&self, why: Bypass) -> u64 {
        self.0[why as usize]
    }

    /// The sum over all reasons.
    pub fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// The reasons with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Bypass, u64)> + '_ {
        Bypass::ALL.into_iter().map(|why| (why, self.get(why)))
    }

    /// 1 for each reason whose count is not zero and whose bit in `seen` is clear, otherwise 0; sets
    /// those bits.
    pub fn newly(&self, seen: &mut u16) -> Self {
        let before = *seen;
        Self(std::array::from_fn(|i| {
            let bit = u16::from(self.0[i] > 0) << i;
            *seen |= bit;
            u64::from(bit & !before != 0)
        }))
    }

    /// Encodes the numbers as words of a record.
    pub(crate) fn words(&self) -> [u64; Self::LEN] {
        self.0
    }

    /// Decodes the numbers from words of a record.
    pub(crate) fn read(word: impl FnMut(usize) -> u64) -> Self {
        Self(std::array::from_fn(word))
    }
}

impl AddAssign for ByReason {
    fn add_assign(&mut self, more: Self) {
        for (n, more) in self.0.iter_mut().zip(more.0) {
            *n = n.saturating_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place() {
        for (place, why) in Bypass::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, place);
            let mut sum = ByReason::of(why, 3);
            sum += ByReason::of(why, 4);
            assert_eq!((sum.get(why), sum.sum()), (7, 7));
            let mut seen = 0;
            assert_eq!(sum.newly(&mut seen), ByReason::of(why, 1));
            assert_eq!(sum.newly(&mut seen), ByReason::default());
            assert_eq!(ByReason::read(|i| sum.words()[i]), sum);
        }
    }
}
