// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Budget: keeps in flight what the path may deliver in its smallest RTT, plus a delay budget that the user sets. This
//! is our own algorithm; docs/budget.md has the figures, and the variants that were tried without success.
//!
//! The data in flight now is the amount that the path can deliver during the next smallest RTT. So the window is a high
//! quantile of the amounts that it recently delivered in such a time, plus a fifth of the budget. Its lower bounds are
//! the mean rate times (smallest RTT + half of the budget), for paths that hardly vary, and two packets.
//!
//! Four mechanisms keep these rates correct. **Starvation:** a packet that waited no longer than the ACK gap before it
//! was not queued behind another of this flow. The path could have delivered more, so such samples get more weight.
//! **Outages:** silence does not age the samples. **Pacing:** sending is spread over the smallest RTT of the last
//! second, so that bunches of ACKs come from the path and not from our sending. Without it, flows that share a path
//! would take their own bunches for a fast path and fill any buffer. **Drains:** unless the path was recently empty and
//! the smallest RTT is that of the last drain, the window goes below the bandwidth-delay product by the budget until a
//! packet sent in this state is acknowledged, and longer while the smallest RTT keeps falling. Drains begin at
//! multiples of three seconds of the host's clock, so that the flows of one host drain together and all measure the
//! empty path. Nothing is measured in a drain and while the queue fills again after it. If nothing is acknowledged in a
//! drain, its packets or their ACKs were lost, and two more may be sent.
//!
//! **Longer routes** also show in drains: the rate has fallen since the last drain, the RTT stays, and the remaining
//! queueing is neither that of siblings nor as long as that of other flows. The smallest RTT then rises at once.
//! **Young flows** forget sooner: the mean is over a fifth of the flow's age. **Whole packets** would keep small
//! windows apart, so a phase is added before a window is rounded down to whole packets.
//!
//! **Other flows** that keep a queue are detected by drains that do not lower the RTT, four in a row. The window then
//! competes: it grows by a packet per round trip, is reduced by a loss and grows faster with time from then on, until a
//! drain finds the path empty. In a deep buffer it begins with the best rate of these drains, because others have taken
//! most of it by then.
//!
//! **A jump of the RTT** that lasts for a second causes a drain at once. If that does not lower the RTT, the route is
//! longer, and the window is set to carry the rate of the shorter one. If it removes a queue but not the jump, it is
//! repeated.
//!
//! **Losses** alone are not taken for congestion: a radio link loses packets at random, while a short buffer or a
//! policer drops them because there is too much. So losses start a test, during which no more is in flight than is
//! delivered. If losses go on while the queue is short, they come from the path, and their share is tolerated from then
//! on, up to 5 %. Otherwise the window grows slowly from there, and the next loss at a similar queue reduces it at
//! once.
//!
//! Constants are at the top of each file, with their reasons; docs/budget.md explains most of them in detail.
//!
//! **Known weakness**: the delay depends on the budget and on the variation of the path; if the rate falls to a
//! fraction, the data in flight waits longer in proportion. Beside Cubic in a buffer of five products its share of 60 s
//! is 7 to 50 %, depending on when Cubic begins. With random losses several flows of Budget share unevenly: Jain's
//! index of two at 1 % is 0.76, of four at 2 % 0.4 to 0.9.
mod competition;
mod losses;
mod service;
#[cfg(test)]
mod tests;

use crate::parts::drains::GRAIN;
use crate::parts::route::SAME;
use crate::parts::{Drained, Drains, Route, pacing_rate, window_bytes, window_used};
use crate::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Event, Instance, LossBatch,
    Needs, OptionDoc, Options, Path, Rto, Spurious,
};
use alcc_units::{Bytes, Span, Time};
use competition::Competition;
use losses::{Found, Losses};
use service::Service;
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "budget",
    summary: "Budget: a window for a target delay: what the path delivers in its smallest RTT plus that delay",
    profiles: Cow::Borrowed(&[]),
    options: &[OptionDoc {
        name: "delay",
        default: "40ms",
        help: "target queueing delay, 1ms to 10s",
    }],
    build: Build::Function(build),
};

