// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that the server has closed with bytes in flight. Its runtime no longer sees them, but the
//! kernel's socket diagnosis does, until the last byte is acknowledged.
use super::period_after;
use super::seen::Seen;
use alcc_flow::TcpProgress;
use alcc_observe::LeftEntry;
use alcc_observe::trial::Reading;
use alcc_socket::now;
use alcc_sys::{Remains, Sockets};
use alcc_units::{Bytes, Span, Time};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

/// Maximum number of connections followed at a time. Reading all of them takes some ms.
pub(super) const MOST: usize = 4096;
/// Number of connections of one family from which one walk through the kernel's table is cheaper than
/// one query each. Measured: a walk takes 150 us in a table of 262144 buckets, and 0.6 us more for
/// each socket that it finds. A query for one takes 4 us.
const MANY: usize = 128;

/// Source of the state of closed connections.
pub(super) trait Diagnosis: Sized {
    /// Opens it.
    fn open() -> io::Result<Self>;
    /// The state of one connection, by its addresses and its cookie.
    fn one(&mut self, local: SocketAddr, remote: SocketAddr, cookie: u64) -> io::Result<Remains>;
    /// The states of all closed connections of a family for which the kernel still sends, by cookie.
    fn all(&mut self, ipv4: bool) -> io::Result<HashMap<u64, Remains>>;
}

impl Diagnosis for Sockets {
    fn open() -> io::Result<Self> {
        Self::open()
    }

    fn one(&mut self, local: SocketAddr, remote: SocketAddr, cookie: u64) -> io::Result<Remains> {
        self.remains(local, remote, cookie)
    }

    fn all(&mut self, ipv4: bool) -> io::Result<HashMap<u64, Remains>> {
        self.closed(ipv4)
    }
}

/// The followed connections, and the number of those that were not seen to their end.
pub(super) struct Left<D = Sockets> {
    /// For the network namespace of this thread; `None`: not available, or not opened yet.
    diagnosis: Option<D>,
    connections: Vec<One>,
    /// Duration of the last reading.
    took: Span,
    unseen: u64,
    beyond: u64,
}

impl<D> Default for Left<D> {
    fn default() -> Self {
        Self {
            diagnosis: None,
            connections: Vec::new(),
            took: Span::ZERO,
            unseen: 0,
            beyond: 0,
        }
    }
}

struct One {
    entry: LeftEntry,
    last: TcpProgress,
    /// Set when the next acknowledgement ends it.
    is_last: bool,
}

impl<D: Diagnosis> Left<D> {
    /// Follows this connection, too, from the next reading on, because its program is about to close it. The
    /// runtime's last reading of it is an ordinary one.
    pub(super) fn add(&mut self, entry: &LeftEntry, each: &mut dyn FnMut(&Seen)) {
        let last = TcpProgress {
            acked: entry.acked,
            written: entry.acked.saturating_add(entry.in_flight.get()),
            retransmits: entry.retransmits,
            mss: entry.mss,
            ..TcpProgress::default()
        };
        let is_over = entry.in_flight == Bytes::ZERO;
        let is_beyond = !is_over && self.connections.len() == MOST;
        each(&seen(entry, entry.at, &last, is_over || is_beyond));
        if is_over {
            return;
        }
        if is_beyond {
            self.beyond += 1;
            return;
        }
        self.connections.push(One {
            entry: *entry,
            last,
            is_last: false,
        });
    }

    /// Time of the next reading: as often as the runtime read them, or less often if a reading takes long.
    /// `None`: none is followed.
    pub(super) fn period(&self) -> Option<Span> {
        (!self.connections.is_empty()).then(|| period_after(self.took))
    }

    /// Reads all of them.
    pub(super) fn take(&mut self, at: Time, each: &mut dyn FnMut(&Seen)) {
        if self.connections.is_empty() {
            return;
        }
        if self.diagnosis.is_none() {
            self.diagnosis = D::open().ok();
        }
        let Some(diagnosis) = &mut self.diagnosis else {
            let all = std::mem::take(&mut self.connections);
            self.unseen += all.len() as u64;
            all.iter().for_each(|one| each(&lost(one, at)));
            return;
        };
        // If the walk fails, each is queried.
        let mut walk = |ipv4: bool| {
            let family = |one: &&One| one.entry.remote.is_ipv4() == ipv4;
            let many = self.connections.iter().filter(family).count() >= MANY;
            many.then(|| diagnosis.all(ipv4).ok()).flatten()
        };
        let mut walks = [walk(false), walk(true)];
        let unseen = &mut self.unseen;
        self.connections.retain_mut(|one| {
            let LeftEntry {
                local,
                remote,
                cookie,
                ..
            } = one.entry;
            let walked = walks[usize::from(remote.is_ipv4())].as_mut();
            // A connection that the walk did not find has ended, and the kernel still has its last state.
            let remains = walked
                .and_then(|all| all.remove(&cookie))
                .or_else(|| diagnosis.one(local, remote, cookie).ok());
            let (reading, is_last) = match remains.unwrap_or(Remains::Unknown) {
                Remains::Sends(reading) => (reading, false),
                Remains::SendsLast(reading) => (reading, true),
                Remains::Unknown if !one.is_last => {
                    *unseen += 1;
                    each(&lost(one, at));
                    return false;
                }
                Remains::Acknowledged | Remains::Unknown => {
                    each(&end(one, at));
                    return false;
                }
            };
            one.is_last = is_last;
            one.last = reading.progress;
            // Only the end of the stream is on its way.
            let is_over = one.last.in_buffer() == Bytes::ZERO;
            each(&seen(&one.entry, at, &one.last, is_over));
            !is_over
        });
        self.took = now().since(at);
    }

