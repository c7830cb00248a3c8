// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::offload::HEADER;
use std::collections::VecDeque;

/// The largest packet of a device: the MTU of the emulated link.
pub(crate) const MTU: usize = 1500;
/// A packet with its header.
const SLOT: usize = HEADER + MTU;

struct Entry {
    start: usize,
    len: usize,
    freed: bool,
}

/// The bytes of the packets inside the models, each with its header, in one ring buffer. There is
/// no allocation per packet, and memory depends on the bytes, not on the number of packets. Packets
/// are freed nearly in order of arrival; one that is freed early is reclaimed with those before it.
pub(crate) struct Store {
    ring: Vec<u8>,
    entries: VecDeque<Entry>,
    /// Number of the packet at the front of `entries`.
    first: u64,
    tail: usize,
    limit: usize,
}

impl Store {
    /// An empty store, which grows by doubling up to `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            ring: vec![0; limit.min(1 << 20)],
            entries: VecDeque::with_capacity(1024),
            first: 0,
            tail: 0,
            limit,
        }
    }

    /// Space for the next packet; `None` if the store is full.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        let head = match self.entries.front() {
            None => {
                self.tail = 0;
                usize::MAX
            }
            Some(front) => front.start,
        };
        let capacity = self.ring.len();
        let fits = if head == usize::MAX || self.tail > head {
            if capacity - self.tail >= SLOT {
                true
            } else if head != usize::MAX && head > SLOT {
                self.tail = 0;
                true
            } else {
                false
            }
        } else {
            // The ring has wrapped. One byte stays free, so that tail == head never means both full
            // and empty.
            head - self.tail > SLOT
        };
        if !fits && !self.grow() {
            return None;
        }
        Some(&mut self.ring[self.tail..self.tail + SLOT])
    }

    fn grow(&mut self) -> bool {
        let capacity = (self.ring.len() * 2).min(self.limit);
        let used: usize = self.entries.iter().map(|e| e.len).sum();
        if capacity == self.ring.len() || capacity < used + SLOT {
            return false;
        }
        let mut ring = vec![0; capacity];
        let mut at = 0;
        for entry in &mut self.entries {
            ring[at..at + entry.len]
                .copy_from_slice(&self.ring[entry.start..entry.start + entry.len]);
            entry.start = at;
            at += entry.len;
        }
        self.ring = ring;
        self.tail = at;
        true
    }

    /// Keeps the first `len` bytes of the space. Returns the packet's number.
    pub(crate) fn keep(&mut self, len: usize) -> u64 {
        let len = len.min(SLOT);
        self.entries.push_back(Entry {
            start: self.tail,
            len,
            freed: false,
        });
        self.tail += len;
        self.first + self.entries.len() as u64 - 1
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// The bytes of a packet that was not freed yet.
    pub(crate) fn bytes(&self, number: u64) -> Option<&[u8]> {
        let entry = self.entries.get(self.index(number)?)?;
        (!entry.freed).then(|| &self.ring[entry.start..entry.start + entry.len])
    }

    /// The same bytes, mutable.
    pub(crate) fn bytes_mut(&mut self, number: u64) -> Option<&mut [u8]> {
        let entry = self.entries.get(self.index(number)?)?;
        (!entry.freed).then(|| &mut self.ring[entry.start..entry.start + entry.len])
    }

    /// Frees the bytes of a packet.
    pub(crate) fn free(&mut self, number: u64) {
        let Some(entry) = self.index(number).and_then(|i| self.entries.get_mut(i)) else {
            return;
        };
        entry.freed = true;
        while self.entries.front().is_some_and(|e| e.freed) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    /// The number of packets inside.
    pub(crate) fn held(&self) -> u64 {
        self.entries.iter().filter(|e| !e.freed).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_units::Rng;

    #[test]
    fn packets_keep_their_bytes_while_others_come_and_go() {
        // A model of the ring: a queue of (number, contents), freed mostly in order and sometimes
        // early.
        let mut store = Store::new(40_000);
        let mut inside: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
        let mut rng = Rng::new(1);
        let mut refused = 0;
        for step in 0..20_000u64 {
            if rng.chance(0.52) {
                let len = 20 + rng.below(1481) as usize;
                let Some(room) = store.room() else {
                    refused += 1;
                    let used: usize = inside.iter().map(|(_, b)| b.len()).sum();
                    assert!(used > 20_000, "refused with {used} bytes inside");
                    inside.drain(..5).for_each(|(n, _)| store.free(n));
                    continue;
                };
                let contents: Vec<u8> = (0..len).map(|i| (step as usize + i) as u8).collect();
                room[..len].copy_from_slice(&contents);
                inside.push_back((store.keep(len), contents));
            } else if !inside.is_empty() {
                let at = if rng.chance(0.9) {
                    0
                } else {
                    rng.below(inside.len() as u64) as usize
                };
                let (number, contents) = inside.remove(at).unwrap();
                assert_eq!(store.bytes(number), Some(&contents[..]));
                store.free(number);
                assert_eq!(store.bytes(number), None);
            }
            assert_eq!(store.held(), inside.len() as u64);
        }
        assert!(refused > 0, "the limit was never reached");
        for (number, contents) in inside {
            assert_eq!(store.bytes(number), Some(&contents[..]));
        }
    }
}
