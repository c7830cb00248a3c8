// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prague reacts to marks in proportion to their share, as DCTCP does, and to losses as Reno does.
//! Source: draft-briscoe-iccrg-prague-congestion-control-04 (July 2024); RFC 9331, section 4.
//!
//! The marked share of arriving data is averaged. A round trip with marks reduces the window by
//! half of that share. Only data without a mark makes the window grow. With an RTT below 25 ms a
//! flow grows as if it were 25 ms.
//!
//! | constant | value | source |
//! |---|---|---|
//! | weight of the newest share | 1/16 per virtual RTT | section 2.3.2, g |
//! | share at the first mark | 1 | section 2.3.2; RFC 8257, section 3.3 |
//! | left by a round trip with marks | 1 - share / 2 | section 2.3.2 |
//! | growth without marks | (RTT / virtual RTT)^2 segments per round trip | section 2.4.4 |
//! | smallest virtual RTT | 25 ms | section 2.4.4 |
//! | left by a loss | 1/2 | RFC 9331, section 4.3: as Reno |
//! | pace: slow start, then | 2 windows per round trip, then 1 | section 2.4.1 |
//! | initial window | 10 packets | RFC 6928 |
//!
//! **Differs from the draft**: packets are sent as ECT(0), since no queue here is an L4S one. The
//! reaction to marks of a classic queue is also by their share, so beside Cubic behind CoDel it
//! takes more than its part. The virtual RTT applies from the start, not after 500 round trips. The
//! reaction to a loss shortly after marks is not reduced. The window is reduced once per window of
//! data.
//!
//! **Known weakness**: without marks on the path it is Reno, and fills every buffer.
use alcc_cc::parts::{Growth, LossBased, Window};
use alcc_cc::{AckBatch, Algorithm, Build, Built, Cx, Instance, Options};
use alcc_units::{Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "prague",
    summary: "Prague: responds to the share of marked packets, and to losses as Reno",
    profiles: Cow::Borrowed(&[]),
    options: &[],
    build: Build::Function(build),
};

const GAIN: f64 = 1.0 / 16.0;
const VIRTUAL_RTT: Span = Span::from_millis(25);

#[derive(Clone, Default)]
struct Prague {
    /// Averaged share of marks, 0 to 1; `None` before the first mark.
    share: Option<f64>,
    /// Bytes that have arrived since the last update, and those of them that are marked.
    arrived: u64,
    marked: u64,
    updated: Option<Time>,
    /// Unmarked share of the batch for which the window grows.
    unmarked: f64,
}

fn build(_: &Options<'_>) -> Built {
    Ok(Instance::new(LossBased::new(Prague::default())))
}

fn virtual_rtt(w: &Window) -> Span {
    w.rtt.smoothed.max(VIRTUAL_RTT)
}

impl Prague {
    fn update(&mut self, now: Time, w: &Window) {
        let since = *self.updated.get_or_insert(now);
        if now.since(since) < virtual_rtt(w) || self.arrived == 0 {
            return;
        }
        let newest = self.marked as f64 / self.arrived as f64;
        if let Some(share) = &mut self.share {
            *share += GAIN * (newest - *share);
        }
        (self.arrived, self.marked, self.updated) = (0, 0, Some(now));
    }
}

impl Growth for Prague {
    const PACED: bool = true;

    fn on_ack(&mut self, cx: &mut Cx<'_>, w: &mut Window, ack: &AckBatch<'_>, _used: bool) {
        let bytes: u64 = ack.acked.iter().map(|p| p.len.get()).sum();
        let marked = ack.marked.get().min(bytes);
        self.unmarked = 1.0 - marked as f64 / bytes.max(1) as f64;
        self.arrived = self.arrived.saturating_add(bytes);
        self.marked = self.marked.saturating_add(marked);
        self.update(cx.now, w);
    }

