// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of a run. The code that controls connections emits each event once; all displays of a
//! run are written by subscribers to these events.
//!
//! | subscriber | content | readers |
//! |---|---|---|
//! | counters ([`Segment::count`], [`AtomicTotals::count`](crate::AtomicTotals::count)) | sums over a run or a process | summaries, `--metrics` |
//! | groups | sums and histograms by port and algorithm | `--metrics` |
//! | status table | identity and last reading of each open connection | `alcc top`, gauges of `--metrics` |
//! | trace ring | each reading, while there is a reader | `alcc log`, `alcc trial` |
//! | event ring | each event of an algorithm, while there is a reader | `alcc log`, `run --log` |
//! | [`Log`](crate::Log) | each reading as a line of CSV | `run --log` |
//!
//! The table is a snapshot, because its readers need the current state of a connection and not its
//! history. A reading replaces the one before, and sums are taken from the other events.
use crate::bypass::ByReason;
use crate::missed::Missed;
use crate::segment::Segment;
use crate::status::State;
use alcc_cc::{Allowance, RttView};
use alcc_flow::TcpProgress;
use alcc_units::{Bytes, Rate, Span, Time};

/// An event of a run, a process or a connection. It borrows its content, so that emitting it costs
/// nothing that no subscriber needs.
#[derive(Clone, Copy)]
pub enum Event<'a> {
    /// A process loaded the library.
    ProcessStarted,
    /// The runtime of a process failed.
    RuntimeFailed {
        /// The process.
        pid: u32,
    },
    /// The thread of a runtime worked.
    Worked {
        /// CPU time of the thread.
        cpu: Span,
        /// Wake-ups at a planned time.
        wakeups: u64,
        /// Wake-ups more than 3 ms late.
        late_wakeups: u64,
    },
    /// Connections are not controlled.
    Missed {
        /// The reason.
        why: Missed,
        /// Number of connections.
        connections: u64,
        /// Bytes on them, including those of connections that were reported before.
        bytes: Bytes,
    },
    /// A connection was taken under control, with these counters.
    Opened(&'a TcpProgress),
    /// The kernel refused the congestion control that was requested below the algorithm.
    UnderRefused,
    /// Bytes were written to a connection, or its gate closed.
    Passed(&'a Passed),
    /// The counters of a connection were read and passed to the algorithm.
    Reading(&'a Reading<'a>),
    /// The algorithm of a connection reported an event.
    Algorithm {
        /// Time of the event.
        at: Time,
        /// The event.
        event: alcc_cc::Event,
        /// Round-trip times that the connection knew at that time.
        rtt: RttView,
    },
    /// Another algorithm controls a connection, or the same one in another way.
    AlgorithmChanged(&'a Named<'a>),
    /// A connection has applied a command, or its state changed.
    StateChanged {
        /// Time of the change.
        at: Time,
        /// The state.
        state: State,
        /// Number of the last command that it applied.
        generation: u64,
    },
    /// The program closes a connection; these are its last counters.
    Closing {
        /// Time of the close.
        at: Time,
        /// The counters.
        tcp: &'a TcpProgress,
    },
    /// Nothing more will be reported of a connection.
    Closed,
}

impl Event<'_> {
    /// A connection was left alone by the selection.
    pub const fn left_alone(why: Missed) -> Self {
        Self::Missed {
            why,
            connections: 1,
            bytes: Bytes::ZERO,
        }
    }
}

/// The names of the algorithm, feedback and enforcement of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named<'a> {
    /// The algorithm with its options.
    pub algorithm: &'a str,
    /// Source of acknowledgements.
    pub feedback: &'a str,
    /// Enforcement of the limit.
    pub enforcement: &'a str,
}

/// The bytes that passed on a connection since the last event of this kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Bytes that passed under control.
    pub bytes: Bytes,
    /// Number of writes that were refused or cut short.
    pub gate_closed: u64,
    /// Bytes that bypassed the algorithm.
    pub bypassed: ByReason,
    /// 1 for each reason that is new for this connection, otherwise 0.
    pub newly_bypassed: ByReason,
}

/// Callback that takes a value by name.
type Put<'a> = &'a mut dyn FnMut(&'static str, f64);

/// A reading of a connection's counters, with the state of the algorithm after it.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// Time of the reading.
    pub at: Time,
    /// The connection's number within the process.
    pub connection: u64,
    /// The kernel's counters.
    pub tcp: &'a TcpProgress,
    /// The kernel's window, segments.
    pub cwnd: u64,
    /// The kernel's slow-start threshold, segments; `None` if it has not been set.
    pub ssthresh: Option<u64>,
    /// The kernel's estimate of the delivery rate.
    pub delivery: Rate,
    /// True if written data may still reach the peer.
    pub is_alive: bool,
    /// Bytes written and not acknowledged, by the runtime's count.
    pub in_flight: Bytes,
    /// Bytes in the kernel's buffer during a write, which the runtime counts only when it returns.
    pub under_way: Option<Bytes>,
    /// True if nothing is in flight: the counters are read again after the next write.
    pub is_idle: bool,
    /// True if the program has more data, because its last write was short or refused.
    pub has_more: bool,
    /// Round-trip times of the algorithm; if the connection is not paced, they count from the write.
    pub rtt: RttView,
    /// The algorithm's allowance.
    pub allowance: Allowance,
    /// Visits the algorithm's internal values.
    pub gauges: &'a dyn Fn(Put<'_>),
    /// Number of the last command of `alcc ctl` that the connection applied.
    pub generation: u64,
}

impl Reading<'_> {
    /// RTT above the smallest: the queueing delay.
    pub(crate) fn queueing(&self) -> Span {
        self.rtt.latest.saturating_sub(self.rtt.min)
    }
}

/// A subscriber to the events of one connection.
pub trait Subscriber {
    /// Handles an event.
    fn on(&mut self, event: &Event<'_>);
}

impl Segment {
    /// Adds an event to the counters of the run.
    pub fn count(&self, event: &Event<'_>) {
        self.count_totals(event);
        match *event {
            Event::RuntimeFailed { pid } => self.note_failure(pid),
            Event::Missed {
                why,
                connections,
                bytes,
            } => self.miss(why, connections, bytes),
            _ => {}
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A reading in which every value differs.
    pub(crate) fn reading(tcp: &TcpProgress) -> Reading<'_> {
        Reading {
            at: Time::from_millis(9),
            connection: 3,
            tcp,
            cwnd: 10,
            ssthresh: Some(6),
            delivery: Rate::mbps(3),
            is_alive: true,
            in_flight: Bytes::new(1448),
            under_way: None,
            is_idle: false,
            has_more: false,
            rtt: RttView {
                latest: Span::from_millis(50),
                smoothed: Span::from_millis(45),
                variance: Span::from_millis(4),
                min: Span::from_millis(40),
            },
            allowance: Allowance {
                rate: Some(Rate::mbps(7)),
                ..Allowance::window(Bytes::new(7 * 1448))
            },
            gauges: &|_| (),
            generation: 3,
        }
    }

    /// Counters of the kernel in which every value differs.
    pub(crate) fn tcp() -> TcpProgress {
        TcpProgress {
            acked: 40_000,
            written: 43_000,
            unsent: Bytes::new(500),
            retransmits: 2,
            mss: Bytes::new(1448),
            smoothed_rtt: Span::from_millis(44),
            min_rtt: Span::from_millis(39),
            ..TcpProgress::default()
        }
    }
}
