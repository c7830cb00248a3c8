// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A socket whose kernel keeps the algorithm's window and rate exactly, by the congestion control
//! `alcc_window`. The kernel tells of each acknowledgement.
use crate::kernel;
use alcc_flow::{AckSample, Limit};
use alcc_sys::{AckSamples, Before, Steered};
use alcc_units::{Bytes, Span, Time};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// An unchanged limit is repeated this often: the kernel gives a socket back after 0.5 s of
/// acknowledgements without an answer.
const REPEAT: Span = Span::from_millis(100);
/// Who was away for longer may have lost the socket for that reason.
const AWAY: Span = Span::from_millis(300);

/// The kernel's maps. They are not closed: a program that closes descriptors by their numbers may
/// have closed ours, and have the numbers again.
type Open = Arc<ManuallyDrop<Steered>>;

/// For all connections of a process.
#[derive(Default)]
pub(crate) struct Maps {
    state: Mutex<State>,
    /// Where what a socket had is noted for the kernel, if it is another program's.
    before: Option<Before>,
}

#[derive(Default)]
enum State {
    #[default]
    Unknown,
    Open(Open),
    /// Nobody has loaded the control, or this process cannot or may not use it: not asked again,
    /// because the name of a control that is missing lets the kernel look for a module.
    Missing(io::ErrorKind),
}

impl Maps {
    /// For sockets of other programs, which the kernel gives back when we end.
    pub(crate) fn of_others(before: Before) -> Self {
        Self {
            before: Some(before),
            ..Self::default()
        }
    }

    /// What the socket has is what it gets back. Before each choice of the library. The kernel's
    /// giving back uses up the note.
    pub(crate) fn note(&self, fd: RawFd) -> io::Result<()> {
        let Some(before) = &self.before else {
            return Ok(());
        };
        let had = kernel::under(fd).ok_or(io::ErrorKind::NotFound)?;
        if had == alcc_sys::WINDOW_CONTROL {
            return Ok(());
        }
        before.note(fd, &had)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        alcc_sys::lock(&self.state)
    }

    /// Opened at the first call.
    #[inline(never)]
    pub(crate) fn get(&self) -> io::Result<Open> {
        let state = &mut *self.lock();
        if let State::Unknown = state {
            *state = match Steered::open() {
                Ok(maps) => State::Open(Arc::new(ManuallyDrop::new(maps))),
                Err(why) => State::Missing(why.kind()),
            };
        }
        match state {
            State::Open(maps) => Ok(Arc::clone(maps)),
            State::Missing(why) => Err((*why).into()),
            State::Unknown => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// This process does without, from now on.
    pub(crate) fn refuse(&self) {
        *self.lock() = State::Missing(io::ErrorKind::Unsupported);
    }

    /// Anew, in place of `lost`.
    fn reopen(&self, lost: &Open) -> io::Result<Open> {
        let mut state = self.lock();
        if let State::Open(open) = &*state
            && Arc::ptr_eq(open, lost)
        {
            *state = State::Unknown;
        }
        drop(state);
        self.get()
    }
}

/// One socket in the kernel's maps.
pub(crate) struct Steering {
    maps: Open,
    /// Acknowledgements taken.
    acks: u64,
    beat: u32,
    limit: Limit,
    set_at: Time,
}

impl Steering {
    /// Takes a socket that has just selected the control. Its last sample: the counters begin
    /// there.
    #[inline(never)]
    pub(crate) fn take(maps: Open, fd: RawFd, now: Time) -> io::Result<(Self, AckSample)> {
        let AckSamples { acks, last, .. } = maps.samples(fd)?;
        let first = *last.last().ok_or(io::ErrorKind::NotFound)?;
        let steering = Self {
            maps,
            acks,
            beat: 0,
            limit: Limit::default(),
            set_at: now,
        };
        Ok((steering, first))
    }

    /// The acknowledgements since the last call. At most 32 of them; the counters of the oldest
    /// cover those before.
    #[inline(never)]
    pub(crate) fn samples(&mut self, maps: &Maps, fd: RawFd) -> io::Result<Vec<AckSample>> {
        let seen = self.maps.samples(fd).or_else(|_| {
            self.maps = maps.reopen(&self.maps)?;
            self.maps.samples(fd)
        });
        let AckSamples { acks, mut last, .. } = seen?;
        let fresh = acks.saturating_sub(self.acks);
        let known = last.len().saturating_sub(fresh.min(32) as usize);
        self.acks = acks;
        last.drain(..known);
        Ok(last)
    }

    /// The limit holds from now on. `unsent` waits in the kernel.
    #[inline(never)]
    pub(crate) fn set(
        &mut self,
        fd: RawFd,
        now: Time,
        limit: Limit,
        unsent: Bytes,
    ) -> io::Result<()> {
        if limit == self.limit && now.since(self.set_at) < REPEAT {
            return Ok(());
        }
        self.beat = self.beat.wrapping_add(1);
        self.maps.steer(fd, &limit, self.beat)?;
        let later = |a: Option<u32>, b: Option<u32>| match (a, b) {
            (Some(a), Some(b)) => a.wrapping_sub(b).cast_signed() > 0,
            (a, b) => a.is_none() && b.is_some(),
        };
        let raised = limit.window > self.limit.window
            || later(limit.until, self.limit.until)
            || limit.rate > self.limit.rate;
        (self.limit, self.set_at) = (limit, now);
        if raised && unsent > Bytes::ZERO {
            Steered::kick(fd);
        }
        Ok(())
    }

    /// Without a word from us for so long the kernel may have given the socket back.
    pub(crate) fn was_away(&self, now: Time) -> bool {
        now.since(self.set_at) > AWAY
    }
}

/// The socket still runs the control.
pub(crate) fn holds(fd: RawFd) -> bool {
    kernel::under(fd).as_deref() == Some(alcc_sys::WINDOW_CONTROL)
}
