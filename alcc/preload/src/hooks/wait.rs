// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that wait for readiness. A socket whose gate is closed counts as not writable, whatever
//! the kernel reports. In poll and select the waiting thread itself watches the gate, so this needs
//! no descriptor and no other thread. The handling of epoll is in `epoll.rs`.
use super::{
    Controlled, controlled, controlled_already, epoll_file, epoll_found, preserving_errno,
    replace_known,
};
use crate::epoll::EpollFile;
use crate::process;
use crate::real::real;
use crate::table::Known;
use alcc_socket::now;
use alcc_units::{Span, Time};
use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use std::ptr::{from_mut, null, null_mut};

const OUT: i16 = libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND;

/// The time limit of the program's wait.
#[derive(Clone, Copy)]
enum Timeout {
    Until(Time),
    Never,
}

impl Timeout {
    fn of_timespec(time: Option<&timespec>) -> Self {
        time.map_or(Self::Never, |t| {
            let secs = u64::try_from(t.tv_sec).unwrap_or(0).min(1 << 32);
            Self::Until(now() + Span::from_nanos(secs * 1_000_000_000 + t.tv_nsec as u64))
        })
    }

    fn of_millis(ms: c_int) -> Self {
        u64::try_from(ms).map_or(Self::Never, |ms| Self::Until(now() + Span::from_millis(ms)))
    }

    fn is_over(self) -> bool {
        matches!(self, Self::Until(at) if at <= now())
    }

    /// The timeout for the kernel, if the call should return at `next` at the latest.
    fn until(self, next: Option<Time>) -> Option<timespec> {
        let at = match (self, next) {
            (Self::Until(at), Some(next)) => at.min(next),
            (Self::Until(at), None) | (Self::Never, Some(at)) => at,
            (Self::Never, None) => return None,
        };
        Some(timespec_of(at.since(now())))
    }
}

fn timespec_of(span: Span) -> timespec {
    timespec {
        tv_sec: (span.as_nanos() / 1_000_000_000) as _,
        tv_nsec: (span.as_nanos() % 1_000_000_000) as _,
    }
}

/// False for a time limit that the kernel refuses.
fn is_valid(time: Option<&timespec>) -> bool {
    time.is_none_or(|t| t.tv_sec >= 0 && (0..1_000_000_000).contains(&t.tv_nsec))
}

fn optional<T>(value: Option<&T>) -> *const T {
    value.map_or(null(), std::ptr::from_ref)
}

/// The connection of a descriptor for which the program waits until it is writable.
fn asked_for_room(fd: c_int) -> Option<Controlled> {
    let (conn, runtime) = controlled(fd)?;
    runtime.guarded(|| conn.with_waker(|waker, _| waker.asks_for_room()));
    Some((conn, runtime))
}

/// Does what is due in a process whose runtime has no running thread. Returns the time of the next
/// call.
fn watch() -> Option<Time> {
    process::current()?.running()?.watch()
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Waits as `real` does, in as many turns as the gates of `watched` need. `hide(i, true)` removes
/// the interest in writing to the i-th from the kernel's call, and `hide(i, false)` restores it.
/// `real` waits once. A turn checks only the connections that are due, so the cost depends on the
/// events, not on the number of connections.
fn wait(
    patience: Timeout,
    watched: &[Controlled],
    hide: &mut dyn FnMut(usize, bool),
    real: &mut dyn FnMut(*const timespec, *const sigset_t) -> c_int,
) -> c_int {
    let held = BlockedSignals::all();
    // Time at which the gate of each may open; `None`: it is open.
    let mut shut = vec![Some(Time::ZERO); watched.len()];
    loop {
        let mut next = watch();
        let turn = now();
        for (i, ((conn, runtime), shut)) in watched.iter().zip(&mut shut).enumerate() {
            if shut.is_some_and(|at| at <= turn) {
                *shut = conn.blocked_until(runtime);
                hide(i, shut.is_some());
            }
            next = earlier(next, *shut);
        }
        let timeout = patience.until(next);
        let rc = real(optional(timeout.as_ref()), &raw const held.0);
        if rc != 0 || patience.is_over() {
            return rc;
        }
    }
}

/// Blocks signals and holds the earlier mask. A signal between two turns must wait for the next one
/// and end it with EINTR, because a program whose handler only sets a flag relies on that.
struct BlockedSignals(sigset_t);

impl BlockedSignals {
    fn all() -> Self {
        // SAFETY: plain signal-set calls on local, initialised sets.
        unsafe {
            let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: restores the earlier mask.
        preserving_errno(|| unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut())
        });
    }
}

/// The mask for a wait: the program's argument, or else its current one.
fn effective_mask(own: *const sigset_t, held: *const sigset_t) -> *const sigset_t {
    if own.is_null() { held } else { own }
}

