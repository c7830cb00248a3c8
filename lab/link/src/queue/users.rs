// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A radio cell. Each user has a queue, and a scheduler gives the channel to one of them at a time.
//!
//! The bottleneck is the cell's capacity, whichever user gets it. Time is divided into slots. The chosen user has the
//! channel until the slot ends or its queue is empty. Packets of one user delay another only by the capacity that they
//! use.
//!
//! | constant | value | where |
//! |---|---|---|
//! | slot | 1 ms | the transmission time interval of LTE (3GPP TS 36.211); HSDPA has 2 ms |
//! | window of the proportional fair scheduler | 100 ms | the order used with it: Kelly's 1/t_c of 100 slots; 1000 slots are usual as well |
//!
//! * `rr`: round robin, slots in turn among the users with data.
//! * `pf`: proportional fair (Jalali, Padovani, Pankaj, VTC 2000): the highest ratio of current rate to average served
//!   rate. The current rate of all is that of the cell, because a trace has no other information. So it is the user
//!   that was served least recently. A user that was silent for a while goes first for about a window. In the long run
//!   both give equal shares.
use super::droptail::Droptail;
use super::{Enqueue, Queue, QueueKind, Queued};
use crate::{DropReason, Packet};
use alcc_units::{Bytes, OptionDoc, Rng, Span, Time};
use std::collections::VecDeque;

pub(super) const QUEUE: QueueKind = QueueKind {
    name: "users",
    summary: "radio cell: a queue for each user (flow) and a scheduler of slots",
    overtaking: true,
    options: &[
        OptionDoc {
            name: "scheduler",
            default: "rr",
            help: "rr: round robin; pf: proportional fair over the window",
        },
        OptionDoc {
            name: "slot",
            default: "1ms",
            help: "length of a slot, 0s (a packet each) to 10s",
        },
        OptionDoc {
            name: "window",
            default: "100ms",
            help: "pf: time constant of the average served rate, 1ms to 1000s",
        },
        OptionDoc {
            name: "number",
            default: "65536",
            help: "number of users; flow n belongs to user n modulo number, 1 to 65536",
        },
        OptionDoc {
            name: "user-bytes",
            default: "2000000",
            help: "maximum queued IP bytes of one user, 1 or more; the default is that of droptail",
        },
        OptionDoc {
            name: "user-packets",
            default: "unlimited",
            help: "maximum queued packets of one user, 1 to 1000000000",
        },
        OptionDoc {
            name: "bytes",
            default: "unlimited",
            help: "maximum queued IP bytes of all users, 1 or more",
        },
        OptionDoc {
            name: "packets",
            default: "unlimited",
            help: "maximum queued packets of all users, 1 to 1000000000",
        },
    ],
    build: |options| {
        let any = Bytes::new(1)..=Bytes::MAX;
        let window = Span::from_millis(1)..=Span::from_secs(1000);
        let window = options.span("window", Span::from_millis(100), window)?;
        let slot = Span::ZERO..=Span::from_secs(10);
        Ok(Box::new(Users {
            fair: match options.choice("scheduler", &["rr", "pf"])? {
                "pf" => Some(Fair {
                    window: window.as_secs_f64(),
                    scaled_at: Time::ZERO,
                    scale: 1.0,
                }),
                _ => None,
            },
            slot: options.span("slot", Span::from_millis(1), slot)?,
            number: options.whole("number", 65_536, 1..=65_536)?,
            max_bytes: options.bytes("bytes", Bytes::MAX, any.clone())?,
            max_packets: options.whole("packets", u64::MAX, 1..=1_000_000_000)?,
            empty: Droptail::new(
                options.bytes("user-bytes", USER_BYTES, any)?,
                options.whole("user-packets", u64::MAX, 1..=1_000_000_000)?,
            ),
            users: Vec::new(),
            ring: VecDeque::new(),
            serving: None,
            packets: 0,
            bytes: Bytes::ZERO,
        }))
    },
};

/// Default limit of a user's queue, that of `droptail`.
const USER_BYTES: Bytes = Bytes::new(2_000_000);

