// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All parameters in which the current forms of Copa differ: `tuned` and `paper`.
use alcc_units::Span;

constants! { COPA:
    /// Inverse of the packets to keep in the queue.
    DELTA: f64 = 0.18, of 65_536;
    /// Queueing of up to this counts as none: it cannot be distinguished from delays of the host.
    FLOOR: Span = Span::from_micros(500);
    /// A larger share lost in each of two consecutive round trips also counts as heavy loss.
    /// RFC 8083: 10 % of a link at 10 %.
    PERSISTENT_LOSS: f64 = 0.08, of 100;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Delta, 1/packets in the queue.
    pub(super) delta: f64,
    /// Upper bound of 1/delta if it adapts, in packets.
    pub(super) max_queue: f64,
    /// Detects competitors that fill the buffer, and competes with them (section 2.2).
    pub(super) auto: bool,
    /// The window of the standing RTT covers the period at which ACKs come in bunches, and pacing
    /// lets a host catch up that wakes a little late.
    pub(super) ack_aggregation: bool,
    /// A loss also ends slow start. The window is then the one that filled the path a round trip
    /// ago.
    pub(super) exit_drain: bool,
    /// Far above the target the window shrinks by at least half a packet per packet, until the
    /// excess of the queue is removed. A round trip later the measurement shows whether that was
    /// enough.
    pub(super) overload_drain: bool,
    /// The minimum RTT is that of common drains. It rises only after a drain.
    pub(super) drains: bool,
    /// Queueing delay up to this counts as zero, because a host cannot distinguish it from its own
    /// delays.
    pub(super) floor: Span,
    /// Detects a policer: packets are lost without queueing, and sending less loses less. The rate
    /// is then limited to the delivered rate.
    pub(super) policer: bool,
    /// A jump of the RTT that no drain shortens, and a rate that falls from drain to drain, are
    /// taken for a longer route.
    pub(super) longer_route: bool,
    /// A loss above this share in two round trips in a row also counts as heavy loss.
    pub(super) persistent_loss: f64,
}

impl Settings {
    /// The parameters of the paper.
    pub(super) const PAPER: Self = Self {
        delta: 0.5,
        max_queue: f64::MAX,
        auto: true,
        ack_aggregation: false,
        exit_drain: false,
        overload_drain: false,
        drains: false,
        floor: Span::ZERO,
        policer: false,
        longer_route: false,
        persistent_loss: 1.0,
    };

    /// Our parameters: the paper's, adapted to links that serve in bunches and change their rate.
    /// Five packets are in the queue (delta 0.2) instead of two, because the queue must outlast the
    /// gaps between bunches. The standing RTT looks over a whole bunch. The queue that slow start
    /// or a drop of capacity has left is drained at once, but nothing beyond it. Several flows that
    /// keep a queue drain together, so none takes it for a longer path. There is no competitive
    /// mode, because in a deep buffer it would take every fade for a competitor.
    ///
    /// With this delta, recorded 3G channels (60 s, 40 ms) give the most throughput at 45 ms one
    /// way, with some reserve: on the worst of five, 0.1 has 51 ms and 0.2 has 42.
    ///
    /// The floor is ten times the delay that interrupts and scheduling add within a machine. At 66
    /// Mbit/s twice the floor is the target queue anyway, so the floor has no effect below that
    /// rate.
    pub(super) const TUNED: Self = Self {
        delta: DELTA,
        max_queue: 25.0,
        auto: false,
        ack_aggregation: true,
        exit_drain: true,
        overload_drain: true,
        drains: true,
        floor: FLOOR,
        policer: true,
        longer_route: true,
        persistent_loss: PERSISTENT_LOSS,
    };
}
