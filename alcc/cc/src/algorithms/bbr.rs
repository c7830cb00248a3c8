// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BBR version 1. It models the path by its delivery rate and its smallest RTT, and does not react
//! to loss. Cardwell et al., ACM Queue 14(5), 2016, in the form of Linux (`tcp_bbr`).
//!
//! It paces at the largest delivery rate of the last ten round trips and keeps two bandwidth-delay
//! products in flight. In a cycle of eight it sends faster for one smallest RTT, to see whether
//! there is more. For another it sends slower, to drain the queue that this has built. After ten
//! seconds without a smaller RTT it keeps four packets in flight for 200 ms, so that it can measure
//! the RTT of the empty path.
//!
//! | constant | value | source |
//! |---|---|---|
//! | gain of startup, pacing and window; of drain | 739/256; 88/256 | tcp_bbr, bbr_high_gain, bbr_drain_gain |
//! | cycle of pacing gains | 5/4, 3/4, then six times 1 | bbr_pacing_gain |
//! | window gain | 2 | bbr_cwnd_gain |
//! | pacing below the estimate | 1 % | bbr_pacing_margin_percent |
//! | memory of the rate; of the smallest RTT | 10 rounds; 10 s | bbr_bw_rtts; bbr_min_rtt_win_sec |
//! | the pipe is full | three rounds without a quarter more | bbr_full_bw_thresh, bbr_full_bw_cnt |
//! | smallest window; time at it | 4 packets; 200 ms and a round | bbr_cwnd_min_target; bbr_probe_rtt_mode_ms |
//! | beyond the window, for bursts | three send quanta, 2 more while probing | bbr_quantization_budget |
//! | ACK aggregation: window; maximum | 5 to 10 rounds; 100 ms of the rate | bbr_extra_acked_* |
//!
//! **Differs from Linux**: no detection of policers (the "long-term" rate). A timeout sets the
//! window to one packet, and the first acknowledgement restores it. **Differs from the paper**: as
//! Linux does, the window is extended by the data whose acknowledgements are held back (ACK
//! aggregation).
//!
//! **Known weakness**: it keeps up to a BDP in the queue beside others and does not yield to loss.
//! On links whose rate varies within ten round trips it sends at the highest of these rates, and so
//! builds a queue.
use crate::parts::{
    AckAggregation, FullPipe, MinRtt, ProbeRttTimer, RateSample, first_rate, pacing_rate, quantum,
    segments, window_bytes,
};
use crate::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Event, Instance, LossBatch,
    Needs, Options, Path, RecoveryEnd, Rto, Spurious,
};
use alcc_units::{Bytes, Rng, Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "bbr",
    summary: "BBR v1: paces at the measured rate, two bandwidth-delay products in flight",
    profiles: Cow::Borrowed(&[]),
    options: &[],
    build: Build::Function(build),
};

const HIGH_GAIN: f64 = 739.0 / 256.0;
const DRAIN_GAIN: f64 = 88.0 / 256.0;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const WINDOW_GAIN: f64 = 2.0;
const MARGIN: f64 = 0.99;
const RATE_ROUNDS: u64 = 10;
const RTT_MEMORY: Span = Span::from_secs(10);
const MIN_CWND: f64 = 4.0;
const INITIAL: f64 = 10.0;
const MAX_CWND: f64 = 1e9;
const PROBE_RTT: Span = Span::from_millis(200);
const EXTRA_ACKED_ROUNDS: u64 = 5;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    Startup,
    Drain,
    /// The phase of the cycle, and the time at which it began.
    ProbeBw(usize, Time),
    ProbeRtt(ProbeRttTimer),
}

/// The largest of the last ten rounds' delivery rates: one entry per round, descending.
#[derive(Clone, Default)]
struct MaxRate {
    entries: Vec<(u64, f64)>,
}

impl MaxRate {
    fn insert(&mut self, round: u64, rate: f64) {
        self.entries
            .retain(|&(at, r)| at + RATE_ROUNDS > round && r > rate);
        self.entries.push((round, rate));
    }

