// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference host: everything around a controller in a sender, exactly by the contract.
use crate::parts::rto;
use crate::{
    Acked, Allowance, Delivery, Feed, Header, Instance, Kind, Packet, Path, Pn, Receiver, Report,
    Rto, RttView, Sending, Sent, Source,
};
use alcc_units::{Bytes, Rate, Rng, Span, Time};
use std::collections::VecDeque;

pub(super) struct Sender {
    pub(super) feed: Feed,
    /// The receiver module at the other end, and the headers of packets in flight to it.
    pub(super) half: Option<Box<dyn Receiver>>,
    headers: VecDeque<(Pn, Header)>,
    /// Length of the next record.
    pub(super) len: Bytes,
    pub(super) outstanding: VecDeque<Packet>,
    pub(super) in_flight: Bytes,
    delivery: Delivery,
    /// Delivery rate of the last batch, and the rate that the next ones shall report instead.
    pub(super) rate: Option<Rate>,
    pub(super) say_rate: Option<Rate>,
    pub(super) next_pn: Pn,
    rtt: RttView,
    /// Acknowledgements not read yet.
    inbox: Vec<Pn>,
    pub(super) tick: Span,
    /// The next RTT samples are ambiguous.
    pub(super) ambiguous: bool,
    /// Arriving packets are marked.
    pub(super) marked: bool,
    /// Packets reported lost by the last report.
    pub(super) given_up: Vec<Packet>,
    /// Maximum lateness of the controller's timers; the next one is late by `late`.
    pub(super) lateness: Span,
    late: Span,
    rng: Rng,
    /// The pacer's earliest departure, in ns, signed.
    pub(super) ready: i128,
    progress: Time,
    backoff: u32,
    recover: Option<Pn>,
}

impl Sender {
    pub(super) fn new(cc: Instance, mss: Bytes, len: Bytes, tick: Span, seed: u64) -> Self {
        let path = Path {
            mss,
            rtt_hint: None,
            seed,
        };
        let half = cc.receiver();
        let mut feed = Feed::new(cc, Time::ZERO);
        feed.start(&path);
        Self {
            half,
            headers: VecDeque::new(),
            feed,
            len,
            outstanding: VecDeque::new(),
            in_flight: Bytes::ZERO,
            delivery: Delivery::new(Time::ZERO),
            rate: None,
            say_rate: None,
            next_pn: 0,
            rtt: RttView::default(),
            inbox: Vec::new(),
            tick,
            ambiguous: false,
            marked: false,
            given_up: Vec::new(),
            lateness: Span::ZERO,
            late: Span::ZERO,
            rng: Rng::new(seed),
            ready: i128::MIN / 2,
            progress: Time::ZERO,
            backoff: 0,
            recover: None,
        }
    }

    /// True while losses are being repaired.
    pub(super) fn is_in_recovery(&self) -> bool {
        self.recover.is_some()
    }

    /// A complete copy.
    pub(super) fn fork(&self) -> Self {
        Self {
            feed: self.feed.fork(),
            half: self.half.clone(),
            headers: self.headers.clone(),
            outstanding: self.outstanding.clone(),
            inbox: self.inbox.clone(),
            given_up: self.given_up.clone(),
            rng: self.rng.clone(),
            ..*self
        }
    }

    /// Gives the oldest outstanding packet the same sample as the next one.
    pub(super) fn repeat_second_sample(&mut self) {
        if let Some(next) = self.outstanding.get(1).copied()
            && let Some(oldest) = self.outstanding.front_mut()
        {
            let Packet { pn, len, .. } = *oldest;
            *oldest = Packet { pn, len, ..next };
        }
    }

    /// A packet reached the receiver; those before it that did not arrive are lost.
    pub(super) fn reached(&mut self, now: Time, pn: Pn, len: Bytes) {
        let mut header = Header::EMPTY;
        while let Some((_, h)) = self.headers.front().filter(|(p, _)| *p <= pn) {
            header = *h;
            self.headers.pop_front();
        }
        if let Some(half) = &mut self.half {
            half.on_packet(now, pn, len, &header);
        }
    }

    /// Runs the receiver module's timer if due, and returns its report.
    pub(super) fn report(&mut self, now: Time) -> Option<Report> {
        let half = self.half.as_mut()?;
        if half.next_timer().is_some_and(|at| at <= now) {
            half.on_timer(now);
        }
        half.report(now)
    }

