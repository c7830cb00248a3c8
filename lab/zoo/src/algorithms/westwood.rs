// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Westwood+: Reno that measures the rate, and after a loss sets the window to the measured
//! bandwidth-delay product. Grieco and Mascolo, ACM CCR 2004, in the form of Linux
//! (`tcp_westwood`).
//!
//! The delivery rate is measured once per round trip and filtered twice. The product with the
//! smallest RTT is the window without a queue. It becomes the window and the threshold when a loss
//! has been repaired, and the threshold after a timeout.
//!
//! | constant | value | source |
//! |---|---|---|
//! | interval of a sample | one RTT, at least 50 ms | tcp_westwood, TCP_WESTWOOD_RTT_MIN |
//! | filters | two in a row, weight 1/8 | westwood_do_filter |
//! | smallest window after a loss | 2 packets | tcp_westwood_bw_rttmin |
//! | during recovery; growth | 1/2 of what was in flight; as `reno` of the same profile | RFC 5681 |
//! | during recovery, `linux-2.6.24` | the measured product, at most Reno's half | tcp_westwood_bw_rttmin as min_cwnd |
//! | initial window, packets | 10; `linux-2.6.24` 3 | RFC 6928; RFC 3390 |
//!
//! **Differs from the paper**: as in Linux, the first sample sets both filters. After a timeout the
//! smallest RTT is measured again. **Differs from Linux**: bytes are counted as the host delivers
//! them (selective acknowledgements included). The window grows only if it limited the sender.
//!
//! **Known weakness**: between losses it fills every buffer, like Reno. On a path whose rate has
//! just dropped, the filters still contain the old one.
use alcc_cc::parts::{self, Growth, Kernel, LossBased, MIN_SSTHRESH, Reno, Window};
use alcc_cc::{AckBatch, Algorithm, Build, Built, Cx, Instance, Options, Packet};
use alcc_units::{Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "westwood",
    summary: "Westwood+: Reno that resumes with the measured bandwidth-delay product",
    profiles: Cow::Borrowed(&["linux", "linux-3.16", "linux-2.6.24"]),
    options: &[],
    build: Build::Function(build),
};

alcc_cc::constants! { WESTWOOD:
    /// Shortest time of a sample of the rate (TCP_WESTWOOD_RTT_MIN).
    MIN_SAMPLE: Span = Span::from_millis(50);
}

#[derive(Clone, Default)]
struct Westwood {
    reno: Reno,
    /// True if during recovery the window may fall to the measured product (2.6.24).
    floor: bool,
    /// The two filters, bytes per second.
    filters: Option<(f64, f64)>,
    least: Option<Span>,
    since: Option<Time>,
    bytes: u64,
}

fn build(options: &Options<'_>) -> Built {
    let kernel = parts::kernel(options.profile());
    let westwood = Westwood {
        reno: Reno::of(&kernel),
        floor: kernel == Kernel::LINUX_2_6_24,
        ..Westwood::default()
    };
    Ok(Instance::new(LossBased::of(kernel, westwood)))
}

impl Westwood {
    fn sample(&mut self, rate: f64) {
        self.filters = Some(self.filters.map_or((rate, rate), |(first, second)| {
            let first = (7.0 * first + rate) / 8.0;
            (first, (7.0 * second + first) / 8.0)
        }));
    }

    /// The measured bandwidth-delay product, packets.
    fn bdp(&self, w: &Window) -> f64 {
        let rate = self.filters.map_or(0.0, |(_, rate)| rate);
        let least = self.least.unwrap_or_default().as_secs_f64();
        libm::trunc(rate * least / w.mss.get().max(1) as f64).max(MIN_SSTHRESH)
    }
}

impl Growth for Westwood {
    fn on_ack(&mut self, cx: &mut Cx<'_>, _w: &mut Window, ack: &AckBatch<'_>, _used: bool) {
        let since = *self.since.get_or_insert(cx.now);
        let span = cx.now.since(since);
        if span > ack.rtt.latest.max(MIN_SAMPLE) {
            self.sample(self.bytes as f64 / span.as_secs_f64());
            (self.since, self.bytes) = (Some(cx.now), 0);
        }
        let bytes: u64 = ack.acked.iter().map(|p| p.len.get()).sum();
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn on_packet_acked(&mut self, _cx: &mut Cx<'_>, _w: &mut Window, packet: &Packet) {
        if let Some(rtt) = packet.rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        }
    }

    fn congestion_avoidance(&mut self, cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        self.reno.congestion_avoidance(cx, w, segments);
    }

    fn ssthresh(&mut self, w: &Window, flight: f64) -> f64 {
        self.reno.ssthresh(w, flight)
    }

    /// Rate halving ends at the bandwidth-delay product.
    fn recovery_cwnd(&self, w: &Window) -> f64 {
        if self.floor {
            self.bdp(w).min(w.ssthresh)
        } else {
            w.ssthresh
        }
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, w: &mut Window) {
        w.cwnd = self.bdp(w);
        w.ssthresh = w.cwnd;
    }

    fn on_rto(&mut self, _cx: &mut Cx<'_>, w: &mut Window) {
        w.ssthresh = self.bdp(w);
        self.least = None;
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        let rate = self.filters.map_or(0.0, |(_, rate)| rate);
        put("rate_mbps", rate * 8.0 / 1e6);
        put("rtt_min_ms", self.least.unwrap_or_default().as_millis_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use alcc_units::Bytes;

    #[test]
    fn two_filters_and_the_window_of_the_empty_path() {
        let mut c = Westwood {
            least: Some(Span::from_millis(50)),
            ..Westwood::default()
        };
        let w = Window {
            cwnd: 10.0,
            ssthresh: 10.0,
            mss: Bytes::new(1460),
            rtt: alcc_cc::RttView::default(),
            sent: 0,
            sent_segments: 0,
        };
        assert_eq!(c.bdp(&w), 2.0);
        c.sample(100e3);
        c.sample(150e3);
        // 7/8 * 100 + 150/8 = 106.25, and that filtered again; 100.78 kB/s * 50 ms = 3.45 packets.
        assert_eq!(c.filters, Some((106.25e3, 100.781_25e3)));
        assert_eq!(c.bdp(&w), 3.0);
        (c.filters, c.least) = (Some((0.0, 180e3)), Some(Span::from_millis(100)));
        assert_eq!(c.bdp(&w), 12.0);
    }

    #[test]
    fn while_repairing_an_old_kernel_goes_down_to_the_product() {
        let (mut new, mut old) = (
            Bench::of("westwood"),
            Bench::of("westwood:profile=linux-2.6.24"),
        );
        for b in [&mut new, &mut old] {
            (0..5).for_each(|_| b.round());
            b.lose_one();
        }
        // 320 and 96 packets; the rate is filtered from the first rounds, far below.
        assert_eq!(new.window(), 160.0);
        assert!(old.window() < 40.0, "{}", old.window());
    }

    #[test]
    fn after_a_loss_the_window_is_what_the_path_holds() {
        let mut b = Bench::of("westwood");
        for _ in 0..3 {
            b.round();
        }
        b.lose_one();
        assert_eq!(b.window(), 40.0);
        b.recovered();
        // The last round's rate is 40 packets in 100 ms at most; filtered, less.
        let w = b.window();
        assert!((2.0..=40.0).contains(&w), "{w}");
        assert_eq!(b.gauge("ssthresh"), w);
        b.timeout(1);
        assert_eq!(b.window(), 1.0);
        assert_eq!(b.gauge("rtt_min_ms"), 0.0);
    }
}
