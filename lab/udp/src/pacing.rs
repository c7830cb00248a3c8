// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pacing error: the distance between departures and the pacer's departure times.
use crate::outgoing::Outgoing;
use alcc_units::{Span, Time};
use hdrhistogram::Histogram;

/// Compares each departure with that of a pacer without batches.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    errors: Option<Box<Histogram<u64>>>,
    /// Departure time of the previous packet by the pacer.
    wanted: Option<Time>,
    /// Sending time of the current batch.
    at: Time,
}

impl Pacing {
    /// A packet is sent at `now`; `due`: the departure time if it was paced.
    pub(crate) fn sent(&mut self, now: Time, due: Option<Time>, outgoing: &Outgoing) {
        let sender = outgoing.sender();
        let Some(rate) = sender.controller().allowance().rate else {
            self.wanted = None;
            return;
        };
        let wanted = match (due, self.wanted) {
            (Some(due), _) => due,
            // Later packets of a batch: spaced from the first by the pacing rate.
            (None, Some(before)) if self.at == now => before + rate.time_for(sender.rules().mss),
            // The packet was not paced.
            _ => {
                self.wanted = None;
                return;
            }
        };
        self.at = now;
        self.wanted = Some(wanted);
        let early = wanted.since(now);
        let error = now.since(wanted).max(early);
        self.record(error);
    }

    fn record(&mut self, error: Span) {
        if self.errors.is_none() {
            self.errors = Histogram::new_with_bounds(1, 1 << 32, 2).ok().map(Box::new);
        }
        if let Some(errors) = &mut self.errors {
            errors.saturating_record(error.as_micros().max(1));
        }
    }

    /// Mean, 95th and 99th percentile of the error, ms.
    pub(crate) fn error_ms(&self) -> Option<(f64, f64, f64)> {
        let errors = self.errors.as_ref()?;
        let ms = |q| errors.value_at_quantile(q) as f64 / 1e3;
        Some((errors.mean() / 1e3, ms(0.95), ms(0.99)))
    }
}
