// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A socket on which the kernel enforces the algorithm's window and rate exactly, by the congestion control
//! `alcc_window`. The kernel reports each acknowledgement.
use crate::kernel;
use alcc_flow::{AckSample, Limit, TcpProgress};
use alcc_sys::{AckSamples, Before, Options, OptionsMap, Steered};
use alcc_units::{Bytes, Span, Time};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// Interval at which an unchanged limit is repeated. The kernel releases a socket after 0.5 s of acknowledgements
/// without an update.
const REPEAT: Span = Span::from_millis(100);
/// A rate that differs by less than this part waits until then. The change is smaller than any intended one (Vivace
/// tries 5 % more and less), and is not worth a system call.
const NEAR: u64 = 32;
/// After this silence the kernel may have released the socket.
const AWAY: Span = Span::from_millis(300);

/// The kernel's maps. They are never closed: a program that closes descriptors by their numbers may have closed ours,
/// and reuse the numbers.
type Open = Arc<ManuallyDrop<Steered>>;

/// The kernel's maps, for all connections of a process.
#[derive(Default)]
pub(crate) struct Maps {
    state: Mutex<State>,
    /// The map with the earlier state of sockets, for those of other programs.
    before: Option<Before>,
    /// Options of algorithms in the kernel; `None`: there are none, or this process may not use them.
    options: OnceLock<Option<ManuallyDrop<OptionsMap>>>,
    /// The kernel has refused an algorithm: not asked again, for the reason above.
    refused: AtomicBool,
}

#[derive(Default)]
enum State {
    #[default]
    Unknown,
    Open(Open),
    /// The control is not loaded, or this process may not use it. It is not tried again, because selecting a missing
    /// control makes the kernel look for a module.
    Missing(io::ErrorKind),
}

impl Maps {
    /// For sockets of other programs, which the kernel restores when this process ends.
    pub(crate) fn of_others(before: Before) -> Self {
        Self {
            before: Some(before),
            ..Self::default()
        }
    }

    pub(crate) fn are_of_others(&self) -> bool {
        self.before.is_some()
    }

    /// Records the socket's control, which the kernel restores. It is called before each selection, because the
    /// kernel's restoring uses up the record.
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

    /// Selects an algorithm in the kernel, if none was refused before. False: it is refused.
    pub(crate) fn select(&self, select: impl FnOnce() -> bool) -> bool {
        if self.refused.load(Ordering::Relaxed) {
            return false;
        }
        let selected = select();
        self.refused.store(!selected, Ordering::Relaxed);
        selected
    }

    /// True if a socket of this process has been given options of its algorithm.
    pub(crate) fn have_options(&self) -> bool {
        self.options.get().is_some_and(Option::is_some)
    }

    /// Options of the algorithm in the kernel that the socket is about to get.
    pub(crate) fn set_options(&self, fd: RawFd, options: Options) -> io::Result<()> {
        let open = || OptionsMap::open().ok().map(ManuallyDrop::new);
        let map = self.options.get_or_init(open).as_ref();
        map.ok_or(io::ErrorKind::NotFound)?.set(fd, options)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        alcc_sys::lock(&self.state)
    }

    /// The maps; opened at the first call.
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

    /// Makes this process work without the maps from now on.
    pub(crate) fn refuse(&self) {
        *self.lock() = State::Missing(io::ErrorKind::Unsupported);
    }

    /// Opens new maps in place of `lost`.
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

/// The kernel's report on the socket behind a descriptor.
pub(crate) struct Report {
    pub(crate) fd: RawFd,
    /// True if it is the socket of the last reading: no other has its last acknowledgement, with the time in
    /// nanoseconds and three counters. False: the kernel has forgotten that one, and the descriptor may be another
    /// socket's.
    pub(crate) is_same: bool,
    acks: u64,
    fresh: Vec<AckSample>,
}

impl Report {
    /// Interprets `seen`, which begins with acknowledgement number `from` if that is still remembered. On the socket of
    /// the last reading that one is `last`, and the others are new.
    fn of(fd: RawFd, seen: AckSamples, from: u64, last: &AckSample) -> Self {
        let AckSamples {
            acks,
            last: mut fresh,
            ..
        } = seen;
        let remembered = fresh.len() as u64 == acks.saturating_sub(from);
        let is_same = remembered && fresh.first() == Some(last);
        if remembered {
            fresh.drain(..fresh.len().min(1));
        }
        Self {
            fd,
            is_same,
            acks,
            fresh,
        }
    }
}

/// One socket in the kernel's maps.
pub(crate) struct Steering {
    maps: Open,
    /// Number of acknowledgements taken, and the last of them.
    acks: u64,
    last: AckSample,
    beat: u32,
    limit: Limit,
    set_at: Time,
}

impl Steering {
    /// Takes a socket that has just selected the control. Returns its last sample, at which the counters begin.
    #[inline(never)]
    pub(crate) fn take(maps: Open, fd: RawFd, now: Time) -> io::Result<(Self, AckSample)> {
        let AckSamples { acks, last, .. } = maps.samples(fd)?;
        let first = *last.last().ok_or(io::ErrorKind::NotFound)?;
        let steering = Self {
            maps,
            acks,
            last: first,
            beat: 0,
            limit: Limit::default(),
            set_at: now,
        };
        Ok((steering, first))
    }

