// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BBR version 3: BBR that also bounds the data in flight by losses. Sources: draft-ietf-ccwg-bbr
//! (-06), and the authors' Linux module (repository google/bbr, branch v3).
//!
//! As version 1 it paces at the largest delivery rate and probes for more, but only every two to
//! three seconds, and slowly at first. It remembers the data in flight at which more than 2 % were
//! lost. Between probes a round with loss reduces rate and window to the delivered amounts until
//! the next probe. This file has the host's events and the window, `cycle.rs` the states,
//! `bounds.rs` the bounds set by losses.
//!
//! | constant | `linux` | `draft` | source |
//! |---|---|---|---|
//! | startup: gain of pacing; of the window | 2.773; 2 | 2.77; 2 | module; section 2.5 |
//! | drain: gain of pacing; longest | 88/256; no limit | 0.5; 3 rounds | module; section 5.3.2 |
//! | gains down, cruise, refill, up; of the window | 232/256, 1, 1, 5/4; 2 and 2.25 in up | 0.90, rest same | module; section 5.6.1 |
//! | empty path shown every; for | 5 s; 200 ms and a round | 10 s; same | module; section 5.3.4 |
//! | window then; smallest window | half a bandwidth-delay product; 4 packets | same | section 5.3.4.3 |
//! | memory of the smallest RTT; of the rate | 10 s; this and the last cycle | same | section 5.5 |
//! | pacing below the estimate | 1 % | same | section 5.6.2 |
//! | the pipe is full | three rounds without a quarter more | same | section 5.3.1.2 |
//! | too much loss; of it the bound keeps | 2 % of a flight; 0.7 at least | same | LossThresh, Beta |
//! | startup ends on loss from | 6 holes in a round | same | StartupFullLossCnt |
//! | headroom while cruising | 15 % of the bound | same | Headroom |
//! | between probes | 2 to 3 s, or a round per packet of the product, 62 to 63 | same | section 5.3.3.8 |
//!
//! **Differs from the draft and the module**: no explicit congestion notification. Offloading
//! counts as 3 quanta of a millisecond. The window for the empty path is fixed when the search for
//! it begins. That is as in the draft; the module follows the estimate. A timeout sets the window
//! to one packet, until all is repaired. Losses are reported with the lost transmission: a loss
//! found by a probe after silence counts like any other.
//!
//! **Known weakness**: a bound found by chance (a burst of losses, a fade) applies for seconds, and
//! is raised again by one packet per round at first. On links whose rate varies within a cycle it
//! sends at the best rate of two cycles, and builds a queue.
mod bounds;
mod cycle;
#[cfg(test)]
mod tests;

use alcc_cc::parts::{
    AckAggregation, FullPipe, MinRtt, RateSample, first_rate, pacing_rate, quantum, segments,
    window_bytes,
};
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Event, Instance, LossBatch,
    Needs, Options, Path, RecoveryEnd, Rto, Sent, Spurious, Tag,
};
use alcc_units::{Bytes, Rng, Span, Time};
use bounds::{Bounds, Latest, Undo};
use cycle::{AckPhase, State};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "bbr3",
    summary: "BBR v3: as bbr, and bounds what is in flight by the losses that it sees",
    profiles: Cow::Borrowed(&["linux", "draft"]),
    options: &[],
    build: Build::Function(build),
};

const INITIAL: f64 = 10.0;
const MIN_CWND: f64 = 4.0;
const MAX_CWND: f64 = 1e9;
/// No bound.
const NONE: f64 = 1e12;
const MARGIN: f64 = 0.99;
const RTT_MEMORY: Span = Span::from_secs(10);
const PROBE_RTT: Span = Span::from_millis(200);
const PROBE_RTT_GAIN: f64 = 0.5;
/// Rounds per slot, of which two count: in startup this round and the last.
const EXTRA_ACKED_ROUNDS: u64 = 5;

/// In what the module and the draft differ.
#[derive(Clone, Copy)]
struct Settings {
    startup_gain: f64,
    drain_gain: f64,
    drain_rounds: u64,
    down_gain: f64,
    /// Interval of ProbeRTT.
    probe_rtt_every: Span,
}

impl Settings {
    const LINUX: Self = Self {
        startup_gain: 2.773,
        drain_gain: 88.0 / 256.0,
        drain_rounds: u64::MAX,
        down_gain: 232.0 / 256.0,
        probe_rtt_every: Span::from_secs(5),
    };
    const DRAFT: Self = Self {
        startup_gain: 2.77,
        drain_gain: 0.5,
        drain_rounds: 3,
        down_gain: 0.9,
        probe_rtt_every: Span::from_secs(10),
    };
}

/// The packet that an acknowledgement is about, and what happened since it was sent.
#[derive(Clone, Copy, Default)]
struct Sample {
    rate: f64,
    /// Packets acknowledged now.
    acked: f64,
    /// Packets delivered, and lost, since it was sent.
    delivered: f64,
    lost: f64,
    /// In flight when it was sent.
    in_flight: f64,
    /// Delivered in total when it was sent, bytes.
    prior: Bytes,
    app_limited: bool,
}

