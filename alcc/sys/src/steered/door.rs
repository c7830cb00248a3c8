// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Access to the values of the maps by socket options, see `door.bpf.c`.
use super::{Feed, Knobs, SAMPLES, Sample};
use crate::socket::{Plain, get_option, set_option};
use libc::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const LEVEL: c_int = 0x414c_4343;
const STEER: c_int = 1;
const FEED: c_int = 2;
const WHICH: c_int = 3;

/// `struct steer`.
#[repr(C)]
struct Wish {
    beat: u32,
    window: u32,
    until: u32,
    unused: u32,
    rate: u64,
}

/// `struct told`.
#[derive(Default)]
#[repr(C)]
struct Told {
    cwnd: u32,
    unused: u32,
    acks: u64,
    samples: [Sample; SAMPLES],
}

// SAFETY: integers without gaps, which are valid for any bytes.
unsafe impl Plain for Wish {}
// SAFETY: as above.
unsafe impl Plain for Told {}

/// Version of the options: the sizes of both structures.
pub(super) const VERSION: u32 = ((size_of::<Wish>() << 16) | size_of::<Told>()) as u32;

/// Version of the options that new sockets of this process have. `None`: they have none.
///
/// # Errors
/// The error of creating a socket.
pub(super) fn version() -> io::Result<Option<u32>> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers. By system call, because we may interpose socket ourselves.
    let fd = unsafe { libc::syscall(libc::SYS_socket, libc::AF_INET, kind, libc::IPPROTO_TCP) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor from the kernel.
    let socket = unsafe { OwnedFd::from_raw_fd(fd as c_int) };
    let mut version = 0u32;
    let answer = get_option(socket.as_raw_fd(), LEVEL, WHICH, &mut version);
    Ok(answer.map(|_| version))
}

pub(super) fn steer(fd: RawFd, knobs: &Knobs) -> io::Result<()> {
    let wish = Wish {
        beat: knobs.beat,
        window: knobs.window,
        until: knobs.until,
        unused: 0,
        rate: knobs.rate,
    };
    match set_option(fd, LEVEL, STEER, &wish) {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}

pub(super) fn read(fd: RawFd, feed: &mut Feed) -> io::Result<()> {
    let mut told = Told::default();
    get_option(fd, LEVEL, FEED, &mut told).ok_or_else(io::Error::last_os_error)?;
    (feed.cwnd, feed.acks, feed.samples) = (told.cwnd, told.acks, told.samples);
    Ok(())
}
