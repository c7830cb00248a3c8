// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timers of the flows: the earliest of many deadlines.
use alcc_units::Time;
use std::hint::select_unpredictable;

/// A deadline for each of a number of slots, the earliest first. Equal ones go by slot, so that
/// equal runs are equal.
///
/// A tournament: each slot has a place in the first round, and each place of a later round has the
/// winner of two. A deadline that moves plays its rounds again. Their number is always the same, and
/// their results need no branch: a processor could not foresee it.
#[derive(Debug)]
pub(crate) struct Timers {
    deadlines: Vec<Time>,
    /// Slots. The winner of all is at 1, and that at `n` has won against the other of those at
    /// `2 * n` and `2 * n + 1`. The second half has each slot.
    winners: Vec<u32>,
}

impl Timers {
    pub(crate) fn new(slots: usize) -> Self {
        let width = slots.next_power_of_two();
        let mut winners = vec![0; 2 * width];
        for slot in 0..width {
            winners[width + slot] = slot as u32;
        }
        for place in (1..width).rev() {
            winners[place] = winners[2 * place];
        }
        Self {
            deadlines: vec![Time::MAX; width],
            winners,
        }
    }

    /// The earliest deadline and its slot; [`Time::MAX`] if there is none.
    #[inline]
    pub(crate) fn first(&self) -> (Time, usize) {
        let slot = self.winners[1] as usize;
        (self.deadlines[slot], slot)
    }

    /// The deadline of `slot`; [`Time::MAX`] if it has none.
    #[inline]
    pub(crate) fn at(&self, slot: usize) -> Time {
        self.deadlines[slot]
    }

    /// Gives `slot` this deadline; [`Time::MAX`] takes it away.
    #[inline(never)]
    pub(crate) fn set(&mut self, slot: usize, at: Time) {
        self.deadlines[slot] = at;
        let mut place = (self.deadlines.len() + slot) / 2;
        while place > 0 {
            let (left, right) = (self.winners[2 * place], self.winners[2 * place + 1]);
            let later = self.deadlines[left as usize] > self.deadlines[right as usize];
            self.winners[place] = select_unpredictable(later, right, left);
            place /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_least_of_all(moves in prop::collection::vec((0usize..40, 0u64..30), 1..300)) {
            let mut timers = Timers::new(40);
            let mut plain = [Time::MAX; 40];
            for (slot, ms) in moves {
                let at = if ms == 0 { Time::MAX } else { Time::from_millis(ms) };
                timers.set(slot, at);
                plain[slot] = at;
                prop_assert_eq!(Some(timers.first()), plain.iter().copied().zip(0..).min());
                for (slot, at) in plain.iter().enumerate() {
                    prop_assert_eq!(timers.at(slot), *at);
                }
            }
        }
    }
}
