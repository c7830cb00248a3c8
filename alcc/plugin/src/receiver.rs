// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver module of a plug-in as a [`Receiver`].
use crate::abi::{ALCC_NONE, ALCC_REPORT_ROOM, alcc_receiver};
use alcc_cc::{Pn, Receiver, Report};
use alcc_units::{Bytes, Span, Time};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Minimum time between two timers, as in the adaptor of algorithms: a module that always requests
/// "now" must not stop the host.
const MIN_TIMER: Span = Span::from_micros(100);

/// One connection's receiver module.
pub(crate) struct PluginReceiver {
    /// The callbacks, all present: see [`PluginReceiver::complete`].
    calls: alcc_receiver,
    /// The state; `None`: the plug-in had no memory for it.
    state: Option<NonNull<c_void>>,
    /// Time of the last `on_timer`.
    timer: Option<Time>,
}

// SAFETY: the interface allows the host to move a state between threads; two never use it at a
// time.
unsafe impl Send for PluginReceiver {}

/// Calls a callback with the state, if both exist.
macro_rules! call {
    ($self:ident . $name:ident ( $($argument:expr),* )) => {
        match ($self.calls.$name, $self.state) {
            // SAFETY: the function is the plug-in's for this state. The arguments follow the
            // interface and outlive the call.
            (Some(f), Some(state)) => Some(unsafe { f(state.as_ptr(), $($argument),*) }),
            _ => None,
        }
    };
}

impl PluginReceiver {
    /// True if all callbacks are present.
    pub(crate) fn complete(calls: &alcc_receiver) -> bool {
        calls.on_header.is_some()
            && calls.on_feedback.is_some()
            && calls.create.is_some()
            && calls.clone.is_some()
            && calls.destroy.is_some()
            && calls.on_packet.is_some()
            && calls.on_timer.is_some()
            && calls.next_timer.is_some()
            && calls.report.is_some()
    }

    /// The module for the algorithm in this state. Without a state it reports nothing.
    pub(crate) fn new(calls: alcc_receiver, algorithm: Option<NonNull<c_void>>) -> Self {
        let state = calls.create.zip(algorithm).and_then(|(create, algorithm)| {
            // SAFETY: the state is that of an algorithm of the plug-in that declares this module.
            NonNull::new(unsafe { create(algorithm.as_ptr()) })
        });
        Self {
            calls,
            state,
            timer: None,
        }
    }
}

impl Drop for PluginReceiver {
    fn drop(&mut self) {
        call!(self.destroy());
    }
}

impl Receiver for PluginReceiver {
    fn on_packet(&mut self, now: Time, pn: Pn, len: Bytes, header: &[u8]) {
        let length = header.len() as u64;
        call!(self.on_packet(now.as_nanos(), pn, len.get(), header.as_ptr(), length));
    }

    fn next_timer(&self) -> Option<Time> {
        let at = call!(self.next_timer()).filter(|at| *at != ALCC_NONE)?;
        let earliest = self.timer.map_or(Time::ZERO, |last| last + MIN_TIMER);
        Some(Time::from_nanos(at).max(earliest))
    }

    fn on_timer(&mut self, now: Time) {
        self.timer = Some(now);
        call!(self.on_timer(now.as_nanos()));
    }

    fn report(&mut self, now: Time) -> Option<Report> {
        let mut bytes = [0; ALCC_REPORT_ROOM as usize];
        let length = call!(self.report(now.as_nanos(), bytes.as_mut_ptr()))?;
        let length = usize::try_from(length).ok()?;
        bytes.get(..length).map(Report::new)
    }
}

impl Clone for PluginReceiver {
    fn clone(&self) -> Self {
        Self {
            calls: self.calls,
            state: call!(self.clone()).and_then(NonNull::new),
            timer: self.timer,
        }
    }
}
