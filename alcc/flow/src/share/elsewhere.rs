// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Members in other processes. Each process has a copy of the algorithm. It reports to the others,
//! as counters, what its members did. Its copy hears what the others' members did. So every copy
//! sees the packets of all. The mean of what the copies allow is divided among all. Otherwise a
//! process whose copy allows least would get nothing, see little and err more.
//!
//! No process waits for another. A process that dies is no longer heard.
use super::{Arrival, Group};
use alcc_cc::{Allowance, Kind, LimitedBy, Packet, Pn, Sent, Source};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::BTreeMap;

/// Totals of the members in one process. Bytes count from when it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// When this was reported.
    pub at: Time,
    /// Left.
    pub sent: u64,
    /// Arrived.
    pub acked: u64,
    /// Were lost.
    pub lost: u64,
    /// Were in flight when their member ended.
    pub left: u64,
    /// Members that have more to send than they may.
    pub backlogged: u64,
    /// The newest RTT sample.
    pub rtt: Option<Span>,
    /// What the copy of the algorithm allows all to have in flight; [`Bytes::MAX`]: no limit.
    pub window: Bytes,
    /// And how fast they may send.
    pub rate: Option<Rate>,
}

impl Tally {
    /// Neither arrived nor lost.
    pub fn in_flight(&self) -> u64 {
        let gone = [self.acked, self.lost, self.left];
        gone.into_iter().fold(self.sent, u64::saturating_sub)
    }
}

/// How processes report to each other. Numbers from other processes may be wrong.
pub trait Elsewhere: Send {
    /// Tells the others.
    fn tell(&mut self, own: &Tally);

    /// The last report of each other process, with a number that stays its own. Processes that have
    /// not reported for long are left out.
    fn hear(&mut self, now: Time, put: &mut dyn FnMut(u64, Tally));
}

/// At most so many packets stand for what another process sent since it was heard last.
const MOST_PACKETS: u64 = 256;
/// No process sends more in between, bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Nor has more members.
const MOST_MEMBERS: u64 = 1 << 16;

/// The other processes, and what they are told.
pub(super) struct Others {
    door: Box<dyn Elsewhere>,
    pub(super) own: Tally,
    /// How our own arrivals are learned; theirs are as well.
    pub(super) source: Source,
    pub(super) rtt_error: Span,
    heard: BTreeMap<u64, Heard>,
    /// When.
    heard_at: Time,
}

impl Others {
    pub(super) fn new(door: Box<dyn Elsewhere>) -> Self {
        Self {
            door,
            own: Tally::default(),
            source: Source::default(),
            rtt_error: Span::ZERO,
            heard: BTreeMap::new(),
            heard_at: Time::ZERO,
        }
    }
}

/// One of them.
#[derive(Clone, Copy)]
struct Heard {
    /// As a member here.
    number: u64,
    /// Number of its next packet.
    next: Pn,
    /// What the algorithm was told.
    told: Tally,
    /// Its last word.
    word: Tally,
    present: bool,
}

/// Of what was before we know nothing but what is in flight now.
fn unseen(tally: &Tally) -> Tally {
    Tally {
        sent: tally.sent.saturating_sub(tally.in_flight()),
        ..*tally
    }
}

impl Group {
    /// Counts what a member of this process did.
    pub(super) fn count(&mut self, add: impl FnOnce(&mut Others)) {
        if let Some(others) = &mut self.others {
            add(others);
        }
    }

    /// How many members are in this process.
    pub(super) fn own_members(&self) -> usize {
        self.members.len() - self.elsewhere().count()
    }

    /// The members that stand for other processes.
    pub(super) fn elsewhere(&self) -> impl Iterator<Item = u64> {
        let others = self.others.iter().flat_map(|others| others.heard.values());
        others.map(|heard| heard.number)
    }

    /// Members of other processes that have more to send than they may.
    pub(super) fn backlogged_elsewhere(&self) -> u64 {
        let parts = self.elsewhere().filter_map(|other| self.members.get(other));
        parts.map(|part| part.backlogged).sum()
    }

    pub(super) fn tell_others(&mut self, now: Time) {
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
        others.door.tell(&others.own);
    }

