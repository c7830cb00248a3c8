// SPDX-License-Identifier: Apache-2.0 OR MIT
//! NewReno: additive increase, multiplicative decrease. RFC 5681 (window), RFC 6582 (one reduction
//! per loss episode).
//!
//! The window grows by one packet per round trip, and halves on loss. Below the threshold, slow
//! start doubles it per round trip. Loss detection and the shape of recovery belong to the host
//! (proportional rate reduction, RFC 6937).
//!
//! | constant | `linux` | `linux-3.16` | `linux-2.6.24` | `windows7-newreno` | source |
//! |---|---|---|---|---|---|
//! | initial window, packets | 10 | 10 | 3 | 2 | RFC 6928; RFC 3390; RFC 2581 (from memory) |
//! | decrease | 1/2 of the window | same | same | 1/2 of what was in flight | tcp_reno_ssthresh; RFC 5681, eq. 4 |
//! | slow start grows by | a packet per segment | same, and at the threshold | one per acknowledgement, and at the threshold | a packet per segment | RFC 3465; tcp_slow_start |
//! | then by one per | w segments | w + 1 acknowledgements | same | w segments | tcp_cong_avoid_ai |
//! | after a pause | halved per timeout | same | same | initial window | RFC 2861; RFC 5681, section 4.1 |
//! | smallest threshold; after a timeout | 2; 1 packet | same | same | same | RFC 5681, eq. 4, section 3.1 |
//!
//! **Differs from the text**: growth counts acknowledged segments, not acknowledgements (RFC 3465,
//! unlimited). The window grows only if it limited the sender. Other differences of these systems
//! (loss detection, the shape of recovery, timers) belong to the host.
//!
//! **Known weakness**: fills every buffer; one lost packet per window at random holds it at
//! 1.2/sqrt(p) packets.
use crate::parts::{Credit, Growth, Kernel, LossBased, Window};
use crate::{Algorithm, Build, Built, Cx, Instance, Options};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "reno",
    summary: "NewReno: one more packet per round trip, half of the window on loss",
    profiles: Cow::Borrowed(&["linux", "linux-3.16", "linux-2.6.24", "windows7-newreno"]),
    options: &[],
    build: Build::Function(build),
};

/// NewReno's rule for a window.
#[derive(Clone, Default)]
pub struct Reno {
    credit: Credit,
    /// Growth takes w + 1 acknowledgements, in whole packets.
    old: bool,
    /// A loss halves the flight size (RFC 5681), not the window.
    of_flight: bool,
}

impl Reno {
    /// NewReno of this kernel.
    pub fn of(kernel: &Kernel) -> Self {
        Self {
            old: kernel.counts_ones(),
            of_flight: kernel.halves_flight,
            ..Self::default()
        }
    }
}

/// The kernel that a profile names.
pub fn kernel(profile: &str) -> Kernel {
    match profile {
        "linux-3.16" => Kernel::LINUX_3_16,
        "linux-2.6.24" => Kernel::LINUX_2_6_24,
        "windows7-newreno" => Kernel::WINDOWS_7,
        _ => Kernel::LINUX,
    }
}

fn build(options: &Options<'_>) -> Built {
    let kernel = kernel(options.profile());
    Ok(Instance::new(LossBased::of(kernel, Reno::of(&kernel))))
}

impl Growth for Reno {
    fn congestion_avoidance(&mut self, _cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        let period = w.cwnd as u64;
        let grown = if self.old {
            self.credit.add_one(period)
        } else {
            self.credit.add(segments as u64, period)
        };
        w.cwnd += grown as f64;
    }

    fn ssthresh(&mut self, w: &Window, flight: f64) -> f64 {
        self.credit.clear();
        if self.old {
            libm::floor(w.cwnd / 2.0)
        } else if self.of_flight {
            flight / 2.0
        } else {
            w.cwnd / 2.0
        }
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
    fn old_kernels_begin_small_and_count_acknowledgements() {
        let mut b = Bench::of("reno:profile=linux-2.6.24");
        assert_eq!(b.window(), 3.0);
        b.round();
        assert_eq!(b.window(), 6.0);
        b.lose_one();
        b.recovered();
        assert_eq!((b.window(), b.gauge("ssthresh")), (3.0, 3.0));
        // At the threshold slow start goes on for one packet; then four acknowledgements and one
        // more make a fifth.
        b.acks(1);
        assert_eq!(b.window(), 4.0);
        b.acks(4);
        assert_eq!(b.window(), 4.0);
        b.acks(1);
        assert_eq!(b.window(), 5.0);
    }

    #[test]
    fn windows_begins_anew_after_a_pause() {
        let mut b = Bench::of("reno:profile=windows7-newreno");
        assert_eq!(b.window(), 2.0);
        (0..3).for_each(|_| b.round());
        assert_eq!(b.window(), 16.0);
        b.pause(alcc_units::Span::from_secs(1));
        assert_eq!(b.window(), 2.0);
        let mut b = Bench::of("reno");
        b.round();
        b.pause(alcc_units::Span::from_secs(1));
        assert_eq!(b.window(), 10.0);
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

    /// One packet in 600 is lost, so the window saws between 20 and 40 packets. On average it is
    /// sqrt(3/2 * 600) = 30 (Mathis et al., 1997).
    #[test]
    fn the_mean_window_of_periodic_loss() {
        let mut b = Bench::of("reno");
        assert_eq!(b.mean_window_when_one_is_lost_in(600, 200_000), 30);
    }
}
