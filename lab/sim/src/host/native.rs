// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A native sender: the controller alone limits it, with as much data as the application has.
use super::{Host, SenderStats, Writes};
use crate::network::Outbox;
use alcc_cc::{Controller, Instance, Kind, Log, Receiver, RttView};
use alcc_flow::rules::AckRule;
use alcc_flow::{Ack, Arrival, FoundLost, Rules, Sender};
use alcc_units::{Bytes, Span, Time};

pub(crate) struct Native {
    sender: Sender,
    /// The application has data up to here.
    available: u64,
    written: u64,
    /// There is a send buffer, into which the application writes; otherwise a write is the first
    /// transmission.
    buffered: bool,
    writes: Writes,
    per_packet: bool,
    receiver_module: Option<Box<dyn Receiver>>,
    stats: SenderStats,
}

impl Native {
    pub(crate) fn new(
        cc: Instance,
        rules: &Rules,
        now: Time,
        handshake_rtt: Span,
        seed: u64,
    ) -> Self {
        let hint = rules.is_stream().then_some(handshake_rtt);
        Self {
            per_packet: cc.needs().per_packet_ack,
            receiver_module: cc.receiver(),
            sender: Sender::new(cc, rules, now, hint, seed),
            available: 0,
            written: 0,
            buffered: rules.send_buffer.1 > Bytes::ZERO,
            writes: Writes::default(),
            stats: SenderStats::default(),
        }
    }

    /// The application writes what the buffer takes.
    #[inline(always)]
    fn fill(&mut self, now: Time) {
        if self.available > self.written && self.sender.is_writable() {
            let taken = self.sender.write(Bytes::new(self.available - self.written));
            self.written += taken.get();
            if self.buffered {
                self.writes.wrote(now, self.written);
            }
        }
    }
}

impl Host for Native {
    fn rules(&self) -> &Rules {
        self.sender.rules()
    }

    fn acks(&self) -> AckRule {
        if self.per_packet && !self.rules().is_stream() && !self.rules().arrivals {
            AckRule::EACH
        } else {
            self.rules().acks
        }
    }

    fn receiver_module(&self) -> Option<Box<dyn Receiver>> {
        self.receiver_module.clone()
    }

    fn on_feedback(&mut self, now: Time, report: &[u8]) {
        self.sender.on_feedback(now, report);
    }

    fn set_log(&mut self, log: Log) {
        self.sender.set_log(log);
    }

    fn on_start(&mut self, now: Time) {
        self.sender.start(now);
    }

    fn on_write(&mut self, now: Time, upto: u64) {
        if upto < self.written {
            self.sender.forget_unsent();
            self.written = self.sender.written();
        }
        self.available = upto.max(self.written);
        self.fill(now);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack, arrivals: &[Arrival]) {
        let result = self
            .sender
            .on_ack_arrivals(now, ack, ack.ranges(), arrivals);
        debug_assert!(result.is_ok(), "{result:?}");
        self.stats.record_rtt(&self.sender);
        self.fill(now);
    }

    fn on_timer(&mut self, now: Time) {
        self.sender.on_timer(now);
    }

    fn send(&mut self, now: Time, out: &mut Outbox<'_>) {
        while let Some(transmit) = self.sender.poll_transmit(now) {
            if !self.buffered && transmit.kind == Kind::New {
                self.writes.wrote(now, transmit.end());
            }
            out.push(transmit);
            // Linux wakes who waits for less to be unsent after each segment (`tcp_event_new_data_sent`, 5.19).
            if self.rules().notsent_lowat.is_some() {
                self.fill(now);
            }
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.sender.next_timer()
    }

    fn written_at(&mut self, position: u64) -> Time {
        self.writes.at(position)
    }

    fn written(&self) -> u64 {
        self.written
    }

    fn in_flight(&self) -> Bytes {
        self.sender.in_flight()
    }

    fn keep_lost(&mut self) {
        self.sender.keep_lost();
    }

    fn take_lost(&mut self) -> Vec<FoundLost> {
        self.sender.take_lost()
    }

    fn rtt(&self) -> RttView {
        self.sender.rtt()
    }

    fn outcome(&self) -> (Bytes, u64) {
        self.sender.outcome()
    }

    fn window(&self) -> Option<Bytes> {
        Some(self.sender.controller().allowance().window)
    }

    fn controller(&self) -> Option<&dyn Controller> {
        Some(self.sender.controller())
    }

    fn stats(&mut self) -> &mut SenderStats {
        self.stats.count(&self.sender);
        &mut self.stats
    }
}
