// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens first among events of one instant: the network moves, then hosts react, then meters look.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// Packets leave queues and arrive.
    Link,
    /// Timers of hosts.
    Host,
    /// Samples of time series.
    Meter,
}

/// Future events, ordered by (time, class, order of insertion), so that equal seeds give equal runs.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    inserted: u64,
}

#[derive(Debug)]
struct Entry<E> {
    key: (Time, Class, u64),
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl<E> EventQueue<E> {
    pub(crate) const fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            inserted: 0,
        }
    }

    pub(crate) fn push(&mut self, at: Time, class: Class, event: E) {
        let key = (at, class, self.inserted);
        self.inserted += 1;
        self.heap.push(Reverse(Entry { key, event }));
    }

    /// The first event, if it is not later than `until`.
    pub(crate) fn pop(&mut self, until: Time) -> Option<(Time, E)> {
        if self.heap.peek()?.0.key.0 > until {
            return None;
        }
        self.heap.pop().map(|Reverse(e)| (e.key.0, e.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_broken_by_class_then_insertion() {
        let mut queue = EventQueue::new();
        let at = Time::from_millis;
        queue.push(at(2), Class::Link, 'e');
        queue.push(at(1), Class::Meter, 'd');
        queue.push(at(1), Class::Host, 'b');
        queue.push(at(1), Class::Host, 'c');
        queue.push(at(1), Class::Link, 'a');
        let order: String =
            std::iter::from_fn(|| queue.pop(at(1)).map(|(_, event)| event)).collect();
        assert_eq!(order, "abcd");
        assert_eq!(queue.pop(at(5)), Some((at(2), 'e')));
    }
}
