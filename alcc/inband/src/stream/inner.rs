// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session with the byte stream that carries it: the amounts that it reads and writes at a time,
//! and the events that it waits for.
use super::Info;
use crate::carrier::Carrier;
use crate::output::Output;
use crate::session::{Session, When};
use crate::{Error, Settings, kernel};
use alcc_cc::Registry;
use alcc_driver::Engine;
use alcc_units::Time;
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Buffer for one read from a carrier.
const READ_SIZE: usize = 64 * 1024;
/// Maximum bytes read in one run.
const MAX_READ: usize = 512 * 1024;
/// Limit of unsent bytes in the kernel: this, or this part of the data in flight.
const MAX_UNSENT: u64 = 16 * 1024;
const MAX_UNSENT_SHARE: u64 = 8;

thread_local! {
    static SCRATCH: RefCell<(Output, Vec<u8>)> = RefCell::default();
}

/// The event that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    /// Bytes to read, or the end.
    Data,
    /// Another run of the session, after this many.
    Run(u64),
}

/// The carrier. Closing it closes the descriptor, whoever still holds the stream.
struct Closable(Option<Box<dyn Carrier>>);

impl Closable {
    fn open(&mut self) -> io::Result<&mut dyn Carrier> {
        match &mut self.0 {
            Some(carrier) => Ok(carrier.as_mut()),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn wants_write(&self) -> bool {
        self.0.as_ref().is_some_and(|carrier| carrier.wants_write())
    }

    fn close(&mut self) {
        if let Some(mut carrier) = self.0.take() {
            let _ = carrier.shutdown_write();
        }
    }
}

pub(super) struct Inner {
    pub(super) session: Session,
    carrier: Closable,
    tcp: Option<RawFd>,
    /// Output of the session that the carrier has not taken.
    pending: Vec<u8>,
    /// True if the kernel holds enough unsent bytes.
    kernel_full: bool,
    /// Time of the last read that found no more data.
    last_read: Time,
    /// Sleep until this time before reading again; `None`: wait for the descriptor.
    pub(super) next_read: Option<Time>,
    pub(super) over: bool,
    /// True if a thread sleeps until the descriptor is readable.
    polled: bool,
    /// Time at which a call last ran the session.
    pub(super) last_run: Time,
    /// Number of runs of the session.
    pub(super) runs: u64,
}

impl Inner {
    pub(super) fn new(
        carrier: Box<dyn Carrier>,
        registry: &Arc<Registry>,
        mut settings: Settings,
        initiator: bool,
    ) -> Result<Self, Error> {
        let now = alcc_sys::now();
        settings.segment = carrier.segment();
        let tcp = carrier.tcp().map(|fd| fd.as_raw_fd());
        if let Some(fd) = tcp {
            kernel::prepare(fd);
        }
        let session = if initiator {
            Session::connect(now, registry, settings)
        } else {
            Session::accept(now, registry, settings)
        }?;
        Ok(Self {
            session,
            carrier: Closable(Some(carrier)),
            tcp,
            pending: Vec::new(),
            kernel_full: false,
            last_read: now,
            next_read: None,
            over: false,
            polled: false,
            last_run: now,
            runs: 0,
        })
    }

    /// Closes the carrier, although others may still hold the session.
    pub(super) fn close(&mut self) {
        self.over = true;
        self.carrier.close();
    }

    pub(super) fn info(&self) -> Info {
        let mut info = Info {
            stats: self.session.stats(),
            waiting: self.pending.len(),
            ..Info::default()
        };
        if let Some(flow) = self.session.flow() {
            let allowance = flow.allowance();
            info.rtt = flow.rtt();
            info.window = allowance.window;
            info.rate = allowance.rate;
            info.in_flight = flow.in_flight();
        }
        info
    }

    /// Payload that would be sent at once, bytes.
    pub(super) fn room(&mut self) -> usize {
        if !self.pending.is_empty() || self.unsent_budget() == 0 {
            return 0;
        }
        self.session.room(alcc_sys::now())
    }

    /// Does everything that can be done now. Returns the number of bytes in `sink`.
    pub(super) fn run(&mut self, now: Time, more: bool, sink: &mut [u8]) -> usize {
        self.last_run = now;
        self.runs += 1;
        let filled = self.fetch(now, sink);
        self.session.on_timer(now);
        self.pump(now, &[], more);
        filled
    }

    /// Reads if a read is due.
    pub(super) fn read_if_due(&mut self, now: Time) {
        let due = self
            .next_read
            .unwrap_or_else(|| self.last_read + self.session.read_interval(0));
        if due <= now {
            self.last_run = now;
            self.runs += 1;
            self.fetch(now, &mut []);
            self.session.on_timer(now);
        }
    }

    fn fetch(&mut self, now: Time, sink: &mut [u8]) -> usize {
        if self.over {
            self.next_read = None;
            return 0;
        }
        // A thread that slept for the descriptor is awake by now, and may wait for the data.
        if self.polled {
            return 0;
        }
        // Data that has arrived is read before a timer runs, because a receiver module counts it.
        let timer = self.session.next_timer().is_some_and(|at| at <= now);
        if !timer && self.next_read.is_some_and(|at| at > now) {
            return 0;
        }
        let (mut filled, mut total) = (0, 0);
        let mut since = self.last_read;
        SCRATCH.with_borrow_mut(|(_, buffer)| {
            buffer.resize(READ_SIZE, 0);
            while total < MAX_READ && self.session.error().is_none() {
                match self.carrier.open().and_then(|carrier| carrier.read(buffer)) {
                    Ok(arrived) if arrived.len == 0 => {
                        self.over = true;
                        self.session.on_end();
                    }
                    Ok(arrived) => {
                        let at = arrived.at.unwrap_or(now).min(now);
                        let when = When { since, at, now };
                        let bytes = &buffer[..arrived.len];
                        filled += self.session.on_bytes(when, bytes, &mut sink[filled..]);
                        since = at;
                        total += arrived.len;
                        if arrived.last {
                            break;
                        }
                        continue;
                    }
                    Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                    Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                    Err(why) => self.session.on_failure(&why),
                }
                break;
            }
        });
        if filled > 0 {
            self.session.taken(now);
        }
        self.last_read = now;
        let waits = total > 0 && !self.session.is_latency_sensitive();
        self.next_read = waits.then(|| {
            if total >= MAX_READ {
                now
            } else {
                now + self.session.read_interval(total)
            }
        });
        filled
    }

    /// Bytes of data that may be given to the kernel now.
    fn unsent_budget(&mut self) -> u64 {
        let Some(fd) = self.tcp else { return u64::MAX };
        let flow = self.session.flow();
        let in_flight = flow.map_or(0, |f| f.in_flight().get());
        if in_flight == 0 {
            return u64::MAX;
        }
        let max = MAX_UNSENT.max(in_flight / MAX_UNSENT_SHARE);
        self.kernel_full = alcc_sys::unsent(fd).get() >= max;
        if self.kernel_full { 0 } else { u64::MAX }
    }

    /// Writes the session's output. Returns the number of bytes taken from `direct`.
    pub(super) fn pump(&mut self, now: Time, direct: &[u8], more: bool) -> usize {
        if self.over {
            return 0;
        }
        let mut taken = 0;
        SCRATCH.with_borrow_mut(|(out, _)| {
            while self.push_pending() {
                let max = self.unsent_budget();
                out.clear();
                let remaining = &direct[taken..];
                let n = self.session.output(now, remaining, more, max, out);
                if out.is_empty() {
                    break;
                }
                self.send(remaining, out);
                taken += n;
                if n == 0 && self.session.queued() == 0 {
                    break;
                }
            }
        });
        taken
    }

    fn send(&mut self, direct: &[u8], out: &mut Output) {
        let wanted = out.len();
        let mut pieces: Vec<IoSlice<'_>> = Vec::with_capacity(64);
        out.slices(direct, &mut pieces);
        let written = match self
            .carrier
            .open()
            .and_then(|carrier| carrier.write(&pieces))
        {
            Ok(n) => n,
            Err(why)
                if matches!(
                    why.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                0
            }
            Err(why) => {
                self.session.on_failure(&why);
                return;
            }
        };
        drop(pieces);
        if written < wanted {
            out.copy_unwritten(direct, written, &mut self.pending);
        }
    }

    /// Writes pending output; true if none remains.
    fn push_pending(&mut self) -> bool {
        let mut done = 0;
        let kept = if self.carrier.wants_write() {
            self.carrier.open().and_then(|carrier| carrier.flush())
        } else {
            Ok(())
        };
        let mut failure = kept.err();
        while failure.is_none() && done < self.pending.len() {
            let piece = [IoSlice::new(&self.pending[done..])];
            match self
                .carrier
                .open()
                .and_then(|carrier| carrier.write(&piece))
            {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(why) => failure = Some(why),
            }
        }
        if done == self.pending.len() {
            self.pending = Vec::new();
        } else {
            self.pending.drain(..done);
        }
        match failure {
            None => {}
            Some(why)
                if matches!(
                    why.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) => {}
            Some(why) => {
                self.session.on_failure(&why);
                self.pending = Vec::new();
                return false;
            }
        }
        self.pending.is_empty() && !self.carrier.wants_write()
    }

    /// Takes bytes of a write. Those that may be sent now are sent directly; less than a segment at
    /// the end goes into the queue.
    pub(super) fn enqueue(&mut self, now: Time, from: &[u8]) -> usize {
        self.last_run = now;
        let segment = self.session.segment() as usize;
        let bulk = from.len() >= segment;
        let mut taken = self.pump(now, from, bulk);
        let rest = &from[taken..];
        let waits = self.session.flow().is_none_or(|f| f.is_blocked());
        if !rest.is_empty()
            && rest.len() < segment
            && self.session.queued() < segment
            && !(bulk && waits)
        {
            taken += self.session.write(now, rest).unwrap_or(0);
            self.pump(now, &[], false);
        }
        taken
    }
}

impl Engine for Inner {
    type Want = Want;

    fn is_passive(want: Want) -> bool {
        want == Want::Data
    }

    fn may_have(&self, want: Want) -> bool {
        match want {
            Want::Data => {
                self.session.unread() > 0
                    || self.session.is_at_end()
                    || self.session.error().is_some()
            }
            Want::Run(before) => self.runs != before || self.session.error().is_some(),
        }
    }

    /// The events of the descriptor, and the time, to wait for.
    fn interest(&self, now: Time) -> (i16, Option<Time>) {
        let mut events = 0;
        if self.session.error().is_some() {
            // Wakes the sleeping thread.
            return (events, Some(now));
        }
        if self.over {
            // A descriptor at its end is always ready, so it must not be polled.
            return (events, self.session.next_timer());
        }
        if !self.pending.is_empty() || self.carrier.wants_write() || self.kernel_full {
            events |= libc::POLLOUT;
        }
        let timer = self.session.next_timer();
        let Some(read) = self.next_read else {
            return (events | libc::POLLIN, timer);
        };
        let Some(timer) = timer else {
            return (events, Some(read));
        };
        // One wake-up for both times, if they are close.
        let near = read.since(now) / 2;
        let both = timer > read && timer.since(read) < near;
        (events, Some(if both { timer } else { timer.min(read) }))
    }

    fn on_sleep(&mut self, events: i16) {
        self.polled = events & libc::POLLIN != 0;
    }

    fn on_wake(&mut self, now: Time, _: Option<Time>, ready: bool) {
        if std::mem::take(&mut self.polled) && ready {
            // Nothing had arrived before now.
            self.last_read = now;
            self.next_read = Some(now);
        }
    }
}
