// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's time stamps: of arriving bytes, and of the acknowledgement of sent bytes.
//!
//! The latter is `SO_TIMESTAMPING` with `TX_ACK`, read from the socket's error queue. An option
//! sets the form of notifications; each write requests one or not ([`crate::send`]). It comes when
//! the last byte of the write is acknowledged, with the wall-clock time and the number of that
//! byte: 32 bits, counted from the position at which the option was set. Notifications are dropped
//! when the receive buffer is full, so a number counts as cumulative. Numbers wrap after 4 GiB.
use crate::clock::{Wall, nanos};
use crate::socket::set_option;
use alcc_flow::AckStamp;
use alcc_units::Span;
use libc::{c_int, c_void};
use std::mem::{size_of, zeroed};
use std::os::fd::RawFd;

/// `SOF_TIMESTAMPING_OPT_ID_TCP` (linux/net_tstamp.h, Linux 6.2). Numbers count from the stream
/// position at which the option was set. Without it they count from the first byte that is
/// unacknowledged then.
const OPT_ID_TCP: u32 = 1 << 16;
/// `SCM_TSTAMP_ACK` (linux/errqueue.h).
const TSTAMP_ACK: u32 = 2;
/// Maximum number of notifications per reading. The others wait for the next one.
const MAX_PER_READING: usize = 4096;
/// The wall clock counts as set if it moved by more than this against the monotonic clock between
/// two readings.
const MAX_CLOCK_STEP: Span = Span::from_millis(2);

/// The notifications of one connection.
#[derive(Debug)]
pub struct Stamps {
    /// Stream position of the kernel's number 0.
    base: u64,
    /// The clock offset at the last reading.
    wall: Option<Wall>,
    list: Vec<AckStamp>,
}

impl Stamps {
    /// Prepares the kernel for notifications on a connection with `written` bytes written; `None`
    /// if it refuses.
    pub fn enable(fd: RawFd, written: u64) -> Option<Self> {
        let flags = libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY
            | OPT_ID_TCP;
        set(fd, flags).then_some(Self {
            base: written,
            wall: None,
            list: Vec::new(),
        })
    }

    /// Disables notifications.
    pub fn disable(fd: RawFd) {
        set(fd, 0);
    }

    /// Takes the notifications since the last reading. All positions are near `acked`.
    pub fn drain(&mut self, fd: RawFd, acked: u64) -> &[AckStamp] {
        self.list.clear();
        let now = Wall::read();
        let stepped = self
            .wall
            .is_some_and(|before| now.moved(before) > MAX_CLOCK_STEP);
        self.wall = Some(now);
        for _ in 0..MAX_PER_READING {
            let Some((key, wall)) = next(fd) else { break };
            let position = unwrap(self.base, key, acked);
            let at = now.monotonic(wall);
            // Out of order or from before a step of the clock: the counter is used instead.
            if !stepped && self.list.last().is_none_or(|last| last.acked < position) {
                self.list.push(AckStamp {
                    acked: position,
                    at,
                });
            }
        }
        if self.list.capacity() > 256 && self.list.len() < 64 {
            self.list.shrink_to(64);
        }
        &self.list
    }
}

/// The position after byte number `key`: among those with this number in 32 bits, the one nearest
/// to `acked`.
fn unwrap(base: u64, key: u32, acked: u64) -> u64 {
    let end = (base as u32).wrapping_add(key).wrapping_add(1);
    let ahead = end.wrapping_sub(acked as u32) as i32;
    acked.saturating_add_signed(i64::from(ahead))
}

fn set(fd: RawFd, flags: u32) -> bool {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
}

/// Enables time stamps of arriving bytes, for [`crate::receive`]. False if the kernel refuses.
pub fn stamp_arrivals(fd: RawFd) -> bool {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
}

/// The wall-clock time in a received message's ancillary data, ns.
pub(crate) fn arrival(msg: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel filled the control buffer; the macros stay within `msg_controllen`, and
    // the time is read unaligned within the length that its header gives.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(msg);
        while let Some(header) = at.as_ref() {
            let room = header.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            if header.cmsg_level == libc::SOL_SOCKET
                && header.cmsg_type == libc::SCM_TIMESTAMPNS
                && room >= size_of::<libc::timespec>()
            {
                let ts = libc::CMSG_DATA(at).cast::<libc::timespec>();
                return Some(nanos(ts.read_unaligned()));
            }
            at = libc::CMSG_NXTHDR(msg, at);
        }
    }
    None
}

/// The next notification: the number and the wall-clock time in ns. `None` if there is none.
fn next(fd: RawFd) -> Option<(u32, i64)> {
    #[repr(align(8))]
    struct Control([u8; 256]);
    loop {
        let mut control = Control([0; 256]);
        // SAFETY: all-zero is a valid msghdr.
        let mut msg: libc::msghdr = unsafe { zeroed() };
        msg.msg_control = control.0.as_mut_ptr().cast::<c_void>();
        msg.msg_controllen = control.0.len() as _;
        // SAFETY: no data buffer, and a control buffer with its length.
        let n = unsafe { libc::recvmsg(fd, &raw mut msg, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
        if n < 0 {
            return None;
        }
        if let Some(found) = notification(&msg) {
            return Some(found);
        }
        // Another notification that the program enabled (IP_RECVERR): not ours, and lost by this
        // reading.
    }
}

fn notification(msg: &libc::msghdr) -> Option<(u32, i64)> {
    let (mut key, mut wall) = (None, None);
    // SAFETY: the kernel filled the control buffer; the macros stay within `msg_controllen`, and
    // data is read unaligned within the length that its header gives.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(msg);
        while let Some(header) = at.as_ref() {
            let (data, len) = (
                libc::CMSG_DATA(at),
                header.cmsg_len - libc::CMSG_LEN(0) as usize,
            );
            match (header.cmsg_level, header.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING)
                    if len >= size_of::<libc::timespec>() =>
                {
                    wall = Some(nanos(data.cast::<libc::timespec>().read_unaligned()));
                }
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                    if len >= size_of::<libc::sock_extended_err>() =>
                {
                    let e = data.cast::<libc::sock_extended_err>().read_unaligned();
                    let ours = e.ee_errno == libc::ENOMSG as u32
                        && c_int::from(e.ee_origin) == c_int::from(libc::SO_EE_ORIGIN_TIMESTAMPING)
                        && e.ee_info == TSTAMP_ACK;
                    key = ours.then_some(e.ee_data);
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(msg, at);
        }
    }
    key.zip(wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_32_bits_are_unwrapped_near_what_is_acknowledged() {
        assert_eq!(unwrap(0, 1447, 0), 1448);
        assert_eq!(unwrap(500, 1447, 600), 1948);
        // The last byte before the wrap, and the first after it.
        let wrap = 1u64 << 32;
        assert_eq!(unwrap(0, u32::MAX, wrap - 1448), wrap);
        assert_eq!(unwrap(0, 0, wrap - 1448), wrap + 1);
        // Two wraps: 9 GiB.
        assert_eq!(unwrap(1, 1447, 2 * wrap + 1), 2 * wrap + 1449);
        // A stamp that is behind the counter.
        assert_eq!(unwrap(0, u32::MAX, wrap + 10), wrap);
    }
}
