// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Durations in bounded memory: exact while they are few, then accurate to a 512th of their length.
use alcc_units::Span;

/// At most this many are stored as they are. More go into a histogram, whose memory does not grow
/// with time. They go all at once, which is faster with many flows than one by one.
const MAX_EXACT_COUNT: usize = 1024;
/// Values below this many microseconds are exact.
const EXACT: u32 = 1024;
/// Buckets for each doubling beyond.
const BUCKETS_PER_OCTAVE: u32 = EXACT / 2;
/// Buckets are made in pages, where durations are found.
const PAGE: usize = 64;

/// Collects durations for a [`Summary`]. Kept in microseconds, at most 71
/// minutes each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    /// Durations that are not in the histogram yet.
    few: Vec<u32>,
    many: Option<Box<Histogram>>,
    count: u64,
    sum_ns: u128,
}

/// Mean, median and 95th percentile (nearest rank) of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Arithmetic mean, exact.
    pub mean: Span,
    /// Median: to a microsecond for up to 1024 durations, beyond that to 0.1 %.
    pub median: Span,
    /// 95th percentile, as exact as the median.
    pub p95: Span,
    /// Their number. If it is zero, the other fields are zero, too.
    pub count: u64,
}

impl Summary {
    /// The summary if every duration were longer by `more`.
    pub(crate) fn shifted_by(self, more: Span) -> Self {
        if self.count == 0 {
            return self;
        }
        Self {
            mean: self.mean + more,
            median: self.median + more,
            p95: self.p95 + more,
            count: self.count,
        }
    }
}

impl Durations {
    #[inline]
    pub(crate) fn add(&mut self, span: Span) {
        self.count += 1;
        self.sum_ns += u128::from(span.as_nanos());
        let micros = u32::try_from(span.as_micros()).unwrap_or(u32::MAX);
        if self.few.len() < MAX_EXACT_COUNT && self.few.len() < self.few.capacity() {
            self.few.push(micros);
        } else {
            self.make_room_for(micros);
        }
    }

    #[cold]
    fn make_room_for(&mut self, micros: u32) {
        if self.few.len() == MAX_EXACT_COUNT {
            self.sort_in();
        }
        self.few.push(micros);
    }

    /// Empties `few` into the histogram.
    fn sort_in(&mut self) {
        let many = self.many.get_or_insert_default();
        self.few.drain(..).for_each(|value| many.add(value));
    }

    /// Sum of all durations.
    pub(crate) fn sum(&self) -> Span {
        Span::from_nanos(u64::try_from(self.sum_ns).unwrap_or(u64::MAX))
    }

    pub(crate) fn summary(&mut self) -> Summary {
        if self.count == 0 {
            return Summary::default();
        }
        if self.many.is_some() {
            self.sort_in();
        }
        let mean = self.sum_ns / u128::from(self.count);
        let mean = Span::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX));
        let (median, p95) = (self.rank(50), self.rank(95));
        Summary {
            mean,
            median,
            p95,
            count: self.count,
        }
    }

    /// The smallest duration that this share of them does not exceed.
    fn rank(&mut self, percent: u64) -> Span {
        let rank = (self.count * percent).div_ceil(100).max(1) - 1;
        let micros = match &self.many {
            Some(many) => many.value_at(rank),
            None => *self.few.select_nth_unstable(rank as usize).1,
        };
        Span::from_micros(u64::from(micros))
    }
}

/// Counts by number, in pages: they are made where something is counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paged<T> {
    /// Position of each page in `counts`, from 1; 0: not made.
    pages: Vec<u16>,
    counts: Vec<[T; PAGE]>,
}

impl<T: Copy + Default> Paged<T> {
    /// The count of this number.
    #[inline]
    pub(crate) fn at(&mut self, number: usize) -> &mut T {
        let page = match self.pages.get(number / PAGE) {
            Some(page) if *page > 0 => *page,
            _ => self.make(number / PAGE),
        };
        &mut self.counts[usize::from(page) - 1][number % PAGE]
    }

    #[cold]
    fn make(&mut self, page: usize) -> u16 {
        if page >= self.pages.len() {
            self.pages.resize(page + 1, 0);
        }
        self.counts.push([T::default(); PAGE]);
        self.pages[page] = self.counts.len() as u16;
        self.pages[page]
    }

    /// All numbers of the pages that are made, ascending, with their counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, T)> {
        let pages = self.pages.iter().enumerate().filter(|(_, page)| **page > 0);
        pages.flat_map(|(number, page)| {
            let counts = self.counts[usize::from(*page) - 1];
            (number * PAGE..).zip(counts)
        })
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.pages.capacity() * size_of::<u16>() + self.counts.capacity() * size_of::<[T; PAGE]>()
    }
}

/// Counts by [`bucket`].
#[derive(Clone, Debug, Default)]
struct Histogram(Paged<u32>);

impl Histogram {
    fn add(&mut self, value: u32) {
        let count = self.0.at(bucket(value));
        *count = count.saturating_add(1);
    }

    fn value_at(&self, rank: u64) -> u32 {
        let mut before = 0;
        for (bucket, count) in self.0.iter() {
            before += u64::from(count);
            if before > rank {
                return middle(bucket as u32);
            }
        }
        0
    }
}

fn bucket(value: u32) -> usize {
    // How many doublings of the exact ones; 0: exact. No branch: there is one for each duration.
    let doublings = (value | BUCKETS_PER_OCTAVE).ilog2() - BUCKETS_PER_OCTAVE.ilog2();
    (doublings * BUCKETS_PER_OCTAVE + (value >> doublings)) as usize
}

/// The value in the middle of a bucket.
fn middle(bucket: u32) -> u32 {
    let Some(beyond) = bucket.checked_sub(EXACT) else {
        return bucket;
    };
    let (doublings, within) = (beyond / BUCKETS_PER_OCTAVE, beyond % BUCKETS_PER_OCTAVE);
    ((BUCKETS_PER_OCTAVE + within) << (doublings + 1)) + (1 << doublings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_hundred() {
        let mut durations = Durations::default();
        (1..=100)
            .rev()
            .for_each(|ms| durations.add(Span::from_millis(ms)));
        let summary = durations.summary();
        assert_eq!(summary.mean, Span::from_micros(50_500));
        assert_eq!(summary.median, Span::from_millis(50));
        assert_eq!(summary.p95, Span::from_millis(95));
        assert_eq!(Durations::default().summary(), Summary::default());
    }

    #[test]
    fn a_bucket_holds_its_middle_and_is_a_512th_wide_at_most() {
        for value in [0, 1, 1023, 1024, 1025, 2047, 2048, 5000, 1 << 20, u32::MAX] {
            let middle = middle(bucket(value) as u32);
            assert_eq!(bucket(middle), bucket(value), "{value}");
            assert!(
                middle.abs_diff(value) <= value / 1024 + 1,
                "{value} {middle}"
            );
        }
        let octaves = u32::BITS - EXACT.ilog2();
        let last = EXACT + octaves * BUCKETS_PER_OCTAVE - 1;
        assert_eq!(bucket(u32::MAX), last as usize);
    }

    #[test]
    fn many_are_as_few_to_a_thousandth() {
        let mut durations = Durations::default();
        (1..=100_000).for_each(|us| durations.add(Span::from_micros(us)));
        let summary = durations.summary();
        assert_eq!(summary.mean, Span::from_nanos(50_000_500));
        for (got, want) in [(summary.median, 50_000), (summary.p95, 95_000)] {
            assert!(got.as_micros().abs_diff(want) <= want / 1000, "{got}");
        }
        assert_eq!(summary.count, 100_000);
    }
}