    fn get(&self) -> f64 {
        self.entries.first().map_or(0.0, |(_, rate)| *rate)
    }
}

#[derive(Clone)]
struct Bbr {
    mss: Bytes,
    mode: Mode,
    round: u64,
    rate: MaxRate,
    min_rtt: MinRtt,
    pipe: FullPipe,
    /// The window, in packets.
    window: f64,
    /// The window before a loss or a probe for the RTT, in packets.
    prior: f64,
    /// End of packet conservation, in the first round of recovery.
    packet_conservation: Option<u64>,
    recovering: bool,
    aggregation: AckAggregation,
    delivered: f64,
    idle: bool,
    first_rtt: Option<Span>,
    rng: Rng,
}

fn build(_: &Options<'_>) -> Built {
    Ok(Instance::new(Bbr::new()))
}

impl Bbr {
    fn new() -> Self {
        Self {
            mss: Bytes::new(1448),
            mode: Mode::Startup,
            round: 0,
            rate: MaxRate::default(),
            min_rtt: MinRtt::since(Time::ZERO),
            pipe: FullPipe::default(),
            window: INITIAL,
            prior: 0.0,
            packet_conservation: None,
            recovering: false,
            aggregation: AckAggregation::default(),
            delivered: 0.0,
            idle: false,
            first_rtt: None,
            rng: Rng::new(1),
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw(phase, _) => CYCLE[phase],
            Mode::ProbeRtt(_) => 1.0,
        }
    }

    /// The pacing rate before its gain, packets per second.
    fn rate(&self) -> f64 {
        self.rate.get()
    }

    /// Packets that the path holds without a queue, times a gain.
    fn bdp(&self, gain: f64) -> f64 {
        match self.min_rtt.rtt {
            Some(rtt) if self.rate() > 0.0 => gain * self.rate() * rtt.as_secs_f64(),
            _ => INITIAL,
        }
    }

    /// Packets in flight that the model allows, with room for bursts of the sender and of the path.
    fn inflight(&self, gain: f64) -> f64 {
        let w = libm::ceil(self.bdp(gain)) + 3.0 * quantum(self.rate());
        let even = 2.0 * libm::ceil(w / 2.0);
        let probing = matches!(self.mode, Mode::ProbeBw(0, _));
        even + if probing { 2.0 } else { 0.0 }
    }

    fn enter(&mut self, cx: &mut Cx<'_>, mode: Mode) {
        self.mode = mode;
        let name = match mode {
            Mode::Startup => "startup",
            Mode::Drain => "drain",
            Mode::ProbeBw(..) => "probe-bw",
            Mode::ProbeRtt(_) => "probe-rtt",
        };
        cx.log.event(cx.now, Event::Mode { to: name });
    }

    /// Starts the cycle in any phase but the one that drains, because nothing has been queued yet.
    fn enter_probe_bw(&mut self, cx: &mut Cx<'_>) {
        let phase = match self.rng.below(7) as usize {
            0 => 0,
            n => n + 1,
        };
        self.enter(cx, Mode::ProbeBw(phase, cx.now));
    }

    fn measure(&mut self, got: RateSample) {
        if got.rate > 0.0 && (!got.app_limited || got.rate >= self.rate()) {
            self.rate.insert(self.round, got.rate);
        }
    }

    fn extra_acked(&self) -> f64 {
        if self.pipe.is_full() {
            self.aggregation.extra_acked(self.rate())
        } else {
            0.0
        }
    }

    fn advance_cycle(&mut self, cx: &Cx<'_>, ack: &AckBatch<'_>) {
        let Mode::ProbeBw(phase, since) = self.mode else {
            return;
        };
        let long = cx.now.since(since) > self.min_rtt.rtt.unwrap_or_default();
        let before = ack.in_flight_before.packets(self.mss);
        let over = match phase {
            0 => long && (self.recovering || before >= self.inflight(1.25)),
            1 => long || before <= self.inflight(1.0),
            _ => long,
        };
        if over {
            self.mode = Mode::ProbeBw((phase + 1) % CYCLE.len(), cx.now);
        }
    }

