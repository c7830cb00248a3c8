// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurement of an emulated link: its flows, and the start of the window.
use super::BIN;
use super::programs::Namespaces;
use crate::LabError;
use crate::link::Link;
use crate::meter::Meter;
use alcc_emu::{Dir, EmuReport, Emulator, FlowKey, Observer, Subnet};
use alcc_link::{DropReason, Outcome};
use alcc_units::{Bytes, Span, Time};
use std::sync::{Arc, Mutex};

/// Measurements at the bottleneck of the downlink: of all flows together, or of every flow.
pub(crate) struct Meters {
    /// By the relay's number of a flow if flows are distinguished, else one.
    all: Vec<Meter>,
    apart: bool,
    /// All flows together, if they are distinguished.
    total: Meter,
    fresh: Box<dyn Fn() -> Meter + Send>,
    started: Option<Time>,
}

impl Meters {
    fn new(link: &Link, duration: Span, apart: bool) -> Self {
        let delay = link.path.down.delay;
        Self {
            all: Vec::new(),
            apart,
            total: Meter::new(duration, delay, BIN),
            fresh: Box::new(move || Meter::new(duration, delay, BIN)),
            started: None,
        }
    }

    /// All flows together.
    pub(crate) fn total(&self) -> Option<&Meter> {
        if self.apart {
            Some(&self.total)
        } else {
            self.all.first()
        }
    }

    /// Start of the window: the first full-size packet of any flow.
    pub(crate) fn started(&self) -> Option<Time> {
        self.started
    }

    fn of(&mut self, flow: u32) -> &mut Meter {
        let at = if self.apart { flow as usize } else { 0 };
        while self.all.len() <= at {
            let mut meter = (self.fresh)();
            if let Some(started) = self.started {
                meter.begin(started);
            }
            self.all.push(meter);
        }
        &mut self.all[at]
    }

    /// Passes an event of a packet to the flow's meter and to that of all flows.
    fn each(&mut self, flow: u32, tell: impl Fn(&mut Meter)) {
        tell(self.of(flow));
        if self.apart {
            tell(&mut self.total);
        }
    }

    fn arrived(&mut self, at: Time, flow: u32, size: Bytes) {
        self.each(flow, |meter| meter.arrived(at, size));
        if self.started.is_none() {
            self.started = self.of(flow).started();
            if let Some(started) = self.started {
                self.all.iter_mut().for_each(|meter| meter.begin(started));
            }
        }
    }

    /// The meter of the flow that `is_it`; of all if they are not distinguished.
    pub(crate) fn find(
        &self,
        report: &EmuReport,
        is_it: impl Fn(&FlowKey) -> bool,
    ) -> Option<&Meter> {
        if !self.apart {
            return self.all.first();
        }
        let number = 1 + report.flows.iter().position(is_it)?;
        self.all.get(number)
    }
}

/// Looks at the bottleneck of the downlink.
struct Watch(Arc<Mutex<Meters>>);

impl Observer for Watch {
    fn event(&mut self, dir: Dir, outcome: &Outcome, _: Time) {
        if dir != Dir::Down {
            return;
        }
        let mut meters = alcc_sys::lock(&self.0);
        match *outcome {
            Outcome::Arrived { at, packet } => meters.arrived(at, packet.flow, packet.len),
            Outcome::Departed {
                at,
                packet,
                arrived,
            } => meters.each(packet.flow, |meter| {
                meter.delivered(at, packet.len, at.since(arrived));
            }),
            Outcome::Delivered { .. } | Outcome::Repeated { .. } => {}
            Outcome::Dropped {
                at,
                packet,
                why: DropReason::Loss,
            } => meters.each(packet.flow, |meter| meter.lost_before(at)),
            Outcome::Dropped { at, packet, .. } => {
                meters.each(packet.flow, |meter| meter.dropped(at));
            }
        }
    }
}

/// A link between two namespaces; gone when dropped.
pub(crate) struct Wire {
    pub(crate) emulator: Emulator,
    pub(crate) meters: Arc<Mutex<Meters>>,
}

impl Wire {
    pub(crate) fn start(
        ends: &Namespaces,
        link: &Link,
        duration: Span,
        apart: bool,
    ) -> Result<Self, LabError> {
        let meters = Arc::new(Mutex::new(Meters::new(link, duration, apart)));
        let emulator = Emulator::start(
            &ends.sender,
            &ends.receiver,
            Subnet::default(),
            link.path.clone(),
            Box::new(Watch(Arc::clone(&meters))),
        )?;
        Ok(Self { emulator, meters })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_link::{Ecn, Packet};
    use std::path::Path;

    /// Random loss is before the bottleneck, so such a packet does not arrive there, but counts.
    #[test]
    fn every_reason_of_a_loss_counts_once() {
        let link = Link::open(Path::new("12mbit"), 1).unwrap();
        let meters = Arc::new(Mutex::new(Meters::new(&link, Span::from_secs(1), false)));
        let mut watch = Watch(Arc::clone(&meters));
        let packet = |id| Packet {
            id,
            flow: 1,
            len: Bytes::new(1500),
            ecn: Ecn::default(),
        };
        let at = Time::from_millis;
        let mut tell = |outcome| watch.event(Dir::Down, &outcome, Time::ZERO);
        let reasons = [DropReason::Radio, DropReason::Overflow];
        for id in 0..4 {
            let (at, packet) = (at(id), packet(id));
            tell(Outcome::Arrived { at, packet });
            if let Some(&why) = reasons.get(id as usize) {
                tell(Outcome::Dropped { at, packet, why });
            }
        }
        let why = DropReason::Loss;
        let (at, packet) = (at(4), packet(4));
        tell(Outcome::Dropped { at, packet, why });
        let meters = alcc_sys::lock(&meters);
        let seen = meters.total().unwrap().finish(|_, _| Bytes::MAX).unwrap();
        // 5 packets entered the path, and it lost 3.
        assert_eq!(seen.loss, Some(0.6));
    }
}
