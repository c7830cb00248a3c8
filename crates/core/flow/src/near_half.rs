// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_cc::{Controller, Cx, EventSink, Header, Packet, Pn, Receiver, Report, Sending};
use alcc_units::Time;
use std::collections::VecDeque;

/// An algorithm's receiver half beside the sender, for a peer that knows nothing of it (plain TCP, QUIC): acknowledgements stand for arrivals.
///
/// They come later than what they stand for by the way back, as a report would; what is not known is when within the time since the last
/// reading they came, so counts per tick are off by what arrives in one reading.
pub struct NearHalf {
    half: Box<dyn Receiver>,
    /// What the packets under way carry. The ledger bounds their number.
    headers: VecDeque<(Pn, Header)>,
}

impl NearHalf {
    /// `None` for an algorithm without one.
    pub fn of(cc: &dyn Controller) -> Option<Self> {
        Some(Self {
            half: cc.receiver()?,
            headers: VecDeque::new(),
        })
    }

    /// A packet was written.
    pub fn sent(
        &mut self,
        cc: &mut dyn Controller,
        now: Time,
        sending: Sending,
        log: &mut dyn EventSink,
    ) {
        let header = cc.header(&mut Cx { now, log }, &sending);
        match self.headers.back_mut() {
            // Small writes share a packet: the last word counts.
            Some((pn, last)) if *pn >= sending.pn => *last = header,
            _ => self.headers.push_back((sending.pn, header)),
        }
    }

    /// Packets were acknowledged, in order.
    pub fn acknowledged(&mut self, now: Time, packets: &[Packet]) {
        for packet in packets {
            let mut header = Header::EMPTY;
            while let Some((_, h)) = self.headers.front().filter(|(pn, _)| *pn <= packet.pn) {
                header = *h;
                self.headers.pop_front();
            }
            self.half.on_packet(now, packet.pn, packet.len, &header);
        }
    }

    /// When [`NearHalf::report`] should be asked without an acknowledgement.
    pub fn next_timer(&self) -> Option<Time> {
        self.half.next_timer()
    }

    /// Does what is due, and says what there is to say.
    pub fn report(&mut self, now: Time) -> Option<Report> {
        if self.half.next_timer().is_some_and(|at| at <= now) {
            self.half.on_timer(now);
        }
        self.half.report(now)
    }

    /// Nothing is under way, or what is will never be heard of.
    pub fn rest(&mut self) {
        self.headers = VecDeque::new();
    }

    /// A complete snapshot.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            half: self.half.clone_box(),
            headers: self.headers.clone(),
        }
    }
}