    fn check_full_pipe(&mut self, cx: &mut Cx<'_>, got: RateSample, round_start: bool) {
        if self.pipe.is_full() || !round_start || got.app_limited {
            return;
        }
        self.pipe.round(self.rate());
        if self.pipe.is_full() && self.mode == Mode::Startup {
            let (why, window) = ("rate", self.window);
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
            self.enter(cx, Mode::Drain);
        }
    }

    fn update_min_rtt(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let stale = self.min_rtt.is_stale(cx.now, RTT_MEMORY);
        let known = self.min_rtt.rtt.is_some();
        let rtt = ack.acked.iter().filter_map(|p| p.rtt).min();
        if let Some(rtt) = rtt {
            self.first_rtt.get_or_insert(rtt);
            self.min_rtt.sample(cx.now, rtt, stale);
        }
        if stale && known && !self.idle && !matches!(self.mode, Mode::ProbeRtt(_)) {
            self.prior = self.prior.max(self.window);
            self.enter(cx, Mode::ProbeRtt(ProbeRttTimer::default()));
        }
        let small = ack.in_flight.packets(self.mss) <= MIN_CWND;
        if let Mode::ProbeRtt(hold) = &mut self.mode
            && hold.is_over(cx.now, self.round, small, PROBE_RTT)
        {
            self.min_rtt.at = cx.now;
            self.restore();
            if self.pipe.is_full() {
                self.enter_probe_bw(cx);
            } else {
                self.enter(cx, Mode::Startup);
            }
        }
        // The first sample after a pause measures the empty path.
        self.idle &= rtt.is_none();
    }

    fn restore(&mut self) {
        self.window = self.window.max(self.prior);
        self.prior = 0.0;
    }

    fn set_window(&mut self, ack: &AckBatch<'_>, packets: f64) {
        if let Some(round) = self.packet_conservation {
            if self.round < round {
                let in_flight = ack.in_flight.packets(self.mss);
                self.window = self.window.max(in_flight + packets);
                return;
            }
            self.packet_conservation = None;
        }
        let gain = match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw(..) => WINDOW_GAIN,
            Mode::ProbeRtt(_) => 1.0,
        };
        let target = self.inflight(gain) + libm::ceil(self.extra_acked());
        if self.pipe.is_full() {
            self.window = (self.window + packets).min(target);
        } else if self.window < target || self.delivered < INITIAL {
            self.window += packets;
        }
        self.window = self.window.clamp(MIN_CWND, MAX_CWND);
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            self.window = self.window.min(MIN_CWND);
        }
    }
}