#[derive(Clone)]
struct Bbr3 {
    s: Settings,
    mss: Bytes,
    state: State,
    ack_phase: AckPhase,
    round: u64,
    round_start: bool,
    round_ends: Bytes,
    delivered: Bytes,
    /// In total.
    lost: Bytes,
    sample: Sample,
    /// The largest rate of this cycle and of the last one.
    rates: [f64; 2],
    /// The bandwidth estimate, limited after losses.
    rate: f64,
    bounds: Bounds,
    latest: Latest,
    undo: Undo,
    /// The smallest RTT; and the one that is looked for more often.
    min_rtt: MinRtt,
    probe_rtt_min: MinRtt,
    first_rtt: Option<Span>,
    pipe: FullPipe,
    /// The pipe has been full once.
    full_pipe_reached: bool,
    aggregation: AckAggregation,
    /// Packets.
    window: f64,
    prior_window: f64,
    probe_rtt_window: f64,
    /// Packets per second, margin included.
    pacing: f64,
    recovering: bool,
    idle: bool,
    /// Rates of what was sent before this was delivered are limited by ourselves.
    self_limited_until: Bytes,
    /// The window was what limited sending, in this round.
    window_limited: u64,
    // Probing.
    cycle_began: Time,
    wait: Span,
    rounds_since_up: u64,
    up_rounds: u32,
    up_acked: f64,
    up_acked_per_packet: f64,
    probe_sample: bool,
    too_high: bool,
    precautionary: bool,
    drain_began: u64,
    rng: Rng,
}

fn build(options: &Options<'_>) -> Built {
    let settings = match options.profile() {
        "draft" => Settings::DRAFT,
        _ => Settings::LINUX,
    };
    Ok(Instance::new(Bbr3::new(settings)))
}

impl Bbr3 {
    fn new(s: Settings) -> Self {
        Self {
            s,
            mss: Bytes::new(1448),
            state: State::Startup,
            ack_phase: AckPhase::Other,
            round: 0,
            round_start: false,
            round_ends: Bytes::ZERO,
            delivered: Bytes::ZERO,
            lost: Bytes::ZERO,
            sample: Sample::default(),
            rates: [0.0; 2],
            rate: 0.0,
            bounds: Bounds::NONE,
            latest: Latest::default(),
            undo: Undo::default(),
            min_rtt: MinRtt::since(Time::ZERO),
            probe_rtt_min: MinRtt::since(Time::ZERO),
            first_rtt: None,
            pipe: FullPipe::default(),
            full_pipe_reached: false,
            aggregation: AckAggregation::default(),
            window: INITIAL,
            prior_window: 0.0,
            probe_rtt_window: INITIAL,
            pacing: 0.0,
            recovering: false,
            idle: false,
            self_limited_until: Bytes::ZERO,
            window_limited: 0,
            cycle_began: Time::ZERO,
            wait: Span::ZERO,
            rounds_since_up: 0,
            up_rounds: 0,
            up_acked: 0.0,
            up_acked_per_packet: NONE,
            probe_sample: false,
            too_high: false,
            precautionary: false,
            drain_began: 0,
            rng: Rng::new(1),
        }
    }

    fn packets(&self, bytes: Bytes) -> f64 {
        bytes.get() as f64 / self.mss.get().max(1) as f64
    }

