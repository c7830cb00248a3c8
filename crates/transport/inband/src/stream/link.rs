// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all handles of a stream and the background share. A thread in a call runs the session:
//! it reads, writes and sleeps for it.
use super::Info;
use super::background;
use crate::carrier::Carrier;
use crate::output::Output;
use crate::session::{Session, When};
use crate::{Error, Settings, kernel};
use alcc_cc::Registry;
use alcc_driver::{Engine, Next, Shared, State};
use alcc_units::{Span, Time};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

/// Buffer for one read from a carrier.
const READ_SIZE: usize = 64 * 1024;
/// Maximum bytes read in one run.
const MAX_READ: usize = 512 * 1024;
/// Maximum unsent bytes in the kernel: this, or this part of what is in flight.
const MAX_UNSENT: u64 = 16 * 1024;
const MAX_UNSENT_SHARE: u64 = 8;

thread_local! {
    static SCRATCH: RefCell<(Output, Vec<u8>)> = RefCell::default();
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Until {
    Ready,
    Time,
}

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Want {
    /// Bytes to read, or the end.
    Data,
    /// That the session runs once more than so often.
    Run(u64),
}

pub(super) struct Link {
    shared: Shared<Inner>,
    pub(super) carrier: &'static str,
    /// What the background knows it by.
    pub(super) number: u64,
    /// The background has it on its list.
    pub(super) listed: AtomicBool,
}

/// The last handle closes the descriptor, whoever is just looking at the stream.
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
    /// Given out by the session and not taken by the carrier.
    pending: Vec<u8>,
    /// The kernel holds enough unsent bytes.
    kernel_full: bool,
    /// The last reading left nothing behind, then.
    last_read: Time,
    /// Sleep until then before reading again; `None`: wait for the descriptor.
    next_read: Option<Time>,
    over: bool,
    /// A thread sleeps until the descriptor is readable.
    polled: bool,
    /// When a call last ran it.
    last_run: Time,
    /// How often it ran.
    runs: u64,
}

impl Link {
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
        let (name, fd) = (carrier.name(), carrier.fd().as_raw_fd());
        let inner = Inner {
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
        };
        Ok(Self {
            shared: Shared::new(inner, fd),
            carrier: name,
            number: alcc_driver::next_id(),
            listed: AtomicBool::new(false),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State<Inner>> {
        self.shared.lock()
    }

    /// Runs the session until it is `ready`, or until then. `more`: to write, so what is less than
    /// a segment waits for it.
    pub(super) fn wait(
        self: &Arc<Self>,
        until: Option<Time>,
        more: bool,
        mut ready: impl FnMut(&mut Inner) -> bool,
    ) -> io::Result<Until> {
        let mut inner = self.lock();
        let done = loop {
            let now = alcc_sys::now();
            inner.on_active(now);
            inner.run(now, more, &mut []);
            if ready(&mut inner) {
                break Ok(Until::Ready);
            }
            if let Some(error) = inner.session.error() {
                break Err(error.clone().into());
            }
            if until.is_some_and(|until| until <= now) {
                break Ok(Until::Time);
            }
            let want = Want::Run(inner.runs);
            inner = self.shared.sleep(inner, want, until);
        };
        self.end_call(&mut inner);
        done
    }

    /// At the end of a call: another thread may go on, and the leader of the stream, or the
    /// background, has to know of what it left to be done.
    fn end_call(self: &Arc<Self>, inner: &mut State<Inner>) {
        self.shared.hand_over(inner);
        inner.wake_leader(alcc_sys::now());
        if !self.listed.load(Ordering::Relaxed) && !self.listed.swap(true, Ordering::AcqRel) {
            background::list(self);
        }
    }

    pub(super) fn read(
        self: &Arc<Self>,
        into: &mut [u8],
        until: Option<Time>,
    ) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let mut inner = self.lock();
        let done = loop {
            let now = alcc_sys::now();
            if inner.session.unread() > 0 {
                let n = inner.session.read(now, into);
                inner.last_run = now;
                inner.pump(now, &[], false);
                inner.on_passive(now);
                break Ok(n);
            }
            let n = inner.run(now, false, into);
            if n > 0 {
                inner.on_passive(now);
                break Ok(n);
            }
            if inner.session.unread() > 0 {
                continue;
            }
            if inner.session.is_at_end() {
                break Ok(0);
            }
            if let Some(error) = inner.session.error() {
                break Err(error.clone().into());
            }
            if until.is_some_and(|until| until <= now) {
                break Err(io::ErrorKind::WouldBlock.into());
            }
            inner = self.shared.sleep(inner, Want::Data, until);
        };
        self.end_call(&mut inner);
        done
    }

    pub(super) fn write(self: &Arc<Self>, from: &[u8], until: Option<Time>) -> io::Result<usize> {
        if from.is_empty() {
            return Ok(0);
        }
        let mut inner = self.lock();
        let done = loop {
            let now = alcc_sys::now();
            inner.on_active(now);
            if let Err(error) = inner.session.may_write() {
                break Err(error.into());
            }
            inner.read_if_due(now);
            let n = inner.enqueue(now, from);
            if n > 0 {
                break Ok(n);
            }
            inner.run(now, true, &mut []);
            if inner.session.may_write().is_err() {
                continue;
            }
            let n = inner.enqueue(now, from);
            if n > 0 {
                break Ok(n);
            }
            if until.is_some_and(|until| until <= now) {
                break Err(io::ErrorKind::WouldBlock.into());
            }
            let want = Want::Run(inner.runs);
            inner = self.shared.sleep(inner, want, until);
        };
        self.end_call(&mut inner);
        done
    }

    pub(super) fn flush(self: &Arc<Self>) -> io::Result<()> {
        let mut inner = self.lock();
        inner.session.flush();
        inner.pump(alcc_sys::now(), &[], false);
        self.end_call(&mut inner);
        match inner.session.error() {
            Some(error) => Err(error.clone().into()),
            None => Ok(()),
        }
    }

    pub(super) fn close(self: &Arc<Self>) {
        let mut inner = self.lock();
        inner.session.close();
        inner.pump(alcc_sys::now(), &[], false);
        self.end_call(&mut inner);
    }

    pub(super) fn abort(self: &Arc<Self>) {
        let mut inner = self.lock();
        inner.session.abort();
        let now = alcc_sys::now();
        inner.pump(now, &[], false);
        inner.wake_leader(now);
        self.shared.hand_over(&inner);
    }

    /// The last handle was dropped.
    pub(super) fn detach(&self) {
        let inner = &mut *self.lock();
        let now = alcc_sys::now();
        if inner.session.may_leave() {
            inner.session.close();
        } else {
            inner.session.abort();
        }
        inner.pump(now, &[], false);
        inner.over = true;
        inner.carrier.close();
    }

    /// For the background: runs the session if no call does.
    pub(super) fn visit(&self, now: Time) -> Next {
        let inner = &mut *self.lock();
        if inner.over {
            return Next::NEVER;
        }
        let quiet = inner.last_run + background::MIN_QUIET;
        if quiet > now {
            return Next::at(quiet);
        }
        if inner.session.error().is_none() && inner.has_leader(now) {
            // Whoever sleeps for it does what is to be done. Its call lists the stream again when
            // it ends, and so does any other call; that is said under the lock, which they hold
            // when they look.
            self.listed.store(false, Ordering::Release);
            return Next::NEVER;
        }
        let last_run = inner.last_run;
        inner.run(now, false, &mut []);
        inner.last_run = last_run;
        self.shared.hand_over(inner);
        let (events, deadline) = inner.interest(now);
        if inner.session.error().is_some() {
            return Next::NEVER;
        }
        let soon = now + Span::from_millis(5);
        match deadline {
            Some(at) if inner.session.is_busy() || inner.next_read.is_some() => {
                Next::at(if events == 0 { at } else { at.min(soon) })
            }
            _ if events & libc::POLLOUT != 0 => Next::at(soon),
            _ if inner.session.is_busy() => Next::at(soon),
            Some(at) => Next::at(at),
            None => {
                // From here on the next call lists it again, as above.
                self.listed.store(false, Ordering::Release);
                let readable = Some(self.shared.fd());
                Next { at: None, readable }
            }
        }
    }
}

impl Inner {
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

