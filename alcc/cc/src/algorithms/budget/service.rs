// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::{Span, Time};

constants! { SERVICE:
    /// Time resolution of the measurements.
    BUCKET: Span = Span::from_millis(10);
    /// Number of buckets kept, as the longest mean needs.
    KEPT: usize = 200;
    /// The long mean is over this part of the flow's age.
    OF_AGE: u64 = 5;
    /// Fewest buckets of the long mean, so that an unequal start is soon forgotten.
    LEAST: u64 = 50;
    /// Shortest round trip for the short mean.
    TRIP: Span = Span::from_millis(100);
    /// Samples from which the quantile is taken: one second of them.
    SAMPLES: usize = 100;
    /// The quantile.
    QUANTILE: f64 = 0.95, of 100;
    /// A sample covers the smallest RTT, and at least this part of the current RTT.
    OF_TRIP: u64 = 4;
    /// Weight of a sample taken while the queue held no packet of this flow.
    /// The path could have delivered more than there was.
    STARVED: f32 = 1.3, of 10;
    /// Longest silence that counts, in smallest RTTs.
    SILENCE: u64 = 4;
}

/// Delivery rate of the path, packets per second: a quantile of its samples, and its mean. Its
/// clock runs only while something is delivered, so that an outage ages nothing.
#[derive(Clone)]
pub(super) struct Service {
    /// Packets delivered in each bucket (ring buffer).
    packets: [f32; KEPT],
    /// Sample of the rate at the end of each bucket (ring buffer).
    samples: [f32; SAMPLES],
    /// Number of the current bucket; earlier ones are complete.
    bucket: u64,
    clock: Span,
    at: Option<Time>,
    delivering: f32,
    starved: bool,
    /// The 95 % quantile of the samples of the last second.
    pub(super) high: f64,
    /// The mean rate. It is the larger of the means over two seconds (or a fifth of the flow's age
    /// if that is less, at least half a second) and over a round trip (at least a tenth of a
    /// second).
    pub(super) mean: f64,
}

impl Service {
    pub(super) fn new() -> Self {
        Self {
            packets: [0.0; KEPT],
            samples: [0.0; SAMPLES],
            bucket: 0,
            clock: Span::ZERO,
            at: None,
            delivering: 0.0,
            starved: false,
            high: 0.0,
            mean: 0.0,
        }
    }

    /// Skips time without information, for example a drain.
    pub(super) fn pass(&mut self, now: Time) {
        self.at = Some(now);
    }

    /// `packets` were acknowledged at `now`, the last of them after `rtt`. `starved`: the first was
    /// not queued behind another of this flow.
    pub(super) fn delivered(
        &mut self,
        now: Time,
        packets: f64,
        base: Span,
        rtt: Span,
        starved: bool,
    ) {
        self.starved |= starved;
        let gap = self.at.map_or(Span::ZERO, |at| now.since(at));
        self.at = Some(now);
        self.clock += gap.min(base.max(BUCKET) * SILENCE);
        let bucket = self.clock.as_nanos() / BUCKET.as_nanos();
        if bucket > self.bucket {
            self.close(bucket, base, rtt);
        }
        self.delivering += packets as f32;
    }

    fn close(&mut self, bucket: u64, base: Span, rtt: Span) {
        // The kept samples cover this many buckets.
        let seen = bucket.saturating_sub((KEPT + SAMPLES) as u64);
        if seen > self.bucket {
            // All of these buckets are empty.
            self.packets.fill(0.0);
            self.delivering = 0.0;
        }
        for i in self.bucket.max(seen)..bucket {
            self.packets[(i % KEPT as u64) as usize] = std::mem::take(&mut self.delivering);
            let rate = self.over(i, base.max(rtt / OF_TRIP)) as f32;
            self.samples[(i % SAMPLES as u64) as usize] =
                if self.starved { rate * STARVED } else { rate };
        }
        self.starved = false;
        self.bucket = bucket;
        let known = (bucket as usize).min(SAMPLES);
        let mut sorted = self.samples;
        let index = ((known as f64 * QUANTILE) as usize).min(known - 1);
        let (_, high, _) = sorted[..known].select_nth_unstable_by(index, f32::total_cmp);
        self.high = f64::from(*high);
        let last = bucket - 1;
        let long = (bucket / OF_AGE).clamp(LEAST, KEPT as u64);
        let trip = rtt.max(TRIP);
        self.mean = self.over(last, BUCKET * long).max(self.over(last, trip));
    }

