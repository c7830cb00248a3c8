// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything in which the living forms of Copa differ: `tuned` and `paper`.
use alcc_units::Span;

constants! { COPA:
    /// 1/packets in the queue.
    DELTA: f64 = 0.18, of 65_536;
    /// Queueing up to this is none: a host cannot tell it from its own delays.
    FLOOR: Span = Span::from_micros(500);
    /// More than this share lost in each of two round trips in a row is heavy loss, too.
    /// RFC 8083: 10 % of a link at 10 %.
    PERSISTENT_LOSS: f64 = 0.08, of 100;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// 1/packets in the queue.
    pub(super) delta: f64,
    /// Upper bound of 1/delta where it adapts. Packets.
    pub(super) max_queue: f64,
    /// Look for competitors that fill the buffer, and take part.
    pub(super) auto: bool,
    /// The standing RTT's window covers the period at which ACKs come in bunches. Pacing lets a
    /// host catch up that wakes a little late.
    pub(super) ack_aggregation: bool,
    /// Slow start also ends at a loss, and leaves the window that a round trip ago filled the path.
    pub(super) exit_drain: bool,
    /// Far above the target the window shrinks by at least half a packet per packet. It does so
    /// until the queue's excess is taken off. Whether that was enough shows a round trip later.
    pub(super) overload_drain: bool,
    /// The minimum RTT is that of common drains. It rises only after one.
    pub(super) drains: bool,
    /// Queueing up to this is none: a host cannot tell it from its own delays.
    pub(super) floor: Span,
    /// Who loses packets although nobody waits, and loses less by sending less, is policed, and
    /// sends what is delivered.
    pub(super) policer: bool,
    /// A jump of the RTT that no drain shortens, and a rate that falls from drain to drain, are a
    /// longer route.
    pub(super) longer_route: bool,
    /// More than this fraction lost in each of two round trips in a row is heavy loss, too.
    pub(super) persistent_loss: f64,
}

impl Settings {
    /// The text of the paper.
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

    /// Ours: as the paper, for links that serve in bunches and change their rate. Five packets are
    /// in the queue (delta 0.2) instead of two, because the queue must outlast the gaps between
    /// bunches. The standing RTT looks over a whole bunch. Slow start or a drop of capacity may
    /// leave something in the queue. That is taken off at once, and no more. Where several flows
    /// keep a queue they drain together, so none takes it for a longer path. There is no
    /// competitive mode. Alone in a deep buffer it would take every fade for a competitor.
    ///
    /// With this delta, recorded 3G channels (60 s, 40 ms) give the most throughput at 45 ms one
    /// way. There is some to spare. On the worst of five, 0.1 has 51 ms and 0.2 has 42.
    ///
    /// The floor is ten times what interrupts and scheduling add within a machine. At 66 Mbit/s
    /// twice the floor is the queue that is wanted anyway, so below that it changes nothing.
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
