// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mdi:profile=original`: the authors' program (repository comnetsAD/MDI).
//!
//! Frozen: it only changes when it differs from the program. It shares the matrix, equation 5 of
//! Verus and the reduction by a loss with the current form.
//!
//! | constant | value | source |
//! |---|---|---|
//! | epoch | 5 ms | verus_server |
//! | bin | truncated | verus_server |
//! | delay beyond the grid | window x 0.975 above, + 21 below; its comments have others for other channels: options | verus_server |
//! | state never seen | the states before; if none, 1 packet | verus_server |
//! | window x on loss | 0.7, until the next draw; then 1/w per ACK for ever | verus_server |
//! | start | 10 packets and 20 ms | verus_server |
use super::by_epochs::{ByEpochs, reduced};
use super::{EPOCH, FIRST_DELAY, MAX_WINDOW, Matrix, START, change};
use alcc_cc::{AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Path, Rto, Sent, Tag};
use alcc_units::{Bytes, Rng, Span, Time};
use std::sync::Arc;

pub(super) const ABOVE: f64 = 0.975;
pub(super) const BELOW: f64 = 21.0;

#[derive(Clone)]
pub(super) struct Original {
    matrix: Arc<Matrix>,
    /// The effect on the window of a delay above the grid: a factor, and packets.
    above: f64,
    below: f64,
    rng: Rng,
    /// The window, in packets.
    pub(super) window: f64,
    /// Windows of the last two epochs, the newest first, and delays in ms.
    pub(super) windows: [f64; 2],
    pub(super) delays: [f64; 2],
    /// The largest sample of this epoch, ms.
    largest: Option<f64>,
    rtt: f64,
    flow: ByEpochs,
    /// Set by the first loss, and never cleared.
    lossy: bool,
}

impl Original {
    pub(super) fn new(matrix: Arc<Matrix>, above: f64, below: f64) -> Self {
        Self {
            matrix,
            above,
            below,
            rng: Rng::new(1),
            window: START,
            windows: [START; 2],
            delays: [FIRST_DELAY; 2],
            largest: None,
            rtt: 0.0,
            flow: ByEpochs::new(),
            lossy: false,
        }
    }

    /// The next window of the walk.
    pub(super) fn step(&mut self, delay: f64) -> f64 {
        let grid = *self.matrix.grid();
        let [w1, w2] = self.windows;
        let last_delay = change(self.delays[0], self.delays[1], 0.0);
        let last_window = change(w1, w2, 0.0);
        let new_delay = change(delay, self.delays[0], 0.0);
        if new_delay > grid.delay.max() {
            return self.window * self.above;
        }
        if new_delay < grid.delay.value(0) {
            return self.window + self.below;
        }
        let delay_bin = grid.delay.below(last_delay);
        let state = grid.state(delay_bin, grid.window.below(last_window));
        let next = grid.delay.below(new_delay);
        let r = self.rng.unit();
        let found = self.matrix.search(state, next, r);
        found.map_or(1.0, |bin| moved(w1, grid.window.value(bin)))
    }

    fn epoch(&mut self, now: Time) {
        let sampled = self.largest.take();
        let delay = self.flow.delay(now, sampled, self.delays[0]);
        self.window = self.step(delay).clamp(1.0, MAX_WINDOW);
        if sampled.is_some() {
            self.delays = [delay, self.delays[0]];
        }
        self.windows = [self.window, self.windows[0]];
        self.release();
    }

    fn release(&mut self) {
        self.flow.release(self.window, self.rtt);
    }

    pub(super) fn reduce(&mut self, cx: &mut Cx<'_>, why: &'static str, label: Tag) {
        let from = self.window;
        self.window = reduced(self.window, label);
        self.lossy = true;
        self.flow.stop();
        let to = self.window;
        cx.log.event(cx.now, Event::Decrease { why, from, to });
    }
}

/// The window after a change.
pub(super) fn moved(window: f64, change: f64) -> f64 {
    let scale = if window > 1.0 { window } else { window + 1.0 };
    window * (100.0 + change / libm::log10(scale).max(1e-6)) / 100.0
}

impl Controller for Original {
    fn needs(&self) -> Needs {
        Needs {
            per_packet_ack: true,
            feedback_period: EPOCH,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.flow.set_mss(path.mss);
        self.rng = Rng::new(path.seed);
        self.flow.start(cx.now);
        self.release();
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.flow.set_mss(mss);
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.flow.sent(cx.now, sent);
        Tag(self.window as u64)
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.flow.heard(cx.now, ack.in_flight);
        for packet in ack.acked {
            if let Some(rtt) = packet.rtt {
                self.rtt = rtt.as_millis_f64().max(1e-3);
                let largest = self.largest.unwrap_or(self.rtt);
                self.largest = Some(largest.max(self.rtt));
            }
            if self.lossy {
                self.window = (self.window + 1.0 / self.window).min(MAX_WINDOW);
            }
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.flow.in_flight = loss.in_flight;
        if let Some(lost) = loss.lost.first().filter(|_| loss.new_episode) {
            self.reduce(cx, "loss", lost.tag);
        }
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.flow.heard(cx.now, rto.in_flight);
        if rto.backoff <= 1 {
            self.reduce(cx, "timeout", rto.oldest.tag);
        }
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        self.flow.resume(cx.now);
        self.largest = None;
        self.release();
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if self.flow.end(cx.now) {
            self.epoch(cx.now);
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance {
            quota: self.flow.quota(),
            ..Allowance::window(Bytes::MAX)
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.flow.timer()
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("window", self.window);
        put("quota", self.flow.quota().packets(self.flow.mss()));
        put("rtt_ms", self.rtt);
    }
}
