// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages between sender and receiver module, little endian.
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
use alcc_units::{Bytes, Time};

/// The header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Bytes sent before it.
    pub sequence: u32,
    /// Bytes before this sequence are lost if they have not arrived.
    pub throwaway: u32,
    /// Milliseconds until the next packet.
    pub time_to_next: u16,
}

/// Bytes of a header.
pub const HEADER: usize = 10;
const REPORT: usize = 48;

/// Upper bound of a unit, so that no product overflows.
const MAX_UNIT: u32 = 1 << 26;
/// A packet that was sent longer ago than this, in ms, and was overtaken is lost.
const REORDERING: u64 = 10;
/// Upper bound of byte counts: more than any link holds.
pub(super) const MAX_BYTES: f64 = (1u64 << 40) as f64;
/// The forecast before the first report: that of a link without observations for a second. The
/// program starts in the same way.
const BLIND: [u32; HORIZON] = [2, 4, 7, 9, 12, 15, 17, 20];

/// Number of bytes sent, and its values at the beginning of each of the last milliseconds.
#[derive(Clone, Default)]
pub(super) struct Sequence {
    bytes: u64,
    recent: [(u64, u64); REORDERING as usize + 1],
}

impl Sequence {
    pub(super) fn sent(&mut self, now: Time, len: u64) {
        let ms = now.as_nanos() / 1_000_000;
        let place = &mut self.recent[(ms % (REORDERING + 1)) as usize];
        if place.0 != ms {
            *place = (ms, self.bytes);
        }
        self.bytes = self.bytes.saturating_add(len);
    }

    /// The header of the packet that was sent last.
    pub(super) fn mark(&self, now: Time, len: u64, max_throwaway: u64, time_to_next: u16) -> Mark {
        let ms = now.as_nanos() / 1_000_000;
        let recent = self.recent.iter().filter(|(at, _)| at + REORDERING >= ms);
        let oldest = recent.map(|(_, bytes)| *bytes).min();
        let span = self.bytes.saturating_sub(oldest.unwrap_or(self.bytes));
        let throwaway = span.min(max_throwaway).saturating_sub(len);
        Mark {
            // `bytes` already includes this packet.
            sequence: self.bytes.wrapping_sub(len) as u32,
            throwaway: u32::try_from(throwaway).unwrap_or(0),
            time_to_next,
        }
    }

    /// Bytes sent that are not in a report yet.
    pub(super) fn behind(&self, report: &Forecast) -> f64 {
        self.bytes.saturating_sub(report.received_or_lost) as f64
    }
}

/// The next `N` bytes.
fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*bytes)
}

impl Mark {
    /// Encodes the header.
    pub fn encode(self) -> Header {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.throwaway.to_le_bytes());
        bytes[8..].copy_from_slice(&self.time_to_next.to_le_bytes());
        Header::new(&bytes)
    }

    /// Decodes a header; `None` if there are too few bytes.
    pub fn decode(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        Some(Self {
            sequence: u32::from_le_bytes(take(from)?),
            throwaway: u32::from_le_bytes(take(from)?),
            time_to_next: u16::from_le_bytes(take(from)?),
        })
    }
}

/// A report of the receiver module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// Bytes that have arrived or are lost.
    pub received_or_lost: u64,
    /// The number of the tick.
    pub tick: u32,
    /// Bytes per unit of `counts`.
    pub unit: u32,
    /// Lower bound of the bytes (in `unit`s) that arrive within 1, 2, ... 8 ticks.
    pub counts: [u32; HORIZON],
}

impl Forecast {
    /// The forecast before the first report.
    pub fn blind(mss: Bytes) -> Self {
        Self {
            received_or_lost: 0,
            tick: 0,
            unit: mss.get() as u32,
            counts: BLIND,
        }
    }

    /// Sets the unit to a segment.
    pub fn count_segments(&mut self, mss: Bytes) {
        self.unit = u32::try_from(mss.get()).unwrap_or(u32::MAX).min(1 << 14);
    }

    /// True if it is of a later tick than `other`.
    pub fn is_newer_than(&self, other: &Self) -> bool {
        self.tick.wrapping_sub(other.tick) as i32 > 0
    }

    /// Bytes that arrive within `ticks` of its making: between ticks in proportion, beyond its end
    /// at the last tick's rate.
    pub fn bytes_within(&self, ticks: f64) -> f64 {
        let count = |i: usize| f64::from(self.counts[i]);
        let last = (HORIZON - 1) as f64;
        let packets = if ticks >= last {
            count(HORIZON - 1) + (ticks - last) * (count(HORIZON - 1) - count(HORIZON - 5)) / 4.0
        } else {
            let i = ticks as usize;
            count(i) + (ticks - i as f64) * (count(i + 1) - count(i))
        };
        packets * f64::from(self.unit)
    }

    /// Reports it for plots.
    pub fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("unit", f64::from(self.unit));
        put("forecast_20ms", f64::from(self.counts[0]));
        put("forecast_160ms", f64::from(self.counts[HORIZON - 1]));
    }

    /// Encodes the report.
    pub fn encode(&self) -> Report {
        let mut bytes = [0; REPORT];
        bytes[..8].copy_from_slice(&self.received_or_lost.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.tick.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.unit.to_le_bytes());
        for (to, count) in bytes[16..].chunks_exact_mut(4).zip(self.counts) {
            to.copy_from_slice(&count.to_le_bytes());
        }
        Report::new(&bytes)
    }

    /// Decodes a report. The counts are made ascending, whatever the peer sent.
    pub fn decode(mut from: &[u8]) -> Option<Self> {
        if from.len() != REPORT {
            return None;
        }
        let from = &mut from;
        let mut forecast = Self {
            received_or_lost: u64::from_le_bytes(take(from)?),
            tick: u32::from_le_bytes(take(from)?),
            unit: u32::from_le_bytes(take(from)?).clamp(1, MAX_UNIT),
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
