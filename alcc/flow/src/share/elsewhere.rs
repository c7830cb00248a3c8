// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Members in other processes. Each process has a copy of the algorithm, and reports the packets of
//! its members to the others as counters. Its copy gets the packets of the others' members in the
//! same way, so that every copy handles the packets of all. The mean of the copies' allowances is
//! divided among all. Otherwise a process whose copy allows least would get nothing, see few
//! packets and be even more wrong.
//!
//! No process waits for another. A process that has died is ignored after a while.
use super::{Arrival, Group};
use alcc_cc::{Allowance, Kind, LimitedBy, Packet, Pn, Sent, Source};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::BTreeMap;

/// Totals of the members in one process. Bytes count from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Time of this report.
    pub at: Time,
    /// Bytes sent.
    pub sent: u64,
    /// Bytes that arrived.
    pub acked: u64,
    /// Bytes lost.
    pub lost: u64,
    /// Bytes in flight when their member ended.
    pub abandoned: u64,
    /// Members with more data than they may send.
    pub backlogged: u64,
    /// The newest RTT sample.
    pub rtt: Option<Span>,
    /// The number of bytes in flight that this copy of the algorithm allows to all; [`Bytes::MAX`]:
    /// no limit.
    pub window: Bytes,
    /// The rate that it allows to all.
    pub rate: Option<Rate>,
}

impl Tally {
    /// Bytes that have neither arrived nor been lost.
    pub fn in_flight(&self) -> u64 {
        let gone = [self.acked, self.lost, self.abandoned];
        gone.into_iter().fold(self.sent, u64::saturating_sub)
    }
}

/// Exchange of reports between processes. Numbers from other processes may be wrong.
pub trait Elsewhere: Send {
    /// Reports to the others.
    fn tell(&mut self, own: &Tally);

    /// Reads the last report of each other process, with a number that identifies it. Processes
    /// that have not reported for long are left out.
    fn hear(&mut self, now: Time, put: &mut dyn FnMut(u64, Tally));
}

/// Maximum number of packets that stand for the data another process sent since its last report.
const MOST_PACKETS: u64 = 256;
/// Maximum number of bytes of a process between two reports.
const MOST_BYTES: u64 = 1 << 30;
/// Maximum number of members of a process.
const MOST_MEMBERS: u64 = 1 << 16;

/// The other processes, and our report to them.
pub(super) struct Others {
    exchange: Box<dyn Elsewhere>,
    pub(super) own: Tally,
    /// The source of our own acknowledgements; theirs is assumed to be the same.
    pub(super) source: Source,
    pub(super) rtt_error: Span,
    peers: BTreeMap<u64, Peer>,
    /// Time of the last reading of their reports.
    read_at: Time,
}

impl Others {
    pub(super) fn new(exchange: Box<dyn Elsewhere>) -> Self {
        Self {
            exchange,
            own: Tally::default(),
            source: Source::default(),
            rtt_error: Span::ZERO,
            peers: BTreeMap::new(),
            read_at: Time::ZERO,
        }
    }
}

/// The state of another process.
#[derive(Clone, Copy)]
struct Peer {
    /// Its number as a member here.
    number: u64,
    /// Number of its next packet.
    next: Pn,
    /// The totals as reported to the algorithm.
    reported: Tally,
    /// Its last report.
    report: Tally,
    present: bool,
}

/// The totals of a process that is new here: of its past only the data in flight counts.
fn unseen(tally: &Tally) -> Tally {
    Tally {
        sent: tally.sent.saturating_sub(tally.in_flight()),
        ..*tally
    }
}

impl Group {
    /// Counts packets of a member of this process.
    pub(super) fn count(&mut self, add: impl FnOnce(&mut Others)) {
        if let Some(others) = &mut self.others {
            add(others);
        }
    }

    /// The number of members in this process.
    pub(super) fn own_members(&self) -> usize {
        self.members.len() - self.elsewhere().count()
    }

    /// The members that represent other processes.
    pub(super) fn elsewhere(&self) -> impl Iterator<Item = u64> {
        let others = self.others.iter().flat_map(|others| others.peers.values());
        others.map(|peer| peer.number)
    }

    /// Members of other processes with more data than they may send.
    pub(super) fn backlogged_elsewhere(&self) -> u64 {
        let parts = self.elsewhere().filter_map(|other| self.members.get(other));
        parts.map(|part| part.backlogged).sum()
    }

    pub(super) fn publish_own(&mut self, now: Time) {
        let elsewhere = self.backlogged_elsewhere();
        let Some(others) = &mut self.others else {
            return;
        };
        let all = self.members.backlogged();
        let allowed = self.feed.allowance();
        others.own.window = allowed.window;
        others.own.rate = allowed.rate;
        others.own.backlogged = all - elsewhere;
        others.own.at = now;
        others.exchange.tell(&others.own);
    }

