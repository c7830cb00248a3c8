// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules that let `tuned` flows share a path, and that separate losses of a full queue from others.
//!
//! * **D_min.** All flows of a host drain together, so all learn the same D_min, and none takes the
//!   others' queue for the path. After slow start the first drain goes down to two packets, the
//!   later ones a quarter below the bandwidth-delay product. D_est does not change in a drain and
//!   in the round trip after it, in which the queue fills again, paced.
//! * **Losses.** A loss counts if the queue is about as long as the longest of the last seconds. It
//!   also counts if many packets are lost. The reduction is at most the queue. A buffer of less
//!   than about a BDP also overflows by the flow's own bursts; there a loss reduces by M as in the
//!   paper, unless packets are also lost at a short queue.
//! * **The soft limit** of equation 4 falls by a tenth with each doubling of W (`settings.rs`). So
//!   a flow with a larger window yields first.
//! * **Pacing** (`machine.rs`). All flows have epochs of the same length, so a burst keeps its
//!   place among those of others, and always or never finds room in the buffer. With pacing, a flow
//!   that sends more loses more often.
//! * **The ceiling** after a loss (`machine.rs`) grows with the time since then, not with W.
//! * **The floor** under W (`machine.rs`): with the first two rules all flows find the same delay
//!   tolerable, so that each gains a share.
use super::machine::Verus;
use super::settings::DECREASE;
use crate::parts::{Drained, Drains, FLAT, LossRate, Route, WindowedMax};
use crate::{Cx, Event, LossBatch, Packet, Pn};
use alcc_units::{Bytes, Span, Time};

constants! { VERUS:
    /// A queue of up to this part of the smallest RTT counts as none.
    NO_QUEUE: u64 = 10;
    /// Part of the smallest RTT from which there is a queue.
    SOME_QUEUE: u64 = 4;
    /// Share of the longest queue from which a queue is long.
    LONG_QUEUE: f64 = 0.7, of 10;
    /// Time over which the longest queue is taken.
    MAX_QUEUE_MEMORY: Span = Span::from_secs(3);
    /// Time for which the depth of the buffer is remembered.
    DEPTH_MEMORY: Span = Span::from_secs(30);
    /// Loss rate that counts if there is a queue.
    LOSS_WITH_QUEUE: f64 = 0.03, of 100;
    /// Loss rate that counts in any case.
    LOSS_ALWAYS: f64 = 0.1, of 100;
    /// A buffer of fewer smallest RTTs than this is short.
    SHORT_BUFFER: f64 = 1.2, of 10;
    /// Window during a drain, as a part of the bandwidth-delay product.
    DRAIN_GAIN: f64 = 0.75, of 4;
    /// Window during the first drain, packets.
    MIN_DRAIN_WINDOW: f64 = 2.0;
    /// Gain on the delivery rate while the queue refills after a drain.
    REFILL_GAIN: f64 = 1.25, of 4;
    /// Smallest RTT above which only every second multiple of the period drains, ms.
    LONG_PATH_MS: f64 = 100.0, of 1000;
    /// Queue that R tolerates. A rise of the RTT by more than a quarter of it counts as a jump.
    DELAY: Span = Span::from_millis(160);
    /// Required accuracy of RTTs: with a lower one, siblings' queue passes for a longer route.
    SURE: Span = Span::from_millis(1);
    /// Queueing that D_est allows on a longer route before it is learned, ms.
    ALLOWED: f64 = 10.0, of 1000;
}

