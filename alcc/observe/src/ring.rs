// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring of records that all processes of a run write and `alcc` reads. It is written only while
//! somebody reads it: a reader renews a lease, and when that ends, writing ends.
//!
//! A writer never waits: what is not read in time is overwritten, and the reader counts it.
use crate::map::{self, set};
use crate::segment::Segment;
use alcc_units::{Span, Time};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// Where a ring stands in the shared memory, in words.
pub(crate) struct Ring {
    /// Until when (ns of the monotonic clock) somebody reads.
    pub(crate) lease: usize,
    /// How many records were written.
    pub(crate) head: usize,
    /// The first record.
    pub(crate) at: usize,
    /// Words of a record, its sequence included. The first field is its mark.
    pub(crate) len: usize,
    /// How many there are.
    pub(crate) count: usize,
}

/// After its reader has ended, a ring is written for this time at most.
const LEASE: Span = Span::from_secs(2);

/// The longest record of a ring.
const MAX_FIELDS: usize = 32;

impl Ring {
    /// True while somebody reads.
    pub(crate) fn wanted(&self, segment: &Segment, now: Time) -> bool {
        let lease = segment.map().word(self.lease).load(Ordering::Relaxed);
        lease > now.as_nanos()
    }

    /// Writes one record. The counter gives each writer a place of its own. A writer that is a
    /// whole ring late garbles one record, and its reader sees that by the sequence.
    pub(crate) fn write(&self, segment: &Segment, fields: impl IntoIterator<Item = u64>) {
        let head = segment.map().word(self.head);
        let number = head.fetch_add(1, Ordering::Relaxed);
        let record = segment.map().words(self.offset(number), self.len);
        map::publish(record, |w| {
            // A place that nobody has written to yet is zero: no record's mark is.
            let fields = std::iter::once(mark(number)).chain(fields);
            w.iter().zip(fields).for_each(|(w, v)| set(w, v));
        });
    }

    fn offset(&self, number: u64) -> usize {
        self.at + (number as usize % self.count) * self.len
    }
}

fn mark(number: u64) -> u64 {
    number.wrapping_add(1)
}

/// What stands in a ring.
pub trait Record: Sized {
    /// Out of its fields; `None` for what nobody writes.
    fn of(fields: &[u64]) -> Option<Self>;
}

/// Follows the records of a run.
pub struct Reader<'a, T> {
    segment: &'a Segment,
    ring: &'static Ring,
    next: u64,
    lost: u64,
    records: PhantomData<T>,
}

impl<'a, T: Record> Reader<'a, T> {
    /// From now on. The ring must have memory.
    pub(crate) fn new(segment: &'a Segment, ring: &'static Ring) -> Self {
        Self {
            segment,
            ring,
            next: segment.map().word(ring.head).load(Ordering::Acquire),
            lost: 0,
            records: PhantomData,
        }
    }

    /// Asks the processes to write for some time more. Whoever reads calls this with each look, so
    /// that they stop soon after a reader that ended without [`Self::end`].
    pub fn renew(&self, now: Time) {
        self.lease(now + LEASE);
    }

    /// Asks the processes to write until `until`.
    pub(crate) fn lease(&self, until: Time) {
        let lease = self.segment.map().word(self.ring.lease);
        lease.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Nobody else reads: no more writing. (Others renew their lease within a second.)
    pub fn end(&self) {
        set(self.segment.map().word(self.ring.lease), 0);
    }

    /// What was written since the last call, oldest first.
    pub fn read(&mut self, mut each: impl FnMut(&T)) {
        let (map, ring) = (self.segment.map(), self.ring);
        let head = map.word(ring.head).load(Ordering::Acquire);
        let (behind, count) = (head.wrapping_sub(self.next), ring.count as u64);
        if behind > count {
            let skipped = behind - count;
            self.lost = self.lost.saturating_add(skipped);
            self.next = self.next.wrapping_add(skipped);
        }
        let mut fields = [0; MAX_FIELDS];
        let fields = &mut fields[..ring.len - 1];
        while self.next != head {
            let record = map.words(ring.offset(self.next), ring.len);
            let whole = map::snapshot_into(record, fields) && fields[0] == mark(self.next);
            match whole.then(|| T::of(&fields[1..])) {
                Some(Some(record)) => each(&record),
                // Its writer is in the middle of it. The record will be there next time, or is
                // given up when others follow.
                None if head.wrapping_sub(self.next) <= 64 => return,
                _ => self.lost += 1,
            }
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Records that came faster than they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
