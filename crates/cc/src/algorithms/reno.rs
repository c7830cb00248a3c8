// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NewReno: additive increase, multiplicative decrease. RFC 5681 (window), RFC 6582 (one reduction per loss episode).
//!
//! One packet more per round trip, half of the window on loss; slow start doubles per round trip below the threshold. Loss
//! detection and the shape of recovery belong to the host (proportional rate reduction, RFC 6937).
//!
//! | constant | value | source |
//! |---|---|---|
//! | initial window | 10 packets | RFC 6928 |
//! | decrease | 1/2 of the window | Linux; RFC 5681, eq. 4, takes what was in flight |
//! | smallest threshold | 2 packets | RFC 5681, eq. 4 |
//! | window after a timeout | 1 packet | RFC 5681, section 3.1 |
//!
//! **Differs from the text**: growth counts acknowledged segments, not acknowledgements (RFC 3465, unlimited); the window does
//! not grow unless it was what limited the sender; after idling it is halved per timeout instead of reset (Linux).
//!
//! **Known weakness**: fills every buffer; one lost packet per window at random holds it at 1.2/sqrt(p) packets.
use crate::parts::{Growth, LossBased, Window};
use crate::{Algorithm, Controller, Cx, Options, SpecError};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "reno",
    summary: "NewReno: one packet more per round trip, half of the window on loss",
    profiles: &[],
    options: &[],
    build,
};

#[derive(Clone, Default)]
pub(super) struct Reno {
    /// Acknowledged segments not yet turned into growth.
    credit: f64,
}

fn build(_: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    Ok(Box::new(LossBased::new(Reno::default())))
}

impl Growth for Reno {
    fn avoid(&mut self, _cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        self.credit += segments;
        while self.credit >= w.cwnd {
            self.credit -= w.cwnd;
            w.cwnd += 1.0;
        }
    }

    fn reduce(&mut self, w: &Window, _flight: f64) -> f64 {
        self.credit = 0.0;
        w.cwnd / 2.0
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn slow_start_doubles_then_one_packet_per_round() {
        let mut b = Bench::of("reno");
        b.round();
        assert_eq!(b.window(), 20.0);
        b.round();
        assert_eq!(b.window(), 40.0);
        b.lose_one();
        assert_eq!(b.window(), 20.0);
        b.recovered();
        for expected in [21.0, 22.0, 23.0] {
            b.round();
            assert_eq!(b.window(), expected);
        }
    }

    #[test]
    fn one_reduction_per_episode_and_none_below_two() {
        let mut b = Bench::of("reno");
        b.lose_one();
        b.lose_more();
        assert_eq!(b.window(), 5.0);
        for expected in [2.5, 2.0, 2.0] {
            b.recovered();
            b.lose_one();
            assert_eq!(b.window(), expected);
        }
    }

    #[test]
    fn a_timeout_restarts_at_one_and_remembers_half() {
        let mut b = Bench::of("reno");
        b.timeout(1);
        assert_eq!((b.window(), b.gauge("ssthresh")), (1.0, 5.0));
        b.timeout(2);
        assert_eq!((b.window(), b.gauge("ssthresh")), (1.0, 5.0));
        for expected in [2.0, 4.0, 5.0, 6.0] {
            b.round();
            assert_eq!(b.window(), expected);
        }
    }

    #[test]
    fn a_mistaken_reduction_is_undone() {
        let mut b = Bench::of("reno");
        b.round();
        b.lose_one();
        b.spurious();
        assert_eq!(b.window(), 20.0);
        b.round();
        assert_eq!(b.window(), 40.0);
    }

    #[test]
    fn an_application_that_sends_little_does_not_grow_the_window() {
        let mut b = Bench::of("reno");
        b.application_limited_round(10);
        assert_eq!(b.window(), 10.0);
    }
}