    fn max_rate(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    /// Packets that the path holds at `rate` without a queue, times a gain.
    fn bdp(&self, rate: f64, gain: f64) -> f64 {
        match self.min_rtt.rtt {
            Some(rtt) if rate > 0.0 => gain * rate * rtt.as_secs_f64(),
            _ => INITIAL,
        }
    }

    /// With room for what the sender and the path do in bursts.
    fn with_room(&self, packets: f64) -> f64 {
        let up = if self.state == State::Up { 2.0 } else { 0.0 };
        packets.max(3.0 * quantum(self.pacing)).max(MIN_CWND) + up
    }

    fn save_window(&mut self) {
        let fresh = !self.recovering && !matches!(self.state, State::ProbeRtt(_));
        let before = if fresh { 0.0 } else { self.prior_window };
        self.prior_window = before.max(self.window);
    }

    fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    fn take_sample(&mut self, ack: &AckBatch<'_>) {
        let Some(newest) = ack.acked.last() else {
            return;
        };
        let got = RateSample::of(ack, self.mss);
        self.delivered = ack.delivered;
        let stamp = newest.stamp;
        self.sample = Sample {
            rate: got.rate,
            acked: got.packets,
            delivered: self.packets(ack.delivered.saturating_sub(stamp.delivered)),
            lost: self.packets(self.lost.saturating_sub(Bytes::new(newest.tag.0))),
            in_flight: self.packets(stamp.in_flight),
            prior: stamp.delivered,
            app_limited: got.app_limited || stamp.delivered < self.self_limited_until,
        };
        self.round_start = stamp.delivered >= self.round_ends;
        if self.round_start {
            self.begin_round();
            self.round += 1;
            self.rounds_since_up = self.rounds_since_up.saturating_add(1);
        }
        if ack.limited.window {
            self.window_limited = self.round;
        }
    }

    fn begin_round(&mut self) {
        self.round_ends = self.delivered;
    }

    fn is_window_limited(&self) -> bool {
        self.window_limited == self.round
    }

    fn measure(&mut self) {
        let got = self.sample;
        if got.rate > 0.0 && (got.rate >= self.max_rate() || !got.app_limited) {
            self.rates[0] = self.rates[0].max(got.rate);
        }
    }

    fn hold_back(&mut self, now: Time) {
        let slot = if self.full_pipe_reached {
            EXTRA_ACKED_ROUNDS
        } else {
            1
        };
        let (packets, rate, window) = (self.sample.acked, self.rate, self.window);
        self.aggregation
            .add(now, self.round, slot, packets, rate, window);
    }

    fn set_pacing(&mut self, gain: f64) {
        if self.rate <= 0.0 {
            self.pacing = self.s.startup_gain * first_rate(INITIAL, self.first_rtt);
            return;
        }
        let pacing = gain * self.rate * MARGIN;
        if self.full_pipe_reached || pacing > self.pacing {
            self.pacing = pacing;
        }
    }

    fn set_window(&mut self) {
        let room = self.aggregation.extra_acked(self.rate);
        let most = self.with_room(self.bdp(self.rate, self.state.window_gain()) + room);
        let acked = self.sample.acked;
        if self.full_pipe_reached {
            self.window = (self.window + acked).min(most);
        } else if self.window < most || self.packets(self.delivered) < INITIAL {
            self.window += acked;
        }
        let mut cap = match self.state {
            State::Startup | State::Drain => NONE,
            State::Cruise => self.bounds.with_headroom(),
            State::ProbeRtt(_) => self.bounds.with_headroom().min(self.probe_rtt_window),
            _ => self.bounds.inflight_hi,
        };
        cap = cap.min(self.bounds.inflight_lo).max(MIN_CWND);
        self.window = self.window.clamp(MIN_CWND, MAX_CWND).min(cap);
    }
}

impl Controller for Bbr3 {
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
        (self.min_rtt, self.probe_rtt_min) = (MinRtt::since(cx.now), MinRtt::since(cx.now));
        self.set_pacing(1.0);
        self.enter(cx, State::Startup);
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    /// The tag is the number of losses before the packet was sent.
    fn on_sent(&mut self, _cx: &mut Cx<'_>, _sent: &Sent) -> Tag {
        Tag(self.lost.get())
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.take_sample(ack);
        self.begin_latest();
        self.measure();
        self.adapt_to_losses();
        self.hold_back(cx.now);
        self.check_full_pipe(cx);
        self.check_drain_done(cx, ack);
        self.advance_cycle(cx, ack);
        self.update_min_rtt(cx, ack);
        self.end_latest();
        self.rate = self.max_rate().min(self.bounds.bw_lo);
        self.set_pacing(self.state.pacing_gain(&self.s));
        if self.recovering && !ack.in_recovery {
            self.recovering = false;
            self.restore_window();
        }
        self.set_window();
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if loss.new_episode {
            self.save_window();
            self.recovering = true;
        }
        let mut next = None;
        for packet in loss.lost {
            self.lost += packet.len;
            // A hole is a run of packets. A record of several may have the number of its last.
            let others = segments(packet.len, self.mss).saturating_sub(1);
            if next.is_none_or(|next| packet.pn.saturating_sub(others) > next) {
                self.latest.holes = self.latest.holes.saturating_add(1);
            }
            next = packet.pn.checked_add(1);
            self.note_lost(cx, packet);
        }
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        let from = self.window;
        self.save_window();
        self.save_for_undo();
        self.recovering = true;
        self.window = 1.0;
        let (why, to) = ("timeout", 1.0);
        cx.log.event(cx.now, Event::Decrease { why, from, to });
    }

    fn on_spurious(&mut self, cx: &mut Cx<'_>, _what: Spurious) {
        self.recovering = false;
        self.restore_window();
        self.take_back(cx);
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _end: &RecoveryEnd) {
        if self.recovering {
            self.recovering = false;
            self.restore_window();
        }
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        self.idle = true;
        self.aggregation.restart();
        match self.state {
            State::ProbeRtt(hold) if hold.has_lasted(cx.now) => self.leave_probe_rtt(cx),
            State::Down | State::Cruise | State::Refill | State::Up => self.set_pacing(1.0),
            _ => {}
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance {
            rate: Some(pacing_rate(self.pacing, self.mss)),
            burst: self.mss * 2,
            ..Allowance::window(window_bytes(self.window, self.mss))
        }
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        let mbps = self.mss.get() as f64 * 8.0 / 1e6;
        put("cwnd", self.window);
        put("rate_mbps", self.rate * mbps);
        put("pacing_mbps", self.pacing * mbps);
        let least = self.min_rtt.rtt.unwrap_or_default();
        put("rtt_min_ms", least.as_millis_f64());
        put("inflight_bound", self.bounds.inflight_hi.min(MAX_CWND));
        let lately = self.bounds.inflight_lo.min(MAX_CWND);
        put("inflight_lately", lately);
        put("held_back", self.aggregation.extra_acked(self.rate));
    }
}
