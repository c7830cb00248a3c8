// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The subscribers of one connection in shared memory: its slot in the status table, its group and
//! the trace ring. Without a segment there are none.
use crate::event::{Event, Subscriber};
use crate::events::Sink;
use crate::groups::Member;
use crate::segment::Segment;
use crate::share::client_of;
use crate::status::{Identity, Slot};
use crate::trace::Trace;
use alcc_cc::Log;
use alcc_units::Time;
use std::sync::Arc;

/// The published state of one connection. By default it is not published.
#[derive(Default)]
pub struct Published(Option<Subscribers>);

struct Subscribers {
    slot: Option<Slot>,
    group: Member,
    trace: Trace,
}

impl Published {
    /// A place for a connection that is taken under control.
    pub fn new(segment: &Arc<Segment>, who: &Identity) -> Self {
        let port = if who.outbound {
            who.remote.port()
        } else {
            who.local.port()
        };
        let slot = Slot::take(segment, who);
        Self(Some(Subscribers {
            group: Member::new(segment, port, &who.algorithm),
            trace: Trace {
                segment: Arc::clone(segment),
                pid: who.pid,
                id: who.id,
                client: client_of(who.remote.ip()),
                place: slot
                    .as_ref()
                    .and_then(|slot| u32::try_from(slot.index()).ok()),
            },
            slot,
        }))
    }

    /// The sink of the algorithm's events; `None` if the connection is not shown.
    pub fn log(&self) -> Option<Log> {
        let trace = &self.0.as_ref()?.trace;
        let mut sink = Sink {
            segment: Arc::clone(&trace.segment),
            index: trace.place? as usize,
            pid: trace.pid,
            id: trace.id,
        };
        Some(Box::new(move |at, event, rtt| {
            sink.on(&Event::Algorithm { at, event, rtt });
        }))
    }

    /// True while a reader follows the readings.
    pub fn is_traced(&self, at: Time) -> bool {
        (self.0.as_ref()).is_some_and(|all| all.trace.is_read(at))
    }
}

impl Subscriber for Published {
    fn on(&mut self, event: &Event<'_>) {
        let Some(all) = &mut self.0 else { return };
        all.group.on(event);
        all.trace.on(event);
        match event {
            // Its place is free from now on.
            Event::Closed => all.slot = None,
            event => (all.slot.iter_mut()).for_each(|slot| slot.on(event)),
        }
    }
}
