// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One allowance for the flows of one host to one destination. The ALCC paper names it as future
//! work; the idea is that of the Congestion Manager, RFC 3124.
//!
//! A browser's six connections probe one path six times, and together take six shares of it. With a
//! share, one algorithm handles the packets of all members as those of one flow, and its allowance
//! is divided among them.
//!
//! | what | rule | source |
//! |---|---|---|
//! | window, pacing rate | equal parts for the members that have data; the others keep their data in flight | RFC 3124, section 2.3: a round-robin scheduler |
//! | beyond its part | up to `ROUNDING` segments, while the window has room | ours: parts are not whole segments |
//! | all in flight | never above the one window, but for one segment of each member | ours: a member must be able to send a first segment |
//! | loss | one episode for all: until a packet arrives that was sent after the reduction | RFC 6582, over all members |
//! | timeout | counts if no member got an acknowledgement since | ours |
//! | RTT | one estimate over the samples of all | RFC 6298 |
//! | processes | those of a server have a copy of the algorithm each, see [`Elsewhere`] | ours |
//!
//! **Differs from RFC 3124**: no feedback but the members' own acknowledgements; no weights.
//!
//! **Known weakness**: a reduction that turns out to be spurious is not undone. Members over
//! several routes are taken for one. The algorithm's events are not passed on. `bbr` without a TCP
//! below leaves half of a link unused.
use crate::RttEstimator;
use alcc_cc::{
    AckBatch, Acked, Allowance, Controller, Cx, Delivery, Feed, Instance, LimitedBy, LossBatch,
    Needs, Packet, Path, Pn, Rto, Sent, Source, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod elsewhere;
mod members;
use elsewhere::Others;
pub use elsewhere::{Elsewhere, Tally};
use members::Members;

/// Number of segments by which a member may exceed its part, while the whole window has room.
const ROUNDING: u64 = 2;

/// The algorithm shared by its members.
#[derive(Clone)]
pub struct Share(Arc<Mutex<Group>>);

impl Share {
    /// True if the flows of this algorithm can share. Its allowance must be a window or a rate. A
    /// quota (Verus) is released anew each epoch, and is often less than a segment for each member.
    /// A receiver module (Sprout) belongs to one flow.
    pub fn suits(cc: &Instance) -> bool {
        !cc.has_receiver() && cc.allowance().quota == Bytes::MAX
    }

    /// A share for this algorithm, which has not started and must [suit](Self::suits).
    pub fn new(cc: Instance) -> Self {
        Self::among(cc, None)
    }

    /// The same as [`Share::new`], with members in other processes.
    pub fn among(cc: Instance, elsewhere: Option<Box<dyn Elsewhere>>) -> Self {
        Self(Arc::new(Mutex::new(Group {
            needs: cc.needs(),
            feed: Feed::new(cc, Time::ZERO),
            delivery: Delivery::new(Time::ZERO),
            rtt: RttEstimator::default(),
            next: 1,
            mss: Bytes::new(1),
            reduced_before: None,
            last_ack: Time::ZERO,
            members: Members::default(),
            others: elsewhere.map(Others::new),
        })))
    }

    /// Adds a flow to the same destination.
    pub fn join(&self) -> Instance {
        let number = self.group().members.admit();
        Instance::new(Member {
            share: self.clone(),
            number,
        })
    }

    fn has_members(&self) -> bool {
        self.group().own_members() > 0
    }

    /// Takes the lock even after a panic elsewhere, because it is more important that sending
    /// continues.
    fn group(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A table of shares: one [`Share`] for each key, such as a destination. A share is removed when
/// its last member has gone.
pub struct Shares<K> {
    by_key: BTreeMap<K, Share>,
    /// Number of entries at which the table is searched for shares without members.
    enough: usize,
}

/// Minimum of `enough`.
const FEW: usize = 64;

impl<K> Shares<K> {
    /// An empty table.
    pub const fn new() -> Self {
        Self {
            by_key: BTreeMap::new(),
            enough: FEW,
        }
    }
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord> Shares<K> {
    /// Adds a flow with this key. The first flow's `cc`, which must [suit](Share::suits), controls
    /// all, together with the members that `elsewhere` finds in other processes.
    pub fn join(
        &mut self,
        key: K,
        cc: Instance,
        elsewhere: impl FnOnce() -> Option<Box<dyn Elsewhere>>,
    ) -> Instance {
        if self.by_key.len() >= self.enough {
            self.by_key.retain(|_, share| share.has_members());
            self.enough = (2 * self.by_key.len()).max(FEW);
        }
        match self.by_key.get(&key).filter(|share| share.has_members()) {
            Some(share) => share.join(),
            None => {
                let share = Share::among(cc, elsewhere());
                let first = share.join();
                self.by_key.insert(key, share);
                first
            }
        }
    }
}

/// The algorithm, and the state for its events.
struct Group {
    needs: Needs,
    feed: Feed,
    delivery: Delivery,
    rtt: RttEstimator,
    /// Number of the next packet, over all members.
    next: Pn,
    mss: Bytes,
    /// In a loss episode: the first packet that was sent after the reduction.
    reduced_before: Option<Pn>,
    /// Time of the last acknowledgement, or of the start.
    last_ack: Time,
    members: Members,
    others: Option<Others>,
}

/// The properties of an arrival of packets.
#[derive(Clone, Copy)]
struct Arrival {
    limited: LimitedBy,
    marked: Bytes,
    advanced: bool,
    source: Source,
    rtt_error: Span,
}

impl Group {
    /// Passes an event to the algorithm.
    fn pass(&mut self, now: Time, event: impl FnOnce(&mut Self, Time)) {
        self.read_others(now);
        let now = self.feed.advance(now);
        event(self, now);
        self.publish_own(now);
    }

    /// Removes these packets of a member from the packets in flight, and returns them. Packets that
    /// are no longer in flight, such as lost ones that arrive late, are left out.
    fn take(&mut self, number: u64, packets: &[Packet]) -> Vec<Packet> {
        let taken = self.members.change(number, |part| {
            let known = packets.iter().filter_map(|packet| {
                let sent = part.outstanding.remove(&packet.pn)?;
                Some(Packet {
                    rtt: packet.rtt,
                    ..sent
                })
            });
            let taken: Vec<Packet> = known.collect();
            let len: Bytes = taken.iter().map(|packet| packet.len).sum();
            part.in_flight = part.in_flight.saturating_sub(len);
            taken
        });
        taken.unwrap_or_default()
    }

    fn sent(&mut self, now: Time, number: u64, sent: &Sent) {
        let before = self.members.in_flight();
        if before == Bytes::ZERO {
            let smoothed = self.rtt.view().smoothed;
            self.feed.resume(self.last_ack, smoothed);
            self.delivery.begin_flight(now);
        }
        let app_limited = sent.app_limited && self.members.sharing(number) == 1;
        let pn = self.next;
        self.next += 1;
        let stamp = self.delivery.stamp(before + sent.len, app_limited);
        let tag = self.feed.sent(&Sent {
            pn,
            len: sent.len,
            in_flight_before: before,
            kind: sent.kind,
            app_limited,
        });
        let packet = Packet {
            pn,
            len: sent.len,
            sent_at: now,
            tag,
            stamp,
            rtt: None,
            kind: sent.kind,
        };
        self.members.change(number, |part| {
            part.in_flight += sent.len;
            part.backlogged = u64::from(!sent.app_limited);
            part.outstanding.insert(sent.pn, packet);
        });
    }

    fn acked(&mut self, now: Time, number: u64, packets: &[Packet], how: &Arrival) {
        let before = self.members.in_flight();
        let packets = self.take(number, packets);
        let Some(newest) = packets.last().copied() else {
            return;
        };
        self.last_ack = now;
        for packet in &packets {
            self.delivery.arrived(now, packet);
            if let Some(rtt) = packet.rtt {
                self.rtt.sample(rtt);
            }
        }
        if how.limited.app {
            self.members.change(number, |part| part.backlogged = 0);
        }
        let others = self.members.sharing(number) > 1;
        let limited = self.feed.limited();
        limited.window |= how.limited.window || others && how.limited.app;
        limited.quota |= how.limited.quota;
        limited.pacer |= how.limited.pacer;
        limited.peer |= how.limited.peer;
        limited.app |= how.limited.app && !others;
        self.feed.marked(how.marked);
        let rtt = self.rtt.view();
        if self.reduced_before.is_some_and(|first| newest.pn >= first) {
            self.reduced_before = None;
            self.feed.repaired(self.members.in_flight(), rtt);
        }
        let rate = self.delivery.rate(&packets);
        self.feed.acked(&Acked {
            packets: &packets,
            in_flight_before: before,
            in_flight: self.members.in_flight(),
            delivery: &self.delivery,
            rtt,
            rate,
            in_recovery: self.reduced_before.is_some(),
            advanced: how.advanced,
            source: how.source,
            rtt_error: how.rtt_error,
        });
    }

    fn lost(&mut self, number: u64, packets: &[Packet]) {
        let packets = self.take(number, packets);
        let Some(newest) = packets.last() else {
            return;
        };
        let new = self.reduced_before.is_none_or(|first| newest.pn >= first);
        if new {
            self.reduced_before = Some(self.next);
        }
        self.feed
            .lost(&packets, new, self.members.in_flight(), self.rtt.view());
    }

    fn expired(&mut self, now: Time, number: u64, rto: &Rto) {
        let silence = now.since(self.last_ack);
        let Some(part) = self.members.get(number) else {
            return;
        };
        let Some(oldest) = part.outstanding.get(&rto.oldest.pn).copied() else {
            return;
        };
        if silence >= rto.silence {
            let in_flight = self.members.in_flight();
            self.feed.expired(&Rto {
                oldest,
                in_flight,
                silence,
                ..*rto
            });
        }
    }

    fn allowance(&self, number: u64) -> Allowance {
        let all = self.feed.allowance();
        let Some(own) = self.members.get(number) else {
            return all;
        };
        let sharing = self.members.sharing(number);
        let all = self.on_average(all, sharing - self.backlogged_elsewhere());
        let window = if all.window == Bytes::MAX {
            Bytes::MAX
        } else {
            let kept = self.members.kept_by_others(number);
            let part = Bytes::new(all.window.saturating_sub(kept).get() / sharing);
            // Parts are not whole segments. Any member may use the remainders of the rounding.
            let part = part + self.mss * ROUNDING;
            // Hosts compare this with their own count in flight, which is less than the reported
            // one. So the excess of all over the window is subtracted, or each would replace its
            // own packets forever.
            let most = (own.in_flight + all.window).saturating_sub(self.members.in_flight());
            part.min(most).max(self.mss)
        };
        let least = Rate::bps(8_000);
        let rate = all
            .rate
            .map(|rate| Rate::bps(rate.as_bps() / sharing).max(least));
        Allowance {
            window,
            rate,
            ..all
        }
    }
}

/// A flow that takes part in a share.
struct Member {
    share: Share,
    number: u64,
}

impl Controller for Member {
    fn needs(&self) -> Needs {
        self.share.group().needs
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        let mut group = self.share.group();
        group.pass(cx.now, |group, now| {
            if !group.feed.is_started() {
                group.mss = path.mss;
                group.last_ack = now;
                group.delivery = Delivery::new(now);
                group.feed.start(path);
            }
        });
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let number = self.number;
        let mut group = self.share.group();
        group.pass(cx.now, |group, now| {
            group.sent(now, number, sent);
            group.count(|others| others.own.sent += sent.len.get());
        });
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let number = self.number;
        let mut group = self.share.group();
        let how = Arrival {
            limited: ack.limited,
            marked: ack.marked,
            advanced: ack.advanced,
            source: ack.source,
            rtt_error: ack.rtt_error,
        };
        let newest = ack.acked.iter().rev().find_map(|packet| packet.rtt);
        group.pass(cx.now, |group, now| {
            let before = group.members.in_flight();
            group.acked(now, number, ack.acked, &how);
            let gone = before.saturating_sub(group.members.in_flight());
            group.count(|others| {
                others.own.acked += gone.get();
                others.own.rtt = newest.or(others.own.rtt);
                others.source = how.source;
                others.rtt_error = how.rtt_error;
            });
        });
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let number = self.number;
        let mut group = self.share.group();
        group.pass(cx.now, |group, _| {
            let before = group.members.in_flight();
            group.lost(number, loss.lost);
            let gone = before.saturating_sub(group.members.in_flight());
            group.count(|others| others.own.lost += gone.get());
        });
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let number = self.number;
        let mut group = self.share.group();
        group.pass(cx.now, |group, now| group.expired(now, number, rto));
    }

    fn on_mtu(&mut self, cx: &mut Cx<'_>, mss: Bytes) {
        let mut group = self.share.group();
        group.mss = mss;
        group.pass(cx.now, |group, _| group.feed.mtu(mss));
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        let mut group = self.share.group();
        group.pass(cx.now, |group, _| group.feed.run_timer());
    }

    fn allowance(&self) -> Allowance {
        self.share.group().allowance(self.number)
    }

    fn next_timer(&self) -> Option<Time> {
        self.share.group().feed.next_timer()
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        self.share.group().feed.controller().gauges(put);
    }
}

impl Clone for Member {
    /// A copy is not a member: it continues alone from here.
    fn clone(&self) -> Self {
        let group = self.share.group();
        let mut copy = Group {
            feed: group.feed.fork(),
            rtt: group.rtt.clone(),
            members: group.members.clone(),
            others: None,
            ..*group
        };
        group.elsewhere().for_each(|number| {
            copy.members.dismiss(number);
        });
        Self {
            share: Share(Arc::new(Mutex::new(copy))),
            number: self.number,
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut group = self.share.group();
        let removed = group.members.dismiss(self.number);
        group.count(|others| others.own.abandoned += removed.get());
        if group.own_members() == 0 {
            // No member can join again.
            group.others = None;
        }
        let now = group.feed.advance(Time::ZERO);
        group.publish_own(now);
    }
}

#[cfg(test)]
mod tests;
