// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Time;

/// A deadline for each of a number of slots, the earliest first; equal ones by slot, so that equal runs are equal.
///
/// A heap with four children to a node that knows where each slot is: a slot has one entry, however often its deadline moves.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<(Time, u32)>,
    /// Where a slot is in `heap`, or `ABSENT`.
    places: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;
const CHILDREN: usize = 4;

impl Timers {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            heap: Vec::new(),
            places: vec![ABSENT; slots],
        }
    }

    /// The earliest deadline and its slot.
    pub(crate) fn first(&self) -> Option<(Time, usize)> {
        self.heap.first().map(|(at, slot)| (*at, *slot as usize))
    }

    /// The deadline of `slot`; [`Time::MAX`] if it has none.
    pub(crate) fn at(&self, slot: usize) -> Time {
        match self.places[slot] {
            ABSENT => Time::MAX,
            place => self.heap[place as usize].0,
        }
    }

    /// Gives `slot` this deadline; [`Time::MAX`] takes it away.
    pub(crate) fn set(&mut self, slot: usize, at: Time) {
        let place = self.places[slot];
        match (place, at) {
            (ABSENT, Time::MAX) => {}
            (ABSENT, _) => {
                self.heap.push((at, slot as u32));
                self.up(self.heap.len() - 1);
            }
            (_, Time::MAX) => {
                let place = place as usize;
                self.places[slot] = ABSENT;
                if let Some(last) = self.heap.pop()
                    && place < self.heap.len()
                {
                    self.heap[place] = last;
                    let place = self.up(place);
                    self.down(place);
                }
            }
            (_, _) => {
                let place = place as usize;
                self.heap[place].0 = at;
                let place = self.up(place);
                self.down(place);
            }
        }
    }

    fn up(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / CHILDREN;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    fn down(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else {
                break;
            };
            if entry <= self.heap[least] {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Time, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
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
                let least = plain.iter().copied().zip(0..).min().filter(|(at, _)| *at < Time::MAX);
                prop_assert_eq!(timers.first(), least);
                for (slot, at) in plain.iter().enumerate() {
                    prop_assert_eq!(timers.at(slot), *at);
                }
            }
        }
    }
}
