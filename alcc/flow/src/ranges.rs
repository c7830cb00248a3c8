// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::collections::VecDeque;

/// A half-open range: bytes of a stream, or packet numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// The first element.
    pub start: u64,
    /// One after the last element.
    pub end: u64,
}

impl Range {
    /// The range `start..end`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// True if it is empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// True if it contains all of `other`.
    pub const fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Disjoint ranges in ascending order. Insertion at the end or next to a recent one is amortised
/// O(1). Other insertions cost a binary search and a move.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range>,
}

impl RangeSet {
    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn first(&self) -> Option<Range> {
        self.ranges.front().copied()
    }

    /// The ranges, from the highest to the lowest.
    pub(crate) fn descending(&self) -> impl Iterator<Item = Range> {
        self.ranges.iter().rev().copied()
    }

    /// Index of the first range that ends at or after `at`.
    fn position(&self, at: u64) -> usize {
        // Nearly all insertions are at one of the ends.
        match self.ranges.back() {
            None => 0,
            Some(last) if last.end < at => self.ranges.len(),
            Some(last) if last.start <= at => self.ranges.len() - 1,
            Some(_) if self.ranges.front().is_some_and(|r| r.end >= at) => 0,
            Some(_) => self.ranges.partition_point(|r| r.end < at),
        }
    }

    /// True if the set contains all of `range`.
    pub(crate) fn covers(&self, range: &Range) -> bool {
        self.ranges
            .get(self.position(range.start))
            .is_some_and(|r| r.covers(range))
    }

    /// Adds `range` and appends the new parts to `new`. Returns the range of the set that now
    /// contains it.
    pub(crate) fn insert(&mut self, range: Range, new: &mut Vec<Range>) -> Range {
        if range.is_empty() {
            return range;
        }
        let first = self.position(range.start);
        let (mut merged, mut at, mut next) = (range, range.start, first);
        while let Some(r) = self.ranges.get(next).filter(|r| r.start <= range.end) {
            if at < r.start {
                new.push(Range::new(at, r.start));
            }
            at = at.max(r.end);
            merged = Range::new(merged.start.min(r.start), merged.end.max(r.end));
            next += 1;
        }
        if at < range.end {
            new.push(Range::new(at, range.end));
        }
        if next == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            if next > first + 1 {
                self.ranges.drain(first + 1..next);
            }
        }
        merged
    }

    /// Removes everything below `bound`.
    pub(crate) fn forget_below(&mut self, bound: u64) {
        while let Some(first) = self.ranges.front_mut() {
            if first.end <= bound {
                self.ranges.pop_front();
            } else {
                first.start = first.start.max(bound);
                break;
            }
        }
        if self.ranges.is_empty() && self.ranges.capacity() > 64 {
            self.ranges = VecDeque::new();
        }
    }

    pub(crate) fn forget_first(&mut self) -> Option<Range> {
        self.ranges.pop_front()
    }

    pub(crate) fn clear(&mut self) {
        self.ranges = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_range_that_joins_two_brings_what_is_between() {
        let mut set = RangeSet::default();
        let mut new = Vec::new();
        set.insert(Range::new(10, 20), &mut new);
        set.insert(Range::new(30, 40), &mut new);
        new.clear();
        assert_eq!(set.insert(Range::new(15, 35), &mut new), Range::new(10, 40));
        assert_eq!(new, [Range::new(20, 30)]);
        assert_eq!(set.len(), 1);
        new.clear();
        // Neighbours become one.
        assert_eq!(set.insert(Range::new(40, 41), &mut new), Range::new(10, 41));
        set.forget_below(25);
        assert!(set.covers(&Range::new(25, 41)) && !set.covers(&Range::new(24, 30)));
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_numbers(steps in prop::collection::vec((0u64..200, 0u64..30, prop::option::weighted(0.1, 0u64..200)), 1..80)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            let mut bound = 0;
            for (start, len, forget) in steps {
                let range = Range::new(start.max(bound), (start + len).max(bound));
                let mut new = Vec::new();
                let merged = set.insert(range, &mut new);
                for n in &new {
                    for k in n.start..n.end {
                        prop_assert!(model.insert(k), "{k} is not new");
                    }
                }
                prop_assert!((range.start..range.end).all(|k| model.contains(&k)));
                prop_assert!(merged.covers(&range));
                if let Some(at) = forget {
                    bound = bound.max(at);
                    set.forget_below(bound);
                    model.retain(|k| *k >= bound);
                }
                let members: Vec<u64> = set.ranges.iter().flat_map(|r| r.start..r.end).collect();
                prop_assert_eq!(members, model.iter().copied().collect::<Vec<_>>());
                prop_assert!(set.ranges.iter().zip(set.ranges.iter().skip(1)).all(|(a, b)| a.end < b.start));
            }
        }
    }
}
