// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The newest forecast as its time passes, and the queue expected from it.
use super::model::HORIZON;
use super::receiver::TICK;
use super::wire::{Forecast, MAX_BYTES, Mark, Sequence};
use alcc_units::{Bytes, Time};

/// The sender's view of the forecast.
#[derive(Clone)]
pub struct Outlook {
    /// The newest forecast.
    pub forecast: Forecast,
    /// Time of its arrival; `None` before the first.
    at: Option<Time>,
    /// Ticks that have passed since then.
    current: usize,
    /// Bytes in flight or queued, as far as known.
    queue: f64,
    sequence: Sequence,
}

impl Outlook {
    /// The state before the first report.
    pub fn blind(mss: Bytes) -> Self {
        Self {
            forecast: Forecast::blind(mss),
            at: None,
            current: 0,
            queue: 0.0,
            sequence: Sequence::default(),
        }
    }

    /// Takes the forecast of a report. False if the report is invalid, or a newer one is known.
    pub fn take(&mut self, now: Time, report: &[u8]) -> bool {
        let Some(forecast) = Forecast::decode(report) else {
            return false;
        };
        // A report that was overtaken on the way is of no use.
        if self.at.is_some() && !forecast.is_newer_than(&self.forecast) {
            return false;
        }
        self.forecast = forecast;
        self.at = Some(now);
        self.current = 0;
        self.queue = self.sequence.behind(&forecast);
        true
    }

    /// Counts a sent packet of `len` bytes.
    pub fn sent(&mut self, now: Time, len: u64) {
        self.sequence.sent(now, len);
        self.queue = (self.queue + len as f64).min(MAX_BYTES);
    }

    /// The header of the packet that was sent last.
    pub fn mark(&self, now: Time, len: u64, max_throwaway: u64, time_to_next: u16) -> Mark {
        self.sequence.mark(now, len, max_throwaway, time_to_next)
    }

    /// The number of the current tick of the forecast.
    pub fn current(&self) -> usize {
        self.current
    }

    /// True before the first forecast.
    pub fn is_blind(&self) -> bool {
        self.at.is_none()
    }

    /// True if the forecast covers none of the time from now on.
    pub fn is_over(&self) -> bool {
        self.current >= HORIZON - 1
    }

    /// End of the current tick; `None` without a forecast that goes beyond it.
    pub fn tick_at(&self) -> Option<Time> {
        let at = self.at? + TICK * (self.current as u64 + 1);
        (!self.is_over()).then_some(at)
    }

    /// Ends the current tick, in which `gone` bytes have left the queue.
    pub fn tick(&mut self, gone: f64) {
        self.queue = (self.queue - gone).max(0.0);
        self.current += 1;
    }

    /// Bytes that may be sent now so that they are delivered by tick `end` of the forecast, not yet
    /// rounded.
    pub fn window(&self, end: f64) -> f64 {
        let now = self.current as f64;
        let through = self.forecast.bytes_within(end) - self.forecast.bytes_within(now);
        (through.min(MAX_BYTES) - self.queue).max(0.0)
    }

    /// Reports the state. `window`: bytes that may be sent now.
    pub fn gauges(&self, window: f64, mss: Bytes, put: &mut dyn FnMut(&'static str, f64)) {
        put("queue", self.queue / mss.get() as f64);
        put("window", window / mss.get() as f64);
        self.forecast.gauges(put);
    }
}
