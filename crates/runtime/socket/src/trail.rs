// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The last readings of all processes of a run, for `alcc log`: a ring in shared memory, written only while somebody reads
//! it. Who reads renews a lease; if it ends, writing ends.
use crate::report::Report;
use crate::shared::{self, LEASE, TRAIL, TRAIL_COUNT, TRAIL_ENTRY, TRAIL_HEAD, set};
use alcc_units::{Bytes, Rate, Span, Time};
use std::sync::atomic::Ordering;

/// One reading of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// When.
    pub at: Time,
    /// The process.
    pub pid: u32,
    /// The connection's number within it.
    pub id: u64,
    /// Stream position acknowledged.
    pub acked: u64,
    /// Written and not acknowledged.
    pub in_flight: Bytes,
    /// Written and not sent.
    pub unsent: Bytes,
    /// The algorithm's window; `None` if it has none.
    pub window: Option<Bytes>,
    /// The kernel's window, segments.
    pub cwnd: u64,
    /// The kernel's slow-start threshold, segments; `None` if it has not been set.
    pub ssthresh: Option<u64>,
    /// Segment size.
    pub mss: Bytes,
    /// Newest RTT sample.
    pub rtt: Span,
    /// Smallest RTT.
    pub min_rtt: Span,
    /// The algorithm's pacing rate; `None` if it has none.
    pub pacing: Option<Rate>,
    /// The kernel's estimate of the delivery rate.
    pub delivery: Rate,
}

/// True while somebody reads.
pub(crate) fn wanted(report: &Report, now: Time) -> bool {
    let lease = report.map().word(LEASE).load(Ordering::Relaxed);
    lease > now.as_nanos()
}

/// Writes one reading. The place is ours by the counter; a writer that is a whole ring late garbles one entry, which its
/// reader sees by the sequence.
pub(crate) fn write(report: &Report, p: &Passed) {
    let number = report
        .map()
        .word(TRAIL_HEAD)
        .fetch_add(1, Ordering::Relaxed);
    let at = TRAIL + (number as usize % TRAIL_COUNT) * TRAIL_ENTRY;
    let limit = |value: Option<u64>| value.unwrap_or(u64::MAX);
    shared::publish(report.map().words(at, TRAIL_ENTRY), |w| {
        let values = [
            // A place that nobody has written to yet is zero: no reading's mark is.
            number.wrapping_add(1),
            p.at.as_nanos(),
            u64::from(p.pid) << 32 | (p.id & 0xFFFF_FFFF),
            p.acked,
            p.in_flight.get(),
            p.unsent.get(),
            limit(p.window.map(Bytes::get)),
            p.cwnd,
            limit(p.ssthresh),
            p.mss.get(),
            p.rtt.as_nanos(),
            p.min_rtt.as_nanos(),
            limit(p.pacing.map(Rate::as_bps)),
            p.delivery.as_bps(),
        ];
        w.iter().zip(values).for_each(|(w, v)| set(w, v));
    });
}

/// Follows the readings of a run.
pub struct Trail<'a> {
    report: &'a Report,
    next: u64,
    lost: u64,
}

impl<'a> Trail<'a> {
    /// From now on.
    pub(crate) fn new(report: &'a Report) -> Self {
        Self {
            report,
            next: report.map().word(TRAIL_HEAD).load(Ordering::Acquire),
            lost: 0,
        }
    }

    /// Asks the processes to write until `until`.
    pub fn lease(&self, until: Time) {
        let lease = self.report.map().word(LEASE);
        lease.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Nobody else reads: no more writing. (Others renew their lease within a second.)
    pub fn end(&self) {
        set(self.report.map().word(LEASE), 0);
    }

    /// What was written since the last call, oldest first.
    pub fn read(&mut self, mut each: impl FnMut(&Passed)) {
        let head = self.report.map().word(TRAIL_HEAD).load(Ordering::Acquire);
        let behind = head.wrapping_sub(self.next);
        if behind > TRAIL_COUNT as u64 {
            let skipped = behind - TRAIL_COUNT as u64;
            self.lost = self.lost.saturating_add(skipped);
            self.next = self.next.wrapping_add(skipped);
        }
        while self.next != head {
            let at = TRAIL + (self.next as usize % TRAIL_COUNT) * TRAIL_ENTRY;
            let entry = shared::snapshot::<14>(self.report.map().words(at, TRAIL_ENTRY));
            match entry {
                Some(w) if w[0] == self.next.wrapping_add(1) => each(&passed(&w)),
                // Its writer is in the middle of it: it will be there next time, or be given up when others follow.
                _ if head.wrapping_sub(self.next) <= 64 => return,
                _ => self.lost += 1,
            }
            self.next = self.next.wrapping_add(1);
        }
    }

    /// Readings that came faster than they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

fn passed(w: &[u64; 14]) -> Passed {
    let limit = |value: u64| (value != u64::MAX).then_some(value);
    Passed {
        at: Time::from_nanos(w[1]),
        pid: (w[2] >> 32) as u32,
        id: w[2] & 0xFFFF_FFFF,
        acked: w[3],
        in_flight: Bytes::new(w[4]),
        unsent: Bytes::new(w[5]),
        window: limit(w[6]).map(Bytes::new),
        cwnd: w[7],
        ssthresh: limit(w[8]),
        mss: Bytes::new(w[9]),
        rtt: Span::from_nanos(w[10]),
        min_rtt: Span::from_nanos(w[11]),
        pacing: limit(w[12]).map(Rate::bps),
        delivery: Rate::bps(w[13]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::Scratch;

    fn reading(id: u64) -> Passed {
        Passed {
            at: Time::from_millis(id),
            pid: 7,
            id,
            acked: 1,
            in_flight: Bytes::new(2),
            unsent: Bytes::new(3),
            window: None,
            cwnd: 5,
            ssthresh: Some(6),
            mss: Bytes::new(7),
            rtt: Span::from_micros(8),
            min_rtt: Span::from_micros(9),
            pacing: Some(Rate::bps(10)),
            delivery: Rate::bps(11),
        }
    }

    #[test]
    fn readings_come_in_order_and_what_was_too_fast_is_counted() {
        let scratch = Scratch::new();
        let (writer, reader) = (scratch.create(), scratch.open());
        let mut trail = reader.trail().unwrap();
        assert!(!wanted(&writer, Time::from_millis(1)));
        trail.lease(Time::from_millis(2));
        assert!(wanted(&writer, Time::from_millis(1)) && !wanted(&writer, Time::from_millis(2)));
        (0..10).for_each(|id| write(&writer, &reading(id)));
        let mut got = Vec::new();
        trail.read(|p| got.push(*p));
        assert_eq!(got, (0..10).map(reading).collect::<Vec<_>>());
        let many = TRAIL_COUNT as u64 + 100;
        (0..many).for_each(|id| write(&writer, &reading(id)));
        got.clear();
        trail.read(|p| got.push(*p));
        assert_eq!((got.len(), trail.lost()), (TRAIL_COUNT, 100));
        assert_eq!(got[0], reading(100));
        trail.end();
        assert!(!wanted(&writer, Time::ZERO));
    }

    #[test]
    fn a_place_that_is_taken_but_not_written_yet_is_no_reading() {
        let scratch = Scratch::new();
        let (writer, reader) = (scratch.create(), scratch.open());
        let mut trail = reader.trail().unwrap();
        writer
            .map()
            .word(TRAIL_HEAD)
            .fetch_add(1, Ordering::Relaxed);
        trail.read(|p| panic!("{p:?}"));
    }
}
