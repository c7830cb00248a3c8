// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything on the links: packets in flight, their flows, and the counts.
//!
//! The links are not in it, so a link can report outcomes of its packets while it works.
use crate::Scenario;
use crate::flow::{Endpoints, Flow};
use crate::network::{Content, InFlight, LinkCounters, Packets, link_dir};
use crate::probe::{AlgorithmEvent, PacketContent, PacketEvent, PacketStep, Probe};
use alcc_link::{Outcome, Outcomes, Packet};
use alcc_units::{Bytes, Span, Time};
use std::sync::mpsc::{self, Receiver};

/// The first packet of this size or more begins the window. Those of the papers' programs are
/// shorter than 1500 bytes.
const FULL_SIZE: Bytes = Bytes::new(1400);
const SECOND: Span = Span::from_secs(1);

pub(crate) struct Traffic<P> {
    pub(crate) probe: P,
    /// Events of algorithms that the probe has not got yet; `None` if it wants none.
    reported: Option<Receiver<AlgorithmEvent>>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) packets: Packets,
    /// Counters of each direction of a link.
    pub(crate) counters: Vec<LinkCounters>,
    pub(crate) events: u64,
    pub(crate) window: Option<Time>,
    /// The window has this length.
    pub(crate) duration: Span,
    /// End of the window, as far as is known: without a full-size packet it begins with the
    /// first flow.
    pub(crate) end: Time,
    pub(crate) series: Option<Span>,
    pub(crate) sample_at: Time,
    pub(crate) sampled_at: Time,
}

impl<P: Probe> Traffic<P> {
    /// Creates the traffic, in the state before the first event.
    pub(crate) fn new(
        probe: P,
        mut flows: Vec<Flow>,
        packets: Packets,
        scenario: &Scenario,
        first_start: Time,
    ) -> Self {
        let channel = probe.wants_algorithms().then(mpsc::channel);
        for (flow, of) in flows.iter_mut().enumerate() {
            let Endpoints::Acked { host, .. } = &mut of.endpoints else {
                continue;
            };
            if let Some((to, _)) = &channel {
                let to = to.clone();
                host.set_log(Box::new(move |at, event, rtt| {
                    // The receiving end outlives the flows.
                    let _ended = to.send(AlgorithmEvent {
                        at,
                        flow,
                        event,
                        rtt,
                    });
                }));
            }
            if probe.is_enabled() {
                host.keep_lost();
            }
        }
        Self {
            probe,
            reported: channel.map(|(_, reported)| reported),
            flows,
            packets,
            counters: vec![LinkCounters::default(); 2 * scenario.links.len()],
            events: 0,
            window: None,
            duration: scenario.duration,
            end: first_start + scenario.duration,
            series: scenario.series.filter(|every| !every.is_zero()),
            sample_at: Time::MAX,
            sampled_at: Time::ZERO,
        }
    }