    /// Reads the kernel's report on the socket behind `fd`.
    #[inline(never)]
    pub(crate) fn look(&mut self, maps: &Maps, fd: RawFd) -> io::Result<Report> {
        // Including the last one again: if it is still remembered, this is the same socket.
        let from = self.acks.saturating_sub(1);
        let seen = self.maps.samples_from(fd, from).or_else(|_| {
            self.maps = maps.reopen(&self.maps)?;
            self.maps.samples_from(fd, from)
        });
        Ok(Report::of(fd, seen?, from, &self.last))
    }

    /// Takes the acknowledgements since the last call: at most 32, and the counters of the oldest cover those before.
    pub(crate) fn take_samples(&mut self, report: Report) -> Vec<AckSample> {
        self.acks = report.acks;
        self.last = report.fresh.last().copied().unwrap_or(self.last);
        report.fresh
    }

    /// Sets the limit. `tcp` is that of the last reading.
    #[inline(never)]
    pub(crate) fn set(
        &mut self,
        fd: RawFd,
        now: Time,
        limit: Limit,
        tcp: &TcpProgress,
    ) -> io::Result<()> {
        if !self.is_due(now, &limit) {
            return Ok(());
        }
        self.beat = self.beat.wrapping_add(1);
        self.maps.steer(fd, &limit, self.beat)?;
        let later = |a: Option<u32>, b: Option<u32>| match (a, b) {
            (Some(a), Some(b)) => a.wrapping_sub(b).cast_signed() > 0,
            (a, b) => a.is_none() && b.is_some(),
        };
        // A higher rate releases no packet, because the pause after the last packet was fixed by the old one.
        let raised = limit.window > self.limit.window || later(limit.until, self.limit.until);
        (self.limit, self.set_at) = (limit, now);
        // Data that waits for another reason is not released by it.
        if raised && tcp.window_full && tcp.unsent > Bytes::ZERO {
            Steered::kick(fd);
        }
        Ok(())
    }

    /// True if this limit differs from the kernel's, or has to be repeated.
    pub(crate) fn is_due(&self, now: Time, limit: &Limit) -> bool {
        !self.is_in_force(limit) || now.since(self.set_at) >= REPEAT
    }

    /// True if the kernel's limit is this one, or one with nearly this rate.
    fn is_in_force(&self, limit: &Limit) -> bool {
        let near = match (limit.rate, self.limit.rate) {
            (Some(a), Some(b)) => a.as_bps().abs_diff(b.as_bps()) <= b.as_bps() / NEAR,
            (a, b) => a == b,
        };
        near && (limit.window, limit.until) == (self.limit.window, self.limit.until)
    }

    /// True if the silence was long enough that the kernel may have released the socket.
    pub(crate) fn was_away(&self, now: Time) -> bool {
        now.since(self.set_at) > AWAY
    }
}

/// True if the socket still runs the control.
pub(crate) fn holds(fd: RawFd) -> bool {
    kernel::under(fd).as_deref() == Some(alcc_sys::WINDOW_CONTROL)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The acknowledgement with this number, of a socket that had its first at `start`.
    fn ack(start: u64, number: u64) -> AckSample {
        AckSample {
            at: Time::from_nanos(start + 1000 * number),
            rtt: Some(Span::from_millis(40)),
            delivered: number as u32,
            lost: 0,
            in_flight: 10,
        }
    }

    /// The report on a socket after `acks` acknowledgements, for a reader that has taken `taken` of the socket that
    /// began at zero: whether it is the same, and the numbers of the new ones.
    fn report(start: u64, acks: u64, taken: u64) -> (bool, Vec<u64>) {
        let from = taken - 1;
        let first = acks.saturating_sub(32).max(from);
        let seen = AckSamples {
            cwnd: 10,
            acks,
            last: (first..acks).map(|number| ack(start, number)).collect(),
        };
        let report = Report::of(3, seen, from, &ack(0, from));
        let fresh = report.fresh.iter().map(|sample| sample.delivered.into());
        (report.is_same, fresh.collect())
    }

    #[test]
    fn the_last_acknowledgement_says_whose_the_others_are() {
        assert_eq!(report(0, 50, 50), (true, vec![]));
        assert_eq!(report(0, 55, 50), (true, (50..55).collect()));
        assert_eq!(report(0, 81, 50), (true, (50..81).collect()));
        // The acknowledgement is no longer in the ring: the kernel has to be queried.
        assert_eq!(report(0, 82, 50), (false, (50..82).collect()));
        assert_eq!(report(0, 900, 50), (false, (868..900).collect()));
        // Another socket, with any number of acknowledgements.
        for acks in [1, 49, 50, 55, 81, 900] {
            assert!(!report(7, acks, 50).0, "{acks}");
        }
    }
}
