// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{Header, Instance, Packet, Pn, Receiver, Report};
use alcc_units::Time;
use std::collections::VecDeque;

/// A receiver module at the sender, for a peer without support for it (plain TCP, QUIC).
/// Acknowledgements take the place of arrivals.
///
/// They come later than arrivals by the return path, as a report would. Their exact time within the
/// last reading interval is unknown, so counts per tick are off by the arrivals of one interval.
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

    /// Keeps the header of a sent packet.
    pub(super) fn sent(&mut self, pn: Pn, header: Header) {
        match self.headers.back_mut() {
            // Several small writes share a packet: the last header applies.
            Some((last, kept)) if *last >= pn => *kept = header,
            _ => self.headers.push_back((pn, header)),
        }
    }

    /// Passes acknowledged packets to the module, in order.
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

    /// Time at which [`LocalReceiver::report`] is due without an acknowledgement.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.half.next_timer()
    }

    /// Runs the timer if due. Returns a report if there is one.
    pub(super) fn report(&mut self, now: Time) -> Option<Report> {
        if self.half.next_timer().is_some_and(|at| at <= now) {
            self.half.on_timer(now);
        }
        self.half.report(now)
    }

    /// Frees memory: nothing is in flight, or it will never be acknowledged.
    pub(super) fn release_memory(&mut self) {
        self.headers = VecDeque::new();
    }
}
