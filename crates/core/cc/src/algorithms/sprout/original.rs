// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `sprout:profile=original`, `sprout-ewma:profile=original`: what the authors' program does.
//!
//! Frozen: it only changes when it differs from the program. It shares the model, the belief, the
//! count of arrivals and the wire with the living form.
//!
//! | constant | value | source |
//! |---|---|---|
//! | a count | a packet of 1400 bytes, rounded | program |
//! | length of a packet, as reckoned | 50 bytes more than it is | program |
//! | a tick takes off the queue | all that was forecast so far | program |
//! | window, in packets | rounded up | program |
//! | heartbeat | 50 ms | program |
use super::arrivals::Arrivals;
use super::belief::Belief;
use super::model::{HORIZON, Model, Phi};
use super::receiver::{CATCH_UP, SILENCE, TICK};
use super::settings::{Asked, Inference};
use super::wire::{Forecast, HEADER, MAX_BYTES, Mark, Sequence};
use crate::{
    AckBatch, Allowance, Controller, Cx, Header, Needs, Path, Pn, Receiver, Report, Sending, Sent,
    Tag,
};
use alcc_units::{Bytes, Span, Time};

/// Per packet.
const HEADER_BYTES: u64 = 50;
const HEARTBEAT: Span = Span::from_millis(50);
const MAX_THROWAWAY: u64 = 65_535;

#[derive(Clone)]
pub(super) struct Original {
    asked: Asked,
    mss: Bytes,
    forecast: Forecast,
    /// When it came; none before the first.
    at: Option<Time>,
    /// Ticks since then.
    current: usize,
    /// Bytes under way or waiting, as far as known.
    queue: f64,
    sequence: Sequence,
    sent_at: Time,
    last_len: u64,
    /// Bytes that may leave.
    quota: Bytes,
    started: bool,
    ping: bool,
}

impl Original {
    pub(super) fn new(asked: Asked) -> Self {
        let mss = Bytes::new(1440);
        Self {
            asked,
            mss,
            forecast: Forecast::blind(mss),
            at: None,
            current: 0,
            queue: 0.0,
            sequence: Sequence::default(),
            sent_at: Time::ZERO,
            last_len: HEADER_BYTES,
            quota: Bytes::ZERO,
            started: false,
            ping: false,
        }
    }

    /// Bytes that may leave now, not yet rounded.
    fn window(&self) -> f64 {
        let now = self.current as f64;
        let end = (now + self.asked.lookahead).min((HORIZON - 1) as f64);
        let through = self.forecast.bytes_within(end) - self.forecast.bytes_within(now);
        (through.min(MAX_BYTES) - self.queue).max(0.0)
    }

