// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The retransmission timeout.
use crate::RttEstimator;
use crate::rules::{Timeout, TimeoutRule};
use alcc_cc::RttView;
use alcc_units::Span;

/// Linux's RTT variance: the largest mean deviation of a round trip, at least the minimum RTO.
#[derive(Clone, Copy, Debug, Default)]
struct Deviation {
    /// Mean deviation, times four.
    mdev: u64,
    /// The largest mean deviation in this round trip.
    mdev_max: u64,
    /// The variance in use.
    rttvar: u64,
    /// The round trip ends when the cumulative ACK passes this position.
    rtt_seq: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct RtoEstimator {
    timeout: Timeout,
    rtt: RttEstimator,
    linux: Deviation,
    backoff: u32,
}

impl RtoEstimator {
    pub(crate) fn new(timeout: Timeout) -> Self {
        Self {
            timeout,
            rtt: RttEstimator::default(),
            linux: Deviation::default(),
            backoff: 0,
        }
    }

    pub(crate) fn view(&self) -> RttView {
        self.rtt.view()
    }

    pub(crate) fn samples(&self) -> u64 {
        self.rtt.samples()
    }

    /// Consecutive timeouts without progress.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    pub(crate) fn on_expiry(&mut self) {
        self.backoff = (self.backoff + 1).min(64);
    }

    pub(crate) fn on_progress(&mut self) {
        self.backoff = 0;
    }

    /// Takes a sample. `sent` is the highest byte sent.
    #[inline(always)]
    pub(crate) fn sample(&mut self, rtt: Span, cumulative_ack: u64, sent: u64) {
        if rtt.is_zero() {
            return;
        }
        if let TimeoutRule::Linux(min) = self.timeout.rule {
            self.update_mdev(rtt.as_nanos(), min.as_nanos(), cumulative_ack, sent);
        }
        self.rtt.sample(rtt);
    }

    fn update_mdev(&mut self, rtt: u64, min: u64, cumulative_ack: u64, sent: u64) {
        let k = &mut self.linux;
        let smoothed = self.rtt.view().smoothed.as_nanos();
        if smoothed == 0 {
            k.mdev = rtt.saturating_mul(2);
            k.rttvar = k.mdev.max(min);
            k.mdev_max = k.rttvar;
            k.rtt_seq = sent;
            return;
        }
        let off = smoothed.abs_diff(rtt);
        let fourth = k.mdev / 4;
        if off >= fourth {
            // A sudden drop of the RTT has little weight.
            let gain = if rtt < smoothed { 8 } else { 1 };
            k.mdev += (off - fourth) / gain;
        } else {
            k.mdev -= fourth - off;
        }
        if k.mdev > k.mdev_max {
            k.mdev_max = k.mdev;
            k.rttvar = k.rttvar.max(k.mdev_max);
        }
        if cumulative_ack > k.rtt_seq {
            if k.mdev_max < k.rttvar {
                k.rttvar -= (k.rttvar - k.mdev_max) / 4;
            }
            k.rtt_seq = sent;
            k.mdev_max = min;
        }
    }

