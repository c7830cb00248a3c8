// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Samples of an algorithm from outside, once in each epoch, as the walk takes them.
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, Event, EventSink, Instance, LossBatch, Needs, Path,
    RecoveryEnd, Rto, Sent, Spurious, Tag,
};
use alcc_units::{Span, Time};
use alcc_zoo::model_driven::Epoch;
use std::sync::{Arc, Mutex};

/// Interval of the authors' program.
const EPOCH: Span = Span::from_millis(5);

/// Epochs without a restart in between.
pub(super) type Runs = Vec<Vec<Epoch>>;

/// An algorithm, and what it did in each epoch.
#[derive(Clone)]
pub(super) struct Watched {
    inner: Instance,
    runs: Arc<Mutex<Runs>>,
    slow_start: SlowStart,
    largest: Option<f64>,
    last: f64,
    smallest: f64,
    heard: Time,
    next: Time,
}

/// Hears whether it is in slow start.
#[derive(Clone)]
struct SlowStart(bool);

impl EventSink for SlowStart {
    fn event(&mut self, _now: Time, event: Event) {
        match event {
            Event::SlowStartExit { .. } => self.0 = false,
            Event::SlowStartRestart { .. } => self.0 = true,
            _ => {}
        }
    }
}

impl Watched {
    pub(super) fn new(inner: Instance, runs: Arc<Mutex<Runs>>) -> Self {
        Self {
            inner,
            runs,
            slow_start: SlowStart(true),
            largest: None,
            last: 0.0,
            smallest: f64::MAX,
            heard: Time::ZERO,
            next: Time::ZERO,
        }
    }

    fn tell<T>(
        &mut self,
        cx: &mut Cx<'_>,
        f: impl FnOnce(&mut dyn Controller, &mut Cx<'_>) -> T,
    ) -> T {
        let (now, log) = (cx.now, &mut self.slow_start);
        let told = f(&mut *self.inner, &mut Cx { now, log });
        self.look(now);
        told
    }

    /// An epoch may be over.
    fn look(&mut self, now: Time) {
        while self.next <= now {
            let at = self.next;
            self.next += EPOCH;
            let silence = at.since(self.heard).as_millis_f64();
            let delay = self
                .largest
                .take()
                .unwrap_or_else(|| self.last.max(silence));
            let mut window = 1.0;
            self.inner.gauges(&mut |name, value| {
                if name == "window" || name == "cwnd" {
                    window = value.max(1.0);
                }
            });
            let mut runs = alcc_sys::lock(&self.runs);
            if self.slow_start.0 || self.last == 0.0 {
                if runs.last().is_none_or(|run| !run.is_empty()) {
                    runs.push(Vec::new());
                }
            } else if let Some(run) = runs.last_mut() {
                let smallest = self.smallest;
                run.push(Epoch {
                    delay,
                    smallest,
                    window,
                });
            }
            self.last = delay;
        }
    }
}

impl Controller for Watched {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }
    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.next = cx.now + EPOCH;
        self.tell(cx, |cc, cx| cc.on_start(cx, path));
    }
    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.tell(cx, |cc, cx| cc.on_sent(cx, sent))
    }
    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.look(cx.now);
        for rtt in ack.acked.iter().filter_map(|p| p.rtt) {
            let rtt = rtt.as_millis_f64();
            self.largest = Some(self.largest.map_or(rtt, |largest| largest.max(rtt)));
            self.smallest = self.smallest.min(rtt);
        }
        self.heard = cx.now;
        self.tell(cx, |cc, cx| cc.on_ack(cx, ack));
    }
    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.tell(cx, |cc, cx| cc.on_loss(cx, loss));
    }
    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.tell(cx, |cc, cx| cc.on_rto(cx, rto));
    }
    fn on_spurious(&mut self, cx: &mut Cx<'_>, what: Spurious) {
        self.tell(cx, |cc, cx| cc.on_spurious(cx, what));
    }
    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.tell(cx, |cc, cx| cc.on_recovery_end(cx, end));
    }
    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        self.tell(cx, |cc, cx| cc.on_idle_restart(cx, idle));
    }
    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.tell(cx, |cc, cx| cc.on_timer(cx));
    }
    fn allowance(&self) -> Allowance {
        self.inner.allowance()
    }
    fn next_timer(&self) -> Option<Time> {
        self.inner.next_timer()
    }
    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        self.inner.gauges(put);
    }
}
