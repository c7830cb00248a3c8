// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion of the stack's events into the calls that an algorithm expects from its host.
//!
//! The stack reports an acknowledgement in pieces, losses last. An algorithm needs losses first and
//! each acknowledgement as a whole. So pieces are collected, and passed on when the stack next
//! reads the allowance, or the next acknowledgement begins.
use crate::gauge::Gauge;
use crate::sent_packets::SentPackets;
use alcc_cc::{
    Acked, Allowance, Delivery, Feed, Instance, Kind, Packet, Path, Pn, Rto, RttView, Sending,
    Sent, Source, Spurious,
};
use alcc_flow::RttEstimator;
use alcc_units::{Bytes, Rate, Span, Time};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Minimum silence that counts as a timeout: shorter ones are outages of a cellular link
/// (`datagrams` in `alcc_flow::Rules`).
const MIN_TIMEOUT: Span = Span::from_secs(1);
const MAX_TIMEOUT: Span = Span::from_secs(60);
/// kPersistentCongestionThreshold, in probe timeouts, and the parts of one (RFC 9002, sections
/// 7.6.1, 6.2.1 and 18.2 of RFC 9000).
const PERSISTENT_CONGESTION_THRESHOLD: u64 = 3;
const GRANULARITY: Span = Span::from_millis(1);
const MAX_ACK_DELAY: Span = Span::from_millis(25);

/// Minimum interval of the published rate, which is otherwise that of a round trip.
const MIN_RATE_INTERVAL: Span = Span::from_millis(20);

/// Events collected until the end of an acknowledgement.
#[derive(Clone, Debug, Default)]
struct AckEvents {
    acked: Vec<Packet>,
    lost: Vec<Packet>,
    /// Bytes in flight after the acknowledged packets, before the lost ones; reported last, before
    /// losses.
    in_flight: Option<Bytes>,
    app_limited: bool,
    spurious: bool,
    /// True if packets arrived marked by a router.
    marked: bool,
    /// True if all packets of a long time are lost.
    persistent: bool,
}

impl AckEvents {
    fn is_empty(&self) -> bool {
        self.in_flight.is_none()
            && self.acked.is_empty()
            && self.lost.is_empty()
            && !(self.spurious || self.marked || self.persistent)
    }

    fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        *self = Self {
            acked: std::mem::take(&mut self.acked),
            lost: std::mem::take(&mut self.lost),
            ..Self::default()
        };
    }
}

/// The host of one algorithm on one path.
pub(crate) struct Host {
    feed: Feed,
    origin: Instant,
    mss: Bytes,
    sent_packets: SentPackets,
    next: Pn,
    in_flight: Bytes,
    delivery: Delivery,
    rtt: RttEstimator,
    pending: AckEvents,
    /// The packet that ends the current recovery episode.
    episode: Option<Pn>,
    /// True if the runtime provides timers.
    timers: bool,
    progress_at: Time,
    backoff: u32,
    /// Time of the last measurement of the rate, and the total delivered at that time.
    meter: (Time, Bytes),
    gauge: Arc<Gauge>,
}

impl Host {
    pub(crate) fn new(cc: Instance, now: Instant, mtu: u16, seed: u64, gauge: Arc<Gauge>) -> Self {
        let mss = Bytes::new(mtu.max(1).into());
        let path = Path {
            mss,
            rtt_hint: None,
            seed,
        };
        let start = Time::ZERO;
        let mut feed = Feed::new(cc, start);
        feed.start(&path);
        feed.use_local_receiver();
        Self {
            feed,
            origin: now,
            mss,
            sent_packets: SentPackets::default(),
            next: 0,
            in_flight: Bytes::ZERO,
            delivery: Delivery::new(start),
            rtt: RttEstimator::default(),
            pending: AckEvents::default(),
            episode: None,
            timers: false,
            progress_at: start,
            backoff: 0,
            meter: (start, Bytes::ZERO),
            gauge,
        }
    }

