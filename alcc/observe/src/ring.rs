// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A ring buffer of records that all processes of a run write and `alcc` reads. It is written only
//! while there is a reader, which renews a lease; when the lease ends, writing ends.
//!
//! A writer never waits: records that are not read in time are overwritten, and the reader counts
//! them.
use crate::map::{self, set};
use crate::segment::Segment;
use alcc_units::{Span, Time};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// Position of a ring in the shared memory, in words.
pub(crate) struct Ring {
    /// Word of the lease: the time (ns of the monotonic clock) until which there is a reader.
    pub(crate) lease: usize,
    /// Word of the number of records written.
    pub(crate) head: usize,
    /// Word of the first record.
    pub(crate) at: usize,
    /// Words of a record, its sequence included. The first field is its mark.
    pub(crate) len: usize,
    /// Number of records in the ring.
    pub(crate) count: usize,
}

/// Maximum time for which a ring is written after its reader has ended.
const LEASE: Span = Span::from_secs(2);

/// Maximum number of fields of a record.
const MAX_FIELDS: usize = 32;

impl Ring {
    /// True while there is a reader.
    pub(crate) fn wanted(&self, segment: &Segment, now: Time) -> bool {
        let lease = segment.map().word(self.lease).load(Ordering::Relaxed);
        lease > now.as_nanos()
    }

    /// Writes one record. The counter gives each writer its own place. A writer that is late by a
    /// whole ring overwrites one record, which its reader detects by the sequence.
    pub(crate) fn write(&self, segment: &Segment, fields: impl IntoIterator<Item = u64>) {
        let head = segment.map().word(self.head);
        let number = head.fetch_add(1, Ordering::Relaxed);
        let record = segment.map().words(self.offset(number), self.len);
        map::publish(record, |w| {
            // An unwritten place has mark zero, which no record has.
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

/// A type of record in a ring.
pub trait Record: Sized {
    /// Decodes its fields; `None` if they are invalid.
    fn of(fields: &[u64]) -> Option<Self>;
}

/// Reader of the records of a run.
pub struct Reader<'a, T> {
    segment: &'a Segment,
    ring: &'static Ring,
    next: u64,
    lost: u64,
    records: PhantomData<T>,
}

impl<'a, T: Record> Reader<'a, T> {
    /// A reader from now on. The ring must have memory.
    pub(crate) fn new(segment: &'a Segment, ring: &'static Ring) -> Self {
        Self {
            segment,
            ring,
            next: segment.map().word(ring.head).load(Ordering::Acquire),
            lost: 0,
            records: PhantomData,
        }
    }

    /// Renews the lease. A reader calls this with each reading, so that writing stops soon after a
    /// reader that ended without [`Self::end`].
    pub fn renew(&self, now: Time) {
        self.lease(now + LEASE);
    }

    /// Extends the lease until `until`.
    pub(crate) fn lease(&self, until: Time) {
        let lease = self.segment.map().word(self.ring.lease);
        lease.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Ends the lease. (Other readers renew theirs within a second.)
    pub fn end(&self) {
        set(self.segment.map().word(self.ring.lease), 0);
    }

    /// Passes the records since the last call to `each`, oldest first.
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
                // The record is being written. It is complete at the next reading, or given up when
                // others follow.
                None if head.wrapping_sub(self.next) <= 64 => return,
                _ => self.lost += 1,
            }
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Number of records that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