    pub(super) fn feedback(&mut self, now: Time, report: &Report) {
        self.feed.advance(now);
        self.feed.feedback(report);
    }

    /// An acknowledgement arrived; it is read at the next tick.
    pub(super) fn arrived(&mut self, _now: Time, pn: Pn) {
        self.inbox.push(pn);
    }

    fn on_tick(&self, now: Time) -> bool {
        self.tick.is_zero() || now.as_nanos().is_multiple_of(self.tick.as_nanos())
    }

    /// Runs everything due at `now` except sending.
    pub(super) fn wake(&mut self, now: Time) {
        if !self.inbox.is_empty() && self.on_tick(now) {
            let acked = std::mem::take(&mut self.inbox);
            self.acknowledge(now, &acked);
        }
        self.feed.advance(now);
        if !self.outstanding.is_empty() && now >= self.timeout() {
            self.time_out(now);
        }
        if (self.feed.next_timer()).is_some_and(|t| t + self.late <= now) {
            self.late = self.lateness.mul_f64(self.rng.unit());
            self.feed.run_timer();
        }
    }

    fn sampled(&mut self, rtt: Span) {
        let r = &mut self.rtt;
        if r.smoothed.is_zero() {
            *r = RttView {
                latest: rtt,
                smoothed: rtt,
                variance: rtt / 2,
                min: rtt,
            };
            return;
        }
        let off = rtt.saturating_sub(r.smoothed) + r.smoothed.saturating_sub(rtt);
        *r = RttView {
            latest: rtt,
            variance: r.variance.mul_f64(0.75) + off / 4,
            smoothed: r.smoothed.mul_f64(0.875) + rtt / 8,
            min: r.min.min(rtt),
        };
    }

    /// Acknowledges packets in order. The link does not reorder, so packets before them that are
    /// missing are lost.
    pub(super) fn acknowledge(&mut self, now: Time, pns: &[Pn]) {
        self.feed.advance(now);
        let (mut acked, mut lost) = (Vec::new(), Vec::new());
        for pn in pns {
            while self.outstanding.front().is_some_and(|p| p.pn < *pn) {
                lost.extend(self.outstanding.pop_front());
            }
            if self.outstanding.front().is_some_and(|p| p.pn == *pn) {
                let mut packet = self
                    .outstanding
                    .pop_front()
                    .unwrap_or_else(|| unreachable!("just seen"));
                packet.rtt = (!self.ambiguous).then(|| now.since(packet.sent_at));
                acked.push(packet);
            }
        }
        self.lose(&lost, false);
        self.deliver(now, &acked);
        self.feed.settle();
    }

    /// Reports packets that are no longer outstanding as arrived.
    pub(super) fn deliver(&mut self, now: Time, acked: &[Packet]) {
        self.feed.advance(now);
        let Some(newest) = acked.last() else {
            return;
        };
        self.sampled(now.since(newest.sent_at));
        self.progress = now;
        self.backoff = 0;
        let in_flight_before = self.in_flight;
        for packet in acked {
            self.in_flight -= packet.len;
            self.delivery.arrived(now, packet);
        }
        if self.recover.is_some_and(|r| newest.pn >= r) {
            self.recover = None;
            self.feed.repaired(self.in_flight, self.rtt);
        }
        self.rate = self.say_rate.or_else(|| self.delivery.rate(acked));
        if self.marked {
            self.feed.marked(acked.iter().map(|p| p.len).sum());
        }
        self.feed.acked(&Acked {
            packets: acked,
            in_flight_before,
            in_flight: self.in_flight,
            delivery: &self.delivery,
            rtt: self.rtt,
            rate: self.rate,
            in_recovery: self.recover.is_some(),
            advanced: true,
            source: if self.tick.is_zero() {
                Source::Wire
            } else {
                Source::TcpInfo
            },
            rtt_error: self.tick,
        });
    }

    pub(super) fn lose(&mut self, lost: &[Packet], by_timeout: bool) {
        let Some(last) = lost.last() else { return };
        self.in_flight -= lost.iter().map(|p| p.len).sum();
        self.given_up = lost[..lost.len().min(16)].to_vec();
        let new_episode = !by_timeout && self.recover.is_none_or(|r| last.pn >= r);
        if new_episode {
            self.recover = Some(self.next_pn);
        }
        (self.feed).lost(lost, new_episode, self.in_flight, self.rtt);
    }