    /// The rate over the `span` that ended with bucket `last`, or over the part of it that is
    /// known.
    fn over(&self, last: u64, span: Span) -> f64 {
        let nanos = BUCKET.as_nanos();
        let n = ((span.as_nanos() + nanos / 2) / nanos).clamp(1, KEPT as u64);
        let n = n.min(last + 1);
        let packets: f32 = (last + 1 - n..=last)
            .map(|i| self.packets[(i % KEPT as u64) as usize])
            .sum();
        f64::from(packets) / (BUCKET * n).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Span = Span::from_millis(40);

    fn deliver(s: &mut Service, ms: std::ops::Range<u64>, packets: f64, starved: bool) {
        for ms in ms {
            s.delivered(Time::from_millis(ms), packets, BASE, BASE, starved);
        }
    }

    #[test]
    fn a_steady_path() {
        let mut s = Service::new();
        deliver(&mut s, 0..2500, 1.0, false);
        assert!((s.high - 1000.0).abs() < 1.0, "{}", s.high);
        assert!((s.mean - 1000.0).abs() < 1.0, "{}", s.mean);
    }

    #[test]
    fn bunches_raise_the_quantile_and_not_the_mean() {
        let mut s = Service::new();
        // 100 packets every 100 ms, all at once: some 40 ms window has all of them.
        for ms in (0..3000).step_by(100) {
            deliver(&mut s, ms..ms + 1, 100.0, false);
            deliver(&mut s, ms + 1..ms + 100, 0.0, false);
        }
        assert!((s.high - 2500.0).abs() < 1.0, "{}", s.high);
        assert!((s.mean - 1000.0).abs() < 60.0, "{}", s.mean);
    }

    #[test]
    fn a_starved_sample_counts_for_more() {
        let mut s = Service::new();
        deliver(&mut s, 0..2500, 1.0, true);
        assert!((s.high - 1300.0).abs() < 2.0, "{}", s.high);
    }

    #[test]
    fn an_outage_ages_nothing() {
        let mut s = Service::new();
        deliver(&mut s, 0..12_500, 1.0, false);
        // Ten seconds of silence count for 160 ms: 15 empty buckets of 200, 84 samples of 100 from
        // before.
        deliver(&mut s, 22_500..22_501, 1.0, false);
        assert!((s.high - 1000.0).abs() < 1.0, "{}", s.high);
        assert!((s.mean - 925.0).abs() < 1.0, "{}", s.mean);
    }

    #[test]
    fn the_mean_of_a_young_flow_forgets_sooner() {
        let mut s = Service::new();
        deliver(&mut s, 0..3000, 1.0, false);
        deliver(&mut s, 3000..3600, 0.5, false);
        // A fifth of 3.6 s: 12 buckets at the old rate, 59 and one that is open at the new one.
        assert!((s.mean - 585.0).abs() < 10.0, "{}", s.mean);
        deliver(&mut s, 3600..20_000, 0.5, false);
        deliver(&mut s, 20_000..21_000, 1.0, false);
        let mut later = s.clone();
        deliver(&mut later, 21_000..22_000, 0.5, false);
        // Two seconds of an old one, and the round trip's rate is lower.
        assert!((later.mean - 750.0).abs() < 10.0, "{}", later.mean);
    }

    /// As `Delivery` of docs/budget.md has it: nothing is forgotten, and all is gone through.
    #[derive(Default)]
    struct Page {
        buckets: Vec<f64>,
        samples: Vec<f64>,
        open: f64,
        clock: u64,
        at: Option<u64>,
    }

    impl Page {
        fn delivered(&mut self, now: u64, packets: f64, base: u64, rtt: u64) -> Option<[f64; 2]> {
            let gap = now - self.at.unwrap_or(now);
            self.clock += gap.min(4 * base.max(10));
            self.at = Some(now);
            let over = self.clock / 10 - self.buckets.len() as u64;
            for _ in 0..over {
                self.buckets.push(std::mem::take(&mut self.open));
                self.samples.push(self.rate(base.max(rtt / OF_TRIP)));
            }
            self.open += packets;
            let mut last = self.samples[self.samples.len().saturating_sub(100)..].to_vec();
            last.sort_by(f64::total_cmp);
            let index = (0.95 * last.len() as f64) as usize;
            let high = *last.get(index.min(last.len().max(1) - 1))?;
            let age = 10 * self.buckets.len() as u64;
            let long = (age / 50 * 10).clamp(500, 2000);
            let mean = self.rate(long).max(self.rate(rtt.max(100)));
            (over > 0).then_some([high, mean])
        }

        fn rate(&self, span: u64) -> f64 {
            let n = ((span + 5) / 10).clamp(1, 200) as usize;
            let n = n.min(self.buckets.len());
            self.buckets[self.buckets.len() - n..].iter().sum::<f64>() / (n as f64 * 0.01)
        }
    }

    /// With an RTT above half a second a silence may be longer than the longest mean.
    #[test]
    fn a_long_silence_counts_as_on_the_page() {
        let mut rng = alcc_units::Rng::new(7);
        for base in [20, 400, 525, 700, 800, 3000] {
            let (mut s, mut page) = (Service::new(), Page::default());
            let mut now = 0;
            for n in 0..3_000 {
                let silence = if n % 500 == 499 { 20_000 } else { 0 };
                now += silence + rng.below(40);
                let (packets, rtt) = (rng.below(30) as f64, base + rng.below(2 * base));
                let spans = [base, rtt].map(Span::from_millis);
                s.delivered(Time::from_millis(now), packets, spans[0], spans[1], false);
                let Some([high, mean]) = page.delivered(now, packets, base, rtt) else {
                    continue;
                };
                assert!((s.high - high).abs() < 0.1, "{base} {n}: {} {high}", s.high);
                assert!((s.mean - mean).abs() < 0.1, "{base} {n}: {} {mean}", s.mean);
            }
        }
    }

    #[test]
    fn any_jump_of_the_clock_is_taken() {
        let mut s = Service::new();
        for (ms, base) in [(0, 0), (1, 600_000), (10_000_000, 600_000), (10_000_001, 1)] {
            let base = Span::from_millis(base);
            s.delivered(Time::from_millis(ms), 1e6, base, base * 3, true);
            assert!(s.high.is_finite() && s.mean.is_finite());
        }
    }
}