/// poll(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let real = |fds, count, time: *const timespec, held| {
        // SAFETY: as the caller's.
        unsafe { (real().ppoll)(fds, count, time, held) }
    };
    // SAFETY: the caller's array.
    unsafe { gated_poll(fds, count, || Timeout::of_millis(timeout), &real) }.unwrap_or_else(|| {
        // SAFETY: the caller's arguments, unchanged.
        unsafe { (crate::real::real().poll)(fds, count, timeout) }
    })
}

/// ppoll(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let real = |fds, count, time: *const timespec, held| {
        // SAFETY: as the caller's.
        unsafe { (real().ppoll)(fds, count, time, effective_mask(mask, held)) }
    };
    // SAFETY: null or the caller's timeout.
    let given = unsafe { timeout.as_ref() };
    // SAFETY: the caller's array.
    is_valid(given)
        .then(|| unsafe { gated_poll(fds, count, || Timeout::of_timespec(given), &real) })
        .flatten()
        .unwrap_or_else(|| {
            // SAFETY: the caller's arguments, unchanged.
            unsafe { (crate::real::real().ppoll)(fds, count, timeout, mask) }
        })
}

/// A poll with gates; `None`: it has no controlled connection to write to.
///
/// # Safety
/// `fds` is null or points to `count` elements.
unsafe fn gated_poll(
    fds: *mut pollfd,
    count: nfds_t,
    patience: impl FnOnce() -> Timeout,
    real: &dyn Fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int,
) -> Option<c_int> {
    let len = usize::try_from(count).ok().filter(|_| !fds.is_null())?;
    if len > FEW && len > open_files_limit() {
        // The kernel refuses this count without reading the array.
        return None;
    }
    let at = |i: usize| fds.wrapping_add(i);
    let mut places = Vec::new();
    let mut watched = Vec::new();
    for i in 0..len {
        // SAFETY: within the caller's array.
        let (fd, events) = unsafe { ((*at(i)).fd, (*at(i)).events) };
        if events & OUT != 0
            && let Some(found) = asked_for_room(fd)
        {
            places.push((i, events));
            watched.push(found);
        }
    }
    if watched.is_empty() && !inline() {
        return None;
    }
    let mut hide = |i: usize, hidden: bool| {
        let (place, events) = places[i];
        // SAFETY: within the caller's array.
        unsafe { (*at(place)).events = if hidden { events & !OUT } else { events } };
    };
    let rc = wait(patience(), &watched, &mut hide, &mut |time, held| {
        real(fds, count, time, held)
    });
    (0..places.len()).for_each(|i| hide(i, false));
    Some(rc)
}

/// Number of descriptors that any process may have.
const FEW: usize = 256;

/// The number of descriptors that the process may have.
fn open_files_limit() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: plain system call on a local struct.
    preserving_errno(|| unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) });
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

/// True if the library has no thread in this process, so that waits must be divided.
fn inline() -> bool {
    process::current()
        .and_then(|process| process.running())
        .is_some_and(|runtime| runtime.is_inline())
}

/// __poll_chk: poll(2) in fortified programs.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    size: usize,
) -> c_int {
    assert_fits(count, size);
    // SAFETY: as the caller's.
    unsafe { poll(fds, count, timeout) }
}

/// __ppoll_chk: ppoll(2) in fortified programs.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    size: usize,
) -> c_int {
    assert_fits(count, size);
    // SAFETY: as the caller's.
    unsafe { ppoll(fds, count, timeout, mask) }
}

/// Aborts as the C library does if the program's array is shorter than its count.
fn assert_fits(count: nfds_t, size: usize) {
    if (size / size_of::<pollfd>()) < usize::try_from(count).unwrap_or(usize::MAX) {
        // SAFETY: ends the process.
        unsafe { libc::abort() }
    }
}

/// select(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: null or the caller's timeout.
    let given = unsafe { timeout.as_ref() };
    // Microseconds above a million are carried into seconds.
    let time = given.map(|t| timespec {
        tv_sec: t.tv_sec.saturating_add(t.tv_usec / 1_000_000),
        tv_nsec: t.tv_usec % 1_000_000 * 1000,
    });
    let valid = given.is_none_or(|t| t.tv_sec >= 0 && t.tv_usec >= 0);
    let patience = || Timeout::of_timespec(time.as_ref());
    let until = patience();
    // SAFETY: the caller's sets.
    let done = valid
        .then(|| unsafe { gated_select(count, [read, write, except], patience, null()) })
        .flatten();
    let Some(rc) = done else {
        // SAFETY: the caller's arguments, unchanged.
        return unsafe { (real().select)(count, read, write, except, timeout) };
    };
    // Linux returns the remaining time.
    if let (Timeout::Until(at), false) = (until, timeout.is_null()) {
        let remaining = timespec_of(at.since(now()));
        // SAFETY: the caller's timeout.
        unsafe {
            (*timeout).tv_sec = remaining.tv_sec;
            (*timeout).tv_usec = remaining.tv_nsec / 1000;
        }
    }
    rc
}