    fn timeout(&self) -> Time {
        self.progress + rto(&self.rtt) * (1 << self.backoff.min(6))
    }

    pub(super) fn time_out(&mut self, now: Time) {
        let Some(oldest) = self.outstanding.front().copied() else {
            return;
        };
        self.backoff += 1;
        let silence = now.since(self.progress);
        let event = Rto {
            backoff: self.backoff,
            oldest,
            in_flight: self.in_flight,
            silence,
        };
        self.feed.advance(now);
        self.feed.expired(&event);
        let lost: Vec<Packet> = self.outstanding.drain(..).collect();
        self.lose(&lost, true);
        self.recover = None;
        self.progress = now;
    }

    /// True if a packet of `len` is allowed now. Records the limit that forbids it.
    fn may_send(&mut self, now: Time, a: &Allowance) -> bool {
        if a.ping {
            return true;
        }
        if self.in_flight + self.len > a.window && self.in_flight != Bytes::ZERO {
            self.feed.limited().window = true;
            return false;
        }
        if self.len > a.quota {
            self.feed.limited().quota = true;
            return false;
        }
        if a.rate.is_some() && i128::from(now.as_nanos()) < self.ready {
            self.feed.limited().pacer = true;
            return false;
        }
        true
    }

    /// Reports a restart after a pause; not while a timeout is unanswered.
    pub(super) fn resume(&mut self, now: Time) {
        self.feed.advance(now);
        if self.outstanding.is_empty() && self.backoff == 0 {
            (self.feed).resume(self.delivery.at(), self.rtt.smoothed);
        }
    }

    /// Sends one packet if allowed.
    pub(super) fn send(&mut self, now: Time) -> Option<Pn> {
        self.resume(now);
        let a = self.feed.allowance();
        if !self.may_send(now, &a) {
            return None;
        }
        if let Some(rate) = a.rate {
            let burst = i128::from(rate.time_for(a.burst).as_nanos());
            let gap = i128::from(rate.time_for(self.len).as_nanos());
            self.ready = self.ready.max(i128::from(now.as_nanos()) - burst) + gap;
        }
        if self.outstanding.is_empty() {
            self.progress = now;
        }
        let pn = self.next_pn;
        self.next_pn += 1;
        let sent = Sent {
            pn,
            len: self.len,
            in_flight_before: self.in_flight,
            kind: Kind::New,
            app_limited: false,
        };
        if self.in_flight == Bytes::ZERO {
            self.delivery.begin_flight(now);
        }
        let tag = self.feed.sent(&sent);
        self.in_flight += self.len;
        if self.half.is_some() {
            let limited = *self.feed.limited();
            let more = self.may_send(now, &self.feed.allowance());
            *self.feed.limited() = limited;
            let header = self.feed.header(Sending { pn, more });
            self.headers.push_back((pn, header));
        }
        let stamp = self.delivery.stamp(self.in_flight, false);
        self.outstanding.push_back(Packet {
            pn,
            len: self.len,
            sent_at: now,
            tag,
            stamp,
            rtt: None,
            kind: Kind::New,
        });
        Some(pn)
    }

    /// Time of the next event. The application has data from `data` on.
    pub(super) fn next_wake(&self, now: Time, data: Time) -> Time {
        let mut next = self.feed.next_timer().map_or(Time::MAX, |t| t + self.late);
        if !self.outstanding.is_empty() {
            next = next.min(self.timeout());
        }
        let a = self.feed.allowance();
        let room = self.in_flight + self.len <= a.window || self.in_flight == Bytes::ZERO;
        if a.rate.is_some() && room && self.len <= a.quota {
            let ready = u64::try_from(self.ready.max(0)).unwrap_or(u64::MAX);
            next = next.min(Time::from_nanos(ready).max(data));
        }
        if !self.inbox.is_empty() {
            let tick = self.tick.as_nanos().max(1);
            next = next.min(Time::from_nanos((now.as_nanos() / tick + 1) * tick));
        }
        if data > now {
            next = next.min(data);
        }
        next.max(now + Span::from_nanos(1))
    }
}
