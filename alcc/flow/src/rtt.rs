// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_cc::RttView;
use alcc_units::Span;

/// The RTT estimate of RFC 6298, section 2: weights 1/8 and 1/4.
#[derive(Clone, Debug, Default)]
pub struct RttEstimator {
    view: Option<RttView>,
    samples: u64,
}

impl RttEstimator {
    /// Takes a sample. Zero samples are ignored.
    #[inline]
    pub fn sample(&mut self, rtt: Span) {
        if rtt.is_zero() {
            return;
        }
        self.samples += 1;
        let Some(view) = &mut self.view else {
            self.view = Some(RttView {
                latest: rtt,
                smoothed: rtt,
                variance: rtt / 2,
                min: rtt,
            });
            return;
        };
        let deviation = view
            .smoothed
            .saturating_sub(rtt)
            .max(rtt.saturating_sub(view.smoothed));
        view.variance = (view.variance / 4) * 3 + deviation / 4;
        view.smoothed = (view.smoothed / 8) * 7 + rtt / 8;
        view.latest = rtt;
        view.min = view.min.min(rtt);
    }

    /// Number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The estimate; all zero before the first sample.
    #[inline]
    pub fn view(&self) -> RttView {
        self.view.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_rfc_6298() {
        let mut rtt = RttEstimator::default();
        let us = |v: Span| v.as_micros();
        rtt.sample(Span::from_millis(100));
        assert_eq!(
            (us(rtt.view().smoothed), us(rtt.view().variance)),
            (100_000, 50_000)
        );
        rtt.sample(Span::from_millis(120));
        assert_eq!(
            (us(rtt.view().smoothed), us(rtt.view().variance)),
            (102_500, 42_500)
        );
        rtt.sample(Span::from_millis(80));
        assert_eq!(
            (us(rtt.view().smoothed), us(rtt.view().variance)),
            (99_687, 37_500)
        );
        rtt.sample(Span::from_millis(300));
        assert_eq!(
            (us(rtt.view().smoothed), us(rtt.view().variance)),
            (124_726, 78_203)
        );
        assert_eq!(rtt.view().min, Span::from_millis(80));
    }
}