    fn tick_at(&self) -> Option<Time> {
        let at = self.at? + TICK * (self.current as u64 + 1);
        (self.current < HORIZON - 1).then_some(at)
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
        Needs {
            header: HEADER as u8,
            receiver: true,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss.max(Bytes::new(1));
        self.forecast.count_segments(self.mss);
        self.sent_at = cx.now;
        self.started = true;
        self.release();
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss.max(Bytes::new(1));
        self.release();
    }

    fn on_route(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.on_mtu(cx, path.mss);
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.last_len = sent.len.get().saturating_add(HEADER_BYTES);
        self.sequence.sent(cx.now, self.last_len);
        self.queue = (self.queue + self.last_len as f64).min(MAX_BYTES);
        self.quota = self.quota.saturating_sub(sent.len);
        self.sent_at = cx.now;
        self.ping = false;
        Tag::default()
    }

    fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header {
        let time_to_next = if sending.more {
            0
        } else {
            (HEARTBEAT.as_nanos() / 1_000_000) as u16
        };
        self.sequence
            .mark(cx.now, self.last_len, MAX_THROWAWAY, time_to_next)
            .encode()
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        Some(Box::new(Half::new(self.asked, self.mss)))
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

    fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]) {
        let Some(forecast) = Forecast::decode(report) else {
            return;
        };
        // What was overtaken on the way is of no use.
        if self.at.is_some() && !forecast.is_newer_than(&self.forecast) {
            return;
        }
        self.forecast = forecast;
        self.at = Some(cx.now);
        self.current = 0;
        self.queue = self.sequence.behind(&forecast);
        self.release();
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        while self.tick_at().is_some_and(|at| at <= cx.now) {
            let gone = self.forecast.bytes_within(self.current as f64);
            self.queue = (self.queue - gone).max(0.0);
            self.current += 1;
            self.release();
        }
        if self.heartbeat_at() <= cx.now {
            self.ping = true;
            // Whether or not the host can send it now.
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
        self.tick_at().into_iter().chain(heartbeat).min()
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("queue", self.queue / self.mss.get() as f64);
        put("window", self.window() / self.mss.get() as f64);
        self.forecast.gauges(put);
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[derive(Clone)]
enum Estimate {
    Filter(Box<Belief>),
    /// Packets per tick.
    Mean(f64),
}

#[derive(Clone)]
struct Half {
    asked: Asked,
    /// Bytes that a count stands for.
    unit: u64,
    estimate: Estimate,
    arrivals: Arrivals,
    /// When the tick under way began; none before the first packet.
    tick_at: Option<Time>,
    ticks: u32,
    packet_at: Time,
    /// Until then silence says nothing.
    score_at: Time,
    /// Arrived in the tick under way.
    bytes: u64,
    packets: u64,
    news: bool,
}

impl Half {
    fn new(asked: Asked, mss: Bytes) -> Self {
        Self {
            asked,
            unit: mss.get().clamp(1, 1 << 14),
            estimate: match asked.inference {
                Inference::Filter => {
                    Estimate::Filter(Box::new(Belief::new(Model::shared(Phi::Table))))
                }
                Inference::Mean => Estimate::Mean(0.0),
            },
            arrivals: Arrivals::default(),
            tick_at: None,
            ticks: 0,
            packet_at: Time::ZERO,
            score_at: Time::ZERO,
            bytes: 0,
            packets: 0,
            news: false,
        }
    }

    fn advance(&mut self, now: Time) {
        let Some(mut at) = self.tick_at else { return };
        if now.since(at) > TICK * CATCH_UP {
            if let Estimate::Filter(belief) = &mut self.estimate {
                belief.reset();
            }
            (self.bytes, self.packets) = (0, 0);
            at = now;
            self.score_at = now;
        }
        while at + TICK <= now {
            self.tick(self.packets > 0 || at >= self.score_at);
            at += TICK;
            self.ticks = self.ticks.wrapping_add(1);
            self.news = true;
        }
        self.tick_at = Some(at);
    }

    fn tick(&mut self, seen: bool) {
        // The program counts 1400 bytes as one while its packets have 1440 and a little.
        let count = self.bytes as f64 / self.unit as f64 * 1.03;
        match &mut self.estimate {
            Estimate::Filter(belief) => {
                belief.evolve();
                if seen && self.packets == 0 {
                    belief.observe(0.0);
                } else if seen {
                    belief.observe(libm::floor(count + 0.5).max(1.0));
                }
            }
            Estimate::Mean(rate) if seen => *rate += (count - *rate) / 8.0,
            Estimate::Mean(_) => {}
        }
        (self.bytes, self.packets) = (0, 0);
    }
}

impl Receiver for Half {
    fn on_packet(&mut self, now: Time, _pn: Pn, len: Bytes, header: &[u8]) {
        if self.tick_at.is_none() {
            self.tick_at = Some(now);
            self.score_at = now;
        }
        self.advance(now);
        self.packet_at = now;
        self.bytes = self.bytes.saturating_add(len.get());
        self.packets += 1;
        let Some(mark) = Mark::decode(header) else {
            return;
        };
        self.arrivals.add(mark, len.get());
        let silence = Span::from_millis(mark.time_to_next.into());
        self.score_at = self.score_at.max(self.tick_at.unwrap_or(now) + silence);
    }

    fn next_timer(&self) -> Option<Time> {
        let next = self.tick_at? + TICK;
        (next.since(self.packet_at) <= SILENCE).then_some(next)
    }

    fn on_timer(&mut self, now: Time) {
        self.advance(now);
    }

    fn report(&mut self, _now: Time) -> Option<Report> {
        if !std::mem::take(&mut self.news) {
            return None;
        }
        let counts = match &mut self.estimate {
            Estimate::Filter(belief) => belief.forecast(self.asked.quantile),
            Estimate::Mean(rate) => super::receiver::counts_at(*rate),
        };
        let forecast = Forecast {
            received_or_lost: self.arrivals.received_or_lost(),
            tick: self.ticks,
            unit: u32::try_from(self.unit).unwrap_or(u32::MAX),
            counts,
        };
        Some(forecast.encode())
    }

    fn clone_box(&self) -> Box<dyn Receiver> {
        Box::new(self.clone())
    }
}
