// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that wait for an engine, in a program whose clock_gettime(2) is interposed as libfaketime
//! does it: the monotonic clock follows the wall clock.
use alcc_driver::{Engine, Shared};
use alcc_sys::now;
use alcc_units::{Span, Time};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// The C library's name comes first in the program itself: the standard library reads this clock.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    at: *mut libc::timespec,
) -> libc::c_int {
    let clock = match clock {
        libc::CLOCK_MONOTONIC => libc::CLOCK_REALTIME,
        other => other,
    };
    // SAFETY: the caller's pointer.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, at) as libc::c_int }
}

/// Nothing ever comes.
struct Silent;

impl Engine for Silent {
    type Want = ();

    fn may_have(&self, (): ()) -> bool {
        false
    }

    fn interest(&self, _now: Time) -> (i16, Option<Time>) {
        (libc::POLLIN, None)
    }

    fn on_wake(&mut self, _now: Time, _due: Option<Time>, _ready: bool) {}
}

#[test]
fn a_follower_wakes_in_time() {
    let (socket, _peer) = UnixStream::pair().unwrap();
    let shared = Shared::new(Silent, socket.as_raw_fd());
    let shared = Arc::new(shared.with_waker().unwrap());
    let sleep_for = |shared: &Shared<Silent>, span| {
        drop(shared.sleep(shared.lock(), (), Some(now() + span)));
    };
    let leads = Arc::clone(&shared);
    std::thread::spawn(move || sleep_for(&leads, Span::from_secs(20)));
    while !shared.lock().has_leader(now()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    // In a thread that is not joined: with a wrong clock it would sleep forever.
    let follows = std::thread::spawn(move || sleep_for(&shared, Span::from_millis(50)));
    let until = now() + Span::from_secs(5);
    while !follows.is_finished() {
        assert!(now() < until, "it still sleeps");
        std::thread::sleep(Duration::from_millis(1));
    }
}
