// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that all handles of a stream and the background share. A thread in a call runs the
//! session: it reads, writes and sleeps for it.
use super::background;
use super::inner::{Inner, Want};
use crate::carrier::Carrier;
use crate::{Error, Settings};
use alcc_cc::Registry;
use alcc_driver::{Engine, Next, Shared, State};
use alcc_units::{Span, Time};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Until {
    Ready,
    Time,
}

pub(super) struct Link {
    shared: Shared<Inner>,
    pub(super) carrier: &'static str,
    /// Number of the stream in the background's list.
    pub(super) number: u64,
    /// True if the stream is on the background's list.
    pub(super) listed: AtomicBool,
}

impl Link {
    pub(super) fn new(
        carrier: Box<dyn Carrier>,
        registry: &Arc<Registry>,
        settings: Settings,
        initiator: bool,
    ) -> Result<Self, Error> {
        let (name, fd) = (carrier.name(), carrier.fd().as_raw_fd());
        let inner = Inner::new(carrier, registry, settings, initiator)?;
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

    /// Runs the session until it is `ready`, or until `until`. `more`: the call is a write, so that
    /// less than a segment waits for it.
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

    /// Ends a call: another thread may go on. The call may have left work, so it wakes the leader
    /// of the stream, or the background thread.
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

    /// Ends the connection, because the last handle was dropped.
    pub(super) fn detach(&self) {
        let inner = &mut *self.lock();
        let now = alcc_sys::now();
        inner.session.leave(now);
        inner.pump(now, &[], false);
        inner.close();
    }

    /// Runs the session for the background if no call does.
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
            // The leader does the work. Its call puts the stream on the list again when it ends, as
            // does any other call. They look at `listed` under the lock that is held here.
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
                // From here on the next call puts it on the list again, as above.
                self.listed.store(false, Ordering::Release);
                let readable = Some(self.shared.fd());
                Next { at: None, readable }
            }
        }
    }
}
