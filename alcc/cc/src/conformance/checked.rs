// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the host's side of the contract.
use crate::registry::{Build, Built};
use crate::{
    AckBatch, Algorithm, Allowance, Controller, Cx, Form, Header, Instance, LossBatch, Needs,
    Options, Packet, Path, Pn, Receiver, RecoveryEnd, Registry, Rto, Sending, Sent, Spurious, Tag,
    WithReceiver,
};
use alcc_units::{Bytes, Span, Time};
use std::cell::Cell;
use std::sync::Arc;

/// An algorithm that panics when its host breaks the contract of [`Controller`]. It checks the
/// order of calls at one instant, and that time never goes back. Batches must be ascending and not
/// empty, and totals must match the packets. Tests of hosts use it.
#[derive(Clone)]
pub struct Checked {
    inner: Instance,
    now: Time,
    started: bool,
    /// The step that this instant has reached. When the host reads the allowance, a new turn
    /// begins.
    step: Cell<Step>,
    sent: Option<Pn>,
    delivered: Bytes,
    round_ends: Bytes,
    /// True between the start and the end of an episode.
    episode: bool,
}

/// The order of calls at one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Begin,
    Feedback,
    Loss,
    Ack,
    RecoveryEnd,
    Timer,
    Sending,
}

impl Checked {
    /// Wraps `inner`.
    pub fn of(inner: Instance) -> Instance {
        inner.wrapped(|inner| Self {
            inner,
            now: Time::ZERO,
            started: false,
            step: Cell::new(Step::Begin),
            sent: None,
            delivered: Bytes::ZERO,
            round_ends: Bytes::ZERO,
            episode: false,
        })
    }

    /// All algorithms of a registry, each wrapped.
    pub fn registry(all: &Registry) -> Registry {
        fn watched(name: &'static str, inner: Build) -> Build {
            if let Build::Forms { own, forms } = inner {
                let form = |form: Form| Form {
                    build: watched(name, form.build),
                    ..form
                };
                return Build::Forms {
                    own: Box::new(watched(name, *own)),
                    forms: forms.into_iter().map(form).collect(),
                };
            }
            let build =
                move |options: &Options<'_>| -> Built { Ok(Checked::of(inner.build(options)?)) };
            Build::Loaded {
                file: name.into(),
                build: Arc::new(build),
            }
        }
        let watched = |algorithm: &Algorithm| Algorithm {
            build: watched(algorithm.name, algorithm.build.clone()),
            ..algorithm.clone()
        };
        all.iter().map(watched).fold(all.clone(), Registry::with)
    }

    fn event(&mut self, cx: &Cx<'_>, step: Step) {
        assert!(self.started, "{step:?} before the start");
        assert!(
            cx.now >= self.now,
            "{step:?} at {}, after {}",
            cx.now,
            self.now
        );
        if cx.now > self.now {
            self.step.set(Step::Begin);
        }
        self.now = cx.now;
        let before = self.step.replace(step);
        // Sending ends a turn: further events at the same moment belong to another one.
        assert!(
            before <= step || before == Step::Sending,
            "{step:?} after {before:?} at {}",
            cx.now
        );
    }

    /// A call that may come at any point of the order.
    fn anywhere(&mut self, cx: &Cx<'_>, what: &str) {
        assert!(self.started, "{what} before the start");
        assert!(
            cx.now >= self.now,
            "{what} at {}, after {}",
            cx.now,
            self.now
        );
        if cx.now > self.now {
            self.step.set(Step::Begin);
        }
        self.now = cx.now;
    }

    fn packets(&self, what: &str, packets: &[Packet]) {
        assert!(!packets.is_empty(), "{what} of no packets");
        let ascending = packets.windows(2).all(|w| w[0].pn < w[1].pn);
        let numbers = || packets.iter().map(|p| p.pn).collect::<Vec<_>>();
        assert!(ascending, "{what} of {:?}", numbers());
        for packet in packets {
            assert!(
                Some(packet.pn) <= self.sent,
                "{what} of {}, which never left: {:?} did",
                packet.pn,
                self.sent
            );
            assert!(packet.sent_at <= self.now, "{what}: sent {packet:?}");
        }
    }
}