/// pselect(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: null or the caller's timeout.
    let given = unsafe { timeout.as_ref() };
    // SAFETY: the caller's sets.
    is_valid(given)
        .then(|| unsafe {
            gated_select(
                count,
                [read, write, except],
                || Timeout::of_timespec(given),
                mask,
            )
        })
        .flatten()
        .unwrap_or_else(|| {
            // SAFETY: the caller's arguments, unchanged.
            unsafe { (real().pselect)(count, read, write, except, timeout, mask) }
        })
}

/// Bits per word. Sets are read as words, because some programs have larger ones than the C
/// library's type.
const WORD: usize = usize::BITS as usize;

/// Number of descriptors in the kernel's table, beyond which it does not read a set: many programs
/// pass the number of descriptors that they may have, and their set is shorter.
fn table_size() -> Option<usize> {
    let status = preserving_errno(|| std::fs::read_to_string("/proc/self/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("FDSize:"))?;
    line.trim().parse().ok()
}

/// A select with gates; `None`: it has no controlled connection to write to.
///
/// # Safety
/// The sets are null or contain `count` bits, as far as there are descriptors.
unsafe fn gated_select(
    count: c_int,
    sets: [*mut fd_set; 3],
    patience: impl FnOnce() -> Timeout,
    mask: *const sigset_t,
) -> Option<c_int> {
    let mut bits = usize::try_from(count).ok()?;
    if bits > libc::FD_SETSIZE {
        bits = bits.min(table_size()?);
    }
    let words = bits.div_ceil(WORD);
    let asked = sets.map(|set| {
        let at = set.cast::<usize>();
        // SAFETY: by contract; the kernel, too, reads whole words.
        (0..if set.is_null() { 0 } else { words })
            .map(|i| unsafe { at.add(i).read_unaligned() })
            .collect::<Vec<_>>()
    });
    let wanted = |bit: &usize| {
        asked[1]
            .get(bit / WORD)
            .is_some_and(|word| word >> (bit % WORD) & 1 == 1)
    };
    let (places, watched): (Vec<_>, Vec<_>) = (0..bits)
        .filter(wanted)
        .filter_map(|bit| Some((bit, asked_for_room(bit as c_int)?)))
        .unzip();
    if watched.is_empty() && !inline() {
        return None;
    }
    // Both closures change the set passed to the kernel.
    let writable = std::cell::RefCell::new(asked[1].clone());
    let mut hide = |i: usize, hidden: bool| {
        let bit = places[i];
        let word = &mut writable.borrow_mut()[bit / WORD];
        *word = *word & !(1 << (bit % WORD)) | usize::from(!hidden) << (bit % WORD);
    };
    let mut ask = |time: *const timespec, held: *const sigset_t| {
        let writable = writable.borrow();
        for (set, words) in sets.iter().zip([&asked[0], &*writable, &asked[2]]) {
            for (i, word) in words.iter().enumerate() {
                // SAFETY: by contract.
                unsafe { set.cast::<usize>().add(i).write_unaligned(*word) };
            }
        }
        // SAFETY: the caller's sets.
        unsafe {
            (real().pselect)(
                count,
                sets[0],
                sets[1],
                sets[2],
                time,
                effective_mask(mask, held),
            )
        }
    };
    Some(wait(patience(), &watched, &mut hide, &mut ask))
}

/// epoll_ctl(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    epfd: c_int,
    op: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: null, or the caller's event.
    let asked = unsafe { event.as_ref() }.copied();
    // SAFETY: the caller's arguments, unchanged.
    let plain = || unsafe { (real().epoll_ctl)(epfd, op, fd, event) };
    let Some(process) = process::current() else {
        return plain();
    };
    let writes = asked.is_some_and(|e| e.events & libc::EPOLLOUT as u32 != 0);
    let found = if writes {
        controlled(fd)
    } else {
        controlled_already(fd)
    };
    let file = epoll_file(process, epfd);
    let guarded = found.and_then(|(conn, runtime)| {
        runtime.guarded(|| {
            conn.with_waker(|waker, shut| {
                waker.register(&file, op, fd, asked, shut, |report| {
                    let mut report = report;
                    let report = report.as_mut().map_or(null_mut(), from_mut);
                    // SAFETY: the caller's arguments, with our copy of the event.
                    unsafe { (real().epoll_ctl)(epfd, op, fd, report) }
                })
            })
        })
    });
    let rc = guarded.unwrap_or_else(|| {
        let rc = plain();
        if rc == 0 {
            super::epoll_registered(process, &file, op, fd, asked);
        }
        rc
    });
    if rc == 0 {
        epoll_found(process, epfd, &file);
    }
    rc
}

/// epoll_create(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: the caller's argument, unchanged.
    epoll_created(unsafe { (real().epoll_create)(size) })
}

