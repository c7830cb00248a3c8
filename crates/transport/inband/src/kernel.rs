// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The few things we ask of the kernel.
use crate::carrier::Arrived;
use alcc_units::Time;
use libc::{c_int, c_void, socklen_t};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Linux's ioctl for bytes written and not sent (linux/sockios.h).
const SIOCOUTQNSD: libc::c_ulong = 0x894B;
/// A TCP socket takes no more while so much is unsent.
const UNSENT: c_int = 8 * 1024;
/// A connection on which nothing comes is asked after so many seconds, again and again, and given up after so many questions: an end that
/// only receives would never notice a peer that is gone. Together as long as a session waits for an answer.
const KEEP_ALIVE: [(c_int, c_int); 3] = [
    (libc::TCP_KEEPIDLE, 60),
    (libc::TCP_KEEPINTVL, 15),
    (libc::TCP_KEEPCNT, 4),
];

fn clock(id: libc::clockid_t) -> u64 {
    let mut ts = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid out pointer; the clocks that we ask for always exist.
    unsafe { libc::clock_gettime(id, &raw mut ts) };
    ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64
}

/// The monotonic clock.
pub(crate) fn now() -> Time {
    Time::from_nanos(clock(libc::CLOCK_MONOTONIC))
}

/// Waits until the descriptor is ready for `events`, until somebody rings the bell, or until then. Zero events: not for the descriptor. True if
/// it is ready.
pub(crate) fn wait(fd: RawFd, events: i16, bell: Option<RawFd>, until: Option<Time>) -> bool {
    let left = until.map(|until| until.since(now()).as_nanos());
    let time = left.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as _,
    });
    let limit = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let watched = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // A negative one is ignored: not even an error wakes who waits for the time.
    let mut ready = [
        watched(if events == 0 { -1 } else { fd }, events),
        watched(bell.unwrap_or(-1), libc::POLLIN),
    ];
    // SAFETY: two descriptors and a timeout that outlive the call. A signal ends it early, which is no harm.
    let n = unsafe { libc::ppoll(ready.as_mut_ptr(), 2, limit, std::ptr::null()) };
    if n > 0
        && ready[1].revents != 0
        && let Some(bell) = bell
    {
        silence(bell);
    }
    n > 0 && ready[0].revents != 0
}

/// What wakes a thread that waits for a descriptor; `None`: there are no descriptors left.
pub(crate) fn bell() -> Option<OwnedFd> {
    // SAFETY: no pointers; the descriptor is new and nobody else's.
    unsafe {
        let bell = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
        (bell >= 0).then(|| OwnedFd::from_raw_fd(bell))
    }
}

/// Wakes who waits for it.
pub(crate) fn ring(bell: RawFd) {
    let one = 1u64;
    // SAFETY: eight bytes, as an eventfd wants.
    unsafe { libc::write(bell, (&raw const one).cast(), 8) };
}

/// It has been heard.
pub(crate) fn silence(bell: RawFd) {
    let mut held = 0u64;
    // SAFETY: eight bytes, and it does not block.
    unsafe { libc::read(bell, (&raw mut held).cast(), 8) };
}

/// A thread made in `spawn` takes no signals: they are the program's. It has them blocked from its first instruction on.
pub(crate) fn without_signals<T>(spawn: impl FnOnce() -> T) -> T {
    // SAFETY: plain signal-set calls on local sets; the mask is given back.
    unsafe {
        let (mut all, mut before) = (zeroed(), zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let made = spawn();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        made
    }
}

/// Bytes written and not sent.
pub(crate) fn unsent(fd: RawFd) -> u64 {
    let mut n: c_int = 0;
    // SAFETY: the request stores an int.
    let rc = unsafe { libc::ioctl(fd, SIOCOUTQNSD as _, &raw mut n) };
    if rc == 0 {
        u64::try_from(n).unwrap_or(0)
    } else {
        0
    }
}

fn set<T>(fd: RawFd, level: c_int, name: c_int, value: &T) -> bool {
    // SAFETY: pointer and length describe a value that outlives the call.
    let rc = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            std::ptr::from_ref(value).cast::<c_void>(),
            size_of::<T>() as socklen_t,
        )
    };
    rc == 0
}

/// Makes the kernel keep little and send it at once, and look after a silent peer.
pub(crate) fn prepare(tcp: RawFd) {
    set(tcp, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1);
    set(tcp, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &UNSENT);
    set(tcp, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1);
    for (name, value) in KEEP_ALIVE {
        set(tcp, libc::IPPROTO_TCP, name, &value);
    }
}

/// The segment size.
pub(crate) fn segment(tcp: BorrowedFd<'_>) -> Option<usize> {
    let mut mss: c_int = 0;
    let mut len = size_of::<c_int>() as socklen_t;
    // SAFETY: pointer and length describe an int.
    let rc = unsafe {
        libc::getsockopt(
            tcp.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_MAXSEG,
            (&raw mut mss).cast(),
            &raw mut len,
        )
    };
    (rc == 0).then(|| usize::try_from(mss).ok()).flatten()
}

/// Has the kernel note when bytes come in, for [`receive`]. False if it refuses.
pub fn stamp_arrivals(fd: BorrowedFd<'_>) -> bool {
    set(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
}

/// Reads from a socket, and with the time at which the last bytes came in if the kernel was told to note it.
///
/// # Errors
/// As recvmsg(2); `WouldBlock` when nothing is there.
pub fn receive(fd: BorrowedFd<'_>, into: &mut [u8], stamped: bool) -> io::Result<Arrived> {
    #[repr(align(8))]
    struct Control([u8; 128]);
    let mut control = Control([0; 128]);
    let mut piece = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    // SAFETY: all-zero is a valid msghdr.
    let mut msg: libc::msghdr = unsafe { zeroed() };
    msg.msg_iov = &raw mut piece;
    msg.msg_iovlen = 1;
    if stamped {
        msg.msg_control = control.0.as_mut_ptr().cast();
        msg.msg_controllen = control.0.len() as _;
    }
    // SAFETY: the message describes buffers that outlive the call, with their lengths.
    let n = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut msg, libc::MSG_DONTWAIT) };
    let len = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let wall = stamped.then(|| stamp(&msg)).flatten();
    Ok(Arrived {
        len,
        at: wall.map(monotonic),
        last: len < into.len(),
    })
}

/// The wall-clock time in a received message's ancillary data, ns.
fn stamp(msg: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel filled the control buffer; the macros stay within `msg_controllen`, and the time is read unaligned
    // within the length that its header gives.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(msg);
        while let Some(header) = at.as_ref() {
            let room = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            if header.cmsg_level == libc::SOL_SOCKET
                && header.cmsg_type == libc::SCM_TIMESTAMPNS
                && room >= size_of::<libc::timespec>()
            {
                let ts = libc::CMSG_DATA(at)
                    .cast::<libc::timespec>()
                    .read_unaligned();
                return Some(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64);
            }
            at = libc::CMSG_NXTHDR(msg, at);
        }
    }
    None
}

/// A moment of the wall clock that is not long ago, by the monotonic clock; never later than now.
fn monotonic(wall: u64) -> Time {
    let ago = clock(libc::CLOCK_REALTIME).saturating_sub(wall);
    let now = clock(libc::CLOCK_MONOTONIC);
    Time::from_nanos(now.saturating_sub(ago))
}
