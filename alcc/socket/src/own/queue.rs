// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The queue of bytes that wait for the algorithm.
use std::collections::VecDeque;

/// Size of a block: large enough that the largest batch touches only two of them.
const BLOCK: usize = 64 * 1024;

/// A bounded byte queue. An empty queue of an idle stream holds no memory.
#[derive(Debug)]
pub(crate) struct Queue {
    blocks: VecDeque<Vec<u8>>,
    /// Bytes of the first block that have been sent already.
    head: usize,
    len: usize,
    capacity: usize,
    /// An emptied block for reuse, so that the next one need not be allocated.
    spare: Option<Vec<u8>>,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            blocks: VecDeque::new(),
            head: 0,
            len: 0,
            capacity: capacity.max(1),
            spare: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the capacity. The content stays, even beyond a smaller capacity.
    pub(crate) fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
    }

    pub(crate) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.len)
    }

    /// Takes as many bytes as fit. Returns their number.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let fits = self.free().min(bytes.len());
        let mut rest = &bytes[..fits];
        while !rest.is_empty() {
            let size = BLOCK.min(self.capacity);
            match self.blocks.back_mut() {
                Some(last) if last.len() < last.capacity() => {}
                // A block from a time of smaller capacity is extended, because many small blocks
                // would be more pieces than `front` has.
                Some(last) if last.capacity() < size => last.reserve_exact(size - last.len()),
                _ => {
                    let spare = self.spare.take().filter(|spare| spare.capacity() >= size);
                    let fresh = spare.unwrap_or_else(|| Vec::with_capacity(size));
                    self.blocks.push_back(fresh);
                }
            }
            let Some(block) = self.blocks.back_mut() else {
                break;
            };
            let n = rest.len().min(block.capacity() - block.len());
            block.extend_from_slice(&rest[..n]);
            rest = &rest[n..];
        }
        self.len += fits;
        fits
    }

    /// The first bytes as up to three pieces: `limit`, of at most a block, or all there are.
    pub(crate) fn front(&self, limit: usize) -> [&[u8]; 3] {
        let mut pieces: [&[u8]; 3] = [&[]; 3];
        let (mut skip, mut remaining) = (self.head, limit);
        for (piece, block) in pieces.iter_mut().zip(&self.blocks) {
            let bytes = &block[skip..];
            *piece = &bytes[..bytes.len().min(remaining)];
            remaining -= piece.len();
            skip = 0;
        }
        pieces
    }

    /// Removes the first `n` bytes, which have been sent.
    pub(crate) fn consume(&mut self, n: usize) {
        let mut n = n.min(self.len);
        self.len -= n;
        while let Some(block) = self.blocks.front() {
            let here = block.len() - self.head;
            if n < here {
                self.head += n;
                return;
            }
            n -= here;
            self.head = 0;
            self.spare = self.blocks.pop_front();
            if let Some(spare) = &mut self.spare {
                spare.clear();
            }
        }
    }

    /// Frees the memory of an empty queue, because the stream is idle.
    pub(crate) fn release_memory(&mut self) {
        if self.len == 0 {
            self.blocks = VecDeque::new();
            self.spare = None;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.consume(self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_units::Rng;

    fn all(queue: &Queue, limit: usize) -> Vec<u8> {
        queue.front(limit).concat()
    }

    /// Callers that send from elsewhere behind the pieces rely on it.
    #[test]
    fn three_pieces_hold_a_whole_batch_however_the_capacity_grew() {
        let mut rng = Rng::new(7);
        for _ in 0..50 {
            let (mut queue, mut capacity) = (Queue::new(1), 1);
            for _ in 0..200 {
                let most = [3, 1000, 2 * BLOCK][rng.below(3) as usize];
                capacity += rng.below(most as u64) as usize;
                queue.set_capacity(capacity);
                queue.push(&vec![0; rng.below(capacity as u64 + 1) as usize]);
                let limit = 1 + rng.below(BLOCK as u64) as usize;
                assert_eq!(all(&queue, limit).len(), limit.min(queue.len()));
                queue.consume(rng.below(queue.len() as u64 + 1) as usize);
            }
        }
    }

    #[test]
    fn filled_to_capacity_and_drained_all_bytes_come_back() {
        // The original's ring buffer is empty when it is exactly full.
        for capacity in [1, 1000, BLOCK, BLOCK + 1, 3 * BLOCK] {
            let mut queue = Queue::new(capacity);
            let bytes: Vec<u8> = (0..capacity).map(|i| (i % 251) as u8).collect();
            assert_eq!(queue.push(&bytes), capacity);
            assert_eq!((queue.free(), queue.push(b"x")), (0, 0));
            let mut back = Vec::new();
            while queue.len() > 0 {
                let part = all(&queue, 1448);
                queue.consume(part.len());
                back.extend(part);
            }
            assert_eq!(back, bytes);
            queue.release_memory();
            assert!(queue.blocks.capacity() == 0 && queue.spare.is_none());
        }
    }

    #[test]
    fn whatever_is_put_and_taken_comes_out_in_order() {
        let mut rng = Rng::new(3);
        let mut queue = Queue::new(200_000);
        let (mut next_in, mut next_out) = (0u64, 0u64);
        for _ in 0..3000 {
            let n = rng.next_u64() % 60_000;
            let bytes: Vec<u8> = (next_in..next_in + n).map(|i| (i % 253) as u8).collect();
            next_in += queue.push(&bytes) as u64;
            let limit = (rng.next_u64() % 64_000) as usize;
            let part = all(&queue, limit);
            assert_eq!(part.len(), limit.min(queue.len()).min(part.len()));
            assert!(!part.is_empty() || limit == 0 || queue.len() == 0);
            for byte in &part {
                assert_eq!(*byte, (next_out % 253) as u8);
                next_out += 1;
            }
            queue.consume(part.len());
            assert_eq!(queue.len() as u64, next_in - next_out);
        }
    }
}
