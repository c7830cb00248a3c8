// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PCC Vivace: tries rates, computes the utility of each, and follows the gradient. Dong et al.,
//! "PCC Vivace: Online-Learning Congestion Control", NSDI 2018, and the authors' program
//! (repository PCCproject/PCC-Uspace).
//!
//! Time is divided into monitor intervals of about a round trip, each with a rate x. Its utility
//! depends on the rate, the slope of the RTT and the loss: x^0.9 - 900 x max(0, dRTT/dt) - 11.35 x
//! L. Starting: the rate doubles while the utility grows. Probing: intervals slightly faster and
//! slower, in pairs. If the pairs agree, the rate moves along the gradient, by larger steps as long
//! as the utility grows.
//!
//! | constant | `paper` | `original` | `tuned` | source |
//! |---|---|---|---|---|
//! | exponent; weight of the slope; of the loss | 0.9; 900; 11.35 | same | same | section 4.1; kSendingRateExponent |
//! | probing step | 5 % | 5 % | 5 % | section 4.2; kProbingStepSize |
//! | pairs; who decides | 2; all | 3; the majority up, all down | 3; same | section 4.2; CanMakeDecision |
//! | step per gradient | 1 Mbit/s | 1 Mbit/s | a tenth of the rate, 1 Mbit/s at most | kUtilityGradientToRateChangeFactor; ours |
//! | amplifier of the k-th step | k, from 4 on 2k - 3 | floor((k + 1)/2)^1.2 | as original | section 4.2; kRateChangeAmplifyExponent |
//! | largest step; more with each bounded one | 5 %; 5 % | same | same | memo; kInitialMaxStepSize |
//! | smallest step | none | 0.5 Mbit/s | 1 % of the rate | kMinRateChange; ours |
//! | smallest rate | 0.1 Mbit/s | 0.5 Mbit/s | 0.1 Mbit/s | kMinSendingRate; ours |
//! | a slope is noise below | 0.01 | its standard error | twice that, and 0.02 | section 5; ComputeRttGradientError; ours |
//! | interval | an RTT, 5 packets | same | two RTTs, 10 packets | PCC-Uspace; ours |
//! | in flight at most | 2.5 times rate x RTT, 10 packets | same | 2 times rate x smallest RTT and 10 packets | PCC-Uspace; ours |
//!
//! **Differs from the paper and the program**: a Mbit is 10^6 bits. Intervals have whole RTTs (no
//! random part). The program's moving averages of slope trends are omitted. An interval in which
//! the application had too little data is not evaluated. The slope is that of the RTT over the time
//! of sending. If samples have an error (over TCP), a slope within it counts as zero.
//!
//! **Known weakness**: below 5 Mbit/s the program's steps are too coarse. 0.5 Mbit/s are half of a
//! 3G channel, so it oscillates. On radio links the RTT moves for other reasons than its rate. Each
//! direction change costs intervals of a round trip. A capacity that falls within one fills the
//! queue.
mod interval;
#[cfg(test)]
mod tests;

use alcc_cc::parts::{pacing_rate, window_bytes};
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Event, Instance, LossBatch,
    Needs, Options, Path, Rto, Sent, Tag,
};
use alcc_units::{Bytes, Rng, Span, Time};
use interval::Interval;
use std::borrow::Cow;
use std::collections::VecDeque;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "vivace",
    summary: "PCC Vivace: tries rates and climbs towards the one of the best utility",
    profiles: Cow::Borrowed(&["tuned", "paper", "original"]),
    options: &[],
    build: Build::Function(build),
};

const PROBING_STEP: f64 = 0.05;
const MAX_STEP: f64 = 0.05;
const INITIAL: f64 = 10.0;
/// Mbit/s.
const MAX_RATE: f64 = 1e6;
/// Before the first RTT sample.
const FIRST_RTT: Span = Span::from_millis(100);
/// Intervals whose packets are under way: each has a round trip at least, so a few are usual.
const MAX_INTERVALS: usize = 16;

/// In what the forms differ.
#[derive(Clone, Copy)]
struct Settings {
    pairs: usize,
    /// Two of three are enough to go up.
    majority: bool,
    /// Mbit/s per unit of gradient, and at most this part of the rate.
    per_gradient: f64,
    per_gradient_part: f64,
    /// The amplifier of the paper, not of the program.
    linear: bool,
    /// Mbit/s, and part of the rate.
    smallest_step: f64,
    smallest_part: f64,
    min_rate: f64,
    noise_errors: f64,
    noise_slope: f64,
    interval_rtts: u64,
    interval_packets: u32,
    /// In flight at most, in rates times the RTT, or the smallest RTT.
    window: f64,
    window_of_least: bool,
}

