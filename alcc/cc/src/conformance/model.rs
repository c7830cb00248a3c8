// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations on the reference host, with the contract checked after each.
use super::operation::Operation;
use super::sender::Sender;
use crate::parts::{MAX_PACING_RATE, MIN_PACING_RATE};
use crate::{Allowance, Event, Feed, Instance, LimitedBy, Log, Packet, Spurious};
use alcc_units::{Bytes, Span, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A sink that notes whether an algorithm has changed its mode.
#[derive(Default)]
struct Modes(Arc<AtomicBool>);

impl Modes {
    fn have_changed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn log(&self) -> Log {
        let changed = Arc::clone(&self.0);
        Box::new(move |_, event, _| {
            if matches!(
                event,
                Event::Mode { .. } | Event::SlowStartExit { .. } | Event::SlowStartRestart { .. }
            ) {
                changed.store(true, Ordering::Relaxed);
            }
        })
    }
}

pub(super) struct Model {
    pub(super) sender: Sender,
    mss: Bytes,
    now: Time,
}

impl Model {
    pub(super) fn new(cc: Instance, tick: Span, seed: u64) -> Self {
        let mss = Bytes::new(1448);
        Self {
            sender: Sender::new(cc, mss, mss, tick, seed),
            mss,
            now: Time::ZERO,
        }
    }

    pub(super) fn allowance(&self) -> Allowance {
        self.sender.feed.allowance()
    }

    /// Runs one operation and all checks after it.
    pub(super) fn apply(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Advance(span) => self.now += *span,
            Operation::Send { n, segments } => {
                self.sender.len = self.mss * *segments;
                for _ in 0..*n {
                    if !self.send()? {
                        break;
                    }
                }
            }
            Operation::Ack {
                share,
                skip,
                delay,
                ambiguous,
            } => self.acknowledge(*share, *skip, *delay, *ambiguous)?,
            Operation::Lose(n) => {
                let n = usize::from(*n).min(self.sender.outstanding.len());
                let lost: Vec<Packet> = self.sender.outstanding.drain(..n).collect();
                self.feed();
                self.sender.lose(&lost, false);
            }
            Operation::Rto => self.sender.time_out(self.now),
            Operation::Feedback(report) => self.feed().feedback(report),
            Operation::Spurious => self.spurious(),
            Operation::Mtu(mss) => self.resize(Bytes::new(u64::from(*mss).max(1)))?,
            Operation::Idle(span) => {
                self.now += *span;
                if self.sender.outstanding.is_empty() {
                    self.feed().pause(*span);
                }
            }
            Operation::Timer => self.timer()?,
            Operation::NextTimer => {
                self.now = self
                    .sender
                    .feed
                    .next_timer()
                    .unwrap_or(self.now)
                    .max(self.now);
                self.timer()?;
            }
            Operation::Limited(bits) => {
                let bit = |n: u8| bits & (1 << n) != 0;
                *self.feed().limited() = LimitedBy {
                    window: bit(0),
                    quota: bit(1),
                    pacer: bit(2),
                    app: bit(3),
                    peer: bit(4),
                };
                self.sender.marked = bit(5);
            }
        }
        self.invariants()
    }

    /// The feed, advanced to the model's time.
    fn feed(&mut self) -> &mut Feed {
        self.sender.feed.advance(self.now);
        &mut self.sender.feed
    }

    /// A step of path MTU discovery. The path is the same, so the window stays, in bytes or in
    /// packets, and so do the smallest delays.
    fn resize(&mut self, mss: Bytes) -> Result<(), String> {
        let (was, before, least) = (self.mss, self.allowance().window, self.least());
        self.mss = mss;
        self.feed().mtu(mss);
        let after = self.allowance().window;
        // A change beyond a step of discovery may count as another path.
        if mss > was * 2 || was > mss * 2 || before == Bytes::MAX {
            return Ok(());
        }
        let packets = before.mul_f64(mss.get() as f64 / was.get() as f64);
        let step = mss.max(was) * 2;
        if after > before.max(packets) + step || after + step < before.min(packets) {
            return Err(format!(
                "window {before} at an mss of {was}, {after} at {mss}"
            ));
        }
        if self.least() != least {
            return Err(format!(
                "{least:?} before another mss, {:?} after",
                self.least()
            ));
        }
        Ok(())
    }

    /// The gauges of the smallest delays.
    fn least(&self) -> Vec<(&'static str, f64)> {
        let mut least = Vec::new();
        self.sender.feed.controller().gauges(&mut |name, value| {
            if name.contains("min") {
                least.push((name, value));
            }
        });
        least
    }

    fn send(&mut self) -> Result<bool, String> {
        self.sender.resume(self.now);
        let before = self.allowance();
        if self.sender.send(self.now).is_none() {
            return Ok(false);
        }
        let after = self.allowance();
        let remaining = before.quota.saturating_sub(self.sender.len);
        if before.quota != Bytes::MAX && after.quota > remaining {
            return Err(format!(
                "quota {} after sending {} of {}",
                after.quota, self.sender.len, before.quota
            ));
        }
        if before.ping && after.ping {
            return Err("ping is not cleared by sending".into());
        }
        Ok(true)
    }

    fn acknowledge(
        &mut self,
        share: u8,
        skip: u8,
        delay: Span,
        ambiguous: bool,
    ) -> Result<(), String> {
        if self.sender.outstanding.is_empty() {
            return Ok(());
        }
        self.now += delay;
        let n = (self.sender.outstanding.len() * usize::from(share) / 255).max(1);
        let every = usize::from(skip / 16);
        let pns: Vec<u64> = (self.sender.outstanding.iter().take(n).enumerate())
            .filter(|(i, _)| every < 2 || i % every != 0 || n == 1)
            .map(|(_, p)| p.pn)
            .collect();
        self.sender.ambiguous = ambiguous;
        self.arrive(&pns);
        self.sender.acknowledge(self.now, &pns);
        Ok(())
    }

    /// Passes these packets to the receiver module, if there is one, and its report to the
    /// controller.
    fn arrive(&mut self, pns: &[u64]) {
        if self.sender.half.is_none() {
            return;
        }
        for pn in pns {
            let packet = self.sender.outstanding.iter().find(|p| p.pn == *pn);
            let len = packet.map_or(Bytes::ZERO, |p| p.len);
            self.sender.reached(self.now, *pn, len);
        }
        if let Some(report) = self.sender.report(self.now) {
            self.sender.feedback(self.now, &report);
        }
    }

    fn spurious(&mut self) {
        let late = std::mem::take(&mut self.sender.given_up);
        if late.is_empty() {
            return;
        }
        let in_flight = self.sender.in_flight;
        self.sender.deliver(self.now, &late);
        self.sender.in_flight = in_flight;
        self.feed().spurious(Spurious::Loss);
    }

    fn timer(&mut self) -> Result<(), String> {
        let now = self.now;
        self.arrive(&[]);
        if self.sender.feed.next_timer().is_some_and(|t| t <= now) {
            self.feed().run_timer();
            if let Some(t) = self.sender.feed.next_timer().filter(|t| *t <= now) {
                return Err(format!("after on_timer at {now} the next timer is at {t}"));
            }
        }
        Ok(())
    }

    fn invariants(&self) -> Result<(), String> {
        let a = self.allowance();
        if a.window < self.mss {
            return Err(format!(
                "window {} is less than a segment of {}",
                a.window, self.mss
            ));
        }
        if let Some(rate) = a
            .rate
            .filter(|r| !(MIN_PACING_RATE..=MAX_PACING_RATE).contains(r))
        {
            return Err(format!("rate {rate} is out of range"));
        }
        let mut bad = None;
        self.sender.feed.controller().gauges(&mut |name, value| {
            if value.is_nan() {
                bad = Some(name);
            }
        });
        bad.map_or(Ok(()), |name| Err(format!("{name} is not a number")))
    }

    /// Checks progress: with everything acknowledged and the link open, something may be sent
    /// within 60 s.
    pub(super) fn not_stuck(&self) -> Result<(), String> {
        let mut s = self.sender.fork();
        s.len = self.mss;
        let mut now = self.now + Span::from_millis(100);
        let end = now + Span::from_secs(60);
        if end == Time::MAX {
            return Ok(()); // The clock ends before.
        }
        let pns: Vec<u64> = s.outstanding.iter().map(|p| p.pn).collect();
        s.acknowledge(now, &pns);
        // Debt of giant records to the pacer belongs to the host, so it is cleared.
        s.ready = i128::from(now.as_nanos());
        while now <= end {
            s.wake(now);
            if s.send(now).is_some() {
                return Ok(());
            }
            now = s.next_wake(now, now);
        }
        Err(format!(
            "nothing may leave for 60 s with nothing in flight: {:?}",
            s.feed.allowance()
        ))
    }

    /// Checks that two packets in one batch give the same window as one after the other at the same
    /// time, except for aggregates. Both packets have the same sample, because a choice between
    /// different samples might take the first. Neither is marked, because the reaction to a mark
    /// happens once, with the knowledge of that moment. Nothing is compared in three cases: if one
    /// of both ways changes the algorithm's mode (a batch is one step of a state machine, two
    /// packets are two); if recovery ends (its window follows from the whole state); and if both
    /// packets together use the window, but the second alone does not (RFC 9002, section 7.8).
    pub(super) fn split(&self) -> Result<(), String> {
        let pns: Vec<u64> = self
            .sender
            .outstanding
            .iter()
            .take(2)
            .map(|p| p.pn)
            .collect();
        let [a, b] = pns[..] else { return Ok(()) };
        let now = self.now + Span::from_millis(50);
        let (mut together, mut apart) = (self.sender.fork(), self.sender.fork());
        let limited = *together.feed.limited();
        let modes = Modes::default();
        for sender in [&mut together, &mut apart] {
            sender.feed.set_log(modes.log());
            sender.repeat_second_sample();
            sender.marked = false;
        }
        together.acknowledge(now, &pns);
        // The rate over both packets is an aggregate. That of one alone would differ, and be
        // another sample of the path.
        apart.say_rate = together.rate;
        // On a copy, because reading the allowance ends a turn.
        let is_used = |sender: &Sender| {
            let copy = sender.fork();
            copy.in_flight * 2 >= copy.feed.allowance().window
        };
        let was_used = is_used(&apart);
        apart.acknowledge(now, &[a]);
        // The limits of the sender between the two batches have not changed.
        *apart.feed.limited() = limited;
        // But the use of half of its window may have changed: one batch grows for both packets, two
        // do not.
        let still_used = is_used(&apart);
        apart.acknowledge(now, &[b]);
        let recovered = self.sender.is_in_recovery() && !together.is_in_recovery();
        if modes.have_changed() || recovered || was_used != still_used {
            return Ok(());
        }
        let (t, p) = (
            together.feed.allowance().window,
            apart.feed.allowance().window,
        );
        let steps: Bytes = self.sender.outstanding.iter().take(2).map(|p| p.len).sum();
        if t.get().abs_diff(p.get()) > t.get() / 100 + 2 * steps.max(self.mss).get() {
            return Err(format!("window {t} after [a,b], {p} after [a] and [b]"));
        }
        Ok(())
    }
}
