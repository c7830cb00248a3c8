// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The published status of one connection. It has its slot in the status table, its group's
//! counters, and its readings in the trace ring. Without a segment all of it is nothing.
use crate::bypass::ByReason;
use crate::events::Sink;
use crate::groups::{self, GroupId, GroupTotals};
use crate::segment::Segment;
use crate::share::client_of;
use crate::status::{Change, Identity, Slot, State, Status};
use crate::trace::{self, TraceEntry};
use alcc_cc::Log;
use alcc_flow::{Counters, OverTcp, TcpProgress};
use alcc_sys::Reading;
use alcc_units::{Bytes, Rate, Time};
use std::sync::Arc;

/// The published status of one connection. The default is one that nobody sees.
#[derive(Default)]
pub struct Published {
    to: Option<To>,
    /// What passed, over all the algorithms that were in charge.
    bytes: u64,
    bypassed: ByReason,
    gate_closed: u64,
    retransmits: u64,
    acked: u64,
}

struct To {
    segment: Arc<Segment>,
    slot: Option<Slot>,
    group: GroupId,
    pid: u32,
    id: u64,
    port: u16,
    client: u64,
}

impl Published {
    /// A connection taken under control, with the kernel's counters as they are.
    pub fn new(segment: Option<&Arc<Segment>>, who: &Identity, tcp: &TcpProgress) -> Self {
        let to = segment.map(|segment| {
            let port = if who.outbound {
                who.remote.port()
            } else {
                who.local.port()
            };
            let group = groups::find(segment, port, &who.algorithm);
            let one = GroupTotals {
                connections: 1,
                ..GroupTotals::default()
            };
            groups::add(segment, group, &one);
            To {
                segment: Arc::clone(segment),
                slot: Slot::take(segment, who),
                group,
                pid: who.pid,
                id: who.id,
                port,
                client: client_of(who.remote.ip()),
            }
        });
        Self {
            to,
            retransmits: tcp.retransmits,
            acked: tcp.acked,
            ..Self::default()
        }
    }

    /// Where the algorithm's events go; `None` if the connection is not shown.
    pub fn log(&self) -> Option<Log> {
        let to = self.to.as_ref()?;
        Some(Box::new(Sink {
            segment: Arc::clone(&to.segment),
            index: to.slot.as_ref()?.index(),
            pid: to.pid,
            id: to.id,
        }))
    }

    /// Another algorithm is in charge.
    pub fn algorithm(&mut self, name: &str) {
        if let Some(to) = &mut self.to {
            to.group = groups::find(&to.segment, to.port, name);
            if let Some(slot) = &to.slot {
                slot.algorithm(name);
            }
        }
    }

    /// Adds what passed since the last call.
    pub fn passed(&mut self, more: &Counters) {
        self.bytes += more.bytes;
        self.gate_closed += more.gate_closed;
        if let Some(to) = &self.to {
            let more = GroupTotals {
                bytes: more.bytes,
                gate_closed: more.gate_closed,
                ..GroupTotals::default()
            };
            groups::add(&to.segment, to.group, &more);
        }
    }

    /// Adds what passed without the algorithm's leave. Returns the reasons that are new.
    pub fn bypassed(&mut self, more: ByReason) -> ByReason {
        let mut fresh = ByReason::default();
        for (why, n) in more.iter() {
            if n > 0 && self.bypassed.get(why) == 0 {
                fresh += ByReason::of(why, 1);
            }
        }
        self.bypassed += more;
        fresh
    }

    /// A reading, after the algorithm has acted on it. `under_way` is what the kernel has in flight
    /// while a write is under way. `flow` knows of that write only when it returns. `has_more`: the
    /// program's last write was short or refused.
    pub fn reading(
        &mut self,
        at: Time,
        reading: &Reading,
        under_way: Option<Bytes>,
        has_more: bool,
        flow: &OverTcp,
        applied: u64,
    ) {
        let Some(to) = &self.to else { return };
        let (tcp, rtt, allowance) = (&reading.progress, flow.rtt(), flow.allowance());
        let status = Status {
            state: State::Controlled,
            resting: flow.is_idle(),
            generation: applied,
            updated: at,
            cwnd: reading.cwnd,
            ssthresh: reading.ssthresh,
            mss: tcp.mss,
            window: (allowance.window != Bytes::MAX).then_some(allowance.window),
            in_flight: flow.in_flight(),
            rtt: rtt.latest,
            smoothed: rtt.smoothed,
            min_rtt: rtt.min,
            pacing: allowance.rate.filter(|rate| *rate != Rate::MAX),
            delivery: reading.delivery,
            bytes: self.bytes,
            bypassed: self.bypassed,
            gate_closed: self.gate_closed,
            retransmits: tcp.retransmits,
        };
        if let Some(slot) = &to.slot {
            slot.update(&status);
        }
        let more = GroupTotals {
            retransmits: tcp.retransmits.saturating_sub(self.retransmits),
            readings: 1,
            ..GroupTotals::default()
        };
        groups::add(&to.segment, to.group, &more);
        if tcp.acked > self.acked && !rtt.latest.is_zero() {
            groups::observe(&to.segment, to.group, rtt.latest, status.queueing());
        }
        if trace::RING.wanted(&to.segment, at) {
            let in_flight = under_way.unwrap_or_else(|| tcp.in_buffer());
            let entry = TraceEntry {
                at,
                pid: to.pid,
                id: to.id,
                client: to.client,
                acked: tcp.acked,
                in_flight,
                unsent: tcp.unsent,
                window: status.window,
                cwnd: status.cwnd,
                ssthresh: status.ssthresh,
                mss: tcp.mss,
                rtt: status.rtt,
                smoothed: tcp.smoothed_rtt,
                min_rtt: status.min_rtt,
                pacing: status.pacing,
                delivery: status.delivery,
                retransmits: tcp.retransmits,
                has_more,
            };
            trace::write(&to.segment, &entry);
            if !reading.alive && in_flight > Bytes::ZERO {
                self.left(at, tcp);
            }
        }
        (self.retransmits, self.acked) = (tcp.retransmits, tcp.acked);
    }

    /// Somebody follows the readings.
    pub fn is_traced(&self, at: Time) -> bool {
        (self.to.as_ref()).is_some_and(|to| trace::RING.wanted(&to.segment, at))
    }

    /// The program closes the socket. Whoever follows the readings can ask the kernel for what is
    /// still in flight.
    pub fn left(&self, at: Time, tcp: &TcpProgress) {
        if let Some(to) = self.to.as_ref().filter(|_| self.is_traced(at))
            && let Some(slot) = &to.slot
        {
            let who = (to.pid, to.id);
            trace::write_left(&to.segment, at, who, to.client, slot.index(), tcp);
        }
    }

    /// Plain TCP from now on, or under control again.
    pub fn state(&self, now: Time, state: State, applied: u64) {
        let change = Change {
            state,
            generation: applied,
            updated: now,
            bytes: self.bytes,
            bypassed: self.bypassed,
            gate_closed: self.gate_closed,
        };
        if let Some(slot) = self.to.as_ref().and_then(|to| to.slot.as_ref()) {
            slot.change(&change);
        }
    }

    /// The connection is over: its place is free.
    pub fn end(&mut self) {
        if let Some(to) = &mut self.to {
            to.slot = None;
        }
    }
}
