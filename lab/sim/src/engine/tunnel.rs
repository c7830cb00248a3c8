// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flow inside a flow. Packets of others are records in the byte stream of a TCP, as in a VPN
//! over TCP.
//!
//! | what | rule | source |
//! |---|---|---|
//! | record | the packet and 26 bytes | OpenVPN over TCP: length 2, opcode and peer 4, packet number 4, tag of AES-GCM 16 |
//! | device | holds 500 packets or `txqueuelen=`, then drops what comes | Linux: `TUN_READQ_SIZE`; OpenVPN up to 2.4: 100 |
//! | program | reads the next packet once the socket has taken the one before | OpenVPN: one buffer to the socket |
//! | small records | leave at once | OpenVPN: `socket-flags TCP_NODELAY` |
//! | delivery | when the stream is complete up to the record's end | RFC 9293, section 3.8 |
//!
//! So a loss of the outer TCP delays whatever is behind it, and is none for an inner flow. An inner
//! flow loses what comes to a full device.
use super::Simulation;
use crate::flow::{Endpoints, Flow};
use crate::probe::Probe;
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;

/// Bytes that the tunnel adds to a packet.
const RECORD: Bytes = Bytes::new(26);
/// Packets that the device holds by default.
const DEVICE: usize = 500;

/// The packets inside a flow.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// Packets that the device holds.
    limit: usize,
    /// Packets in the device, with their arrival times.
    device: VecDeque<(Time, u32)>,
    /// Records in the stream: end, arrival time of the packet, and packet.
    records: VecDeque<(u64, Time, u32)>,
    /// End of the last record.
    end: u64,
    /// One-way delay from one end to the other without a queue.
    propagation: Span,
}

impl Tunnel {
    pub(crate) fn new(propagation: Span, limit: Option<usize>) -> Self {
        Self {
            limit: limit.unwrap_or(DEVICE),
            device: VecDeque::new(),
            records: VecDeque::new(),
            end: 0,
            propagation,
        }
    }
}

impl<P: Probe> Simulation<P> {
    /// A packet comes to the device of flow `outer`.
    #[cold]
    pub(super) fn enter_tunnel(&mut self, now: Time, outer: usize, id: u32) {
        let tunnel = self.traffic.flows[outer].tunnel.as_mut();
        if let Some(tunnel) = tunnel.filter(|tunnel| tunnel.device.len() < tunnel.limit) {
            tunnel.device.push_back((now, id));
            if self.traffic.flows[outer].write_records(now, |id| self.traffic.packets.get(id).len) {
                self.transmit(now, outer);
            }
            return;
        }
        self.traffic.events += 1;
        let lost = self.traffic.packets.get(id);
        if lost.data {
            self.traffic.flows[lost.flow as usize].meter.dropped(false);
        }
        self.traffic.packets.remove(id);
    }

    /// Packets whose records have arrived as a whole leave the other end of flow `outer`.
    #[cold]
    pub(super) fn leave_tunnel(&mut self, now: Time, outer: usize) {
        let flow = &mut self.traffic.flows[outer];
        let (Some(tunnel), Endpoints::Acked { receiver, .. }) = (&mut flow.tunnel, &flow.endpoints)
        else {
            return;
        };
        let complete = receiver.cumulative_ack();
        let arrived = tunnel.records.partition_point(|(end, ..)| *end <= complete);
        let (propagation, arrived) = (tunnel.propagation, tunnel.records.drain(..arrived));
        for (_, came, id) in arrived.collect::<Vec<_>>() {
            let queued = now.since(came).saturating_sub(propagation);
            if let Some(through) = self.traffic.packets.departed(id, queued) {
                self.traffic.through(now, through);
            }
            self.traffic.packets.move_on(id);
        }
    }
}

impl Flow {
    /// The program of a tunnel writes as many records as the socket takes; true if there was one.
    #[cold]
    pub(super) fn write_records(&mut self, now: Time, len_of: impl Fn(u32) -> u32) -> bool {
        let (Some(tunnel), Endpoints::Acked { host, .. }) = (&mut self.tunnel, &mut self.endpoints)
        else {
            return false;
        };
        let before = tunnel.end;
        while self.started
            && host.written() >= tunnel.end
            && let Some((came, id)) = tunnel.device.pop_front()
        {
            tunnel.end += u64::from(len_of(id)) + RECORD.get();
            tunnel.records.push_back((tunnel.end, came, id));
            host.on_write(now, tunnel.end);
        }
        tunnel.end > before
    }
}