    /// Payload that would leave at once.
    pub(super) fn room(&mut self) -> usize {
        if !self.pending.is_empty() || self.unsent_budget() == 0 {
            return 0;
        }
        self.session.room(alcc_sys::now())
    }

    /// Everything that can be done now. Returns what went to `sink`.
    pub(super) fn run(&mut self, now: Time, more: bool, sink: &mut [u8]) -> usize {
        self.last_run = now;
        self.runs += 1;
        let filled = self.fetch(now, sink);
        self.session.on_timer(now);
        self.pump(now, &[], more);
        filled
    }

    /// Reads if it is time to.
    fn read_if_due(&mut self, now: Time) {
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
        // Who sleeps for the descriptor is awake by now, and may wait for what has come.
        if self.polled {
            return 0;
        }
        // What has come by then is read before a timer runs: a receiver module counts it.
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

    /// Bytes of data that the kernel may be given now.
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

    /// Writes what the session wants to have written; returns how much of `direct`.
    pub(super) fn pump(&mut self, now: Time, direct: &[u8], more: bool) -> usize {
        if self.over {
            return 0;
        }
        let mut taken = 0;
        SCRATCH.with_borrow_mut(|(out, _)| {
            while self.push_pending() {
                let max = self.unsent_budget();
                out.clear();
                let left = &direct[taken..];
                let n = self.session.output(now, left, more, max, out);
                if out.is_empty() {
                    break;
                }
                self.send(left, out);
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

    /// True if nothing waits any more.
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

    /// Takes bytes of a write: directly as far as they may leave, and an end that is less than a
    /// segment into the queue.
    fn enqueue(&mut self, now: Time, from: &[u8]) -> usize {
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

    /// What to wait for: events of the descriptor, and a time.
    fn interest(&self, now: Time) -> (i16, Option<Time>) {
        let mut events = 0;
        if self.session.error().is_some() {
            // Wakes the sleeping thread.
            return (events, Some(now));
        }
        if self.over {
            // A descriptor at its end is always ready.
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
        // One wake-up for both, if they are close.
        let near = read.since(now) / 2;
        let both = timer > read && timer.since(read) < near;
        (events, Some(if both { timer } else { timer.min(read) }))
    }

    fn on_sleep(&mut self, events: i16) {
        self.polled = events & libc::POLLIN != 0;
    }

    fn on_wake(&mut self, now: Time, _: Option<Time>, ready: bool) {
        if std::mem::take(&mut self.polled) && ready {
            // Until now nothing had come.
            self.last_read = now;
            self.next_read = Some(now);
        }
    }
}
