// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Round-trip times and the retransmission timeout that follows from them.
use crate::RttEstimator;
use crate::rules::{Timeout, TimeoutRule};
use alcc_cc::RttView;
use alcc_units::Span;

/// The kernel's deviation: the largest of a round trip, at least the smallest timeout.
#[derive(Clone, Copy, Debug, Default)]
struct Deviation {
    /// Four times the mean deviation.
    mean: u64,
    /// The largest of it in this round trip.
    most: u64,
    /// What counts.
    kept: u64,
    /// The round trip ends when the stream is complete up to here.
    round: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct RoundTrip {
    timeout: Timeout,
    rtt: RttEstimator,
    kernel: Deviation,
    backoff: u32,
}

impl RoundTrip {
    pub(crate) fn new(timeout: Timeout) -> Self {
        Self {
            timeout,
            rtt: RttEstimator::default(),
            kernel: Deviation::default(),
            backoff: 0,
        }
    }

    pub(crate) fn view(&self) -> RttView {
        self.rtt.view()
    }

    pub(crate) fn samples(&self) -> u64 {
        self.rtt.samples()
    }

    /// How often the timer has expired since the last progress.
    pub(crate) fn backoff(&self) -> u32 {
        self.backoff
    }

    pub(crate) fn expired(&mut self) {
        self.backoff = (self.backoff + 1).min(64);
    }

    pub(crate) fn progress(&mut self) {
        self.backoff = 0;
    }

    /// A sample, with the positions up to which the stream is complete and sent.
    pub(crate) fn sample(&mut self, rtt: Span, complete: u64, sent: u64) {
        if rtt.is_zero() {
            return;
        }
        if let TimeoutRule::Kernel(least) = self.timeout.rule {
            self.deviate(rtt.as_nanos(), least.as_nanos(), complete, sent);
        }
        self.rtt.sample(rtt);
    }

    fn deviate(&mut self, rtt: u64, least: u64, complete: u64, sent: u64) {
        let k = &mut self.kernel;
        let smoothed = self.rtt.view().smoothed.as_nanos();
        if smoothed == 0 {
            k.mean = rtt.saturating_mul(2);
            k.kept = k.mean.max(least);
            k.most = k.kept;
            k.round = sent;
            return;
        }
        let off = smoothed.abs_diff(rtt);
        let fourth = k.mean / 4;
        if off >= fourth {
            // A sudden fall of the RTT is no deviation to be afraid of.
            let gain = if rtt < smoothed { 8 } else { 1 };
            k.mean += (off - fourth) / gain;
        } else {
            k.mean -= fourth - off;
        }
        if k.mean > k.most {
            k.most = k.mean;
            k.kept = k.kept.max(k.most);
        }
        if complete > k.round {
            if k.most < k.kept {
                k.kept -= (k.kept - k.most) / 4;
            }
            k.round = sent;
            k.most = least;
        }
    }

    /// The timeout, backoff included; `None`: there is no timer.
    pub(crate) fn timeout(&self) -> Option<Span> {
        let view = self.rtt.view();
        let sampled = !view.smoothed.is_zero();
        let doubled = |base: Span| (base * (1 << self.backoff.min(20))).min(self.timeout.most);
        Some(match self.timeout.rule {
            TimeoutRule::Never => return None,
            TimeoutRule::Fixed(span) => span,
            TimeoutRule::Kernel(_) | TimeoutRule::Rfc(_) if !sampled => doubled(self.timeout.first),
            TimeoutRule::Kernel(_) => doubled(view.smoothed + Span::from_nanos(self.kernel.kept)),
            TimeoutRule::Rfc(least) => doubled((view.smoothed + view.variance * 4).max(least)),
            TimeoutRule::Multiple(..) if !sampled => self.timeout.first,
            TimeoutRule::Multiple(times, least, most) => (view.latest * times).max(least).min(most),
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

    fn after(timeout: Timeout, samples: &[u64]) -> RoundTrip {
        let mut rtt = RoundTrip::new(timeout);
        for (n, sample) in (1..).zip(samples) {
            rtt.sample(ms(*sample), n, n);
        }
        rtt
    }

    #[test]
    fn vectors_of_rfc_6298() {
        let timeout = Timeout {
            rule: TimeoutRule::Rfc(ms(1)),
            expiry: Expiry::Probe,
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
        // 500 ms late once: the deviation, times four, becomes 500 ms less its memory of none.
        rtt.sample(ms(600), 60, 200);
        let risen = rtt.timeout().unwrap();
        // Smoothed 162.5, deviation 500.
        assert_eq!(risen.as_micros(), 662_500);
        for _ in 0..40 {
            rtt.sample(ms(100), 100, 200);
        }
        let same_round = rtt.timeout().unwrap();
        assert!(same_round > ms(590), "{same_round}");
        // The round is over: a quarter of the difference is forgotten per round.
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
            rtt.expired();
            seen.push(rtt.timeout().unwrap().as_micros() / 1000);
        }
        assert_eq!(seen[..4], [600, 1200, 2400, 4800]);
        assert_eq!(*seen.last().unwrap(), 120_000);
        rtt.progress();
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
        rtt.expired();
        assert_eq!(rtt.timeout(), Some(ms(500)));
    }
}
