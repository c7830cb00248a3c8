// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::{LossTest, Losses, pacing_rate, segments};
use crate::{AckBatch, LossBatch};
use alcc_units::{Bytes, Rate, Span, Time};

/// Share of lost packets from which a test begins. A policer drops everything beyond its bucket: a
/// third if the link is half as fast again as its rate.
const SHARE: f64 = 0.05;
/// Losses with more queueing delay than this come from a buffer.
const WAITING: Span = Span::from_millis(6);
/// Interval of measuring the delivered rate: two round trips, at least this. The larger of the last
/// two measurements counts.
const MEASURED_OVER: Span = Span::from_millis(100);
/// Number of round trips for which a rate without losses is kept (48 in Linux's BBR).
const KEPT: u64 = 48;
/// Growth per round trip after that, until packets are lost again.
const GROWTH: f64 = 0.02;
/// Multiple of the delivered rate at which the limit is lifted: there is no policer any more.
const FREE: f64 = 2.0;

/// Detection of a policer: packets are lost without queueing, and sending at the delivered rate
/// loses less.
///
/// Its rate is a limit for the sender. It is the delivered rate, set after losses without a queue,
/// and kept as long as it avoids them.
#[derive(Clone, Debug)]
pub struct Policer {
    test: LossTest,
    since: Option<Time>,
    packets: f64,
    /// Delivered rates of the last two intervals, packets per second; zero if not known yet.
    rates: [f64; 2],
    /// The larger of these rates.
    best: f64,
    cap: Option<f64>,
    kept_until: Time,
}

impl Default for Policer {
    fn default() -> Self {
        Self {
            test: LossTest::beyond(SHARE),
            since: None,
            packets: 0.0,
            rates: [0.0; 2],
            best: 0.0,
            cap: None,
            kept_until: Time::ZERO,
        }
    }
}

impl Policer {
    /// Counts acknowledged packets.
    pub fn on_ack(&mut self, now: Time, ack: &AckBatch<'_>, mss: Bytes) {
        for packet in ack.acked {
            let packets = segments(packet.len, mss) as f64;
            self.delivered(now, packet.sent_at, ack.rtt.smoothed, packets);
        }
    }

    /// Counts lost packets. If queueing is short enough, a test begins.
    pub fn on_loss(&mut self, now: Time, loss: &LossBatch<'_>, mss: Bytes) {
        for packet in loss.lost {
            let packets = segments(packet.len, mss) as f64;
            self.lost(now, packet.sent_at, loss.rtt.smoothed, packets);
        }
        self.judge(now, loss.rtt.smoothed.saturating_sub(loss.rtt.min));
    }

    fn delivered(&mut self, now: Time, sent_at: Time, rtt: Span, packets: f64) {
        self.measure(now, rtt, packets);
        let found = self.test.delivered(now, sent_at, packets);
        self.found(now, rtt, found);
        self.grow(now, rtt, packets);
    }

    fn lost(&mut self, now: Time, sent_at: Time, rtt: Span, packets: f64) {
        let found = self.test.lost(now, sent_at, packets);
        self.found(now, rtt, found);
    }

    fn judge(&mut self, now: Time, waiting: Span) {
        if waiting <= WAITING && self.best > 0.0 && self.test.is_due(now) {
            self.test.begin(now);
            self.cap = Some(self.best * self.test.part());
        }
    }

    /// True if no policer is known.
    pub fn is_free(&self) -> bool {
        self.cap.is_none()
    }

    /// The maximum rate; `None` if no policer is known.
    pub fn rate(&self, mss: Bytes) -> Option<Rate> {
        self.cap.map(|packets| pacing_rate(packets, mss))
    }

    /// The smaller of `rate` and the rate of the policer.
    pub fn within(&self, rate: Option<Rate>, mss: Bytes) -> Option<Rate> {
        match (rate, self.rate(mss)) {
            (Some(rate), Some(cap)) => Some(rate.min(cap)),
            (rate, cap) => rate.or(cap),
        }
    }