    /// The state for another path, with nothing in flight.
    pub(crate) fn clone_for_path(&self) -> Self {
        let mut feed = self.feed.fork();
        feed.release_memory();
        Self {
            feed,
            sent_packets: SentPackets::default(),
            in_flight: Bytes::ZERO,
            rtt: self.rtt.clone(),
            pending: AckEvents::default(),
            episode: None,
            gauge: Arc::clone(&self.gauge),
            ..*self
        }
    }

    fn time(&self, at: Instant) -> Time {
        let since = at.saturating_duration_since(self.origin).as_nanos();
        Time::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn advance(&mut self, now: Instant) -> Time {
        self.feed.advance(self.time(now))
    }

    /// Passes events on and runs expired timers. `None`: at the time of the last event.
    pub(crate) fn run(&mut self, now: Option<Instant>) {
        // Events count from the time at which the stack reported them, not from now.
        self.flush();
        if let Some(now) = now {
            self.advance(now);
        }
        self.feed.notify_local_receiver(&[]);
        if self.timeout().is_some_and(|at| at <= self.feed.now()) {
            self.expire();
        }
        self.feed.run_timer();
        self.publish();
    }

    fn publish(&self) {
        self.gauge.in_flight.store(self.in_flight.get(), Relaxed);
        self.gauge.window.store(self.window(), Relaxed);
    }

    /// A packet is sent.
    pub(crate) fn sent(&mut self, now: Instant, len: u64, number: u64) {
        self.run(Some(now));
        // The stack returns this time with the acknowledgement.
        let (now, stack_time) = (self.feed.now(), self.time(now));
        let len = Bytes::new(len);
        if self.in_flight == Bytes::ZERO {
            (self.feed).resume(self.delivery.at(), self.rtt.view().smoothed);
            self.delivery.begin_flight(now);
            self.progress_at = now;
            self.backoff = 0;
        }
        let app_limited = self.delivery.is_app_limited();
        let pn = self.next;
        let sent = Sent {
            pn,
            len,
            in_flight_before: self.in_flight,
            kind: Kind::New,
            app_limited,
        };
        let tag = self.feed.sent(&sent);
        self.next += 1;
        self.in_flight += len;
        if self.feed.has_local_receiver() {
            let allowance = self.feed.allowance();
            let room = allowance.window.saturating_sub(self.in_flight);
            let more = !app_limited && room.min(allowance.quota) >= self.mss;
            self.feed.header(Sending { pn, more });
        }
        let stamp = self.delivery.stamp(self.in_flight, app_limited);
        let packet = Packet {
            pn,
            len,
            sent_at: stack_time,
            tag,
            stamp,
            rtt: None,
            kind: Kind::New,
        };
        self.sent_packets.sent(number, packet);
        self.publish();
    }

    /// A packet that was sent at `sent` was acknowledged.
    pub(crate) fn acknowledged(&mut self, now: Instant, sent: Instant, number: u64) {
        if self.pending.in_flight.is_some() {
            self.flush();
        }
        let now = self.advance(now);
        let at = self.time(sent);
        if let Some(mut packet) = self.sent_packets.acknowledged(number, at) {
            packet.rtt = Some(now.since(at));
            self.pending.acked.push(packet);
        }
    }

    /// Ends an acknowledgement, except for losses that it reveals.
    pub(crate) fn end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        if self.pending.in_flight.is_some() {
            self.flush();
        }
        self.advance(now);
        self.pending.in_flight = Some(Bytes::new(in_flight));
        let backlogged = self.gauge.backlogged.load(Relaxed);
        self.pending.app_limited |= app_limited && !backlogged;
    }

    /// A packet is lost.
    pub(crate) fn lost(&mut self, now: Instant, len: u64, number: u64) {
        if self.time(now) > self.feed.now() {
            self.flush();
        }
        self.advance(now);
        if let Some(packet) = self.sent_packets.lost(number, len) {
            self.pending.lost.push(packet);
        }
    }

    /// A congestion event of the stack, which has reported the lost packets before.
    pub(crate) fn on_congestion_event(&mut self, now: Instant, persistent: bool, marked: bool) {
        self.advance(now);
        self.pending.persistent |= persistent;
        self.pending.marked |= marked;
    }

