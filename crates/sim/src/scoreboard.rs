// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_cc::{Kind, Packet, Pn, Stamp, Tag};
use alcc_units::{Bytes, Rate, Time};
use std::collections::VecDeque;

/// A packet is lost when one sent this much later has arrived (RFC 9002, section 6.1.1). The path keeps order.
const REORDERING: Pn = 3;

/// One transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// What the controller gets back.
    pub(crate) packet: Packet,
    /// Its place in the stream.
    pub(crate) start: u64,
    /// When the application wrote it.
    pub(crate) written_at: Time,
    returned: bool,
}

/// Which transmissions are under way, and what an acknowledgement says about them.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    sent: VecDeque<Segment>,
    first: Pn,
    in_flight: Bytes,
    largest: Option<Pn>,
    delivered: Bytes,
    delivered_at: Time,
    first_sent_at: Time,
    recovery_until: Option<Pn>,
    /// Scratch: newly acknowledged, ascending.
    pub(crate) acked: Vec<Packet>,
    /// Scratch: newly lost, ascending.
    pub(crate) lost: Vec<Segment>,
}

impl Scoreboard {
    pub(crate) const fn new(now: Time) -> Self {
        Self {
            sent: VecDeque::new(),
            first: 0,
            in_flight: Bytes::ZERO,
            largest: None,
            delivered: Bytes::ZERO,
            delivered_at: now,
            first_sent_at: now,
            recovery_until: None,
            acked: Vec::new(),
            lost: Vec::new(),
        }
    }

    pub(crate) fn next_pn(&self) -> Pn {
        self.first + self.sent.len() as u64
    }

    pub(crate) const fn in_flight(&self) -> Bytes {
        self.in_flight
    }

    pub(crate) const fn delivered(&self) -> Bytes {
        self.delivered
    }

    /// The oldest transmission under way.
    pub(crate) fn oldest(&self) -> Option<&Segment> {
        self.sent.iter().find(|s| !s.returned)
    }

    pub(crate) const fn in_recovery(&self) -> bool {
        self.recovery_until.is_some()
    }

    /// A transmission leaves.
    #[expect(clippy::too_many_arguments, reason = "one call site per host")]
    pub(crate) fn send(
        &mut self,
        now: Time,
        start: u64,
        len: Bytes,
        kind: Kind,
        written_at: Time,
        app_limited: bool,
        tag: Tag,
    ) -> Pn {
        let pn = self.next_pn();
        if self.in_flight == Bytes::ZERO {
            self.delivered_at = now;
            self.first_sent_at = now;
        }
        self.in_flight += len;
        let stamp = Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            in_flight: self.in_flight,
            app_limited,
        };
        let packet = Packet {
            pn,
            len,
            sent_at: now,
            tag,
            stamp,
            rtt: None,
            kind,
        };
        self.sent.push_back(Segment {
            packet,
            start,
            written_at,
            returned: false,
        });
        pn
    }

    /// These transmissions have arrived. Fills `acked` and `lost`; true if a loss begins a new episode.
    pub(crate) fn arrived(&mut self, now: Time, pns: &[Pn]) -> bool {
        self.acked.clear();
        self.lost.clear();
        for &pn in pns {
            self.largest = self.largest.max(Some(pn));
            let Some(index) = pn.checked_sub(self.first) else {
                continue;
            };
            let Some(segment) = self.sent.get_mut(index as usize).filter(|s| !s.returned) else {
                continue;
            };
            segment.returned = true;
            let mut packet = segment.packet;
            packet.rtt = Some(now.since(packet.sent_at));
            self.in_flight -= packet.len;
            self.delivered += packet.len;
            self.delivered_at = now;
            self.first_sent_at = self.first_sent_at.max(packet.sent_at);
            self.acked.push(packet);
        }
        while let Some(front) = self.sent.front() {
            let overtaken = self
                .largest
                .is_some_and(|l| front.packet.pn + REORDERING <= l);
            if !front.returned && !overtaken {
                break;
            }
            if !front.returned {
                self.in_flight -= front.packet.len;
                self.lost.push(*front);
            }
            self.sent.pop_front();
            self.first += 1;
        }
        self.episode()
    }

    /// Whatever is found lost of what has left so far belongs to one episode, which begins now (a timeout).
    pub(crate) fn begin_episode(&mut self) {
        self.recovery_until = Some(self.next_pn());
    }

    fn episode(&mut self) -> bool {
        let Some(last) = self.lost.last() else {
            return false;
        };
        let new = self
            .recovery_until
            .is_none_or(|until| last.packet.pn >= until);
        if new {
            self.recovery_until = Some(self.next_pn());
        }
        new
    }

    /// True once when a transmission that left after the episode began has arrived.
    pub(crate) fn recovered(&mut self) -> bool {
        let over = self
            .recovery_until
            .is_some_and(|until| self.largest >= Some(until));
        if over {
            self.recovery_until = None;
        }
        over
    }

    /// Delivery rate over the flight of a packet that has just arrived.
    pub(crate) fn rate(&self, packet: &Packet, now: Time) -> Option<Rate> {
        packet.stamp.rate(packet.sent_at, self.delivered, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(packets: u64) -> Scoreboard {
        let mut board = Scoreboard::new(Time::ZERO);
        for pn in 0..packets {
            let now = Time::from_millis(pn);
            let len = Bytes::new(100);
            let got = board.send(now, pn * 100, len, Kind::New, now, false, Tag(pn));
            assert_eq!(got, pn);
        }
        board
    }

    fn pns(lost: &[Segment]) -> Vec<Pn> {
        lost.iter().map(|s| s.packet.pn).collect()
    }

    #[test]
    fn a_gap_of_three_is_a_loss_and_one_episode_covers_its_flight() {
        let mut board = board(10);
        let at = Time::from_millis(50);
        assert!(!board.arrived(at, &[0, 2, 3]));
        assert!(board.lost.is_empty() && !board.in_recovery());
        assert!(board.arrived(at, &[4]), "packet 1 is three behind");
        assert_eq!(pns(&board.lost), [1]);
        assert_eq!(board.in_flight(), Bytes::new(500));
        assert!(
            !board.arrived(at, &[9]),
            "5 and 6 belong to the same flight"
        );
        assert_eq!(pns(&board.lost), [5, 6]);
        assert!(!board.recovered());
        let pn = board.send(
            at,
            100,
            Bytes::new(100),
            Kind::Retransmit,
            at,
            false,
            Tag(0),
        );
        board.arrived(at, &[pn]);
        assert!(board.recovered() && !board.recovered());
    }

    #[test]
    fn a_timeout_covers_what_left_before_it() {
        let mut board = board(6);
        board.begin_episode();
        let at = Time::from_millis(900);
        let pn = board.send(at, 0, Bytes::new(100), Kind::Retransmit, at, false, Tag(0));
        assert!(!board.arrived(at, &[pn]), "no new episode");
        assert_eq!(pns(&board.lost), [0, 1, 2, 3]);
        assert!(board.recovered());
        assert_eq!(board.delivered(), Bytes::new(100));
    }
}
