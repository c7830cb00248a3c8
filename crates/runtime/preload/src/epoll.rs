// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Telling a program that waits in epoll that it may write again.
//!
//! The socket itself is nearly always writable: the kernel's buffer is far from full. So while the
//! gate is shut, the registration that the kernel has lacks EPOLLOUT. When it opens, the program's
//! own is put back. That reports the event afresh, edge-triggered or not.
use crate::process;
use crate::real::real;
use alcc_socket::Waker;
use libc::{c_int, epoll_event};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

const OUT: u32 = libc::EPOLLOUT as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// A program's epoll registrations of one connection.
#[derive(Default)]
pub(crate) struct Epoll {
    registrations: Vec<Registration>,
    /// There has been one. A program that waited for it in epoll will do so again. asyncio removes
    /// its registration before it sends a file, and makes another after EAGAIN.
    known: bool,
}

struct Registration {
    epfd: RawFd,
    fd: RawFd,
    events: u32,
    data: u64,
    /// The kernel's registration lacks EPOLLOUT.
    masked_out: bool,
}

impl Registration {
    /// Tells the kernel the program's events, without EPOLLOUT if `masked_out`.
    fn apply(&mut self, masked_out: bool) {
        self.masked_out = masked_out;
        let mut event = epoll_event {
            events: Epoll::masked(self.events, masked_out),
            u64: self.data,
        };
        let mut control = |op| {
            // SAFETY: `event` is valid; a descriptor that is gone gives an error, which is the
            // program's doing.
            unsafe { (real().epoll_ctl)(self.epfd, op, self.fd, &raw mut event) };
        };
        if self.is(EXCLUSIVE) {
            // The kernel lets nobody change such a registration.
            control(libc::EPOLL_CTL_DEL);
            control(libc::EPOLL_CTL_ADD);
        } else {
            control(libc::EPOLL_CTL_MOD);
        }
    }

    fn is(&self, flags: u32) -> bool {
        self.events & flags != 0
    }
}

impl Epoll {
    /// The events to register with the kernel when the program asks for `events`.
    pub(crate) fn masked(events: u32, shut: bool) -> u32 {
        if shut { events & !OUT } else { events }
    }

    /// The program's registration was accepted by the kernel; `masked_out`: without EPOLLOUT.
    pub(crate) fn record(
        &mut self,
        epfd: RawFd,
        op: c_int,
        fd: RawFd,
        event: Option<epoll_event>,
        masked_out: bool,
    ) {
        self.registrations.retain(|r| (r.epfd, r.fd) != (epfd, fd));
        if let Some(event) = event.filter(|_| op != libc::EPOLL_CTL_DEL) {
            self.known = true;
            // There is hardly ever a second one.
            self.registrations.reserve_exact(1);
            self.registrations.push(Registration {
                epfd,
                fd,
                events: event.events,
                data: event.u64,
                masked_out,
            });
        }
    }
}

impl Waker for Epoll {
    fn can_wake(&self) -> bool {
        self.known || process::current().is_some_and(|p| p.polls.load(Ordering::Relaxed))
    }

    fn on_blocked(&mut self) {
        // Neither an edge-triggered registration nor one that reported once says anything more by
        // itself; a level-triggered one would for ever.
        for r in &mut self.registrations {
            if r.is(OUT) && !r.is(EDGE | ONCE) {
                r.apply(true);
            }
        }
    }

    fn on_writable(&mut self) {
        // The program itself arms a one-shot registration again. This only completes what it armed
        // while the gate was shut.
        for r in &mut self.registrations {
            if r.is(OUT) && (r.masked_out || !r.is(ONCE)) {
                r.apply(false);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.registrations.extend(other.registrations);
        self.known |= other.known;
    }

    fn on_close(&mut self, fd: RawFd) {
        self.registrations.retain(|r| r.fd != fd);
    }
}
