// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mdi:profile=original`: what the authors' program does (repository comnetsAD/MDI).
//!
//! Frozen: it only changes when it differs from the program. It shares the matrix and Verus'
//! equation 5 with the living form.
//!
//! | constant | value | source |
//! |---|---|---|
//! | epoch | 5 ms | verus_server |
//! | bin | truncated | verus_server |
//! | delay beyond the grid | window x 0.975 above, + 21 below; its comments have others for other channels: options | verus_server |
//! | state never seen | the states before; if none, 1 packet | verus_server |
//! | window x on loss | 0.7, until the next draw; then 1/w per ACK for ever | verus_server |
//! | start | 10 packets and 20 ms | verus_server |
use super::super::verus::epochs::Epochs;
use super::super::verus::release::{epochs_in, release_exact, whole_packets};
use super::{DECREASE, EPOCH, MAX_WINDOW, Matrix, START, change};
use crate::{AckBatch, Allowance, Controller, Cx, Event, LossBatch, Needs, Path, Rto, Sent, Tag};
use alcc_units::{Bytes, Rng, Span, Time};
use std::sync::Arc;

const FIRST_DELAY: f64 = 20.0;
pub(super) const ABOVE: f64 = 0.975;
pub(super) const BELOW: f64 = 21.0;

#[derive(Clone)]
pub(super) struct Original {
    matrix: Arc<Matrix>,
    /// What a delay beyond the grid does to the window: a factor, and packets.
    above: f64,
    below: f64,
    mss: Bytes,
    rng: Rng,
    /// Packets.
    pub(super) window: f64,
    /// Windows of the last two epochs, the newest first, and delays in ms.
    pub(super) windows: [f64; 2],
    pub(super) delays: [f64; 2],
    /// The largest sample of this epoch, ms.
    largest: Option<f64>,
    rtt: f64,
    epochs: Epochs,
    quota: Bytes,
    /// Less than a packet that equation 5 released.
    credit: f64,
    in_flight: Bytes,
    /// Set by the first loss, never cleared.
    lossy: bool,
}

impl Original {
    pub(super) fn new(matrix: Arc<Matrix>, above: f64, below: f64) -> Self {
        Self {
            matrix,
            above,
            below,
            mss: Bytes::new(1448),
            rng: Rng::new(1),
            window: START,
            windows: [START; 2],
            delays: [FIRST_DELAY; 2],
            largest: None,
            rtt: 0.0,
            epochs: Epochs::new(EPOCH),
            quota: Bytes::ZERO,
            credit: 0.0,
            in_flight: Bytes::ZERO,
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
        let silence = self.epochs.silence(now);
        let sampled = self.largest.take();
        let delay = sampled.unwrap_or_else(|| self.delays[0].max(silence));
        self.window = self.step(delay).clamp(1.0, MAX_WINDOW);
        if sampled.is_some() {
            self.delays = [delay, self.delays[0]];
        }
        self.windows = [self.window, self.windows[0]];
        self.release();
    }

    /// Equation 5 of Verus.
    fn release(&mut self) {
        let in_flight = self.in_flight.get() as f64 / self.mss.get().max(1) as f64;
        let epochs = epochs_in(self.rtt, EPOCH.as_millis_f64());
        let exact = release_exact(self.window, in_flight, epochs);
        self.quota = self.mss.mul_f64(whole_packets(exact, &mut self.credit));
    }

    pub(super) fn reduce(&mut self, cx: &mut Cx<'_>, why: &'static str, label: Tag) {
        let from = self.window;
        let sent_under = label.0.clamp(1, MAX_WINDOW as u64) as f64;
        self.window = (DECREASE * sent_under).min(self.window).max(1.0);
        self.lossy = true;
        self.quota = Bytes::ZERO;
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
        self.mss = path.mss.max(Bytes::new(1));
        self.rng = Rng::new(path.seed);
        self.epochs.start(cx.now);
        self.release();
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss.max(Bytes::new(1));
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.epochs.on_sent(cx.now, sent);
        self.in_flight = sent.in_flight_before + sent.len;
        self.quota = self.quota.saturating_sub(sent.len);
        Tag(self.window as u64)
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.in_flight = ack.in_flight;
        self.epochs.hear(cx.now);
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
        self.in_flight = loss.in_flight;
        if let Some(lost) = loss.lost.first().filter(|_| loss.new_episode) {
            self.reduce(cx, "loss", lost.tag);
        }
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.in_flight = rto.in_flight;
        self.epochs.hear(cx.now);
        if rto.backoff <= 1 {
            self.reduce(cx, "timeout", rto.oldest.tag);
        }
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        self.epochs.resume(cx.now);
        self.in_flight = Bytes::ZERO;
        self.largest = None;
        self.release();
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if self.epochs.end(cx.now) {
            self.epoch(cx.now);
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance {
            quota: self.quota,
            ..Allowance::window(Bytes::MAX)
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.epochs.timer(self.in_flight, self.quota, self.mss)
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("window", self.window);
        put("quota", self.quota.packets(self.mss));
        put("rtt_ms", self.rtt);
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}
