// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The listener: it serves several clients at once over one socket.
use crate::client::is_passing;
use crate::error::RecordError;
use crate::plan::{Load, MAX_LEN, Plan};
use crate::recording::Recording;
use crate::session::{Phase, Role, Session};
use crate::socket::{Burst, Socket};
use crate::wire::Packet;
use alcc_sys::{client_of, now};
use alcc_udp::cookie::{Issuer, Key, unguessable};
use alcc_units::{Rate, Span, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

const MAX_SLEEP: Span = Span::from_millis(100);
/// Time from the decision to begin until the first packet, for informing the clients.
const START_LEAD: Span = Span::from_millis(500);

/// Limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of concurrent recordings. A client has at most half of them, or `together` if that is more.
    pub sessions: usize,
    /// Maximum length of a recording.
    pub duration: Span,
    /// Maximum sending rate to one client.
    pub rate: Rate,
    /// Number of clients that must be ready before their recordings begin together; 1: each begins
    /// alone.
    pub together: usize,
}

/// Events of a listener.
#[derive(Debug)]
pub enum Event<'a> {
    /// A client has proved its address, and its request is permitted.
    Opened {
        /// Its address.
        peer: SocketAddr,
        /// Its name.
        label: &'a str,
        /// Its request.
        plan: &'a Plan,
    },
    /// A client has proved its address but is refused.
    Refused {
        /// Its address.
        peer: SocketAddr,
        /// The reason.
        why: &'a str,
    },
    /// The progress of a recording, some ten times a second.
    Progress {
        /// Its name.
        label: &'a str,
        /// Its session.
        session: &'a Session,
        /// The current time.
        now: Time,
    },
    /// A recording has ended.
    Closed(Box<Recording>),
}

struct Open {
    peer: SocketAddr,
    nonce: u64,
    label: String,
    session: Session,
    /// The socket's count of lost packets at the start.
    overrun: u32,
}

/// Listener that waits for clients and records with them.
pub struct Listener {
    socket: Socket,
    limits: Limits,
    issuer: Issuer,
    open: BTreeMap<u64, Open>,
}

impl Listener {
    /// A listener at this address.
    ///
    /// # Errors
    /// The address is in use, or not of this machine.
    pub fn bind(at: SocketAddr, limits: Limits) -> Result<Self, RecordError> {
        let socket = Socket::bind(at).map_err(RecordError::socket(format!("listen at {at}")))?;
        let key = || key().map_err(RecordError::socket("get a random number"));
        Ok(Self {
            socket,
            limits,
            issuer: Issuer::new(now(), key()?, key()?),
            open: BTreeMap::new(),
        })
    }

    /// The listen address.
    ///
    /// # Errors
    /// The error of the system.
    pub fn address(&self) -> Result<SocketAddr, RecordError> {
        self.socket
            .address()
            .map_err(RecordError::socket("query the address"))
    }

