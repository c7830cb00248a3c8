// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counter of passed bytes, for logs.

/// Minimum time between two readings, ns.
const INTERVAL: u64 = 100_000;

/// Counts bytes of content. A reading is a time, in ns, and the number of bytes by then.
#[derive(Default, Debug)]
pub struct Counter {
    total: u64,
    /// Time of the last bytes.
    last: u64,
    /// The latest reading.
    read: (u64, u64),
}

impl Counter {
    /// Counts bytes that have just passed. Returns a reading if one is due.
    pub fn add(&mut self, bytes: u64, now: u64) -> Option<(u64, u64)> {
        self.total += bytes;
        self.last = now;
        if now < self.read.0 + INTERVAL {
            return None;
        }
        self.rest()
    }

    /// A reading of the bytes since the latest one, if there are any.
    pub fn rest(&mut self) -> Option<(u64, u64)> {
        if self.read.1 == self.total {
            return None;
        }
        self.read = (self.last, self.total);
        Some(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_apart_and_lose_nothing() {
        let mut counter = Counter::default();
        assert_eq!(counter.rest(), None);
        assert_eq!(counter.add(5, INTERVAL), Some((INTERVAL, 5)));
        assert_eq!(counter.add(6, 2 * INTERVAL - 1), None);
        assert_eq!(counter.rest(), Some((2 * INTERVAL - 1, 11)));
        assert_eq!(counter.add(0, 9 * INTERVAL), None, "nothing came");
        assert_eq!(counter.add(1, 9 * INTERVAL), Some((9 * INTERVAL, 12)));
        assert_eq!(counter.rest(), None);
    }
}