    fn measure(&mut self, now: Time, rtt: Span, packets: f64) {
        let since = *self.since.get_or_insert(now);
        let took = now.since(since);
        if took >= (rtt * 2).max(MEASURED_OVER) {
            self.rates = [self.rates[1], self.packets / took.as_secs_f64()];
            self.best = self.rates[0].max(self.rates[1]);
            (self.since, self.packets) = (Some(now), 0.0);
        }
        self.packets += packets;
    }

    fn found(&mut self, now: Time, rtt: Span, found: Option<Losses>) {
        match found {
            Some(Losses::OfCongestion) => self.kept_until = now + rtt * KEPT,
            Some(Losses::OfPath) => self.cap = None,
            None => {}
        }
    }

    fn grow(&mut self, now: Time, rtt: Span, packets: f64) {
        let Some(cap) = self.cap else { return };
        if self.test.is_running() || now < self.kept_until {
            return;
        }
        // Number of its packets in a round trip.
        let round = (self.best * rtt.as_secs_f64()).max(1.0);
        let grown = cap * (1.0 + GROWTH * packets / round);
        self.cap = (grown < self.best * FREE).then_some(grown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_millis(40);

    /// Simulates `seconds` of a sender with a packet per half millisecond, or of its limit. `lose`
    /// decides about each packet by its time in ms. Returns the lost share and the packets that
    /// arrived per ms, both of the last second.
    fn run(
        policer: &mut Policer,
        seconds: u64,
        waiting: Span,
        mut lose: impl FnMut(f64) -> bool,
    ) -> (f64, f64) {
        let (mut ms, end) = (0.0, 1000.0 * seconds as f64);
        let (mut lost, mut arrived) = (0.0, 0.0);
        while ms < end {
            ms += policer.cap.map_or(0.5, |cap| (1000.0 / cap).max(0.5));
            let sent = Time::ZERO + Span::from_millis_f64(ms);
            let last = f64::from(u8::from(ms > end - 1000.0));
            if lose(ms) {
                policer.lost(sent + RTT, sent, RTT, 1.0);
                policer.judge(sent + RTT, waiting);
                lost += last;
            } else {
                policer.delivered(sent + RTT, sent, RTT, 1.0);
                arrived += last;
            }
        }
        (lost / (lost + arrived), arrived / 1000.0)
    }

    /// A token bucket of a packet per ms, `burst` deep: is the packet at this time one too many?
    fn bucket(burst: f64) -> impl FnMut(f64) -> bool {
        let (mut tokens, mut at) = (burst, 0.0);
        move |ms| {
            tokens = (tokens + ms - at).min(burst);
            at = ms;
            let dropped = tokens < 1.0;
            tokens -= f64::from(u8::from(!dropped));
            dropped
        }
    }

    #[test]
    fn a_policed_flow_sends_at_the_delivered_rate() {
        let (lost, rate) = run(&mut Policer::default(), 10, Span::ZERO, bucket(15.0));
        assert!(lost < 0.05, "{lost}");
        assert!(rate > 0.95, "{rate}");
    }

    #[test]
    fn losses_of_the_path_and_of_a_buffer_change_nothing() {
        let mut rng = alcc_units::Rng::new(1);
        let mut policer = Policer::default();
        let (_, rate) = run(&mut policer, 10, Span::ZERO, |_| rng.below(10) == 0);
        assert!(rate > 1.7, "{rate}");
        let mut policer = Policer::default();
        run(&mut policer, 3, WAITING * 2, bucket(15.0));
        assert_eq!(policer.cap, None);
    }

    #[test]
    fn a_policer_that_is_gone_is_forgotten() {
        let mut policer = Policer::default();
        let mut bucket = bucket(15.0);
        let (lost, rate) = run(&mut policer, 20, Span::ZERO, |ms| {
            ms < 5_000.0 && bucket(ms)
        });
        assert_eq!((lost, policer.cap), (0.0, None));
        assert!(rate > 1.9, "{rate}");
    }
}
