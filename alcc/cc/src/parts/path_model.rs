// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The path model that the versions of BBR share. Rates in packets per second, volumes in packets.
use crate::AckBatch;
use crate::parts::segments;
use alcc_units::{Bytes, Span, Time};

/// A rate sample, in packets.
#[derive(Clone, Copy, Debug)]
pub struct RateSample {
    /// Newly delivered segments.
    pub packets: f64,
    /// Delivery rate over the flight of the newest packet, packets per second; zero: unknown.
    pub rate: f64,
    /// True if the newest acknowledged packet was application-limited when it was sent.
    pub app_limited: bool,
}

impl RateSample {
    /// The sample of a batch.
    pub fn of(ack: &AckBatch<'_>, mss: Bytes) -> Self {
        let packets: u64 = ack.acked.iter().map(|p| segments(p.len, mss)).sum();
        let rate = ack.rate.map_or(0.0, |rate| rate.as_bps() as f64);
        Self {
            packets: packets as f64,
            rate: rate / 8.0 / mss.get().max(1) as f64,
            app_limited: ack.acked.last().is_some_and(|p| p.stamp.app_limited),
        }
    }
}

/// The smallest RTT, and its age.
#[derive(Clone, Copy, Debug)]
pub struct MinRtt {
    /// `None` before the first sample.
    pub rtt: Option<Span>,
    /// Time at which it was measured or last confirmed.
    pub at: Time,
}

impl MinRtt {
    /// No RTT known, as of `now`.
    pub const fn since(now: Time) -> Self {
        Self { rtt: None, at: now }
    }

    /// True if it was not confirmed for `memory`.
    pub fn is_stale(&self, now: Time, memory: Span) -> bool {
        now.since(self.at) > memory
    }

    /// Takes a smaller sample, or any sample if the old one is stale.
    pub fn sample(&mut self, now: Time, rtt: Span, stale: bool) {
        if stale || self.rtt.is_none_or(|least| rtt < least) {
            *self = Self {
                rtt: Some(rtt),
                at: now,
            };
        }
    }
}

/// The dwell time of ProbeRTT: a span of time and a round trip, both counted from the time at which
/// little enough is in flight.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ProbeRttTimer(Option<(Time, u64)>);

impl ProbeRttTimer {
    /// True when the dwell time is over. `small`: little enough is in flight.
    pub fn is_over(&mut self, now: Time, round: u64, small: bool, span: Span) -> bool {
        match self.0 {
            Some((until, last)) => now >= until && round >= last,
            None => {
                if small {
                    self.0 = Some((now + span, round + 1));
                }
                false
            }
        }
    }

    /// True when the time is over, regardless of rounds; for a flow that has been idle.
    pub fn has_lasted(&self, now: Time) -> bool {
        self.0.is_some_and(|(until, _)| now >= until)
    }
}

/// Detection of a full pipe: the rate has not grown by 25 % for three rounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullPipe {
    /// The rate to be exceeded by 25 %.
    pub best: f64,
    rounds: u32,
}

impl FullPipe {
    const GROWTH: f64 = 1.25;
    const ROUNDS: u32 = 3;

    /// Starts again from this rate.
    pub fn from(best: f64) -> Self {
        Self { best, rounds: 0 }
    }

    /// Call once per round that was not application-limited.
    pub fn round(&mut self, rate: f64) {
        if self.is_full() {
        } else if rate >= self.best * Self::GROWTH {
            *self = Self::from(rate);
        } else {
            self.rounds += 1;
        }
    }

    /// True if three such rounds have passed.
    pub const fn is_full(&self) -> bool {
        self.rounds >= Self::ROUNDS
    }
}

/// ACK aggregation: a radio link holds ACKs back and releases them in a burst. It is measured as
/// the data acknowledged beyond the estimated rate (`extra_acked`), because that much more has to
/// be in flight.
#[derive(Clone, Debug, Default)]
pub struct AckAggregation {
    since: Option<Time>,
    packets: f64,
    /// Maximum in the current slot of rounds and in the last one.
    max_extra: [f64; 2],
    slot_start: u64,
}

impl AckAggregation {
    /// Upper bound: the amount that the rate delivers in this time, seconds.
    const MAX_TIME: f64 = 0.1;