    /// The RTO with backoff; `None`: the timer is disabled.
    #[inline]
    pub(crate) fn timeout(&self) -> Option<Span> {
        let view = self.rtt.view();
        let sampled = !view.smoothed.is_zero();
        let doubled = |base: Span| (base * (1 << self.backoff.min(20))).min(self.timeout.max);
        Some(match self.timeout.rule {
            TimeoutRule::Never => return None,
            TimeoutRule::Fixed(span) => span,
            TimeoutRule::Linux(_) | TimeoutRule::Rfc6298(_) if !sampled => {
                doubled(self.timeout.initial)
            }
            TimeoutRule::Linux(_) => doubled(view.smoothed + Span::from_nanos(self.linux.rttvar)),
            TimeoutRule::Rfc6298(min) => doubled((view.smoothed + view.variance * 4).max(min)),
            TimeoutRule::Multiple(..) if !sampled => self.timeout.initial,
            TimeoutRule::Multiple(times, min, max) => (view.latest * times).max(min).min(max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Expiry, LINUX, VERUS};

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    fn after(timeout: Timeout, samples: &[u64]) -> RtoEstimator {
        let mut rtt = RtoEstimator::new(timeout);
        for (n, sample) in (1..).zip(samples) {
            rtt.sample(ms(*sample), n, n);
        }
        rtt
    }

    #[test]
    fn vectors_of_rfc_6298() {
        let timeout = Timeout {
            rule: TimeoutRule::Rfc6298(ms(1)),
            on_expiry: Expiry::Probe(Span::ZERO),
            ..LINUX.timeout
        };
        let rto = |samples: &[u64]| after(timeout, samples).timeout().unwrap().as_micros();
        assert_eq!(rto(&[]), 1_000_000);
        assert_eq!(rto(&[100]), 300_000);
        assert_eq!(rto(&[100, 120]), 272_500);
        assert_eq!(rto(&[100, 120, 80]), 249_687);
        assert_eq!(rto(&[100, 120, 80, 300]), 437_539);
    }

    #[test]
    fn the_kernel_adds_two_hundred_milliseconds_to_a_steady_round_trip() {
        let rtt = after(LINUX.timeout, &[100; 60]);
        assert_eq!(rtt.timeout(), Some(ms(300)));
        // First sample: 100 + 2 * 100.
        assert_eq!(after(LINUX.timeout, &[100]).timeout(), Some(ms(300)));
        assert_eq!(after(LINUX.timeout, &[400]).timeout(), Some(ms(1200)));
    }

    #[test]
    fn a_deviation_stays_for_a_round_trip_and_a_fall_counts_little() {
        let mut rtt = after(LINUX.timeout, &[100; 60]);
        // 500 ms late once: four times the deviation becomes 500 ms.
        rtt.sample(ms(600), 60, 200);
        let risen = rtt.timeout().unwrap();
        // Smoothed 162.5, deviation 500.
        assert_eq!(risen.as_micros(), 662_500);
        for _ in 0..40 {
            rtt.sample(ms(100), 100, 200);
        }
        let same_round = rtt.timeout().unwrap();
        assert!(same_round > ms(590), "{same_round}");
        // The round is over: the variance decays by a quarter of the difference per round.
        let mut low = rtt.clone();
        low.sample(ms(100), 201, 300);
        assert!(low.timeout().unwrap() < same_round);
        let mut fall = after(LINUX.timeout, &[600; 60]);
        fall.sample(ms(100), 60, 60);
        assert!(fall.timeout().unwrap() < ms(800));
    }

    #[test]
    fn it_doubles_up_to_its_bound_and_an_answer_ends_that() {
        let mut rtt = after(LINUX.timeout, &[100; 60]);
        let mut seen = Vec::new();
        for _ in 0..12 {
            rtt.on_expiry();
            seen.push(rtt.timeout().unwrap().as_micros() / 1000);
        }
        assert_eq!(seen[..4], [600, 1200, 2400, 4800]);
        assert_eq!(*seen.last().unwrap(), 120_000);
        rtt.on_progress();
        assert_eq!(rtt.timeout(), Some(ms(300)));
    }

    #[test]
    fn the_timer_of_verus_follows_the_last_sample_alone() {
        let rto = |samples: &[u64]| after(VERUS.timeout, samples).timeout();
        assert_eq!(rto(&[]), Some(ms(1000)));
        assert_eq!(rto(&[20]), Some(ms(150)));
        assert_eq!(rto(&[20, 100]), Some(ms(500)));
        assert_eq!(rto(&[100, 400]), Some(ms(1000)));
        let mut rtt = after(VERUS.timeout, &[100]);
        rtt.on_expiry();
        assert_eq!(rtt.timeout(), Some(ms(500)));
    }
}
