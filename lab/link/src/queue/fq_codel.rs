// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FQ-CoDel (Hoeiland-Joergensen, McKenney, Taht, Gettys, Dumazet: RFC 8290, 2018).
//!
//! A queue with its own CoDel for each flow. They share the link by bytes (deficit round robin). A
//! flow that has just begun to wait goes before flows that have waited for longer. Packets of one
//! flow stay in order.
//!
//! | constant | value | where |
//! |---|---|---|
//! | queues | 1024 | section 4.1.2 |
//! | quantum | 1500 B of IP (the RFC counts an Ethernet header, too) | section 5.2.4 |
//! | target, interval | 5 ms, 100 ms | sections 5.2.1, 5.2.2 |
//! | limit | 10240 packets | section 5.2.3 |
//! | packets that may be marked are marked instead of dropped by CoDel | yes | section 5.2.6 |
//! | dropped at once when full: half of the longest queue's bytes, at most 64 packets, from its head | | section 4.1 |
//!
//! Differs from the RFC: flows have numbers and need no hash. So no two share a queue unless there are more than
//! `flows`: flow n has queue n modulo `flows`. As in Linux, a queue can be a standing one if more than a packet waits
//! in all queues together: with RFC 8289 alone nothing would be dropped from the queues of twenty flows with a packet
//! each.
use super::codel::{Codel, INTERVAL, TARGET};
use super::droptail::Droptail;
use super::{ECN, Enqueue, Queue, QueueKind, Queued};
use crate::Packet;
use alcc_units::{Bytes, OptionDoc, Rng, Time};
use std::collections::VecDeque;

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "fq_codel",
    summary: "a queue with CoDel for each flow, served in turns; new flows first (RFC 8290)",
    overtaking: true,
    options: &[
        OptionDoc {
            name: "flows",
            default: "1024",
            help: "number of queues; flow n has queue n modulo flows, 1 to 65536",
        },
        OptionDoc {
            name: "quantum",
            default: "1500",
            help: "IP bytes that a queue may send in one turn, 1 to 1000000",
        },
        TARGET,
        INTERVAL,
        ECN,
        OptionDoc {
            name: "bytes",
            default: "unlimited",
            help: "maximum queued IP bytes of all queues, 1 or more",
        },
        OptionDoc {
            name: "packets",
            default: "10240",
            help: "maximum queued packets of all queues, 1 to 1000000000",
        },
    ],
    build: |options| {
        let quantum = Bytes::new(1)..=Bytes::new(1_000_000);
        let codel = Codel::built(Droptail::new(Bytes::MAX, u64::MAX), options)?;
        Ok(Box::new(FqCodel {
            flows: options.whole("flows", 1024, 1..=65_536)?,
            quantum: options.bytes("quantum", Bytes::new(1500), quantum)?.get() as i64,
            max_bytes: options.bytes("bytes", Bytes::MAX, Bytes::new(1)..=Bytes::MAX)?,
            max_packets: options.whole("packets", 10_240, 1..=1_000_000_000)?,
            empty: codel,
            queues: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: Bytes::ZERO,
        }))
    },
};

/// Maximum number of packets dropped at once from the longest queue.
const BATCH: usize = 64;

#[derive(Clone, Debug)]
struct FqCodel {
    flows: u64,
    quantum: i64,
    max_bytes: Bytes,
    max_packets: u64,
    /// The initial state of a queue.
    empty: Codel,
    /// The queues that have been used, by number.
    queues: Vec<Sub>,
    /// Numbers of the queues in the order of their turns. Each queue is in at most one of both lists.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    packets: usize,
    bytes: Bytes,
}

#[derive(Clone, Debug)]
struct Sub {
    codel: Codel,
    /// Bytes that it may still send in this turn.
    deficit: i64,
    /// True if it is in `new` or in `old`.
    listed: bool,
}

impl FqCodel {
    /// Makes room: drops half of the longest queue, from its head (section 4.1).
    fn shrink(&mut self, drops: &mut Vec<Packet>) {
        let mut longest: Option<&mut Sub> = None;
        for sub in &mut self.queues {
            // The first of equal ones; a queue of empty packets is longer than an empty queue.
            let size = |sub: &Sub| (sub.codel.bytes(), sub.codel.len());
            if longest.as_deref().is_none_or(|l| size(l) < size(sub)) {
                longest = Some(sub);
            }
        }
        let Some(longest) = longest else { return };
        let half = longest.codel.bytes().get() / 2;
        let mut gone = Bytes::ZERO;
        for n in 0..BATCH {
            if n > 0 && gone.get() >= half {
                break;
            }
            let Some(queued) = longest.codel.discard() else {
                break;
            };
            gone += queued.packet.len;
            self.packets -= 1;
            drops.push(queued.packet);
        }
        self.bytes -= gone;
    }
}

impl Queue for FqCodel {
    // Section 4.1.
    fn enqueue(
        &mut self,
        now: Time,
        packet: Packet,
        rng: &mut Rng,
        drops: &mut Vec<Packet>,
    ) -> Enqueue {
        let number = (u64::from(packet.flow) % self.flows) as usize;
        while self.queues.len() <= number {
            self.queues.push(Sub {
                codel: self.empty.clone(),
                deficit: 0,
                listed: false,
            });
        }
        let sub = &mut self.queues[number];
        let answer = sub.codel.enqueue(now, packet, rng, drops);
        self.packets += 1;
        self.bytes += packet.len;
        if !sub.listed {
            sub.listed = true;
            sub.deficit = self.quantum;
            self.new.push_back(number);
        }
        while self.packets > 0
            && (self.packets as u64 > self.max_packets || self.bytes > self.max_bytes)
        {
            self.shrink(drops);
        }
        answer
    }

    // Section 4.2.
    fn dequeue(&mut self, now: Time, drops: &mut Vec<Packet>) -> Option<Queued> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let sub = &mut self.queues[number];
            if sub.deficit <= 0 {
                sub.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            let before = drops.len();
            let beside = self.bytes - sub.codel.bytes();
            let queued = sub.codel.dequeue_beside(now, beside, drops);
            for packet in &drops[before..] {
                self.packets -= 1;
                self.bytes -= packet.len;
            }
            if let Some(queued) = queued {
                sub.deficit -= queued.packet.len.get() as i64;
                self.packets -= 1;
                self.bytes -= queued.packet.len;
                return Some(queued);
            }
            list.pop_front();
            if is_new {
                // At the end, because otherwise a flow that sends now and then would always be new.
                self.old.push_back(number);
            } else {
                sub.listed = false;
            }
        }
    }

    fn len(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> Bytes {
        self.bytes
    }

    fn duplicate(&self) -> Box<dyn Queue> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, QueueSpec};

    /// Twenty flows, each with one packet that waits 20 ms: none has a queue, together they have one.
    #[test]
    fn many_flows_with_a_packet_each_have_a_standing_queue() {
        let mut queue = "fq_codel".parse::<QueueSpec>().unwrap().queue();
        let mut rng = Rng::new(1);
        let mut drops = Vec::new();
        for id in 0..1_000 {
            let packet = Packet {
                id,
                flow: (id % 20) as u32,
                len: Bytes::new(1500),
                ecn: Ecn::NotEct,
            };
            queue.enqueue(Time::from_millis(id), packet, &mut rng, &mut drops);
            if id >= 20 {
                queue.dequeue(Time::from_millis(id), &mut drops);
            }
        }
        // Drops shorten it until a single packet waits.
        assert_eq!(drops.len(), 19);
    }
}