    pub(super) fn hear_others(&mut self, now: Time) {
        // An algorithm that has not started hears nothing.
        if !self.feed.is_started() {
            return;
        }
        let Some(mut others) = self.others.take() else {
            return;
        };
        let (source, rtt_error) = (others.source, others.rtt_error);
        let mut words = Vec::new();
        (others.door).hear(now, &mut |id, tally| words.push((id, tally)));
        words.sort_unstable_by_key(|(_, tally)| tally.at);
        // What came back in a longer silence of ours would seem to have come at once.
        let silence = now.since(others.heard_at);
        let missed = silence > self.rtt.view().smoothed / 2;
        others.heard_at = now;
        let known = &mut others.heard;
        known.values_mut().for_each(|heard| heard.present = false);
        for (id, tally) in words {
            let heard = known.entry(id).or_insert_with(|| Heard {
                number: self.members.admit(),
                next: 1,
                told: unseen(&tally),
                word: tally,
                present: true,
            });
            heard.present = true;
            heard.word = tally;
            if missed {
                let all = self.oldest(heard.number, u64::MAX, &mut 0);
                self.take(heard.number, &all);
                heard.told = unseen(&tally);
            }
            // When it happened, not when it was heard: algorithms look at the gaps.
            let at = self.feed.advance(tally.at.min(now));
            self.hear(at, heard, &tally, (source, rtt_error));
        }
        known.retain(|_, heard| {
            if !heard.present {
                self.members.dismiss(heard.number);
            }
            heard.present
        });
        self.others = Some(others);
    }

    /// What the copies allow on average, each for its members that have data. In this copy `own`
    /// members have.
    pub(super) fn on_average(&self, allowed: Allowance, own: u64) -> Allowance {
        let others = self.others.iter().flat_map(|others| others.heard.values());
        let mean = |ours: u64, theirs: &dyn Fn(&Tally) -> Option<u64>| {
            let ours = (u128::from(ours) * u128::from(own), u128::from(own));
            let all = others.clone().fold(ours, |(sum, count), heard| {
                let weight = u128::from(heard.word.backlogged.min(MOST_MEMBERS));
                let value = theirs(&heard.word).map(u128::from);
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

    /// Tells the algorithm what happened in another process since it was heard last.
    fn hear(&mut self, now: Time, heard: &mut Heard, tally: &Tally, how: (Source, Span)) {
        let number = heard.number;
        let backlogged = tally.backlogged.min(MOST_MEMBERS);
        let mut sent = tally.sent.saturating_sub(heard.told.sent).min(MOST_BYTES);
        heard.told.sent = tally.sent;
        let size = self.mss.get().max(sent.div_ceil(MOST_PACKETS));
        while sent > 0 {
            let len = Bytes::new(sent.min(size));
            sent -= len.get();
            let packet = Sent {
                pn: heard.next,
                len,
                in_flight_before: self.members.in_flight(),
                kind: Kind::New,
                app_limited: backlogged == 0,
            };
            self.sent(now, number, &packet);
            heard.next += 1;
        }
        let idle = tally.in_flight() == 0;
        let lost = self.oldest(number, tally.lost, &mut heard.told.lost);
        self.lost(number, &lost);
        let mut acked = self.oldest(number, tally.acked, &mut heard.told.acked);
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
        let left = self.oldest(number, tally.left, &mut heard.told.left);
        self.take(number, &left);
        if idle {
            // Counters end within packets of ours.
            let rest = self.oldest(number, u64::MAX, &mut 0);
            self.take(number, &rest);
            heard.told = *tally;
        }
        self.members
            .change(number, |part| part.backlogged = backlogged);
    }

    /// The oldest packets of a member in flight, by its own numbers. There are as many as between
    /// what was counted and what was told, which goes on by them.
    fn oldest(&self, number: u64, counted: u64, told: &mut u64) -> Vec<Packet> {
        let mut due = counted.saturating_sub(*told);
        let part = self.members.get(number);
        let outstanding = part.into_iter().flat_map(|part| &part.outstanding);
        let packets = outstanding.map_while(|(pn, packet)| {
            due = due.checked_sub(packet.len.get())?;
            *told += packet.len.get();
            Some(Packet { pn: *pn, ..*packet })
        });
        packets.collect()
    }
}