    /// Number of connections that were not seen to their end: reset, or in another network namespace.
    pub(super) fn unseen(&self) -> u64 {
        self.unseen
    }

    /// Number of connections that were not followed, because [`MOST`] others were.
    pub(super) fn beyond(&self) -> u64 {
        self.beyond
    }
}

/// The final reading of a connection whose data has been acknowledged since the last one.
fn end(one: &One, at: Time) -> Seen {
    let all = TcpProgress {
        acked: one.last.written,
        smoothed_rtt: Span::ZERO,
        ..one.last
    };
    seen(&one.entry, at, &all, true)
}

/// Its last counters: the end of its transfer was not seen.
fn lost(one: &One, at: Time) -> Seen {
    seen(&one.entry, at, &one.last, true)
}

fn seen(entry: &LeftEntry, at: Time, tcp: &TcpProgress, is_last: bool) -> Seen {
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
            has_more: false,
        },
        is_last,
    }
}

#[cfg(test)]
mod tests {
    use super::super::PERIOD;
    use super::*;

    /// A kernel that still sends on all connections, and counts the queries.
    #[derive(Default)]
    struct Counting {
        one: usize,
        all: usize,
        /// These have all been acknowledged.
        ended: Vec<u64>,
    }

    fn sends() -> Remains {
        let progress = TcpProgress {
            written: 9,
            ..TcpProgress::default()
        };
        let mut reading = alcc_sys::Reading::of(&[0; 256]).expect("a whole tcp_info");
        reading.progress = progress;
        Remains::Sends(Box::new(reading))
    }

    impl Diagnosis for Counting {
        fn open() -> io::Result<Self> {
            Ok(Self::default())
        }

        fn one(&mut self, _: SocketAddr, _: SocketAddr, cookie: u64) -> io::Result<Remains> {
            self.one += 1;
            Ok(match self.ended.contains(&cookie) {
                true => Remains::Acknowledged,
                false => sends(),
            })
        }

        fn all(&mut self, ipv4: bool) -> io::Result<HashMap<u64, Remains>> {
            self.all += 1;
            let all = (0..MOST as u64).filter(|cookie| ipv4 && !self.ended.contains(cookie));
            Ok(all.map(|cookie| (cookie, sends())).collect())
        }
    }

    fn entry(cookie: u64) -> LeftEntry {
        LeftEntry {
            at: Time::from_millis(1),
            pid: 1,
            id: cookie,
            client: cookie,
            cookie,
            local: ([127, 0, 0, 1], 80).into(),
            remote: ([127, 0, 0, 1], 4000).into(),
            acked: 0,
            in_flight: Bytes::new(9),
            mss: Bytes::new(1),
            retransmits: 0,
        }
    }

    fn following(n: usize) -> Left<Counting> {
        let mut left = Left::default();
        (0..n as u64).for_each(|cookie| left.add(&entry(cookie), &mut |_| {}));
        left
    }

    fn look(left: &mut Left<Counting>) -> (usize, usize, usize) {
        let mut readings = 0;
        left.take(now(), &mut |_| readings += 1);
        let asked = left.diagnosis.as_mut().unwrap();
        let (one, all) = (asked.one, asked.all);
        (asked.one, asked.all) = (0, 0);
        (readings, one, all)
    }

    #[test]
    fn few_are_asked_for_each_many_by_one_walk() {
        assert_eq!(look(&mut following(3)), (3, 3, 0));
        let mut left = following(1000);
        assert_eq!(look(&mut left), (1000, 0, 1));
        // A connection that has ended meanwhile is queried once.
        left.diagnosis.as_mut().unwrap().ended = vec![7, 8];
        assert_eq!(look(&mut left), (1000, 2, 1));
        assert_eq!(look(&mut left), (998, 0, 1));
        assert_eq!(left.unseen(), 0);
    }

    #[test]
    fn there_is_a_most_and_who_is_beyond_is_counted() {
        let mut left = following(MOST + 5);
        assert_eq!((left.connections.len(), left.beyond()), (MOST, 5));
        assert_eq!(look(&mut left), (MOST, 0, 1));
    }

    #[test]
    fn a_connection_closed_after_its_last_byte_is_over_at_once() {
        let mut left = following(0);
        let mut ends = Vec::new();
        let mut closed = entry(1);
        closed.in_flight = Bytes::ZERO;
        left.add(&closed, &mut |seen| ends.push(seen.is_last));
        left.add(&entry(2), &mut |seen| ends.push(seen.is_last));
        assert_eq!((ends, left.connections.len()), (vec![true, false], 1));
    }

    #[test]
    fn who_follows_nobody_need_not_look_and_a_long_look_is_rare() {
        let mut left = following(0);
        assert_eq!(left.period(), None);
        left.take(now(), &mut |_| panic!("nobody is followed"));
        assert!(left.diagnosis.is_none());
        let mut left = following(1);
        assert_eq!(left.period(), Some(PERIOD));
        left.took = PERIOD;
        assert_eq!(left.period(), Some(Span::from_millis(20)));
    }
}
