// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sprout:profile=original`, `sprout-ewma:profile=original`: the authors' program.
//!
//! Frozen: it is changed only if it differs from the program. It shares the model, the belief, the
//! clocks of both ends and the wire format with the current form.
//!
//! | constant | value | source |
//! |---|---|---|
//! | a count | a packet of 1400 bytes, rounded | program |
//! | length of a packet, as reckoned | 50 bytes more than it is | program |
//! | a tick takes off the queue | all that was forecast so far | program |
//! | window, in packets | rounded up | program |
//! | heartbeat | 50 ms | program |
use alcc_cc::parts::sprout::{
    Arrived, Asked, Estimate, HEADER, HORIZON, Half, Inference, Learner, OPTIONS, Outlook, Phi,
};
use alcc_cc::{
    AckBatch, Allowance, Build, Built, Controller, Cx, Form, Header, Instance, Needs, Options,
    Path, Receiver, Sending, Sent, Tag, WithReceiver,
};
use alcc_units::{Bytes, Span, Time};

pub(crate) const ORIGINAL: Form = Form {
    profile: "original",
    options: OPTIONS,
    build: Build::Function(|options| original(Inference::Filter, options)),
};

/// The program with this inference.
pub(crate) fn original(how: Inference, options: &Options<'_>) -> Built {
    let asked = Asked::published(how, options)?;
    Ok(Instance::with_receiver(Original::new(asked)))
}

/// Added to the length of each packet, bytes.
const HEADER_BYTES: u64 = 50;
const HEARTBEAT: Span = Span::from_millis(50);
const MAX_THROWAWAY: u64 = 65_535;

#[derive(Clone)]
struct Original {
    asked: Asked,
    mss: Bytes,
    outlook: Outlook,
    sent_at: Time,
    last_len: u64,
    /// Bytes that may be sent.
    quota: Bytes,
    started: bool,
    ping: bool,
}

impl Original {
    fn new(asked: Asked) -> Self {
        let mss = Bytes::new(1440);
        Self {
            asked,
            mss,
            outlook: Outlook::blind(mss),
            sent_at: Time::ZERO,
            last_len: HEADER_BYTES,
            quota: Bytes::ZERO,
            started: false,
            ping: false,
        }
    }

    /// Bytes that may be sent now, not yet rounded.
    fn window(&self) -> f64 {
        let end = self.outlook.current() as f64 + self.asked.lookahead;
        self.outlook.window(end.min((HORIZON - 1) as f64))
    }

    fn heartbeat_at(&self) -> Time {
        self.sent_at + HEARTBEAT
    }

    /// The program sends the rest of its window in a short packet.
    fn release(&mut self) {
        let packets = libm::ceil(self.window() / self.mss.get() as f64);
        self.quota = Bytes::new(packets as u64 * self.mss.get());
    }
}

impl Controller for Original {
    fn needs(&self) -> Needs {
        Needs { ..Needs::default() }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss.max(Bytes::new(1));
        self.outlook.forecast.count_segments(self.mss);
        self.sent_at = cx.now;
        self.started = true;
        self.release();
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss.max(Bytes::new(1));
        self.release();
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.last_len = sent.len.get().saturating_add(HEADER_BYTES);
        self.outlook.sent(cx.now, self.last_len);
        self.quota = self.quota.saturating_sub(sent.len);
        self.sent_at = cx.now;
        self.ping = false;
        Tag::default()
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        while self.outlook.tick_at().is_some_and(|at| at <= cx.now) {
            let all = self.outlook.current() as f64;
            self.outlook.tick(self.outlook.forecast.bytes_within(all));
            self.release();
        }
        if self.heartbeat_at() <= cx.now {
            self.ping = true;
            // Also if the host cannot send it now.
            self.sent_at = cx.now;
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance {
            quota: self.quota,
            burst: self.mss * 2,
            ping: self.ping,
            ..Allowance::UNLIMITED
        }
    }

    fn next_timer(&self) -> Option<Time> {
        let heartbeat = self.started.then(|| self.heartbeat_at());
        self.outlook.tick_at().into_iter().chain(heartbeat).min()
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        self.outlook.gauges(self.window(), self.mss, put);
    }
}

impl WithReceiver for Original {
    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(Half::new(Program::new(self.asked, self.mss)))
    }

    fn header_len(&self) -> u8 {
        HEADER as u8
    }

    fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header {
        let time_to_next = if sending.more {
            0
        } else {
            (HEARTBEAT.as_nanos() / 1_000_000) as u16
        };
        self.outlook
            .mark(cx.now, self.last_len, MAX_THROWAWAY, time_to_next)
            .encode()
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]) {
        if self.outlook.take(cx.now, report) {
            self.release();
        }
    }
}

/// The program's estimate from a tick.
#[derive(Clone)]
struct Program {
    asked: Asked,
    unit: u64,
    estimate: Estimate,
}

impl Program {
    fn new(asked: Asked, mss: Bytes) -> Self {
        Self {
            asked,
            unit: mss.get().clamp(1, 1 << 14),
            estimate: Estimate::new(asked.inference, Phi::Table),
        }
    }
}

impl Learner for Program {
    fn unit(&self) -> u64 {
        self.unit
    }

    fn tick(&mut self, arrived: Arrived, seen: bool) {
        // The program counts 1400 bytes as one packet, while its packets have slightly more than
        // 1440.
        let exact = arrived.bytes as f64 / self.unit as f64 * 1.03;
        let count = match self.asked.inference {
            Inference::Filter if arrived.packets == 0 => 0.0,
            Inference::Filter => libm::floor(exact + 0.5).max(1.0),
            Inference::Mean => exact,
        };
        self.estimate.tick(seen.then_some(count));
    }

    fn forget(&mut self) {
        self.estimate.forget();
    }

    fn counts(&mut self) -> [u32; HORIZON] {
        self.estimate.counts(self.asked.quantile)
    }
}
