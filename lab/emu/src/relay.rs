// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that carries packets between the two devices at the times of the models.
use crate::changing::Changing;
use crate::device::Device;
use crate::ecn;
use crate::flow::{self, FlowTable};
use crate::histogram::Histogram;
use crate::offload::{self, Bundle, Cut, FRAME, HEADER};
use crate::report::{EmuReport, Meter};
use crate::store::Store;
use crate::wakeup::Wakeup;
use crate::{Dir, Observer};
use alcc_link::{DirectionSpec, DropReason, Ecn, Outcome, Packet, RateSpec};
use alcc_units::{Bytes, Span, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::{TimeSpec, TimeValLike};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Maximum number of packets read before deliveries are checked again, or as many as one frame has.
const BATCH: usize = 64;

/// Memory for packets in one direction: more than 100 s of 10 Mbit/s, so that only unlimited queues
/// reach it.
const STORE_LIMIT: usize = 128 << 20;

/// Requests to the running relay.
#[derive(Debug)]
pub(crate) enum Request {
    Stop,
    Change(Dir, DirectionSpec),
}

struct DirectionState {
    dir: Dir,
    model: Changing,
    store: Store,
    meter: Meter,
    /// True if packets delivered at one moment are written to the kernel together. A link with a
    /// rate delivers packets one by one, which the receiver must see.
    joins: bool,
}

/// True if the direction has no part that separates the packets of a moment.
const fn joins(spec: &DirectionSpec) -> bool {
    matches!(spec.rate, RateSpec::Unlimited)
        && spec.changes.steps.is_empty()
        && spec.radio.is_empty()
}

pub(crate) struct Relay {
    halves: [DirectionState; 2],
    outside: Device,
    inside: Device,
    observer: Box<dyn Observer + Send>,
    flows: FlowTable,
    lateness: Histogram,
    start: Instant,
    outcomes: Vec<Outcome>,
    frame: Box<[u8]>,
    /// Packets to be written now, with the time at which each was due.
    due: Vec<(Time, Packet)>,
    bundle: Bundle,
    wakeup: Wakeup,
}

impl Relay {
    pub(crate) fn new(
        models: [(Dir, Changing, &DirectionSpec); 2],
        outside: Device,
        inside: Device,
        observer: Box<dyn Observer + Send>,
        start: Instant,
    ) -> Self {
        Self {
            halves: models.map(|(dir, model, spec)| DirectionState {
                dir,
                joins: joins(spec),
                model,
                store: Store::new(STORE_LIMIT),
                meter: Meter::new(),
            }),
            outside,
            inside,
            observer,
            flows: FlowTable::new(),
            lateness: Histogram::new(),
            start,
            outcomes: Vec::with_capacity(4 * BATCH),
            frame: vec![0; FRAME].into_boxed_slice(),
            due: Vec::with_capacity(4 * BATCH),
            bundle: Bundle::default(),
            wakeup: Wakeup::default(),
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.start.elapsed())
    }

    /// Carries packets until it is stopped. `request_fd` can be read when there are requests.
    pub(crate) fn run(
        mut self,
        request_fd: &OwnedFd,
        requests: &Receiver<Request>,
    ) -> io::Result<EmuReport> {
        let realtime = use_real_time_scheduling();
        // The time for which the last sleep was.
        let mut slept_for = Time::ZERO;
        loop {
            // If the thread woke slightly early, the event for which it slept is due all the same.
            let now = self.now().max(slept_for);
            for i in 0..2 {
                self.halves[i].model.advance(now, &mut self.outcomes);
                self.apply_outcomes(i);
            }
            let next = self
                .halves
                .iter()
                .filter_map(|h| h.model.next_event())
                .min();
            let begun = self.now();
            let aimed = next.map(|at| self.wakeup.aim(begun, at));
            let mut fds = [
                PollFd::new(self.outside.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.inside.as_fd(), PollFlags::POLLIN),
                PollFd::new(request_fd.as_fd(), PollFlags::POLLIN),
            ];
            let timeout = aimed.map(|aimed| {
                let wait = aimed.since(begun).as_nanos();
                TimeSpec::nanoseconds(i64::try_from(wait).unwrap_or(i64::MAX))
            });
            slept_for = Time::ZERO;
            match ppoll(&mut fds, timeout, None) {
                Ok(0) => {
                    if let (Some(next), Some(aimed)) = (next, aimed.filter(|at| *at > begun)) {
                        self.wakeup.slept(aimed, self.now());
                        slept_for = next;
                    }
                }
                Ok(_) | Err(nix::Error::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
            let arrived = self.wakeup.arrival(begun, self.now());
            let ready = [0, 1, 2].map(|i: usize| fds[i].any().unwrap_or(false));
            if ready[2] {
                // It was ready, so this does not wait.
                let _ = nix::unistd::read(request_fd, &mut [0; 8]);
                for request in requests.try_iter() {
                    match request {
                        Request::Stop => return Ok(self.finish(realtime)),
                        Request::Change(dir, spec) => self.change(dir, &spec),
                    }
                }
            }
            for (i, _) in ready[..2].iter().enumerate().filter(|(_, ready)| **ready) {
                self.receive(i, arrived)?;
            }
        }
    }

    fn change(&mut self, dir: Dir, spec: &DirectionSpec) {
        let now = self.now();
        if let Some(i) = self.halves.iter().position(|half| half.dir == dir) {
            self.halves[i].model.change(now, spec, &mut self.outcomes);
            self.halves[i].joins = joins(spec);
            self.apply_outcomes(i);
        }
    }

    /// Reads the packets that wait at the sending end of half `i`; `now` is their assumed arrival
    /// time.
    fn receive(&mut self, i: usize, now: Time) -> io::Result<()> {
        // Events that were due before these packets come first.
        self.halves[i].model.advance(now, &mut self.outcomes);
        let mut read = 0;
        while read < BATCH {
            let direction = &mut self.halves[i];
            let from = match direction.dir {
                Dir::Down => &self.outside,
                Dir::Up => &self.inside,
            };
            let len = match from.recv(&mut self.frame) {
                Ok(0) => break,
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let frame = &self.frame[..len];
            let cut = Cut::of(frame);
            let packets = cut.map_or(1, Cut::packets);
            read += packets;
            for n in 0..packets {
                direction.meter.report.read += 1;
                let Some(room) = direction.store.room() else {
                    direction.meter.report.store_full += 1;
                    continue;
                };
                let len = match cut {
                    Some(cut) => cut.write(frame, n, room),
                    None => match room.get_mut(..len) {
                        Some(room) => {
                            room.copy_from_slice(frame);
                            len
                        }
                        None => 0,
                    },
                };
                let bytes = room.get(HEADER..len).unwrap_or_default();
                let size = Bytes::new(bytes.len() as u64);
                direction.meter.report.read_bytes += size;
                let down = direction.dir == Dir::Down;
                let flow = flow::key(bytes, down).map_or(0, |key| self.flows.number(key));
                let ecn = ecn::of(bytes);
                let packet = Packet {
                    id: direction.store.keep(len),
                    flow,
                    len: size,
                    ecn,
                };
                direction.model.push(now, packet, &mut self.outcomes);
            }
        }
        self.apply_outcomes(i);
        Ok(())
    }

    /// Applies the model's outcomes to the packets.
    fn apply_outcomes(&mut self, i: usize) {
        if self.outcomes.is_empty() {
            return;
        }
        let now = self.now();
        let direction = &mut self.halves[i];
        for outcome in &self.outcomes {
            direction.meter.count(outcome);
            match outcome {
                // The copy is written from the same bytes, just before the packet itself.
                Outcome::Repeated { at, packet } => self.due.push((*at, *packet)),
                Outcome::Dropped {
                    at,
                    packet,
                    why: DropReason::Corrupt,
                } => {
                    let bytes = direction.store.bytes_mut(packet.id);
                    bytes.map(offload::corrupt);
                    self.due.push((*at, *packet));
                }
                Outcome::Delivered { at, packet, .. } => {
                    self.lateness.add(now.since(*at));
                    if packet.ecn == Ecn::Ce {
                        let bytes = direction.store.bytes_mut(packet.id);
                        bytes.and_then(|b| b.get_mut(HEADER..)).map(ecn::mark);
                    }
                    self.due.push((*at, *packet));
                }
                Outcome::Dropped { packet, .. } => direction.store.free(packet.id),
                Outcome::Arrived { .. } | Outcome::Departed { .. } => {}
            }
            self.observer.event(direction.dir, outcome, now);
        }
        self.outcomes.clear();
        self.hand_over(i);
    }

    /// Writes due packets to the receiving namespace.
    fn hand_over(&mut self, i: usize) {
        let direction = &mut self.halves[i];
        let to = match direction.dir {
            Dir::Down => &self.inside,
            Dir::Up => &self.outside,
        };
        let mut rest = &self.due[..];
        while let Some(((at, first), more)) = rest.split_first() {
            let store = &direction.store;
            let bytes = |packet: &Packet| store.bytes(packet.id).unwrap_or_default();
            self.bundle.begin(bytes(first));
            if direction.joins {
                let same = more.iter().take_while(|(due, _)| due == at);
                for (_, packet) in same {
                    if !self.bundle.add(bytes(packet)) {
                        break;
                    }
                }
            }
            let (together, after) = rest.split_at(self.bundle.packets());
            let sent = if let [(_, one)] = together {
                to.send(&[IoSlice::new(bytes(one))])
            } else {
                let head = self.bundle.head_len();
                let data = together
                    .iter()
                    .map(|(_, p)| bytes(p).get(head..).unwrap_or_default());
                let parts = [self.bundle.head()].into_iter().chain(data);
                let parts: Vec<IoSlice<'_>> = parts.map(IoSlice::new).collect();
                to.send(&parts)
            };
            for (_, packet) in together {
                if sent.is_err() {
                    direction.meter.refused(packet.len);
                }
                // If a copy was written first, the packet itself still needs the bytes.
                if after.first().is_none_or(|(_, next)| next.id != packet.id) {
                    direction.store.free(packet.id);
                }
            }
            rest = after;
        }
        self.due.clear();
    }

    fn finish(self, realtime: bool) -> EmuReport {
        let duration = self.now().since(Time::ZERO);
        let device = self.outside.kind();
        let drops = [
            self.outside.unread() + self.inside.undelivered(),
            self.inside.unread() + self.outside.undelivered(),
        ];
        let mut report = EmuReport {
            duration,
            lateness_p50: self.lateness.quantile(0.5),
            lateness_p99: self.lateness.quantile(0.99),
            lateness_max: self.lateness.max(),
            realtime,
            device,
            flows: self.flows.keys(),
            ..EmuReport::default()
        };
        for direction in self.halves {
            let mut meter = direction.meter;
            meter.report.inside = direction.store.held();
            let model = direction.model;
            let mut done = meter.finish(|from, to| model.opportunity_bytes(from, to));
            match direction.dir {
                Dir::Down => {
                    done.kernel_dropped = drops[0];
                    report.down = done;
                }
                Dir::Up => {
                    done.kernel_dropped = drops[1];
                    report.up = done;
                }
            }
        }
        report
    }
}

/// Makes the kernel wake this thread on time: without the timer slack of 50 us, and with real-time
/// priority if permitted. True if it was.
fn use_real_time_scheduling() -> bool {
    alcc_sys::exact_timers();
    // SAFETY: plain values and one struct that outlives the call; 0 is the calling thread.
    unsafe {
        let priority = libc::sched_param { sched_priority: 1 };
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) == 0
    }
}