impl Settings {
    const ORIGINAL: Self = Self {
        pairs: 3,
        majority: true,
        per_gradient: 1.0,
        per_gradient_part: f64::MAX,
        linear: false,
        smallest_step: 0.5,
        smallest_part: 0.0,
        min_rate: 0.5,
        noise_errors: 1.0,
        noise_slope: 0.0,
        interval_rtts: 1,
        interval_packets: 5,
        window: 2.5,
        window_of_least: false,
    };
    const PAPER: Self = Self {
        pairs: 2,
        majority: false,
        linear: true,
        smallest_step: 0.0,
        min_rate: 0.1,
        noise_errors: 0.0,
        noise_slope: 0.01,
        ..Self::ORIGINAL
    };
    const TUNED: Self = Self {
        per_gradient_part: 0.1,
        smallest_step: 0.0,
        smallest_part: 0.01,
        min_rate: 0.1,
        noise_errors: 2.0,
        noise_slope: 0.02,
        interval_rtts: 2,
        interval_packets: 10,
        window: 2.0,
        window_of_least: true,
        ..Self::ORIGINAL
    };
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Starting,
    Probing,
    /// Which way: the step that was taken last was the n-th.
    Moving {
        up: bool,
        step: u32,
    },
}

/// A rate that was tried, Mbit/s, and what it was worth.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Trial {
    rate: f64,
    utility: f64,
}

#[derive(Clone)]
struct Vivace {
    s: Settings,
    mss: Bytes,
    mode: Mode,
    /// Mbit/s: what is sent at between trials, and around what is probed.
    rate: f64,
    /// Rates still to be tried for the decision, and those that were.
    wanted: VecDeque<f64>,
    tried: Vec<Trial>,
    /// One of them was not limited by us.
    spoilt: bool,
    best: Option<Trial>,
    /// Bounded steps in a row.
    bounded: u32,
    intervals: VecDeque<Interval>,
    /// The number of the oldest.
    first: u64,
    /// Smoothed, and that of when the current interval began: within it the window holds.
    smoothed: Span,
    rtt: Span,
    least: Span,
    rng: Rng,
}

fn build(options: &Options<'_>) -> Built {
    let settings = match options.profile() {
        "paper" => Settings::PAPER,
        "original" => Settings::ORIGINAL,
        _ => Settings::TUNED,
    };
    Ok(Instance::new(Vivace::new(settings)))
}

impl Vivace {
    fn new(s: Settings) -> Self {
        Self {
            s,
            mss: Bytes::new(1448),
            mode: Mode::Starting,
            rate: 0.0,
            wanted: VecDeque::with_capacity(2 * s.pairs),
            tried: Vec::with_capacity(2 * s.pairs),
            spoilt: false,
            best: None,
            bounded: 0,
            intervals: VecDeque::with_capacity(MAX_INTERVALS),
            first: 1,
            smoothed: Span::ZERO,
            rtt: Span::ZERO,
            least: Span::MAX,
            rng: Rng::new(1),
        }
    }

    /// The initial window over the RTT.
    fn first_rate(&self, rtt: Span) -> f64 {
        let seconds = rtt.max(Span::from_millis(1)).as_secs_f64();
        let rate = INITIAL * self.mss.get() as f64 * 8.0 / seconds / 1e6;
        rate.clamp(self.s.min_rate, MAX_RATE)
    }

    fn try_again(&mut self) {
        self.tried.clear();
        self.wanted.clear();
        self.spoilt = false;
        if self.mode == Mode::Probing {
            for _ in 0..self.s.pairs {
                let first = if self.rng.below(2) == 0 { 1.0 } else { -1.0 };
                for sign in [first, -first] {
                    let rate = self.rate * (1.0 + sign * PROBING_STEP);
                    self.wanted.push_back(rate);
                }
            }
        } else {
            self.wanted.push_back(self.rate);
        }
        // Packets in flight were sent for another trial; the next packet begins an interval.
        for interval in &mut self.intervals {
            interval.useful = false;
        }
        if let Some(last) = self.intervals.back_mut() {
            last.ends = last.began;
        }
    }

    fn enter(&mut self, cx: &mut Cx<'_>, mode: Mode) {
        let same = std::mem::discriminant(&self.mode) == std::mem::discriminant(&mode);
        self.mode = mode;
        if !same {
            let to = match mode {
                Mode::Starting => "starting",
                Mode::Probing => "probing",
                Mode::Moving { .. } => "moving",
            };
            cx.log.event(cx.now, Event::Mode { to });
        }
        self.rate = self.rate.clamp(self.s.min_rate, MAX_RATE);
        self.try_again();
    }