/// epoll_create1(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the caller's argument, unchanged.
    epoll_created(unsafe { (real().epoll_create1)(flags) })
}

/// Records a new epoll instance, which may soon have other descriptors.
fn epoll_created(epfd: c_int) -> c_int {
    if epfd >= 0
        && let Some(process) = process::current()
    {
        preserving_errno(|| replace_known(process, epfd, Known::Epoll(EpollFile::new(epfd))));
    }
    epfd
}

/// Waits in epoll as `plain` does, until there is an event that was not reported before. If the
/// runtime's thread is missing or may stop, the wait is divided into turns, because only this
/// thread would restore EPOLLOUT. `real` waits once.
///
/// # Safety
/// `events` has room for the events of `plain` and `real`.
unsafe fn gated_epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    patience: Timeout,
    plain: impl FnOnce() -> c_int,
    real: &mut dyn FnMut(*const timespec, *const sigset_t) -> c_int,
) -> c_int {
    let Some(process) = process::current() else {
        return plain();
    };
    let in_turns = process.running().is_some_and(|runtime| {
        let once = patience.is_over() && !runtime.is_inline();
        if runtime.is_watched() && once {
            runtime.watch();
        }
        runtime.is_watched() && !once
    });
    let mut again = || wait(patience, &[], &mut |_, _| {}, real);
    let mut n = if in_turns { again() } else { plain() };
    loop {
        // A controlled registration may have been added during the wait.
        let some = usize::try_from(n).is_ok_and(|n| n > 0);
        if !some || !process.has_one_shots() {
            return n;
        }
        let file = epoll_file(process, epfd);
        // SAFETY: the kernel has filled them in.
        let kept = file.deliver(unsafe { std::slice::from_raw_parts_mut(events, n as usize) });
        if kept > 0 || patience.is_over() {
            return kept as c_int;
        }
        n = again();
    }
}

/// epoll_wait(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    epfd: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    let mut waits = |time, held| {
        // SAFETY: the caller's array.
        unsafe { (real().epoll_pwait)(epfd, events, count, millis(time), held) }
    };
    // SAFETY: the caller's arguments, unchanged.
    let plain = || unsafe { (real().epoll_wait)(epfd, events, count, timeout) };
    // SAFETY: the caller's array.
    unsafe { gated_epoll_wait(epfd, events, Timeout::of_millis(timeout), plain, &mut waits) }
}

/// epoll_pwait(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    epfd: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let mut waits = |time, held| {
        let mask = effective_mask(mask, held);
        // SAFETY: the caller's array and mask.
        unsafe { (real().epoll_pwait)(epfd, events, count, millis(time), mask) }
    };
    // SAFETY: the caller's arguments, unchanged.
    let plain = || unsafe { (real().epoll_pwait)(epfd, events, count, timeout, mask) };
    // SAFETY: the caller's array.
    unsafe { gated_epoll_wait(epfd, events, Timeout::of_millis(timeout), plain, &mut waits) }
}

/// epoll_pwait2(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    epfd: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let mut waits = |time, held| {
        let mask = effective_mask(mask, held);
        // SAFETY: the caller's array and mask.
        unsafe { (real().epoll_pwait2)(epfd, events, count, time, mask) }
    };
    // SAFETY: null or the caller's timeout.
    let given = unsafe { timeout.as_ref() };
    // SAFETY: the caller's arguments, unchanged.
    let plain = || unsafe { (real().epoll_pwait2)(epfd, events, count, timeout, mask) };
    if !is_valid(given) {
        return plain();
    }
    // SAFETY: the caller's array.
    unsafe { gated_epoll_wait(epfd, events, Timeout::of_timespec(given), plain, &mut waits) }
}

/// Converts a timeout to epoll's milliseconds, rounded up, so that a wait is never cut short.
///
/// # Safety
/// `time` is null or valid.
unsafe fn millis(time: *const timespec) -> c_int {
    // SAFETY: by contract.
    unsafe { time.as_ref() }.map_or(-1, |t| {
        let ms = t
            .tv_sec
            .saturating_mul(1000)
            .saturating_add((t.tv_nsec + 999_999) / 1_000_000);
        c_int::try_from(ms).unwrap_or(c_int::MAX)
    })
}
