// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocking waits of handshakes, each with a deadline.
use alcc_inband::carrier::{Arrived, Carrier};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The time at which a handshake is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(patience: Duration) -> Self {
        let now = Instant::now();
        // A time beyond the range of the clock is replaced by a day.
        Self(
            now.checked_add(patience)
                .unwrap_or(now + Duration::from_secs(86_400)),
        )
    }

    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

fn ready(fd: BorrowedFd<'_>, what: PollFlags, deadline: Deadline) -> io::Result<()> {
    loop {
        // Rounded up: with a wait that ends just before the deadline, the loop would spin.
        let remaining = deadline.remaining().as_micros().div_ceil(1000);
        if remaining == 0 {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        }
        let timeout = PollTimeout::try_from(remaining).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(fd, what)], timeout) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(why) => return Err(why.into()),
        }
    }
}

/// Waits until the stream is readable, or writable if it has data to write.
pub(crate) fn readable(stream: &dyn Carrier, deadline: Deadline) -> io::Result<()> {
    let mut what = PollFlags::POLLIN;
    if stream.wants_write() {
        what |= PollFlags::POLLOUT;
    }
    ready(stream.fd(), what, deadline)
}

/// Waits until a descriptor is writable.
pub(crate) fn writable(fd: BorrowedFd<'_>, deadline: Deadline) -> io::Result<()> {
    ready(fd, PollFlags::POLLOUT, deadline)
}

/// Reads once, blocking until there is data; no bytes mean the end.
pub(crate) fn read(
    stream: &mut dyn Carrier,
    buf: &mut [u8],
    deadline: Deadline,
) -> io::Result<Arrived> {
    loop {
        match stream.read(buf) {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => readable(stream, deadline)?,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// A stream that blocks during the handshake of a layer above it, and not after that. It implements
/// the traits of `std::io`, which the layers' crates require.
pub(crate) struct DeadlineCarrier {
    below: Box<dyn Carrier>,
    deadline: Option<Deadline>,
    /// Result of the last read.
    pub(crate) arrived: Arrived,
}

impl DeadlineCarrier {
    pub(crate) fn until(deadline: Deadline, below: Box<dyn Carrier>) -> Self {
        Self {
            below,
            deadline: Some(deadline),
            arrived: Arrived {
                len: 0,
                at: None,
                last: false,
            },
        }
    }

    /// Ends blocking: from here on reads and writes return `WouldBlock`.
    pub(crate) fn no_more(&mut self) {
        self.deadline = None;
    }

    pub(crate) fn below(&self) -> &dyn Carrier {
        &*self.below
    }

    pub(crate) fn below_mut(&mut self) -> &mut dyn Carrier {
        &mut *self.below
    }
}

impl Read for DeadlineCarrier {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.arrived = match self.deadline {
            Some(deadline) => read(&mut *self.below, buf, deadline)?,
            None => self.below.read(buf)?,
        };
        Ok(self.arrived.len)
    }
}

impl Write for DeadlineCarrier {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match (self.below.write(bufs), self.deadline) {
                (Err(why), Some(deadline)) if why.kind() == io::ErrorKind::WouldBlock => {
                    writable(self.below.fd(), deadline)?;
                }
                (other, _) => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        loop {
            match (self.below.flush(), self.deadline) {
                (Err(why), Some(deadline)) if why.kind() == io::ErrorKind::WouldBlock => {
                    writable(self.below.fd(), deadline)?;
                }
                (other, _) => return other,
            }
        }
    }
}
