// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One sender and one bottleneck in virtual time. The bottleneck has delivery opportunities of one
//! packet each, a deep FIFO buffer, and a constant base RTT. Acknowledgements arrive one by one, or
//! are read at a tick as over TCP.
use alcc_cc::{
    AckBatch, Controller, Cx, Event, Instance, Kind, LimitedBy, LossBatch, Packet, Path, Rto,
    RttView, Sent, Source, Stamp,
};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::VecDeque;

pub(in super::super) const MSS: Bytes = Bytes::new(1500);

/// Retransmission timeout.
const TIMEOUT: Span = Span::from_millis(200);

/// The parameters of a run.
#[derive(Clone, Copy)]
pub(in super::super) struct Setup {
    pub(in super::super) base_rtt: Span,
    /// `None`: each acknowledgement at its time; else all of a tick together at its end.
    pub(in super::super) tick: Option<Span>,
    /// Packets that find room in the queue.
    pub(in super::super) room: usize,
    pub(in super::super) duration: Time,
}

/// The results of a run.
#[derive(Default)]
pub(in super::super) struct Outcome {
    /// Packets delivered per delivery opportunity.
    pub(in super::super) utilization: f64,
    /// RTT by acknowledgement, with the time of the acknowledgement: (s, ms), true values.
    pub(in super::super) rtt: Vec<(f64, f64)>,
    /// The gauges, about every 100 ms.
    pub(in super::super) gauges: Vec<(f64, Vec<f64>)>,
    pub(in super::super) story: Vec<(Time, Event)>,
}

impl Outcome {
    /// Mean RTT from `from` seconds on, ms.
    pub(in super::super) fn mean(&self, from: f64) -> f64 {
        let (sum, n) = self
            .rtt
            .iter()
            .filter(|(t, _)| *t >= from)
            .fold((0.0, 0.0), |(sum, n), (_, rtt)| (sum + rtt, n + 1.0));
        sum / n
    }

    /// Quantile of the RTT from `from` seconds on, ms.
    pub(in super::super) fn quantile(&self, from: f64, q: f64) -> f64 {
        let of = self.rtt.iter().filter(|(t, _)| *t >= from);
        let mut sorted: Vec<f64> = of.map(|(_, rtt)| *rtt).collect();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * q) as usize]
    }

    /// Largest RTT up to `until` seconds, ms.
    pub(in super::super) fn peak(&self, until: f64) -> f64 {
        let of = self.rtt.iter().filter(|(t, _)| *t <= until);
        of.map(|(_, rtt)| *rtt).fold(0.0, f64::max)
    }
}

/// Evenly spaced opportunities at a rate that `rate` gives for each second.
pub(in super::super) fn opportunities(
    rate: impl Fn(u64) -> Rate + 'static,
) -> Box<dyn Iterator<Item = Time>> {
    Box::new(std::iter::successors(Some(Time::ZERO), move |at| {
        Some(*at + rate(at.as_nanos() / 1_000_000_000).time_for(MSS))
    }))
}