    /// Serves until `stop` is raised, or until `count` recordings have ended. Recordings in
    /// progress are ended then, and kept.
    ///
    /// # Errors
    /// The socket fails.
    pub fn run(
        &mut self,
        count: Option<u64>,
        stop: &AtomicBool,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), RecordError> {
        let mut buffer = vec![0; usize::from(MAX_LEN) + 1];
        let mut burst = Burst::default();
        let (mut ended, mut shown) = (0, now());
        loop {
            let stopping = stop.load(Ordering::Relaxed);
            self.receive(&mut buffer, on)?;
            self.begin();
            for open in self.open.values_mut() {
                if stopping {
                    open.session.stop();
                }
                let session = &mut open.session;
                session.overrun(self.socket.overrun().wrapping_sub(open.overrun));
                let sent = burst.send_all(&mut self.socket, Some(open.peer), |to| {
                    session.poll(now(), to)
                });
                if let Err(e) = sent
                    && !is_passing(&e)
                {
                    return Err(RecordError::socket(format!("send to {}", open.peer))(e));
                }
            }
            let present = now();
            if present.since(shown) >= MAX_SLEEP {
                shown = present;
                for open in self.open.values() {
                    on(Event::Progress {
                        label: &open.label,
                        session: &open.session,
                        now: present,
                    });
                }
            }
            let over = |open: &Open| {
                matches!(open.session.phase(), Phase::Done(_))
                    && open.session.next_timer(present) == Time::MAX
            };
            let done: Vec<u64> = self
                .open
                .iter()
                .filter(|(_, o)| over(o))
                .map(|(&id, _)| id)
                .collect();
            for id in done {
                if let Some(open) = self.open.remove(&id) {
                    ended += 1;
                    let recording = Recording::of(&open.session, open.peer.to_string(), open.label);
                    on(Event::Closed(Box::new(recording)));
                }
            }
            if (stopping && self.open.is_empty()) || count.is_some_and(|count| ended >= count) {
                return Ok(());
            }
            let timers = self.open.values().map(|o| o.session.next_timer(present));
            let next = timers.min().unwrap_or(Time::MAX).min(present + MAX_SLEEP);
            self.socket
                .wait(next)
                .map_err(RecordError::socket("wait for packets"))?;
        }
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        on: &mut dyn FnMut(Event<'_>),
    ) -> Result<(), RecordError> {
        let present = self.socket.begin();
        if self.issuer.is_stale(present)
            && let Ok(key) = key()
        {
            self.issuer.rotate(present, key);
        }
        // Bounded, because sending must not wait forever.
        for _ in 0..1024 {
            let (len, from, at) = match self.socket.receive(buffer) {
                Ok(Some(got)) => got,
                Ok(None) => break,
                Err(e) if is_passing(&e) => continue,
                Err(e) => return Err(RecordError::socket("receive packets")(e)),
            };
            let (Some(from), Some(packet)) = (from, Packet::decode(&buffer[..len])) else {
                continue;
            };
            if let Packet::Session(packet) = packet {
                if let Some(open) = self.open.get_mut(&packet.session)
                    && open.peer == from
                {
                    open.session.handle(at, packet);
                }
                continue;
            }
            if let Some(answer) = self.answer(at, from, packet, on) {
                let mut bytes = Vec::new();
                answer.encode(&mut bytes, 0);
                // Never more than was received, because the sender's address is not verified yet.
                if bytes.len() <= len {
                    let size = bytes.len();
                    // A client that does not get it repeats its request.
                    let _ = self.socket.send(Some(from), &bytes, size);
                }
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        at: Time,
        from: SocketAddr,
        packet: Packet,
        on: &mut dyn FnMut(Event<'_>),
    ) -> Option<Packet> {
        match packet {
            Packet::Hello { nonce } => Some(Packet::Challenge {
                nonce,
                cookie: self.issuer.issue(at, from, nonce),
            }),
            Packet::Start {
                nonce,
                cookie,
                plan,
                label,
            } => {
                if !self.issuer.verify(at, from, nonce, &cookie) {
                    return None;
                }
                // Our answer may have been lost.
                let known = self
                    .open
                    .iter()
                    .find(|(_, o)| o.peer == from && o.nonce == nonce);
                if let Some((&session, _)) = known {
                    return Some(Packet::Ready { nonce, session });
                }
                if let Some(why) = self.objection(from, &plan) {
                    on(Event::Refused {
                        peer: from,
                        why: &why,
                    });
                    return Some(Packet::Refused { nonce, why });
                }
                // Random numbers were available a moment ago; otherwise the client repeats its
                // request.
                let id = unguessable().ok()?;
                on(Event::Opened {
                    peer: from,
                    label: &label,
                    plan: &plan,
                });
                let session = Session::new(Role::Listener, id, plan, at);
                let open = Open {
                    peer: from,
                    nonce,
                    label,
                    session,
                    overrun: self.socket.overrun(),
                };
                self.open.insert(id, open);
                Some(Packet::Ready { nonce, session: id })
            }
            _ => None,
        }
    }

    fn objection(&self, from: SocketAddr, plan: &Plan) -> Option<String> {
        let limits = &self.limits;
        if let Some(problem) = plan.problem() {
            return Some(problem);
        }
        let client = client_of(from.ip());
        let peers = self.open.values().map(|open| open.peer);
        let same = peers.filter(|peer| client_of(peer.ip()) == client).count();
        for (open, whose, most) in [
            (self.open.len(), "", limits.sessions),
            (
                same,
                " of this address",
                limits.sessions.div_ceil(2).max(limits.together),
            ),
        ] {
            if open >= most {
                return Some(format!(
                    "{open} of {most} recordings{whose} run already: try later, or let the listener permit more (--sessions)"
                ));
            }
        }
        if plan.duration + plan.warm_up > limits.duration {
            return Some(format!(
                "{} with the warm-up is more than the listener's limit of {} (--max-duration)",
                plan.duration + plan.warm_up,
                limits.duration
            ));
        }
        let rate = match plan.down {
            Load::Nothing => Rate::ZERO,
            Load::Saturate => plan.limit,
            Load::Every(interval) => Rate::of(alcc_units::Bytes::new(plan.ip_len()), interval),
        };
        (rate > limits.rate).then(|| {
            format!(
                "{rate} down is more than the listener's limit of {} (--limit)",
                limits.rate
            )
        })
    }

    /// Starts the clients that are ready, if there are enough, so that the counted time begins at
    /// the same moment for all.
    fn begin(&mut self) {
        let waiting = || self.open.values().filter(|o| o.session.is_waiting());
        if waiting().count() < self.limits.together.max(1) {
            return;
        }
        let warm_up = waiting().map(|o| o.session.plan().warm_up).max();
        let present = now();
        let from = present + START_LEAD + warm_up.unwrap_or(Span::ZERO);
        for open in self.open.values_mut().filter(|o| o.session.is_waiting()) {
            let start = from.as_nanos() - open.session.plan().warm_up.as_nanos();
            open.session.start(Time::from_nanos(start), present);
        }
    }
}

fn key() -> std::io::Result<Key> {
    let mut key: Key = [0; 64];
    getrandom::fill(&mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Mode;

    #[test]
    fn one_address_has_half_of_the_places_and_all_have_no_more_than_there_are() {
        let places = |together: usize| {
            let limits = Limits {
                sessions: 4,
                duration: Span::from_secs(60),
                rate: Rate::mbps(10),
                together,
            };
            let mut listener = Listener::bind("127.0.0.1:0".parse().unwrap(), limits).unwrap();
            let peers = ["[2001:db8::1]:1", "[2001:db8::2]:2", "[2001:db8::3]:3"];
            let peers = peers
                .iter()
                .chain(&["192.0.2.1:4", "192.0.2.2:5", "192.0.2.3:6"]);
            let refused = peers.map(|from| {
                let (at, from, nonce) = (now(), from.parse().unwrap(), 7);
                let hello = Packet::Hello { nonce };
                let Some(Packet::Challenge { cookie, .. }) =
                    listener.answer(at, from, hello, &mut |_| ())
                else {
                    panic!("no challenge")
                };
                let start = Packet::Start {
                    nonce,
                    cookie,
                    plan: Plan {
                        mode: Mode::Saturate,
                        duration: Span::from_secs(30),
                        warm_up: Span::ZERO,
                        size: 1472,
                        overhead: 28,
                        down: Load::Saturate,
                        up: Load::Saturate,
                        limit: Rate::mbps(10),
                    },
                    label: String::new(),
                };
                match listener.answer(at, from, start, &mut |_| ()) {
                    Some(Packet::Refused { why, .. }) => {
                        why.split(" run").next().unwrap().to_owned()
                    }
                    other => format!("{}", matches!(other, Some(Packet::Ready { .. }))),
                }
            });
            refused.collect::<Vec<_>>()
        };
        let (full, half) = ("4 of 4 recordings", "2 of 2 recordings of this address");
        assert_eq!(places(1), ["true", "true", half, "true", "true", full]);
        // The clients that begin together may be at one address.
        assert_eq!(places(3), ["true", "true", "true", "true", full, full]);
    }
}
