// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports between processes of a run whose connections to one address share an allowance: the
//! counters of [`alcc_flow::Elsewhere`], with a place for each process and address.
//!
//! Places are in rows by a hash, so that a search covers only one row. There are no locks: a place
//! has one writer, and a writer that has died becomes silent.
use crate::map::{self, KEYS, KEYS_COUNT, KEYS_ROW, TALLIES, TALLY_LEN, set};
use crate::segment::Segment;
use alcc_flow::{Elsewhere, Tally};
use alcc_units::{Bytes, Rate, Rng, Span, Time};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A process without reports for this time has nothing in flight, or is dead. It is longer than the
/// round trips of a full buffer.
const SILENT: Span = Span::from_secs(3);

// Words of a place after its sequence. Those before AT are written once.
const OWNER: usize = 0;
const ADDRESS: usize = 1;
const AT: usize = 3;
const NUMBERS: usize = 9;
const FIELDS: usize = TALLY_LEN - 1;
const _: () = assert!(AT + NUMBERS <= FIELDS);

/// The place of one process for connections to one address under one algorithm. Dropping it frees
/// the place.
pub struct Sharing {
    segment: Arc<Segment>,
    index: usize,
    owner: u64,
    key: u64,
    address: [u64; 2],
}

impl Sharing {
    /// Takes a place for this process. `None`: there is none, or no memory for it; these
    /// connections share only among themselves then.
    pub fn take(segment: &Arc<Segment>, to: IpAddr, algorithm: &str, now: Time) -> Option<Self> {
        let bits = match to {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let bits = Ipv6Addr::to_bits(bits);
        let address = [(bits >> 64) as u64, bits as u64];
        let words = address
            .into_iter()
            .chain(map::text_words(algorithm).take(algorithm.len() / 8 + 1));
        let key = words
            .fold(0, |hash, word| Rng::new(hash ^ word).next_u64())
            .max(1);
        let row = (key as usize % (KEYS_COUNT / KEYS_ROW)) * KEYS_ROW;
        let keys = segment.map().words(KEYS + row, KEYS_ROW);
        let free = keys.iter().position(|word| {
            word.compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })?;
        let index = row + free;
        if !segment.map().back(TALLIES + index * TALLY_LEN, TALLY_LEN) && segment.map().back(0, 1) {
            keys[free].store(0, Ordering::Release);
            return None;
        }
        // The same number twice in a process would need two groups at the same nanosecond.
        let owner = u64::from(std::process::id()) << 32 | (now.as_nanos() & 0xFFFF_FFFF);
        let place = Self {
            segment: Arc::clone(segment),
            index,
            owner,
            key,
            address,
        };
        map::publish(place.words(), |w| {
            set(&w[OWNER], owner);
            set(&w[ADDRESS], address[0]);
            set(&w[ADDRESS + 1], address[1]);
            w[AT..].iter().for_each(|word| set(word, 0));
        });
        Some(place)
    }

    fn words(&self) -> &[AtomicU64] {
        words(&self.segment, self.index)
    }
}

impl Elsewhere for Sharing {
    fn tell(&mut self, own: &Tally) {
        // A supervisor that took us for dead may have freed it, and another process may have it.
        if self.words()[1 + OWNER].load(Ordering::Relaxed) != self.owner {
            return;
        }
        let limit = |value: Option<u64>| value.unwrap_or(u64::MAX);
        let values: [u64; NUMBERS] = [
            own.at.as_nanos(),
            own.sent,
            own.acked,
            own.lost,
            own.abandoned,
            own.backlogged,
            limit(own.rtt.map(Span::as_nanos)),
            own.window.get(),
            limit(own.rate.map(Rate::as_bps)),
        ];
        map::publish(self.words(), |w| {
            w[AT..].iter().zip(values).for_each(|(w, v)| set(w, v));
        });
    }

