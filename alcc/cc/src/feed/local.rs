// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{Header, Instance, Packet, Pn, Receiver, Report};
use alcc_units::Time;
use std::collections::VecDeque;

/// A receiver module beside the sender, for a peer that knows nothing of it (plain TCP, QUIC).
/// Acknowledgements stand for arrivals.
///
/// They come later than arrivals by the return path, as a report would. When they came within the
/// time since the last reading is unknown. So counts per tick are off by the arrivals of one
/// reading.
#[derive(Clone)]
pub(super) struct LocalReceiver {
    half: Box<dyn Receiver>,
    /// Headers of packets in flight. The host bounds their number.
    headers: VecDeque<(Pn, Header)>,
}

impl LocalReceiver {
    /// `None` for an algorithm without a receiver module.
    pub(super) fn of(cc: &Instance) -> Option<Self> {
        Some(Self {
            half: cc.receiver()?,
            headers: VecDeque::new(),
        })
    }

    /// A packet was written.
    pub(super) fn sent(&mut self, pn: Pn, header: Header) {
        match self.headers.back_mut() {
            // Small writes share a packet: the last header counts.
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

    /// When [`LocalReceiver::report`] is due without an acknowledgement.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.half.next_timer()
    }

    /// Runs the timer if due; returns a report if there is one.
    pub(super) fn report(&mut self, now: Time) -> Option<Report> {
        if self.half.next_timer().is_some_and(|at| at <= now) {
            self.half.on_timer(now);
        }
        self.half.report(now)
    }

    /// Nothing is in flight, or it will never be acknowledged.
    pub(super) fn release_memory(&mut self) {
        self.headers = VecDeque::new();
    }
}