impl Controller for Checked {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        assert!(!self.started, "started twice");
        assert!(path.mss > Bytes::ZERO);
        (self.started, self.now) = (true, cx.now);
        self.inner.on_start(cx, path);
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.event(cx, Step::Sending);
        assert!(
            // Over TCP, several small writes may share a packet number.
            Some(sent.pn) >= self.sent,
            "{} after {:?}",
            sent.pn,
            self.sent
        );
        self.sent = Some(sent.pn);
        self.inner.on_sent(cx, sent)
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.event(cx, Step::Ack);
        self.packets("acknowledgement", ack.acked);
        assert!(
            ack.delivered >= self.delivered,
            "{} delivered in total, after {}",
            ack.delivered,
            self.delivered
        );
        for packet in ack.acked {
            assert!(
                packet.stamp.delivered <= ack.delivered,
                "{} delivered when packet {} left, {} in total",
                packet.stamp.delivered,
                packet.pn,
                ack.delivered
            );
        }
        self.delivered = ack.delivered;
        if ack.round_start {
            let over = (ack.acked.last()).is_some_and(|p| p.stamp.delivered >= self.round_ends);
            assert!(over, "a round trip begins at {} in another", cx.now);
            self.round_ends = ack.delivered;
        }
        self.inner.on_ack(cx, ack);
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if loss.new_episode && self.step.get() == Step::RecoveryEnd {
            self.step.set(Step::Begin);
        }
        self.event(cx, Step::Loss);
        self.packets("loss", loss.lost);
        assert!(
            !(loss.new_episode && self.episode),
            "an episode begins at {} before the end of the other",
            cx.now
        );
        self.episode |= loss.new_episode;
        self.inner.on_loss(cx, loss);
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.anywhere(cx, "a timeout");
        assert!(rto.backoff > 0, "a timeout that is not even the first");
        self.inner.on_rto(cx, rto);
    }

    fn on_spurious(&mut self, cx: &mut Cx<'_>, what: Spurious) {
        self.anywhere(cx, "a mistake");
        self.inner.on_spurious(cx, what);
    }

    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.event(cx, Step::RecoveryEnd);
        self.episode = false;
        self.inner.on_recovery_end(cx, end);
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        self.anywhere(cx, "an idle restart");
        self.inner.on_idle_restart(cx, idle);
    }

    fn release_memory(&mut self) {
        self.inner.release_memory();
    }

    fn on_mtu(&mut self, cx: &mut Cx<'_>, mss: Bytes) {
        self.anywhere(cx, "another mss");
        assert!(mss > Bytes::ZERO);
        self.inner.on_mtu(cx, mss);
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.event(cx, Step::Timer);
        let due = self.inner.next_timer();
        assert!(
            due.is_some_and(|due| due <= cx.now),
            "a timer for {due:?} at {}",
            cx.now
        );
        self.inner.on_timer(cx);
    }

    fn allowance(&self) -> Allowance {
        self.step.set(Step::Begin);
        self.inner.allowance()
    }

    fn next_timer(&self) -> Option<Time> {
        self.inner.next_timer()
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        self.inner.gauges(put);
    }
}

impl WithReceiver for Checked {
    fn receiver(&self) -> Box<dyn Receiver> {
        let receiver = self.inner.receiver();
        receiver.unwrap_or_else(|| unreachable!("it is wrapped as what it is"))
    }

    fn header_len(&self) -> u8 {
        self.inner.header_len()
    }

    fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header {
        assert_eq!(Some(sending.pn), self.sent, "a header of another packet");
        self.inner.header(cx, sending)
    }

    fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]) {
        self.event(cx, Step::Feedback);
        self.inner.on_feedback(cx, report);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    fn broken(fault: impl FnOnce(&mut Bench) + std::panic::UnwindSafe) -> String {
        let run = std::panic::catch_unwind(move || {
            let mut b = Bench::of("reno");
            b.cc = Checked::of(b.cc.clone());
            let path = Path {
                mss: Bytes::new(1000),
                rtt_hint: None,
                seed: 1,
            };
            b.cc.on_start(
                &mut Cx {
                    now: Time::ZERO,
                    log: &mut crate::Discard,
                },
                &path,
            );
            b.round();
            fault(&mut b);
        });
        let error = run.expect_err("nothing was found");
        error.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn a_host_that_breaks_the_contract_is_found() {
        let at = |b: &Bench, ms: u64| b.now + Span::from_millis(ms);
        let order = broken(|b| {
            b.wait(Span::from_millis(1));
            b.recovered();
            let now = b.now;
            let packet = b.packet(now, None);
            b.wait(Span::from_millis(1));
            b.recovered();
            // If the application limited the sender, the bench does not check the window.
            let limited = crate::LimitedBy {
                app: true,
                ..crate::LimitedBy::default()
            };
            b.ack_batch(&[packet], limited);
        });
        assert!(order.starts_with("Ack after RecoveryEnd at "), "{order}");
        let back = broken(move |b| {
            b.now = at(b, 5);
            b.recovered();
            b.now = Time::ZERO;
            b.recovered();
        });
        assert!(back.contains("RecoveryEnd at 0"), "{back}");
        let twice = broken(|b| {
            b.wait(Span::from_millis(1));
            let now = b.now;
            let packet = b.packet(now, None);
            b.wait(Span::from_millis(1));
            b.ack_batch(&[packet, packet], crate::LimitedBy::default());
        });
        assert!(twice.starts_with("acknowledgement of ["), "{twice}");
    }
}