    fn hear(&mut self, now: Time, put: &mut dyn FnMut(u64, Tally)) {
        let limit = |value: u64| (value != u64::MAX).then_some(value);
        let row = self.index / KEYS_ROW * KEYS_ROW;
        for (i, key) in (self.segment.map().words(KEYS + row, KEYS_ROW).iter()).enumerate() {
            let index = row + i;
            if index == self.index || key.load(Ordering::Acquire) != self.key {
                continue;
            }
            let Some(w) = map::snapshot::<FIELDS>(words(&self.segment, index)) else {
                continue;
            };
            let at = Time::from_nanos(w[AT]);
            if w[OWNER] != 0 && w[ADDRESS..][..2] == self.address && now.since(at) < SILENT {
                let tally = Tally {
                    at,
                    sent: w[AT + 1],
                    acked: w[AT + 2],
                    lost: w[AT + 3],
                    abandoned: w[AT + 4],
                    backlogged: w[AT + 5],
                    rtt: limit(w[AT + 6]).map(Span::from_nanos),
                    window: Bytes::new(w[AT + 7]),
                    rate: limit(w[AT + 8]).map(Rate::bps),
                };
                put(w[OWNER], tally);
            }
        }
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        // A child has a copy of its parent's places, which it must not free.
        let ours = self.words()[1 + OWNER].load(Ordering::Relaxed) == self.owner;
        if ours && self.owner >> 32 == u64::from(std::process::id()) {
            free(&self.segment, self.index);
        }
    }
}

fn words(segment: &Segment, index: usize) -> &[AtomicU64] {
    segment.map().words(TALLIES + index * TALLY_LEN, TALLY_LEN)
}

/// Frees a place. The owner is cleared first, because between a claim and the first record a place
/// must not look like that of its last owner.
fn free(segment: &Segment, index: usize) {
    map::publish(words(segment, index), |w| set(&w[OWNER], 0));
    segment.map().word(KEYS + index).store(0, Ordering::Release);
}

/// Frees the places of processes that have ended. Returns their number.
pub(crate) fn reclaim(segment: &Segment, alive: impl Fn(u32) -> bool) -> usize {
    let mut freed = 0;
    for (index, key) in segment.map().words(KEYS, KEYS_COUNT).iter().enumerate() {
        if key.load(Ordering::Acquire) == 0 {
            continue;
        }
        let owner = words(segment, index)[1 + OWNER].load(Ordering::Relaxed);
        if owner != 0 && !alive((owner >> 32) as u32) {
            free(segment, index);
            freed += 1;
        }
    }
    freed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::tests::Scratch;

    fn address(n: u8) -> IpAddr {
        [192, 0, 2, n].into()
    }

    fn heard(place: &mut Sharing, now: Time) -> Vec<Tally> {
        let mut all = Vec::new();
        place.hear(now, &mut |_, tally| all.push(tally));
        all
    }

    #[test]
    fn a_group_reads_its_other_processes_and_no_others() {
        let scratch = Scratch::new();
        let (ours, theirs) = (Arc::new(scratch.create()), Arc::new(scratch.open()));
        let at = Time::from_millis(5000);
        let mut a = Sharing::take(&ours, address(1), "budget", at).unwrap();
        let mut b = Sharing::take(&theirs, address(1), "budget", at).unwrap();
        let mut other = Sharing::take(&theirs, address(2), "budget", at).unwrap();
        let mut copa = Sharing::take(&theirs, address(1), "copa", at).unwrap();
        let tally = Tally {
            at,
            sent: 7,
            acked: 3,
            lost: 2,
            abandoned: 1,
            backlogged: 4,
            rtt: Some(Span::from_millis(40)),
            window: Bytes::new(9_000),
            rate: None,
        };
        a.tell(&tally);
        assert_eq!(heard(&mut b, at), [tally]);
        assert_eq!(heard(&mut other, at), []);
        assert_eq!(heard(&mut copa, at), []);
        // A process that is silent for long is dead, or has nothing to report.
        assert_eq!(heard(&mut b, at + SILENT), []);
        drop(a);
        assert_eq!(heard(&mut b, at), []);
    }

    #[test]
    fn places_of_dead_processes_are_free_again() {
        let scratch = Scratch::new();
        let segment = Arc::new(scratch.create());
        let take = || Sharing::take(&segment, address(1), "budget", Time::from_millis(1000));
        let mut all: Vec<Sharing> = std::iter::from_fn(take).collect();
        assert_eq!(all.len(), KEYS_ROW);
        // A killed process gives nothing back.
        all.drain(..).for_each(std::mem::forget);
        assert!(take().is_none());
        assert_eq!(segment.reclaim(|_| false), KEYS_ROW);
        assert!(take().is_some());
        // A process that was wrongly taken for dead does no harm.
        let mut late = take().unwrap();
        assert_eq!(segment.reclaim(|_| false), 1);
        let mut next = take().unwrap();
        late.tell(&Tally {
            sent: 9,
            ..Tally::default()
        });
        drop(late);
        assert_eq!(heard(&mut next, Time::ZERO), []);
    }
}
