// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver module: counts arrivals per tick, passes them to the form's estimator, and reports
//! a forecast after each tick.
use super::arrivals::Arrivals;
use super::learner::{Arrived, Learner};
use super::wire::{Forecast, Mark};
use crate::{Pn, Receiver, Report};
use alcc_units::{Bytes, Span, Time};

/// Length of a tick.
pub const TICK: Span = Span::from_millis(20);
/// After this many ticks without a call the past is forgotten.
const CATCH_UP: u64 = 64;
/// After this long without a packet there is nothing to report until the next one.
const SILENCE: Span = Span::from_secs(10);

/// The receiver module of a form with the estimator `L`.
#[derive(Clone)]
pub struct Half<L> {
    learner: L,
    arrivals: Arrivals,
    /// Start of the current tick; `None` before the first packet.
    tick_at: Option<Time>,
    ticks: u32,
    packet_at: Time,
    /// Until this time silence says nothing about the link.
    score_at: Time,
    /// Arrivals in the current tick.
    arrived: Arrived,
    news: bool,
}

impl<L: Learner> Half<L> {
    /// A receiver module before the first arrival.
    pub fn new(learner: L) -> Self {
        Self {
            learner,
            arrivals: Arrivals::default(),
            tick_at: None,
            ticks: 0,
            packet_at: Time::ZERO,
            score_at: Time::ZERO,
            arrived: Arrived::default(),
            news: false,
        }
    }

    fn advance(&mut self, now: Time) {
        let Some(mut at) = self.tick_at else { return };
        if now.since(at) > TICK * CATCH_UP {
            self.learner.forget();
            self.arrived = Arrived::default();
            at = now;
            self.score_at = now;
        }
        while at + TICK <= now {
            let arrived = std::mem::take(&mut self.arrived);
            let seen = arrived.packets > 0 || at >= self.score_at;
            self.learner.tick(arrived, seen);
            at += TICK;
            self.ticks = self.ticks.wrapping_add(1);
            self.news = true;
        }
        self.tick_at = Some(at);
    }
}

impl<L: Learner> Receiver for Half<L> {
    fn on_packet(&mut self, now: Time, _pn: Pn, len: Bytes, header: &[u8]) {
        if self.tick_at.is_none() {
            self.tick_at = Some(now);
            self.score_at = now;
        }
        self.advance(now);
        self.packet_at = now;
        self.arrived.bytes = self.arrived.bytes.saturating_add(len.get());
        self.arrived.packets += 1;
        let Some(mark) = Mark::decode(header) else {
            return;
        };
        self.arrivals.add(mark, len.get());
        let tick_at = self.tick_at.unwrap_or(now);
        let silence = Span::from_millis(mark.time_to_next.into());
        self.score_at = self.score_at.max(tick_at + silence);
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
        let forecast = Forecast {
            received_or_lost: self.arrivals.received_or_lost(),
            tick: self.ticks,
            unit: u32::try_from(self.learner.unit()).unwrap_or(u32::MAX),
            counts: self.learner.counts(),
        };
        Some(forecast.encode())
    }
}
