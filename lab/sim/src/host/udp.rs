// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UDP packets at a constant rate, without congestion control.
use crate::host::UDP_HEADER;
use crate::network::Outbox;
use crate::source::AppModel;
use alcc_cc::{Header, Kind};
use alcc_flow::Transmit;
use alcc_units::{Bytes, Time};

/// Sender and receiver of datagrams.
#[derive(Debug)]
pub(crate) struct Udp {
    packet: Bytes,
    /// May have left by now, in IP bytes.
    granted: u64,
    sent: u64,
    next_pn: u64,
    /// Payload that has arrived.
    pub(crate) arrived: u64,
}

impl Udp {
    pub(crate) const fn new(packet: Bytes) -> Self {
        Self {
            packet,
            granted: 0,
            sent: 0,
            next_pn: 0,
            arrived: 0,
        }
    }

    pub(crate) fn on_write(&mut self, upto: u64) {
        self.granted = self.granted.max(upto);
    }

    /// Sends the packets that are due, into `out`.
    #[inline(never)]
    pub(crate) fn send(&mut self, now: Time, app: &AppModel, out: &mut Outbox<'_>) {
        while let Some((pn, start, len)) = self.next() {
            out.push(Transmit {
                pn,
                start,
                len,
                kind: Kind::New,
                sent_at: self.due(app, start).unwrap_or(now),
                echo: Time::ZERO,
                header: Header::EMPTY,
            });
        }
    }

    /// The next packet, if one is due: number, position in the stream of payload, payload.
    fn next(&mut self) -> Option<(u64, u64, u64)> {
        let packet = self.packet.get();
        if self.granted - self.sent < packet {
            return None;
        }
        self.sent += packet;
        let (pn, payload) = (self.next_pn, packet - UDP_HEADER.get());
        self.next_pn += 1;
        Some((pn, pn * payload, payload))
    }

    /// Planned departure of the payload at `position`.
    fn due(&self, app: &AppModel, position: u64) -> Option<Time> {
        let payload = self.packet.get() - UDP_HEADER.get();
        app.written_at(position / payload * self.packet.get() + self.packet.get() - 1)
    }
}
