// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The states and their transitions (draft, section 5.3).
use super::bounds::Bounds;
use super::{Bbr3, INITIAL, MIN_CWND, NONE, PROBE_RTT, PROBE_RTT_GAIN, RTT_MEMORY, Settings};
use alcc_cc::parts::{FullPipe, ProbeRttTimer, first_rate};
use alcc_cc::{AckBatch, Cx, Event};
use alcc_units::Span;

/// Minimum wait, and the length of the random addition.
const WAIT: (Span, Span) = (Span::from_secs(2), Span::from_secs(1));
/// Upper bound of rounds between probes, for coexistence with Reno.
const RENO_ROUNDS: f64 = 63.0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt(ProbeRttTimer),
}

/// The phase in which the currently acknowledged packets were sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum AckPhase {
    Other,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

impl State {
    pub(super) fn pacing_gain(self, s: &Settings) -> f64 {
        match self {
            Self::Startup => s.startup_gain,
            Self::Drain => s.drain_gain,
            Self::Down => s.down_gain,
            Self::Up => 1.25,
            Self::Cruise | Self::Refill | Self::ProbeRtt(_) => 1.0,
        }
    }

    pub(super) fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt(_) => PROBE_RTT_GAIN,
            _ => 2.0,
        }
    }

    /// True if it sends more to probe, so that losses are expected.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }
}

impl Bbr3 {
    pub(super) fn enter(&mut self, cx: &mut Cx<'_>, state: State) {
        self.state = state;
        let to = match state {
            State::Startup => "startup",
            State::Drain => "drain",
            State::Down => "probe-bw-down",
            State::Cruise => "probe-bw-cruise",
            State::Refill => "probe-bw-refill",
            State::Up => "probe-bw-up",
            State::ProbeRtt(_) => "probe-rtt",
        };
        cx.log.event(cx.now, Event::Mode { to });
    }

    pub(super) fn check_full_pipe(&mut self, cx: &mut Cx<'_>) {
        if self.round_start && !self.sample.app_limited && !self.pipe.is_full() {
            self.pipe.round(self.sample.rate);
            self.full_pipe_reached |= self.pipe.is_full();
        }
        if self.state == State::Startup && self.full_pipe_reached {
            let window = self.window;
            let why = if self.bounds.inflight_hi < NONE {
                "loss"
            } else {
                "rate"
            };
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
            self.drain_began = self.round;
            self.enter(cx, State::Drain);
        }
    }

    pub(super) fn check_drain_done(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        if self.state != State::Drain {
            return;
        }
        let drained = self.packets(ack.in_flight) <= self.with_room(self.bdp(self.rate, 1.0));
        if drained || self.round.saturating_sub(self.drain_began) > self.s.drain_rounds {
            self.enter_down(cx);
        }
    }

    pub(super) fn enter_down(&mut self, cx: &mut Cx<'_>) {
        self.forget_latest();
        self.up_acked_per_packet = NONE;
        self.rounds_since_up = self.rng.below(2);
        self.wait = WAIT.0 + WAIT.1.mul_f64(self.rng.unit());
        self.cycle_began = cx.now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.begin_round();
        self.enter(cx, State::Down);
    }

    pub(super) fn enter_refill(&mut self, cx: &mut Cx<'_>) {
        self.bounds.reset_lower_bounds();
        (self.up_rounds, self.up_acked) = (0, 0.0);
        self.precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.begin_round();
        self.enter(cx, State::Refill);
    }

    fn enter_up(&mut self, cx: &mut Cx<'_>) {
        self.probe_sample = true;
        self.ack_phase = AckPhase::ProbeStarting;
        self.begin_round();
        self.pipe = FullPipe::from(self.sample.rate);
        self.enter(cx, State::Up);
        self.raise_slope();
    }

