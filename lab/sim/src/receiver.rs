// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiving host of one flow: `alcc_flow::Receiver`, the algorithm's receiver module, and
//! values for the meter.
use crate::meter::Meter;
use alcc_cc::Report;
use alcc_flow::rules::{AckRule, AckSemantics};
use alcc_flow::{Ack, Arrival, Rules, Transmit};
use alcc_units::{Bytes, Time};
use std::collections::VecDeque;

/// The receiving host of one flow.
pub(crate) struct Receiver {
    flow: alcc_flow::Receiver,
    /// Parts of the rules that it needs; not all of them, because there may be thousands of
    /// receivers.
    ack_semantics: AckSemantics,
    mss: Bytes,
    ack_len: Bytes,
    tells_arrivals: bool,
    /// The algorithm's receiver module.
    receiver_module: Option<Box<dyn alcc_cc::Receiver>>,
    /// Its reports in flight; the first is number `first_report`.
    reports: VecDeque<Report>,
    first_report: u64,
    /// Receive times carried by acknowledgements in flight, by their departure.
    pending_arrivals: VecDeque<(Time, Vec<Arrival>)>,
}

impl Receiver {
    pub(crate) fn new(
        rules: &Rules,
        acks: AckRule,
        receiver_module: Option<Box<dyn alcc_cc::Receiver>>,
    ) -> Self {
        Self {
            flow: alcc_flow::Receiver::new(rules).acknowledging(acks),
            ack_semantics: rules.ack_semantics,
            mss: rules.mss,
            ack_len: rules.ack_len,
            tells_arrivals: rules.arrivals,
            receiver_module,
            reports: VecDeque::new(),
            first_report: 0,
            pending_arrivals: VecDeque::new(),
        }
    }

    /// The stream is complete up to here: payload that reached the application.
    pub(crate) fn cumulative_ack(&self) -> u64 {
        self.flow.cumulative_ack()
    }

    pub(crate) fn next_timer(&self) -> Option<Time> {
        let module = self
            .receiver_module
            .as_ref()
            .and_then(|module| module.next_timer());
        crate::host::earlier(self.flow.next_timer(), module)
    }

    /// The algorithm has a receiver module.
    #[inline]
    pub(crate) fn has_module(&self) -> bool {
        self.receiver_module.is_some()
    }

    /// The algorithm's receiver module has a report to send: its number and
    /// length.
    #[inline]
    pub(crate) fn report(&mut self, now: Time) -> Option<(u64, Bytes)> {
        let report = self.receiver_module.as_mut()?.report(now)?;
        self.reports.push_back(report);
        let number = self.first_report + self.reports.len() as u64 - 1;
        Some((number, Bytes::new(report.len() as u64)))
    }

    /// Report `number` has reached the sender; those before it have not, or will be too old.
    pub(crate) fn take_report(&mut self, number: u64) -> Option<Report> {
        let index = number.checked_sub(self.first_report)?;
        self.first_report = number + 1;
        self.reports.drain(..=index as usize).next_back()
    }

    /// The receive times of an acknowledgement that has reached the sender. Acknowledgements due
    /// before it are lost.
    #[inline]
    pub(crate) fn take_arrivals(&mut self, ack: &Ack) -> Vec<Arrival> {
        if self.pending_arrivals.is_empty() {
            return Vec::new();
        }
        self.take_pending(ack)
    }

    #[inline(never)]
    fn take_pending(&mut self, ack: &Ack) -> Vec<Arrival> {
        while let Some((sent_at, _)) = self.pending_arrivals.front()
            && *sent_at <= ack.sent_at
        {
            let (sent_at, arrivals) = self.pending_arrivals.pop_front().unwrap_or_default();
            if sent_at == ack.sent_at {
                return arrivals;
            }
        }
        Vec::new()
    }

    /// The data that arrive next were marked on their way.
    pub(crate) fn on_mark(&mut self, data: &Transmit) {
        self.flow.on_mark(Bytes::new(data.len));
    }

    /// Data arrives. Then an acknowledgement may be due. `written_at` knows when the application wrote
    /// what is at a position.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        data: &Transmit,
        meter: &mut Meter,
        mut written_at: impl FnMut(u64) -> Time,
    ) {
        if let Some(module) = &mut self.receiver_module {
            module.on_packet(now, data.pn, Bytes::new(data.len), &data.header);
        }
        let before = self.flow.cumulative_ack();
        self.flow.on_data(now, data);
        let after = self.flow.cumulative_ack();
        if self.ack_semantics == (AckSemantics::PacketNumbers { reliable: false }) {
            if after > before {
                meter.delivered_to_application(now.since(data.sent_at));
            }
        } else {
            let mut position = before;
            while position < after {
                meter.delivered_to_application(now.since(written_at(position)));
                position += self.mss.get();
            }
        }
    }

    /// Runs the timer of the receiver module, if it is due.
    pub(crate) fn on_timer(&mut self, now: Time) {
        if let Some(module) = &mut self.receiver_module
            && module.next_timer().is_some_and(|at| at <= now)
        {
            module.on_timer(now);
        }
    }

    #[inline(never)]
    fn keep_arrivals(&mut self, now: Time) {
        let arrivals = self.flow.arrivals().copied().collect();
        self.pending_arrivals.push_back((now, arrivals));
    }

    /// An acknowledgement is to be sent.
    #[inline]
    pub(crate) fn is_ack_due(&self, now: Time) -> bool {
        self.flow.is_ack_due(now)
    }

    /// Writes it into `ack`, which is empty; the answer is its length.
    #[inline(always)]
    pub(crate) fn write_ack(&mut self, now: Time, ack: &mut Ack) -> Bytes {
        self.flow.write_ack(now, ack);
        if self.tells_arrivals {
            self.keep_arrivals(now);
        }
        let blocks = ack.blocks().len() as u64;
        let option = if self.ack_semantics == AckSemantics::ByteStream && blocks > 0 {
            Bytes::new(4 + 8 * blocks)
        } else {
            Bytes::ZERO
        };
        self.ack_len + option
    }
}