    /// Adds `packets` acknowledged in `round`. A slot has `slot` rounds.
    pub fn add(&mut self, now: Time, round: u64, slot: u64, packets: f64, rate: f64, window: f64) {
        if round >= self.slot_start + slot {
            self.slot_start = round;
            self.max_extra = [0.0, self.max_extra[0]];
        }
        let expected = self.since.map(|at| rate * now.since(at).as_secs_f64());
        let expected = match expected {
            Some(expected) if self.packets > expected => expected,
            _ => {
                (self.since, self.packets) = (Some(now), 0.0);
                0.0
            }
        };
        // The bound exceeds any flight, and keeps sums finite after a long silence.
        self.packets = (self.packets + packets).min(1e9);
        let extra = (self.packets - expected).max(0.0).min(window);
        self.max_extra[0] = self.max_extra[0].max(extra);
    }

    /// Discards the current epoch, after an idle period; the next acknowledgement starts one.
    pub fn restart(&mut self) {
        self.since = None;
    }

    /// The number of packets to add to the window.
    pub fn extra_acked(&self, rate: f64) -> f64 {
        self.max_extra[0]
            .max(self.max_extra[1])
            .min(rate * Self::MAX_TIME)
    }
}

/// The rate before the first sample: the initial window over the first RTT, or over a millisecond.
pub fn first_rate(window: f64, rtt: Option<Span>) -> f64 {
    let rtt = rtt.unwrap_or(Span::from_millis(1));
    window / rtt.max(Span::from_micros(1)).as_secs_f64()
}

/// Send quantum at this rate: one millisecond, at least two packets.
pub fn quantum(rate: f64) -> f64 {
    libm::floor(rate / 1000.0).max(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    #[test]
    fn a_stale_minimum_gives_way_to_any_sample() {
        let (mut least, span) = (MinRtt::since(ms(0)), Span::from_millis);
        for (at, rtt, expected) in [
            (10, 50, 50),
            (20, 40, 40),
            (5_000, 60, 40),
            (10_020, 60, 40),
        ] {
            let stale = least.is_stale(ms(at), span(10_000));
            least.sample(ms(at), span(rtt), stale);
            assert_eq!(least.rtt, Some(span(expected)), "at {at}");
        }
        assert!(least.is_stale(ms(10_021), span(10_000)));
        least.sample(ms(10_021), span(60), true);
        assert_eq!((least.rtt, least.at), (Some(span(60)), ms(10_021)));
    }

    #[test]
    fn a_hold_lasts_for_its_span_and_a_round_of_small_flight() {
        let (mut hold, span) = (ProbeRttTimer::default(), Span::from_millis(200));
        assert!(!hold.is_over(ms(0), 7, false, span));
        assert!(!hold.is_over(ms(1_000), 9, true, span));
        assert!(!hold.is_over(ms(1_199), 20, true, span));
        assert!(!hold.is_over(ms(1_300), 9, true, span));
        assert!(hold.has_lasted(ms(1_300)));
        assert!(hold.is_over(ms(1_300), 10, false, span));
    }

    #[test]
    fn three_rounds_without_a_quarter_more_and_the_pipe_is_full() {
        let mut pipe = FullPipe::default();
        for (rate, full) in [
            (100.0, false),
            (125.0, false), // A quarter more: counts from here.
            (150.0, false),
            (156.0, false),
            (157.0, false), // 157 > 156.25 = 125 * 5/4.
            (157.0, false),
            (157.0, false),
            (157.0, true),
        ] {
            pipe.round(rate);
            assert_eq!(pipe.is_full(), full, "at {rate}");
        }
    }

    #[test]
    fn a_bunch_counts_beyond_what_the_rate_explains_and_at_most_100_ms_of_it() {
        let mut held = AckAggregation::default();
        let mut add = |at, packets| held.add(ms(at), 0, 5, packets, 1000.0, 500.0);
        // 20 packets at once begin an epoch. 10 ms later the rate explains 10 of them; 30 more it
        // does not.
        add(0, 20.0);
        add(10, 30.0);
        assert_eq!(held.extra_acked(1000.0), 40.0);
        assert_eq!(held.extra_acked(100.0), 10.0);
    }
}
