// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything in which the forms of Copa differ.

use crate::Stack;

/// How slow start goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SlowStart {
    /// One packet per acknowledged packet until the queue exceeds its target.
    PerPacket,
    /// As `PerPacket`, but nothing at all before the 19th acknowledgement, and left after the addition (genericCC).
    GenericCc,
    /// The window doubles once per smoothed RTT (mvfst).
    Steps,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// 1/packets in the queue.
    pub(super) delta: f64,
    /// Upper bound of 1/delta where it adapts. Packets.
    pub(super) largest_queue: f64,
    /// Look for competitors that fill the buffer, and take part.
    pub(super) auto: bool,
    /// At exactly the target the window shrinks.
    pub(super) strict: bool,
    /// Periods in one direction before the velocity doubles (not with `majority`: at once).
    pub(super) hold: u32,
    /// A verdict against the direction resets the velocity at once.
    pub(super) reversal: bool,
    /// The velocity's bound is kept by one halving per acknowledgement; otherwise at once.
    pub(super) halve: bool,
    /// The direction is that of the majority of verdicts; otherwise that of the window.
    pub(super) majority: bool,
    /// The window grows whether or not it limited the sender: only a lack of data holds it (genericCC has none).
    pub(super) grow_unused: bool,
    /// The minimum RTT holds for at least 20 minima.
    pub(super) long_minimum: bool,
    /// The standing RTT's window covers the period at which acknowledgements come in bunches.
    pub(super) bunches: bool,
    /// Queueing delay from the latest RTT, pacing by the smoothed one.
    pub(super) latest: bool,
    pub(super) slow_start: SlowStart,
    /// On leaving slow start, take off the queue that was measured.
    pub(super) exit_drain: bool,
    /// Far above the target the window shrinks by at least `drain_step` packets per packet.
    pub(super) overload_drain: bool,
    /// Times 1/delta: where "far above" begins.
    pub(super) overload: f64,
    pub(super) drain_step: f64,
    /// A minimum does not expire while the queue is known to be there.
    pub(super) keep_floor: bool,
    /// Round trips between looks at the fraction lost; zero: never.
    pub(super) loss_rounds: u64,
    /// The host's rules for datagrams.
    pub(super) stack: Stack,
    /// A silence of two seconds forgets everything, a timeout nothing (genericCC's sender).
    pub(super) reset_on_silence: bool,
}

impl Settings {
    /// The text of the paper.
    pub(super) const PAPER: Self = Self {
        delta: 0.5,
        largest_queue: f64::MAX,
        auto: true,
        strict: false,
        hold: 3,
        reversal: true,
        halve: false,
        majority: false,
        grow_unused: false,
        long_minimum: false,
        bunches: false,
        latest: false,
        slow_start: SlowStart::PerPacket,
        exit_drain: false,
        overload_drain: false,
        overload: 5.0,
        drain_step: 0.5,
        keep_floor: false,
        loss_rounds: 1,
        stack: Stack::Datagrams,
        reset_on_silence: false,
    };

    /// genericCC, `auto:0.5`.
    pub(super) const ORIGINAL: Self = Self {
        strict: true,
        reversal: false,
        halve: true,
        majority: true,
        grow_unused: true,
        long_minimum: true,
        slow_start: SlowStart::GenericCc,
        loss_rounds: 2,
        stack: Stack::CopaOriginal,
        reset_on_silence: true,
        ..Self::PAPER
    };

    /// Meta's QUIC.
    pub(super) const MVFST: Self = Self {
        delta: 0.04,
        auto: false,
        latest: true,
        slow_start: SlowStart::Steps,
        loss_rounds: 0,
        ..Self::PAPER
    };

    /// Ours: as the paper, for links that serve in bunches and change their rate. Five packets in the queue (delta 0.2)
    /// instead of two, because the queue must outlast the gaps between bunches; the standing RTT looks over a whole bunch; what
    /// slow start or a drop of capacity left in the queue is taken off at once; a minimum learned does not expire under a queue
    /// known to stand. No competitive mode: on a deep buffer of one's own it takes every fade for a competitor.
    ///
    /// delta is where recorded 3G channels (60 s, 40 ms) give the most throughput at 45 ms one way, with some to spare: 0.1 has
    /// 51 ms on the worst of five, 0.2 has 42. `overload` below 5 triggers within the ordinary limit cycle.
    pub(super) const TUNED: Self = Self {
        delta: 0.18,
        largest_queue: 25.0,
        auto: false,
        long_minimum: true,
        bunches: true,
        exit_drain: true,
        overload_drain: true,
        keep_floor: true,
        ..Self::PAPER
    };
}