    /// The packets reported lost have arrived.
    pub(crate) fn spurious(&mut self) {
        if self.pending.in_flight.is_some() {
            self.flush();
        }
        self.pending.spurious = true;
    }

    /// The size of the largest packet has changed.
    pub(crate) fn mtu(&mut self, mtu: u16) {
        // Not during an acknowledgement: it is reported with the next events.
        self.mss = Bytes::new(mtu.max(1).into());
        self.feed.mtu(self.mss);
    }

    /// Notes that data waits for the window.
    pub(crate) fn blocked(&mut self) {
        let allowance = self.feed.allowance();
        let quota = allowance.window.saturating_sub(self.in_flight) > allowance.quota;
        let limited = self.feed.limited();
        limited.quota |= quota;
        limited.window |= !quota;
    }

    /// Passes the collected events on.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.pending);
        events.acked.sort_unstable_by_key(|packet| packet.pn);
        events.lost.sort_unstable_by_key(|packet| packet.pn);
        self.report(&events);
        events.clear();
        self.pending = events;
    }

    fn report(&mut self, events: &AckEvents) {
        let sum = |packets: &[Packet]| packets.iter().map(|packet| packet.len).sum::<Bytes>();
        let acked = sum(&events.acked);
        let gone = sum(&events.lost);
        let after_acks = match events.in_flight {
            // The stack's count includes packets that we may have missed.
            Some(in_flight) => in_flight,
            None => self.in_flight.saturating_sub(acked),
        };
        let before = after_acks + acked;
        self.in_flight = after_acks.saturating_sub(gone);
        let mut ended = false;
        if events.spurious {
            ended = self.episode.take().is_some();
            self.feed.spurious(Spurious::Loss);
        }
        self.feed.notify_local_receiver(&events.acked);
        if let Some(newest) = events.acked.last() {
            // The time is that of the acknowledgement.
            self.rtt.sample(newest.rtt.unwrap_or_default());
            ended |= self.episode.is_some_and(|ends| newest.pn >= ends);
        }
        if ended {
            self.feed.repaired(self.in_flight, self.rtt.view());
        }
        self.report_losses(events, ended);
        if let Some(newest) = events.acked.last() {
            self.report_acks(events, before);
            // The stack declares a packet lost that is 9/8 of an RTT older than one that arrived. A
            // much older packet was forgotten by the stack.
            let rtt = self.rtt.view();
            let patience = (rtt.smoothed + rtt.variance * 4) * 8 + MIN_TIMEOUT;
            let old = newest
                .sent_at
                .as_nanos()
                .saturating_sub(patience.as_nanos());
            self.sent_packets.remove_before(Time::from_nanos(old));
        }
        if events.app_limited {
            self.delivery.limit_by_app(self.in_flight);
        }
    }

    fn report_losses(&mut self, events: &AckEvents, ended: bool) {
        if events.persistent && self.backoff == 0 {
            let oldest = events.lost.first().or_else(|| self.sent_packets.oldest());
            let oldest = oldest.copied();
            self.report_timeout(oldest);
        }
        // A mark has the effect of a loss (RFC 9002, section 7.1), also for algorithms without a
        // reaction to marks. The stack does not report the number of marked packets.
        let mut marked = events.acked.last().filter(|_| events.marked);
        if self.feed.needs().ecn {
            self.feed
                .marked(marked.take().map_or(Bytes::ZERO, |packet| packet.len));
        }
        let marked = marked.map(|packet| Packet {
            rtt: None,
            ..*packet
        });
        let lost = match (&marked, events.lost.as_slice()) {
            (Some(marked), []) => std::slice::from_ref(marked),
            (_, lost) => lost,
        };
        let begins = |last: &Packet| self.episode.is_none_or(|ends| last.pn >= ends);
        let new_episode = lost.last().is_some_and(begins);
        self.episode = if new_episode {
            Some(self.next)
        } else {
            self.episode.filter(|_| !ended)
        };
        (self.feed).lost(lost, new_episode, self.in_flight, self.rtt.view());
    }

    fn report_acks(&mut self, events: &AckEvents, before: Bytes) {
        let now = self.feed.now();
        for packet in &events.acked {
            self.delivery.arrived(now, packet);
        }
        self.progress_at = now;
        self.backoff = 0;
        self.feed.limited().app |= events.app_limited;
        let (rtt, delivered) = (self.rtt.view(), self.delivery.total());
        let (since, before_it) = self.meter;
        if now.since(since) >= rtt.smoothed.max(MIN_RATE_INTERVAL) {
            let rate = Rate::of(delivered.saturating_sub(before_it), now.since(since));
            self.gauge.rate.store(rate.as_bps(), Relaxed);
            self.meter = (now, delivered);
        }
        if let Some(observe) = &self.gauge.observer {
            let samples = events.acked.iter().filter_map(|packet| packet.rtt);
            samples.for_each(observe);
        }
        self.feed.acked(&Acked {
            packets: &events.acked,
            in_flight_before: before,
            in_flight: self.in_flight,
            delivery: &self.delivery,
            rtt,
            rate: self.delivery.rate(&events.acked),
            in_recovery: self.episode.is_some(),
            advanced: true,
            source: Source::Wire,
            rtt_error: Span::ZERO,
        });
    }

    /// Time at which silence becomes a timeout. The stack probes earlier, without reporting it.
    fn timeout(&self) -> Option<Time> {
        if self.in_flight == Bytes::ZERO {
            return None;
        }
        let RttView {
            smoothed, variance, ..
        } = self.rtt.view();
        let probe = smoothed + (variance * 4).max(GRANULARITY) + MAX_ACK_DELAY;
        let first = (probe * PERSISTENT_CONGESTION_THRESHOLD).max(MIN_TIMEOUT);
        let wait = (first * (1 << self.backoff.min(16))).min(MAX_TIMEOUT);
        Some(self.progress_at + wait)
    }

    fn expire(&mut self) {
        let oldest = self.sent_packets.oldest().copied();
        self.report_timeout(oldest);
        // The next timeout counts from here.
        self.progress_at = self.feed.now();
    }

    fn report_timeout(&mut self, oldest: Option<Packet>) {
        let Some(oldest) = oldest else { return };
        self.backoff = self.backoff.saturating_add(1);
        self.gauge.timeouts.fetch_add(1, Relaxed);
        let rto = Rto {
            backoff: self.backoff,
            oldest,
            in_flight: self.in_flight,
            silence: (self.feed.now()).since(self.delivery.at().max(oldest.sent_at)),
        };
        self.feed.expired(&rto);
    }

    /// Notes that the runtime provides timers.
    pub(crate) fn has_timers(&mut self) {
        self.timers = true;
    }

    /// True if nothing is in flight and no data waits for the window, so that no run is needed.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == Bytes::ZERO
    }

    /// Time of the next run.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let all = [
            self.feed.next_timer(),
            self.feed.next_report(),
            self.timeout(),
        ];
        let at = all.into_iter().flatten().min()?;
        let since = Duration::from_nanos(at.as_nanos());
        self.origin.checked_add(since)
    }

    pub(crate) fn allowance(&self) -> Allowance {
        self.feed.allowance()
    }

    /// The limit of bytes in flight in the stack's terms: it sends a full packet if that fits
    /// below.
    pub(crate) fn window(&self) -> u64 {
        let allowance = self.feed.allowance();
        let (mss, in_flight) = (self.mss.get(), self.in_flight.get());
        let whole = |bytes: u64| (bytes / mss).saturating_mul(mss);
        // In segments, because a small packet in flight must not take the place of a full one.
        let window = whole(allowance.window.get())
            .max(mss)
            .saturating_add(in_flight % mss);
        let quota = in_flight.saturating_add(whole(allowance.quota.get()));
        // With nothing in flight and no timers, there would be no next run.
        let wanted = allowance.ping || !self.timers && in_flight == 0;
        let min = if wanted {
            in_flight.saturating_add(mss)
        } else {
            1
        };
        window.min(quota).max(min)
    }
}

#[cfg(test)]
mod tests;
