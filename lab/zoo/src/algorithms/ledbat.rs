// SPDX-License-Identifier: Apache-2.0 OR MIT
//! LEDBAT++: a scavenger that keeps the queue below a target and yields to all other flows. IETF
//! draft-irtf-iccrg-ledbat-plus-plus (-06), which improves RFC 6817.
//!
//! The queueing delay is the RTT minus the smallest of ten minutes. Below the target the window
//! grows by a fraction of a packet per round trip. Above it, it shrinks in proportion to the
//! excess, by half at most. Slow start ends at three quarters of the target. From time to time it
//! reduces its window to two packets for two round trips, to measure the path without its own
//! queue.
//!
//! | constant | value | source |
//! |---|---|---|
//! | target | 60 ms | section 4.2 of the draft |
//! | gain | 1 / min(16, ceil(2 target / base)) packets per RTT | section 4.1 |
//! | decrease per RTT above the target | gain - w (q/target - 1), at most w/2 | section 4.2 |
//! | slow start ends | above 3/4 of the target; grows by gain per packet | section 4.3 |
//! | first slowdown; length; next | 2 RTT after slow start; 2 RTT; after 9 times the length of the last | section 4.4 |
//! | current delay | smallest of the last 4 samples | RFC 6817, section 4.2 |
//! | base | smallest of 10 one-minute slots | RFC 6817, section 4.2 |
//! | initial and smallest window; decrease on loss | 2 packets; 1/2 | section 4.3; RFC 6817 |
//!
//! **Differs from the draft**: a slowdown counts from its beginning until slow start has brought
//! the window back. The base is a sliding minimum of ten minutes.
//!
//! **Known weakness**: a later flow takes the standing queue of an earlier one for the base until
//! that one reduces its window. On a radio link, jitter above the target holds it at its smallest
//! window.
use alcc_cc::parts::{Growth, LossBased, Window, WindowedMin};
use alcc_cc::{Algorithm, Build, Built, Cx, Event, Instance, Options, Packet};
use alcc_units::{Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "ledbat",
    summary: "LEDBAT++: a scavenger below 60 ms of queue that gives way to others",
    profiles: Cow::Borrowed(&[]),
    options: &[],
    build: Build::Function(build),
};

const TARGET: Span = Span::from_millis(60);
const MIN_GAIN: f64 = 1.0 / 16.0;
const MIN_CWND: f64 = 2.0;
const SAMPLES: usize = 4;
const MEMORY: Span = Span::from_secs(600);
const NEXT_SLOWDOWN: u64 = 9;

#[derive(Clone, Copy, PartialEq)]
enum Slowdown {
    /// No slowdown so far; the first comes two round trips after slow start.
    Never,
    At(Time),
    /// At two packets: the start, and the end.
    Low(Time, Time),
    /// After it: the start; slow start restores the window.
    Back(Time),
}

#[derive(Clone)]
struct Ledbat {
    min_rtt: WindowedMin<Span>,
    latest: [Span; SAMPLES],
    seen: usize,
    slowdown: Slowdown,
}

fn build(_: &Options<'_>) -> Built {
    let growth = Ledbat {
        min_rtt: WindowedMin::new(),
        latest: [Span::MAX; SAMPLES],
        seen: 0,
        slowdown: Slowdown::Never,
    };
    Ok(Instance::new(LossBased::starting_at(MIN_CWND, growth)))
}

fn gain(base: Span) -> f64 {
    let ratio = 2.0 * TARGET.as_secs_f64() / base.as_secs_f64().max(1e-6);
    (1.0 / libm::ceil(ratio)).clamp(MIN_GAIN, 1.0)
}

impl Ledbat {
    fn base(&self) -> Span {
        self.min_rtt.get().unwrap_or_default()
    }

    fn queueing(&self) -> Span {
        let current = self.latest.iter().min().copied().unwrap_or(Span::MAX);
        if current == Span::MAX {
            return Span::ZERO;
        }
        current.saturating_sub(self.base())
    }

    /// The change of a window in a round trip, packets.
    fn per_round(&self, cwnd: f64) -> f64 {
        let (gain, over) = (
            gain(self.base()),
            self.queueing().as_secs_f64() / TARGET.as_secs_f64() - 1.0,
        );
        if over < 0.0 {
            gain
        } else {
            (gain - cwnd * over).max(-cwnd / 2.0)
        }
    }

