// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender: turns a forecast into a number of bytes that may be sent now.
use super::learner::Scaled;
use super::model::HORIZON;
use super::outlook::Outlook;
use super::receiver::{Half, TICK};
use super::settings::Settings;
use super::wire::HEADER;
use crate::parts::{MAX_PACING_RATE, MIN_PACING_RATE, Policer};
use crate::{
    AckBatch, Allowance, Controller, Cx, Event, Header, LossBatch, Needs, Path, Receiver, Sending,
    Sent, Tag, WithReceiver,
};
use alcc_units::{Bytes, Rate, Span, Time};

/// Silence of an idle application before the receiver module counts it as the link's, ms.
const IDLE: u16 = 1000;

#[derive(Clone)]
pub(super) struct Sprout {
    settings: Settings,
    mss: Bytes,
    outlook: Outlook,
    sent_at: Time,
    last: Sent,
    rtt_min: Span,
    /// Bytes that may be sent, and the pacing rate.
    quota: Bytes,
    rate: Rate,
    started: bool,
    in_flight: Bytes,
    ping: bool,
    /// Only in `tuned`.
    policer: Option<Policer>,
}

impl Sprout {
    pub(super) fn new(settings: Settings) -> Self {
        let mss = Bytes::new(1440);
        Self {
            settings,
            mss,
            outlook: Outlook::blind(mss),
            sent_at: Time::ZERO,
            last: Sent {
                pn: 0,
                len: Bytes::ZERO,
                in_flight_before: Bytes::ZERO,
                kind: crate::Kind::New,
                app_limited: false,
            },
            rtt_min: Span::ZERO,
            quota: Bytes::ZERO,
            rate: MIN_PACING_RATE,
            started: false,
            in_flight: Bytes::ZERO,
            ping: false,
            policer: settings.policer.then(Policer::default),
        }
    }

    /// Number of ticks within which sent data should be delivered.
    fn lookahead(&self) -> f64 {
        let settings = &self.settings;
        let rtt = self.rtt_min.as_secs_f64() / super::model::TICK;
        // The amount that the link surely delivers per tick; a forecast of few packets guarantees
        // even fewer.
        let forecast = &self.outlook.forecast;
        let sure = forecast.bytes_within(7.0) - forecast.bytes_within(3.0);
        let packets = sure / 4.0 / self.mss.get() as f64;
        settings.asked.lookahead + settings.per_rtt * rtt + settings.caution / (1.0 + packets)
    }

    fn paced_rate(&self) -> Option<Rate> {
        let rate = self.settings.paced.then_some(self.rate);
        match &self.policer {
            Some(policer) => policer.within(rate, self.mss),
            None => rate,
        }
    }

    /// Bytes that may be sent now, not yet rounded.
    fn window(&self) -> f64 {
        let mut end = self.outlook.current() as f64 + self.lookahead();
        if self.settings.per_rtt == 0.0 {
            end = end.min((HORIZON - 1) as f64);
        }
        self.outlook.window(end)
    }

    fn heartbeat_at(&self) -> Time {
        self.sent_at + self.settings.heartbeat
    }

    /// Ends a tick of the forecast: subtracts the data that has left the queue.
    fn decay(&mut self) {
        let forecast = &self.outlook.forecast;
        let current = self.outlook.current();
        let now = forecast.bytes_within(current as f64);
        let gone = match current {
            0 => now,
            i => now - forecast.bytes_within((i - 1) as f64),
        };
        self.outlook.tick(gone);
    }

    /// Computes the quota in whole packets; paced, it is spread over a tick.
    fn release(&mut self) {
        let mss = self.mss.get();
        let packets = libm::round(self.window() / mss as f64);
        self.quota = Bytes::new(packets as u64 * mss);
        // One packet more, because a heartbeat without quota must not delay the packet after it.
        self.rate = Rate::of(self.quota + self.mss, TICK).clamp(MIN_PACING_RATE, MAX_PACING_RATE);
    }
}

impl Controller for Sprout {
    fn needs(&self) -> Needs {
        Needs {
            paced: self.settings.paced,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss.max(Bytes::new(1));
        self.outlook.forecast.count_segments(self.mss);
        self.rtt_min = path.rtt_hint.unwrap_or_default();
        self.sent_at = cx.now;
        self.started = true;
        self.release();
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss.max(Bytes::new(1));
        self.release();
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let len = sent.len.get();
        self.outlook.sent(cx.now, len);
        self.quota = self.quota.saturating_sub(sent.len);
        self.sent_at = cx.now;
        self.last = *sent;
        self.in_flight = sent.in_flight_before + sent.len;
        self.ping = false;
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        if let Some(policer) = &mut self.policer {
            policer.on_ack(cx.now, ack, self.mss);
        }
        self.rtt_min = ack.rtt.min;
        self.in_flight = ack.in_flight;
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if let Some(policer) = &mut self.policer {
            policer.on_loss(cx.now, loss, self.mss);
        }
        self.in_flight = loss.in_flight;
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        while self.outlook.tick_at().is_some_and(|at| at <= cx.now) {
            self.decay();
            self.release();
            if self.outlook.is_over() {
                cx.log.event(cx.now, Event::Mode { to: "no forecast" });
            }
        }
        if self.heartbeat_at() <= cx.now {
            // Data in flight gets an answer as well as a heartbeat would, which would only queue
            // behind it.
            self.ping = self.in_flight == Bytes::ZERO;
            // Also if the host cannot send it now.
            self.sent_at = cx.now;
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance {
            quota: self.quota,
            rate: self.paced_rate(),
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

impl WithReceiver for Sprout {
    fn receiver(&self) -> Box<dyn Receiver> {
        Box::new(Half::new(Scaled::new(self.settings, self.mss)))
    }

    fn header_len(&self) -> u8 {
        HEADER as u8
    }

    fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header {
        let flight_goes_on = sending.more || self.settings.paced && self.quota >= self.mss;
        let time_to_next = match (self.last.app_limited, flight_goes_on) {
            (true, _) => IDLE,
            (_, true) => 0,
            _ => (self.settings.heartbeat.as_nanos() / 1_000_000) as u16,
        };
        self.outlook
            .mark(cx.now, self.last.len.get(), u32::MAX.into(), time_to_next)
            .encode()
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]) {
        let had_none = self.outlook.is_blind() || self.outlook.is_over();
        if !self.outlook.take(cx.now, report) {
            return;
        }
        if had_none {
            cx.log.event(cx.now, Event::Mode { to: "forecast" });
        }
        self.release();
    }
}