constants! { BUDGET:
    /// Target queueing delay.
    DELAY: Span = Span::from_millis(40);
    /// First window, packets.
    INITIAL: f64 = 10.0;
    /// Smallest window outside of drains, packets.
    SMALLEST: f64 = 4.0;
    /// Packets beyond the bandwidth-delay product.
    /// Shares are compared by them: without them any division of a link would be stable.
    PACKETS: f64 = 2.0;
    /// Largest window, packets.
    LARGEST: f64 = 1e9;
    /// Part of the budget added to the smallest RTT, with the quantile.
    OF_HIGH: f64 = 5.0;
    /// Part of the budget added to the smallest RTT, with the mean.
    OF_MEAN: f64 = 2.0;
    /// Packets per second above which a flow yields, because PACKETS no longer equalize shares.
    FAST: f64 = 1000.0, of 256;
    /// Part of the budget that a flow yields per doubling of its rate, with the quantile.
    YIELD: f64 = 0.025, of 40;
    /// Part of the budget that a flow yields per doubling of its rate, with the mean.
    YIELD_OF_MEAN: f64 = 0.05, of 20;
    /// Doublings, to 1600 packets per second, at which the mean neither gains nor yields.
    /// There a flow takes half of the budget, and slower ones more: what fast ones keep is what a longer route may
    /// take.
    NEUTRAL: f64 = 0.678_071_905_112_637_7, of 65_536;
    /// Windows below this have a phase, packets.
    /// The last packet, of which a part is in the window, is in flight for that part of the ACKs. Otherwise flows
    /// whose windows differ by less than a packet keep unlike shares.
    SMALL: f64 = 100.0;
    /// Phase added by each packet, modulo 1: the golden ratio spreads phases evenly.
    GOLDEN: f64 = 0.618_033_988_749_895, of 4_294_967_296;
    /// The start ends when this number of packets of a round trip, and all of them, were queued.
    /// RFC 9406: 8 samples.
    FIRST: u32 = 8;
    /// The path counts as empty if at most this part of the budget was queueing.
    EMPTY: u64 = 4;
    /// After a drain the queue refills for this time plus one smallest RTT.
    /// By then, flows whose RTTs are longer by up to this time have returned.
    REFILL: Span = Span::from_millis(100);
    /// After the start, losses are ignored for this time and two smallest RTTs.
    UNJUDGED: Span = Span::from_millis(60);
    /// A longer route keeps the old rate for this number of smallest RTTs, and REFILL.
    CARRIED: u64 = 3;
    /// RTTs without an ACK that make a drain silent, and factor for the next drain's.
    PATIENCE: u64 = 2;
}

pub(crate) const TABLES: &[&[crate::constants::Constant]] =
    &[TABLE, service::TABLE, competition::TABLE, losses::TABLE];

#[derive(Clone)]
struct Budget {
    delay: Span,
    mss: Bytes,
    /// Doubling per round trip until a queue forms.
    starting: bool,
    /// Packets.
    window: f64,
    /// Added to a small window before it is rounded down to whole packets: 0 to 1.
    phase: f64,
    service: Service,
    drains: Drains,
    /// Time at which the queue has filled again after the last drain.
    refilled: Time,
    /// In a drain: what else may be in flight because nothing came back, packets.
    unanswered: f64,
    /// In a drain: nothing came back for long if it has not by then; and how long that is.
    silent_at: Option<Time>,
    patience: Span,
    queueing: Span,
    /// Largest error of the last RTTs.
    error: Span,
    /// During the start: the shortest wait of this round trip, and the number of its packets.
    least: Span,
    samples: u32,
    /// It began then: with what is sent from now on the next one does.
    round_from: Time,
    acked_at: Option<Time>,
    losses: Losses,
    competition: Competition,
    route: Route,
}

fn build(options: &Options<'_>) -> Built {
    let ms = Span::from_millis;
    // Read before the struct is built, which saves 112 bytes of a coroutine's stack.
    let delay = options.span("delay", DELAY, ms(1)..=ms(10_000))?;
    Ok(Instance::new(Budget {
        delay,
        mss: Bytes::new(1448),
        starting: true,
        window: INITIAL,
        phase: 0.0,
        service: Service::new(),
        drains: Drains::default(),
        refilled: Time::ZERO,
        unanswered: 0.0,
        silent_at: None,
        patience: Span::ZERO,
        queueing: Span::ZERO,
        error: Span::ZERO,
        least: Span::MAX,
        samples: 0,
        round_from: Time::ZERO,
        acked_at: None,
        losses: Losses::default(),
        competition: Competition::default(),
        route: Route::default(),
    }))
}