    fn slow_down(&mut self, cx: &mut Cx<'_>, w: &mut Window) {
        let (now, rtt) = (cx.now, w.rtt.smoothed);
        match self.slowdown {
            Slowdown::At(at) if now >= at => {
                w.ssthresh = w.cwnd.max(MIN_CWND);
                w.cwnd = MIN_CWND;
                self.slowdown = Slowdown::Low(now, now + rtt * 2);
                cx.log.event(now, Event::Mode { to: "slowdown" });
            }
            Slowdown::Low(since, until) if now >= until => {
                self.slowdown = Slowdown::Back(since);
                let why = "slowdown is over";
                cx.log.event(now, Event::SlowStartRestart { why });
            }
            // Also if a reduction was undone in the meantime.
            Slowdown::Low(..) => w.cwnd = MIN_CWND,
            Slowdown::Back(since) if !w.in_slow_start() => {
                self.slowdown = Slowdown::At(now + now.since(since) * NEXT_SLOWDOWN);
            }
            _ => {}
        }
    }
}

impl Growth for Ledbat {
    fn on_packet_acked(&mut self, cx: &mut Cx<'_>, w: &mut Window, packet: &Packet) {
        if let Some(rtt) = packet.rtt {
            self.min_rtt.insert(cx.now, rtt, MEMORY);
            self.latest[self.seen % SAMPLES] = rtt;
            self.seen = self.seen.wrapping_add(1);
        }
        self.slow_down(cx, w);
        if w.in_slow_start() && self.queueing() > TARGET * 3 / 4 {
            w.ssthresh = w.cwnd;
            let (why, window) = ("delay", w.cwnd);
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
        }
        if self.slowdown == Slowdown::Never && !w.in_slow_start() {
            self.slowdown = Slowdown::At(cx.now + w.rtt.smoothed * 2);
        }
    }

    fn grow(&mut self, cx: &mut Cx<'_>, w: &mut Window, _packet: &Packet, segments: f64) {
        if matches!(self.slowdown, Slowdown::Low(..)) {
            return;
        }
        if w.in_slow_start() {
            w.slow_start(segments * gain(self.base()));
        } else {
            self.congestion_avoidance(cx, w, segments);
        }
    }

    fn congestion_avoidance(&mut self, _cx: &mut Cx<'_>, w: &mut Window, segments: f64) {
        let share = (segments / w.cwnd).min(1.0);
        w.cwnd = (w.cwnd + self.per_round(w.cwnd) * share).max(MIN_CWND);
    }

    fn ssthresh(&mut self, w: &Window, _flight: f64) -> f64 {
        w.cwnd / 2.0
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("rtt_min_ms", self.base().as_millis_f64());
        put("queue_ms", self.queueing().as_millis_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn the_gain_follows_the_base() {
        let at = |ms| gain(Span::from_millis(ms));
        assert_eq!(
            [at(5), at(20), at(60), at(120), at(500)],
            [1.0 / 16.0, 1.0 / 6.0, 0.5, 1.0, 1.0]
        );
    }

    fn after(base: u64, now: u64, cwnd: f64) -> f64 {
        let mut c = Ledbat {
            min_rtt: WindowedMin::new(),
            latest: [Span::from_millis(now); SAMPLES],
            seen: 4,
            slowdown: Slowdown::Never,
        };
        c.min_rtt
            .insert(Time::ZERO, Span::from_millis(base), MEMORY);
        c.per_round(cwnd)
    }

    #[test]
    fn below_the_target_the_full_gain_above_it_in_proportion() {
        // Base 120 ms: the gain is 1. 75 ms over the base is a quarter of the target too much: 1 -
        // 10/4.
        let cases = [
            (after(120, 120, 10.0), 1.0),
            (after(120, 179, 10.0), 1.0),
            (after(120, 195, 10.0), -1.5),
            (after(120, 600, 10.0), -5.0),
            (after(60, 80, 10.0), 0.5),
        ];
        for (got, want) in cases {
            assert!((got - want).abs() < 1e-9, "{got} {want}");
        }
    }

    #[test]
    fn it_withdraws_after_slow_start_and_comes_back() {
        let mut b = Bench::of("ledbat");
        b.rtt = Span::from_millis(120);
        (0..4).for_each(|_| b.round());
        assert_eq!(b.window(), 32.0, "doubling, as the gain is 1");
        b.rtt = Span::from_millis(170);
        b.round();
        let grown = b.gauge("ssthresh");
        assert!((32.0..64.0).contains(&grown), "{grown}");
        // Two round trips later two packets, for two round trips, then slow start.
        (0..3).for_each(|_| b.round());
        assert_eq!(b.window(), 2.0);
        (0..3).for_each(|_| b.round());
        assert!(b.window() > 2.0, "{}", b.window());
    }
}