#[derive(Clone, Debug, Default)]
pub(super) struct Company {
    pub(super) drains: Drains,
    route: Route,
    /// The window assumed for a longer route, in packets, until a round trip of it is measured.
    pub(super) carried: f64,
    /// True if there was no drain since slow start, so that D_min may include a queue.
    deep: bool,
    /// A drain has just ended: D_est does not change until a packet sent after this one is
    /// acknowledged.
    pub(super) hold: Option<Pn>,
    /// The last packet sent in the last drain.
    drained: Option<Pn>,
    /// The longest queueing delay of the last moment, because a loss is detected only when the next
    /// burst is acknowledged.
    near: WindowedMax<Span>,
    /// Time of the last loss at a queue that was not long.
    by_chance: Option<Time>,
    longest: WindowedMax<Span>,
    deepest: WindowedMax<Span>,
    pub(super) loss_rate: LossRate,
    /// True if the loss that began this episode did not count.
    overlooked: bool,
    /// Packets up to this one cause no further reduction.
    pub(super) reduced: Option<Pn>,
}

impl Company {
    pub(super) fn at(now: Time) -> Self {
        let mut company = Self::default();
        company.drains.start(now);
        company
    }

    /// Notes that slow start is over, so that D_min may include a queue.
    pub(super) fn doubt(&mut self) {
        self.deep = true;
        self.drains.doubt();
    }

    pub(super) fn shrink(&mut self) {
        self.drains.shrink();
        for queue in [&mut self.near, &mut self.longest, &mut self.deepest] {
            queue.shrink();
        }
    }

    /// True in a drain, and for a packet sent in one or while the queue filled again. The loss of
    /// such a packet is no sign of a full queue.
    pub(super) fn refilling(&self, pn: Pn) -> bool {
        self.drains.draining()
            || self.hold.is_some()
            || self.drained.is_some_and(|point| pn <= point)
    }

    /// True if the queue was about as long as it gets, a moment ago.
    fn long_queue(&self) -> bool {
        let of = |queue: &WindowedMax<Span>| queue.get().unwrap_or_default();
        of(&self.near)
            >= of(&self.longest)
                .mul_f64(LONG_QUEUE)
                .max(self.drains.base() / NO_QUEUE)
    }

    /// True if the buffer is short, and all losses happen there.
    fn short_buffer(&self, now: Time) -> bool {
        let base = self.drains.base();
        let by_chance = self
            .by_chance
            .is_some_and(|at| now.since(at) < MAX_QUEUE_MEMORY);
        let deep = |q| q >= base.mul_f64(SHORT_BUFFER);
        !by_chance && self.long_queue() && !self.deepest.get().is_some_and(deep)
    }
}

impl Verus {
    /// The bandwidth-delay product, packets.
    fn product(&self) -> f64 {
        self.rate * self.estimator.min_rtt()
    }

    /// The window of a drain.
    pub(super) fn drained(&self) -> f64 {
        if self.company.deep {
            return MIN_DRAIN_WINDOW;
        }
        (DRAIN_GAIN * self.product()).clamp(MIN_DRAIN_WINDOW, self.window.max(MIN_DRAIN_WINDOW))
    }