    pub(super) fn advance_cycle(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        if !self.full_pipe_reached || self.adapt_bound(cx) {
            return;
        }
        let in_flight = self.packets(ack.in_flight);
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(cx) => self.enter_refill(cx),
            State::Down if self.is_drained(in_flight) => self.enter(cx, State::Cruise),
            State::Refill if self.round_start => self.enter_up(cx),
            State::Up => self.look_for_end_of_up(cx, in_flight),
            _ => {}
        }
    }

    pub(super) fn is_time_to_probe(&self, cx: &Cx<'_>) -> bool {
        let rounds = self.target_inflight().min(RENO_ROUNDS);
        cx.now.since(self.cycle_began) > self.wait || self.rounds_since_up as f64 >= rounds
    }

    fn is_drained(&self, in_flight: f64) -> bool {
        let empty = self.with_room(self.bdp(self.max_rate(), 1.0));
        in_flight <= self.bounds.with_headroom().min(empty)
    }

    fn look_for_end_of_up(&mut self, cx: &mut Cx<'_>, in_flight: f64) {
        if self.is_time_to_go_down(in_flight) {
            self.too_high = false;
            self.enter_down(cx);
        }
    }

    fn is_time_to_go_down(&mut self, in_flight: f64) -> bool {
        // The bound that was too high in the last probe is not held for a round: it is reached
        // once, and the losses are awaited.
        if self.too_high && in_flight >= self.bounds.inflight_hi {
            self.precautionary = true;
            return true;
        }
        if self.is_window_limited() && self.window >= self.bounds.inflight_hi {
            // The bound limits the rate, so nothing can be concluded about the path.
            self.pipe = FullPipe::from(self.sample.rate);
            return false;
        }
        self.pipe.is_full()
    }

    /// Moves the lasting bound to the level that is seen to be safe. True if that has decided the
    /// state.
    pub(super) fn adapt_bound(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            // Everything that was sent while probing is acknowledged.
            self.probe_sample = false;
            self.ack_phase = AckPhase::Other;
            if self.state.is_probe_bw() {
                if !self.sample.app_limited && self.rates[0] > 0.0 {
                    self.rates = [0.0, self.rates[0]];
                }
                if self.precautionary && !self.too_high {
                    self.enter_refill(cx);
                    return true;
                }
            }
        }
        let Bounds { inflight_hi, .. } = self.bounds;
        if inflight_hi < NONE && !self.is_too_high() {
            self.bounds.inflight_hi = inflight_hi.max(self.sample.in_flight);
            if self.state == State::Up {
                self.raise_bound();
            }
        }
        false
    }

    /// The window grows by one packet per acknowledged packets; the slope doubles every round.
    pub(super) fn raise_slope(&mut self) {
        let packets = (1u64 << self.up_rounds) as f64;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_acked_per_packet = (self.window / packets).max(1.0);
    }

    pub(super) fn raise_bound(&mut self) {
        if !self.is_window_limited() || self.window < self.bounds.inflight_hi {
            return;
        }
        self.up_acked += self.sample.acked;
        let more = libm::floor(self.up_acked / self.up_acked_per_packet);
        self.up_acked -= more * self.up_acked_per_packet;
        self.bounds.inflight_hi += more;
        if self.round_start {
            self.raise_slope();
        }
    }

    pub(super) fn update_min_rtt(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let in_probe = matches!(self.state, State::ProbeRtt(_));
        let stale =
            self.probe_rtt_min.rtt.is_some() && self.probe_rtt_min.is_stale(cx.now, self.every());
        if stale && !in_probe {
            // Computed before a sample that includes a queue replaces the path's values.
            self.probe_rtt_window = self.bdp(self.rate, PROBE_RTT_GAIN).max(MIN_CWND);
        }
        let rtt = ack.acked.iter().filter_map(|p| p.rtt).min();
        if let Some(rtt) = rtt {
            if self.first_rtt.is_none() {
                self.first_rtt = Some(rtt);
                self.pacing = self.s.startup_gain * first_rate(INITIAL, Some(rtt));
            }
            self.probe_rtt_min.sample(cx.now, rtt, stale);
        }
        let old = self.min_rtt.is_stale(cx.now, RTT_MEMORY);
        if old || self.min_rtt.rtt.is_none() || self.probe_rtt_min.rtt <= self.min_rtt.rtt {
            self.min_rtt = self.probe_rtt_min;
        }
        if stale && !in_probe && !self.idle {
            self.save_window();
            self.ack_phase = AckPhase::ProbeStopping;
            self.begin_round();
            self.enter(cx, State::ProbeRtt(ProbeRttTimer::default()));
        }
        if let State::ProbeRtt(mut hold) = self.state {
            // Rates that we limit say nothing about the path.
            self.self_limited_until = self.delivered + ack.in_flight;
            let small = self.packets(ack.in_flight) <= self.probe_rtt_window;
            let over = hold.is_over(cx.now, self.round, small, PROBE_RTT);
            if self.state != State::ProbeRtt(hold) {
                self.begin_round();
                self.state = State::ProbeRtt(hold);
            }
            if over {
                self.leave_probe_rtt(cx);
            }
        }
        // The first sample after a pause measures the empty path.
        self.idle &= rtt.is_none();
    }

    fn every(&self) -> Span {
        self.s.probe_rtt_every
    }

    pub(super) fn leave_probe_rtt(&mut self, cx: &mut Cx<'_>) {
        self.probe_rtt_min.at = cx.now;
        self.restore_window();
        self.bounds.reset_lower_bounds();
        if self.full_pipe_reached {
            // The data in flight is small already, so there is nothing to drain.
            self.enter_down(cx);
            self.enter(cx, State::Cruise);
        } else {
            self.enter(cx, State::Startup);
        }
    }
}