    pub(super) fn read_others(&mut self, now: Time) {
        // An algorithm that has not started gets no events.
        if !self.feed.is_started() {
            return;
        }
        let Some(mut others) = self.others.take() else {
            return;
        };
        let (source, rtt_error) = (others.source, others.rtt_error);
        let mut words = Vec::new();
        (others.exchange).hear(now, &mut |id, tally| words.push((id, tally)));
        words.sort_unstable_by_key(|(_, tally)| tally.at);
        // Data acknowledged during a long silence of ours would seem to have arrived at once.
        let silence = now.since(others.read_at);
        let missed = silence > self.rtt.view().smoothed / 2;
        others.read_at = now;
        let known = &mut others.peers;
        known.values_mut().for_each(|peer| peer.present = false);
        for (id, tally) in words {
            let peer = known.entry(id).or_insert_with(|| Peer {
                number: self.members.admit(),
                next: 1,
                reported: unseen(&tally),
                report: tally,
                present: true,
            });
            peer.present = true;
            peer.report = tally;
            if missed {
                let all = self.oldest(peer.number, u64::MAX, &mut 0);
                self.take(peer.number, &all);
                peer.reported = unseen(&tally);
            }
            // The time of the event, not of reading it, because algorithms look at the gaps.
            let at = self.feed.advance(tally.at.min(now));
            self.pass_report(at, peer, &tally, (source, rtt_error));
        }
        known.retain(|_, peer| {
            if !peer.present {
                self.members.dismiss(peer.number);
            }
            peer.present
        });
        self.others = Some(others);
    }

    /// The mean allowance of all copies, weighted by their members with data. This copy has `own`
    /// such members.
    pub(super) fn on_average(&self, allowed: Allowance, own: u64) -> Allowance {
        let others = self.others.iter().flat_map(|others| others.peers.values());
        let mean = |ours: u64, theirs: &dyn Fn(&Tally) -> Option<u64>| {
            let ours = (u128::from(ours) * u128::from(own), u128::from(own));
            let all = others.clone().fold(ours, |(sum, count), peer| {
                let weight = u128::from(peer.report.backlogged.min(MOST_MEMBERS));
                let value = theirs(&peer.report).map(u128::from);
                value.map_or((sum, count), |value| (sum + value * weight, count + weight))
            });
            (all.0 / all.1.max(1)) as u64
        };
        let limit = |window: Bytes| (window != Bytes::MAX).then(|| window.get());
        let window = limit(allowed.window).map(|w| mean(w, &|tally| limit(tally.window)));
        let rate = (allowed.rate).map(|r| mean(r.as_bps(), &|t| t.rate.map(Rate::as_bps)));
        Allowance {
            window: window.map_or(Bytes::MAX, Bytes::new),
            rate: rate.map(Rate::bps),
            ..allowed
        }
    }

    /// Passes the events of another process since its last report to the algorithm.
    fn pass_report(&mut self, now: Time, peer: &mut Peer, tally: &Tally, how: (Source, Span)) {
        let number = peer.number;
        let backlogged = tally.backlogged.min(MOST_MEMBERS);
        let mut sent = tally
            .sent
            .saturating_sub(peer.reported.sent)
            .min(MOST_BYTES);
        peer.reported.sent = tally.sent;
        let size = self.mss.get().max(sent.div_ceil(MOST_PACKETS));
        while sent > 0 {
            let len = Bytes::new(sent.min(size));
            sent -= len.get();
            let packet = Sent {
                pn: peer.next,
                len,
                in_flight_before: self.members.in_flight(),
                kind: Kind::New,
                app_limited: backlogged == 0,
            };
            self.sent(now, number, &packet);
            peer.next += 1;
        }
        let idle = tally.in_flight() == 0;
        let lost = self.oldest(number, tally.lost, &mut peer.reported.lost);
        self.lost(number, &lost);
        let mut acked = self.oldest(number, tally.acked, &mut peer.reported.acked);
        acked.iter_mut().for_each(|packet| packet.rtt = tally.rtt);
        let (source, rtt_error) = how;
        let arrival = Arrival {
            limited: LimitedBy {
                window: backlogged > 0,
                app: backlogged == 0,
                ..LimitedBy::default()
            },
            marked: Bytes::ZERO,
            advanced: true,
            source,
            rtt_error,
        };
        self.acked(now, number, &acked, &arrival);
        let removed = self.oldest(number, tally.abandoned, &mut peer.reported.abandoned);
        self.take(number, &removed);
        if idle {
            // The counters may end within one of our packets.
            let rest = self.oldest(number, u64::MAX, &mut 0);
            self.take(number, &rest);
            peer.reported = *tally;
        }
        self.members
            .change(number, |part| part.backlogged = backlogged);
    }

    /// The oldest packets in flight of a member: as many as lie between the total `reported` to the
    /// algorithm and `counted`. Advances `reported` by them.
    fn oldest(&self, number: u64, counted: u64, reported: &mut u64) -> Vec<Packet> {
        let mut due = counted.saturating_sub(*reported);
        let part = self.members.get(number);
        let outstanding = part.into_iter().flat_map(|part| &part.outstanding);
        let packets = outstanding.map_while(|(pn, packet)| {
            due = due.checked_sub(packet.len.get())?;
            *reported += packet.len.get();
            Some(Packet { pn: *pn, ..*packet })
        });
        packets.collect()
    }
}
