// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_cc::Packet;
use alcc_units::Time;
use std::collections::BTreeMap;

/// Maximum number of packets. With more in flight the state of the oldest is dropped, and their
/// acknowledgements are ignored.
const MAX_SENT: usize = 1 << 17;

/// Packets in flight, by the stack's packet number (RFC 9002, A.1).
///
/// The stack has up to three packet number spaces (handshake and data), and does not report the
/// space of a number. So the same number can be in flight in each; the second key distinguishes
/// them, and time and length identify the right one.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentPackets {
    packets: BTreeMap<(u64, u8), Packet>,
}

impl SentPackets {
    pub(crate) fn sent(&mut self, number: u64, packet: Packet) {
        let copies = self.packets.range((number, 0)..=(number, u8::MAX)).count();
        // There cannot be more than there are spaces, so the stack has forgotten the last one.
        let copy = copies.min(2) as u8;
        self.packets.insert((number, copy), packet);
        if self.packets.len() > MAX_SENT {
            self.packets.pop_first();
        }
    }

    fn take(&mut self, number: u64, is: impl Fn(&Packet) -> bool) -> Option<Packet> {
        let (key, _) =
            (self.packets.range((number, 0)..=(number, u8::MAX))).find(|(_, p)| is(p))?;
        let key = *key;
        self.packets.remove(&key)
    }

    /// Removes a packet that was acknowledged and had been sent at `at`.
    pub(crate) fn acknowledged(&mut self, number: u64, at: Time) -> Option<Packet> {
        self.take(number, |packet| packet.sent_at == at)
    }

    /// Removes a lost packet of this length.
    pub(crate) fn lost(&mut self, number: u64, len: u64) -> Option<Packet> {
        self.take(number, |packet| packet.len.get() == len)
    }

    /// The packet that was sent first.
    pub(crate) fn oldest(&self) -> Option<&Packet> {
        // Except for the first few packets of a connection, all numbers are of one space.
        self.packets.values().take(4).min_by_key(|p| p.pn)
    }

    /// Removes packets sent before `time`. The stack does not report the fate of MTU probes, and of
    /// handshake packets that are no longer needed.
    pub(crate) fn remove_before(&mut self, time: Time) {
        while let Some(entry) = self.packets.first_entry() {
            if entry.get().sent_at >= time {
                break;
            }
            entry.remove();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_cc::{Kind, Pn, Stamp, Tag};
    use alcc_units::Bytes;

    fn packet(pn: Pn, ms: u64, len: u64) -> Packet {
        Packet {
            pn,
            len: Bytes::new(len),
            sent_at: Time::from_millis(ms),
            tag: Tag(pn),
            stamp: Stamp::default(),
            rtt: None,
            kind: Kind::New,
        }
    }

    #[test]
    fn the_same_number_in_two_spaces() {
        let mut table = SentPackets::default();
        table.sent(0, packet(0, 1, 1200));
        table.sent(0, packet(1, 2, 90));
        table.sent(1, packet(2, 3, 1200));
        let pn = |p: Option<Packet>| p.map(|p| p.pn);
        assert_eq!(pn(table.acknowledged(0, Time::from_millis(2))), Some(1));
        assert_eq!(pn(table.lost(0, 90)), None);
        assert_eq!(pn(table.lost(0, 1200)), Some(0));
        assert_eq!(pn(table.acknowledged(0, Time::from_millis(1))), None);
        assert_eq!(pn(table.oldest().copied()), Some(2));
        table.remove_before(Time::from_millis(4));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut table = SentPackets::default();
        for i in 0..MAX_SENT as u64 + 5 {
            table.sent(i, packet(i, 0, 1));
            table.sent(7, packet(i, 0, 1));
        }
        assert!(table.len() <= MAX_SENT, "{}", table.len());
    }
}
