// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the algorithms of a simulated run say of themselves, for the logs that show it.
use alcc_cc::{Event, EventSink, Log, RttView};
use alcc_units::Time;
use std::sync::{Arc, Mutex};

/// An algorithm's event.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoggedEvent {
    /// When.
    pub at: Time,
    /// Number of the flow in the scenario, from 0.
    pub flow: usize,
    /// What.
    pub event: Event,
    /// Round-trip times that its host knew by then.
    pub rtt: RttView,
}

/// Collects the events of all flows, in the order in which they happen.
#[derive(Clone, Default, Debug)]
pub struct Collector(Arc<Mutex<Vec<LoggedEvent>>>);

impl Collector {
    /// For [`Probe::log`](alcc_sim::Probe::log).
    pub fn log(&self, flow: usize) -> Log {
        let to = self.clone();
        Box::new(OfFlow { to, flow })
    }

    /// What was told since the last call.
    pub fn take(&self) -> Vec<LoggedEvent> {
        let mut told = alcc_sys::lock(&self.0);
        std::mem::take(&mut *told)
    }
}

struct OfFlow {
    to: Collector,
    flow: usize,
}

impl EventSink for OfFlow {
    fn event(&mut self, at: Time, event: Event) {
        self.event_with_rtt(at, event, RttView::default());
    }

    fn event_with_rtt(&mut self, at: Time, event: Event, rtt: RttView) {
        let flow = self.flow;
        let told = LoggedEvent {
            at,
            flow,
            event,
            rtt,
        };
        let mut all = alcc_sys::lock(&self.to.0);
        all.push(told);
    }
}
