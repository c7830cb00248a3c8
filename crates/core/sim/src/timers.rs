// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Time;

/// A deadline for each of a number of slots, the earliest first; equal ones by slot, so that equal
/// runs are equal.
///
/// A heap with four children to a node that knows where each slot is: a slot has one entry, however
/// often its deadline moves.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<(Time, u32)>,
    /// Where a slot is in `heap`, or `ABSENT`.
    positions: Vec<u32>,
}

const ABSENT: u32 = u32::MAX;
const CHILDREN: usize = 4;

impl Timers {
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            heap: Vec::new(),
            positions: vec![ABSENT; slots],
        }
    }

    /// The earliest deadline and its slot.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Time, usize)> {
        self.heap.first().map(|(at, slot)| (*at, *slot as usize))
    }

    /// The deadline of `slot`; [`Time::MAX`] if it has none.
    #[inline]
    pub(crate) fn at(&self, slot: usize) -> Time {
        match self.positions[slot] {
            ABSENT => Time::MAX,
            pos => self.heap[pos as usize].0,
        }
    }

    /// Gives `slot` this deadline; [`Time::MAX`] takes it away.
    pub(crate) fn set(&mut self, slot: usize, at: Time) {
        let pos = self.positions[slot];
        match (pos, at) {
            (ABSENT, Time::MAX) => {}
            (ABSENT, _) => {
                self.heap.push((at, slot as u32));
                self.up(self.heap.len() - 1);
            }
            (_, Time::MAX) => {
                let pos = pos as usize;
                self.positions[slot] = ABSENT;
                if let Some(last) = self.heap.pop()
                    && pos < self.heap.len()
                {
                    self.heap[pos] = last;
                    let pos = self.up(pos);
                    self.down(pos);
                }
            }
            (_, _) => {
                let pos = pos as usize;
                self.heap[pos].0 = at;
                let pos = self.up(pos);
                self.down(pos);
            }
        }
    }

    fn up(&mut self, mut pos: usize) -> usize {
        let entry = self.heap[pos];
        while pos > 0 {
            let parent = (pos - 1) / CHILDREN;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(pos, self.heap[parent]);
            pos = parent;
        }
        self.put(pos, entry);
        pos
    }

    fn down(&mut self, mut pos: usize) {
        let entry = self.heap[pos];
        loop {
            let first = pos * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else {
                break;
            };
            if entry <= self.heap[least] {
                break;
            }
            self.put(pos, self.heap[least]);
            pos = least;
        }
        self.put(pos, entry);
    }

    fn put(&mut self, pos: usize, entry: (Time, u32)) {
        self.heap[pos] = entry;
        self.positions[entry.1 as usize] = pos as u32;
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