    fn congestion_avoidance(&mut self, _cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        let short = w.rtt.smoothed.as_secs_f64() / virtual_rtt(w).as_secs_f64();
        let short = if w.rtt.smoothed.is_zero() { 1.0 } else { short };
        w.cwnd += segments * self.unmarked * short * short / w.cwnd.max(1.0);
    }

    fn ssthresh(&mut self, _w: &Window, flight: f64) -> f64 {
        flight / 2.0
    }

    fn after_marks(&mut self, w: &Window, _flight: f64) -> Option<f64> {
        let share = *self.share.get_or_insert(1.0);
        Some(w.cwnd * (1.0 - share / 2.0))
    }

    fn pace(&self, w: &Window) -> Option<f64> {
        let gain = if w.in_slow_start() { 2.0 } else { 1.0 };
        let rtt = w.rtt.smoothed.as_secs_f64();
        (rtt > 0.0).then(|| gain * w.cwnd / rtt)
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("marked_share", self.share.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, MSS};
    use alcc_units::{Bytes, Rate};

    #[test]
    fn the_first_mark_halves_and_later_ones_take_half_of_their_share() {
        let mut b = Bench::of("prague");
        (0..3).for_each(|_| b.round());
        assert_eq!(b.window(), 80.0);
        b.marked = MSS;
        b.ack(b.rtt);
        b.marked = Bytes::ZERO;
        assert_eq!((b.window(), b.gauge("marked_share")), (40.0, 1.0));
        // Without marks a segment per round trip, and the share falls by a sixteenth.
        b.round();
        b.round();
        let share = b.gauge("marked_share");
        assert!((0.87..0.95).contains(&share), "{share}");
        assert!((40.0..=42.0).contains(&b.window()), "{}", b.window());
    }

    #[test]
    fn the_share_moves_by_a_sixteenth_of_the_difference() {
        let mut p = Prague {
            share: Some(0.5),
            ..Prague::default()
        };
        let mut w = window(100);
        p.update(Time::ZERO, &w);
        (p.arrived, p.marked) = (1000, 250);
        p.update(Time::from_millis(99), &w);
        assert_eq!(p.share, Some(0.5));
        p.update(Time::from_millis(100), &w);
        // 0.5 + (0.25 - 0.5) / 16.
        assert_eq!(p.share, Some(0.484_375));
        assert_eq!(
            p.after_marks(&w, 0.0),
            Some(100.0 * (1.0 - 0.484_375 / 2.0))
        );
        // Less than a virtual RTT of 25 ms.
        w.rtt.smoothed = Span::from_millis(5);
        (p.arrived, p.marked) = (1000, 1000);
        p.update(Time::from_millis(120), &w);
        assert_eq!(p.share, Some(0.484_375));
    }

    fn window(rtt_ms: u64) -> Window {
        Window {
            cwnd: 100.0,
            ssthresh: 50.0,
            mss: MSS,
            rtt: alcc_cc::RttView {
                smoothed: Span::from_millis(rtt_ms),
                ..alcc_cc::RttView::default()
            },
            sent: 0,
            sent_segments: 0,
        }
    }

    #[test]
    fn growth_and_pace() {
        let (now, log) = (Time::ZERO, &mut alcc_cc::Discard);
        let cx = &mut Cx { now, log };
        let mut p = Prague {
            unmarked: 1.0,
            ..Prague::default()
        };
        let mut w = window(100);
        p.congestion_avoidance(cx, &mut w, 100.0);
        assert_eq!(w.cwnd, 101.0);
        // At 5 ms a 25th of it; marked ones do not count.
        let mut w = window(5);
        p.unmarked = 0.5;
        p.congestion_avoidance(cx, &mut w, 100.0);
        assert!((w.cwnd - 100.02).abs() < 1e-9, "{}", w.cwnd);
        // 101 packets of 1000 bytes in 100 ms.
        let mut b = Bench::of("prague");
        b.round();
        b.lose_one();
        b.recovered();
        assert_eq!(b.window(), 10.0);
        assert_eq!(b.cc.allowance().rate, Some(Rate::bps(800_000)));
    }
}
