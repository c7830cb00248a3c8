// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Input and output of bytes, and waiting for them.
use crate::clock::{Wall, now};
use crate::error::errno;
use crate::stamps::arrival;
use alcc_units::Time;
use libc::c_int;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Sends the pieces without waiting and without SIGPIPE. Returns the number of bytes taken, or
/// errno. `stamped`: requests a time stamp of the acknowledgement of the last byte, to which the
/// kernel then appends nothing (MSG_EOR). Otherwise the stamp would wait for the bytes after it.
pub fn send(fd: RawFd, pieces: [&[u8]; 4], stamped: bool) -> Result<usize, c_int> {
    #[repr(C, align(8))]
    struct Control {
        header: libc::cmsghdr,
        flags: u32,
    }
    let vector = pieces.map(|piece| libc::iovec {
        iov_base: piece.as_ptr().cast_mut().cast(),
        iov_len: piece.len(),
    });
    // SAFETY: zero is valid for both: integers and pointers.
    let (mut msg, mut control): (libc::msghdr, Control) = unsafe { (zeroed(), zeroed()) };
    msg.msg_iov = vector.as_ptr().cast_mut();
    msg.msg_iovlen = vector.len() as _;
    let mut flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    if stamped {
        // SAFETY: computes a length.
        control.header.cmsg_len = unsafe { libc::CMSG_LEN(size_of::<u32>() as u32) } as _;
        control.header.cmsg_level = libc::SOL_SOCKET;
        control.header.cmsg_type = libc::SO_TIMESTAMPING;
        control.flags = libc::SOF_TIMESTAMPING_TX_ACK;
        msg.msg_control = (&raw mut control).cast();
        msg.msg_controllen = size_of::<Control>() as _;
        flags |= libc::MSG_EOR;
    }
    // SAFETY: the vector describes borrowed bytes, which are only read; the control buffer outlives
    // the call. By system call, because `alcc run` may interpose sendmsg: two algorithms would
    // control the same bytes.
    let n = unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const msg, flags) };
    usize::try_from(n).map_err(|_| errno())
}

/// Waits until the socket takes bytes, without being interrupted by a signal. False if that did not
/// happen in time.
pub fn wait_writable(fd: RawFd, until: Time) -> bool {
    let remaining = until.since(now()).as_nanos();
    let time = libc::timespec {
        tv_sec: (remaining / 1_000_000_000) as _,
        tv_nsec: (remaining % 1_000_000_000) as _,
    };
    let mut ready = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one descriptor, a timeout and a set of all signals that outlive the call.
    unsafe {
        let mut all = zeroed();
        libc::sigfillset(&raw mut all);
        libc::ppoll(&raw mut ready, 1, &raw const time, &raw const all) > 0
            && ready.revents & libc::POLLOUT != 0
    }
}

/// Waits until the descriptor is ready for `events`, until the waker is used, or until `until`.
/// With zero events it does not wait for the descriptor. True if the descriptor is ready.
pub fn wait(fd: RawFd, events: i16, waker: Option<&Waker>, until: Option<Time>) -> bool {
    let remaining = until.map(|until| until.since(now()).as_nanos());
    let time = remaining.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as _,
    });
    let limit = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let watched = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // poll(2) ignores a negative descriptor. Otherwise an error on it would end a wait that is only
    // for the time.
    let mut ready = [
        watched(if events == 0 { -1 } else { fd }, events),
        watched(waker.map_or(-1, |waker| waker.0.as_raw_fd()), libc::POLLIN),
    ];
    // SAFETY: two descriptors and a timeout that outlive the call. A signal ends it early, which is
    // harmless.
    let n = unsafe { libc::ppoll(ready.as_mut_ptr(), 2, limit, std::ptr::null()) };
    if n > 0
        && ready[1].revents != 0
        && let Some(waker) = waker
    {
        waker.clear();
    }
    n > 0 && ready[0].revents != 0
}