/// Runs `cc` over the opportunities.
pub(in super::super) fn run(
    mut cc: Instance,
    setup: Setup,
    mut link: Box<dyn Iterator<Item = Time>>,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut log: Vec<(Time, Event)> = Vec::new();
    let mut queue: VecDeque<Packet> = VecDeque::new();
    let mut returning: VecDeque<(Time, Packet)> = VecDeque::new();
    let mut acked: Vec<Packet> = Vec::new();
    // Dropped and not yet noticed.
    let mut dropped: Vec<Packet> = Vec::new();
    let mut recovery_point = 0;
    let mut silent: Option<Time> = None;
    let (mut flight, mut delivered) = (Bytes::ZERO, Bytes::ZERO);
    let (mut delivered_at, mut pn) = (Time::ZERO, 0);
    let (mut offered, mut used) = (0.0, 0.0);
    let mut view = RttView::default();
    let mut opportunity = link.next().unwrap();
    let mut now = Time::ZERO;
    let path = Path {
        mss: MSS,
        rtt_hint: None,
        seed: 1,
    };
    cc.on_start(&mut Cx { now, log: &mut log }, &path);
    let mut next_tick = setup.tick.map(|tick| now + tick);
    while now < setup.duration {
        if outcome
            .gauges
            .last()
            .is_none_or(|(at, _)| now.as_secs_f64() >= at + 0.1)
        {
            let mut values = Vec::new();
            cc.gauges(&mut |_, value| values.push(value));
            outcome.gauges.push((now.as_secs_f64(), values));
        }
        // Deliver.
        while opportunity <= now {
            offered += 1.0;
            if let Some(packet) = queue.pop_front() {
                used += 1.0;
                returning.push_back((opportunity + setup.base_rtt, packet));
            }
            opportunity = link.next().unwrap();
        }
        // Hear.
        if next_tick.is_none_or(|at| at <= now) {
            while let Some((at, packet)) = returning.front().copied().filter(|(at, _)| *at <= now) {
                returning.pop_front();
                let truth = at.since(packet.sent_at).as_millis_f64();
                outcome.rtt.push((now.as_secs_f64(), truth));
                acked.push(Packet {
                    rtt: Some(now.since(packet.sent_at)),
                    ..packet
                });
            }
            next_tick = setup.tick.map(|tick| now + tick);
        }
        if let Some(last) = acked.last().copied() {
            let missing = dropped.partition_point(|packet: &Packet| packet.pn < last.pn);
            if missing > 0 {
                let lost: Vec<Packet> = dropped.drain(..missing).collect();
                lost.iter().for_each(|packet| flight -= packet.len);
                let new_episode = lost.iter().any(|packet| packet.pn >= recovery_point);
                if new_episode {
                    recovery_point = pn;
                }
                let loss = LossBatch {
                    lost: &lost,
                    new_episode,
                    in_flight: flight,
                    rtt: view,
                };
                cc.on_loss(&mut Cx { now, log: &mut log }, &loss);
            }
            let before = flight;
            for packet in &acked {
                flight -= packet.len;
                delivered += packet.len;
            }
            delivered_at = now;
            view.latest = last.rtt.unwrap();
            view.smoothed = view.smoothed.mul_f64(0.875) + view.latest.mul_f64(0.125);
            let took = now.since(last.stamp.delivered_at);
            let ack = AckBatch {
                acked: &acked,
                in_flight_before: before,
                in_flight: flight,
                delivered,
                rtt: view,
                rate: Some(Rate::of(
                    delivered.saturating_sub(last.stamp.delivered),
                    took,
                )),
                round_start: false,
                limited: LimitedBy {
                    quota: true,
                    ..LimitedBy::default()
                },
                in_recovery: false,
                advanced: true,
                source: Source::Wire,
                rtt_error: setup.tick.unwrap_or(Span::ZERO),
                marked: Bytes::ZERO,
            };
            cc.on_ack(&mut Cx { now, log: &mut log }, &ack);
            acked.clear();
        }
        // Nothing else is under way: the retransmission timer finds what was dropped.
        if !dropped.is_empty() && queue.is_empty() && returning.is_empty() {
            let since = *silent.get_or_insert(now);
            if now.since(since) >= TIMEOUT {
                let rto = Rto {
                    backoff: 1,
                    oldest: dropped[0],
                    in_flight: flight,
                    silence: now.since(since),
                };
                cc.on_rto(&mut Cx { now, log: &mut log }, &rto);
                dropped.iter().for_each(|packet| flight -= packet.len);
                let loss = LossBatch {
                    lost: &dropped,
                    new_episode: false,
                    in_flight: flight,
                    rtt: view,
                };
                cc.on_loss(&mut Cx { now, log: &mut log }, &loss);
                dropped.clear();
            }
        } else {
            silent = None;
        }
        if cc.next_timer().is_some_and(|at| at <= now) {
            cc.on_timer(&mut Cx { now, log: &mut log });
            assert!(
                cc.next_timer().is_none_or(|at| at > now),
                "timer in the past"
            );
        }
        // Send.
        loop {
            let allowance = cc.allowance();
            assert!(allowance.window >= MSS);
            let fits = flight + MSS <= allowance.window || flight == Bytes::ZERO;
            if !fits || allowance.quota < MSS {
                break;
            }
            let sent = Sent {
                pn,
                len: MSS,
                in_flight_before: flight,
                kind: Kind::New,
                app_limited: false,
            };
            let tag = cc.on_sent(&mut Cx { now, log: &mut log }, &sent);
            if flight == Bytes::ZERO {
                delivered_at = now;
            }
            flight += MSS;
            let stamp = Stamp {
                delivered,
                delivered_at,
                first_sent_at: Time::ZERO,
                in_flight: flight,
                app_limited: false,
            };
            let packet = Packet {
                pn,
                len: MSS,
                sent_at: now,
                tag,
                stamp,
                rtt: None,
                kind: Kind::New,
            };
            if queue.len() < setup.room {
                queue.push_back(packet);
            } else {
                dropped.push(packet);
            }
            pn += 1;
        }
        let arrival = returning.front().map(|(at, _)| *at);
        let arrives = arrival.map(|at| next_tick.map_or(at, |tick| tick.max(at)));
        let next = [Some(opportunity), arrives, cc.next_timer(), next_tick];
        now = next.into_iter().flatten().min().unwrap().max(now);
    }
    outcome.utilization = used / offered;
    outcome.story = log;
    outcome
}

pub(in super::super) const PATH: Setup = Setup {
    base_rtt: Span::from_millis(40),
    tick: None,
    room: usize::MAX,
    duration: Time::from_millis(30_000),
};

/// Runs `cc` at a constant rate.
pub(in super::super) fn constant(
    cc: impl Controller + 'static,
    setup: Setup,
    mbps: u64,
) -> Outcome {
    run(
        Instance::new(cc),
        setup,
        opportunities(move |_| Rate::mbps(mbps)),
    )
}

/// The log of `cc` in the first four seconds at 12 Mbit/s.
pub(in super::super) fn told(cc: impl Controller + 'static) -> Vec<String> {
    let setup = Setup {
        duration: Time::from_millis(4_000),
        ..PATH
    };
    let line = |(at, event): (Time, Event)| {
        let at = at.as_millis_f64().floor();
        match event {
            Event::SlowStartExit { why, window } => {
                format!("{at} slow start ends by {why} at {window}")
            }
            Event::ProfileFitted { largest, .. } => format!("{at} fitted up to {largest}"),
            other => format!("{at} {other:?}"),
        }
    };
    let outcome = constant(cc, setup, 12);
    outcome.story.into_iter().map(line).collect()
}