impl Budget {
    /// Takes the RTTs in. True if the first packet had waited behind no packet of its flow.
    fn look(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) -> bool {
        let now = cx.now;
        let mut starved = None;
        self.error = ack.rtt_error;
        for packet in ack.acked {
            let Some(rtt) = packet.rtt else { continue };
            let (same, empty) = (self.delay / SAME, self.delay / EMPTY);
            self.queueing = self.drains.sample(now, rtt, ack.rtt_error, same, empty);
            let above = self.queueing.saturating_sub(ack.rtt_error);
            if !self.starting && !self.drains.draining() {
                let sent_at = packet.sent_at;
                let mean = self.service.mean;
                self.route.look(
                    now,
                    (sent_at, rtt),
                    Span::MAX,
                    self.delay,
                    ack.rtt_error,
                    mean,
                );
            }
            if self.starting && packet.sent_at >= self.round_from {
                (self.least, self.samples, self.round_from) = (Span::MAX, 0, now);
            }
            self.least = self.least.min(above);
            self.samples += 1;
            let gap = |at| now.since(at) + GRAIN >= above;
            if starved.is_none() {
                starved = Some(self.acked_at.is_some_and(gap));
            }
            self.step(cx, packet.sent_at, ack.rtt_error);
        }
        self.acked_at = Some(now);
        self.patience = ((self.drains.base() + self.queueing) * PATIENCE).max(GRAIN);
        self.silent_at = self.drains.draining().then(|| now + self.patience);
        starved.unwrap_or_default()
    }

