// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver module: counts what arrives per tick, infers the rate, forecasts.
use super::arrivals::Arrivals;
use super::belief::Belief;
use super::model::{BINS, HORIZON, Model, Phi, rate};
use super::settings::{Inference, Settings};
use super::wire::{Forecast, Mark};
use crate::{Pn, Receiver, Report};
use alcc_units::{Bytes, Span, Time};

pub(super) const TICK: Span = Span::from_millis(20);
/// After this many ticks without a call the past says nothing.
pub(super) const CATCH_UP: u64 = 64;
/// After this long without a packet there is nothing to report until the next one.
pub(super) const SILENCE: Span = Span::from_secs(10);
/// The unit doubles when the rate has been near the end of its range for a second longer than not,
/// and halves when it has been far below for a second.
const TOO_FAST: u32 = 50;
const TOO_SLOW: u32 = 50;
const FAST: f64 = 0.9;
const SLOW: f64 = 0.2;
const MAX_DOUBLINGS: u32 = 12;

#[derive(Clone)]
enum Estimate {
    Filter(Box<Belief>),
    /// Packets per tick.
    Mean(f64),
}

#[derive(Clone)]
pub(super) struct Half {
    settings: Settings,
    mss: Bytes,
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
    /// How often the unit has been doubled.
    doublings: u32,
    too_fast: u32,
    too_slow: u32,
    news: bool,
}

impl Half {
    pub(super) fn new(settings: Settings, mss: Bytes) -> Self {
        let estimate = match settings.asked.inference {
            Inference::Filter => Estimate::Filter(Box::new(Belief::new(Model::shared(Phi::Exact)))),
            Inference::Mean => Estimate::Mean(0.0),
        };
        Self {
            settings,
            mss: mss.max(Bytes::new(1)),
            estimate,
            arrivals: Arrivals::default(),
            tick_at: None,
            ticks: 0,
            packet_at: Time::ZERO,
            score_at: Time::ZERO,
            bytes: 0,
            packets: 0,
            doublings: 0,
            too_fast: 0,
            too_slow: 0,
            news: false,
        }
    }

    /// Bytes that a count stands for.
    fn unit(&self) -> u64 {
        self.mss.get().min(1 << 14) << self.doublings
    }

    /// What arrived in the tick that ends, in units.
    fn count(&self) -> f64 {
        if self.packets == 0 {
            return 0.0;
        }
        let unit = self.unit() as f64;
        // A packet without data shows that the link is alive.
        (self.bytes as f64 / unit).max(self.mss.get() as f64 / unit)
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
            let seen = self.packets > 0 || at >= self.score_at;
            self.tick(seen);
            at += TICK;
            self.ticks = self.ticks.wrapping_add(1);
            self.news = true;
        }
        self.tick_at = Some(at);
    }

    fn tick(&mut self, seen: bool) {
        let count = self.count();
        match &mut self.estimate {
            Estimate::Filter(belief) => {
                belief.evolve();
                if seen {
                    belief.observe(count);
                }
            }
            Estimate::Mean(rate) if seen => *rate += (count - *rate) / 8.0,
            Estimate::Mean(_) => {}
        }
        (self.bytes, self.packets) = (0, 0);
        if self.settings.any_rate {
            self.scale();
        }
    }

    /// Keeps the rate inside the range of the bins by choosing what a count stands for.
    fn scale(&mut self) {
        let Estimate::Filter(belief) = &mut self.estimate else {
            return;
        };
        let share = belief.mean() / rate(BINS - 1);
        self.too_fast = if share > FAST {
            self.too_fast + 1
        } else {
            self.too_fast.saturating_sub(1)
        };
        self.too_slow = if share < SLOW { self.too_slow + 1 } else { 0 };
        if self.too_fast >= TOO_FAST && self.doublings < MAX_DOUBLINGS {
            belief.fold();
            self.doublings += 1;
            self.too_fast = 0;
        } else if self.too_slow >= TOO_SLOW && self.doublings > 0 {
            belief.spread();
            self.doublings -= 1;
            self.too_slow = 0;
        }
    }

    fn counts(&mut self) -> [u32; HORIZON] {
        match &mut self.estimate {
            Estimate::Filter(belief) => belief.forecast(self.settings.asked.quantile),
            Estimate::Mean(rate) => counts_at(*rate),
        }
    }
}

/// What a constant rate, in packets per tick, brings.
pub(super) fn counts_at(rate: f64) -> [u32; HORIZON] {
    std::array::from_fn(|i| (rate * (i + 1) as f64).min(f64::from(u32::MAX)) as u32)
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
            unit: u32::try_from(self.unit()).unwrap_or(u32::MAX),
            counts: self.counts(),
        };
        Some(forecast.encode())
    }

    fn clone_box(&self) -> Box<dyn Receiver> {
        Box::new(self.clone())
    }
}