    /// The rate of the packets that leave now.
    fn current(&self) -> f64 {
        self.intervals.back().map_or(self.rate, |i| i.rate)
    }

    fn begin_interval(&mut self, now: Time) {
        if let Some(last) = self.intervals.back_mut() {
            last.closed = true;
        }
        let wanted = self.wanted.pop_front();
        let rate = wanted.unwrap_or(self.rate);
        self.rtt = self.smoothed;
        let rtt = if self.rtt.is_zero() {
            FIRST_RTT
        } else {
            self.rtt
        };
        let length = rtt * self.s.interval_rtts;
        if self.intervals.len() >= MAX_INTERVALS {
            // Nothing has come back for very long: what was tried is not known and has to be tried
            // again.
            self.spoilt |= self.intervals.pop_front().is_some_and(|i| i.useful);
            self.first += 1;
        }
        let useful = wanted.is_some();
        self.intervals
            .push_back(Interval::new(rate, useful, now, length));
    }

    fn find(&mut self, tag: Tag) -> Option<&mut Interval> {
        let index = usize::try_from(tag.0.checked_sub(self.first)?).ok()?;
        self.intervals.get_mut(index)
    }

    /// Takes what is known from the front; decides when all that was wanted has been tried.
    fn look(&mut self, cx: &mut Cx<'_>) {
        while self.intervals.front().is_some_and(Interval::is_known) {
            let Some(known) = self.intervals.pop_front() else {
                return;
            };
            self.first += 1;
            if known.useful {
                let utility = known.utility(self.s.noise_errors, self.s.noise_slope);
                let rate = known.rate;
                self.spoilt |= known.limited;
                self.tried.push(Trial { rate, utility });
                let enough = match self.mode {
                    Mode::Probing => 2 * self.s.pairs,
                    _ => 1,
                };
                if self.tried.len() >= enough {
                    self.decide(cx);
                }
            }
        }
    }

    fn decide(&mut self, cx: &mut Cx<'_>) {
        if self.spoilt {
            self.try_again();
            return;
        }
        match self.mode {
            Mode::Starting => self.decide_starting(cx),
            Mode::Probing => self.decide_probing(cx),
            Mode::Moving { up, step } => self.decide_moving(cx, up, step),
        }
    }

    fn decide_starting(&mut self, cx: &mut Cx<'_>) {
        let got = self.tried[0];
        if self.best.is_none_or(|best| got.utility > best.utility) {
            self.best = Some(got);
            self.rate *= 2.0;
            self.enter(cx, Mode::Starting);
        } else {
            let window = self.window();
            let why = "utility";
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
            self.rate /= 2.0;
            self.enter(cx, Mode::Probing);
        }
    }

    fn decide_probing(&mut self, cx: &mut Cx<'_>) {
        let pairs = self.tried.len() / 2;
        let (mut ups, mut gain_up, mut gain_down) = (0, 0.0, 0.0);
        let (mut best_up, mut best_down) = (None, None);
        for pair in self.tried.chunks_exact(2) {
            let (fast, slow) = if pair[0].rate > pair[1].rate {
                (pair[0], pair[1])
            } else {
                (pair[1], pair[0])
            };
            let gain = fast.utility - slow.utility;
            if gain > 0.0 {
                ups += 1;
                gain_up += gain;
                best_up = Some(fast);
            } else {
                gain_down -= gain;
                best_down = Some(slow);
            }
        }
        let all_up = ups == pairs;
        let up = all_up || self.s.majority && 2 * ups > pairs;
        let (gain, best) = match (up, ups) {
            (true, _) => (gain_up, best_up),
            (false, 0) => (gain_down, best_down),
            _ => (0.0, None),
        };
        let Some(best) = best else {
            self.enter(cx, Mode::Probing);
            return;
        };
        self.bounded = 0;
        let gradient = gain / pairs as f64 / (2.0 * PROBING_STEP * self.rate);
        self.best = Some(best);
        let sign = if up { 1.0 } else { -1.0 };
        self.rate *= 1.0 + sign * PROBING_STEP;
        self.rate += sign * self.step(gradient, 1.0);
        self.enter(cx, Mode::Moving { up, step: 1 });
    }