    fn leave_start(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        if std::mem::take(&mut self.starting) {
            // Its smallest RTT may be that of a queue.
            self.drains.doubt();
            self.losses
                .forget(cx.now + self.drains.base() * 2 + UNJUDGED);
            let window = self.window;
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, sent_at: Time, error: Span) {
        let every = if self.route.is_due(cx.now) {
            0
        } else {
            self.competition.every()
        };
        let may = !self.starting && (every == 0 || !self.route.is_in_doubt());
        let to = match self.drains.step(cx.now, sent_at, may, every) {
            Some(Drained::Begins) => {
                self.unanswered = 0.0;
                "drain"
            }
            Some(Drained::Ends) => {
                self.look_for_a_longer_route(cx, error);
                self.refilled = cx.now + self.drains.base() + REFILL;
                self.look_for_others(cx);
                "hold"
            }
            Some(Drained::Again) | None => return,
        };
        cx.log.event(cx.now, Event::Mode { to });
    }

    /// A drain has ended: did it empty a route that is longer now? RTTs are known to `error`.
    fn look_for_a_longer_route(&mut self, cx: &mut Cx<'_>, error: Span) {
        let lost = self.unanswered > 0.0;
        let (rate, jumped) = (self.service.mean, self.route.is_in_doubt());
        if self
            .route
            .is_longer(cx.now, &self.drains, self.delay, error, lost, rate)
        {
            self.drains.rise(cx.now);
            let until = cx.now + self.drains.base() * CARRIED + REFILL;
            self.route.carry(until);
            if jumped {
                self.losses.reroute(until);
            }
        }
    }

    /// A drain has ended: does a queue of others stand?
    fn look_for_others(&mut self, cx: &mut Cx<'_>) {
        let (lost, product) = (self.unanswered > 0.0, self.product());
        let changed = self
            .competition
            .drained(cx.now, &self.drains, self.delay, lost, product);
        self.drains.hold(self.competition.suspects());
        let competes = self.competition.window().is_some();
        if competes {
            // It ends with a drain, so the next one is due even if the path is seen empty.
            self.drains.doubt();
        }
        if changed {
            let to = if competes { "competition" } else { "alone" };
            cx.log.event(cx.now, Event::Mode { to });
        }
    }

    fn wanted(&self) -> f64 {
        if self.drains.draining() {
            let (base, delay) = (self.drains.base().as_secs_f64(), self.delay.as_secs_f64());
            return (self.service.mean * (base - delay)).max(PACKETS) + self.unanswered;
        }
        self.product()
    }

    /// A test of where losses come from is over.
    fn found(&mut self, cx: &mut Cx<'_>, found: Option<Found>) {
        let to = match found {
            None => return,
            Some(Found::OfCongestion) => "losses_of_congestion",
            Some(Found::OfPath) => "losses_of_path",
        };
        cx.log.event(cx.now, Event::Mode { to });
    }

    /// The window outside of drains.
    fn product(&self) -> f64 {
        let (base, delay) = (self.drains.base().as_secs_f64(), self.delay.as_secs_f64());
        let mean = self.service.mean.max(self.route.carried());
        let doublings = libm::log2((mean / FAST).max(1.0));
        let high =
            self.service.high * (base + delay / OF_HIGH) - mean * (delay * YIELD * doublings);
        let beyond = doublings - NEUTRAL;
        let mean = mean * (base + delay / OF_MEAN - delay * YIELD_OF_MEAN * beyond);
        (high.max(mean) + PACKETS).max(SMALLEST)
    }

    /// Takes over what is wanted.
    fn follow(&mut self) {
        let alone = self.wanted().min(self.losses.limit());
        let competing = self.competition.window();
        let competing = competing.filter(|_| !self.drains.draining());
        self.window = competing.map_or(alone, |w| w.max(alone));
        self.window = self.window.clamp(1.0, LARGEST);
    }
}

impl Controller for Budget {
    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.drains.start(cx.now);
        self.competition.start(cx.now);
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let packets: f64 = ack.acked.iter().map(|p| p.len.packets(self.mss)).sum();
        for packet in ack.acked {
            let packets = packet.len.packets(self.mss);
            let queueing = self.queueing;
            let found = self
                .losses
                .delivered(cx.now, packet.sent_at, packets, queueing);
            self.found(cx, found);
            self.phase = (self.phase + packets * GOLDEN) % 1.0;
        }
        self.competition.delivered(packets);
        // As of before: what comes at one moment counts alike in however many batches.
        let base = self.drains.base();
        let rtt = base + self.queueing;
        let starved = self.look(cx, ack);
        // A limit of the application is no evidence about the path. Nor does a drain, and the time in which the queue
        // fills again after it: the RTT falls first, and would preserve the share of that moment.
        let by = ack.limited;
        let idle = (by.app || by.peer) && !by.window;
        let drained = self.drains.draining() || cx.now < self.refilled;
        if (idle || drained) && !self.starting {
            self.service.pass(cx.now);
            self.follow();
            return;
        }
        self.route.pass(cx.now);
        self.service.delivered(cx.now, packets, base, rtt, starved);
        if by.window {
            self.competition.grow(cx.now, packets, self.window);
        }
        if self.starting {
            if window_used(ack, window_bytes(self.window, self.mss)) {
                self.window = (self.window + packets).min(LARGEST);
            }
            if self.samples < FIRST || self.least <= self.delay / SAME {
                return;
            }
            self.leave_start(cx, "delay");
        }
        self.follow();
        self.losses.grow(packets, self.window, rtt, self.queueing);
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        // Above TCP a packet is in flight until the host has heard of its ACK.
        let product = self.service.mean * (self.drains.base() + self.error).as_secs_f64();
        // Beside others what is delivered in the smallest RTT is a small part of the window.
        let keep = product.max(self.window / 2.0);
        if loss.new_episode {
            self.losses.mark();
        }
        for packet in loss.lost {
            let (sent_at, packets) = (packet.sent_at, packet.len.packets(self.mss));
            let found = self
                .losses
                .lost(cx.now, sent_at, packets, self.queueing, keep);
            self.found(cx, found);
            self.competition.lost(cx.now, sent_at, SMALLEST);
        }
        if !self.starting && self.losses.is_due(cx.now) {
            let none = self.delay / SAME;
            self.losses.begin(cx.now, self.queueing, product, none);
            let (why, from) = ("loss", self.window);
            self.follow();
            let to = self.window;
            cx.log.event(cx.now, Event::Decrease { why, from, to });
        }
        self.leave_start(cx, "loss");
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        self.leave_start(cx, "timeout");
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        self.losses.undo();
        self.follow();
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if self.silent_at.is_some_and(|at| cx.now >= at) {
            self.unanswered += PACKETS;
            self.patience = self.patience * PATIENCE;
            self.silent_at = Some(cx.now + self.patience);
            self.follow();
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.silent_at
    }

    fn allowance(&self) -> Allowance {
        let whole = self.starting || self.drains.draining() || self.window >= SMALL;
        let part = if whole { 0.0 } else { self.phase };
        let window = window_bytes(self.window + part, self.mss);
        let over = self.drains.recent().filter(|_| !self.starting);
        let rate = over.map(|rtt| self.window / rtt.max(GRAIN).as_secs_f64());
        Allowance {
            rate: rate.map(|rate| pacing_rate(rate, self.mss)),
            burst: self.mss,
            ..Allowance::window(window)
        }
    }

    fn needs(&self) -> Needs {
        Needs {
            paced: true,
            ..Needs::default()
        }
    }

    fn release_memory(&mut self) {
        self.drains.shrink();
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        let mbps = self.mss.get() as f64 * 8.0 / 1e6;
        put("cwnd", self.window);
        put("rate_high_mbps", self.service.high * mbps);
        put("rate_mean_mbps", self.service.mean * mbps);
        put("rtt_min_ms", self.drains.base().as_millis_f64());
        put("queue_ms", self.queueing.as_millis_f64());
    }
}
