// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bounds set by losses: a lasting one on the data in flight, found while probing, and others until
//! the next probe.
use super::cycle::State;
use super::{Bbr3, MIN_CWND, NONE};
use alcc_cc::parts::FullPipe;
use alcc_cc::{Cx, Packet};
use alcc_units::Bytes;

const LOSS_SHARE: f64 = 0.02;
const BETA: f64 = 0.7;
const HEADROOM: f64 = 0.15;
/// Number of holes in a round that ends startup.
const HOLES: u32 = 6;

/// Upper bounds, packets and packets per second; [`NONE`]: not bounded.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bounds {
    /// `inflight_longterm`, `inflight_hi`.
    pub(super) inflight_hi: f64,
    /// `inflight_shortterm`, `inflight_lo`.
    pub(super) inflight_lo: f64,
    /// `bw_shortterm`, `bw_lo`.
    pub(super) bw_lo: f64,
}

impl Bounds {
    pub(super) const NONE: Self = Self {
        inflight_hi: NONE,
        inflight_lo: NONE,
        bw_lo: NONE,
    };

    /// The bound with headroom for other flows.
    pub(super) fn with_headroom(&self) -> f64 {
        if self.inflight_hi >= NONE {
            return NONE;
        }
        let headroom = (HEADROOM * self.inflight_hi).max(1.0);
        (self.inflight_hi - headroom).max(MIN_CWND)
    }

    /// Resets the lower bounds at the beginning of a probe.
    pub(super) fn reset_lower_bounds(&mut self) {
        (self.inflight_lo, self.bw_lo) = (NONE, NONE);
    }

    /// For each bound the one that allows more.
    fn max(self, other: Self) -> Self {
        Self {
            inflight_hi: self.inflight_hi.max(other.inflight_hi),
            inflight_lo: self.inflight_lo.max(other.inflight_lo),
            bw_lo: self.bw_lo.max(other.bw_lo),
        }
    }
}

/// The delivery of the current round.
#[derive(Clone, Copy, Default)]
pub(super) struct Latest {
    rate: f64,
    inflight: f64,
    /// The round in which losses are counted ends when a packet sent after this total was delivered
    /// is acknowledged.
    round_ends: Bytes,
    round_start: bool,
    loss: bool,
    pub(super) holes: u32,
}

/// The state before the losses of an episode.
#[derive(Clone, Copy, Default)]
pub(super) struct Undo {
    bounds: Option<Bounds>,
    /// The state that the losses ended.
    state: Option<State>,
}

impl Bbr3 {
    pub(super) fn begin_latest(&mut self) {
        let (got, latest) = (self.sample, &mut self.latest);
        latest.rate = latest.rate.max(got.rate);
        latest.inflight = latest.inflight.max(got.delivered);
        latest.round_start = got.prior >= latest.round_ends;
        if latest.round_start {
            latest.round_ends = self.delivered;
        }
    }

    pub(super) fn end_latest(&mut self) {
        if self.latest.round_start {
            self.latest.rate = self.sample.rate;
            self.latest.inflight = self.sample.delivered;
        }
    }

    pub(super) fn forget_latest(&mut self) {
        (self.latest.loss, self.latest.rate, self.latest.inflight) = (false, 0.0, 0.0);
    }

    /// Once per round, unless probing: moves the bounds towards the delivered amounts.
    pub(super) fn adapt_to_losses(&mut self) {
        if !self.latest.round_start {
            return;
        }
        if self.state == State::Startup {
            self.look_for_heavy_loss();
        }
        self.latest.holes = 0;
        let loss = std::mem::take(&mut self.latest.loss);
        if !loss || self.state.is_probing() {
            return;
        }
        let (max_rate, window) = (self.max_rate(), self.window);
        let b = &mut self.bounds;
        if b.bw_lo >= NONE {
            b.bw_lo = max_rate;
        }
        if b.inflight_lo >= NONE {
            b.inflight_lo = window;
        }
        b.bw_lo = self.latest.rate.max(BETA * b.bw_lo);
        b.inflight_lo = self.latest.inflight.max(BETA * b.inflight_lo);
    }

    /// Ends startup if it has filled the buffer; the data delivered in a round is known to fit.
    fn look_for_heavy_loss(&mut self) {
        if self.recovering && self.latest.holes >= HOLES && self.is_too_high() {
            self.undo.state = Some(State::Startup);
            self.full_pipe_reached = true;
            let bdp = self.bdp(self.max_rate(), 1.0);
            self.bounds.inflight_hi = bdp.max(self.latest.inflight);
        }
    }

    pub(super) fn is_too_high(&self) -> bool {
        self.sample.lost > self.sample.in_flight * LOSS_SHARE
    }

    pub(super) fn save_for_undo(&mut self) {
        self.undo = Undo {
            bounds: Some(self.bounds),
            state: None,
        };
    }

    /// Notes a lost packet, which `self.lost` includes already.
    pub(super) fn note_lost(&mut self, cx: &mut Cx<'_>, packet: &Packet) {
        if !self.latest.loss {
            self.latest.round_ends = self.delivered;
            self.save_window();
            self.save_for_undo();
        }
        self.latest.loss = true;
        if !self.probe_sample {
            return;
        }
        let s = &mut self.sample;
        let mss = self.mss.get().max(1) as f64;
        s.in_flight = packet.stamp.in_flight.get() as f64 / mss;
        s.lost = self.lost.saturating_sub(Bytes::new(packet.tag.0)).get() as f64 / mss;
        s.app_limited = packet.stamp.app_limited;
        if self.is_too_high() {
            let size = self.packets(packet.len);
            let bound = in_flight_at_loss(self.sample.in_flight, self.sample.lost, size);
            self.bound_in_flight(cx, bound);
        }
    }

    /// Bounds the data in flight, because the probe has put too much in flight.
    fn bound_in_flight(&mut self, cx: &mut Cx<'_>, in_flight: f64) {
        self.too_high = true;
        self.probe_sample = false;
        if !self.sample.app_limited {
            self.bounds.inflight_hi = in_flight.max(self.target_inflight() * BETA);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.enter_down(cx);
        }
    }

    /// The bandwidth-delay product, unless losses have reduced the window further.
    pub(super) fn target_inflight(&self) -> f64 {
        self.bdp(self.rate, 1.0).min(self.window)
    }

    /// Restores the state before losses that were spurious.
    pub(super) fn take_back(&mut self, cx: &mut Cx<'_>) {
        let undo = std::mem::take(&mut self.undo);
        self.latest.loss = false;
        self.pipe = FullPipe::default();
        if let Some(before) = undo.bounds {
            self.bounds = self.bounds.max(before);
        }
        let in_probe_rtt = matches!(self.state, State::ProbeRtt(_));
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_pipe_reached = false;
                if !in_probe_rtt {
                    self.enter(cx, State::Startup);
                }
            }
            Some(State::Up) if self.state != State::Up && !in_probe_rtt => self.enter_refill(cx),
            _ => {}
        }
    }
}

/// The data in flight at which the losses exceeded their share (section 5.5.10.2). The lost packet
/// has `size` and was sent with `in_flight`, itself included, of which `lost` are lost, itself
/// included.
pub(super) fn in_flight_at_loss(in_flight: f64, lost: f64, size: f64) -> f64 {
    let (before, lost_before) = (in_flight - size, lost - size);
    let prefix = (LOSS_SHARE * before - lost_before) / (1.0 - LOSS_SHARE);
    (before + prefix.max(0.0)).max(0.0)
}
