// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limit of the data that a program may write ahead of a kernel that enforces the limit
//! (`TCP_NOTSENT_LOWAT`).
//!
//! The gate refuses a write for which there is no room in flight. If the kernel enforces the
//! window, no write is refused, and the data waits in the socket's buffer, which is delay that the
//! algorithm does not see. So the buffer is limited to little more than the data about to be sent.
//! To the program this looks like a small buffer: a write that waits, or EAGAIN and EPOLLOUT later.
use crate::kernel;
use alcc_units::{Rate, Span};
use std::os::fd::RawFd;

/// The value that the kernel's documentation and its users recommend, bytes.
const LEAST: u32 = 16 * 1024;
/// Time at the socket's rate that the limit covers. A program that is woken at half of the limit
/// has half of this time to write. On fast paths that is more than [`LEAST`].
const AHEAD: Span = Span::from_millis(4);
/// A limit of alcc is a power of two with these bits below, so that a child of the program with the
/// socket does not take it for the program's own limit.
const MARK: u32 = 0x5A5;

/// True if this limit, as the kernel reports it, is one of alcc's.
pub fn is_own_unsent_limit(bytes: u32) -> bool {
    bytes > LEAST && (bytes ^ MARK).is_power_of_two()
}

/// The power of two of the limit, without the mark.
fn exponent(rate: Rate) -> u8 {
    let ahead = u32::try_from(rate.bytes_in(AHEAD).get()).unwrap_or(u32::MAX);
    let limit = ahead.clamp(LEAST, 1 << 30).next_power_of_two();
    limit.trailing_zeros() as u8
}

/// The limit of one socket. It is a byte, because there are thousands of sockets.
#[derive(Default)]
pub(crate) struct UnsentLimit {
    /// The wanted limit, as [`exponent`] returns it, if the program has no limit of its own; 0:
    /// none.
    wanted: u8,
}

impl UnsentLimit {
    /// True if this rate needs another limit.
    pub(crate) fn is_due(&self, rate: Rate) -> bool {
        let wanted = exponent(rate);
        // A single step down is not worth the calls.
        wanted != self.wanted && wanted + 1 != self.wanted
    }

    /// Adapts the limit to the rate of the socket.
    pub(crate) fn follow(&mut self, fd: RawFd, rate: Rate) {
        if !self.is_due(rate) {
            return;
        }
        let wanted = exponent(rate);
        self.wanted = wanted;
        if kernel::unsent_limit(fd).is_some_and(|set| set == 0 || is_own_unsent_limit(set)) {
            kernel::set_unsent_limit(fd, 1 << wanted | MARK);
        }
    }

    /// The first limit, which an algorithm in the kernel follows from then on.
    pub(crate) fn begin(&mut self, fd: RawFd) {
        self.follow(fd, Rate::ZERO);
    }

    /// Restores the program's own limit at the end of control.
    pub(crate) fn restore(&mut self, fd: RawFd) {
        if std::mem::take(&mut self.wanted) != 0
            && kernel::unsent_limit(fd).is_some_and(is_own_unsent_limit)
        {
            kernel::set_unsent_limit(fd, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    fn limit(rate: Rate) -> u32 {
        1 << exponent(rate)
    }

    #[test]
    fn it_is_four_milliseconds_and_sixteen_kilobytes_at_least() {
        for (mbps, bytes) in [(0, 16), (32, 16), (33, 32), (200, 128), (2000, 1024)] {
            assert_eq!(limit(Rate::mbps(mbps)), bytes << 10, "{mbps} Mbit/s");
        }
        assert_eq!(limit(Rate::MAX), 1 << 30);
    }

    #[test]
    fn a_limit_of_ours_is_known_again_and_a_programs_is_not() {
        for mbps in [0, 12, 100, 10_000, 1_000_000] {
            assert!(is_own_unsent_limit(limit(Rate::mbps(mbps)) | MARK));
        }
        let asked = (0..2000).map(|n| n * 1000).chain((0..32).map(|n| 1 << n));
        assert!(!asked.chain([u32::MAX]).any(is_own_unsent_limit));
    }

    #[test]
    fn what_the_program_has_set_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fd = socket.as_raw_fd();
        let is_set = || kernel::unsent_limit(fd).unwrap();
        let mut ours = UnsentLimit::default();
        ours.follow(fd, Rate::mbps(1));
        assert_eq!(is_set(), LEAST | MARK);
        ours.follow(fd, Rate::mbps(200));
        assert_eq!(is_set(), 128 << 10 | MARK);
        ours.follow(fd, Rate::mbps(120));
        assert_eq!(is_set(), 128 << 10 | MARK, "one step down");
        ours.follow(fd, Rate::mbps(40));
        assert_eq!(is_set(), 32 << 10 | MARK);
        // A child's runtime finds it, and gives it back.
        let mut childs = UnsentLimit::default();
        childs.follow(fd, Rate::mbps(1));
        assert_eq!(is_set(), LEAST | MARK);
        childs.restore(fd);
        assert_eq!(is_set(), 0);
        ours.follow(fd, Rate::mbps(1));
        kernel::set_unsent_limit(fd, 5000);
        ours.follow(fd, Rate::mbps(200));
        assert_eq!(is_set(), 5000);
        ours.restore(fd);
        assert_eq!(is_set(), 5000);
    }
}
