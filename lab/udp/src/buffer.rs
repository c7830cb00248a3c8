// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers of a stream's bytes, between the application and the packets.
use std::collections::VecDeque;

/// Memory that a buffer keeps when it is empty: the data of 2 ms at 1 Gbit/s. With less, each read
/// would free memory that the next packets allocate again, with page faults.
const KEPT: usize = 1 << 18;

/// Shrinks a buffer after a read: its capacity is at most four times its content, or [`KEPT`].
/// Growing doubles it, so the next bytes do not make it grow at once.
fn shrink(bytes: &mut VecDeque<u8>) {
    if bytes.capacity() > KEPT && bytes.len() < bytes.capacity() / 4 {
        bytes.shrink_to((bytes.len() * 2).max(KEPT));
    }
}

/// Data written and not acknowledged, which may have to be retransmitted.
#[derive(Default)]
pub(crate) struct Unacknowledged {
    /// Stream position of the first byte.
    from: u64,
    bytes: VecDeque<u8>,
}

impl Unacknowledged {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Drops everything below `position`.
    pub(crate) fn forget_below(&mut self, position: u64) {
        let n = position
            .saturating_sub(self.from)
            .min(self.bytes.len() as u64);
        self.bytes.drain(..n as usize);
        self.from += n;
        shrink(&mut self.bytes);
    }

    /// Appends `len` bytes from `position` on to `out`; false if they are not in the buffer.
    pub(crate) fn copy(&self, position: u64, len: usize, out: &mut Vec<u8>) -> bool {
        let Some(at) = position.checked_sub(self.from) else {
            return false;
        };
        let at = at as usize;
        if at.saturating_add(len) > self.bytes.len() {
            return false;
        }
        let (first, second) = self.bytes.as_slices();
        if at < first.len() {
            let n = len.min(first.len() - at);
            out.extend_from_slice(&first[at..at + n]);
            out.extend_from_slice(&second[..len - n]);
        } else {
            let at = at - first.len();
            out.extend_from_slice(&second[at..at + len]);
        }
        true
    }
}

/// Data received and not read, with holes. The receiver knows which parts have arrived.
#[derive(Default)]
pub(crate) struct Unread {
    /// Stream position of the first byte.
    from: u64,
    bytes: VecDeque<u8>,
}

impl Unread {
    /// Position up to which the application has read.
    pub(crate) fn position(&self) -> u64 {
        self.from
    }

    /// Stores bytes at their position. The caller bounds the distance of their end from
    /// [`Unread::position`].
    pub(crate) fn place(&mut self, position: u64, mut bytes: &[u8]) {
        let old = self.from.saturating_sub(position).min(bytes.len() as u64);
        bytes = &bytes[old as usize..];
        if bytes.is_empty() {
            // An empty piece can have any position, because the caller does not check it.
            return;
        }
        let at = position.saturating_sub(self.from) as usize;
        if at == self.bytes.len() {
            self.bytes.extend(bytes);
            return;
        }
        let end = at + bytes.len();
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        let (first, second) = self.bytes.as_mut_slices();
        if at < first.len() {
            let n = bytes.len().min(first.len() - at);
            first[at..at + n].copy_from_slice(&bytes[..n]);
            second[..bytes.len() - n].copy_from_slice(&bytes[n..]);
        } else {
            let at = at - first.len();
            second[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Takes bytes before `complete`, as many as `out` holds.
    pub(crate) fn read(&mut self, complete: u64, out: &mut [u8]) -> usize {
        let ready = complete
            .saturating_sub(self.from)
            .min(self.bytes.len() as u64);
        let n = out.len().min(ready as usize);
        let (first, second) = self.bytes.as_slices();
        let head = n.min(first.len());
        out[..head].copy_from_slice(&first[..head]);
        out[head..n].copy_from_slice(&second[..n - head]);
        self.bytes.drain(..n);
        self.from += n as u64;
        shrink(&mut self.bytes);
        n
    }

    /// Drops everything, because it will not be read.
    pub(crate) fn discard(&mut self) {
        self.bytes = VecDeque::new();
    }

    /// Bytes held, holes included.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_in_any_order_is_read_in_order() {
        let mut unread = Unread::default();
        unread.place(5, b"fghij");
        unread.place(0, b"abc");
        unread.place(2, b"cde");
        let mut out = [0; 4];
        assert_eq!(unread.read(10, &mut out), 4);
        assert_eq!(&out, b"abcd");
        // Partly old, around the end of the ring.
        unread.place(2, b"cdefghijkl");
        let mut out = [0; 99];
        assert_eq!(unread.read(12, &mut out), 8);
        assert_eq!(&out[..8], b"efghijkl");
        assert_eq!((unread.position(), unread.held()), (12, 0));
        unread.place(3, b"old");
        assert_eq!(unread.read(12, &mut out), 0);
    }

    #[test]
    fn memory_follows_what_is_held() {
        let mut unread = Unread::default();
        unread.place(1 << 24, b"x");
        let mut out = vec![0; 100_000];
        let mut read = 0;
        while unread.read(1 << 24, &mut out) > 0 {
            read = unread.position();
            let (capacity, held) = (unread.bytes.capacity(), unread.held());
            assert!(capacity <= (4 * held).max(KEPT), "{capacity} for {held}");
        }
        // One byte remains: data that was read uses no memory.
        assert_eq!((read, unread.held()), (1 << 24, 1));
    }

    #[test]
    fn bursts_that_are_read_at_once_keep_their_memory() {
        // The data of 1.5 ms at 1 Gbit/s.
        let burst = vec![7; 187_500];
        let (mut unread, mut out) = (Unread::default(), vec![0; 1 << 20]);
        let capacities = [0, 1, 2].map(|_| {
            let position = unread.position();
            unread.place(position, &burst);
            assert_eq!(unread.read(u64::MAX, &mut out), burst.len());
            unread.bytes.capacity()
        });
        assert!(capacities[0] >= burst.len(), "{capacities:?}");
        assert_eq!(capacities, [capacities[0]; 3]);
    }

    #[test]
    fn nothing_needs_no_place() {
        let mut unread = Unread::default();
        unread.place(1 << 61, b"");
        assert_eq!((unread.position(), unread.held()), (0, 0));
    }

    #[test]
    fn what_is_acknowledged_is_forgotten() {
        let mut kept = Unacknowledged::default();
        let mut out = Vec::new();
        for round in 0..50u64 {
            kept.push(b"0123456789");
            assert!(kept.copy(round * 10 + 3, 4, &mut out));
            kept.forget_below(round * 10 + 3);
            assert!(!kept.copy(round * 10 + 2, 2, &mut out));
        }
        assert_eq!(out, b"3456".repeat(50));
        assert!(!kept.copy(499, 2, &mut out));
        assert_eq!(kept.bytes.len(), 7);
    }
}
