// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of one end, and its encoding for the other end: differences in variable-length
//! numbers, some eight bytes a packet.
use crate::arrivals::{Arrival, MAX_ARRIVALS};
use crate::lateness::Lateness;
use alcc_units::{Span, Time};

/// The record of one end after a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// Start of the counted time, by this end's clock.
    pub from: Time,
    /// End of the counted time.
    pub to: Time,
    /// Packets that this end sent, warm-up included.
    pub sent: u64,
    /// Packets that were due while this end was delayed, and omitted.
    pub skipped: u64,
    /// Packets received, warm-up included.
    pub received: u64,
    /// Copies among them.
    pub copies: u64,
    /// Arrivals for which there was no room.
    pub beyond: u64,
    /// Packets that reached this end but for which its kernel had no room: the channel could carry
    /// them.
    pub overrun: u64,
    /// Lateness of this end's packets: median, 99th percentile and maximum.
    pub late: [Span; 3],
    /// Arrivals in the counted time, in order of arrival.
    pub arrivals: Vec<Arrival>,
}

impl Recorded {
    pub(crate) fn set_lateness(&mut self, lateness: &Lateness) {
        self.late = [
            lateness.quantile(0.5),
            lateness.quantile(0.99),
            lateness.max(),
        ];
    }

    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(100 + self.arrivals.len() * 8);
        for n in [
            self.from.as_nanos(),
            self.to.as_nanos(),
            self.sent,
            self.skipped,
            self.received,
            self.copies,
            self.beyond,
            self.overrun,
            self.late[0].as_nanos(),
            self.late[1].as_nanos(),
            self.late[2].as_nanos(),
            self.arrivals.len() as u64,
        ] {
            varint(n, &mut to);
        }
        let mut last = Arrival {
            seq: 0,
            sent: Time::ZERO,
            received: self.from,
        };
        for a in &self.arrivals {
            signed(a.seq.wrapping_sub(last.seq), &mut to);
            signed(
                a.sent.as_nanos().wrapping_sub(last.sent.as_nanos()),
                &mut to,
            );
            let step = a.received.as_nanos().wrapping_sub(last.received.as_nanos());
            signed(step, &mut to);
            last = *a;
        }
        to
    }

    /// Decodes a record of [`Recorded::encode`]; `None` for other bytes.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let from = &mut bytes;
        let mut recorded = Self {
            from: Time::from_nanos(read(from)?),
            to: Time::from_nanos(read(from)?),
            sent: read(from)?,
            skipped: read(from)?,
            received: read(from)?,
            copies: read(from)?,
            beyond: read(from)?,
            overrun: read(from)?,
            late: [read(from)?, read(from)?, read(from)?].map(Span::from_nanos),
            arrivals: Vec::new(),
        };
        let count = usize::try_from(read(from)?).ok()?;
        // Each has three numbers of at least a byte, so memory is bounded by the length of the
        // input.
        if count > MAX_ARRIVALS || count > from.len() / 3 {
            return None;
        }
        recorded.arrivals.reserve_exact(count);
        let mut last = Arrival {
            seq: 0,
            sent: Time::ZERO,
            received: recorded.from,
        };
        for _ in 0..count {
            last = Arrival {
                seq: last.seq.wrapping_add(read_signed(from)?),
                sent: Time::from_nanos(last.sent.as_nanos().wrapping_add(read_signed(from)?)),
                received: Time::from_nanos(
                    last.received.as_nanos().wrapping_add(read_signed(from)?),
                ),
            };
            if !(recorded.from..recorded.to).contains(&last.received) {
                return None;
            }
            recorded.arrivals.push(last);
        }
        from.is_empty().then_some(recorded)
    }
}

fn varint(mut n: u64, to: &mut Vec<u8>) {
    while n >= 0x80 {
        to.push(n as u8 | 0x80);
        n >>= 7;
    }
    to.push(n as u8);
}

/// Encodes a difference modulo 2^64, which is short if it is near zero on either side.
fn signed(n: u64, to: &mut Vec<u8>) {
    let n = n.cast_signed();
    varint(((n << 1) ^ (n >> 63)).cast_unsigned(), to);
}

fn read(from: &mut &[u8]) -> Option<u64> {
    let mut n = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = from.split_first()?;
        *from = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        n |= part << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

fn read_signed(from: &mut &[u8]) -> Option<u64> {
    let n = read(from)?;
    Some((n >> 1) ^ (n & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn what_is_written_is_read(steps: Vec<(u32, u64, u16)>, late: [u64; 3]) {
            let mut recorded = Recorded { from: Time::from_nanos(1 << 40), sent: 7, skipped: u64::MAX, ..Recorded::default() };
            recorded.late = late.map(Span::from_nanos);
            let mut received = recorded.from;
            for (seq, sent, step) in steps {
                received += Span::from_nanos(u64::from(step));
                recorded.arrivals.push(Arrival { seq: u64::from(seq), sent: Time::from_nanos(sent), received });
            }
            recorded.to = received + Span::from_nanos(1);
            let bytes = recorded.encode();
            prop_assert_eq!(Recorded::decode(&bytes), Some(recorded));
            for len in 0..bytes.len() {
                prop_assert_eq!(Recorded::decode(&bytes[..len]), None);
            }
        }

        #[test]
        fn other_bytes_are_refused_or_read(bytes: Vec<u8>) {
            let _ = Recorded::decode(&bytes);
        }
    }
}