#[derive(Clone, Debug)]
struct Users {
    /// The proportional fair scheduler; `None`: round robin.
    fair: Option<Fair>,
    slot: Span,
    number: u64,
    max_bytes: Bytes,
    max_packets: u64,
    /// The initial state of a user's queue.
    empty: Droptail,
    /// The users that have been seen, by number.
    users: Vec<User>,
    /// Users with data that do not have the channel, first the one that had it longest ago.
    ring: VecDeque<usize>,
    /// The user that has the channel, and the slot since which it has it.
    serving: Option<(usize, u64)>,
    packets: usize,
    bytes: Bytes,
}

#[derive(Clone, Debug)]
struct User {
    line: Droptail,
    /// Bytes served recently, times [`Fair::scale`].
    served: f64,
}

/// Decaying averages: instead of reducing all of them as time passes, the added amount grows.
#[derive(Clone, Debug)]
struct Fair {
    /// The window in seconds.
    window: f64,
    scaled_at: Time,
    scale: f64,
}

/// The scale is reset to 1 before it exceeds the range of the numbers.
const LARGE_SCALE: f64 = 1e100;

impl Fair {
    fn pass(&mut self, now: Time, users: &mut [User]) {
        let passed = now.since(self.scaled_at).as_secs_f64() / self.window;
        self.scaled_at = self.scaled_at.max(now);
        // Beyond e^200 the past has no weight.
        self.scale *= libm::exp(passed.min(200.0));
        if self.scale > LARGE_SCALE || passed > 200.0 {
            for user in users {
                user.served /= self.scale;
            }
            self.scale = 1.0;
        }
    }
}

impl Users {
    fn slot_of(&self, now: Time) -> u64 {
        now.as_nanos()
            .checked_div(self.slot.as_nanos())
            .unwrap_or(0)
    }

    /// The user that gets the channel now, among those with data.
    fn choose(&mut self, now: Time) -> Option<usize> {
        let slot = self.slot_of(now);
        if let Some((user, since)) = self.serving {
            if since == slot && !self.slot.is_zero() {
                return Some(user);
            }
            self.ring.push_back(user);
            self.serving = None;
        }
        let place = match &mut self.fair {
            None => 0,
            Some(fair) => {
                fair.pass(now, &mut self.users);
                let served = |place: usize| self.users[self.ring[place]].served;
                // The first of equal ones.
                (0..self.ring.len()).fold(0, |best, place| {
                    if served(place) < served(best) {
                        place
                    } else {
                        best
                    }
                })
            }
        };
        let user = self.ring.remove(place)?;
        self.serving = Some((user, slot));
        Some(user)
    }
}

impl Queue for Users {
    fn enqueue(&mut self, now: Time, packet: Packet, _: &mut Rng, _: &mut Vec<Packet>) -> Enqueue {
        if self.packets as u64 >= self.max_packets || self.bytes + packet.len > self.max_bytes {
            return Enqueue::Refused(DropReason::Overflow);
        }
        let number = (u64::from(packet.flow) % self.number) as usize;
        while self.users.len() <= number {
            self.users.push(User {
                line: self.empty.clone(),
                served: 0.0,
            });
        }
        let line = &mut self.users[number].line;
        let was_empty = line.is_empty();
        let answer = line.push(now, packet);
        if answer == Enqueue::Taken {
            self.packets += 1;
            self.bytes += packet.len;
            if was_empty {
                self.ring.push_back(number);
            }
        }
        answer
    }

    fn dequeue(&mut self, now: Time, _: &mut Vec<Packet>) -> Option<Queued> {
        let number = self.choose(now)?;
        let user = &mut self.users[number];
        let queued = user.line.pop()?;
        if user.line.is_empty() {
            // The rest of the slot is for others.
            self.serving = None;
        }
        self.packets -= 1;
        self.bytes -= queued.packet.len;
        if let Some(fair) = &self.fair {
            user.served += queued.packet.len.get() as f64 * fair.scale;
        }
        Some(queued)
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
