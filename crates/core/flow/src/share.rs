// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One allowance for the flows of one host to one destination (the future work of the ALCC paper;
//! the idea is the Congestion Manager, RFC 3124).
//!
//! A browser's six connections probe one path six times, and together take six shares of it. Here
//! one algorithm sees the packets of all members as those of one flow, and what it allows is divided
//! among them.
//!
//! | what | rule | source |
//! |---|---|---|
//! | window, pacing rate | equal parts for the members that have data; the others keep what they have in flight | RFC 3124, section 2.3: a round-robin scheduler |
//! | beyond its part | up to `ROUNDING` segments, while the window has room | ours: parts are no whole segments |
//! | all in flight | never above the one window, but for one segment of each member | ours: a member must be able to ask |
//! | loss | one episode for all: until a packet arrives that was sent after the reduction | RFC 6582, over all members |
//! | timeout | counts if no member has heard anything since | ours |
//! | RTT | one estimate over the samples of all | RFC 6298 |
//!
//! **Differs from RFC 3124**: no feedback but the members' own acknowledgements; no weights.
//!
//! **Known weakness**: a reduction that turns out to be spurious is not undone, and members over
//! several routes are taken for one. The algorithm's events are not passed on. `bbr` without a TCP
//! below leaves half of a link unused.
use crate::RttEstimator;
use alcc_cc::{
    AckBatch, Acked, Allowance, Controller, Cx, Delivery, Feed, LossBatch, Needs, Packet, Path, Pn,
    Rto, Sent, Tag,
};
use alcc_units::{Bytes, Rate, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Segments that a member may exceed its part by, while the whole window has room.
const ROUNDING: u64 = 2;

/// What the members share.
#[derive(Clone)]
pub struct Share(Arc<Mutex<Group>>);

impl Share {
    /// Whether the flows of this algorithm can share. What it allows must be a window or a rate. A
    /// quota (Verus) is released anew each epoch, often less than a segment for each member. A
    /// receiver module (Sprout) belongs to one flow.
    pub fn suits(cc: &dyn Controller) -> bool {
        !cc.needs().receiver && cc.allowance().quota == Bytes::MAX
    }

    /// For this algorithm, which has not started and must [suit](Self::suits).
    pub fn new(cc: Box<dyn Controller>) -> Self {
        Self(Arc::new(Mutex::new(Group {
            needs: cc.needs(),
            feed: Feed::new(cc, Time::ZERO),
            delivery: Delivery::new(Time::ZERO),
            rtt: RttEstimator::default(),
            next: 1,
            in_flight: Bytes::ZERO,
            mss: Bytes::new(1),
            reduced_before: None,
            heard: Time::ZERO,
            members: BTreeMap::new(),
            joined: 0,
        })))
    }

    /// Another flow to the same destination.
    pub fn join(&self) -> Box<dyn Controller> {
        let mut group = self.group();
        let number = group.joined;
        group.joined += 1;
        group.members.insert(number, Part::default());
        drop(group);
        Box::new(Member {
            share: self.clone(),
            number,
        })
    }

    fn has_members(&self) -> bool {
        !self.group().members.is_empty()
    }

    /// A panic elsewhere left nothing half done that matters more than to go on sending.
    fn group(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who shares with whom: a [`Share`] for each key, such as a destination. A share whose members
/// have all gone is forgotten.
pub struct Shares<K> {
    by_key: BTreeMap<K, Share>,
    /// So many are looked through for forgotten ones.
    enough: usize,
}

/// Below this number nobody looks.
const FEW: usize = 64;

impl<K> Shares<K> {
    /// Nobody yet.
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
    /// Another flow with this key. Of the first one `cc`, which must [suit](Share::suits), decides
    /// for all.
    pub fn join(&mut self, key: K, cc: Box<dyn Controller>) -> Box<dyn Controller> {
        if self.by_key.len() >= self.enough {
            self.by_key.retain(|_, share| share.has_members());
            self.enough = (2 * self.by_key.len()).max(FEW);
        }
        match self.by_key.get(&key).filter(|share| share.has_members()) {
            Some(share) => share.join(),
            None => {
                let share = Share::new(cc);
                let first = share.join();
                self.by_key.insert(key, share);
                first
            }
        }
    }
}

/// The algorithm, and what it must be told.
struct Group {
    needs: Needs,
    feed: Feed,
    delivery: Delivery,
    rtt: RttEstimator,
    /// Number of the next packet, over all members.
    next: Pn,
    in_flight: Bytes,
    mss: Bytes,
    /// In a loss episode: the first packet that was sent after the reduction.
    reduced_before: Option<Pn>,
    heard: Time,
    members: BTreeMap<u64, Part>,
    joined: u64,
}

/// What is known of a member.
#[derive(Clone, Default)]
struct Part {
    /// Its packets in flight by its own numbers, as the algorithm knows them.
    outstanding: BTreeMap<Pn, Packet>,
    in_flight: Bytes,
    /// It has more to send than it may.
    backlogged: bool,
}

impl Group {
    /// Members among which to divide, with `number` as one of them.
    fn sharing(&self, number: u64) -> u64 {
        let others = self.members.iter().filter(|(other, _)| **other != number);
        1 + others.filter(|(_, part)| part.backlogged).count() as u64
    }

    /// Tells the algorithm something.
    fn tell<R>(&mut self, now: Time, event: impl FnOnce(&mut Self, Time) -> R) -> R {
        let now = self.feed.advance(now);
        event(self, now)
    }

    /// Takes these packets of a member out of flight. Those that are not in flight any more, such as
    /// lost ones that arrive late, are left out.
    fn take(&mut self, number: u64, packets: &[Packet]) -> Vec<Packet> {
        let Some(part) = self.members.get_mut(&number) else {
            return Vec::new();
        };
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
        self.in_flight = self.in_flight.saturating_sub(len);
        taken
    }

    fn sent(&mut self, now: Time, number: u64, sent: &Sent) {
        if self.in_flight == Bytes::ZERO {
            let smoothed = self.rtt.view().smoothed;
            self.feed.resume(self.heard, smoothed);
            self.delivery.begin_flight(now);
        }
        let app_limited = sent.app_limited && self.sharing(number) == 1;
        let pn = self.next;
        self.next += 1;
        let before = self.in_flight;
        self.in_flight += sent.len;
        let stamp = self.delivery.stamp(self.in_flight, app_limited);
        let tag = self.feed.sent(&Sent {
            pn,
            len: sent.len,
            in_flight_before: before,
            kind: sent.kind,
            app_limited,
        });
        let Some(part) = self.members.get_mut(&number) else {
            return;
        };
        part.in_flight += sent.len;
        part.backlogged = !sent.app_limited;
        let packet = Packet {
            pn,
            len: sent.len,
            sent_at: now,
            tag,
            stamp,
            rtt: None,
            kind: sent.kind,
        };
        part.outstanding.insert(sent.pn, packet);
    }

    fn acked(&mut self, now: Time, number: u64, ack: &AckBatch<'_>) {
        let before = self.in_flight;
        let packets = self.take(number, ack.acked);
        let Some(newest) = packets.last().copied() else {
            return;
        };
        self.heard = now;
        for packet in &packets {
            self.delivery.arrived(now, packet);
            if let Some(rtt) = packet.rtt {
                self.rtt.sample(rtt);
            }
        }
        if let Some(part) = self.members.get_mut(&number) {
            part.backlogged &= !ack.limited.app;
        }
        let others = self.sharing(number) > 1;
        let limited = self.feed.limited();
        limited.window |= ack.limited.window || others && ack.limited.app;
        limited.quota |= ack.limited.quota;
        limited.pacer |= ack.limited.pacer;
        limited.peer |= ack.limited.peer;
        limited.app |= ack.limited.app && !others;
        self.feed.marked(ack.marked);
        let rtt = self.rtt.view();
        if self.reduced_before.is_some_and(|first| newest.pn >= first) {
            self.reduced_before = None;
            self.feed.repaired(self.in_flight, rtt);
        }
        let rate = self.delivery.rate(&packets);
        self.feed.acked(&Acked {
            packets: &packets,
            in_flight_before: before,
            in_flight: self.in_flight,
            delivery: &self.delivery,
            rtt,
            rate,
            in_recovery: self.reduced_before.is_some(),
            advanced: ack.advanced,
            source: ack.source,
            rtt_error: ack.rtt_error,
        });
    }

    fn lost(&mut self, number: u64, loss: &LossBatch<'_>) {
        let packets = self.take(number, loss.lost);
        let Some(newest) = packets.last() else {
            return;
        };
        let new = self.reduced_before.is_none_or(|first| newest.pn >= first);
        if new {
            self.reduced_before = Some(self.next);
        }
        self.feed
            .lost(&packets, new, self.in_flight, self.rtt.view());
    }

    fn expired(&mut self, now: Time, number: u64, rto: &Rto) {
        let silence = now.since(self.heard);
        let Some(part) = self.members.get(&number) else {
            return;
        };
        let Some(oldest) = part.outstanding.get(&rto.oldest.pn).copied() else {
            return;
        };
        if silence >= rto.silence {
            let in_flight = self.in_flight;
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
        let Some(own) = self.members.get(&number) else {
            return all;
        };
        let sharing = self.sharing(number);
        let window = if all.window == Bytes::MAX {
            Bytes::MAX
        } else {
            let others = self.members.iter().filter(|(other, _)| **other != number);
            let kept: Bytes = others
                .filter(|(_, part)| !part.backlogged)
                .map(|(_, part)| part.in_flight)
                .sum();
            let part = Bytes::new(all.window.saturating_sub(kept).get() / sharing);
            // Parts are no whole segments: what the roundings leave, anyone may use.
            let part = part + self.mss * ROUNDING;
            // Hosts compare this with what they see in flight, which is less than we were told. So
            // what all have above the window comes off, or each would replace its own for ever.
            let most = (own.in_flight + all.window).saturating_sub(self.in_flight);
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

/// A flow that shares.
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
        group.tell(cx.now, |group, now| {
            if !group.feed.is_started() {
                group.mss = path.mss;
                group.heard = now;
                group.delivery = Delivery::new(now);
                group.feed.start(path);
            }
        });
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let number = self.number;
        let mut group = self.share.group();
        group.tell(cx.now, |group, now| group.sent(now, number, sent));
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let number = self.number;
        let mut group = self.share.group();
        group.tell(cx.now, |group, now| group.acked(now, number, ack));
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let number = self.number;
        let mut group = self.share.group();
        group.tell(cx.now, |group, _| group.lost(number, loss));
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let number = self.number;
        let mut group = self.share.group();
        group.tell(cx.now, |group, now| group.expired(now, number, rto));
    }

    fn on_mtu(&mut self, cx: &mut Cx<'_>, mss: Bytes) {
        let mut group = self.share.group();
        group.mss = mss;
        group.tell(cx.now, |group, _| group.feed.mtu(mss));
    }

    fn on_route(&mut self, cx: &mut Cx<'_>, path: &Path) {
        let mut group = self.share.group();
        group.mss = path.mss;
        group.tell(cx.now, |group, _| group.feed.route(path));
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        let mut group = self.share.group();
        group.tell(cx.now, |group, _| group.feed.run_timer());
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

    fn profile(&self, put: &mut dyn FnMut(alcc_cc::ProfilePoint)) {
        self.share.group().feed.controller().profile(put);
    }

    /// A copy shares with copies of nobody: it goes on alone from here.
    fn clone_box(&self) -> Box<dyn Controller> {
        let group = self.share.group();
        let copy = Group {
            feed: group.feed.fork(),
            rtt: group.rtt.clone(),
            members: group.members.clone(),
            ..*group
        };
        Box::new(Self {
            share: Share(Arc::new(Mutex::new(copy))),
            number: self.number,
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut group = self.share.group();
        if let Some(part) = group.members.remove(&self.number) {
            group.in_flight = group.in_flight.saturating_sub(part.in_flight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_cc::{Registry, Spec};
    use alcc_units::Span;

    const MSS: Bytes = Bytes::new(1000);

    fn share(algorithm: &str) -> Share {
        let spec: Spec = algorithm.parse().unwrap();
        Share::new(Registry::builtin().build(&spec).unwrap())
    }

    /// A member as its host has it.
    fn member(share: &Share) -> Feed {
        let mut feed = Feed::new(share.join(), Time::ZERO);
        feed.start(&Path {
            mss: MSS,
            rtt_hint: None,
            seed: 1,
        });
        feed
    }

    fn send(feed: &mut Feed, pn: Pn, in_flight_before: Bytes, app_limited: bool) {
        feed.sent(&Sent {
            pn,
            len: MSS,
            in_flight_before,
            kind: alcc_cc::Kind::New,
            app_limited,
        });
    }

    #[test]
    fn a_window_is_divided_among_those_who_have_data() {
        let share = share("fixed:window=12");
        let mut flows = [member(&share), member(&share), member(&share)];
        let more = MSS * ROUNDING;
        let alone = flows[0].allowance().window;
        for flow in &mut flows {
            send(flow, 1, Bytes::ZERO, false);
        }
        let third = Bytes::new(alone.get() / 3);
        assert_eq!(flows[0].allowance().window, third + more);
        // One has no more data: what it has in flight stays its own.
        send(&mut flows[2], 2, MSS, true);
        let rest = alone.saturating_sub(MSS * 2);
        let half = Bytes::new(rest.get() / 2);
        assert_eq!(flows[0].allowance().window, half + more);
        // One is gone.
        let [first, second, _] = flows;
        drop(second);
        assert_eq!(first.allowance().window, rest);
    }

    #[test]
    fn members_together_never_exceed_the_window_but_for_a_segment_each() {
        let share = share("fixed:window=8");
        let mut flows: Vec<Feed> = (0..4).map(|_| member(&share)).collect();
        let all = flows[0].allowance().window;
        let mut sent = [Bytes::ZERO; 4];
        for pn in 1..100 {
            for (flow, sent) in flows.iter_mut().zip(&mut sent) {
                if *sent + MSS <= flow.allowance().window {
                    send(flow, pn, *sent, false);
                    *sent += MSS;
                }
            }
        }
        let total: Bytes = sent.iter().copied().sum();
        assert!(total <= all + MSS * 4, "{sent:?} of {all:?}");
        assert!(sent.iter().all(|sent| *sent > Bytes::ZERO), "{sent:?}");
    }

    /// A host sees what was acknowledged before it tells of it, and sends as much again.
    #[test]
    fn members_above_the_window_together_replace_nothing() {
        let share = share("fixed:window=8");
        let mut flows: Vec<Feed> = (0..2).map(|_| member(&share)).collect();
        for pn in 1..=4 {
            let before = MSS * (pn - 1);
            flows
                .iter_mut()
                .for_each(|flow| send(flow, pn, before, false));
        }
        assert_eq!(flows[0].allowance().window, MSS * 4);
        // Two that have nothing in flight may ask.
        let mut asking: Vec<Feed> = (0..2).map(|_| member(&share)).collect();
        for flow in &mut asking {
            assert_eq!(flow.allowance().window, MSS);
            send(flow, 1, Bytes::ZERO, false);
        }
        assert_eq!(flows[0].allowance().window, MSS * 2);
    }

    #[test]
    fn who_comes_when_all_have_gone_begins_anew() {
        let mut shares = Shares::new();
        let mut join = |key: u32| {
            let spec: Spec = "reno".parse().unwrap();
            let cc = Registry::builtin().build(&spec).unwrap();
            let mut feed = Feed::new(shares.join(key, cc), Time::ZERO);
            feed.start(&Path {
                mss: MSS,
                rtt_hint: None,
                seed: 1,
            });
            feed
        };
        let (mut a, b, other) = (join(1), join(1), join(2));
        let first = other.allowance().window;
        send(&mut a, 1, Bytes::ZERO, false);
        // A part of one, and all of another.
        assert!(b.allowance().window < first);
        drop((a, b));
        assert_eq!(join(1).allowance().window, first);
        // Those who have gone are not kept.
        for key in 10..1_000 {
            drop(join(key));
        }
        assert!(shares.by_key.len() <= FEW, "{}", shares.by_key.len());
    }

    #[test]
    fn losses_of_two_members_in_one_flight_are_one_reduction() {
        let share = share("reno");
        let (mut a, mut b) = (member(&share), member(&share));
        let both = a.allowance().window;
        let mut lost = Vec::new();
        for flow in [&mut a, &mut b] {
            send(flow, 1, Bytes::ZERO, false);
            lost.push(Packet {
                pn: 1,
                len: MSS,
                sent_at: Time::ZERO,
                tag: Tag::default(),
                stamp: alcc_cc::Stamp::default(),
                rtt: None,
                kind: alcc_cc::Kind::New,
            });
        }
        let rtt = RttEstimator::default().view();
        a.advance(Time::ZERO + Span::from_millis(50));
        b.advance(Time::ZERO + Span::from_millis(50));
        a.lost(&lost[..1], true, Bytes::ZERO, rtt);
        b.lost(&lost[1..], true, Bytes::ZERO, rtt);
        drop(b);
        assert_eq!(a.allowance().window, Bytes::new(both.get() / 2));
    }
}