impl Controller for Bbr {
    fn needs(&self) -> Needs {
        Needs {
            paced: true,
            stream: true,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.rng = Rng::new(path.seed);
        self.first_rtt = path.rtt_hint;
        self.min_rtt.at = cx.now;
        self.enter(cx, Mode::Startup);
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.round += u64::from(ack.round_start);
        let got = RateSample::of(ack, self.mss);
        self.delivered = (self.delivered + got.packets).min(MAX_CWND);
        self.measure(got);
        let (rate, window) = (self.rate(), self.window);
        self.aggregation.add(
            cx.now,
            self.round,
            EXTRA_ACKED_ROUNDS,
            got.packets,
            rate,
            window,
        );
        self.advance_cycle(cx, ack);
        self.check_full_pipe(cx, got, ack.round_start);
        if self.mode == Mode::Drain && ack.in_flight.packets(self.mss) <= self.inflight(1.0) {
            self.enter_probe_bw(cx);
        }
        self.update_min_rtt(cx, ack);
        if self.recovering && !ack.in_recovery {
            self.recovering = false;
            self.restore();
        }
        self.set_window(ack, got.packets);
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if !loss.new_episode {
            let lost: u64 = loss.lost.iter().map(|p| segments(p.len, self.mss)).sum();
            self.window = (self.window - lost as f64).max(1.0);
            return;
        }
        let from = self.window;
        self.prior = self.prior.max(from);
        self.recovering = true;
        self.packet_conservation = Some(self.round + 1);
        self.window = loss.in_flight.packets(self.mss).clamp(1.0, from);
        let (why, to) = ("loss", self.window);
        cx.log.event(cx.now, Event::Decrease { why, from, to });
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        let from = self.window;
        self.prior = self.prior.max(from);
        (self.pipe.best, self.window) = (0.0, 1.0);
        self.recovering = true;
        let (why, to) = ("timeout", 1.0);
        cx.log.event(cx.now, Event::Decrease { why, from, to });
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        (self.pipe.best, self.packet_conservation, self.recovering) = (0.0, None, false);
        self.restore();
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _end: &RecoveryEnd) {
        if self.recovering {
            (self.packet_conservation, self.recovering) = (None, false);
            self.restore();
        }
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, _idle: Span) {
        self.idle = true;
        self.aggregation.restart();
        if let Mode::ProbeBw(_, since) = self.mode {
            // Starts at gain 1: there is no evidence yet for a higher or lower one.
            self.mode = Mode::ProbeBw(2, since);
        }
    }

    fn allowance(&self) -> Allowance {
        let rate = if self.rate() > 0.0 {
            self.rate()
        } else {
            first_rate(INITIAL, self.first_rtt)
        };
        let margin = if self.rate() > 0.0 { MARGIN } else { 1.0 };
        Allowance {
            rate: Some(pacing_rate(rate * self.pacing_gain() * margin, self.mss)),
            burst: self.mss * 2,
            ..Allowance::window(window_bytes(self.window, self.mss))
        }
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.window);
        put("rate_mbps", self.rate() * self.mss.get() as f64 * 8.0 / 1e6);
        put(
            "rtt_min_ms",
            self.min_rtt.rtt.unwrap_or_default().as_millis_f64(),
        );
        put("pacing_gain", self.pacing_gain());
        put("held_back", self.extra_acked());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn the_largest_rate_of_ten_rounds() {
        let mut rate = MaxRate::default();
        for (round, packets, largest) in [
            (0, 100.0, 100.0),
            (1, 80.0, 100.0),
            (2, 90.0, 100.0),
            (9, 10.0, 100.0),
            (10, 10.0, 90.0), // Round 0 is forgotten, and 80 was overtaken by 90.
            (12, 20.0, 20.0),
        ] {
            rate.insert(round, packets);
            assert_eq!(rate.get(), largest, "round {round}");
        }
    }

    #[test]
    fn it_starts_at_the_initial_window_over_the_first_rtt() {
        let b = Bench::of("bbr");
        // No RTT known: 10 packets of 1000 bytes in a millisecond, 2.887 times faster.
        let rate = b.cc.allowance().rate.unwrap().as_mbps_f64();
        assert!((rate - 80.0 * HIGH_GAIN).abs() < 0.01, "{rate}");
        assert_eq!(b.window(), 10.0);
    }

    #[test]
    fn the_window_is_the_product_and_room_for_bursts() {
        let mut bbr = Bbr::new();
        assert_eq!(bbr.bdp(1.0), INITIAL);
        bbr.rate.insert(0, 1000.0);
        bbr.min_rtt.rtt = Some(Span::from_millis(40));
        assert_eq!(bbr.bdp(2.0), 80.0);
        // At 1000 packets per second a quantum is two packets: 80 and 3 * 2; in the probing phase
        // two more.
        assert_eq!(bbr.inflight(2.0), 86.0);
        bbr.mode = Mode::ProbeBw(0, Time::ZERO);
        assert_eq!(bbr.inflight(2.0), 88.0);
        assert_eq!(bbr.pacing_gain(), 1.25);
    }
}
