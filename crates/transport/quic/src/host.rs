// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the stack tells becomes what an algorithm expects of its host.
//!
//! The stack tells of an acknowledgement in pieces, losses last; an algorithm hears of losses first
//! and of each acknowledgement as a whole. So pieces are gathered, and handed on when the stack
//! next asks what may leave, or the next acknowledgement begins.
use crate::gauge::Gauge;
use crate::outstanding::Outstanding;
use alcc_cc::{
    Acked, Allowance, Controller, Delivery, Feed, Kind, Packet, Path, Pn, Rto, RttView, Sending,
    Sent, Source, Spurious,
};
use alcc_flow::RttEstimator;
use alcc_units::{Bytes, Rate, Span, Time};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Silence that is no timeout: shorter ones are the outages of a cellular link (`datagrams` in
/// `alcc_flow::Rules`).
const MIN_TIMEOUT: Span = Span::from_secs(1);
const MAX_TIMEOUT: Span = Span::from_secs(60);
/// So many probe timeouts make persistent congestion, and its parts (RFC 9002, sections 7.6.1,
/// 6.2.1 and 18.2 of RFC 9000).
const PERSISTENT: u64 = 3;
const GRANULARITY: Span = Span::from_millis(1);
const MAX_ACK_DELAY: Span = Span::from_millis(25);

/// The rate that is shown is that of a round trip, or of this.
const METER: Span = Span::from_millis(20);

/// Pieces of an acknowledgement.
#[derive(Clone, Debug, Default)]
struct Heard {
    acked: Vec<Packet>,
    lost: Vec<Packet>,
    /// In flight after the acknowledged packets, before the lost ones: said last, before losses.
    in_flight: Option<Bytes>,
    app_limited: bool,
    spurious: bool,
    /// Packets arrived marked by a router.
    marked: bool,
    /// All that was sent for a long time is lost.
    persistent: bool,
}

impl Heard {
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
    outstanding: Outstanding,
    next: Pn,
    in_flight: Bytes,
    delivery: Delivery,
    rtt: RttEstimator,
    heard: Heard,
    /// While losses are being repaired: the packet that ends it.
    episode: Option<Pn>,
    /// Somebody calls in time.
    timers: bool,
    progress_at: Time,
    backoff: u32,
    /// When the rate was measured last, and what had been delivered by then.
    meter: (Time, Bytes),
    gauge: Arc<Gauge>,
}

impl Host {
    pub(crate) fn new(
        cc: Box<dyn Controller>,
        now: Instant,
        mtu: u16,
        seed: u64,
        gauge: Arc<Gauge>,
    ) -> Self {
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
            outstanding: Outstanding::default(),
            next: 0,
            in_flight: Bytes::ZERO,
            delivery: Delivery::new(start),
            rtt: RttEstimator::default(),
            heard: Heard::default(),
            episode: None,
            timers: false,
            progress_at: start,
            backoff: 0,
            meter: (start, Bytes::ZERO),
            gauge,
        }
    }

    /// For another path, on which nothing is under way yet.
    pub(crate) fn fork(&self) -> Self {
        let mut feed = self.feed.fork();
        feed.release_memory();
        Self {
            feed,
            outstanding: Outstanding::default(),
            in_flight: Bytes::ZERO,
            rtt: self.rtt.clone(),
            heard: Heard::default(),
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

    /// All that is due: what was heard, and timers. `None`: at the time of the last event.
    pub(crate) fn turn(&mut self, now: Option<Instant>) {
        // It was heard when the stack said so, not now.
        self.hand_on();
        if let Some(now) = now {
            self.advance(now);
        }
        self.feed.notify_local_receiver(&[]);
        if self.timeout().is_some_and(|at| at <= self.feed.now()) {
            self.expire();
        }
        self.feed.run_timer();
        self.show();
    }

    fn show(&self) {
        self.gauge.in_flight.store(self.in_flight.get(), Relaxed);
        self.gauge.window.store(self.window(), Relaxed);
    }

    /// A packet leaves.
    pub(crate) fn sent(&mut self, now: Instant, len: u64, number: u64) {
        self.turn(Some(now));
        // The stack gives this time back with the acknowledgement.
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
        self.outstanding.sent(number, packet);
        self.show();
    }

    /// A packet that left at `sent` was acknowledged.
    pub(crate) fn acknowledged(&mut self, now: Instant, sent: Instant, number: u64) {
        if self.heard.in_flight.is_some() {
            self.hand_on();
        }
        let now = self.advance(now);
        let at = self.time(sent);
        if let Some(mut packet) = self.outstanding.acknowledged(number, at) {
            packet.rtt = Some(now.since(at));
            self.heard.acked.push(packet);
        }
    }

    /// That was all of this acknowledgement, but for losses that it discloses.
    pub(crate) fn end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        if self.heard.in_flight.is_some() {
            self.hand_on();
        }
        self.advance(now);
        self.heard.in_flight = Some(Bytes::new(in_flight));
        let backlogged = self.gauge.backlogged.load(Relaxed);
        self.heard.app_limited |= app_limited && !backlogged;
    }

    /// A packet is lost.
    pub(crate) fn lost(&mut self, now: Instant, len: u64, number: u64) {
        if self.time(now) > self.feed.now() {
            self.hand_on();
        }
        self.advance(now);
        if let Some(packet) = self.outstanding.lost(number, len) {
            self.heard.lost.push(packet);
        }
    }

    /// What the stack makes of losses or marks; which packets are lost it has said.
    pub(crate) fn congested(&mut self, now: Instant, persistent: bool, marked: bool) {
        self.advance(now);
        self.heard.persistent |= persistent;
        self.heard.marked |= marked;
    }

    /// What was reported lost has arrived.
    pub(crate) fn spurious(&mut self) {
        if self.heard.in_flight.is_some() {
            self.hand_on();
        }
        self.heard.spurious = true;
    }

    /// The largest packet has another size.
    pub(crate) fn mtu(&mut self, mtu: u16) {
        // Not in the midst of an acknowledgement: with the next turn's events it is as true.
        self.mss = Bytes::new(mtu.max(1).into());
        self.feed.mtu(self.mss);
    }

    /// Data waits for the window.
    pub(crate) fn blocked(&mut self) {
        let allowance = self.feed.allowance();
        let quota = allowance.window.saturating_sub(self.in_flight) > allowance.quota;
        let limited = self.feed.limited();
        limited.quota |= quota;
        limited.window |= !quota;
    }

    /// Hands on what was heard since the last time.
    fn hand_on(&mut self) {
        if self.heard.is_empty() {
            return;
        }
        let mut heard = std::mem::take(&mut self.heard);
        heard.acked.sort_unstable_by_key(|packet| packet.pn);
        heard.lost.sort_unstable_by_key(|packet| packet.pn);
        self.tell(&heard);
        heard.clear();
        self.heard = heard;
    }

    fn tell(&mut self, heard: &Heard) {
        let sum = |packets: &[Packet]| packets.iter().map(|packet| packet.len).sum::<Bytes>();
        let acked = sum(&heard.acked);
        let gone = sum(&heard.lost);
        let after_acks = match heard.in_flight {
            // The stack counts what we may have missed.
            Some(in_flight) => in_flight,
            None => self.in_flight.saturating_sub(acked),
        };
        let before = after_acks + acked;
        self.in_flight = after_acks.saturating_sub(gone);
        let mut ended = false;
        if heard.spurious {
            ended = self.episode.take().is_some();
            self.feed.spurious(Spurious::Loss);
        }
        self.feed.notify_local_receiver(&heard.acked);
        if let Some(newest) = heard.acked.last() {
            // Its time is that of the acknowledgement.
            self.rtt.sample(newest.rtt.unwrap_or_default());
            ended |= self.episode.is_some_and(|ends| newest.pn >= ends);
        }
        if ended {
            self.feed.repaired(self.in_flight, self.rtt.view());
        }
        self.tell_losses(heard, ended);
        if let Some(newest) = heard.acked.last() {
            self.tell_arrivals(heard, before);
            // The stack gives up what is 9/8 of an RTT older than something that arrived; far
            // beyond that, it has forgotten it.
            let rtt = self.rtt.view();
            let patience = (rtt.smoothed + rtt.variance * 4) * 8 + MIN_TIMEOUT;
            let old = newest
                .sent_at
                .as_nanos()
                .saturating_sub(patience.as_nanos());
            self.outstanding.forget_before(Time::from_nanos(old));
        }
        if heard.app_limited {
            self.delivery.limit_by_app(self.in_flight);
        }
    }

    fn tell_losses(&mut self, heard: &Heard, ended: bool) {
        if heard.persistent && self.backoff == 0 {
            let oldest = heard.lost.first().or_else(|| self.outstanding.oldest());
            let oldest = oldest.copied();
            self.tell_timeout(oldest);
        }
        // A mark is answered as a loss is (RFC 9002, section 7.1), by algorithms that know no marks
        // as well. The stack does not say how many packets were marked.
        let mut marked = heard.acked.last().filter(|_| heard.marked);
        if self.feed.needs().ecn {
            self.feed
                .marked(marked.take().map_or(Bytes::ZERO, |packet| packet.len));
        }
        let marked = marked.map(|packet| Packet {
            rtt: None,
            ..*packet
        });
        let lost = match (&marked, heard.lost.as_slice()) {
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

    fn tell_arrivals(&mut self, heard: &Heard, before: Bytes) {
        let now = self.feed.now();
        for packet in &heard.acked {
            self.delivery.arrived(now, packet);
        }
        self.progress_at = now;
        self.backoff = 0;
        self.feed.limited().app |= heard.app_limited;
        let (rtt, delivered) = (self.rtt.view(), self.delivery.total());
        let (since, before_it) = self.meter;
        if now.since(since) >= rtt.smoothed.max(METER) {
            let rate = Rate::of(delivered.saturating_sub(before_it), now.since(since));
            self.gauge.rate.store(rate.as_bps(), Relaxed);
            self.meter = (now, delivered);
        }
        if let Some(observe) = &self.gauge.observer {
            let samples = heard.acked.iter().filter_map(|packet| packet.rtt);
            samples.for_each(observe);
        }
        self.feed.acked(&Acked {
            packets: &heard.acked,
            in_flight_before: before,
            in_flight: self.in_flight,
            delivery: &self.delivery,
            rtt,
            rate: self.delivery.rate(&heard.acked),
            in_recovery: self.episode.is_some(),
            advanced: true,
            source: Source::Wire,
            rtt_error: Span::ZERO,
        });
    }

    /// When silence becomes a timeout. The stack probes earlier and says nothing of it.
    fn timeout(&self) -> Option<Time> {
        if self.in_flight == Bytes::ZERO {
            return None;
        }
        let RttView {
            smoothed, variance, ..
        } = self.rtt.view();
        let probe = smoothed + (variance * 4).max(GRANULARITY) + MAX_ACK_DELAY;
        let first = (probe * PERSISTENT).max(MIN_TIMEOUT);
        let wait = (first * (1 << self.backoff.min(16))).min(MAX_TIMEOUT);
        Some(self.progress_at + wait)
    }

    fn expire(&mut self) {
        let oldest = self.outstanding.oldest().copied();
        self.tell_timeout(oldest);
        // The next one counts from here.
        self.progress_at = self.feed.now();
    }

    fn tell_timeout(&mut self, oldest: Option<Packet>) {
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

    /// Somebody sees to it that there is a turn when one is due.
    pub(crate) fn has_timers(&mut self) {
        self.timers = true;
    }

    /// Nothing is under way: unless data waits for the window, nobody needs a turn.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == Bytes::ZERO
    }

    /// When the next turn is due.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
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

    /// What may be in flight, as the stack reckons: it sends a full packet if that fits below.
    pub(crate) fn window(&self) -> u64 {
        let allowance = self.feed.allowance();
        let (mss, in_flight) = (self.mss.get(), self.in_flight.get());
        let whole = |bytes: u64| (bytes / mss).saturating_mul(mss);
        // In segments: a small packet under way must not take the place of a full one.
        let window = whole(allowance.window.get())
            .max(mss)
            .saturating_add(in_flight % mss);
        let quota = in_flight.saturating_add(whole(allowance.quota.get()));
        // With nothing under way and nobody to call in time, there would be no next turn.
        let wanted = allowance.ping || !self.timers && in_flight == 0;
        let least = if wanted {
            in_flight.saturating_add(mss)
        } else {
            1
        };
        window.min(quota).max(least)
    }
}

#[cfg(test)]
mod tests;