    fn decide_moving(&mut self, cx: &mut Cx<'_>, up: bool, step: u32) {
        let got = self.tried[0];
        let best = self.best.unwrap_or(got);
        let (more_rate, more_utility) = (got.rate - best.rate, got.utility - best.utility);
        if more_rate == 0.0 {
            self.enter(cx, Mode::Probing);
            return;
        }
        let gradient = more_utility / more_rate;
        let sign = if up { 1.0 } else { -1.0 };
        let size = (gradient * sign).max(-gradient * sign);
        if gradient * sign > 0.0 {
            self.best = Some(got);
            self.rate += sign * self.step(size, self.amplifier(step + 1));
            let step = step.saturating_add(1).min(1000);
            self.enter(cx, Mode::Moving { up, step });
        } else {
            // The step did not pay: back, and look around.
            self.rate = if self.s.linear {
                best.rate
            } else {
                self.rate - sign * self.step(size, self.amplifier(1))
            };
            self.enter(cx, Mode::Probing);
        }
    }

    fn amplifier(&self, step: u32) -> f64 {
        let k = f64::from(step);
        if !self.s.linear {
            return libm::pow(f64::from(u32::midpoint(step, 1)), 1.2);
        }
        if step <= 3 { k } else { 2.0 * k - 3.0 }
    }

    /// Mbit/s to move by: along the gradient, within bounds that widen while they are met.
    fn step(&mut self, gradient: f64, amplifier: f64) -> f64 {
        let factor = self
            .s
            .per_gradient
            .min(self.s.per_gradient_part * self.rate);
        let change = gradient * factor * amplifier;
        let most = self.rate * MAX_STEP * (1.0 + f64::from(self.bounded));
        let smallest = self.s.smallest_step.max(self.s.smallest_part * self.rate);
        if change > most {
            self.bounded = self.bounded.saturating_add(1).min(1000);
        } else {
            self.bounded = self.bounded.saturating_sub(1);
        }
        change.min(most).max(smallest)
    }

    /// Packets.
    fn window(&self) -> f64 {
        let rtt = match (self.s.window_of_least, self.rtt) {
            (_, Span::ZERO) => FIRST_RTT,
            (true, _) => self.least,
            (false, rtt) => rtt,
        };
        let mss = self.mss.get().max(1) as f64;
        let product = self.current() * 1e6 / 8.0 / mss * rtt.as_secs_f64();
        if self.s.window_of_least {
            self.s.window * product + INITIAL
        } else {
            (self.s.window * product).max(INITIAL)
        }
    }
}

impl Controller for Vivace {
    fn needs(&self) -> Needs {
        Needs {
            per_packet_ack: true,
            paced: true,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.rng = Rng::new(path.seed);
        self.rate = self.first_rate(path.rtt_hint.unwrap_or(FIRST_RTT));
        self.try_again();
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let (now, enough) = (cx.now, self.s.interval_packets);
        let over = |i: &Interval| now >= i.ends && (i.packets >= enough || !i.useful);
        if self.intervals.back().is_none_or(over) {
            self.begin_interval(now);
        }
        if let Some(current) = self.intervals.back_mut() {
            current.limited |= sent.app_limited;
            current.sent(now, sent.len);
        }
        Tag(self.first + self.intervals.len() as u64 - 1)
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.smoothed = ack.rtt.smoothed;
        self.least = ack.rtt.min;
        let elsewhere = (ack.limited.app || ack.limited.peer) && !ack.limited.pacer;
        if let Some(current) = self.intervals.back_mut() {
            current.limited |= elsewhere;
        }
        for packet in ack.acked {
            if let Some(interval) = self.find(packet.tag) {
                interval.error = interval.error.max(ack.rtt_error);
                interval.acked(packet);
            }
        }
        self.look(cx);
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        for packet in loss.lost {
            if let Some(interval) = self.find(packet.tag) {
                interval.lost(packet);
            }
        }
        self.look(cx);
    }

    /// Nothing arrives, so the rate is out of date: it is halved, and the search starts again.
    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        if rto.backoff <= 1 {
            self.rate /= 2.0;
            self.enter(cx, Mode::Probing);
        }
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, _idle: Span) {
        self.try_again();
    }

    fn allowance(&self) -> Allowance {
        let mss = self.mss.get().max(1) as f64;
        let rate = self.current() * 1e6 / 8.0 / mss;
        Allowance {
            rate: Some(pacing_rate(rate, self.mss)),
            burst: self.mss * 2,
            ..Allowance::window(window_bytes(self.window(), self.mss))
        }
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.window());
        put("rate_mbps", self.rate);
        put("pacing_mbps", self.current());
        let best = self.best.map_or(0.0, |b| b.utility);
        put("utility", best);
    }
}
