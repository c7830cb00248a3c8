// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that the server has closed with bytes in flight. Its runtime sees them no more; the
//! kernel's socket diagnosis does, until the last byte is acknowledged.
use super::source::Seen;
use alcc_flow::TcpProgress;
use alcc_lab::sampler::{Remains, SockDiag};
use alcc_observe::LeftEntry;
use alcc_results::trial::Reading;
use alcc_units::{Bytes, Span, Time};

/// Those that are followed, and how many ended unseen.
#[derive(Default)]
pub(super) struct Left {
    /// Of the network namespace of this thread; `None`: there is none, or not yet.
    diagnosis: Option<SockDiag>,
    connections: Vec<One>,
    unseen: u64,
}

struct One {
    entry: LeftEntry,
    last: TcpProgress,
    /// With the next acknowledgement it is forgotten.
    is_last: bool,
}

impl Left {
    /// Follows this one, too. What the runtime read at its end is a reading like the others.
    pub(super) fn add(&mut self, entry: &LeftEntry, each: &mut dyn FnMut(&Seen)) {
        let last = TcpProgress {
            acked: entry.acked,
            written: entry.acked.saturating_add(entry.in_flight.get()),
            retransmits: entry.retransmits,
            mss: entry.mss,
            ..TcpProgress::default()
        };
        each(&seen(entry, entry.at, &last));
        self.connections.push(One {
            entry: *entry,
            last,
            is_last: false,
        });
    }

    /// Looks at all of them.
    pub(super) fn take(&mut self, at: Time, each: &mut dyn FnMut(&Seen)) {
        if self.connections.is_empty() {
            return;
        }
        if self.diagnosis.is_none() {
            self.diagnosis = SockDiag::open().ok();
        }
        let Some(diagnosis) = &mut self.diagnosis else {
            self.unseen += std::mem::take(&mut self.connections).len() as u64;
            return;
        };
        let unseen = &mut self.unseen;
        self.connections.retain_mut(|one| {
            let LeftEntry {
                local,
                remote,
                cookie,
                ..
            } = one.entry;
            let remains = diagnosis.remains(local, remote, cookie);
            let (reading, is_last) = match remains.unwrap_or(Remains::Unknown) {
                Remains::Sends(reading) => (reading, false),
                Remains::SendsLast(reading) => (reading, true),
                Remains::Unknown if !one.is_last => {
                    *unseen += 1;
                    return false;
                }
                Remains::Acknowledged | Remains::Unknown => {
                    each(&end(one, at));
                    return false;
                }
            };
            one.is_last = is_last;
            one.last = reading.progress;
            each(&seen(&one.entry, at, &one.last));
            // Only the end of the stream is on its way.
            one.last.in_buffer() > Bytes::ZERO
        });
    }

    /// How many were not seen to their end: reset, or in another network namespace.
    pub(super) fn unseen(&self) -> u64 {
        self.unseen
    }
}

/// All has been acknowledged since the last look.
fn end(one: &One, at: Time) -> Seen {
    let all = TcpProgress {
        acked: one.last.written,
        smoothed_rtt: Span::ZERO,
        ..one.last
    };
    seen(&one.entry, at, &all)
}

fn seen(entry: &LeftEntry, at: Time, tcp: &TcpProgress) -> Seen {
    Seen {
        connection: (entry.pid, entry.id),
        client: entry.client,
        reading: Reading {
            at,
            acked: tcp.acked,
            in_flight: tcp.in_buffer(),
            rtt: tcp.smoothed_rtt,
            retransmits: tcp.retransmits,
            mss: tcp.mss,
        },
    }
}
