// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{Controller, Header, Packet, Pn, Receiver, Report};
use alcc_units::Time;
use std::collections::VecDeque;

/// An algorithm's receiver half beside the sender, for a peer that knows nothing of it (plain TCP,
/// QUIC): acknowledgements stand for arrivals.
///
/// They come later than what they stand for by the way back, as a report would; what is not known
/// is when within the time since the last reading they came, so counts per tick are off by what
/// arrives in one reading.
pub(super) struct LocalReceiver {
    half: Box<dyn Receiver>,
    /// What the packets under way carry. Their number is bounded by what the host remembers.
    headers: VecDeque<(Pn, Header)>,
}

impl LocalReceiver {
    /// `None` for an algorithm without one.
    pub(super) fn of(cc: &dyn Controller) -> Option<Self> {
        Some(Self {
            half: cc.receiver()?,
            headers: VecDeque::new(),
        })
    }

    /// A packet was written.
    pub(super) fn sent(&mut self, pn: Pn, header: Header) {
        match self.headers.back_mut() {
            // Small writes share a packet: the last word counts.
            Some((last, kept)) if *last >= pn => *kept = header,
            _ => self.headers.push_back((pn, header)),
        }
    }

    /// Packets were acknowledged, in order.
    pub(super) fn acknowledged(&mut self, now: Time, packets: &[Packet]) {
        for packet in packets {
            let mut header = Header::EMPTY;
            while let Some((_, h)) = self.headers.front().filter(|(pn, _)| *pn <= packet.pn) {
                header = *h;
                self.headers.pop_front();
            }
            self.half.on_packet(now, packet.pn, packet.len, &header);
        }
    }

    /// When [`LocalReceiver::report`] should be asked without an acknowledgement.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.half.next_timer()
    }

    /// Does what is due, and says what there is to say.
    pub(super) fn report(&mut self, now: Time) -> Option<Report> {
        if self.half.next_timer().is_some_and(|at| at <= now) {
            self.half.on_timer(now);
        }
        self.half.report(now)
    }

    /// Nothing is under way, or what is will never be heard of.
    pub(super) fn release_memory(&mut self) {
        self.headers = VecDeque::new();
    }
}

impl Clone for LocalReceiver {
    fn clone(&self) -> Self {
        Self {
            half: self.half.clone_box(),
            headers: self.headers.clone(),
        }
    }
}
