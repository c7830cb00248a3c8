// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What travels between the halves. Little endian.
//!
//! | header of a packet | bytes | |
//! |---|---|---|
//! | sequence | 4 | bytes sent before this packet, modulo 2^32 |
//! | throwaway | 4 | everything this far below the sequence has arrived by now or is lost |
//! | time to next | 2 | milliseconds of silence that say nothing of the link: 0 inside a flight |
//!
//! | report | bytes | |
//! |---|---|---|
//! | received or lost | 8 | bytes that need no longer be reckoned with |
//! | tick | 4 | number of the receiver's tick: an older report is of no use |
//! | unit | 4 | bytes that a count stands for |
//! | counts | 8 x 4 | what arrives at least within 1, 2, ... 8 ticks |
use super::model::HORIZON;
use crate::{Header, Report};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mark {
    pub(super) sequence: u32,
    pub(super) throwaway: u32,
    pub(super) time_to_next: u16,
}

pub(super) const HEADER: usize = 10;
const REPORT: usize = 48;

/// No unit is larger, so that no product overflows.
const LARGEST_UNIT: u32 = 1 << 26;

/// The next so many bytes.
fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}

impl Mark {
    pub(super) fn encode(self) -> Header {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.throwaway.to_le_bytes());
        bytes[8..].copy_from_slice(&self.time_to_next.to_le_bytes());
        Header::new(&bytes)
    }

    pub(super) fn decode(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        Some(Self {
            sequence: u32::from_le_bytes(take(from)?),
            throwaway: u32::from_le_bytes(take(from)?),
            time_to_next: u16::from_le_bytes(take(from)?),
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Forecast {
    pub(super) received_or_lost: u64,
    pub(super) tick: u32,
    pub(super) unit: u32,
    pub(super) counts: [u32; HORIZON],
}

impl Forecast {
    pub(super) fn encode(&self) -> Report {
        let mut bytes = [0; REPORT];
        bytes[..8].copy_from_slice(&self.received_or_lost.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.tick.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.unit.to_le_bytes());
        for (to, count) in bytes[16..].chunks_exact_mut(4).zip(self.counts) {
            to.copy_from_slice(&count.to_le_bytes());
        }
        Report::new(&bytes)
    }

    /// Whatever the peer says, a forecast grows with the horizon.
    pub(super) fn decode(mut from: &[u8]) -> Option<Self> {
        if from.len() != REPORT {
            return None;
        }
        let from = &mut from;
        let mut forecast = Self {
            received_or_lost: u64::from_le_bytes(take(from)?),
            tick: u32::from_le_bytes(take(from)?),
            unit: u32::from_le_bytes(take(from)?).clamp(1, LARGEST_UNIT),
            counts: [0; HORIZON],
        };
        let mut last = 0;
        for count in &mut forecast.counts {
            last = u32::from_le_bytes(take(from)?).max(last);
            *count = last;
        }
        Some(forecast)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mark = Mark {
            sequence: 0xfeed_beef,
            throwaway: 65_535,
            time_to_next: 50,
        };
        assert_eq!(Mark::decode(&mark.encode()), Some(mark));
        assert_eq!(Mark::decode(&[1; HEADER - 1]), None);
        let forecast = Forecast {
            received_or_lost: 1 << 40,
            tick: 7,
            unit: 1440,
            counts: [5, 12, 20, 27, 35, 43, 51, 59],
        };
        assert_eq!(Forecast::decode(&forecast.encode()), Some(forecast));
        assert_eq!(Forecast::decode(&[9; 47]), None);
    }

    #[test]
    fn a_forecast_that_falls_is_made_to_stand() {
        let lie = Forecast {
            received_or_lost: 0,
            tick: 0,
            unit: 0,
            counts: [9, 3, 4, 10, 0, 0, 0, 11],
        };
        let read = Forecast::decode(&lie.encode()).unwrap();
        assert_eq!((read.unit, read.counts), (1, [9, 9, 9, 10, 10, 10, 10, 11]));
    }
}