    /// Takes an RTT sample of `packet`.
    pub(super) fn see(&mut self, cx: &mut Cx<'_>, packet: &Packet, rtt: Span) {
        let error = Span::from_millis_f64(self.error);
        let c = &mut self.company;
        let base = c.drains.base();
        if !self.slow_start && !c.drains.draining() && c.hold.is_none() && error <= SURE {
            let rate = self.rate * 1e3;
            c.route
                .look(cx.now, (packet.sent_at, rtt), base, DELAY, error, rate);
        }
        let queueing = c
            .drains
            .sample(cx.now, rtt, error, base / NO_QUEUE, base / SOME_QUEUE);
        c.near
            .insert(cx.now, queueing, base / 2 + self.settings.epoch);
        c.longest.insert(cx.now, queueing, MAX_QUEUE_MEMORY);
        c.deepest.insert(cx.now, queueing, DEPTH_MEMORY);
        if c.hold.is_some_and(|point| packet.pn > point) {
            c.hold = None;
            c.drained = Some(self.newest);
            if std::mem::take(&mut c.carried) > 0.0 {
                // The curve belongs to the shorter route.
                self.refit_at = cx.now;
            }
        }
        // A drain shows a longer route only if the RTTs of a second are all of the new route.
        let due = c.route.is_due(cx.now);
        let flat = (c.drains.recent()).is_some_and(|recent| rtt <= recent + FLAT);
        let every = match due && flat {
            true => 0,
            false => 1 + u64::from(base.as_millis_f64() > LONG_PATH_MS && !c.deep),
        };
        let may = !self.slow_start && (due || !c.route.is_in_doubt());
        let what = c.drains.step(cx.now, packet.sent_at, may, every);
        match what {
            Some(Drained::Begins) => {
                cx.log.event(cx.now, Event::Mode { to: "drain" });
            }
            Some(Drained::Ends) => {
                c.deep = false;
                c.drained = Some(self.newest);
                c.hold = Some(self.newest);
                let rate = self.rate * 1e3;
                let longer = c
                    .route
                    .is_longer(cx.now, &c.drains, DELAY, error, false, 0.0);
                let longer = longer && error <= SURE;
                if longer {
                    c.drains.rise(cx.now);
                    self.rate = rate.max(c.route.before()) / 1e3;
                }
                self.estimator.d_min = c.drains.base().as_millis_f64();
                self.estimator.forget_recent();
                if longer {
                    let allowed = self.estimator.d_min + ALLOWED;
                    self.estimator.d_est = self.estimator.d_est.max(allowed);
                    self.window = self.window.max(self.product());
                    self.company.carried = self.window;
                }
                // The next epoch may be late, and until then too little would be in flight.
                let window = self.window_for_estimate().unwrap_or(self.window);
                self.window = window.max(self.window);
                self.quota = self.refill_at_most();
                cx.log.event(cx.now, Event::Mode { to: "hold" });
            }
            Some(Drained::Again) | None => {}
        }
    }

    /// True if a loss begins a reduction.
    pub(super) fn begins(&mut self, cx: &Cx<'_>, loss: &LossBatch<'_>) -> bool {
        if !self.settings.company {
            return loss.new_episode && self.repair.is_none();
        }
        if loss.new_episode {
            // A spurious loss found later belongs to this reduction.
            self.before_loss = None;
        }
        let lost: f64 = loss.lost.iter().map(|p| p.len.packets(self.mss)).sum();
        let c = &mut self.company;
        c.loss_rate.lost(lost);
        let newest = loss.lost.last().map_or(0, |packet| packet.pn);
        // One reduction per episode, also if its first loss did not count.
        let overlooked = c.overlooked && !loss.new_episode;
        if self.repair.is_some() || !loss.new_episode && !overlooked {
            return false;
        }
        if c.reduced.is_some_and(|point| newest <= point) || c.refilling(newest) {
            return false;
        }
        let long = c.long_queue();
        if !long {
            c.by_chance = Some(cx.now);
        }
        let queue = c.near.get().unwrap_or_default() >= c.drains.base() / SOME_QUEUE;
        let counts = match (self.slow_start, queue) {
            // The bursts of slow start already form a queue.
            (true, false) => c.loss_rate.get() > LOSS_ALWAYS,
            (false, false) => long || c.loss_rate.get() > LOSS_ALWAYS,
            (_, true) => long || c.loss_rate.get() > LOSS_WITH_QUEUE,
        };
        c.overlooked = !counts;
        counts
    }

    /// Limit of an epoch's release after a drain.
    pub(super) fn refill_at_most(&self) -> Bytes {
        let packets = REFILL_GAIN * self.rate * self.lasted;
        self.mss.mul_f64(packets.max(MIN_DRAIN_WINDOW))
    }

    /// The window after a loss with `flight` packets in flight.
    pub(super) fn window_after_loss(&self, now: Time, flight: f64) -> f64 {
        let reduced = DECREASE * flight;
        if self.settings.company && !self.company.short_buffer(now) {
            reduced.max(self.product())
        } else {
            reduced
        }
    }
}