/// Wakes a thread that waits for a descriptor.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Creates a waker; `None` if no descriptors are left.
    pub fn new() -> Option<Self> {
        // SAFETY: no pointers; the descriptor is new, with no other owner.
        unsafe {
            let waker = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            (waker >= 0).then(|| Self(OwnedFd::from_raw_fd(waker)))
        }
    }

    /// Wakes the thread that waits for it.
    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: eight bytes, as an eventfd requires.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Consumes the wake-up.
    pub fn clear(&self) {
        let mut held = 0u64;
        // SAFETY: eight bytes, and it does not block.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut held).cast(), 8) };
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Reads from a socket without waiting. Returns the number of bytes, and the arrival time of the
/// last ones if the kernel records it ([`crate::stamp_arrivals`]).
///
/// # Errors
/// The errors of recvmsg(2); `WouldBlock` if no data is available.
pub fn receive(fd: RawFd, into: &mut [u8], stamped: bool) -> io::Result<(usize, Option<Time>)> {
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
    let n = unsafe { libc::recvmsg(fd, &raw mut msg, libc::MSG_DONTWAIT) };
    let len = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    let wall = stamped.then(|| arrival(&msg)).flatten();
    Ok((len, wall.map(|at| Wall::read().monotonic(at))))
}

/// A set of descriptors that a loop waits for, with a waker.
#[derive(Debug)]
pub struct Epoll {
    epoll: OwnedFd,
    waker: Waker,
}

/// Maximum number of events taken at once.
const MAX_EVENTS: usize = 64;
/// Key of the waker; no descriptor is watched under it.
const WAKER: u64 = u64::MAX;

impl Epoll {
    /// Creates a set; `None` if no descriptors are left.
    pub fn new() -> Option<Self> {
        // SAFETY: no pointers; the descriptor is new, with no other owner.
        let epoll = unsafe {
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            (epoll >= 0).then(|| OwnedFd::from_raw_fd(epoll))
        }?;
        let made = Self {
            epoll,
            waker: Waker::new()?,
        };
        made.watch(made.waker.as_raw_fd(), WAKER, libc::EPOLLIN as u32);
        Some(made)
    }

    /// Ends the current wait, or the next one.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Makes the descriptor end one wait when it is readable or at its end; `key` is then passed to
    /// the caller.
    pub fn watch_once(&self, fd: RawFd, key: u64) {
        let events = libc::EPOLLIN | libc::EPOLLONESHOT | libc::EPOLLRDHUP;
        self.watch(fd, key, events as u32);
    }

    fn watch(&self, fd: RawFd, key: u64, events: u32) {
        let mut event = libc::epoll_event { events, u64: key };
        let epoll = self.epoll.as_raw_fd();
        // SAFETY: the event outlives the calls. A descriptor that is watched already gets the new
        // key.
        unsafe {
            if libc::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, &raw mut event) < 0 {
                libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event);
            }
        }
    }

    /// Waits until a descriptor is ready, until the waker is used, or until `until`; calls `ready`
    /// for each key.
    pub fn wait(&self, until: Option<Time>, mut ready: impl FnMut(u64)) {
        // epoll_wait(2) has a resolution of milliseconds only.
        if !wait(self.epoll.as_raw_fd(), libc::POLLIN, None, until) {
            return;
        }
        // SAFETY: zero is a valid event.
        let mut events: [libc::epoll_event; MAX_EVENTS] = unsafe { zeroed() };
        // SAFETY: the array has the length given.
        let n = unsafe {
            let at = events.as_mut_ptr();
            libc::epoll_wait(self.epoll.as_raw_fd(), at, MAX_EVENTS as c_int, 0)
        };
        for event in events.iter().take(usize::try_from(n).unwrap_or(0)) {
            match event.u64 {
                WAKER => self.waker.clear(),
                key => ready(key),
            }
        }
    }
}