    /// True if the outcomes inside a link are needed as they happen: the window has not begun, or a
    /// probe is attached. Otherwise they are collected when a packet is through or a report is
    /// made.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.window.is_none() || self.probe.is_enabled()
    }

    /// Receives outcomes of packets on direction number `link`: as they happen, or later if that is
    /// enough.
    #[inline]
    pub(crate) fn over(&mut self, link: usize, watching: bool) -> Over<'_, P> {
        Over {
            traffic: self,
            link,
            watching,
        }
    }

    /// Something happened to a packet.
    #[inline]
    pub(crate) fn notify(&mut self, at: Time, id: u32, what: PacketStep) {
        if self.probe.is_enabled() {
            self.show(at, id, what);
        }
    }

    /// Passes what algorithms have reported to the probe.
    pub(crate) fn pass_reported(&mut self) {
        let probe = &mut self.probe;
        let reported = self.reported.iter().flat_map(Receiver::try_iter);
        reported.for_each(|event| probe.algorithm(&event));
    }

    fn show(&mut self, at: Time, id: u32, what: PacketStep) {
        self.pass_reported();
        let packet = self.packets.get(id);
        let flow = packet.flow as usize;
        let (udp, stream) = match &self.flows[flow].endpoints {
            Endpoints::Udp(_) => (true, false),
            Endpoints::Acked { host, .. } => (false, host.rules().is_stream()),
        };
        let content = match self.packets.content(id) {
            Content::Data(data) => PacketContent::Data {
                pn: data.pn,
                start: data.start,
                len: data.len,
                udp,
                stream,
                sent_at: data.sent_at,
                echo: data.echo,
            },
            Content::Ack(ack) => PacketContent::Ack { stream, ack: *ack },
            Content::Report(_) => PacketContent::Report,
        };
        self.probe.packet(&PacketEvent {
            at,
            flow,
            what,
            len: Bytes::new(packet.len.into()),
            content,
        });
    }

    fn begin_window(&mut self, at: Time) {
        self.window = Some(at);
        self.end = at + self.duration;
        self.sampled_at = at;
        if let Some(every) = self.series {
            self.sample_at = at + every;
        }
    }

    /// Bottleneck number `link` has carried a packet.
    #[inline(always)]
    fn departed(&mut self, link: usize, at: Time, packet: &Packet, arrived: Time) {
        let counters = &mut self.counters[link];
        counters.departed += 1;
        counters.bytes += packet.len;
        let id = packet.id as u32;
        if let Some(through) = self.packets.departed(id, at.since(arrived)) {
            self.through(at, through);
        }
        self.notify(at, id, PacketStep::Departed(link_dir(link)));
    }

    /// A packet with data is through its last bottleneck.
    #[inline(always)]
    pub(crate) fn through(&mut self, at: Time, packet: InFlight) {
        // Links tell in turns, not in the order of time.
        let into = self.window.map_or(Span::ZERO, |begin| at.since(begin));
        let second = into.as_nanos() / SECOND.as_nanos();
        let meter = &mut self.flows[packet.flow as usize].meter;
        let len = Bytes::new(packet.len.into());
        meter.delivered(at, second as usize, len, packet.queued);
    }
}

/// A direction of a link, with the packets on it.
pub(crate) struct Over<'a, P> {
    traffic: &'a mut Traffic<P>,
    link: usize,
    watching: bool,
}

impl<P: Probe> Outcomes for Over<'_, P> {
    #[inline]
    fn is_watching(&self) -> bool {
        self.watching
    }

    // Each caller knows which outcome it is: only that branch is left there.
    #[inline(always)]
    fn tell(&mut self, outcome: Outcome) {
        let (traffic, link) = (&mut *self.traffic, self.link);
        match outcome {
            Outcome::Arrived { at, packet } => {
                traffic.counters[link].arrived += 1;
                if traffic.window.is_none() && packet.len >= FULL_SIZE {
                    traffic.begin_window(at);
                }
                traffic.notify(at, packet.id as u32, PacketStep::Arrived(link_dir(link)));
            }
            Outcome::Departed {
                at,
                packet,
                arrived,
            } => traffic.departed(link, at, &packet, arrived),
            Outcome::Dropped { at, packet, why } => {
                // What is lost comes to nothing later: it is counted here, or a storm of losses
                // would cost nothing.
                traffic.events += 1;
                traffic.counters[link].dropped += 1;
                let lost = traffic.packets.get(packet.id as u32);
                if lost.data {
                    let meter = &mut traffic.flows[lost.flow as usize].meter;
                    meter.dropped(lost.departed);
                }
                let step = PacketStep::Dropped(link_dir(link), why);
                traffic.notify(at, packet.id as u32, step);
                traffic.packets.remove(packet.id as u32);
            }
            Outcome::Delivered { packet, .. } => traffic.packets.delivered(&packet),
            Outcome::Repeated { packet, .. } => traffic.packets.repeated(&packet),
        }
    }
}
